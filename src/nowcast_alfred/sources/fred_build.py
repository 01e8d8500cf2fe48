"""From ALFRED into a store: `build` reads whole archives, `update` what came since.

For each series: the vintage list first, then output type 3 over chunks of that list, which needs
no merging at seams (type 1 would clip its dates at every edge), then one snapshot of the last
vintage, which the change points must reproduce to the digit. Series are read side by side under
the client's one limiter; what is read is staged, so that a download that was killed goes on where
it was. A series that fails is reported and costs the others nothing. One publication ends it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .. import periods as p
from ..catalog import Catalog, CatalogEntry
from ..errors import (
    HistoryChanged,
    InputError,
    KeyRefused,
    NowcastError,
    SourceError,
    SourceUnavailable,
    StoreError,
)
from ..store import SeriesInput, SeriesMeta, VintageStore, open_store, publish
from ..store.files import exclusive
from ..store.manifest import Manifest
from ..store.schema import VINTAGE_SCHEMA, normalise
from .fred import Change, Fred
from .fred_metadata import COMMON, metadata_rows, mismatches, weekly_shift
from .fred_terms import LICENCE, NOTICE, is_restricted, may_store, restriction, training_right
from .staging import Staging

CHUNK = 1900
"""Vintages a request; any number up to FRED's 2,000 gives the same store."""
SMALL_CHUNK = 100
"""The same where an answer does not come: FRED's gateway gives up on large ones."""
WORKERS = 8
SOURCE = "ALFRED"
LOCK, STAGED_BUILD, STAGED_UPDATE = ".building", ".staging", ".staging-update"
HOURS_BUILD, HOURS_UPDATE = 12, 1
"""How long staged answers are good for: what an update is told has to be new."""


@dataclass
class Report:
    """What a download did: ids done, failed and left out with their reasons, where FRED contradicts
    the catalog, answers that were staged before, the version now in force (None: no new one)."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    mismatches: list[str] = field(default_factory=list)
    reused: int = 0
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
        If another build or update is at work on that folder.
    HistoryChanged
        If series already in the store read otherwise now, unless accepted.
    StoreError
        If the folder cannot be written; the version before stays in force.
    """
    training = training_right(permission)
    root = Path(root)
    report = Report()
    staging = Staging(root / STAGED_BUILD, HOURS_BUILD)

    def read(series_id: str) -> SeriesInput | None:
        return _read_series(
            series_id, catalog.series[series_id], fred, staging, training, report,
            include_restricted=include_restricted, chunk=chunk,
        )  # fmt: skip

    _download(root, catalog.series, read, staging, report, accept_history, workers, progress)
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
    PermissionMissing
        If no series has a permission on record.
    StoreNotFound
        If there is no store.
    StoreLocked, StoreError
        As for `build`.
    """
    root = Path(root)
    store = open_store(root)
    ids = updatable(store)
    rest = [key for key in store.series_ids if key not in ids and store.meta(key).source == SOURCE]
    if not ids and not rest:
        raise InputError(f"{root} has no series whose source is {SOURCE}")
    if not ids:
        training_right(None)
    report = Report(left_out=dict.fromkeys(rest, "no permission is on record; `build` records it"))
    staging = Staging(root / STAGED_UPDATE, HOURS_UPDATE)

    def read(series_id: str) -> SeriesInput | None:
        return _later(store, series_id, fred, staging, chunk)

    _download(root, ids, read, staging, report, accept_history, workers, progress)
    return report


def updatable(store: VintageStore) -> list[str]:
    """The series of a store that an update asks FRED about."""
    metas = map(store.meta, store.series_ids)
    return [meta.id for meta in metas if meta.source == SOURCE and may_store(meta.training)]


def _download(
    root: Path,
    ids: Iterable[str],
    read: Callable[[str], SeriesInput | None],
    staging: Staging,
    report: Report,
    accept_history: bool,
    workers: int,
    progress: Progress,
) -> None:
    """Read series and publish them together; what was staged stays if one is to be tried again."""
    with exclusive(root, LOCK, "building or updating"):
        found = _side_by_side(ids, read, staging, report, workers, progress)
        report.reused = len(staging.reused)
        try:
            report.manifest = publish(root, found, accept_history) if found else None
        except HistoryChanged:
            staging.clear()  # what is accepted has to be what FRED says then
            raise
        if not report.failed:
            staging.clear()


def _side_by_side(
    ids: Iterable[str],
    read: Callable[[str], SeriesInput | None],
    staging: Staging,
    report: Report,
    workers: int,
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
                    text = f"cannot keep what was read: {error}; the store is as it was"
                    raise StoreError(text) from error
                else:
                    if item is not None:
                        found[series_id] = item
                        report.done.append(series_id)
                progress(series_id)
        except BaseException:
            staging.stop()
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
    copyright = restriction(tags, entry.copyright)
    if is_restricted(copyright) and not include_restricted:
        report.left_out[series_id] = f"{copyright!r}; --include-restricted takes it"
        return None
    entries = staging.fetch(series_id, "metadata", lambda: fred.metadata(series_id))
    release = staging.fetch(series_id, "release", lambda: fred.release(series_id))
    common = {
        "id": series_id,
        "release": str(release.get("name", "")),
        "transform": entry.transform,
        "max_lag_days": entry.max_lag_days,
        "role": entry.role,
        "category": entry.category,
        "decimals": entry.decimals,
        "copyright": copyright,
        "source": SOURCE,
        "licence": LICENCE,
        "attribution": NOTICE,
        "training": training,
    }
    meta = metadata_rows(entries, common)
    report.mismatches += mismatches(entry, meta[-1])
    dates = _vintage_dates(series_id, fred, staging)
    changes = _archive(series_id, dates, fred, staging, chunk)
    return _input(meta, changes, weekly_shift(entries[-1]), complete=True)


def _vintage_dates(series_id: str, fred: Fred, staging: Staging) -> list[str]:
    dates: list[str] = staging.fetch(series_id, "vintages", lambda: fred.vintage_dates(series_id))
    return dates


def _archive(
    series_id: str, dates: list[str], fred: Fred, staging: Staging, chunk: int
) -> list[Change]:
    """All change points, which give the values that FRED itself gives for the last vintage."""
    changes = _changes(series_id, dates, fred, staging, chunk)
    if not any(change.vintage == dates[0] for change in changes):
        # No recording shows output type 3 for an archive's first vintage: there it may be silent.
        first = _snapshot(series_id, dates[0], fred, staging)
        changes = [Change(date, dates[0], value) for date, value in first.items()] + changes
    shown = _snapshot(series_id, dates[-1], fred, staging)
    mine: dict[str, float | None] = {}
    for change in sorted(changes, key=lambda change: change.vintage):
        mine[change.date] = change.value
    for date in sorted(shown.keys() | mine.keys()):
        if mine.get(date) != shown.get(date):
            staging.drop(series_id)
            raise SourceError(
                f"{series_id}: {date} is {shown.get(date)} in FRED's snapshot of {dates[-1]} and "
                f"{mine.get(date)} by its change points; nothing of it is kept"
            )
    return changes


def _snapshot(series_id: str, day: str, fred: Fred, staging: Staging) -> dict[str, float | None]:
    ask = partial(fred.snapshot, series_id, day)
    found: dict[str, float | None] = staging.fetch(series_id, f"snapshot {day}", ask)
    return found


def _changes(
    series_id: str, dates: list[str], fred: Fred, staging: Staging, chunk: int
) -> list[Change]:
    """Change points of some vintages, chunk by chunk."""
    found: list[Change] = []
    known = set(dates)
    for start in range(0, len(dates), chunk):
        part = dates[start : start + chunk]
        question = f"changes {part[0]} {part[-1]} {len(part)}"
        ask = partial(fred.changes, series_id, part[0], part[-1])
        try:
            rows = staging.fetch(series_id, question, ask)
        except SourceUnavailable:
            if len(part) <= SMALL_CHUNK:
                raise
            found += _changes(series_id, part, fred, staging, SMALL_CHUNK)
        else:
            found += [Change(*row) for row in rows]
    if strange := sorted({change.vintage for change in found} - known):
        staging.drop(series_id)
        raise SourceError(f"{series_id}: change points on {strange[0]}, which is no vintage date")
    return found


def _later(
    store: VintageStore, series_id: str, fred: Fred, staging: Staging, chunk: int
) -> SeriesInput | None:
    """What a series gained since the store's last vintage; None if nothing."""
    meta, held = store.meta(series_id), store.changes(series_id)

    @cache
    def entries() -> Any:
        return staging.fetch(series_id, "metadata", lambda: fred.metadata(series_id))

    dates = _vintage_dates(series_id, fred, staging)
    shift = weekly_shift(entries()[-1]) if meta.frequency == "w" else 0
    days = [p.iso(day) for day in np.unique(held.columns.vintage).tolist()]
    period, value, _ = held.known(p.to_days(days[-1]))
    known = {p.iso(day - shift): v for day, v in zip(period.tolist(), value.tolist(), strict=True)}
    shown = _snapshot(series_id, days[-1], fred, staging)
    same = known == {date: value for date, value in shown.items() if value is not None}
    new = [date for date in dates if date > days[-1]]
    if same and dates == days:
        return None
    fresh = metadata_rows(entries(), {name: getattr(meta, name) for name in COMMON})
    if same and dates == days + new:
        return _input(fresh, _changes(series_id, new, fred, staging, chunk), shift, complete=False)
    shift = weekly_shift(entries()[-1])
    return _input(fresh, _archive(series_id, dates, fred, staging, chunk), shift, complete=True)


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
