"""What one version of a store has that another has not: first releases, revisions, changed past."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from .. import periods as p
from .reader import VintageStore


@dataclass(frozen=True)
class Row:
    """One difference: a period's value in a vintage, before and after (None: not there, or
    withdrawn), and its size in usual changes of the series."""

    series_id: str
    period: str
    vintage: str
    before: float | None
    after: float | None
    size: float


@dataclass
class Difference:
    """New series and dropped ones; first values of periods; revisions, largest first; and rows
    that change what a past day could see."""

    added: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    releases: list[Row] = field(default_factory=list)
    revisions: list[Row] = field(default_factory=list)
    changed: list[Row] = field(default_factory=list)


def difference(old: VintageStore, new: VintageStore) -> Difference:
    """Compare two versions, or two stores, series by series."""
    before, after = set(old.series_ids), set(new.series_ids)
    found = Difference(sorted(after - before), sorted(before - after))
    for series_id in sorted(before & after):
        _compare(old, new, series_id, found)
    found.revisions.sort(key=lambda row: (-row.size, row.series_id, row.period, row.vintage))
    return found


def _compare(old: VintageStore, new: VintageStore, series_id: str, found: Difference) -> None:
    held, given = _cells(old, series_id), _cells(new, series_id)
    horizon = max(vintage for _, vintage in held)
    usual = _usual_change(new, series_id)
    known: dict[int, float | None] = {}
    for period, vintage in sorted(held.keys() | given.keys(), key=lambda key: (key[1], key[0])):
        before, after = known.get(period), given.get((period, vintage))
        if vintage <= horizon:
            if held.get((period, vintage), math.inf) != given.get((period, vintage), math.inf):
                was = held.get((period, vintage))
                found.changed.append(_row(series_id, period, vintage, was, after, usual))
        elif period not in known:
            found.releases.append(_row(series_id, period, vintage, None, after, usual))
        else:
            found.revisions.append(_row(series_id, period, vintage, before, after, usual))
        if (period, vintage) in given:
            known[period] = after


def _cells(store: VintageStore, series_id: str) -> dict[tuple[int, int], float | None]:
    columns = store.changes(series_id).columns
    rows = zip(
        columns.period.tolist(), columns.vintage.tolist(), columns.value.tolist(), strict=True
    )
    return {(period, vintage): None if v != v else v for period, vintage, v in rows}


def _usual_change(store: VintageStore, series_id: str) -> float:
    """Median absolute change from period to period, as the newest vintage has it."""
    changes = store.changes(series_id)
    _, value, _ = changes.known(int(changes.columns.vintage.max()))
    steps = np.abs(np.diff(value))
    steps = steps[steps > 0]
    return float(np.median(steps)) if len(steps) else 1.0


def _row(
    series_id: str,
    period: int,
    vintage: int,
    before: float | None,
    after: float | None,
    usual: float,
) -> Row:
    size = abs(after - before) / usual if before is not None and after is not None else 0.0
    return Row(series_id, p.iso(period), p.iso(vintage), before, after, size)
