"""What a report says of a store, as numbers: first releases, lags, revisions, a triangle.

The sizes of revisions follow one rule: mean |first release - latest value| over mean |naive error|,
both of the target's transform inside one vintage, over the tasks of a series. Left out are
reference periods that reach into the pandemic, whose few numbers would drown the others, and
releases too young to have been revised. The naive forecast is the last change known the day before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import periods as p
from ..autoregression import mean
from ..errors import ConfigError
from ..store.manifest import SeriesEntry
from ..store.reader import AsOfView, VintageStore
from ..store.schema import NO_LOWER, SeriesMeta
from ..targets import Role, SeriesTargets, SpaceConfig, TaskSpace, build_space, first_releases
from .backtest import SHOCK

SETTLED = 180
"""Days that a release must have had to be revised, to count in the size of revisions."""
LEAST = 12
"""Fewest tasks for which a size of revisions is given."""
TRIANGLE = (12, 14)
"""How many of the newest periods, and of the newest vintages of them, a triangle shows."""
READ = 90
"""How many vintages are looked at for a triangle."""


@dataclass(frozen=True)
class Measured:
    """One series of a store. `lags` and `brackets` are days, for each of `releases`; a bracket of
    0 is an exact day. `targets` are the tasks of the default settings, None where there are none.
    """

    meta: SeriesMeta
    entry: SeriesEntry
    periods: int
    changed: int
    """Change points that revise a period."""
    releases: SeriesTargets
    targets: SeriesTargets | None
    lags: p.Days
    brackets: p.Days
    revision: float | None
    """Mean |first release - latest value|, in the target's unit."""
    naive: float | None
    """Mean |error of the last change|, over the same tasks."""

    @property
    def relative(self) -> float | None:
        """The size of revisions as a share of the naive error; None where either is unknown."""
        if self.revision is None or not self.naive:
            return None
        return self.revision / self.naive

    @property
    def lag(self) -> tuple[float, float, float] | None:
        """The 10, 50 and 90 % quantile of the days from a period's end to its release."""
        if not len(self.lags):
            return None
        low, middle, high = np.quantile(self.lags, (0.1, 0.5, 0.9)).tolist()
        return low, middle, high


def space_of(store: VintageStore) -> tuple[TaskSpace | None, str]:
    """All tasks of a store under the default settings, or None and why there are none."""
    try:
        return build_space(store, SpaceConfig(split="all")), ""
    except ConfigError as error:
        return None, str(error)


def measure(store: VintageStore, key: str, entry: SeriesEntry, space: TaskSpace | None) -> Measured:
    """The numbers of one series."""
    meta, changes = store.meta(key), store.changes(key)
    role = Role(
        meta.frequency, meta.transform, meta.max_lag_days, meta.role, meta.category, meta.training
    )
    releases = first_releases(changes, role)
    at = np.searchsorted(changes.periods, releases.period)
    lower = changes.columns.lower[changes.starts][at]
    targets = space.series.get(key) if space is not None else None
    revision, naive = (None, None) if targets is None else _revision(store, key, targets)
    return Measured(
        meta=meta,
        entry=entry,
        periods=len(changes.periods),
        changed=len(changes.columns.period) - len(changes.periods),
        releases=releases,
        targets=targets,
        lags=releases.release - p.period_ends(releases.period, meta.frequency),
        brackets=np.where(lower == NO_LOWER, 0, releases.release - lower).astype(np.int32),
        revision=revision,
        naive=naive,
    )


def _revision(
    store: VintageStore, key: str, targets: SeriesTargets
) -> tuple[float | None, float | None]:
    """Mean |first - latest| and mean |naive error| over a series' settled tasks."""
    units = targets.role.transform
    newest = int(store.changes(key).columns.vintage.max())
    ends = p.period_ends(targets.period, targets.role.frequency)
    outside = (ends < SHOCK[0]) | (targets.period >= SHOCK[1])
    settled = targets.where(outside & (targets.release <= newest - SETTLED))
    latest = AsOfView(store, newest).observations(key, units=units)
    moved, missed = [], []
    windows = np.array([settled.period, settled.release, settled.high]).T
    for period, release, high in windows.tolist():
        now = _value(latest.period, latest.value, period)
        if now is None:  # withdrawn since
            continue
        printed = AsOfView(store, release).observations(key, units=units)
        first = _value(printed.period, printed.value, period)
        known = AsOfView(store, high).observations(key, units=units).value
        assert first is not None  # a target has a value in its release
        moved.append(abs(first - now))
        missed.append(abs(first - float(known[-1])))
    if len(moved) < LEAST:
        return None, None
    return mean(moved), mean(missed)


def _value(periods: p.Days, values: p.Floats, period: int) -> float | None:
    at = int(np.searchsorted(periods, period))
    return float(values[at]) if at < len(periods) and periods[at] == period else None


@dataclass(frozen=True)
class Triangle:
    """Values of the newest periods (rows) as known in vintages (columns); NaN: not published.

    `first` is the column of each row's first value that is shown; -1 where that came before.
    """

    series_id: str
    periods: list[int]
    vintages: list[int]
    values: p.Floats
    first: list[int]


def triangle(store: VintageStore, key: str) -> Triangle:
    """How the newest periods of a series were published and revised, in the target's transform.

    A vintage in which none of them changed is no column.

    Raises
    ------
    QueryError
        If the store has no such series; the message lists those it has.
    """
    units, changes = store.meta(key).transform, store.changes(key)
    rows = changes.periods[-TRIANGLE[0] :]
    firsts = changes.columns.vintage[changes.starts][-TRIANGLE[0] :]
    days = np.unique(changes.columns.vintage)
    days = days[days >= firsts.min()][-READ:]
    kept: list[int] = []
    found: list[p.Floats] = []
    for day in days.tolist():
        known = AsOfView(store, day).observations(key, units=units)
        column = np.full(len(rows), np.nan)
        _, here, there = np.intersect1d(rows, known.period, return_indices=True)
        column[here] = known.value[there]
        if not found or not np.array_equal(column, found[-1], equal_nan=True):
            kept.append(day)
            found.append(column)
    kept, found = kept[-TRIANGLE[1] :], found[-TRIANGLE[1] :]
    return Triangle(
        series_id=key,
        periods=rows.tolist(),
        vintages=kept,
        values=np.array(found).T,
        first=[kept.index(day) if day in kept else -1 for day in firsts.tolist()],
    )
