"""Vintage rows and metadata as Parquet bytes, and back, with every hash checked on the way.

Nothing of a store is used before its bytes have matched the manifest: a flipped bit, a truncated
upload or a file of another version is `StoreCorrupt`, which names the file.
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import StoreCorrupt, StoreError
from .files import Files, sha256
from .manifest import Manifest, SeriesEntry
from .schema import (
    VINTAGE_SCHEMA,
    SeriesMeta,
    content_hash,
    meta_hash,
    meta_rows,
    meta_table,
)


def encode_rows(table: pa.Table, series_id: str) -> bytes:
    """Canonical rows as Parquet bytes, read back and compared before anyone relies on them."""
    data = _encode(table.cast(VINTAGE_SCHEMA))
    if content_hash(_decode_rows(data)) != content_hash(table):
        raise StoreError(f"series {series_id}: the staged file does not read back as written")
    return data


def encode_meta(rows: list[SeriesMeta]) -> bytes:
    """Metadata rows as Parquet bytes, read back and compared."""
    data = _encode(meta_table(rows))
    if meta_hash(_decode_meta(data)) != meta_hash(rows):
        raise StoreError("the staged metadata does not read back as written")
    return data


def read_rows(files: Files, entry: SeriesEntry) -> pa.Table:
    """The rows of one series, whose bytes matched the manifest.

    Raises
    ------
    StoreCorrupt
        If the file is missing or its bytes are not those of the manifest.
    """
    data = _checked_bytes(files, entry.file, entry.sha256)
    try:
        return _decode_rows(data)
    except (pa.ArrowException, OSError) as error:
        raise StoreCorrupt(f"{files.where(entry.file)}: {error}") from None


def read_meta(files: Files, manifest: Manifest) -> list[SeriesMeta]:
    """The metadata rows of a version, whose bytes matched the manifest."""
    data = _checked_bytes(files, manifest.meta_file, manifest.meta_sha256)
    try:
        return _decode_meta(data)
    except (pa.ArrowException, OSError, TypeError) as error:
        raise StoreCorrupt(f"{files.where(manifest.meta_file)}: {error}") from None


def _checked_bytes(files: Files, name: str, digest: str) -> bytes:
    try:
        data = files.read(name)
    except FileNotFoundError:
        raise StoreCorrupt(
            f"{files.where(name)} is missing; restore it from a copy or build again"
        ) from None
    if sha256(data) != digest:
        raise StoreCorrupt(
            f"{files.where(name)} is damaged: its SHA-256 is not the manifest's; restore it from "
            "a copy or build again"
        )
    return data


def _encode(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=True, store_schema=False)
    return buffer.getvalue()


def _decode_rows(data: bytes) -> pa.Table:
    return _decode(data).select(VINTAGE_SCHEMA.names).cast(VINTAGE_SCHEMA)


def _decode_meta(data: bytes) -> list[SeriesMeta]:
    return meta_rows(_decode(data))


def _decode(data: bytes) -> pa.Table:
    """The table, read on the calling thread alone.

    A thread of Arrow's that lets go of `bytes` after the interpreter began to end needs a lock it
    can no longer have, and aborts a process that has done its work (apache/arrow issue 34314).
    """
    source = pa.BufferReader(data)
    with pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=False) as file:
        return file.read(use_threads=False)
