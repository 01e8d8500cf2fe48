"""Rewards: each peaks where its docstring says, floors lie below answers, nothing is no number.

The optimum is found by search: the mean of the real reward method over outcomes of a known law, for
every forecast of a grid. Rewards that are not affine in a proper score are kept as counter-examples
that must fail the same test; `docs/rewards.md` quotes their numbers.
"""

from __future__ import annotations

import inspect
import itertools
import math
import re
import statistics
import sys
import tomllib
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nowcast_alfred import NowcastTaskset, scoring
from nowcast_alfred.answers import LEVELS, NAMES
from nowcast_alfred.data import NowcastTaskConfig
from nowcast_alfred.rewards import INFO, NEEDS, Scored
from nowcast_alfred.task import NowcastTask
from nowcast_alfred.taskset import NowcastConfig
from rollouts import score

NORMAL = statistics.NormalDist()
COUNT = 400
AT = [(i + 0.5) / COUNT for i in range(COUNT)]
SYMMETRIC = [0.3 + 0.8 * NORMAL.inv_cdf(u) for u in AT]
SKEWED = [-math.log(1.0 - u) for u in AT]
"""Exponential: mode 0, median 0.69, mean 1."""
STANDARD = [NORMAL.inv_cdf(u) for u in AT]
LAWS = {"symmetric": SYMMETRIC, "skewed": SKEWED}

Earned = Callable[[float], float]


def finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a reward waited for something")


def call(
    name: str,
    reply: str,
    y: float,
    *,
    elicit: str = "point",
    baseline: float = 0.0,
    scale: float = 1.0,
    latest: float | None = None,
) -> Any:
    """What the method of the task returns for a reply, scored from the record of a trace."""
    scored = Scored()
    scored.config = NowcastTaskConfig(elicit=elicit)
    task: Any = SimpleNamespace(baseline=baseline, scale=scale, units="Index", shown=None)
    held = {"first": y, "latest": y if latest is None else latest, "lookups": 0}
    trace: Any = SimpleNamespace(last_reply=reply, info={INFO: held}, assistant_messages=[])
    parts = {"task": task, "trace": trace}
    method = getattr(scored, name)
    return finished(method(**{key: parts[key] for key in inspect.signature(method).parameters}))


def number(value: Any, name: str) -> float:
    return float(value[name] if isinstance(value, dict) else value)


def mean_of(
    name: str, outcomes: Iterable[float], elicit: str = "point", **task: float
) -> Callable[[str], float]:
    """The mean of a reward over outcomes, as a function of the reply."""

    def earned(reply: str) -> float:
        return statistics.fmean(
            number(call(name, reply, y, elicit=elicit, **task), name) for y in outcomes
        )

    return earned


def grid(low: float, high: float, step: float) -> list[float]:
    return [round(low + i * step, 9) for i in range(round((high - low) / step) + 1)]


def peak(earned: Earned, points: Iterable[float]) -> float:
    return max(points, key=earned)


STEP = 0.05


def elicits(earned: Earned, statistic: float, points: Iterable[float]) -> bool:
    """Whether the best forecast of a grid is the one next to the statistic."""
    return abs(peak(earned, points) - statistic) <= STEP


FORECASTS = grid(-1.0, 3.0, STEP)


def point(value: float) -> str:
    return f"FORECAST: {value!r}"


@pytest.mark.parametrize("outcomes", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize(
    ("name", "statistic", "task"),
    [
        ("beats_baseline", statistics.median, {"baseline": 0.4, "scale": 50.0}),
        ("scaled_error", statistics.median, {}),
        ("unit_error", statistics.median, {}),
        ("squared_error", statistics.fmean, {}),
    ],
)
def test_a_point_reward_peaks_at_its_statistic(
    name: str,
    statistic: Callable[[list[float]], float],
    task: dict[str, float],
    outcomes: list[float],
) -> None:
    earned = mean_of(name, outcomes, **task)
    assert elicits(lambda f: earned(point(f)), statistic(outcomes), FORECASTS)


def quantile(outcomes: list[float], tau: float) -> float:
    return sorted(outcomes)[int(tau * len(outcomes))]


def interval(low: float, high: float) -> str:
    return f"FORECAST: {(low + high) / 2!r}\nINTERVAL80: {low!r}, {high!r}"


@pytest.mark.parametrize("outcomes", LAWS.values(), ids=LAWS)
def test_the_interval_score_peaks_at_the_tenth_and_ninetieth_percentiles(
    outcomes: list[float],
) -> None:
    earned = mean_of("interval_score", outcomes, "interval")
    low, high = quantile(outcomes, 0.1), quantile(outcomes, 0.9)
    assert elicits(lambda x: earned(interval(x, high)), low, grid(low - 0.5, low + 0.5, STEP))
    assert elicits(lambda x: earned(interval(low, x)), high, grid(high - 0.5, high + 0.5, STEP))


def five(values: Iterable[float]) -> str:
    return "QUANTILES: " + ", ".join(f"{n}={v!r}" for n, v in zip(NAMES, values, strict=True))


@pytest.mark.parametrize("outcomes", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("at", range(5), ids=NAMES)
def test_pinball_peaks_at_each_quantile(at: int, outcomes: list[float]) -> None:
    earned = mean_of("pinball", outcomes, "quantiles")
    truth = [quantile(outcomes, tau) for tau in LEVELS]
    low = truth[at - 1] if at else truth[at] - 0.5
    high = truth[at + 1] if at < 4 else truth[at] + 0.5
    # Off the statistic, so that the grid does not hold it by construction.
    points = [x for x in grid(low + 0.013, high, STEP) if low <= x <= high]
    assert elicits(lambda x: earned(five([*truth[:at], x, *truth[at + 1 :]])), truth[at], points)


def normal(mu: float, sigma: float) -> str:
    half = scoring.Z90 * sigma
    return f"FORECAST: {mu!r}\nINTERVAL80: {mu - half!r}, {mu + half!r}"


PAIRS = list(itertools.product(grid(-0.2, 1.4, 0.1), grid(0.5, 1.5, 0.1)))


def best_normal(name: str, outcomes: list[float]) -> tuple[float, float]:
    earned = mean_of(name, outcomes[::2], "interval")
    return max(PAIRS, key=lambda pair: earned(normal(*pair)))


@pytest.mark.parametrize("name", ["crps_normal", "log_score"])
def test_centre_and_spread_of_a_normal_law_earn_most(name: str) -> None:
    assert best_normal(name, SYMMETRIC) == pytest.approx((0.3, 0.8), abs=1e-9)


def test_the_log_score_peaks_at_mean_and_standard_deviation_of_any_law() -> None:
    mu, sigma = best_normal("log_score", SKEWED)
    assert abs(mu - statistics.fmean(SKEWED)) <= 0.1
    assert abs(sigma - statistics.pstdev(SKEWED)) <= 0.1


def test_direction_peaks_on_the_likelier_side_and_is_flat_there() -> None:
    earned = mean_of("direction", SKEWED, baseline=1.0)  # 63 % lie below 1
    assert peak(lambda f: earned(point(f)), FORECASTS) < 1.0
    assert earned(point(-5.0)) == earned(point(0.5)) > earned(point(3.0))


def test_hit_peaks_at_the_densest_interval_and_not_at_the_median() -> None:
    earned = mean_of("hit", SKEWED)
    best = peak(lambda f: earned(point(f)), FORECASTS)
    assert abs(best - 0.5) <= STEP < abs(best - statistics.median(SKEWED))


def test_format_pays_for_any_well_formed_reply() -> None:
    assert call("format", "FORECAST: 1e300", 0.0) == 1.0
    assert call("format", "FORECAST: many", 0.0) == 0.0


# Counter-examples: what rewards are not made of, and where they peak instead.

Reward = Callable[[float, float], float]
COUNTER: dict[str, tuple[Reward, list[float], float]] = {
    "ratio to a naive forecast of 1": (
        lambda y, f: 1.0 - abs(f - y) / abs(1.0 - y), STANDARD, 1.0
    ),
    "the same, at least -1": (
        lambda y, f: max(-1.0, 1.0 - abs(f - y) / abs(1.0 - y)), STANDARD, 0.24
    ),
    "wins against a naive forecast of 1": (
        lambda y, f: float(abs(f - y) < abs(1.0 - y)), STANDARD, 0.98
    ),
    "exp(-error)": (lambda y, f: math.exp(-abs(f - y)), SKEWED, 0.50),
    "1 / (1 + error)": (lambda y, f: 1.0 / (1.0 + abs(f - y)), SKEWED, 0.48),
    "max(0, 1 - error)": (lambda y, f: max(0.0, 1.0 - abs(f - y)), SKEWED, 0.49),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTER)
def test_a_ratio_an_exponential_or_a_tight_clip_does_not_peak_at_the_median(name: str) -> None:
    reward, outcomes, where = COUNTER[name]

    def earned(f: float) -> float:
        return statistics.fmean(reward(y, f) for y in outcomes)

    assert not elicits(earned, statistics.median(outcomes), FORECASTS)
    assert peak(earned, grid(-0.5, 1.5, 0.01)) == pytest.approx(where, abs=0.011)


def student_4(u: float) -> float:
    """The u-quantile of Student's t with 4 degrees of freedom (Shaw 2006)."""
    root = math.sqrt(4.0 * u * (1.0 - u))
    return math.copysign(2.0 * math.sqrt(math.cos(math.acos(root) / 3.0) / root - 1.0), u - 0.5)


FAT = [student_4(u) for u in AT]
SPREADS: dict[str, tuple[Reward, float]] = {
    "CRPS": (lambda y, s: -scoring.crps_normal(y, 0.0, s), 1.2),
    "CRPS, at most 2": (lambda y, s: -min(2.0, scoring.crps_normal(y, 0.0, s)), 1.0),
    "CRPS, at most 1": (lambda y, s: -min(1.0, scoring.crps_normal(y, 0.0, s)), 0.8),
    "exp(-2 CRPS)": (lambda y, s: math.exp(-2.0 * scoring.crps_normal(y, 0.0, s)), 0.6),
    "log score": (lambda y, s: -scoring.log_score(y, 0.0, s), 1.4),
    "log score, at most 3": (lambda y, s: -min(3.0, scoring.log_score(y, 0.0, s)), 0.8),
    "log score, at most 2": (lambda y, s: -min(2.0, scoring.log_score(y, 0.0, s)), 0.5),
}


@pytest.mark.parametrize("name", SPREADS)
def test_a_clip_or_an_exponential_asks_for_false_confidence(name: str) -> None:
    """Best spread of a normal for outcomes with fat tails; unclipped: 1.2 and 1.4."""
    reward, where = SPREADS[name]
    best = peak(lambda s: statistics.fmean(reward(y, s) for y in FAT), grid(0.1, 3.0, 0.1))
    assert best == where


# Group-mean advantages.


def advantages(rewards: list[float]) -> list[float]:
    mean = statistics.fmean(rewards)
    return [reward - mean for reward in rewards]


def test_the_baseline_cancels_in_a_group_unless_something_is_clipped() -> None:
    replies = [point(0.1 * i) for i in range(8)]
    gained = [call("beats_baseline", r, 0.3, baseline=1.0) for r in replies]
    errors = [call("scaled_error", r, 0.3) for r in replies]
    assert advantages(gained) == pytest.approx(advantages(errors), abs=1e-12)
    flat = [call("beats_baseline", r, 0.3, baseline=5.0) for r in replies]
    assert advantages(flat) == [0.0] * 8


# Floors, ranges and numbers that are none.

RANGES = {
    "beats_baseline": (-1.0, 1.0, -1.0),
    "scaled_error": (-10.0, 0.0, -11.0),
    "unit_error": (0.05, 1.0, 0.0),
    "squared_error": (-100.0, 0.0, -101.0),
    "interval_score": (-100.0, 0.0, -101.0),
    "pinball": (-10.0, 0.0, -11.0),
    "crps_normal": (-10.0, 0.0, -11.0),
    "log_score": (-50.0, -scoring.log_score(0.0, 0.0, 0.05), -51.0),
    "direction": (0.0, 1.0, -1.0),
    "hit": (0.0, 1.0, -1.0),
    "format": (1.0, 1.0, 0.0),
}
"""Lowest and highest of an answer, and the floor of a reply without one."""

METRICS = {name for name, fn in vars(Scored).items() if hasattr(fn, "metric")}
REWARDS = {name for name, fn in vars(Scored).items() if hasattr(fn, "reward")}


def feeds(name: str, elicit: str) -> bool:
    return elicit in NEEDS.get(name, ("point", "interval", "quantiles"))


def test_names_and_weights_are_those_of_the_design() -> None:
    task = NowcastTask.lazy(lambda: None, NowcastTaskConfig())  # type: ignore[arg-type]
    weights = {fn.__name__: fn._vf_weight for fn in task.hooks("reward")}  # type: ignore[attr-defined]
    assert weights == {**dict.fromkeys(RANGES, 0.0), "beats_baseline": 1.0}
    assert {fn.__name__ for fn in task.hooks("metric")} == METRICS


@pytest.mark.parametrize("name", RANGES)
def test_every_reward_says_what_it_elicits_its_range_and_its_floor(name: str) -> None:
    text = " ".join((getattr(Scored, name).__doc__ or "").split())
    low, _, floor = RANGES[name]
    if name not in ("direction", "hit", "format"):
        assert "Elicits" in text
        assert f"{floor:g} without" in text or f"; {floor:g}" in text
        assert f"{low:g}" in text
    if name in NEEDS:
        assert 'Needs `elicit = "' in text


@pytest.mark.parametrize("elicit", ["point", "interval", "quantiles"])
@pytest.mark.parametrize(
    "reply", ["", "no idea", "FORECAST: nan", "FORECAST: 1e400", "INTERVAL80: 1"]
)
@pytest.mark.parametrize("name", RANGES)
def test_a_reply_without_an_answer_gets_the_floor(name: str, reply: str, elicit: str) -> None:
    if feeds(name, elicit):
        assert number(call(name, reply, 0.0, elicit=elicit), name) == RANGES[name][2]
    else:
        assert call(name, reply, 0.0, elicit=elicit) == {}


@pytest.mark.parametrize(("name", "needed"), NEEDS.items())
def test_what_is_not_elicited_is_left_out_and_not_scored(
    name: str, needed: tuple[str, ...]
) -> None:
    for elicit, reply in REPLY.items():
        value = call(name, reply(0.0, 1.0, 2.0), 0.5, elicit=elicit)
        assert (set(value) == {name}) == (elicit in needed)


REPLY: dict[str, Callable[..., str]] = {
    "point": lambda a, b, c: point(b),
    "interval": lambda a, b, c: f"{point(b)}\nINTERVAL80: {a!r}, {c!r}",
    "quantiles": lambda a, b, c: five([a, a, b, c, c]),
}

HUGE = sys.float_info.max
numbers = st.floats(allow_nan=False, allow_infinity=False)
scales = st.floats(0.0, exclude_min=True, allow_infinity=False)


@pytest.mark.parametrize("elicit", REPLY)
@settings(deadline=None)
@given(y=numbers, values=st.tuples(numbers, numbers, numbers), baseline=numbers, scale=scales)
@example(y=HUGE, values=(-HUGE, -HUGE, -HUGE), baseline=HUGE, scale=5e-324)
@example(y=HUGE, values=(-HUGE, 0.0, HUGE), baseline=-HUGE, scale=5e-324)
@example(y=-HUGE, values=(-HUGE, HUGE, HUGE), baseline=0.0, scale=HUGE)
@example(y=1e308, values=(1e308, 1e308, 1e308), baseline=-1e308, scale=1e-300)
@example(y=-0.0, values=(-0.0, -0.0, -0.0), baseline=0.0, scale=5e-324)
@example(y=1.0, values=(0.0, 0.0, 5e-324), baseline=0.0, scale=1.0)
def test_every_answer_earns_a_number_within_range_and_above_the_floor(
    elicit: str, y: float, values: tuple[float, float, float], baseline: float, scale: float
) -> None:
    reply = REPLY[elicit](*sorted(values))
    task = {"elicit": elicit, "baseline": baseline, "scale": scale, "latest": -y}
    for name, (low, high, floor) in RANGES.items():
        if not feeds(name, elicit):
            continue
        value = number(call(name, reply, y, **task), name)
        assert low <= value <= high, name
        assert floor < value or name == "beats_baseline", name
    for name in METRICS:
        value = call(name, reply, y, **task)
        for held in value.values() if isinstance(value, dict) else [value]:
            assert type(held) is float, name
            assert math.isfinite(held), name


BROKEN = [
    *itertools.product(["y", "baseline", "scale"], [math.nan, math.inf, -math.inf]),
    *itertools.product(["scale"], [0.0, -0.0, -1.0]),
]


@pytest.mark.parametrize(("broken", "by"), BROKEN)
@pytest.mark.parametrize("elicit", REPLY)
def test_what_is_no_number_ends_at_the_floor_with_a_metric(
    elicit: str, broken: str, by: float
) -> None:
    values: dict[str, Any] = {"y": 0.5, "baseline": 0.0, "scale": 1.0, broken: by}
    reply, task = REPLY[elicit](0.0, 1.0, 2.0), {"elicit": elicit, **values}
    uses_baseline = {"beats_baseline", "direction"}
    for name, (_, _, floor) in RANGES.items():
        used = name in uses_baseline if broken == "baseline" else name != "format"
        if feeds(name, elicit) and used:
            assert number(call(name, reply, **task), name) == floor, name
    assert call("beyond", reply, **task) == 1.0
    assert call("clipped", reply, **task) == 0.0
    for name in METRICS:
        value = call(name, reply, **task)
        assert all(map(math.isfinite, value.values() if isinstance(value, dict) else [value]))
    if broken == "scale":
        distances = call("abs_error_first", reply, **task) | call("covered", reply, **task)
        for name in {"abs_error_scaled", "interval_width"} & set(distances):
            assert distances[name] == HUGE  # and not 0, the best there is


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("zero", [{"y": 0.0}, {"baseline": 0.0}, {"y": 0.0, "baseline": 0.0}])
def test_an_outcome_or_a_baseline_of_zero_is_a_number(name: str, zero: dict[str, float]) -> None:
    elicit = NEEDS.get(name, ("point",))[0]
    reply, task = REPLY[elicit](0.0, 0.25, 0.5), {"y": 0.5, "baseline": 1.0, "scale": 1.0, **zero}
    low, high, floor = RANGES[name]
    earned = number(call(name, reply, elicit=elicit, **task), name)
    assert floor < earned
    assert low <= earned <= high
    assert call("beyond", reply, elicit=elicit, **task) == 0.0


@pytest.mark.parametrize("elicit", REPLY)
def test_the_outcome_itself_earns_the_most_of_every_reward_but_the_gain(elicit: str) -> None:
    reply = REPLY[elicit](2.5, 2.5, 2.5)
    for name, (_, high, _) in RANGES.items():
        if feeds(name, elicit) and name != "direction":
            value = number(call(name, reply, 2.5, elicit=elicit, baseline=1.5), name)
            assert value == pytest.approx(high, abs=1e-12), name


@pytest.mark.parametrize(
    ("elicit", "held", "width"),
    [("interval", 1.0, 1.0), ("quantiles", 1.0, 1.0), ("point", None, None)],
)
def test_coverage_and_width_are_recorded_where_there_is_an_interval(
    elicit: str, held: float | None, width: float | None
) -> None:
    reply = REPLY[elicit](0.0, 1.0, 2.0)
    inside = call("covered", reply, 2.0, elicit=elicit, scale=2.0)
    outside = call("covered", reply, 2.1, elicit=elicit, scale=2.0)
    if held is None:
        assert inside == outside == {}
    else:
        assert inside == {"covered": held, "interval_width": width}
        assert outside == {"covered": 0.0, "interval_width": width}


@pytest.mark.parametrize("elicit", REPLY)
def test_a_scored_trace_holds_what_was_elicited_and_survives_json(elicit: str) -> None:
    (task,) = NowcastTaskset(NowcastConfig(id="nowcast-alfred", elicit=elicit)).take(1)
    for reply in (REPLY[elicit](-HUGE, 1.0, HUGE), "nothing"):
        trace = score(task, reply)
        assert set(trace.rewards) == {name for name in RANGES if feeds(name, elicit)}
        expected = {"parsed", "clipped", "beyond", "baseline_error", "lookups", "leak_attempts"}
        if reply != "nothing":
            expected |= {"abs_error_first", "abs_error_scaled", "abs_error_latest"}
            expected |= {"covered", "interval_width"} if elicit != "point" else set()
        assert set(trace.metrics) == expected
        again = type(trace).model_validate_json(trace.model_dump_json())
        assert again.rewards == trace.rewards
        assert again.metrics == trace.metrics


# The page.

PAGE = (Path(__file__).resolve().parents[1] / "docs/rewards.md").read_text()


def rows(page: str) -> dict[str, list[str]]:
    """First cell -> the others, of every table of the page."""
    cells = [
        [cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in page.splitlines()
        if line.startswith("| ")
    ]
    return {first: rest for first, *rest in cells}


def test_the_page_states_every_range_floor_and_elicitation() -> None:
    table = rows(PAGE)
    for name, (low, high, floor) in RANGES.items():
        _, earns, without, reply, _ = table[name]
        span = f"{low:g}" if low == high else f"{low:g} to {round(high, 2) + 0.0:g}"
        assert (earns, without) == (span, f"{floor:g}"), name
        assert reply == ", ".join(NEEDS.get(name, ("point",))), name


def test_the_page_quotes_the_counter_examples_as_they_are_here() -> None:
    quoted = {first.split(":")[0]: rest[0] for first, rest in rows(PAGE).items()}
    for name, (_, _, where) in COUNTER.items():
        assert quoted[name].split(",")[0] == f"{where:.2f}", name
    for name, (_, best) in SPREADS.items():
        assert quoted[name] == str(best), name


def test_every_toml_of_the_page_is_a_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[1])
    blocks = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        settings = tomllib.loads(block)["env"]["taskset"]
        assert NowcastTaskset(NowcastConfig.model_validate({"id": "nowcast-alfred", **settings}))
