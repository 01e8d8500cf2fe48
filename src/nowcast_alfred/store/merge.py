"""One store from several: every series of each, with its metadata and rights as they were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ..errors import ConfigError, InputError
from .files import Files
from .manifest import Manifest
from .parquet import read_meta, read_rows
from .reader import read_manifest
from .schema import SeriesMeta
from .writer import SeriesInput, publish


def merge(
    out: str | Path, uris: Iterable[str], prefer: Mapping[str, str] | None = None
) -> Manifest:
    """Write the series of several stores into one.

    Parameters
    ----------
    out
        The folder to write to; series already there are updated as by any publication.
    uris
        The stores to take series from.
    prefer
        Series id -> the store (as named in `uris`) whose rows are taken where several have it.

    Raises
    ------
    InputError
        If two stores hold a series with different rows and none is preferred; nothing is written.
    ConfigError
        If a preference names a store or a series that is not there.
    """
    prefer = dict(prefer or {})
    holders: dict[str, dict[str, str]] = {}
    manifests: dict[str, Manifest] = {}
    for uri in uris:
        manifests[uri] = read_manifest(Files(uri))
        for series_id, entry in manifests[uri].series.items():
            holders.setdefault(series_id, {})[uri] = entry.content
    for series_id, uri in prefer.items():
        if uri not in holders.get(series_id, {}):
            raise ConfigError(
                f"prefer {series_id}={uri}: that store does not hold it; held by "
                f"{', '.join(holders.get(series_id, {})) or 'none'}"
            )
    clashes = [
        f"{series_id} in {' and '.join(held)}"
        for series_id, held in sorted(holders.items())
        if len(set(held.values())) > 1 and series_id not in prefer
    ]
    if clashes:
        raise InputError(
            "the same series with different rows: " + "; ".join(clashes) + ". Choose one with "
            "--prefer SERIES=STORE; nothing was written"
        )
    chosen = {key: prefer.get(key) or next(iter(held)) for key, held in holders.items()}
    return publish(out, [item for uri in manifests for item in _take(uri, manifests[uri], chosen)])


def _take(uri: str, manifest: Manifest, chosen: Mapping[str, str]) -> Iterable[SeriesInput]:
    files = Files(uri)
    meta: dict[str, list[SeriesMeta]] = {}
    for row in read_meta(files, manifest):
        meta.setdefault(row.id, []).append(row)
    for series_id, entry in manifest.series.items():
        if chosen[series_id] == uri:
            yield SeriesInput(meta[series_id], read_rows(files, entry), entry.retrieved_at)
