"""The report of a store: what it holds, and what its first releases are like."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

import numpy as np

from .. import periods as p
from ..store.files import Files, without_secrets
from ..store.manifest import Manifest
from ..store.reader import VintageStore, open_store, read_manifest
from ..targets import TaskSpace, may_train
from . import report_svg as svg
from .report_measures import LEAST, SETTLED, Measured, Triangle, measure, space_of, triangle
from .report_page import Section, figure, figures, page, paragraph, shown, table

ROWS = 60
"""Most series in a picture."""
YEARS = 40
"""Most years in a picture."""
FARTHEST = 3.0
"""Where the axis of revision sizes ends, at the latest."""


def store_report(
    uri: str,
    series: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """The page of a store.

    Parameters
    ----------
    uri
        A folder or an object-store URI.
    series
        Whose revision triangle is drawn; None for the series with the most revisions.
    progress
        Called after each series with how many are done, of how many.

    Raises
    ------
    QueryError
        If the store has no such series.
    StoreError
        If the store cannot be read.
    """
    store, manifest = open_store(uri), read_manifest(Files(uri))
    drawn = None if series is None else triangle(store, series)
    space, why = space_of(store)
    found = []
    for key in store.series_ids:
        found.append(measure(store, key, manifest.series[key], space))
        progress(len(found), len(store.series_ids))
    if drawn is None:
        drawn = triangle(store, max(found, key=lambda one: one.changed).meta.id)
    sections = [
        Section("The store", _summary(store, manifest, found)),
        Section("Task space", _task_space(found, space, why)),
        Section("Coverage", _coverage(found)),
        Section("Release lags", _lags(found)),
        Section("Sizes of revisions", _revisions(found)),
        Section(f"Revision triangle of {drawn.series_id}", _triangle(store, drawn)),
        Section("Series and rights", _series(found)),
        Section("Series in numbers", _numbers(found)),
    ]
    lead = paragraph(
        "What a vintage store holds, and what its first releases are like. Values shown here are "
        "the store's, under the rights listed below."
    )
    return page(f"Store {place_name(uri)}", lead, sections)


def place_name(uri: str) -> str:
    """The last part of a folder's path or of a URI."""
    return PurePosixPath(without_secrets(uri)).name or "store"


def _summary(store: VintageStore, manifest: Manifest, found: Sequence[Measured]) -> str:
    read = sorted({one.entry.retrieved_at[:10] for one in found if one.entry.retrieved_at})
    rows = [
        ("place", store.shown),
        ("fingerprint", manifest.fingerprint),
        ("version before", manifest.previous or "none"),
        ("accepted changes of history", shown(len(manifest.accepted))),
        ("series", shown(len(found))),
        ("of them targets", shown(sum(one.meta.role == "target" for one in found))),
        ("change points", shown(sum(one.entry.rows for one in found))),
        (
            "vintages",
            f"{min(one.entry.first_vintage for one in found)} to "
            f"{max(one.entry.last_vintage for one in found)}",
        ),
        ("sources", ", ".join(sorted({one.entry.source or "not stated" for one in found}))),
        ("read on", " to ".join(dict.fromkeys((read[0], read[-1]))) if read else "not recorded"),
        ("rights to train", _counted(one.meta.training for one in found)),
    ]
    return table(("", ""), rows) + _brackets(found)


def _brackets(found: Sequence[Measured]) -> str:
    held = [one for one in found if (one.brackets > 0).any()]
    if not held:
        return paragraph("The release day of every first release is exact.")
    widths = np.concatenate([one.brackets for one in held])
    widths = widths[widths > 0]
    exact = sum(len(one.releases.period) for one in found) - len(widths)
    return paragraph(
        f"Of {len(widths):,} first releases ({len(held)} series) only a bracket of days is known "
        f"(vintage_lower), median {np.median(widths):g} days wide, at most {widths.max()}; their "
        "tasks end at its lower end, and lags below count to its upper end. The day of the other "
        f"{exact:,} is exact."
    )


def _counted(names: Iterable[str]) -> str:
    counts = Counter(names).most_common()
    return ", ".join(f"{name} ({count})" for name, count in counts)


# --- Task space


def _task_space(found: Sequence[Measured], space: TaskSpace | None, why: str) -> str:
    asked = [one for one in found if one.meta.role == "target"]
    steps = [
        ("reference periods", len(found), sum(one.periods for one in found)),
        ("genuine first releases", len(found), sum(len(one.releases.period) for one in found)),
        ("of target series", len(asked), sum(len(one.releases.period) for one in asked)),
    ]
    if space is None:
        return table(("", "series", "number"), steps) + paragraph(f"There is no task: {why}")
    settings = space.config
    limits = f"max_horizon = {settings.max_horizon}, min_history = {settings.min_history}"
    tasks = [one for one in asked if one.targets is not None]
    steps += [_kept(f"targets: {limits}, a positive scale", tasks)]
    steps += [
        _kept(
            f'with rights = "{rights}"',
            [one for one in tasks if one.targets and may_train(one.targets.role, rights)],
        )
        for rights in ("research", "granted")
    ]
    groups: dict[str, list[Measured]] = {}
    for one in tasks:
        groups.setdefault(f"frequency: {p.FREQUENCY_NAMES[one.meta.frequency]}", []).append(one)
        groups.setdefault(f"category: {one.meta.category or 'none'}", []).append(one)
    order = sorted(groups, key=lambda name: (not name.startswith("frequency"), name))
    rows = [_kept(name, groups[name]) for name in order]
    return (
        table(("what is left", "series", "number"), steps)
        + paragraph(
            "A target is a first release that may be asked for; on how many days differs. The "
            "settings are the defaults, without a split."
        )
        + "<h3>By frequency and category</h3>"
        + table(("", "series", "targets"), rows)
        + "<h3>By split</h3>"
        + table(("eval_from", "training", "evaluation", "in neither"), splits(tasks))
        + paragraph(
            "A training task's release is before eval_from, an evaluation task's as-of date on or "
            "after it; a target whose window ends before eval_from and which is out after it is in "
            "neither."
        )
    )


def _kept(name: str, tasks: Sequence[Measured]) -> tuple[str, int, int]:
    return name, len(tasks), sum(len(one.targets.period) for one in tasks if one.targets)


def splits(tasks: Sequence[Measured]) -> list[tuple[str, int, int, int]]:
    """How many targets each split has, for the last five Januaries that part them."""
    held = [one.targets for one in tasks if one.targets is not None]
    release = np.concatenate([targets.release for targets in held])
    high = np.concatenate([targets.high for targets in held])
    last, first = (p.to_date(int(day)).year for day in (release.max(), release.min()))
    rows = []
    for year in range(max(first + 1, last - 4), last + 1):
        day = p.to_days(f"{year}-01-01")
        train, later = int((release < day).sum()), int((high >= day).sum())
        rows.append((f"{year}-01-01", train, later, len(release) - train - later))
    return rows


# --- Pictures


def _chosen(
    found: Iterable[Measured], order: Callable[[Measured], float]
) -> tuple[list[Measured], str]:
    """The series that fit into a picture, most first releases first; and a word on the others."""
    held = sorted(found, key=lambda one: (-len(one.releases.period), one.meta.id))
    left = len(held) - ROWS
    said = f" {left} series with fewer first releases are left out." if left > 0 else ""
    return sorted(held[:ROWS], key=lambda one: (order(one), one.meta.id)), said


def _coverage(found: Sequence[Measured]) -> str:
    rows, left = _chosen((one for one in found if len(one.releases.period)), lambda one: 0.0)
    if not rows:
        return paragraph("There is no genuine first release.")
    by_year = {
        one.meta.id: Counter(one.releases.release.astype("datetime64[D]").astype("M8[Y]").tolist())
        for one in rows
    }
    counts = {key: {day.year: n for day, n in held.items()} for key, held in by_year.items()}
    last = max(year for held in counts.values() for year in held)
    first = max(min(year for held in counts.values() for year in held), last - YEARS + 1)
    years = range(first, last + 1)
    squares = []
    for one in rows:
        whole, held = p.PERIODS_PER_YEAR[one.meta.frequency], counts[one.meta.id]
        cells = [
            svg.Square(min(1.0, 0.15 + 0.85 * held[year] / whole), f"{year}: {held[year]}")
            if year in held
            else None
            for year in years
        ]
        squares.append((one.meta.id, cells))
    earlier = sum(n for held in counts.values() for year, n in held.items() if year < first)
    said = f" {earlier:,} first releases before {first} are not shown." if earlier else ""
    side = min(34.0, max(17.0, 600.0 / len(years)))
    drawn = svg.grid(
        "First releases by series and year", squares, [str(year) for year in years], side
    )
    return figure(
        drawn,
        "Genuine first releases by series and year of release; the full colour is one for every "
        f"period of the year.{said}{left}",
        wide=True,
    )


def _lags(found: Sequence[Measured]) -> str:
    rows, left = _chosen((one for one in found if one.lag), lambda one: one.lag[1])  # type: ignore[index]
    if not rows:
        return paragraph("There is no genuine first release.")
    ends = [end for one in rows for end in one.lag or ()]
    drawn = svg.ranges(
        "Release lags by series, in days after the period's end",
        [(one.meta.id, [one.lag]) for one in rows],
        "days after the period's end",
        0.0,
        svg.limits_of([*ends, 0.0], 400.0),
    )
    text = "Median and 10 to 90 % range of the days from a period's end to its first release."
    return figures([figure(drawn, text + left)])


def _revisions(found: Sequence[Measured]) -> str:
    rows, left = _chosen(
        (one for one in found if one.relative is not None), lambda one: -(one.relative or 0.0)
    )
    said = paragraph(
        "Mean |first release - latest value| as a share of the mean |error| of the last change, "
        "both of the target's transform inside one vintage. Above 1 the number is revised by more "
        "than the naive forecast misses it. Without reference periods from February 2020 to June "
        f"2021, releases less than {SETTLED} days before the last vintage, and series with fewer "
        f"than {LEAST} targets left."
    )
    if not rows:
        return said + paragraph("No series has enough targets for it.")
    sizes = [(one.meta.id, one.relative or 0.0) for one in rows]
    beyond = sum(size > FARTHEST for _, size in sizes)
    drawn = svg.ranges(
        "Size of revisions by series, as a share of the naive error",
        [(key, [(0.0, size, size)]) for key, size in sizes],
        "share of the naive error",
        1.0,
        svg.limits_of([0.0, 1.0, *(size for _, size in sizes)], FARTHEST),
    )
    cut = f" {beyond} series beyond {FARTHEST:g} are at the edge." if beyond else ""
    return said + figures([figure(drawn, f"Revisions against the naive error.{cut}{left}")])


def _triangle(store: VintageStore, held: Triangle) -> str:
    meta = store.meta(held.series_id)
    value = held.values
    start = [
        value[row, at] if at >= 0 else next((v for v in value[row] if v == v), math.nan)
        for row, at in enumerate(held.first)
    ]
    moves = np.abs(value - np.array(start)[:, None])
    most = float(np.nanmax(moves)) if np.isfinite(moves).any() else 0.0
    largest = float(np.nanmax(np.abs(value))) if np.isfinite(value).any() else 0.0
    decimals = max(0, 2 - math.floor(math.log10(largest))) if largest else 0
    rows = []
    for row, period in enumerate(held.periods):
        name, squares = p.label(period, meta.frequency), list[svg.Square | None]()
        for column, day in enumerate(held.vintages):
            now = float(value[row, column])
            if now != now:
                squares.append(None)
                continue
            moved = now - start[row]
            strength = math.copysign(0.08 + 0.72 * abs(moved) / most, moved) if most else 0.08
            told = f"{name} as of {p.iso(day)}: {now:.6g} ({moved:+.3g})"
            squares.append(
                svg.Square(strength, told, f"{now:.{decimals}f}", column == held.first[row])
            )
        rows.append((name.removeprefix("the week of "), squares))
    drawn = svg.grid(
        f"Revision triangle of {held.series_id}: periods by vintage",
        rows,
        [p.iso(day)[2:] for day in held.vintages],
        48.0,
    )
    return paragraph(
        f"{meta.title}: {p.unit_text(meta.transform, meta.units, meta.frequency)}."
    ) + figure(
        drawn,
        "The newest periods as known in the newest vintages that changed any of them. Framed: the "
        "first release. Shaded by the distance to it, one colour for up and one for down.",
        wide=True,
    )


# --- Tables


def _series(found: Sequence[Measured]) -> str:
    columns = (
        "series", "title", "rights to train", "role", "category", "frequency", "target",
        "first vintage", "last vintage",
    )  # fmt: skip
    rows = [
        (
            one.meta.id,
            one.meta.title,
            one.meta.training,
            one.meta.role,
            one.meta.category or None,
            p.FREQUENCY_NAMES[one.meta.frequency],
            one.meta.transform,
            one.entry.first_vintage,
            one.entry.last_vintage,
        )
        for one in found
    ]
    grounds: dict[tuple[str, ...], list[str]] = {}
    for one in found:
        ground = (one.meta.training, one.entry.source, one.meta.licence, one.meta.attribution)
        grounds.setdefault(ground, []).append(one.meta.id)
    stated = [
        (*(text or None for text in ground), ", ".join(keys)) for ground, keys in grounds.items()
    ]
    return (
        table(columns, rows)
        + "<h3>What the rights rest on</h3>"
        + table(("rights to train", "source", "licence", "attribution", "series"), stated)
    )


def _numbers(found: Sequence[Measured]) -> str:
    columns = (
        "series", "change points", "periods", "revisions", "first releases", "bracketed",
        "targets", "lag p10", "median", "p90", "mean |revision|", "mean |naive error|", "share",
    )  # fmt: skip
    rows = [
        (
            one.meta.id,
            one.entry.rows,
            one.periods,
            one.changed,
            len(one.releases.period),
            int((one.brackets > 0).sum()),
            len(one.targets.period) if one.targets else 0,
            *(one.lag or (None, None, None)),
            one.revision,
            one.naive,
            one.relative,
        )
        for one in found
    ]
    return table(columns, rows, "Lags in days; revisions and errors in the target's unit.")
