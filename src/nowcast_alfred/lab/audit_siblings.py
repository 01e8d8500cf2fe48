"""Does another series of the store publish a target's answer? Copies, sums and differences.

Levels of all series of one frequency, as known on a few days, make a table of series by period. A
*copy* follows its target: its changes, rescaled, or its levels, rescaled and shifted, differ from
the target's by less than `NEAR` of a usual change on nine periods of ten (or, for levels with few
digits, by no more than their rounding). A *sum* is two series whose levels add up, or differ, to
the target's within the same bounds. Then dates decide: a relation gives an answer away where all
its parts have the period's value while the target may still be asked for.

Two series whose levels are equal, or a line through one another within the bounds that equal ones
are held to, are one target under two ids: held out as one, trained on as the other. That is open
whatever the dates, unless both are held out. A series with hardly any change of its own (a trend,
a step now and then) lies on a line through many others and does not count as one of them. What is
not found: relations of three parts and more, relations across frequencies, and a sibling that only
nearly tells.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import baselines
from ..periods import iso
from ..store import VintageStore
from .audit_case import Case, Finding

ROUTE = "another series of the store"
NEAR = 0.1
MOST = 0.9
"""The share of periods on which a relation holds."""
LEAST = 24
"""Common periods on which the target or the sibling moves."""
LOOKS = (0.5, 0.75, 1.0)
"""Where in the store's vintages levels are compared, as quantiles of its change points."""
DAYS_APART = 3
"""Of one release, series are dated so many days apart by mistake; a week is another period's."""
VARIED = 5
"""How many different changes both of a rescaled pair must have: trends and steps have fewer."""
FITS = 3
"""How often a line is fitted, each time to the nine tenths nearest to it: a break in a few periods
does not turn it."""
WIDE = 20
"""How many times its rounding a series must spread for rounding to be allowed for."""
SCREEN = 12
"""Periods on which pairs are screened before all are looked at."""

KINDS = ("equals", "rescales", "follows")
"""How a series can be another's copy, the plainest first; the first two make one series of two."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Relation:
    """How a target follows from others."""

    target: str
    kind: str
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        """The relation as a formula."""
        if self.kind in ("+", "-"):
            return f"{self.target} = {f' {self.kind} '.join(self.parts)}"
        return f"{self.target} {self.kind} {self.parts[0]}"

    @property
    def is_copy(self) -> bool:
        """Whether target and part are one series under two ids, in the same unit or another."""
        return self.kind in KINDS[:2]


@dataclass(frozen=True)
class Panel:
    """Levels of series of one frequency on one day: `level` of shape (series, periods), NaN where
    nothing is known, and each series' rounding unit."""

    ids: list[str]
    level: Floats
    unit: Floats


def check(case: Case) -> Finding:
    """Find every relation of a case's targets, and the targets that it gives away."""
    space, config = case.stream.space, case.taskset.config
    held_out = set(config.holdout_series) - set(config.exclude_series)
    sampled = held_out | set(space.series)
    found: dict[Relation, None] = {}
    for panel in panels(case.store):
        found |= dict.fromkeys(relations(panel, sampled))
    for relation in list(found):  # of a pair, the plainest kind is kept
        for kind in KINDS[: KINDS.index(relation.kind)] if relation.kind in KINDS else ():
            if replace(relation, kind=kind) in found:
                found.pop(relation, None)
    early = {relation: given_away(case, relation) for relation in found}
    twice = [
        relation
        for relation in found
        if relation.is_copy
        and {relation.target, *relation.parts} <= sampled
        and not {relation.target, *relation.parts} <= held_out
    ]
    told = [relation for relation, periods in early.items() if len(periods)]
    evidence: dict[str, Any] = {"series": len(case.store.series_ids), "relations": len(found)}
    if same_day := [r.text for r in found if r not in twice and r not in told]:
        evidence["published no earlier"] = sorted(same_day)
    if twice:
        pairs = {tuple(sorted((r.target, *r.parts))): r.text for r in twice[::-1]}
        evidence["one target under two ids"] = sorted(pairs.values())
    for relation in told:
        periods = early[relation]
        count = len(space.series[relation.target].period)
        evidence.setdefault("published earlier", []).append(
            f"{relation.text}: {len(periods)} of {count} targets, first {iso(int(periods[0]))}"
        )
    if apart := dated_apart(case.store):
        evidence["one release, other days"] = apart
    names = closing(case, twice, told)
    line = "exclude_series = [" + ", ".join(f'"{name}"' for name in names) + "]"
    return Finding(
        ROUTE,
        "open" if names else "closed",
        "copies (also rescaled), sums and differences of series whose value comes before a "
        "target's release",
        evidence,
        f"set {line} (with what it excludes already)" if names else "",
    )


def dated_apart(store: VintageStore) -> list[str]:
    """Pairs of series of one release that are dated the same one to three days apart nearly always.

    No relation of numbers, and no proof: most often one of them was dated wrongly, and the other
    is then served before, or asked for after, it was out.
    """
    first: dict[tuple[str, str], list[str]] = {}
    for key in store.series_ids:
        if (meta := store.meta(key)).release:
            first.setdefault((meta.release, meta.frequency), []).append(key)
    found = []
    for keys in first.values():
        for one, other in itertools.combinations(keys, 2):
            off = days_between(store, one, other)
            usual = int(np.median(off)) if len(off) >= LEAST else 0
            if 1 <= abs(usual) <= DAYS_APART and np.mean(off == usual) >= MOST:
                late, early = (one, other) if usual > 0 else (other, one)
                found.append(f"{early} is dated {abs(usual)} days before {late} ({len(off)} times)")
    return found


def days_between(store: VintageStore, one: str, other: str) -> npt.NDArray[np.int64]:
    """Days from the other's first release of a period to the one's, of all periods of both."""
    days = []
    for key in (one, other):
        changes = store.changes(key)
        day = changes.columns.vintage[changes.starts].astype(np.int64)
        days.append(
            (changes.periods[day > changes.first_vintage], day[day > changes.first_vintage])
        )
    (periods, day), (others, other_day) = days
    _, at, there = np.intersect1d(periods, others, return_indices=True)
    return np.asarray(day[at] - other_day[there])


def closing(case: Case, twice: list[Relation], told: list[Relation]) -> list[str]:
    """The series to exclude: whatever is told early, and of a pair that is one series the one that
    is not held out, else the one with fewer targets, else the later name."""
    names = {relation.target for relation in told}
    counts = {key: len(targets.period) for key, targets in case.stream.space.series.items()}
    held_out = case.taskset.config.holdout_series

    def rank(key: str) -> tuple[bool, int]:
        return key in held_out, counts.get(key, 0)

    for relation in twice:
        pair = (relation.target, relation.parts[0])
        if not names & set(pair):
            names.add(min(sorted(pair, reverse=True), key=rank))
    return sorted(names)


def given_away(case: Case, relation: Relation) -> npt.NDArray[np.int32]:
    """The target periods whose value all parts have on a day on which it may still be asked."""
    targets = case.stream.space.series.get(relation.target)
    if targets is None:
        return np.zeros(0, dtype=np.int32)
    known = np.full(len(targets.period), np.iinfo(np.int32).min, dtype=np.int64)
    for part in relation.parts:
        changes = case.store.changes(part)
        at = np.minimum(np.searchsorted(changes.periods, targets.period), len(changes.periods) - 1)
        day = changes.columns.vintage[changes.starts[at]].astype(np.int64)
        missing = changes.periods[at] != targets.period
        known = np.maximum(known, np.where(missing, np.iinfo(np.int32).max, day))
    return targets.period[known <= targets.high]


def panels(store: VintageStore) -> Iterator[Panel]:
    """The tables that are searched: by frequency, on a few days."""
    by_frequency: dict[str, list[str]] = {}
    for key in store.series_ids:
        by_frequency.setdefault(store.meta(key).frequency, []).append(key)
    for keys in by_frequency.values():
        vintages = np.concatenate([store.changes(key).columns.vintage for key in keys])
        for day in np.unique(np.quantile(vintages, LOOKS, method="nearest")).tolist():
            known = {key: store.changes(key).known(int(day))[:2] for key in keys}
            known = {key: pair for key, pair in known.items() if len(pair[0]) > LEAST}
            if len(known) < 2:
                continue
            every = np.unique(np.concatenate([period for period, _ in known.values()]))
            level = np.full((len(known), len(every)), np.nan)
            for row, (period, value) in enumerate(known.values()):
                level[row, np.searchsorted(every, period)] = value
            unit = np.array([baselines.rounding_unit(value) for _, value in known.values()])
            yield Panel(list(known), level, unit)


def relations(panel: Panel, targets: set[str]) -> Iterator[Relation]:
    """Every relation of the targets in one table."""
    for at, key in enumerate(panel.ids):
        if key in targets:
            copies = dict(copies_of(panel, at))
            for other, kind in copies.items():
                yield Relation(key, kind, (panel.ids[other],))
            others = [row for row in range(len(panel.ids)) if row != at and row not in copies]
            for sign, first, second in sums_of(panel, at, np.array(others, dtype=int)):
                yield Relation(key, sign, (panel.ids[first], panel.ids[second]))


def copies_of(panel: Panel, at: int) -> Iterator[tuple[int, str]]:
    """The rows whose levels or changes are those of a row, and how: `equals`, `rescales` or
    `follows`."""
    own, change = panel.level[at], np.diff(panel.level, axis=1)
    for other in range(len(panel.ids)):
        moved = np.isfinite(change[at] + change[other]) & ((change[at] != 0) | (change[other] != 0))
        if other == at or moved.sum() < LEAST:
            continue
        rounding = (panel.unit[at] + panel.unit[other]) / 2
        level, copy = together(own, panel.level[other])
        if holds(level - copy, bound(level, rounding)):
            yield other, "equals"
        elif on_line(level, copy, panel.unit[at], panel.unit[other]):
            yield other, "rescales"
        elif follows(change[at][moved], change[other][moved]) or shifted(level, copy, rounding):
            yield other, "follows"


def on_line(level: Floats, other: Floats, unit: float, other_unit: float) -> bool:
    """Whether levels are a line through those of another series, within the bounds that equal ones
    are held to, and both have changes to show for it."""
    if min(varied(level), varied(other)) < VARIED:
        return False
    off, slope = np.zeros(len(level)), 0.0
    for _ in range(FITS):
        near = np.abs(off) <= np.quantile(np.abs(off), MOST)
        x, y = other[near] - other[near].mean(), level[near] - level[near].mean()
        if not (spread := float(x @ x)):
            return False
        slope = float(x @ y) / spread
        off = level - level[near].mean() - slope * (other - other[near].mean())
    change = np.diff(level)
    usual = min(usual_size(change), usual_size(change - np.median(change)))
    rounding = (unit + abs(slope) * other_unit) / 2
    most = max(NEAR * usual, rounding) if rounding <= width(level) / WIDE else NEAR * usual
    return slope != 0.0 and holds(off, most)


def varied(level: Floats) -> int:
    """How many different changes a series has, to a tenth of the usual one."""
    change = np.diff(level)
    usual = usual_size(change)
    return len(np.unique(np.round(change / usual, 1))) if usual else 0


def follows(change: Floats, other: Floats) -> bool:
    """Whether changes are those of another series times one factor."""
    usual = usual_size(change)
    large = (np.abs(change) >= usual) & (other != 0)
    if usual == 0 or not large.any():
        return False
    return holds(change - np.median(change[large] / other[large]) * other, NEAR * usual)


def shifted(level: Floats, other: Floats, rounding: float) -> bool:
    """Whether levels are a line through those of another series, up to their rounding."""
    spread = float(np.var(other))
    if spread == 0:
        return False
    slope = float(np.mean((level - level.mean()) * (other - other.mean()))) / spread
    off = level - level.mean() - slope * (other - other.mean())
    return rounding <= width(level) / WIDE and holds(off, rounding)


def sums_of(panel: Panel, at: int, others: npt.NDArray[np.int64]) -> Iterator[tuple[str, int, int]]:
    """The pairs of rows that add up, or differ, to a row: (sign, row, row)."""
    known = np.flatnonzero(np.isfinite(panel.level[at]))
    few = known[np.linspace(0, len(known) - 1, SCREEN).astype(int)]
    own, rest = panel.level[at], panel.level[others]
    worst = bound(own[known], width(own[known]) / WIDE)  # no pair is allowed more
    for sign, factor in (("+", 1.0), ("-", -1.0)):
        for row, first in enumerate(others.tolist()):
            off = np.abs(own[few] - rest[row, few] - factor * rest[:, few])
            seen = np.isfinite(off).sum(axis=1)
            near = (seen >= 3) & ((off <= worst).sum(axis=1) >= 0.7 * seen)
            for second in others[near].tolist():
                if second == first or (sign == "+" and second < first):
                    continue
                level, total = together(own, panel.level[first] + factor * panel.level[second])
                rounding = float(panel.unit[[at, first, second]].sum()) / 2
                moves = np.count_nonzero(np.diff(level))
                if moves >= LEAST and holds(level - total, bound(level, rounding)):
                    yield sign, first, second


def together(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Two rows where both are known."""
    both = np.isfinite(first + second)
    return first[both], second[both]


def holds(off: Floats, most: float) -> bool:
    """Whether nine of ten numbers are within a bound, up to floating error."""
    return bool(np.mean(np.abs(off) <= most * (1 + 1e-6) + 1e-9) >= MOST)


def bound(level: Floats, rounding: float) -> float:
    """How far the levels of a related series may be off: a tenth of a usual change, or the
    rounding of the parts where levels are far more spread than that."""
    usual = NEAR * usual_size(np.diff(level))
    return max(usual, rounding) if rounding <= width(level) / WIDE else usual


def usual_size(change: Floats) -> float:
    """The median size of the changes that are not zero."""
    moved = np.abs(change[change != 0])
    return float(np.median(moved)) if len(moved) else 0.0


def width(level: Floats) -> float:
    """The distance between the quartiles."""
    low, high = np.quantile(level, [0.25, 0.75])
    return float(high - low)
