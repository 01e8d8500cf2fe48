"""`best_of`: the baseline that would have done best so far, by a backtest inside the view.

Each of the last first releases known on the as-of date is forecast from the view of the day before
it (of the lower end of its bracket, where the day is not exact) and held against the transform
inside its own vintage. Rows later than the as-of date take no part: the releases are found in a
copy of the series without them. What was chosen stays the same until the next release, so draws in
one window share it, and each release is backtested once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from .baselines import BASELINES, BaselineName, Known
from .periods import Units
from .store.cache import Columns
from .store.reader import AsOfView, Changes, VintageStore
from .targets import Role, SeriesTargets, first_releases

RELEASES = 24
"""How many first releases are backtested."""
LEAST = 12
"""With fewer than these, `best_of` is `last_change`."""


def known_on(view: AsOfView, series_id: str, units: Units, target: int | None = None) -> Known:
    """What baselines and scales read of a series on a view's day.

    `target` is the first day of the period to forecast. None is the one after the last known: not
    the same where that one is never published.
    """
    level = view.observations(series_id)
    value = level if units == "lin" else view.observations(series_id, units=units)
    frequency = view.meta(series_id).frequency
    return Known(value.value, level.value, units, frequency, value.period, level.period, target)


def baseline_on(
    name: BaselineName, store: VintageStore, series_id: str, day: int, known: Known
) -> float:
    """A baseline's forecast on a day, from what is known on it."""
    if name == "best_of":
        name = best_of(store, series_id, known.units, day)
    return BASELINES[name](known)


def best_of(store: VintageStore, series_id: str, units: Units, day: int) -> BaselineName:
    """The baseline with the lowest mean absolute error over the last 24 first releases known.

    Parameters
    ----------
    units
        The target's transform.
    day
        The as-of date, in days since 1970; nothing later is read.

    Returns
    -------
    A name other than `best_of`. Of equal ones, the first in the order of `BASELINES`; with fewer
    than 12 first releases, `last_change`.

    A first release is one by the rules of `targets`, with the frequency and the largest lag that
    the store's metadata have on the day; the settings of a task space play no part.
    """
    changes = store.changes(series_id)
    firsts = changes.columns.vintage[changes.starts]
    newest = int(firsts[firsts <= day].max())
    return _best(_Past(store.fingerprint, series_id, units, newest, store))


@dataclass(frozen=True)
class _Past:
    """A series up to its newest release; two are equal if they are of stores with equal content."""

    fingerprint: str
    series_id: str
    units: Units
    day: int
    store: VintageStore = field(compare=False, repr=False)


@lru_cache(maxsize=4096)
def _best(past: _Past) -> BaselineName:
    targets = _releases(past)
    backtested = zip(
        targets.period.tolist(), targets.high.tolist(), targets.release.tolist(), strict=True
    )
    rows = [
        _errors(
            _Past(past.fingerprint, past.series_id, past.units, release, past.store), period, day
        )
        for period, day, release in backtested
    ]
    rows = [row for row in rows if row]
    if len(rows) < LEAST:
        return "last_change"
    means = [_mean(column) for column in zip(*rows, strict=True)]
    names: list[BaselineName] = list(BASELINES)  # type: ignore[arg-type]
    return names[means.index(min(means))]


def _releases(past: _Past) -> SeriesTargets:
    """The last first releases by a day, found in the rows up to it."""
    meta = past.store.meta_on(past.series_id, past.day)
    columns = past.store.changes(past.series_id).columns
    keep = columns.vintage <= past.day
    seen = Columns(
        columns.period[keep], columns.vintage[keep], columns.value[keep], columns.lower[keep]
    )
    role = Role(
        meta.frequency, past.units, meta.max_lag_days, meta.role, meta.category, meta.training
    )
    found = first_releases(Changes.of(seen), role)
    return found.where(np.arange(len(found.period)) >= len(found.period) - RELEASES)


@lru_cache(maxsize=1 << 15)
def _errors(release: _Past, period: int, day: int) -> tuple[float, ...]:
    """Each baseline's error of one first release, forecast on a day; empty if nothing is known."""
    before = AsOfView(release.store, day)
    known = known_on(before, release.series_id, release.units, period)
    printed = AsOfView(release.store, release.day).observations(
        release.series_id, units=release.units
    )
    at = int(np.searchsorted(printed.period, period))
    if not len(known.value) or at == len(printed) or printed.period[at] != period:
        return ()
    y = float(printed.value[at])
    return tuple(abs(baseline(known) - y) for baseline in BASELINES.values())


def _mean(errors: tuple[float, ...]) -> float:
    try:
        return math.fsum(errors) / len(errors)
    except OverflowError:
        return math.inf
