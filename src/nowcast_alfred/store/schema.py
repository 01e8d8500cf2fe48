"""The store's data types: change points and series metadata, and their canonical form.

One vintage file holds one series: every change point (period, vintage, value), sorted by period
and then vintage, where a value that did not change from one vintage to the next is left out and a
null value is a withdrawal. `normalise` brings any rows into that form and is the only way into a
store, so that the content hash of a series depends on what is known and not on how it was read.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields

import numpy as np
import pyarrow as pa

from ..errors import InputError, QueryError
from ..periods import FREQUENCIES, UNITS, Frequency, Units, iso, to_days

VINTAGE_SCHEMA = pa.schema(
    [
        pa.field("period", pa.date32(), nullable=False),
        pa.field("vintage", pa.date32(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("vintage_lower", pa.date32()),
    ]
)
NO_LOWER = np.iinfo(np.int32).min
"""`vintage_lower` where the vintage day is exact, in arrays (Parquet holds a null)."""

TRAINING = ("granted", "research", "prohibited", "unknown")
"""Rights to train on a series; `permission: TEXT` is allowed beside them."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")


@dataclass(frozen=True)
class SeriesMeta:
    """What is known about a series from `valid_from` on (None: from the beginning)."""

    id: str
    title: str
    frequency: Frequency
    units: str
    seasonal_adjustment: str
    release: str
    transform: Units
    max_lag_days: int
    role: str = "target"
    category: str = ""
    decimals: int = 2
    copyright: str = ""
    source: str = ""
    licence: str = ""
    attribution: str = ""
    training: str = "unknown"
    valid_from: str | None = None

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise InputError(
                f"series id {self.id[:80]!r}: letters, digits, '_', '.', '-', up to 64"
            )
        for name, value, choices in (
            ("frequency", self.frequency, FREQUENCIES),
            ("transform", self.transform, UNITS),
            ("role", self.role, ("target", "predictor")),
        ):
            if value not in choices:
                raise InputError(f"series {self.id}: {name} {value!r}; one of {', '.join(choices)}")
        if self.valid_from is not None:
            try:
                to_days(self.valid_from)
            except QueryError as error:
                raise InputError(f"series {self.id}: valid_from: {error}") from None
        if self.training not in TRAINING and not self.training.startswith("permission:"):
            raise InputError(
                f"series {self.id}: training {self.training!r}; one of {', '.join(TRAINING)}, "
                "or 'permission: who permitted what'"
            )


META_FIELDS = tuple(field.name for field in fields(SeriesMeta))
META_SCHEMA = pa.schema(
    [
        pa.field(name, pa.int32() if name in ("max_lag_days", "decimals") else pa.string())
        for name in META_FIELDS
    ]
)


def normalise(table: pa.Table, where: str) -> pa.Table:
    """Rows in canonical form: typed, sorted, without repeats and without changes that are none.

    Parameters
    ----------
    table
        Columns of `VINTAGE_SCHEMA` in any order, any number of rows.
    where
        What to call this series in an error.

    Raises
    ------
    InputError
        If a column is missing or of another type, one (period, vintage) has two different
        values, a value is infinite, or `vintage_lower` is not before `vintage`.
    """
    try:
        table = table.select(VINTAGE_SCHEMA.names).cast(VINTAGE_SCHEMA)
    except (KeyError, ValueError, NotImplementedError) as error:  # pyarrow's are among them
        raise InputError(f"{where}: these are not vintage rows: {error}") from None
    # By vintage_lower too, so that of rows that differ in it alone the widest bracket stays,
    # whatever order they came in.
    order = [(name, "ascending") for name in ("period", "vintage", "vintage_lower")]
    table = table.combine_chunks().sort_by(order)
    period, vintage, value, lower = to_arrays(table)
    # One null and one zero, as in the content hash.
    one_form = pa.array(value + 0.0, pa.float64(), mask=np.isnan(value))
    table = table.set_column(2, VINTAGE_SCHEMA.field("value"), one_form)
    if np.isinf(value).any():
        row = int(np.flatnonzero(np.isinf(value))[0])
        raise InputError(f"{where}: {iso(period[row])} in vintage {iso(vintage[row])} is infinite")
    bracketed = lower != NO_LOWER
    if (lower[bracketed] >= vintage[bracketed]).any():
        row = int(np.flatnonzero(bracketed & (lower >= vintage))[0])
        raise InputError(
            f"{where}: {iso(period[row])}: vintage_lower {iso(lower[row])} is not before "
            f"vintage {iso(vintage[row])}"
        )
    same_period = period[1:] == period[:-1]
    same_value = (value[1:] == value[:-1]) | (np.isnan(value[1:]) & np.isnan(value[:-1]))
    clash = same_period & (vintage[1:] == vintage[:-1]) & ~same_value
    if clash.any():
        row = int(np.flatnonzero(clash)[0])
        raise InputError(
            f"{where}: {iso(period[row])} has two values in vintage {iso(vintage[row])}: "
            f"{value[row]:.10g} and {value[row + 1]:.10g}"
        )
    keep = np.ones(len(period), dtype=bool)
    keep[1:] = ~(same_period & same_value)
    return table.filter(pa.array(keep)).combine_chunks()


def to_arrays(
    table: pa.Table,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The four columns as int32, int32, float64 (NaN for null) and int32 (`NO_LOWER` for null)."""
    table = table.combine_chunks()

    def days(name: str) -> np.ndarray:
        column = table[name].cast(pa.int32()).fill_null(int(NO_LOWER))
        return np.asarray(column.to_numpy(), dtype=np.int32)

    value = np.asarray(table["value"].to_numpy(), dtype=np.float64)
    return days("period"), days("vintage"), value, days("vintage_lower")


def content_hash(table: pa.Table) -> str:
    """SHA-256 over the canonical bytes of the rows; independent of Parquet and of pyarrow."""
    period, vintage, value, lower = to_arrays(table)
    digest = hashlib.sha256(b"nowcast-alfred/vintages/1\0")
    null = np.isnan(value)
    value = np.where(null, 0.0, value) + 0.0  # one NaN, one zero
    for array in (
        period.astype("<i4"),
        vintage.astype("<i4"),
        null.astype("u1"),
        value.astype("<f8"),
        lower.astype("<i4"),
    ):
        digest.update(array.tobytes())
    return digest.hexdigest()


def meta_table(rows: list[SeriesMeta]) -> pa.Table:
    """Metadata rows as the table that `series-<sha12>.parquet` holds, sorted."""
    ordered = sorted(rows, key=lambda row: (row.id, row.valid_from or ""))
    return pa.Table.from_pylist([asdict(row) for row in ordered], schema=META_SCHEMA)


def meta_rows(table: pa.Table) -> list[SeriesMeta]:
    """The inverse of `meta_table`."""
    return [SeriesMeta(**row) for row in table.select(list(META_FIELDS)).to_pylist()]


def meta_hash(rows: list[SeriesMeta]) -> str:
    """SHA-256 over the metadata rows as canonical JSON."""
    dumped = [asdict(row) for row in sorted(rows, key=lambda row: (row.id, row.valid_from or ""))]
    text = json.dumps(dumped, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
