"""Publishing a version: stage, check, then swap one manifest.

Files of rows and of metadata are content-addressed and never rewritten, so a new version only adds
files; the rename of `manifest.json` is the commit. A crash before it leaves the old version as it
was, a crash after it leaves the new one, and what a crash left lying about is removed by the next
writer. One writer at a time holds a lock that the system drops when the process dies.

History only grows: a row, or a title or unit, that would alter what an earlier day could see stops
the publication (`HistoryChanged`) unless it is accepted by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from ..errors import HistoryChanged, InputError, StoreError
from ..periods import iso
from .files import TEMPORARY, Files, atomic_write, exclusive, sha256, sync_folder, without_secrets
from .manifest import MANIFEST, VERSIONS, Manifest, SeriesEntry, fingerprint, parse_manifest
from .parquet import encode_meta, encode_rows, read_meta, read_rows
from .schema import SeriesMeta, content_hash, meta_hash, normalise, to_arrays

LOCK = ".lock"
FACTS = ("title", "frequency", "units", "seasonal_adjustment")
"""Metadata that a past view shows and reads by; the other fields are the catalog's to change."""


@dataclass(frozen=True)
class SeriesInput:
    """What a source hands to `publish`: one series, its metadata and when it was fetched."""

    meta: list[SeriesMeta]
    table: pa.Table
    retrieved_at: str | None = None
    complete: bool = False
    """Whether the rows are the whole archive, so that a row of the store which they lack is a
    change of history; else rows already in the store are kept."""

    @property
    def id(self) -> str:
        """The series id, from the metadata."""
        return self.meta[0].id if self.meta else ""


def publish(
    root: str | Path, inputs: Iterable[SeriesInput], accept_history: bool = False
) -> Manifest:
    """Add series, or later vintages of series, to the store in folder `root`.

    New rows of a series must lie after its last vintage; nothing known before may read otherwise.

    Parameters
    ----------
    root
        A folder; made if it is not there.
    inputs
        One entry a series. Several entries of one id are an error.
    accept_history
        Let new rows alter past views, and record both fingerprints, the replaced one and the new.

    Returns
    -------
    The manifest of the version now in force (the one in force before, if nothing is new).

    Raises
    ------
    HistoryChanged
        If a past view would change, in its values or in the `FACTS` of its metadata; nothing is
        written.
    InputError
        If rows contradict each other or a series has no rows or no base metadata.
    StoreLocked
        If another process is writing.
    StoreError
        If the folder cannot be written; the version before stays in force.
    """
    if "://" in str(root):
        raise StoreError(
            f"cannot write to {without_secrets(str(root))}: write to a folder, copy it"
        )
    root = Path(root)
    inputs = list(inputs)
    if not inputs:
        raise InputError("there is no series to write")
    with exclusive(root, LOCK, "writing to"):
        _sweep(root)
        path = root / MANIFEST
        old = parse_manifest(Files(root).read(MANIFEST), str(path)) if path.exists() else None
        return _commit(root, old, _merge(root, old, inputs, accept_history))


@dataclass(frozen=True)
class _Staged:
    series: dict[str, SeriesEntry]
    blobs: dict[str, bytes]
    meta: list[SeriesMeta]
    rewritten: list[str]


def _sweep(root: Path) -> None:
    """Remove what a killed writer left lying about."""
    try:
        for folder in (root, root / "vintages", root / VERSIONS):
            for leftover in folder.glob(f"{TEMPORARY}*"):
                leftover.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write to {root}: {error}") from None


def _merge(root: Path, old: Manifest | None, inputs: list[SeriesInput], accept: bool) -> _Staged:
    files = Files(root)
    series = dict(old.series) if old else {}
    meta: dict[str, list[SeriesMeta]] = {}
    for row in read_meta(files, old) if old else []:
        meta.setdefault(row.id, []).append(row)
    blobs: dict[str, bytes] = {}
    changed: dict[str, list[str]] = {}
    for item in _checked(inputs):
        table = normalise(item.table, item.id)
        if table.num_rows == 0:
            raise InputError(f"series {item.id} has no rows")
        entry = series.get(item.id)
        if entry is not None:
            before = read_rows(files, entry)
            if not item.complete:
                table = _union(before, table, item.id)
            rows = _past_facts(meta[item.id], item.meta, entry.last_vintage)
            if rows := rows + _past_changes(before, table, item.id):
                changed[item.id] = rows
        meta[item.id] = item.meta
        if entry is None or entry.content != content_hash(table):
            data = encode_rows(table, item.id)
            series[item.id] = _entry(item, table, data)
            blobs[series[item.id].file] = data
    if changed and not accept:
        rows = [row for found in changed.values() for row in found]
        more = f"\n  and {len(rows) - 20} more" if len(rows) > 20 else ""
        raise HistoryChanged(
            f"{root}: {len(rows)} row(s) would change what past days could see; nothing was "
            "written. Give --accept-history if the archive itself was corrected.\n  "
            + "\n  ".join(rows[:20])
            + more
        )
    return _Staged(series, blobs, [row for rows in meta.values() for row in rows], sorted(changed))


def _checked(inputs: list[SeriesInput]) -> Iterator[SeriesInput]:
    seen: set[str] = set()
    for item in inputs:
        if not item.meta or any(row.id != item.id for row in item.meta):
            raise InputError("a series needs metadata rows, all with its own id")
        if sum(row.valid_from is None for row in item.meta) != 1:
            raise InputError(f"series {item.id}: exactly one metadata row has no valid_from")
        if len({row.valid_from for row in item.meta}) < len(item.meta):
            raise InputError(f"series {item.id}: two metadata rows have the same valid_from")
        if item.id in seen:
            raise InputError(f"series {item.id} comes twice; merge its rows first")
        seen.add(item.id)
        yield item


def _entry(item: SeriesInput, table: pa.Table, data: bytes) -> SeriesEntry:
    digest = sha256(data)
    _, vintage, _, _ = to_arrays(table)
    return SeriesEntry(
        file=f"vintages/{item.id}-{digest[:12]}.parquet",
        sha256=digest,
        content=content_hash(table),
        rows=table.num_rows,
        first_vintage=iso(vintage.min()),
        last_vintage=iso(vintage.max()),
        source=item.meta[0].source,
        retrieved_at=item.retrieved_at,
    )


def _union(before: pa.Table, after: pa.Table, series_id: str) -> pa.Table:
    """Both sets of rows; where they differ on a (period, vintage), the later set holds."""
    later = set(zip(*(array.tolist() for array in to_arrays(after)[:2]), strict=True))
    pairs = zip(*(array.tolist() for array in to_arrays(before)[:2]), strict=True)
    kept = before.filter(pa.array([pair not in later for pair in pairs], pa.bool_()))
    return normalise(pa.concat_tables([kept, after]), series_id)


def _past_changes(before: pa.Table, merged: pa.Table, series_id: str) -> list[str]:
    """The rows in which what `before` covers reads otherwise once `merged` is in force."""
    horizon = int(to_arrays(before)[1].max())
    past = merged.filter(pa.array(to_arrays(merged)[1] <= np.int32(horizon)))
    old, new = _by_key(before), _by_key(past)
    return [
        f"{series_id} {iso(period)} in vintage {iso(vintage)}: "
        f"{old.get((period, vintage), 'no change')} would become "
        f"{new.get((period, vintage), 'no change')}"
        for period, vintage in sorted(old.keys() | new.keys())
        if old.get((period, vintage)) != new.get((period, vintage))
    ]


def _past_facts(before: list[SeriesMeta], after: list[SeriesMeta], horizon: str) -> list[str]:
    """The facts that would read otherwise on a day up to `horizon`."""
    days = {row.valid_from or "" for row in before + after}
    found = []
    for day in sorted(day for day in days if day <= horizon):
        old, new = (
            max((r for r in rows if (r.valid_from or "") <= day), key=lambda r: r.valid_from or "")
            for rows in (before, after)
        )
        found += [
            f"{new.id} {name} from {day or 'the beginning'} on: "
            f"{getattr(old, name)!r} would become {getattr(new, name)!r}"
            for name in FACTS
            if getattr(old, name) != getattr(new, name)
        ]
    return found


def _by_key(table: pa.Table) -> dict[tuple[int, int], str]:
    found = {}
    for period, vintage, value, lower in zip(
        *(array.tolist() for array in to_arrays(table)), strict=True
    ):
        text = "withdrawn" if value != value else repr(value)
        bracket = "" if lower < -(10**9) else f" (after {iso(lower)})"
        found[period, vintage] = text + bracket
    return found


def _commit(root: Path, old: Manifest | None, staged: _Staged) -> Manifest:
    meta_blob = encode_meta(staged.meta)
    meta_sha, meta_content = sha256(meta_blob), meta_hash(staged.meta)
    manifest = Manifest(
        fingerprint=fingerprint({k: e.content for k, e in staged.series.items()}, meta_content),
        meta_file=f"series-{meta_sha[:12]}.parquet",
        meta_sha256=meta_sha,
        meta_content=meta_content,
        series=dict(sorted(staged.series.items())),
        accepted=list(old.accepted) if old else [],
        previous=old.fingerprint if old else None,
    )
    if old is not None and old.fingerprint == manifest.fingerprint:
        return old
    if old is not None and staged.rewritten:
        series = ",".join(staged.rewritten)
        note = {"replaced": old.fingerprint, "by": manifest.fingerprint, "series": series}
        manifest = replace(manifest, accepted=[*manifest.accepted, note])
    text = manifest.to_json().encode()
    try:
        for name, data in {**staged.blobs, manifest.meta_file: meta_blob}.items():
            _write_once(root / name, data)
        atomic_write(root / VERSIONS / f"{manifest.fingerprint}.json", text)
        atomic_write(root / MANIFEST, text)
    except OSError as error:
        if _holds(root / MANIFEST, text):
            state = "the new version is in force, but a power loss may undo it"
        else:
            state = "the version before is still in force"
        raise StoreError(f"cannot write to {root}: {error}; {state}") from error
    return manifest


def _write_once(path: Path, data: bytes) -> None:
    """Write a content-addressed file, unless a version before or a crashed writer has."""
    if _holds(path, data):
        sync_folder(path.parent)
    else:
        atomic_write(path, data)


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False
