"""Every baseline over all targets of a store, held against `last_change`.

A target is forecast on the last as-of day of its window, the profession's habit, and for the table
by horizon also on the first and the middle one. The outcome is the transform inside the release
vintage. Work is split by series, over the processes of one machine or of a Ray cluster; what comes
back are plain forecasts, put in one order, and all statistics are computed from them in one place,
so the figures are the same bytes however many processes made them. Nothing here imports verifiers,
which would cost every process seconds.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from .. import periods as p
from ..baselines import BASELINES, BaselineName, Known, scale_of
from ..choice import best_of, known_on
from ..errors import ConfigError
from ..locate import opened
from ..prompts import unit_of
from ..store.reader import AsOfView, VintageStore
from ..targets import SeriesTargets, SpaceConfig, TaskSpace, has_scale
from .compare import Comparison, compare
from .long_run import Dates, months

NAMES: tuple[BaselineName, ...] = get_args(BaselineName)
REFERENCE = NAMES.index("last_change")

SHOCK = (p.to_days("2020-02-01"), p.to_days("2021-07-01"))
"""The pandemic's first day, and the first one after it: a reference period that reaches into it
belongs to it, such as the first quarter of 2020."""
PERIODS = ("before 2020-02", "2020-02 to 2021-06", "after 2021-06")
HORIZONS = ("1-7", "8-14", "15-30", "31-60", "61+")
HORIZON_ENDS = (7, 14, 30, 60)
"""Last day of each horizon but the last, in days from as-of to release."""

SCALES_UNIT = "scales"
COLUMNS = ("kind", "group", "unit", "baseline", *(field.name for field in fields(Comparison)))


@dataclass(frozen=True)
class Job:
    """The targets of one series, and where a process finds their store."""

    uri: str
    fingerprint: str
    series_id: str
    targets: SeriesTargets
    config: SpaceConfig


@dataclass(frozen=True)
class Forecasts:
    """Forecasts of one series: arrays of shape (n,), `forecast` (n, number of baselines)."""

    series_id: str
    period: p.Days
    """First day of the reference period."""
    end: p.Days
    """Its last day."""
    release: p.Days
    as_of: p.Days
    last: npt.NDArray[np.bool_]
    """Whether it is the last as-of day of the target's window."""
    outcome: p.Floats
    scale: p.Floats
    forecast: p.Floats


@dataclass(frozen=True)
class Backtest:
    """What a backtest found; rows have the keys `COLUMNS`."""

    store: str
    scale: str
    targets: int
    """Targets that were forecast, of `space` in the task space."""
    space: int
    rows: list[dict[str, Any]]

    def as_json(self) -> str:
        """Everything, as one JSON object."""
        return json.dumps(asdict(self), allow_nan=False, indent=1) + "\n"

    def as_csv(self) -> str:
        """The rows in long form; an empty field has no value, floats read back exactly."""
        text = io.StringIO()
        lines = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        lines.writeheader()
        lines.writerows(self.rows)
        return text.getvalue()


def run(
    space: TaskSpace,
    sample: int | None = None,
    processes: int | None = None,
    ray: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Backtest:
    """Forecast the targets of a task space by every baseline, and compare.

    Parameters
    ----------
    sample
        Forecast only so many targets, by a keyed order in which each series has its share at any
        length: a smaller sample is part of a larger one. None: all.
    processes
        How many processes; 1 stays in this one, as a store in memory must. None: one per processor
        of this machine, or with `ray` of the cluster.
    ray
        Use a Ray cluster: the one in force or at `RAY_ADDRESS`, else one on this machine. The store
        must be where every node finds it.
    progress
        Called after each series with how many are done, of how many.

    Raises
    ------
    ConfigError
        If Ray is asked for and is not installed, or has not so many processors.
    """
    chosen = space.series if sample is None else spread(space, sample)
    settings = SpaceConfig(scale=space.config.scale, min_history=space.config.min_history)
    jobs = [
        Job(space.store.uri, space.store.fingerprint, key, targets, settings)
        for key, targets in chosen.items()
    ]
    jobs.sort(key=lambda job: -len(job.targets.period))  # the longest first: processes end together
    found = {}
    for done in _results(space.store, jobs, processes, ray):
        found[done.series_id] = done
        progress(len(found), len(jobs))
    return Backtest(
        store=space.store.fingerprint,
        scale=space.config.scale,
        targets=sum(len(targets.period) for targets in chosen.values()),
        space=len(space),
        rows=list(rows_of(space, [found[key] for key in chosen])),
    )


def spread(space: TaskSpace, count: int) -> dict[str, SeriesTargets]:
    """The first `count` targets of a keyed order in which each series has its share all along."""
    ranked = []
    for key, targets in space.series.items():
        words = [_words(space, key, period) for period in targets.period.tolist()]
        order = sorted(range(len(words)), key=words.__getitem__)
        # Each n-th of a series holds one target, somewhere inside it: as the stream's deck.
        ranked += [
            ((place + words[i][1] / 2.0**64) / len(words), key, i) for place, i in enumerate(order)
        ]
    chosen: dict[str, list[int]] = {}
    for _, key, i in sorted(ranked)[:count]:
        chosen.setdefault(key, []).append(i)
    return {key: space.series[key].where(np.array(sorted(chosen[key]))) for key in sorted(chosen)}


def _words(space: TaskSpace, key: str, period: int) -> tuple[int, int]:
    """Two 64-bit words of a target."""
    text = f"backtest/{space.store.fingerprint}/{space.config.seed}/{key}/{period}"
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big")


# --- Forecasts


def _results(
    store: VintageStore, jobs: list[Job], processes: int | None, ray: bool
) -> Iterator[Forecasts]:
    if ray:
        with _ray_pool(processes) as pool:
            yield from pool.imap(_at_place, jobs)
        return
    count = min(processes or os.cpu_count() or 1, len(jobs))
    if count == 1:
        yield from (forecast(store, job) for job in jobs)
    else:
        # Spawned: a fork would copy the threads and locks of whatever called this.
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(count, mp_context=spawn) as executor:
            yield from executor.map(_at_place, jobs)


def _ray_pool(processes: int | None) -> Any:
    try:
        from ray.util.multiprocessing import Pool
    except ImportError:
        raise ConfigError(
            "Ray is not installed; install it with: pip install 'nowcast-alfred[ray]'"
        ) from None
    try:
        return Pool(processes)
    except (ValueError, ConnectionError) as error:
        raise ConfigError(f"no pool of processes from Ray: {error}") from None


def _at_place(job: Job) -> Forecasts:
    return forecast(opened(job.uri, job.fingerprint), job)


def forecast(store: VintageStore, job: Job) -> Forecasts:
    """Every baseline's forecasts of one series' targets.

    A day before the last on which a task could not be asked (too little history, no scale) is left
    out; the last day of a target can always be asked.
    """
    key, targets, units = job.series_id, job.targets, job.targets.role.transform
    days: list[tuple[int, int, int, int]] = []
    values: list[list[float]] = []
    windows = np.array([targets.period, targets.release, targets.low, targets.high]).T
    seen: Known | None = None
    for period, release, low, high in windows.tolist():
        y = store.outcome(key, period, units).first
        for day in sorted({low, (low + high) // 2, high}):
            view = AsOfView(store, day)
            if day < high and not has_scale(view, key, job.config, units):
                continue
            known = known_on(view, key, units, period)
            if seen is None or not _same(seen, known):  # most days publish nothing of a series
                made = {name: baseline(known) for name, baseline in BASELINES.items()}
                scale, seen = scale_of(job.config.scale, known), known
            best = made[best_of(store, key, units, day)]
            days.append((period, release, day, high))
            values.append([y, scale, *made.values(), best])
    period_, release_, as_of, last = np.array(days, dtype=np.int32).T
    found = np.array(values)
    return Forecasts(
        series_id=key,
        period=period_,
        end=p.period_ends(period_, targets.role.frequency),
        release=release_,
        as_of=as_of,
        last=as_of == last,
        outcome=found[:, 0],
        scale=found[:, 1],
        forecast=found[:, 2:],
    )


def _same(one: Known, other: Known) -> bool:
    """Whether two days know the same of one target, so that every baseline says the same."""
    return (
        one.target == other.target
        and np.array_equal(one.level, other.level)
        and np.array_equal(one.value, other.value)
        and np.array_equal(one.level_period, other.level_period)  # type: ignore[arg-type]
    )


# --- Groups


def rows_of(space: TaskSpace, found: list[Forecasts]) -> Iterator[dict[str, Any]]:
    """One row per group and baseline: pooled groups in scales, a series in its own unit."""
    own = [_at(one, one.last) for one in found]
    yield from _pooled("all", "all", own)
    for one in own:
        yield from _series("series", space, one)
    for one in own:
        yield from _series("without_2020", space, _at(one, _period_number(one) != 1))
    for kind, name, members in (
        *_by_category(space, own),
        *_by_number("horizon", HORIZONS, _horizon_number, found),
        *_by_number("period", PERIODS, _period_number, own),
    ):
        yield from _pooled(kind, name, members)


Group = tuple[str, str, list[Forecasts]]


def _by_category(space: TaskSpace, found: list[Forecasts]) -> Iterator[Group]:
    names = {one.series_id: space.series[one.series_id].role.category or "none" for one in found}
    for name in sorted(set(names.values())):
        yield "category", name, [one for one in found if names[one.series_id] == name]


def _by_number(
    kind: str,
    names: tuple[str, ...],
    number: Callable[[Forecasts], npt.NDArray[np.int64]],
    found: list[Forecasts],
) -> Iterator[Group]:
    for at, name in enumerate(names):
        yield kind, name, [_at(one, number(one) == at) for one in found]


def _period_number(one: Forecasts) -> npt.NDArray[np.int64]:
    return (one.end >= SHOCK[0]).astype(np.int64) + (one.period >= SHOCK[1])


def _horizon_number(one: Forecasts) -> npt.NDArray[np.int64]:
    return np.searchsorted(HORIZON_ENDS, one.release - one.as_of, side="left")


def _at(one: Forecasts, keep: npt.NDArray[np.bool_]) -> Forecasts:
    arrays = {field.name: getattr(one, field.name)[keep] for field in fields(one)[1:]}
    return replace(one, **arrays)


def _series(kind: str, space: TaskSpace, one: Forecasts) -> Iterator[dict[str, Any]]:
    """A series' rows: errors in its unit, dated by the day of release."""
    key = one.series_id
    unit = unit_of(space.series[key].role.transform, space.store.meta(key).units)
    errors = one.forecast - one.outcome[:, None]
    yield from _rows((kind, key, unit), errors, one.scale, one.release)


def _pooled(kind: str, name: str, members: list[Forecasts]) -> Iterator[dict[str, Any]]:
    """A pooled group's rows: errors in scales, dated by the month of release."""
    errors = np.concatenate(
        [(one.forecast - one.outcome[:, None]) / one.scale[:, None] for one in members]
    )
    when = months(np.concatenate([one.release for one in members]))
    yield from _rows((kind, name, SCALES_UNIT), errors, np.ones(len(errors)), when)


def _rows(
    names: tuple[str, str, str], errors: p.Floats, scale: p.Floats, when: Dates
) -> Iterator[dict[str, Any]]:
    if not len(errors):
        return
    for at, baseline in enumerate(NAMES):
        against = compare(errors[:, at], errors[:, REFERENCE], scale, when)
        yield dict(zip(COLUMNS, (*names, baseline, *asdict(against).values()), strict=True))
