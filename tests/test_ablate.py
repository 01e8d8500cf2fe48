"""The reward lab: its statistics by hand, its scoring against verifiers', its verdicts on rewards
whose faults are known (`docs/rewards.md` derives them)."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import math
import statistics
import subprocess
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy.stats import spearmanr

from commands import BIN, ROOT, environment, run
from nowcast_alfred import answers, cli_output, scoring
from nowcast_alfred.answers import LEVELS, parse
from nowcast_alfred.errors import ConfigError
from nowcast_alfred.lab import ablate_report as report
from nowcast_alfred.lab import ablate_stats as stats
from nowcast_alfred.lab.ablate import Report, case_of, study
from nowcast_alfred.lab.ablate_picture import draw
from nowcast_alfred.lab.ablate_stats import Best, Exploit
from nowcast_alfred.lab.direct import check, earner, read, record
from nowcast_alfred.lab.ladder import (
    Case,
    Said,
    baseline,
    ladder,
    noise,
    oracle,
    plausible,
    text,
    true_spread,
)
from nowcast_alfred.lab.variants import Variant, merged, read_variants
from nowcast_alfred.rewards import INFO, Scored
from nowcast_alfred.store import VintageStore
from rollouts import score, trace_of

FOLDER = ROOT / "configs/ablations"
SHIPPED = sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != "base")

PLUG_INS = """
import math

def parts(task, trace):
    said = trace.info["nowcast"]
    return said["forecast"], said["first"], task.baseline, task.scale

async def ratio(task, trace):
    f, y, naive, scale = parts(task, trace)
    return -1e12 if f is None else 1 - abs(f - y) / max(abs(naive - y), 1e-9 * scale)

async def floored(task, trace):
    f, y, naive, scale = parts(task, trace)
    return -1e12 if f is None else 1 - abs(f - y) / max(abs(naive - y), 0.25 * scale)

async def clipped(task, trace):
    f, y, naive, scale = parts(task, trace)
    return -1 if f is None else max(-1, 1 - abs(f - y) / max(abs(naive - y), 1e-9 * scale))

async def wins(task, trace):
    f, y, naive, scale = parts(task, trace)
    return -1 if f is None else float(abs(f - y) < abs(naive - y))

async def parts_of(task, trace):
    f, y, naive, scale = parts(task, trace)
    error = 11.0 if f is None else abs(f - y) / scale
    return {"near": -error, "long": -0.001 * len(trace.last_reply)}

async def broken(task, trace):
    return 1 / (trace.info["nowcast"]["forecast"] - trace.info["nowcast"]["forecast"])

async def nothing(task):
    return math.nan

async def absent(task):
    return None

async def word(trace):
    return "good"

async def number_as_word(trace):
    return "0.5"

async def half_absent(trace):
    return {"near": 1.0, "far": None}

async def leaving(trace):
    raise SystemExit(0)

async def reads_the_text(task, trace):
    line = trace.last_reply.removeprefix("FORECAST: ")
    said = trace.info["nowcast"]
    if said["forecast"] is None:
        return -11.0
    return -min(abs(float(line) - said["first"]) / task.scale, 10.0)

async def boxed(task, runtime):
    return 1.0

async def moody(task, trace, calls=[]):
    calls.append(1)
    return float(len(calls))

def plain(task):
    return 1.0
"""


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plug-ins of the shipped configurations are named by their path from the project's root."""
    monkeypatch.chdir(ROOT)


def shipped(*names: str) -> list[Variant]:
    return read_variants([FOLDER / f"{name}.toml" for name in names])


def plugged(folder: Path, name: str) -> Variant:
    """The configuration that pays by a function of `PLUG_INS` alone."""
    (folder / "plug_ins.py").write_text(PLUG_INS)
    path = folder / f"{name}.toml"
    entry = f'{{ fn = "{folder}/plug_ins.py:{name}", weight = 1.0 }}'
    path.write_text(f"[env.taskset.task.rewards]\n{name} = {entry}\n")
    (variant,) = read_variants([path], FOLDER / "base.toml")
    return variant


def hidden(folder: Path, overlay: Path) -> Variant:
    """An overlay with opaque tasks."""
    base = folder / "opaque-base.toml"
    base.write_text(
        (FOLDER / "base.toml").read_text().replace("[env.taskset]", "[env.taskset]\nopaque = true")
    )
    (variant,) = read_variants([overlay], base)
    return variant


@lru_cache(maxsize=4)
def played(name: str) -> Report:
    (variant,) = shipped(name)
    return study(variant, tasks=120)


def case(**changes: object) -> Case:
    fields = {"n": 0, "series_id": "A", "month": "2024-01", "y": 1.0, "naive": 4.0, "scale": 2.0}
    return Case(**{**fields, "forecasts": {"mean_12": 2.0, "last_change": 4.0}, **changes})


def column(*values: float) -> np.ndarray:
    return np.array([[value] for value in values])


# Statistics.

few = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12)


@given(few)
def test_spearman_is_scipys_and_0_where_one_side_ranks_nothing(pairs: list) -> None:
    a, b = np.array(pairs, dtype=float).T
    expected = 0.0 if len({*a}) == 1 or len({*b}) == 1 else spearmanr(a, b).statistic
    assert stats.spearman(a, b) == pytest.approx(expected, abs=1e-12)


def test_infinite_losses_rank_last() -> None:
    rewards, losses = np.array([3.0, 2.0, 1.0]), np.array([0.1, 5.0, math.inf])
    assert stats.spearman(rewards, -losses) == pytest.approx(1.0)


def test_agreement_inside_groups_is_the_mean_over_tasks() -> None:
    losses = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    rewards = np.array([[0.0, -3.0], [-1.0, -2.0], [-2.0, -1.0]])
    assert stats.within_task(rewards, losses) == pytest.approx(0.0)
    assert stats.within_task(-losses, losses) == pytest.approx(1.0)
    assert stats.within_task(np.ones((3, 2)), losses) == 0.0


def test_ties_count_replies_that_differ() -> None:
    said = np.array([["a", "a", "a", "a"], ["b", "a", "b", "b"], ["c", "a", "c", "c"]])
    rewards = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 2.0], [1.0, 1.0, 2.0, 3.0]])
    # all equal; all the same reply; two of three; none
    assert stats.ties(rewards, said) == (0.25, 0.5)


def test_same_forgives_rounding_and_nothing_else() -> None:
    a = np.array([1.0, 1.0, 0.0, 1e6])
    b = np.array([1.0 + 1e-14, 1.0 + 1e-9, 1e-14, 1e6 + 1e-3])
    assert stats.same(a, b).tolist() == [True, False, True, False]
    assert stats.same(a, a, b).tolist() == [True, False, True, False]


def test_signal_is_the_mean_advantage_of_the_better_half_over_its_deviation() -> None:
    better = np.array([[1.0, 4.0, 2.0], [3.0, 0.0, 2.0]])
    worse = np.array([[0.0, 0.0, 1.0], [0.0, 2.0, 1.0]])
    both = np.vstack([better, worse])
    advantage = (better - both.mean(axis=0)).mean(axis=0).tolist()
    expected = statistics.mean(advantage) / statistics.stdev(advantage)
    ratio, groups = stats.signal(better, worse)
    assert ratio == pytest.approx(expected)
    assert groups == math.ceil(4.0 / expected**2)


def test_a_reward_without_signal_needs_no_number_of_groups() -> None:
    flat = np.ones((2, 3))
    assert stats.signal(flat, flat) == (0.0, None)
    better, worse = np.array([[0.0, 1.0]]), np.array([[2.0, 2.0]])
    assert stats.signal(better, worse)[1] is None


def test_the_heavy_share_is_that_of_the_heaviest_groups() -> None:
    spread = np.ones(20)
    spread[7] = 6.0
    rewards = np.array([spread, -spread])
    assert stats.heavy_share(rewards) == pytest.approx(6.0 / 25.0)
    assert stats.heavy_share(np.array([np.ones(20), -np.ones(20)])) == pytest.approx(0.05)
    assert stats.heavy_share(np.ones((2, 20))) == 0.0


MONTHS = [f"2024-{n:02d}" for n in range(1, 10)]


@given(st.lists(st.integers(-9, 9), min_size=3, max_size=9).filter(lambda v: len({*v}) > 1))
def test_z_is_the_paired_mean_in_standard_errors(values: list[int]) -> None:
    error = statistics.stdev(values) / math.sqrt(len(values))
    found = stats.z_of(np.array(values) + 2.0, np.full(len(values), 2.0), MONTHS[: len(values)])
    assert found == pytest.approx(statistics.mean(values) / error, rel=1e-6, abs=1e-6)


def test_the_tasks_of_a_month_are_one_observation() -> None:
    gaps = np.random.default_rng(6).normal(1.0, 2.0, size=9)
    alone = stats.z_of(gaps, np.zeros(9), MONTHS)
    assert stats.z_of(np.repeat(gaps, 20), np.zeros(180), np.repeat(MONTHS, 20)) == (
        pytest.approx(alone)
    )
    assert stats.z_of(gaps, np.zeros(9), MONTHS[:1] * 9) == 0.0


def test_z_of_silence_and_of_equal_columns() -> None:
    silent, other = np.full(3, math.inf), np.arange(3.0)
    assert stats.z_of(silent, other, MONTHS[:3]) == math.inf
    assert stats.z_of(silent, silent, MONTHS[:3]) == 0.0
    assert stats.z_of(other, other, MONTHS[:3]) == 0.0
    assert stats.z_of(other + 1.0, other, MONTHS[:3]) == math.inf


def test_an_exploit_is_one_that_out_earns_somebody_materially_better() -> None:
    names, honest = ["good", "fair", "copier", "silent"], [True, True, False, False]
    losses = np.array([[1.0, 2, 1, 2], [1.5, 2.6, 1.4, 2.5], [3.0, 4.1, 3, 4.2], [math.inf] * 4])
    fair_pay = -losses.copy()
    fair_pay[3] = -9.0
    months = MONTHS[:4]
    assert stats.exploits(names, honest, fair_pay, losses, months) == []
    rewards = fair_pay.copy()
    rewards[2] = 0.0
    (found,) = stats.exploits(names, honest, rewards, losses, months)
    assert (found.policy, found.reward, found.honest) == ("copier", 0.0, "good")
    assert found.honest_reward == pytest.approx(-1.5)
    assert found.z == pytest.approx(stats.z_of(rewards[2], rewards[0], months))
    rewards[3] = -1.9
    (_, silent) = stats.exploits(names, honest, rewards, losses, months)
    assert (silent.policy, silent.honest) == ("silent", "fair")
    no_difference = losses[:3].copy()
    no_difference[2] = losses[0] + [2.0, -2.0, 2.0, -1.9]
    assert stats.exploits(names[:3], honest[:3], rewards[:3], no_difference, months) == []


@pytest.mark.parametrize("target", [(0.0, 0.0, 1.0), (0.13, 0.71, 0.6), (-1.7, -0.4, 3.0)])
def test_the_search_finds_an_optimum(target: tuple[float, float, float]) -> None:
    a, b, c = target

    def value(reply: Best) -> float:
        gap = abs(reply.shift - a) + abs(reply.toward - b) + (reply.shift - a) * (reply.toward - b)
        return -gap - abs(math.log2(reply.width / c))

    found = stats.best_reply(value, wide=True)
    assert found.shift == pytest.approx(a, abs=0.02)
    assert found.toward == pytest.approx(b, abs=0.02)
    assert found.width == pytest.approx(c, rel=0.02)
    assert stats.best_reply(value, wide=False).width == 1.0


def test_a_flat_reward_moves_nobody_and_an_endless_one_stops_at_the_bound() -> None:
    assert stats.best_reply(lambda reply: 0.0, wide=True) == Best(0.0, 0.0, 1.0)
    far = stats.best_reply(lambda reply: reply.shift + reply.width, wide=True)
    assert (far.shift, far.width) == (pytest.approx(3.0, abs=0.02), pytest.approx(8.0, rel=0.02))


# Policies.


def test_noise_is_normal_fixed_by_its_key_and_pinned() -> None:
    draws = [noise(0, n, "oracle+1") for n in range(4000)]
    assert statistics.mean(draws) == pytest.approx(0.0, abs=0.05)
    assert statistics.stdev(draws) == pytest.approx(1.0, abs=0.04)
    assert len(set(draws)) == len(draws)
    assert noise(0, 1, "a", 2) == noise(0, 1, "a", 2)
    assert len({noise(0, 1, "a"), noise(1, 1, "a"), noise(0, 2, "a"), noise(0, 1, "b")}) == 4
    assert noise(0, 0, "oracle+1") == pytest.approx(PINNED, abs=1e-12)


PINNED = 0.15764104386594027


@pytest.mark.parametrize("elicit", ["point", "interval", "quantiles"])
def test_a_reply_is_read_back_by_the_parser_as_it_was_meant(elicit: answers.Elicit) -> None:
    law = statistics.NormalDist(-1234.5678, 0.1)
    reply = parse(text(Said(law.mean, law.stdev), elicit), elicit)
    assert reply.ok
    assert reply.point == law.mean
    if elicit == "interval":
        assert reply.interval == pytest.approx((law.inv_cdf(0.1), law.inv_cdf(0.9)))
    if elicit == "quantiles":
        assert reply.quantiles == pytest.approx({level: law.inv_cdf(level) for level in LEVELS})
    assert not parse(text(None, elicit), elicit).ok
    assert parse(text(Said(1e-7), elicit), elicit).point == 1e-7


def test_an_oracle_misses_by_its_noise_and_states_it() -> None:
    cases = [case(n=n) for n in range(2000)]
    said = oracle(0.5).replies(cases, seed=3)
    errors = [(one.centre - 1.0) / 2.0 for one in said if one]
    assert statistics.stdev(errors) == pytest.approx(0.5, rel=0.05)
    assert {one.spread for one in said if one} == {1.0}
    assert said != oracle(0.5).replies(cases, seed=4)
    assert said != oracle(0.5).replies(cases, seed=3, i=1)


def test_a_baseline_is_as_wide_as_its_errors_were() -> None:
    cases = [case(n=n, y=2.0 + 0.1 * n) for n in range(11)]
    (said, *_) = baseline("mean_12").replies(cases, seed=0)
    errors = [0.05 * n for n in range(11)]
    assert true_spread(cases, [2.0] * 11) == pytest.approx(np.quantile(errors, 0.8) / scoring.Z90)
    assert said is not None
    assert said.interval == pytest.approx((2.0 - 0.8, 2.0 + 0.8))


def test_the_ladder_has_every_baseline_and_each_exploit() -> None:
    names = ["last_change", "mean_12"]
    point = ladder("point", names, "last_change")
    assert [p.name for p in point if p.honest] == [
        *("oracle+0.25", "oracle+0.5", "oracle+1", "oracle+2"),
        "mean_12",
    ]
    assert [p.name for p in point if not p.honest] == ["copier", "constant 0", "hedger", "silent"]
    wide = ladder("interval", names, "mean_12")
    assert [p.name for p in wide if not p.honest][2:] == ["hedger", "overconfident", "silent"]
    assert "last_change" in {p.name for p in wide if p.honest}


def test_exploits_distort_what_an_honest_policy_says() -> None:
    cases = [case(n=n) for n in range(5)]
    honest = oracle(0.5).replies(cases, seed=0)
    point = {p.name: p.replies(cases, 0) for p in ladder("point", [], "last_change")}
    assert {one.centre for one in point["copier"]} == {4.0}
    assert {one.centre for one in point["constant 0"]} == {0.0}
    assert set(point["silent"]) == {None}
    half_way = [(4.0 + one.centre) / 2.0 for one in honest]
    assert [one.centre for one in point["hedger"]] == pytest.approx(half_way)
    wide = {p.name: p.replies(cases, 0) for p in ladder("interval", [], "last_change")}
    for name, factor in (("hedger", 3.0), ("overconfident", 0.1)):
        assert [one.centre for one in wide[name]] == [one.centre for one in honest]
        assert [one.spread for one in wide[name]] == pytest.approx([factor] * 5)


def test_plausible_rollouts_differ_in_forecast_and_spread() -> None:
    cases = [case(n=n) for n in range(500)]
    group = [plausible(cases, 0, i) for i in range(2)]
    noises = [(one.centre - 2.0) / 2.0 for one in group[0]]
    assert statistics.stdev(noises) == pytest.approx(0.5, rel=0.1)
    assert all(a.centre != b.centre and a.spread != b.spread for a, b in zip(*group, strict=True))


def test_plausible_rollouts_miss_as_mean_12_does_and_lean_to_no_baseline() -> None:
    (variant,) = shipped("article")
    cases = [case_of(task) for task in variant.taskset.take(300)]
    y, scale = (np.array([getattr(one, key) for one in cases]) for key in ("y", "scale"))

    def missed(centres: list[float]) -> np.ndarray:
        return (np.array(centres) - y) / scale

    columns = [plausible(cases, 0, i) for i in range(8)]
    shared = np.mean([missed([one.centre for one in column if one]) for column in columns], axis=0)
    typical = missed([one.forecasts["mean_12"] for one in cases])
    assert np.abs(shared).mean() == pytest.approx(np.abs(typical).mean(), rel=0.1)
    for name in cases[0].forecasts:
        (close,) = np.corrcoef(shared, missed([one.forecasts[name] for one in cases]))[0, 1:]
        assert abs(close) < 0.2, name
    assert plausible([replace(one, naive=0.0) for one in cases], 0, 1) == columns[1]


def test_a_better_baseline_is_not_clipped_more_than_a_worse_one(tmp_path: Path) -> None:
    """Around `mean_12` itself, 2 % of the replies were on a clip, and 13 % with `ar_bic`."""
    clips = {}
    for name in ("last_change", "mean_12", "ar_bic"):
        path = tmp_path / f"{name}.toml"
        weight = "[env.taskset.task.rewards]\nbeats_baseline = { weight = 1.0 }\n"
        path.write_text(f'[env.taskset]\nbaseline = "{name}"\n{weight}')
        (variant,) = read_variants([path], FOLDER / "base.toml")
        clips[name] = study(variant, tasks=200).clip
    assert 0.1 < clips["ar_bic"] < clips["mean_12"] < clips["last_change"]


# Scoring.

REPLIES = {
    "point": ["FORECAST: {y}", "**FORECAST:** 1e9", "FORECAST: 0", "no", "FORECAST: {near}"],
    "interval": [
        "FORECAST: {y}\nINTERVAL80: {y}, {near}",
        "FORECAST: 1\nINTERVAL80: 2, 3",
        "FORECAST: 0\nINTERVAL80: -1, 1",
        "",
    ],
    "quantiles": [
        "QUANTILES: p10={y}, p25={y}, p50={y}, p75={near}, p90={near}",
        "QUANTILES: p10=-1, p25=0, p50=0, p75=0, p90=2",
        "QUANTILES: p10=2, p25=1, p50=0, p75=0, p90=2",
        "...",
    ],
}


@pytest.mark.parametrize("name", SHIPPED)
def test_direct_scoring_is_verifiers(name: str) -> None:
    (variant,) = shipped(name)
    tasks = list(variant.taskset.take(3))
    earn = earner(tasks)
    values = [{"y": repr(c.y), "near": repr(c.y + 0.7 * c.scale)} for c in map(case_of, tasks)]
    for reply in REPLIES[variant.elicit]:
        said = [reply.format(**value) for value in values]
        expected = [score(task, one).reward for task, one in zip(tasks, said, strict=True)]
        assert earn(said).tolist() == pytest.approx(expected, abs=1e-12)


def test_a_plug_in_that_returns_several_scores_is_summed_as_verifiers_does(tmp_path: Path) -> None:
    variant = plugged(tmp_path, "parts_of")
    tasks = list(variant.taskset.take(2))
    said = ["FORECAST: 1.5", "none"]
    expected = [score(task, one).reward for task, one in zip(tasks, said, strict=True)]
    assert earner(tasks)(said).tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["scaled-error", "crps", "wis"])
def test_the_record_a_plug_in_reads_is_the_one_finalize_writes(name: str) -> None:
    (variant,) = shipped(name)
    (task,) = variant.taskset.take(1)
    silent = task.result(task.data, trace_of(task, ""))
    for reply in REPLIES[variant.elicit]:
        said = reply.format(y=1.5, near=2.5)
        trace = trace_of(task, said)
        asyncio.run(task.finalize(trace, None))  # type: ignore[arg-type]
        assert record(silent, read(task, said)) == trace.info[INFO]


@pytest.mark.parametrize("name", ["scaled-error", "crps", "wis", "plugin"])
def test_an_opaque_configuration_is_played_in_shown_numbers(tmp_path: Path, name: str) -> None:
    opaque = hidden(tmp_path, FOLDER / f"{name}.toml")
    (task,) = opaque.taskset.take(1)
    silent, held = task.result(task.data, trace_of(task, "")), task.data.shown
    assert held is not None
    case = case_of(task)
    said = text(Said(case.y, case.scale), opaque.elicit, held)
    trace = trace_of(task, said)
    asyncio.run(task.finalize(trace, None))  # type: ignore[arg-type]
    assert trace.info[INFO]["forecast"] == pytest.approx(case.y)
    assert record(silent, read(task, said)) == trace.info[INFO]
    (plain,) = shipped(name)
    one, other = study(plain, tasks=30), study(opaque, tasks=30)
    assert other.signal == pytest.approx(one.signal, rel=1e-6)
    assert [p.reward for p in other.policies] == pytest.approx([p.reward for p in one.policies])
    assert (other.zero, other.clip, other.best) == (one.zero, one.clip, one.best)


def test_a_plug_in_that_reads_the_text_is_found_out_where_tasks_are_opaque(tmp_path: Path) -> None:
    plain = plugged(tmp_path, "reads_the_text")
    assert report.faults(study(plain, tasks=60)) == []
    opaque = hidden(tmp_path, tmp_path / "reads_the_text.toml")
    assert any("does not rank" in fault for fault in report.faults(study(opaque, tasks=60)))


def test_a_reward_that_depends_on_more_than_the_reply_is_refused(tmp_path: Path) -> None:
    (task,) = plugged(tmp_path, "moody").taskset.take(1)
    with pytest.raises(ConfigError, match="depends on more than task and reply"):
        check(task, ["FORECAST: 1"])


# What is compared.


def test_overlays_are_merged_over_the_base_beside_them_which_is_none_itself() -> None:
    variants = read_variants(sorted(FOLDER.glob("*.toml")))
    assert [variant.name for variant in variants] == SHIPPED
    assert all(variant.taskset.config.closed_egress is False for variant in variants)
    weights = {variant.name: variant.weights for variant in variants}
    assert weights["mixture-format"] == {"scaled_error": 1.0, "format": 0.1}
    assert weights["plugin"] == {"huber": 1.0}


def test_a_base_that_a_glob_took_in_is_left_out_beside_another_base(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text((FOLDER / "base.toml").read_text())
    overlays = sorted(FOLDER.glob("*.toml"))
    assert [variant.name for variant in read_variants(overlays, other)] == SHIPPED
    weighty = tmp_path / "base.toml"
    weighty.write_text("[env.taskset.task.rewards]\nhit = { weight = 1.0 }\n")
    (variant,) = read_variants([weighty], other)
    assert (variant.name, variant.weights) == ("base", {"hit": 1.0})
    weighty.write_text("[env.taskset.task.rewards]\nhit = 1.0\n")
    with pytest.raises(ConfigError, match=r"base\.toml: .*hit"):
        read_variants([weighty], other)


def test_tables_are_merged_key_by_key() -> None:
    assert merged({"a": {"b": 1, "c": {"d": 2}}, "e": [1]}, {"a": {"c": {"f": 3}}, "e": [2]}) == {
        "a": {"b": 1, "c": {"d": 2, "f": 3}},
        "e": [2],
    }


def test_the_documented_loss_is_the_score_behind_the_reward() -> None:
    one, said = case(), Said(3.0, 1.0)
    names = {variant.name: variant.documented for variant in shipped(*SHIPPED)}
    expected = {
        "article": 1.0,
        "scaled-error": 1.0,
        "unit-error": 0.095,
        "mixture-format": 1.0,
        "squared-error": 1.0,
        "plugin": 1.0,
        "hit": 1.0,
        "direction": 1.0,
        "baseline-mean12": 1.0,
        "crps": scoring.crps_normal(1.0, 3.0, 1.0) / 2.0,
        "log-score": scoring.log_score(-1.0, 0.0, 0.5),
        "interval": (2.0 * scoring.Z90 + 10.0 * (2.0 - scoring.Z90)) / 2.0,
        "wis": scoring.crps_quantiles(1.0, said.quantiles) / 2.0,
    }
    assert {name: loss(one, said) for name, (_, loss) in names.items()} == pytest.approx(expected)
    assert names["plugin"][0] == "absolute error"
    assert names["wis"][0] == "WIS"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("scaled_eror = { weight = 1.0 }", "no reward of that name"),
        ("crps_normal = { weight = 1.0 }", "needs elicit = 'interval'"),
        ("format = { weight = 0.0 }", "no reward has a weight"),
        ("mine = { fn = 'nowhere.py:mine', weight = 1.0 }", "mine"),
        ("scaled_error = { weigth = 1.0 }", "weigth"),
        ("scaled_error = ", "line"),
    ],
)
def test_a_wrong_overlay_is_named(tmp_path: Path, body: str, said: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(f"[env.taskset.task.rewards]\n{body}\n")
    with pytest.raises(ConfigError, match=said) as error:
        read_variants([FOLDER / "article.toml", path], FOLDER / "base.toml")
    assert str(error.value).startswith(str(path))


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no configuration to compare"):
        read_variants([FOLDER / "base.toml"])
    copy = tmp_path / "article.toml"
    copy.write_text((FOLDER / "article.toml").read_text())
    with pytest.raises(ConfigError, match="is named article as well"):
        read_variants([FOLDER / "article.toml", copy])
    copy.write_text("[env.agent]\n")
    with pytest.raises(ConfigError, match=r"article\.toml has neither"):
        read_variants([copy])
    (variant,) = shipped("hit")
    for tasks, group in ((1, 8), (8, 1)):
        with pytest.raises(ConfigError, match="at least 2"):
            study(variant, tasks, group)
    judged = variant.taskset.config.task.model_copy(update={"judges": ["some"]})
    (task,) = variant.taskset.take(1)
    task.config = judged
    with pytest.raises(ConfigError, match="judges"):
        earner([task])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", "broken: reward broken fails on the reply 'FORECAST"),
        ("nothing", "nothing: the reply 'FORECAST.* earns nan"),
        ("absent", "absent: reward absent returned None; return a float, or a dict of floats"),
        ("word", "word: reward word returned 'good'; return a float"),
        ("number_as_word", "reward number_as_word returned '0.5'; return a float"),
        ("half_absent", "half_absent: reward half_absent returned {'near': 1.0, 'far': None}"),
        ("leaving", "leaving: reward leaving fails on the reply 'FORECAST.*: SystemExit: 0"),
        ("boxed", "boxed: reward boxed needs a runtime"),
        ("plain", r"plain\.toml: .*not a coroutine function"),
    ],
)
def test_a_reward_that_fails_is_named(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        study(plugged(tmp_path, name), tasks=3)


# Verdicts.


@pytest.mark.parametrize(
    ("name", "toward"),
    [("ratio", (0.95, 1.05)), ("floored", (0.5, 1.1)), ("clipped", (0.4, 1.1)), ("wins", (0.9, 1))],
)
def test_a_ratio_pays_the_copier_and_is_found_out(
    tmp_path: Path, name: str, toward: tuple[float, float]
) -> None:
    found = study(plugged(tmp_path, name), tasks=200)
    low, high = toward
    assert low <= found.best.toward <= high
    assert found.best_documented.toward < 0.45
    assert found.distance > report.FAR
    assert report.faults(found)
    flagged = {one.policy for one in found.exploits}
    assert "hedger" in flagged
    if name != "wins":  # the copier itself does not win, the one a hair beside it does
        assert "copier" in flagged


def test_the_scaled_error_is_sound() -> None:
    found = played("scaled-error")
    assert found.exploits == []
    assert report.faults(found) == []
    assert found.best == found.best_documented
    assert (found.rank, found.rank_loss, found.within) == pytest.approx((1.0, 1.0, 1.0), abs=0.01)
    assert (found.zero, found.tied, found.clip, found.flat) == (0.0, 0.0, 0.0, 0.0)
    assert all(one.loss == one.error for one in found.policies)
    assert all(one.reward <= -one.error + 10.0 for one in found.policies if one.policy != "silent")
    (quarter, *_) = found.policies
    assert quarter.reward == pytest.approx(-quarter.error, abs=1e-9)
    assert quarter.error == pytest.approx(0.25 * math.sqrt(2.0 / math.pi), rel=0.2)


def test_the_articles_reward_is_flat_where_the_naive_forecast_missed_by_more_than_a_scale() -> None:
    found = played("article")
    (variant,) = shipped("article")
    cases = [case_of(task) for task in variant.taskset.take(120)]
    # y + 0.1 scales is on the flat top if the clip is that far away
    flat = [abs(one.naive - one.y) / one.scale >= 1.1 for one in cases]
    assert found.flat == pytest.approx(statistics.mean(flat), abs=1e-9)
    assert 0.2 < found.flat < 0.65
    by_series = [found.flat_by_series[one.series_id] for one in cases]
    assert statistics.mean(by_series) == pytest.approx(found.flat)
    assert 0.04 < found.zero < 0.2 < found.clip < 0.45
    assert found.zero < found.tied
    assert "hedger" in {one.policy for one in found.exploits}
    assert found.signal < played("scaled-error").signal


def test_a_threshold_ties_what_it_cannot_tell_apart() -> None:
    found = played("hit")
    assert (found.flat, found.tied, found.mixed_tied) == (1.0, 1.0, 1.0)
    assert found.clip > 0.9
    assert found.within < 0.9
    assert any("does not rank" in fault for fault in report.faults(found))


def test_a_spread_is_held_against_the_score_that_asks_for_it() -> None:
    found = played("crps")
    assert found.loss == "CRPS"
    assert report.faults(found) == []
    by_name = {one.policy: one for one in found.policies}
    honest, wide, narrow = (by_name[key] for key in ("oracle+0.5", "hedger", "overconfident"))
    assert honest.error == wide.error == narrow.error
    assert honest.reward > max(wide.reward, narrow.reward)
    assert found.best == found.best_documented
    assert 0.7 < found.best.width < 1.3


# What is said of it.


def made(name: str, **changes: object) -> Report:
    """A sound configuration, but for the changes."""
    sound = played("scaled-error")
    return replace(sound, name=name, **changes)


ALL_WEIGHTS = {name: 0.125 for name, fn in vars(Scored).items() if hasattr(fn, "reward")}
PAYS = Exploit("copier", 0.1, "mean_12", 0.0, 3.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"exploits": [PAYS]}, "copier earns 0.100, mean_12 only 0.000"),
        ({"distance": 0.11}, "0.11 scales from what absolute error asks for"),
        ({"width": 1.3}, "best spread is 1.30 times"),
        ({"width": 0.7}, "best spread is 0.70 times"),
        ({"rank_loss": 0.89}, "rank agreement 0.89"),
        ({"within": 0.5}, "inside a group 0.50"),
    ],
)
def test_each_fault_leaves_a_configuration_out(change: dict, said: str) -> None:
    bad, good = made("bad", **change), made("good", signal=0.1)
    assert len(report.faults(bad)) == 1
    (advice,) = report.advise([bad, good])
    assert advice.pick == "good"
    assert any(reason.startswith("not bad: ") and said in reason for reason in advice.reasons)


def test_sound_ones_are_told_apart_by_ties_then_signal_then_weight_then_simplicity() -> None:
    base = {"zero": 0.0, "signal": 1.0, "heavy": 0.1, "rewards": {"a": 1.0}}
    tied = made("a-tied", **{**base, "zero": 0.02, "signal": 9.0})
    weak = made("b-weak", **{**base, "signal": 0.85})
    heavy = made("c-heavy", **{**base, "signal": 1.05, "heavy": 0.2})
    mixed = made("d-mixed", **{**base, "rewards": {"a": 1.0, "b": 1.0}})
    plain, also = made("f-plain", **base), made("g-plain", **base)
    (advice,) = report.advise([tied, weak, heavy, mixed, also, plain])
    assert (advice.pick, advice.as_good) == ("f-plain", ["g-plain", "d-mixed"])
    reasons = {reason.split(":")[0]: reason for reason in advice.reasons}
    assert set(reasons) == {"f-plain", "not a-tied", "not b-weak", "not c-heavy"}
    assert "more groups without advantage" in reasons["not a-tied"]
    assert "less signal to noise than c-heavy" in reasons["not b-weak"]
    assert "hangs more on a few tasks than f-plain" in reasons["not c-heavy"]


def test_overall_the_shortest_reply_that_is_about_as_clear_is_picked() -> None:
    short = made("short", signal=1.0)
    long = made("long", elicit="quantiles", signal=1.05)
    *_, overall = report.advise([long, short])
    assert (overall.scope, overall.pick) == ("overall", "short")
    clear = replace(long, signal=1.5)
    *_, overall = report.advise([clear, short])
    assert overall.pick == "long"


def test_nothing_sound_is_said_so() -> None:
    bad = made("bad", exploits=[PAYS])
    worse = replace(bad, elicit="interval")
    advice = report.advise([bad, worse])
    assert [one.pick for one in advice] == [None, None, None]
    assert report.as_text(advice[0]).startswith("point: none\n  not bad: copier earns")
    assert "no configuration is sound" in advice[-1].reasons[0]


def test_a_large_flat_top_and_clip_are_named() -> None:
    found = played("article")
    (advice,) = report.advise([found])
    (reason,) = advice.reasons
    assert f"flat around the truth in {found.flat:.0%} of the tasks" in reason
    assert f"{found.clip:.0%} of plausible replies on a clip" in reason


def test_csv_and_json_hold_what_was_found() -> None:
    reports = [played("scaled-error"), played("crps")]
    (row, other) = csv.DictReader(io.StringIO(report.as_csv(reports)))
    assert (row["name"], row["rewards"], row["exploits"]) == (
        "scaled-error",
        "scaled_error=1",
        "",
    )
    assert float(other["signal"]) == pytest.approx(reports[1].signal, rel=1e-5)
    assert float(other["best_width"]) == pytest.approx(reports[1].best.width, rel=1e-5)
    document = json.loads(report.as_json(reports, report.advise(reports), group=8, seed=0))
    assert [one["name"] for one in document["variants"]] == ["scaled-error", "crps"]
    policies = {one["policy"]: one for one in document["variants"][0]["policies"]}
    assert policies["silent"]["error"] is None
    assert policies["silent"]["reward"] == -11.0
    assert document["advice"][-1]["scope"] == "overall"
    assert set(document["variants"][0]["flat_by_series"]) == set(reports[0].flat_by_series)


def test_what_is_scored_is_said_first_and_fits_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mixture nobody meant: `beats_baseline` weighs 1 until it is turned off."""
    path = tmp_path / "solo.toml"
    path.write_text("[env.taskset.task.rewards]\nscaled_error = { weight = 1.0 }\n")
    (variant,) = read_variants([path])
    reports = [made("solo", rewards=variant.weights), made("mixed", rewards=ALL_WEIGHTS)]
    (title, columns, rows), *_ = report.tables(reports)
    printed = Console(width=80, file=io.StringIO(), record=True)
    monkeypatch.setattr(cli_output, "out", printed)
    cli_output.show_table(title, columns, rows)
    shown = printed.export_text()
    assert "beats_baseline=1 scaled_error=1" in shown
    assert all(f"{name}=" in shown for name in ALL_WEIGHTS)
    assert max(map(len, shown.splitlines())) <= 80


def test_a_table_shows_brackets_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = Console(width=200, file=io.StringIO(), record=True)
    monkeypatch.setattr(cli_output, "out", printed)
    for title, columns, rows in report.tables([made("core [bold] [/x] :x:")]):
        cli_output.show_table(title, columns, rows)
    assert printed.export_text().count("core [bold] [/x] :x:") == 4


def test_a_picture_is_a_png_that_shows_three_tasks(tmp_path: Path) -> None:
    found = played("article")
    draw(found, tmp_path / "one.png")
    data = (tmp_path / "one.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 20_000
    assert len(found.curves) == 3
    little, some, much = (abs(curve.naive) for curve in found.curves)
    assert little < some < much
    for curve in found.curves:
        assert max(curve.rewards) == pytest.approx(min(1.0, abs(curve.naive)), abs=1e-9)


def test_the_page_quotes_the_lab() -> None:
    """One configuration as a sample, at the defaults: the first value of each cell."""
    page = (ROOT / "docs/rewards.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith("| `article.toml` |")]
    quoted = [cell.split(",")[0].strip() for cell in line.split("|")[2:-2]]
    (variant,) = shipped("article")
    found = study(variant)
    assert quoted == [
        f"{found.rank_loss:.2f}",
        f"{found.within:.2f}",
        f"{found.signal:.2f}",
        str(found.groups),
        f"{found.zero:.1%}",
        f"{found.tied:.1%}",
        f"{found.clip:.1%}",
        f"{found.flat:.1%}",
        f"{found.heavy:.0%}",
        f"{found.distance:.2f}",
    ]
    assert {one.policy for one in found.exploits} == {"constant 0", "hedger"}


@pytest.mark.real
def test_on_real_vintages_the_articles_reward_is_flat_and_clips_as_measured_before(
    panel: VintageStore,
) -> None:
    """`scoring.md` had 27 to 64 % by series, 4 to 17 % tied groups, 10 to 30 % on a clip, the last
    of replies around `mean_12`, which misses with the naive forecast; here nobody's miss goes with
    it, so more are."""
    paths = [FOLDER / "article.toml", FOLDER / "scaled-error.toml"]
    article, plain = (study(v) for v in read_variants(paths, store=panel.uri))
    assert 0.27 < article.flat < 0.64
    assert 0.04 < article.zero < 0.17
    assert 0.30 < article.clip < 0.45
    assert {one.policy for one in article.exploits} == {"hedger"}
    assert report.faults(plain) == []


# The command.


@pytest.mark.e2e
def test_the_command_writes_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    overlays = [str(FOLDER / f"{name}.toml") for name in ("base", "article", "crps")]
    line = ["ablate", *overlays, "--tasks", "12", "--group", "4", "--output"]
    said = run(ROOT, "nowcast-alfred", *line, tmp_path / "1", PYTHONHASHSEED="1", COLUMNS="200")
    again = run(ROOT, "nowcast-alfred", *line, tmp_path / "2", "--json", PYTHONHASHSEED="2")
    names = {path.name for path in (tmp_path / "1").iterdir()}
    assert names == {"ablate.csv", "ablate.json", "article.png", "crps.png"}
    for name in names:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name
    assert again == (tmp_path / "1/ablate.json").read_text()
    document = json.loads(again)
    assert [one["tasks"] for one in document["variants"]] == [12, 12]
    assert str(tmp_path) not in again
    assert "flat at y" in said
    assert "overall: " in said
    (tmp_path / "bad.toml").write_text("[env.taskset.task.rewards]\nhits = { weight = 1.0 }\n")
    wrong = [BIN / "nowcast-alfred", "ablate", tmp_path / "bad.toml", "--tasks", "2"]
    done = subprocess.run(
        wrong, env=environment(COLUMNS="200"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "bad.toml" in done.stderr
    assert "no reward of that name" in done.stderr
