"""How much of a model's skill needs no data: two runs over the same tasks, with data and without.

A model that remembers published numbers beats the baseline even where it is shown nothing
(`context = "none"`). *Skill* is the part of the baseline's error that the forecasts take away: the
sum over tasks of (|baseline - y| - |forecast - y|) / scale, over the sum of |baseline - y| / scale,
where a forecast that is worse than the baseline by more than a scale counts as one scale worse, as
in `beats_baseline`. A reply without a forecast counts as the baseline: no gain, no loss. Rollouts
that failed are left out. Rollouts of one task are averaged.

The *share that survives* is skill without data over skill with data. Both are ratios of sums; their
95 % intervals are Fieller's over the months of release (`long_run`), because what is published in
one month misses together and one outcome is asked on several days. Where the skill with data is not
surely above zero there is nothing to take a share of, and none is given.

The share is net: what a miss loses cancels what a hit gains, so a model that knows 40 % of the
numbers by heart and guesses wildly at the others can have a share of nothing, or less. Recalled
numbers show in the *hits*: forecasts within `NEAR` scales of the outcome. Only rollouts with a
forecast count here: of each task the share of those that hit, averaged over the tasks that have
one. A hit may be luck or a good habit, which is held against two rates of the same tasks: the
baseline's hits, and how often the same forecasts hit the outcomes of other periods of their series
(the unchanged rate of a coarsely rounded series hits often, in any month). Numbers count as
recalled where the hits without data are surely above both, by the interval of each difference.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..periods import Floats, to_days
from ..prompts import NONE
from .long_run import Dates, Interval, months, ratio_interval
from .traces import Rollout, read_run

WORST = 1.0
"""How much worse than the baseline a forecast can count, in scales."""
NEAR = 0.05
"""How near to the outcome a forecast is a hit, in scales."""

Target = tuple[str, str, str, str]


@dataclass(frozen=True)
class Run:
    """One run's rollouts by task: what was asked, and the gain of each in scales."""

    store: str
    gains: dict[Target, list[float]]
    baseline: dict[Target, float]
    """|baseline - y| in scales."""
    forecasts: dict[Target, list[float]]
    """Of the rollouts that gave one."""
    outcome: dict[Target, tuple[float, float]]
    """The first release and the scale."""
    release: dict[Target, int]
    """Day of release."""
    unparsed: int
    failed: int


@dataclass(frozen=True)
class Hits:
    """Shares of forecasts within `NEAR` scales of the outcome.

    The last four are of the tasks that have a forecast without data; None where there is none.
    """

    with_data: float | None
    without_data: float | None
    baseline: float | None
    """Of the baseline."""
    other_periods: float | None
    """Of the forecasts without data, had the outcome been that of another period of the series."""
    above_baseline: Interval | None
    """What the hits without data are above those of the baseline by."""
    above_other_periods: Interval | None

    @property
    def recalled(self) -> bool:
        """Whether the hits without data are surely above both rates."""
        return all(
            interval is not None and interval[0] > 0.0
            for interval in (self.above_baseline, self.above_other_periods)
        )


@dataclass(frozen=True)
class Row:
    """Skill with and without data of some tasks, the share that survives, and the hits."""

    kind: str
    name: str
    tasks: int
    with_data: float | None
    with_interval: Interval | None
    without_data: float | None
    without_interval: Interval | None
    share: float | None
    share_interval: Interval | None
    hits: Hits


@dataclass(frozen=True)
class Recall:
    """What `recall` found."""

    store: str
    tasks: int
    unpaired: tuple[int, int]
    """Tasks that only the run with data, or only the one without, has."""
    unparsed: tuple[int, int]
    """Rollouts without a forecast, with and without data."""
    failed: tuple[int, int]
    """Rollouts left out."""
    rows: list[Row]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = asdict(self)
        for row, told in zip(self.rows, found["rows"], strict=True):
            told["hits"]["recalled"] = row.hits.recalled
        return found


def recall(with_data: str | Path, without_data: str | Path) -> Recall:
    """Compare two `vf-eval` runs over the same tasks.

    Raises
    ------
    InputError
        If a folder is no run, has no scored rollout, or is the wrong one of the two; if the runs
        used different stores or baselines, or share no task.
    """
    runs = [_run(folder, shown) for folder, shown in ((with_data, True), (without_data, False))]
    full, bare = runs
    if full.store != bare.store:
        raise InputError(
            f"the runs used different versions of a store: {with_data} {full.store[:12]}, "
            f"{without_data} {bare.store[:12]}; run both on one"
        )
    shared = sorted(full.gains.keys() & bare.gains.keys())
    if not shared:
        raise InputError(
            f"{with_data} and {without_data} share no task (series, period, as-of date); give both "
            "the same seed, split and limit"
        )
    for target in shared:
        if abs(full.baseline[target] - bare.baseline[target]) > 1e-9:
            raise InputError(f"the runs used different baselines or scales: see {target}")
    return Recall(
        store=full.store,
        tasks=len(shared),
        unpaired=(len(full.gains) - len(shared), len(bare.gains) - len(shared)),
        unparsed=(full.unparsed, bare.unparsed),
        failed=(full.failed, bare.failed),
        rows=_rows(shared, full, bare),
    )


def _run(folder: str | Path, shown: bool) -> Run:
    rollouts = read_run(folder)
    scored = [r for r in rollouts if r.ok and "first" in r.nowcast]
    if not scored:
        raise InputError(f"{folder}: none of its {len(rollouts)} rollouts was scored")
    stores = {r.task["data"]["store"] for r in scored}
    if len(stores) > 1:
        raise InputError(f"{folder}: its tasks come from {len(stores)} versions of a store")
    if any((NONE in str(r.task["data"].get("prompt"))) == shown for r in scored):
        expected = "shows data" if shown else 'has context = "none"'
        raise InputError(
            f"{folder}: not a run that {expected}; give the run with data first, then the one "
            "without"
        )
    gains: dict[Target, list[float]] = {}
    forecasts: dict[Target, list[float]] = {}
    baseline, outcome, release = {}, {}, {}
    for rollout in scored:
        target = _target(rollout)
        release[target] = to_days(rollout.nowcast["first_vintage"])
        baseline[target], gain = _gain(rollout)
        gains.setdefault(target, []).append(gain)
        outcome[target] = rollout.nowcast["first"], rollout.nowcast["scale"]
        if rollout.nowcast["forecast"] is not None:
            forecasts.setdefault(target, []).append(rollout.nowcast["forecast"])
    return Run(
        store=stores.pop(),
        gains=gains,
        baseline=baseline,
        forecasts=forecasts,
        outcome=outcome,
        release=release,
        unparsed=sum(r.nowcast["forecast"] is None for r in scored),
        failed=len(rollouts) - len(scored),
    )


def _target(rollout: Rollout) -> Target:
    held = rollout.nowcast
    return held["series_id"], held["reference_period"], held["as_of"], held["transform"]


def _gain(rollout: Rollout) -> tuple[float, float]:
    """The baseline's error in scales, and how much smaller the forecast's is."""
    held = rollout.nowcast
    naive = abs(held["baseline"] - held["first"]) / held["scale"]
    if held["forecast"] is None:
        return naive, 0.0
    return naive, max(-WORST, naive - abs(held["forecast"] - held["first"]) / held["scale"])


def _groups(targets: list[Target]) -> Iterable[tuple[str, str, list[Target]]]:
    yield "all", "", targets
    for kind, name_of in (("series", _series), ("year", _year)):
        for name in sorted({name_of(target) for target in targets}):
            yield kind, name, [target for target in targets if name_of(target) == name]


def _series(target: Target) -> str:
    return target[0]


def _year(target: Target) -> str:
    return target[1][:4]


def _rows(shared: list[Target], full: Run, bare: Run) -> list[Row]:
    with_data, without_data = (
        {
            target: _near(run, target, np.array([run.outcome[target][0]]))
            for target in shared
            if target in run.forecasts
        }
        for run in (full, bare)
    )
    elsewhere = _near_elsewhere(shared, bare)
    return [
        _row(
            kind,
            name,
            targets,
            full,
            bare,
            _hits(targets, bare, with_data, without_data, elsewhere),
        )
        for kind, name, targets in _groups(shared)
    ]


def _near(run: Run, target: Target, outcomes: Floats) -> float:
    """The share of a task's forecasts that hit some outcomes, in its scale; 0 where these are
    none."""
    if len(outcomes) == 0:
        return 0.0
    scale = run.outcome[target][1]
    hit = [np.abs(forecast - outcomes) / scale <= NEAR for forecast in run.forecasts[target]]
    return float(np.mean(hit))


def _near_elsewhere(shared: list[Target], run: Run) -> dict[Target, float]:
    """The share of each task's forecasts that hit the outcomes of other periods of its series."""
    by_series: dict[tuple[str, str], list[Target]] = {}
    for target in shared:
        by_series.setdefault((target[0], target[3]), []).append(target)
    found = {}
    for alike in by_series.values():
        outcomes = np.array([run.outcome[target][0] for target in alike])
        periods = np.array([target[1] for target in alike])
        for target in alike:
            if target in run.forecasts:
                found[target] = _near(run, target, outcomes[periods != target[1]])
    return found


def _hits(
    targets: list[Target],
    bare: Run,
    with_data: dict[Target, float],
    without_data: dict[Target, float],
    elsewhere: dict[Target, float],
) -> Hits:
    full = [with_data[target] for target in targets if target in with_data]
    told = [target for target in targets if target in without_data]
    hit = np.array([without_data[target] for target in told])
    naive = np.array([float(bare.baseline[target] <= NEAR) for target in told])
    other = np.array([elsewhere[target] for target in told])
    when = _when(bare, told)
    return Hits(
        with_data=_mean(np.array(full)),
        without_data=_mean(hit),
        baseline=_mean(naive),
        other_periods=_mean(other),
        above_baseline=_mean_interval(hit - naive, when),
        above_other_periods=_mean_interval(hit - other, when),
    )


def _row(kind: str, name: str, targets: list[Target], full: Run, bare: Run, hits: Hits) -> Row:
    naive = np.array([full.baseline[target] for target in targets])
    gain, alone = (
        np.array([statistics.fmean(run.gains[target]) for target in targets])
        for run in (full, bare)
    )
    when = _when(full, targets)
    total = naive.sum()
    if total == 0.0:
        return Row(kind, name, len(targets), None, None, None, None, None, None, hits)
    share_interval = ratio_interval(alone, gain, when)
    return Row(
        kind=kind,
        name=name,
        tasks=len(targets),
        with_data=float(gain.sum() / total),
        with_interval=ratio_interval(gain, naive, when),
        without_data=float(alone.sum() / total),
        without_interval=ratio_interval(alone, naive, when),
        share=float(alone.sum() / gain.sum()) if share_interval else None,
        share_interval=share_interval,
        hits=hits,
    )


def _when(run: Run, targets: list[Target]) -> Dates:
    return months(np.array([run.release[target] for target in targets], dtype=np.int32))


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _mean_interval(values: Floats, when: Dates) -> Interval | None:
    return ratio_interval(values, np.ones(len(values)), when) if len(values) else None
