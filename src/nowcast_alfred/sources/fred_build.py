"""From ALFRED into a store: `build` reads whole archives, `update` what came since.

For each series: the vintage list first, then output type 3 over chunks of that list, which needs
no merging at seams (type 1 would clip its dates at every edge), then one snapshot of the last
vintage, which the change points must reproduce to the digit. Series are read side by side under
the client's one limiter; what is read is staged, so that a build that was killed goes on where it
was. A series that fails is reported and costs the others nothing. One publication ends it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .. import periods as p
from ..catalog import Catalog, CatalogEntry
from ..errors import InputError, KeyRefused, NowcastError, SourceError, StoreError
from ..store import SeriesInput, SeriesMeta, VintageStore, open_store, publish
from ..store.files import exclusive
from ..store.manifest import Manifest
from ..store.schema import VINTAGE_SCHEMA, normalise
from .fred import Change, Fred
from .fred_terms import LICENCE, NOTICE, is_restricted, restriction, training_right
from .staging import Staging

CHUNK = 1900
"""Vintages a request; any number up to FRED's 2,000 gives the same store."""
WORKERS = 8
LOCK = ".building"


@dataclass
class Report:
    """What a build or an update did: ids done, failed and left out with their reasons, catalog
    metadata that FRED contradicts, and the version now in force (None if nothing was written)."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    mismatches: list[str] = field(default_factory=list)
    manifest: Manifest | None = None


Progress = Callable[[str], None]
"""Called with a series id each time one is finished, however it ended."""


def build(
    root: str | Path,
    catalog: Catalog,
    fred: Fred,
    permission: str | None,
    *,
    include_restricted: bool = False,
    accept_history: bool = False,
    chunk: int = CHUNK,
    workers: int = WORKERS,
    progress: Progress = lambda series_id: None,
) -> Report:
    """Read the archives of a catalog's series into the store at `root`.

    Raises
    ------
    PermissionMissing
        If no permission was stated; nothing is asked for or written.
    KeyRefused
        If FRED does not take the key.
    StoreLocked
        If another build is at work on that folder.
    HistoryChanged
        If series already in the store read otherwise now, unless accepted.
    """
    training = training_right(permission)
    root = Path(root)
    report = Report()

    def read(series_id: str) -> SeriesInput | None:
        return _read_series(
            series_id, catalog.series[series_id], fred, staging, training, report,
            include_restricted=include_restricted, chunk=chunk,
        )  # fmt: skip

    with exclusive(root, LOCK, "building or updating"):
        staging = Staging(root)
        found = _side_by_side(catalog.series, read, workers, report, progress)
        if found:
            report.manifest = publish(root, found, accept_history)
        if not report.failed:
            staging.clear()
    return report


def update(
    root: str | Path,
    fred: Fred,
    *,
    accept_history: bool = False,
    chunk: int = CHUNK,
    workers: int = WORKERS,
    progress: Progress = lambda series_id: None,
) -> Report:
    """Add to a store the vintages that came since, and check what it holds.

    A series whose vintage list or last known values no longer agree with FRED is read again as a
    whole, so that a changed past is reported row by row and not written.

    Raises
    ------
    HistoryChanged
        With the rows that would change, unless accepted.
    StoreNotFound
        If there is no store.
    """
    root = Path(root)
    store = open_store(root)
    ids = [key for key in store.series_ids if store.meta(key).source == SOURCE]
    if not ids:
        raise InputError(f"{root} has no series whose source is {SOURCE}")
    report = Report()

    def read(series_id: str) -> SeriesInput | None:
        return _later(store, series_id, fred, staging, chunk)

    with exclusive(root, LOCK, "building or updating"):
        staging = Staging(root)
        staging.clear()  # a build's leftovers may be of another day
        found = _side_by_side(ids, read, workers, report, progress)
        if found:
            report.manifest = publish(root, found, accept_history)
        staging.clear()
    return report


SOURCE = "ALFRED"


def _side_by_side(
    ids: Iterable[str],
    read: Callable[[str], SeriesInput | None],
    workers: int,
    report: Report,
    progress: Progress,
) -> list[SeriesInput]:
    """Read series in threads; failures go to the report, what concerns all series is raised."""
    found: dict[str, SeriesInput] = {}
    with ThreadPoolExecutor(max_workers=workers) as pool:
        jobs = {pool.submit(read, series_id): series_id for series_id in ids}
        try:
            for job in as_completed(jobs):
                series_id = jobs[job]
                try:
                    item = job.result()
                except (KeyRefused, StoreError):
                    raise
                except NowcastError as error:
                    report.failed[series_id] = f"{type(error).__name__}: {error}"
                except OSError as error:
                    raise StoreError(f"cannot stage what was read: {error}") from error
                else:
                    if item is not None:
                        found[series_id] = item
                        report.done.append(series_id)
                progress(series_id)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    report.done.sort()
    return [found[series_id] for series_id in sorted(found)]


def _read_series(
    series_id: str,
    entry: CatalogEntry,
    fred: Fred,
    staging: Staging,
    training: str,
    report: Report,
    *,
    include_restricted: bool,
    chunk: int,
) -> SeriesInput | None:
    """One whole archive, or None where the series is left out."""
    tags = staging.fetch(series_id, "tags", lambda: fred.tags(series_id))
    copyright_tag = restriction(tags)
    if is_restricted(copyright_tag) and not include_restricted:
        report.left_out[series_id] = f"tagged {copyright_tag!r}; --include-restricted takes it"
        return None
    entries = staging.fetch(series_id, "metadata", lambda: fred.metadata(series_id))
    release = staging.fetch(series_id, "release", lambda: fred.release(series_id))
    common = {
        "id": series_id,
        "release": str(release.get("name", "")),
        "transform": entry.transform,
        "max_lag_days": entry.max_lag_days,
        "role": entry.role,
        "category": entry.category or "",
        "decimals": entry.decimals if entry.decimals is not None else 2,
        "copyright": copyright_tag,
        "source": SOURCE,
        "licence": LICENCE,
        "attribution": NOTICE,
        "training": training,
    }
    meta = _metadata(entries, common)
    report.mismatches += _mismatches(entry, meta[-1])
    dates = staging.fetch(series_id, "vintages", lambda: fred.vintage_dates(series_id))
    if not dates:
        raise SourceError(f"{series_id}: its vintage list is empty")
    changes = _changes(series_id, dates, fred, staging, chunk)
    _check_snapshot(series_id, changes, dates[-1], fred, staging)
    return _input(meta, changes, _weekly_shift(entries[-1]), complete=True)


def _changes(
    series_id: str, dates: list[str], fred: Fred, staging: Staging, chunk: int
) -> list[Change]:
    """Change points of some vintages, chunk by chunk."""
    found: list[Change] = []
    known = set(dates)
    for start in range(0, len(dates), chunk):
        part = dates[start : start + chunk]
        question = f"changes {part[0]} {part[-1]} {len(part)}"
        rows = staging.fetch(series_id, question, partial(_rows, fred, series_id, part))
        found += [Change(*row) for row in rows]
    if strange := sorted({change.vintage for change in found} - known):
        raise SourceError(f"{series_id}: change points on {strange[0]}, which is no vintage date")
    return found


def _rows(fred: Fred, series_id: str, dates: list[str]) -> list[tuple[str, str, float | None]]:
    changes = fred.changes(series_id, dates[0], dates[-1])
    return [(change.date, change.vintage, change.value) for change in changes]


def _check_snapshot(
    series_id: str, changes: list[Change], day: str, fred: Fred, staging: Staging
) -> None:
    """The change points must give the values FRED itself gives for the last vintage."""
    shown = staging.fetch(series_id, f"snapshot {day}", lambda: fred.snapshot(series_id, day))
    mine: dict[str, float | None] = {}
    for change in sorted(changes, key=lambda change: change.vintage):
        mine[change.date] = change.value
    for date in sorted(shown.keys() | {date for date, value in mine.items() if value is not None}):
        if mine.get(date) != shown.get(date):
            raise SourceError(
                f"{series_id}: {date} is {shown.get(date)} in FRED's snapshot of {day} and "
                f"{mine.get(date)} by its change points; nothing of it is kept"
            )


def _later(
    store: VintageStore, series_id: str, fred: Fred, staging: Staging, chunk: int
) -> SeriesInput | None:
    """What a series gained since the store's last vintage; None if nothing."""
    dates = fred.vintage_dates(series_id)
    columns = store.changes(series_id).columns
    held = sorted({p.iso(day) for day in np.unique(columns.vintage).tolist()})
    new = [date for date in dates if date > held[-1]]
    entries = fred.metadata(series_id)
    shift = _weekly_shift(entries[-1])
    common = {name: getattr(store.meta(series_id), name) for name in COMMON}
    fresh = _metadata(entries, common)
    past = [date for date in dates if date <= held[-1]]
    known = {
        p.iso(int(day) - shift): float(value)
        for day, value in zip(*store.changes(series_id).known(p.to_days(held[-1]))[:2], strict=True)
    }
    shown = {d: v for d, v in fred.snapshot(series_id, held[-1]).items() if v is not None}
    if past != held or shown != known:
        changes = _changes(series_id, dates, fred, staging, chunk)
        _check_snapshot(series_id, changes, dates[-1], fred, staging)
        return _input(fresh, changes, shift, complete=True)
    if not new:
        return None
    changes = _changes(series_id, new, fred, staging, chunk)
    return _input(fresh, changes, shift, complete=False)


COMMON = (
    "id", "release", "transform", "max_lag_days", "role", "category", "decimals", "copyright",
    "source", "licence", "attribution", "training",
)  # fmt: skip


def _metadata(entries: list[dict[str, Any]], common: dict[str, Any]) -> list[SeriesMeta]:
    """One row for each period in which what is served of a series was the same."""
    rows: list[SeriesMeta] = []
    for entry in entries:
        row = SeriesMeta(
            title=str(entry.get("title", "")),
            frequency=_frequency(entry, str(common["id"])),
            units=str(entry.get("units", "")),
            seasonal_adjustment=str(entry.get("seasonal_adjustment", "")),
            valid_from=str(entry["realtime_start"]) if rows else None,
            **common,
        )
        if not rows or replace(row, valid_from=None) != replace(rows[-1], valid_from=None):
            rows.append(row)
    return rows


def _frequency(entry: dict[str, Any], series_id: str) -> p.Frequency:
    short = str(entry.get("frequency_short", "")).lower()
    if short not in p.FREQUENCIES:
        raise InputError(
            f"{series_id}: frequency {entry.get('frequency')!r} is not supported; supported are "
            f"{', '.join(p.FREQUENCY_NAMES.values())}"
        )
    return p.check_frequency(short)


def _weekly_shift(entry: dict[str, Any]) -> int:
    """Days from FRED's date to the period's first day: FRED dates a week by its last day."""
    return -6 if str(entry.get("frequency", "")).startswith("Weekly, Ending") else 0


def _mismatches(entry: CatalogEntry, meta: SeriesMeta) -> list[str]:
    """Where the catalog says other than FRED does; FRED's word is kept."""
    return [
        f"{meta.id}: {name} is {theirs!r} at FRED, the catalog has {ours!r}"
        for name in ("title", "frequency", "units", "seasonal_adjustment", "release")
        for ours, theirs in [(getattr(entry, name), getattr(meta, name))]
        if ours and ours.lower() != theirs.lower()
    ]


def _input(
    meta: list[SeriesMeta], changes: list[Change], shift: int, complete: bool
) -> SeriesInput:
    """Change points as rows of the store."""
    columns = {
        "period": pa.array([p.to_days(c.date) + shift for c in changes], pa.int32()),
        "vintage": pa.array([p.to_days(c.vintage) for c in changes], pa.int32()),
        "value": pa.array([c.value for c in changes], pa.float64()),
        "vintage_lower": pa.nulls(len(changes), pa.int32()),
    }
    table = normalise(pa.table(columns).cast(VINTAGE_SCHEMA), meta[0].id)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return SeriesInput(meta, table, retrieved_at=now, complete=complete)
