"""Vintage matrices: one series, its periods down, its vintages across.

What three sources have in common once their labels are read. A blank before a period's first value
means that it was not known yet; a blank after it means that the value was withdrawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from ..catalog import Catalog, metas
from ..errors import InputError
from ..periods import Days, Floats
from ..store.schema import NO_LOWER, VINTAGE_SCHEMA, SeriesMeta, normalise

BLANKS = ("", ".", "#N/A")
"""What the sources write where a vintage has no value."""

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Place:
    """A file being read, or one of its sheets; makes its errors."""

    path: Path
    sheet: str = ""

    def error(self, message: str, row: int | None = None, column: str = "") -> InputError:
        """An error about the place, or about a row (as an editor numbers it) and column of it."""
        parts = [str(self.path)]
        if self.sheet:
            parts.append(f"sheet {self.sheet}")
        if row is not None:
            parts.append(f"{'row' if self.sheet else 'line'} {row}")
        if column:
            parts.append(f"column {column[:60]}")
        return InputError(f"{', '.join(parts)}: {message}")


def number(text: str) -> float | None:
    """A cell as a number, NaN where it is blank; None if it is neither."""
    if text in BLANKS:
        return np.nan
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if abs(value) < np.inf else None


def numbers(place: Place, row: int, columns: Sequence[str], cells: Sequence[str]) -> list[float]:
    """The cells of one row, NaN where blank; shorter rows end in blanks.

    Raises
    ------
    InputError
        At the first cell that is no number.
    """
    values = [np.nan] * len(columns)
    for at, text in enumerate(cells):
        if text in BLANKS:
            continue
        if at >= len(columns) or not columns[at]:
            raise place.error(f"{text[:40]!r} has no column name above it", row)
        value = number(text)
        if value is None:
            raise place.error(
                f"{text[:40]!r} is not a finite number; leave the cell blank where the vintage has "
                "no value",
                row,
                columns[at],
            )
        values[at] = value
    return values


def change_points(
    periods: Days, vintages: Days, lowers: Days, values: Floats, where: str
) -> pa.Table:
    """A matrix as the change points of the store.

    Parameters
    ----------
    periods
        First day of each period, shape (p,), without repeats.
    vintages, lowers
        Day of each vintage and the day after which it came (`NO_LOWER` where the day is exact),
        both of shape (v,) and ascending.
    values
        Shape (p, v), NaN where a vintage has no value.
    where
        What to call the series in an error.

    Returns
    -------
    Rows in canonical form.
    """
    before = np.full_like(values, np.nan)
    before[:, 1:] = values[:, :-1]
    same = (values == before) | (np.isnan(values) & np.isnan(before))
    row, column = np.nonzero(~same)
    value, lower = values[row, column], lowers[column].astype(np.int32)
    arrays = [
        pa.array(periods[row].astype(np.int32)).cast(pa.date32()),
        pa.array(vintages[column].astype(np.int32)).cast(pa.date32()),
        pa.array(value, mask=np.isnan(value)),
        pa.array(lower, mask=lower == NO_LOWER).cast(pa.date32()),
    ]
    return normalise(pa.Table.from_arrays(arrays, schema=VINTAGE_SCHEMA), where)


def early(periods: Days, vintages: Days, values: Floats) -> tuple[int, int] | None:
    """Row and column of the first value for a period that starts after the vintage, if any."""
    at = np.argwhere(~np.isnan(values) & (vintages[None, :] < periods[:, None]))
    return (int(at[0, 0]), int(at[0, 1])) if len(at) else None


def metadata(catalog: Catalog, ids: Iterable[str], rights: str | None) -> dict[str, SeriesMeta]:
    """Full metadata of some series, with `rights` in place of the catalog's where it is given.

    Raises
    ------
    CatalogError
        If metadata are missing.
    InputError
        If `rights` is not one of the rights to train.
    """
    found = {meta.id: meta for meta in metas(catalog, ids)}
    if rights is None:
        return found
    return {id: replace(meta, training=rights) for id, meta in found.items()}
