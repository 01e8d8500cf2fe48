"""The memory-mapped cache: one Arrow IPC file per fingerprint, shared by every process.

The Parquet files are read, and checked, once per fingerprint and machine; after that a reader maps
one file whose columns NumPy can use as they lie. N tool servers on a host therefore share one copy
of the pages, and opening costs the same for a store of any size. The cache is built under a lock
and appears by rename, so readers see all of it or nothing. Each series carries a checksum that is
tested when the series is first touched.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import StoreCorrupt, StoreError
from .files import TEMPORARY, Files, cache_folder
from .manifest import Manifest, fingerprint
from .parquet import read_meta, read_rows
from .schema import SeriesMeta, content_hash, meta_hash, to_arrays

CACHE_VERSION = 1
_SCHEMA = pa.schema(
    [
        ("period", pa.int32()),
        ("vintage", pa.int32()),
        ("value", pa.float64()),
        ("lower", pa.int32()),
    ]
)
Int32s = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """The rows of some series: int32 days, int32 days, float64 (NaN: null), int32 days."""

    period: Int32s
    vintage: Int32s
    value: Floats
    lower: Int32s

    def checksum(self) -> int:
        """CRC-32 of the four columns' bytes."""
        crc = 0
        for array in (self.period, self.vintage, self.value, self.lower):
            crc = zlib.crc32(np.ascontiguousarray(array).data, crc)
        return crc

    def rows(self, start: int, stop: int) -> Columns:
        """A slice of the rows, without copying."""
        return Columns(
            self.period[start:stop],
            self.vintage[start:stop],
            self.value[start:stop],
            self.lower[start:stop],
        )


@dataclass(frozen=True)
class Mapped:
    """An open cache: all rows, each series' (start, stop, checksum), and the metadata."""

    path: str
    columns: Columns
    index: dict[str, tuple[int, int, int]]
    meta: list[SeriesMeta]


def open_cache(files: Files, manifest: Manifest) -> Mapped:
    """Map the cache of a version, building it from the store's files if there is none.

    Raises
    ------
    StoreCorrupt
        If a file of the store, or the cache itself, is damaged; the message names it.
    StoreError
        If the cache cannot be written.
    """
    path = cache_folder() / f"{manifest.fingerprint[:32]}-v{CACHE_VERSION}.arrow"
    if not path.exists():
        _build(path, files, manifest)
    return _map(path, manifest)


def columns_of(tables: dict[str, pa.Table]) -> tuple[Columns, dict[str, tuple[int, int, int]]]:
    """The rows of several series one after the other, and where each lies."""
    parts = [to_arrays(table) for table in tables.values()]
    columns = Columns(*(np.concatenate([part[i] for part in parts]) for i in range(4)))
    index, start = {}, 0
    for series_id, part in zip(tables, parts, strict=True):
        stop = start + len(part[0])
        index[series_id] = (start, stop, columns.rows(start, stop).checksum())
        start = stop
    return columns, index


def _build(path: Path, files: Files, manifest: Manifest) -> None:
    try:
        with (path.parent / f"{path.stem}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists():  # another process built it while this one waited
                return
            for leftover in path.parent.glob(f"{TEMPORARY}{path.stem}-*"):  # of a crash
                leftover.unlink(missing_ok=True)
            _write(path, files, manifest)
    except OSError as error:
        raise StoreError(f"cannot write the cache {path}: {error}") from None


def _write(path: Path, files: Files, manifest: Manifest) -> None:
    tables = {key: read_rows(files, entry) for key, entry in manifest.series.items()}
    meta = read_meta(files, manifest)
    # All stores of a user share the folder: one must not pass for another.
    contents = {key: content_hash(table) for key, table in tables.items()}
    if fingerprint(contents, meta_hash(meta)) != manifest.fingerprint:
        raise StoreCorrupt(
            f"{files.shown}: the fingerprint of version {manifest.fingerprint[:12]} is not that of "
            "its content; restore it from a copy or build again"
        )
    columns, index = columns_of(tables)
    head = {
        "fingerprint": manifest.fingerprint,
        "index": index,
        "meta": [asdict(row) for row in meta],
    }
    text = json.dumps(head, sort_keys=True).encode()
    schema = _SCHEMA.with_metadata({"head": text, "crc": str(zlib.crc32(text))})
    arrays = [columns.period, columns.vintage, columns.value, columns.lower]
    batch = pa.record_batch([pa.array(array) for array in arrays], schema=schema)
    descriptor, temporary = tempfile.mkstemp(prefix=f"{TEMPORARY}{path.stem}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with pa.ipc.new_file(file, schema) as writer:
                writer.write_batch(batch)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _map(path: Path, manifest: Manifest) -> Mapped:
    damaged = StoreCorrupt(f"the cache {path} is damaged; delete it, it is built again when needed")
    try:
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            metadata = reader.schema.metadata
            if zlib.crc32(metadata[b"head"]) != int(metadata[b"crc"]):
                raise damaged
            head = json.loads(metadata[b"head"])
            # The same bytes as another type would pass the rows' checksums.
            if not reader.schema.equals(_SCHEMA) or head["fingerprint"] != manifest.fingerprint:
                raise damaged
            batch = reader.get_batch(0)
            batch.validate()
        # Not `to_numpy`, which imports pandas: half a second and 50 MB for every tool server.
        kinds = (np.int32, np.int32, np.float64, np.int32)
        columns = Columns(
            *(
                np.frombuffer(column.buffers()[1], kind, len(column))
                for column, kind in zip(batch.columns, kinds, strict=True)
            )
        )
    except (pa.ArrowException, OSError, LookupError, ValueError, TypeError):
        raise damaged from None
    index = {key: (start, stop, crc) for key, (start, stop, crc) in head["index"].items()}
    return Mapped(str(path), columns, index, [SeriesMeta(**row) for row in head["meta"]])
