"""What FRED says about a series, as metadata of the store: one row for each real-time period."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .. import periods as p
from ..catalog import CatalogEntry
from ..errors import InputError
from ..store import SeriesMeta

COMMON = (
    "id", "release", "transform", "max_lag_days", "role", "category", "decimals", "copyright",
    "source", "licence", "attribution", "training",
)  # fmt: skip
"""What the metadata rows of a series share: the catalog's words, its release and its rights."""


def metadata_rows(entries: list[dict[str, Any]], common: dict[str, Any]) -> list[SeriesMeta]:
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


def weekly_shift(entry: dict[str, Any]) -> int:
    """Days from FRED's date to the period's first day: FRED dates a week by its last day."""
    return -6 if str(entry.get("frequency", "")).startswith("Weekly, Ending") else 0


def mismatches(entry: CatalogEntry, meta: SeriesMeta) -> list[str]:
    """Where the catalog says other than FRED does; FRED's word is kept."""
    return [
        f"{meta.id}: {name} is {theirs!r} at FRED, the catalog has {ours!r}"
        for name in ("title", "frequency", "units", "seasonal_adjustment", "release")
        for ours, theirs in [(getattr(entry, name), getattr(meta, name))]
        if ours and ours.lower() != theirs.lower()
    ]
