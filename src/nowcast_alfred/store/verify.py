"""`store verify`: read everything a version consists of and name whatever is not as it should be.

Opening a store checks the files it needs; this checks all of them, and the order and the ranges
inside them, without stopping at the first fault.
"""

from __future__ import annotations

import os

import numpy as np

from ..errors import StoreCorrupt, StoreError
from ..periods import iso
from .files import Files
from .manifest import Manifest, fingerprint
from .parquet import read_meta, read_rows
from .reader import read_manifest
from .schema import content_hash, meta_hash, to_arrays


def verify_store(
    uri: str | os.PathLike[str], version: str | None = None
) -> tuple[Manifest, list[str]]:
    """Re-hash every file of a version.

    Returns
    -------
    The manifest, and one line for each fault found (none: the store is whole).

    Raises
    ------
    StoreNotFound, StoreCorrupt
        If there is no readable manifest to check against.
    """
    files = Files(uri)
    manifest = read_manifest(files, version)
    faults: list[str] = []
    contents: dict[str, str] = {}
    for series_id, entry in manifest.series.items():
        where = files.where(entry.file)
        try:
            table = read_rows(files, entry)
        except (StoreCorrupt, StoreError) as error:
            faults.append(str(error))
            continue
        contents[series_id] = content_hash(table)
        period, vintage, _, _ = to_arrays(table)
        same = period[1:] == period[:-1]
        if (period[1:] < period[:-1]).any() or (same & (vintage[1:] <= vintage[:-1])).any():
            faults.append(f"{where}: rows are not sorted by period and vintage")
        stated = (entry.content, entry.rows, entry.first_vintage, entry.last_vintage)
        found = (contents[series_id], len(period), iso(np.min(vintage)), iso(np.max(vintage)))
        if stated != found:
            faults.append(f"{where}: the manifest says {stated[1:]}, the file holds {found[1:]}")
    try:
        meta = read_meta(files, manifest)
    except (StoreCorrupt, StoreError) as error:
        return manifest, [*faults, str(error)]
    if missing := sorted(manifest.series.keys() - {row.id for row in meta}):
        faults.append(f"{files.where(manifest.meta_file)}: no metadata for {', '.join(missing)}")
    if not faults and fingerprint(contents, meta_hash(meta)) != manifest.fingerprint:
        faults.append(f"{files.where('manifest.json')}: the fingerprint is not that of the content")
    return manifest, faults
