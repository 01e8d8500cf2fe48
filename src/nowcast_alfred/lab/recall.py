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
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..periods import to_days
from ..prompts import NONE
from .long_run import Interval, months, ratio_interval
from .traces import Rollout, read_run

WORST = 1.0
"""How much worse than the baseline a forecast can count, in scales."""

Target = tuple[str, str, str, str]


@dataclass(frozen=True)
class Run:
    """One run's rollouts by task: what was asked, and the gain of each in scales."""

    store: str
    gains: dict[Target, list[float]]
    baseline: dict[Target, float]
    """|baseline - y| in scales."""
    release: dict[Target, int]
    """Day of release."""
    unparsed: int
    failed: int


@dataclass(frozen=True)
class Row:
    """Skill with and without data of some tasks, and the share that survives."""

    kind: str
    name: str
    tasks: int
    with_data: float | None
    with_interval: Interval | None
    without_data: float | None
    without_interval: Interval | None
    share: float | None
    share_interval: Interval | None


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
        return asdict(self)


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
        rows=[_row(kind, name, targets, full, bare) for kind, name, targets in _groups(shared)],
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
    baseline, release = {}, {}
    for rollout in scored:
        target = _target(rollout)
        release[target] = to_days(rollout.nowcast["first_vintage"])
        baseline[target], gain = _gain(rollout)
        gains.setdefault(target, []).append(gain)
    unparsed = sum(r.nowcast["forecast"] is None for r in scored)
    return Run(stores.pop(), gains, baseline, release, unparsed, len(rollouts) - len(scored))


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


def _row(kind: str, name: str, targets: list[Target], full: Run, bare: Run) -> Row:
    naive = np.array([full.baseline[target] for target in targets])
    gain, alone = (
        np.array([statistics.fmean(run.gains[target]) for target in targets])
        for run in (full, bare)
    )
    when = months(np.array([full.release[target] for target in targets]))
    total = naive.sum()
    if total == 0.0:
        return Row(kind, name, len(targets), None, None, None, None, None, None)
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
    )
