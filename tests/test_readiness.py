"""The verdict on a baseline run: four canned runs told apart, and each rule by itself."""

from __future__ import annotations

import json
import random
import subprocess
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcp.server.mcpserver.exceptions import ToolError
from scipy.stats import binomtest

from canned_runs import Episode, episode, failed, write_run
from commands import BIN, environment, eval_config, run
from nowcast_alfred import NowcastTaskset, served
from nowcast_alfred.errors import InputError
from nowcast_alfred.lab import readiness
from nowcast_alfred.lab.groups import components, share_interval, standard_error
from nowcast_alfred.lab.policy import PolicyServer, answer, rule
from nowcast_alfred.lab.readiness import RANGES, Facts, Verdict, facts_of, groups_needed, judge
from nowcast_alfred.lab.traces import read_run
from nowcast_alfred.locate import embedded_store
from nowcast_alfred.prompts import oracle
from nowcast_alfred.rewards import Scored, outcome
from nowcast_alfred.taskset import NowcastConfig
from nowcast_alfred.tools import REFUSED, UNREADABLE
from panels import small_store
from rollouts import score
from test_tool_hardening import over_mcp

SPREAD = (0.2, 0.5, 0.8, 1.4)


def run_of(*forecasts: float | None, groups: int = 16, **more: Any) -> list[Episode]:
    """The same group of forecasts for so many tasks."""
    return [episode(f"task {n}", f, **more) for n in range(groups) for f in forecasts]


def served_error() -> str:
    """What a tool says of a question that cannot be answered."""
    return served.series(small_store().view("2014-06-30"), "NOPE")


def mcp_error() -> str:
    """What MCP says of arguments it cannot pass on, as our server words it."""
    with pytest.raises(ToolError) as caught:
        over_mcp("series", {})
    return str(caught.value)


SILENT = run_of(None, None, None, None)
CONSTANT = run_of(1.2, 1.2, 1.2, 1.2)
GOOD = run_of(*SPREAD)
HALF = run_of(0.5, None, None, 0.8, reason="not a number: about 200K")


def read(folder: Path, episodes: list[Episode]) -> tuple[Facts, Verdict]:
    facts = facts_of(read_run(write_run(folder / "run", episodes)))
    return facts, judge(facts)


def verdict_on(folder: Path, episodes: list[Episode]) -> Verdict:
    return read(folder, episodes)[1]


# Four runs, as a person would judge them.


def test_a_silent_run_is_sent_to_the_format_because_rl_has_nothing_to_learn(tmp_path: Path) -> None:
    facts, verdict = read(tmp_path, SILENT)
    assert verdict.outcome == "warm-start on format first"
    assert "0% of the replies hold a well-formed forecast" in verdict.reasons[0]
    assert "64 x no line starts with FORECAST:" in verdict.reasons[0]
    assert "RL alone has nothing to learn from" in verdict.reasons[1]
    assert facts.tied == {"no forecast": 16}
    assert facts.unit_reward == 0.0


def test_a_half_malformed_run_is_sent_to_the_format_though_rl_could_learn(tmp_path: Path) -> None:
    facts, verdict = read(tmp_path, HALF)
    assert verdict.outcome == "warm-start on format first"
    assert "50% of the replies" in verdict.reasons[0]
    assert "32 x not a number" in verdict.reasons[0]
    assert "RL would learn first" in verdict.reasons[1]
    assert facts.tied_share == 0.0
    inside = [np.var([0.5, -1.0, -1.0, 0.2]), np.var([0.35, -1.0, -1.0, 0.35])]
    assert facts.format_variance == pytest.approx(inside[1] / inside[0])


def test_a_constant_run_is_a_matter_of_sampling_and_not_of_sft(tmp_path: Path) -> None:
    facts, verdict = read(tmp_path, CONSTANT)
    assert verdict.outcome == "fix the setup"
    assert "not SFT but sampling: raise the temperature" in verdict.reasons[-1]
    assert facts.tied == {"same forecast": 16}
    assert facts.zero_advantage == 1.0
    assert facts.parsed == 1.0


def test_a_run_with_good_format_and_spread_starts_with_rl(tmp_path: Path) -> None:
    facts, verdict = read(tmp_path, GOOD)
    assert verdict.outcome == "start with RL"
    assert verdict.more_groups == 0
    rewards = [0.8, 0.5, 0.2, -0.4]
    assert facts.reward == pytest.approx(np.mean(rewards))
    assert facts.variance.within == pytest.approx(np.var(rewards, ddof=1))
    assert facts.variance.between == 0.0
    assert facts.unit_reward == pytest.approx((np.mean(rewards) + 1) / 2)
    assert "in the guide's 10% to 80%" in verdict.reasons[-1]


def test_the_order_of_the_lines_does_not_matter(tmp_path: Path) -> None:
    mixed = random.Random(1).sample(HALF, len(HALF))
    assert read(tmp_path / "a", mixed) == read(tmp_path / "b", HALF)


# Too few groups.


@pytest.mark.parametrize(
    ("forecasts", "needed"),
    [((None, None), 8), ((1.2, 1.2), 16), (SPREAD, 16), ((0.1, 0.2, 0.3, 0.4, None), 60)],
)
def test_too_few_groups_get_no_verdict_and_the_number_named_is_enough(
    tmp_path: Path, forecasts: tuple[float | None, ...], needed: int
) -> None:
    some = verdict_on(tmp_path / "some", run_of(*forecasts, groups=3))
    assert some.outcome == "no verdict yet"
    assert some.more_groups == needed - 3
    assert f"at least {needed - 3} more" in some.reasons[-1]
    almost = verdict_on(tmp_path / "almost", run_of(*forecasts, groups=needed - 1))
    assert almost.more_groups == 1
    assert verdict_on(tmp_path / "all", run_of(*forecasts, groups=needed)).more_groups == 0


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.5, 0.7, 0.8, 0.95, 1.0])
@pytest.mark.parametrize("line", [0.5, 0.8])
def test_the_number_of_groups_is_the_smallest_that_decides(share: float, line: float) -> None:
    def decided(n: int) -> bool:
        low, high = share_interval(share, n)
        return line < low or line > high or high - low <= 2 * readiness.MARGIN

    n = groups_needed(share, line)
    assert decided(n)
    assert n == readiness.LEAST_GROUPS or not decided(n - 1)
    assert n <= 93


def test_groups_of_one_cannot_show_spread(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, run_of(0.5, groups=20))
    assert verdict.outcome == "no verdict yet"
    assert "num_rollouts" in verdict.reasons[1]
    silent = verdict_on(tmp_path, run_of(None, groups=20))
    assert silent.outcome == "warm-start on format first"


# The setup.


def test_failed_rollouts_are_a_matter_of_the_setup(tmp_path: Path) -> None:
    broken = [failed(f"task {n}", f"box {n}\nTraceback") for n in range(16)]
    facts, verdict = read(tmp_path, GOOD + broken)
    assert verdict.outcome == "fix the setup"
    assert facts.errors == {"SandboxError": 16}
    assert verdict.reasons == (
        "16 of 80 rollouts failed (16 x SandboxError); the first: SandboxError: box 0",
    )
    assert facts.parsed == 1.0
    assert verdict_on(tmp_path, GOOD + broken[:5]).outcome == "start with RL"
    assert verdict_on(tmp_path, broken).outcome == "fix the setup"


HARNESS = "error: unknown tool 'catalog_lookup'"


@pytest.mark.parametrize("wrong", [UNREADABLE, REFUSED, HARNESS, served_error(), mcp_error()])
def test_tools_that_answer_with_errors_are_a_matter_of_the_setup(
    tmp_path: Path, wrong: str
) -> None:
    facts, verdict = read(tmp_path, run_of(None, None, tools=[wrong, "A | chg"]))
    assert (facts.tool_calls, facts.tool_errors) == (64, 32)
    assert verdict.outcome == "fix the setup"
    assert (
        f"32 of 64 tool calls answered with an error, 32 of them with: {wrong[:200]}"
        in (verdict.reasons[0])
    )
    few = run_of(*SPREAD, tools=[wrong, "A | chg", "B | chg"])
    assert verdict_on(tmp_path, few).outcome == "start with RL"


def test_one_group_is_no_verdict_on_the_setup_unless_nothing_worked(tmp_path: Path) -> None:
    one = [episode("task", forecast) for forecast in SPREAD[:3]]
    part = verdict_on(tmp_path, [*one, failed("task")])
    assert part.outcome == "no verdict yet"
    assert "1 of 4 rollouts failed" in part.reasons[0]
    assert part.more_groups >= readiness.LEAST_GROUPS - 1
    cut = verdict_on(tmp_path, [*one, episode("task", None, finish="length")])
    assert cut.outcome == "no verdict yet"
    assert verdict_on(tmp_path, [failed("task")]).outcome == "fix the setup"
    broken = [episode("task", f, tools=[UNREADABLE]) for f in SPREAD]
    assert verdict_on(tmp_path, broken).outcome == "fix the setup"


def test_good_replies_beside_cut_ones_are_not_sent_to_the_format(tmp_path: Path) -> None:
    cut = [episode(f"task {n}", None, finish="length") for n in range(64) for _ in range(3)]
    verdict = verdict_on(tmp_path, run_of(*SPREAD, 0.3, groups=64) + cut)
    assert verdict.outcome == "fix the setup"
    assert "38% of the rollouts were cut short" in verdict.reasons[0]
    assert "100% of the others hold a well-formed one" in verdict.reasons[0]
    malformed = verdict_on(tmp_path, run_of(0.5, None, None, 0.3, groups=64) + cut[:64])
    assert malformed.outcome == "warm-start on format first"


@pytest.mark.parametrize(
    "cut", [{"stop": "max_turns"}, {"finish": "length"}, {"stop": "agent_timeout"}]
)
def test_replies_cut_short_are_a_matter_of_the_setup(tmp_path: Path, cut: dict[str, str]) -> None:
    verdict = verdict_on(tmp_path, run_of(None, None, **cut))
    assert verdict.outcome == "fix the setup"
    assert "raise max_turns, max_tokens or the time limits" in verdict.reasons[0]
    assert verdict_on(tmp_path, run_of(*SPREAD, **cut)).outcome == "start with RL"


def test_different_forecasts_that_earn_the_same_are_a_matter_of_the_reward(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, run_of(7.0, 8.0, 9.0))
    assert verdict.outcome == "fix the setup"
    assert "weigh scaled_error or unit_error" in verdict.reasons[-1]


def test_a_mean_outside_the_band_is_a_matter_of_the_tasks(tmp_path: Path) -> None:
    hard = verdict_on(tmp_path, run_of(1.9, 1.8, 1.95, 1.99))
    assert hard.outcome == "fix the setup"
    assert "too hard" in hard.reasons[-1]
    easy = verdict_on(tmp_path, run_of(0.1, 0.2, 0.05, 0.3))
    assert "little to gain" in easy.reasons[-1]
    edge = [episode(f"task {n}", 0.6 * (n % 2) + x) for n in range(16) for x in (0.0, 0.1)]
    assert verdict_on(tmp_path, edge).outcome == "start with RL"
    assert "at the edge of" in verdict_on(tmp_path, edge).reasons[-1]


def test_zero_advantages_are_counted_in_groups_that_are_not_tied_too(tmp_path: Path) -> None:
    facts, _ = read(tmp_path, run_of(0.2, 0.5, 0.8))
    assert facts.tied == {}
    assert facts.zero_advantage == pytest.approx(1 / 3)


# The mean reward on [0, 1].


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ({"beats_baseline": (0.5, 1.0)}, 0.75),
        ({"unit_error": (0.3, 2.0)}, 0.3),
        ({"scaled_error": (-1.1, 1.0)}, 0.9),
        ({"beats_baseline": (0.0, 0.5), "format": (1.0, 0.5)}, (0.5 + 0.5) / 1.5),
        ({"beats_baseline": (0.5, 1.0), "hit": (1.0, -1.0)}, (-0.5 + 2.0) / 4.0),
    ],
)
def test_rewards_are_mapped_from_their_floor_and_best(
    tmp_path: Path, rewards: dict[str, tuple[float, float]], expected: float
) -> None:
    facts, _ = read(tmp_path, run_of(0.5, rewards=rewards))
    assert facts.unit_reward == pytest.approx(expected)


def test_losses_with_a_far_floor_are_held_against_the_band_by_beats_baseline(
    tmp_path: Path,
) -> None:
    both = {"scaled_error": (-0.8, 1.0), "beats_baseline": (0.2, 0.0)}
    facts, _ = read(tmp_path, run_of(0.5, 0.6, rewards=both))
    assert facts.unit_reward == pytest.approx(10.2 / 11)
    assert facts.band_reward == "beats_baseline"
    assert facts.band_mean == pytest.approx(0.6)


def test_a_plug_in_has_no_known_range(tmp_path: Path) -> None:
    mine = [episode(f"task {n}", f, rewards={"mine": (f, 1.0)}) for n in range(16) for f in SPREAD]
    facts, verdict = read(tmp_path, mine)
    assert (facts.unit_reward, facts.band_mean) == (None, None)
    assert verdict.outcome == "start with RL"
    assert "range of a plug-in is unknown" in verdict.reasons[-1]


@pytest.mark.parametrize("elicit", ["point", "interval", "quantiles"])
def test_the_ranges_are_those_of_the_rewards(elicit: str) -> None:
    config = NowcastConfig(id="nowcast-alfred", elicit=elicit)
    (task,) = NowcastTaskset(config).take(1)
    y = outcome(task.data).first
    perfect, silent = score(task, oracle(y, elicit)), score(task, "")
    for name, floor in silent.rewards.items():
        assert RANGES[name][0] == floor.score
        assert RANGES[name][0] < perfect.rewards[name].score <= RANGES[name][1]
    decorated = {name for name, method in vars(Scored).items() if hasattr(method, "reward")}
    assert set(RANGES) == decorated


# The statistics under it, against independent references.


def test_variance_components_are_those_of_one_way_anova() -> None:
    values = np.random.default_rng(3).normal(size=(6, 5)) + np.arange(6)[:, None]
    found = components({str(n): list(row) for n, row in enumerate(values)})
    within = values.var(axis=1, ddof=1).mean()
    between = values.mean(axis=1).var(ddof=1) - within / 5
    assert found.within == pytest.approx(within)
    assert found.between == pytest.approx(between)
    assert found.icc == pytest.approx(between / (between + within))


def test_unequal_groups_recover_the_components_they_were_made_with() -> None:
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 9, size=4000)
    groups = {str(n): list(rng.normal(rng.normal(0, 2), 1, size=s)) for n, s in enumerate(sizes)}
    found = components(groups)
    assert found.within == pytest.approx(1, rel=0.05)
    assert found.between == pytest.approx(4, rel=0.1)


def test_the_effective_size_of_groups_is_that_which_the_design_gives() -> None:
    """E[mean square between] = within + n0 between, with n0 from the projections themselves."""
    rng = np.random.default_rng(7)
    groups = {str(n): list(rng.normal(n, 0.2, size=size)) for n, size in enumerate((1, 2, 2, 9))}
    member = np.repeat(np.eye(4), [len(g) for g in groups.values()], axis=0)
    n, y = len(member), np.concatenate(list(groups.values()))
    onto = member @ np.linalg.pinv(member)
    size = np.trace((onto - 1 / n) @ member @ member.T) / 3
    within = y @ (np.eye(n) - onto) @ y / (n - 4)
    found = components(groups)
    assert size < 0.75 * n / 4  # so their mean size would not do
    assert found.within == pytest.approx(within)
    assert found.between == pytest.approx((y @ (onto - 1 / n) @ y / 3 - within) / size)


def test_components_that_cannot_be_seen_are_none() -> None:
    assert components({"a": [1.0], "b": [2.0]}).within is None
    assert components({"a": [1.0, 2.0]}).between is None
    assert components({"a": [1.0, 1.0], "b": [1.0, 1.0]}).icc is None


def test_the_error_of_a_mean_comes_from_the_groups() -> None:
    values = np.random.default_rng(5).normal(size=(7, 4))
    alone = {str(n): [x] for n, x in enumerate(values.ravel())}
    assert standard_error(alone) == pytest.approx(values.std(ddof=1) / np.sqrt(28))
    grouped = {str(n): list(row) for n, row in enumerate(values)}
    means = values.mean(axis=1)
    assert standard_error(grouped) == pytest.approx(means.std(ddof=1) / np.sqrt(7))
    assert standard_error({"a": [1.0, 2.0]}) is None


@pytest.mark.parametrize(("hits", "n"), [(0, 8), (8, 8), (3, 10), (50, 93)])
def test_the_interval_of_a_share_is_wilsons(hits: int, n: int) -> None:
    expected = binomtest(hits, n).proportion_ci(method="wilson")
    assert share_interval(hits / n, n) == pytest.approx((expected.low, expected.high))


# Reading traces.


def test_a_record_of_verifiers_is_read_as_verifiers_sees_it(tmp_path: Path) -> None:
    (task,) = NowcastTaskset(NowcastConfig(id="nowcast-alfred")).take(1)
    trace = score(task, "FORECAST: 1.5", lookups=2)
    trace.stop("max_turns")
    trace.ok = True
    trace.timing.boot.start, trace.timing.boot.end = 10.0, 12.5
    trace.timing.setup.start = 12.5
    record = {"ok": True, "errors": [], "traces": [trace.to_record()]}
    (rollout,) = read_run(write_run(tmp_path, [record]))
    assert rollout.truncated is trace.is_truncated is True
    assert rollout.reward == trace.reward
    assert rollout.weights["beats_baseline"] == 1.0
    assert rollout.group == task.key
    assert rollout.stages == {"boot": 2.5}
    assert rollout.nowcast["forecast"] == 1.5
    assert rollout.size == (tmp_path / "traces.jsonl").stat().st_size


def test_a_reply_may_hold_line_separators(tmp_path: Path) -> None:
    odd = episode("a", None, reason="two\u2028lines\u0085three")
    assert read_run(write_run(tmp_path, [odd]))[0].nowcast["reason"] == "two\u2028lines\u0085three"


def test_a_group_id_of_the_trainer_comes_before_the_task(tmp_path: Path) -> None:
    again = [{**episode("task", x), "group": {"id": f"step {n}"}} for n in range(2) for x in SPREAD]
    assert {rollout.group for rollout in read_run(write_run(tmp_path, again))} == {
        "step 0",
        "step 1",
    }


# The command.


def command(*arguments: object) -> tuple[int, str, str]:
    line = [str(BIN / "nowcast-alfred"), *map(str, arguments)]
    done = subprocess.run(
        line, env=environment(COLUMNS="150"), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_the_status_says_whether_training_can_begin(tmp_path: Path) -> None:
    statuses = {}
    for name, episodes in {"silent": SILENT, "constant": CONSTANT, "good": GOOD}.items():
        statuses[name], said, _ = command("readiness", write_run(tmp_path / name, episodes))
        assert "verdict: " in said
    assert statuses == {"silent": 0, "constant": 1, "good": 0}


def test_json_holds_the_verdict_and_the_facts(tmp_path: Path) -> None:
    status, said, _ = command("readiness", write_run(tmp_path, GOOD[:12]), "--json")
    found = json.loads(said)
    assert status == 1
    assert found["verdict"]["outcome"] == "no verdict yet"
    assert found["verdict"]["more_groups"] == 13
    assert found["facts"]["variance"]["within"] > 0
    assert found["facts"]["tied_share"] == 0.0


def test_wrong_use_ends_with_status_2(tmp_path: Path) -> None:
    status, _, said = command("readiness", tmp_path)
    assert status == 2
    assert "traces.jsonl is missing" in said
    with pytest.raises(InputError, match="no rollouts"):
        facts_of([])
    with pytest.raises(InputError, match="'parsed'"):
        facts_of(read_run(write_run(tmp_path, [episode("a", 1.0, metrics={})])))


# The same four through vf-eval.


def sampled(half: bool) -> Any:
    """A policy with a temperature: the nth time it sees a history it is off its mean by the nth of
    a fixed row of steps; with `half`, every second reply is malformed."""
    mean, seen = rule("mean-12"), {}

    def forecast(known: list[float]) -> float | str:
        turn = next(seen.setdefault(tuple(known), count()))
        centre = mean(known)
        if isinstance(centre, str) or (half and turn % 2):
            return "FORECAST: about that much"
        return centre + (-0.4, 0.3, -0.2, 0.1)[turn // (1 + half) % 4] * float(np.std(known))

    return partial(answer, forecast)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("policy", "groups", "outcome", "reason"),
    [
        (sampled(half=True), 8, "warm-start on format first", "RL would learn first"),
        (sampled(half=False), 16, "start with RL", "of 16 groups are tied: a step generates"),
    ],
    ids=["half malformed", "spread"],
)
def test_vf_eval_runs_are_told_apart(
    tmp_path: Path, policy: Any, groups: int, outcome: str, reason: str
) -> None:
    with PolicyServer(policy) as server:
        config = eval_config(tmp_path, server.base_url, embedded_store(), num_rollouts="2")
        run(tmp_path, "vf-eval", "@", config, "-n", groups, "--no-rich")
    facts = facts_of(read_run(tmp_path / "outputs/run"))
    verdict = judge(facts)
    assert (facts.rollouts, facts.failed, facts.groups) == (2 * groups, 0, groups)
    assert verdict.outcome == outcome
    assert reason in " ".join(verdict.reasons)
