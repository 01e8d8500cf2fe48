"""Vintages from files: long-format change points in Parquet or CSV.

A file is read as whole columns and checked with array operations, so that millions of rows take
seconds. Only when a check fails is the place of the first bad row worked out, and the error names
file, row (Parquet) or line (CSV) and column. Nothing is repaired by guessing and nothing is
written: the result is one canonical table per series, with its metadata from the catalog.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import itertools
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from ..catalog import Catalog, metas
from ..errors import InputError
from ..periods import FREQUENCY_NAMES, PERIOD_NOUNS, Days, Floats, iso, to_days
from ..store.schema import NO_LOWER, VINTAGE_SCHEMA, SeriesMeta, normalise

REQUIRED_COLUMNS = ("series_id", "date", "realtime_start", "value")
OPTIONAL_COLUMNS = ("start_lower", "start_kind")
"""`start_kind` says in words what `start_lower` says by being there; it is not read."""

_MIN_DAY, _MAX_DAY = to_days(dt.date.min), to_days(dt.date.max)
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_MONTHS = {"m": 1, "q": 3, "a": 12}
_UNPARSEABLE = int(NO_LOWER) + 1
_WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_NUMERIC = (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal, pa.types.is_null)
_VALUE_HINT = "leave it empty (or '.', or null) where the value was withdrawn"


def read_long(path: str | Path, catalog: Catalog) -> list[tuple[list[SeriesMeta], pa.Table]]:
    """Read a long-format file of vintages, one row per change point.

    Parameters
    ----------
    path
        A Parquet file, or a CSV file (`.csv`, `.csv.gz`) with a header, with the columns

        * `series_id`: an id of the catalog;
        * `date`: first day of the reference period;
        * `realtime_start`: first day on which the value was known, not before `date`;
        * `value`: a number; null, empty or `.` means withdrawn;
        * `start_lower` (optional): the true day is after this one and not after
          `realtime_start`; null or empty where `realtime_start` is the true day;
        * `start_kind` (optional): not read.

        Dates are dates, timestamps at midnight or text as `YYYY-MM-DD`. Rows may come in any
        order; rows that repeat one another are merged.
    catalog
        Gives every series in the file its metadata, which must be complete.

    Returns
    -------
    For each series, sorted by id: its metadata and its change points in `VINTAGE_SCHEMA`,
    normalised.

    Raises
    ------
    InputError
        If the file is malformed; it names file, row and column.
    CatalogError
        If a series of the file lacks metadata in the catalog.
    """
    source = _source(Path(path))
    columns = _read_csv(source) if source.is_csv else _read_parquet(source)
    count = len(columns["series_id"])
    if count == 0:
        raise source.error("has no rows")
    codes, ids = _series(source, columns["series_id"], catalog)
    rows = _Rows(
        codes=codes,
        period=_days(source, columns["date"], "date"),
        vintage=_days(source, columns["realtime_start"], "realtime_start"),
        value=_values(source, columns["value"]),
        lower=_optional_days(source, columns.get("start_lower", pa.nulls(count)), "start_lower"),
    )
    series = metas(catalog, ids)
    _check_periods(source, rows, series)
    _check_order(source, rows)
    order = np.lexsort((rows.vintage, rows.period, rows.codes))  # stable: file order among equals
    _check_repeats(source, rows, order)
    return _split(source, rows.take(order), series)


@dataclass(frozen=True)
class _Source:
    """The file being read; makes its errors."""

    path: Path
    is_csv: bool

    def error(self, message: str, row: int | None = None, column: str = "") -> InputError:
        """An error about the file, or about a data row (0-based) and column of it."""
        parts = [str(self.path)]
        if row is not None:
            parts.append(self.place(row))
        if column:
            parts.append(f"column {column}")
        return InputError(f"{', '.join(parts)}: {message}")

    def place(self, row: int) -> str:
        """Where a data row is: its line in a CSV (the header is line 1), its number elsewhere."""
        if not self.is_csv:
            return f"row {row + 1}"
        # The file is read again, but only for an error.
        return f"line {next(itertools.islice(_csv_rows(self.path), row + 1, None))[0]}"

    def check(self, bad: npt.NDArray[np.bool_], column: str, message: Callable[[int], str]) -> None:
        """Raise about the first row where `bad`; `message` is asked for that row only."""
        if bad.any():
            row = int(np.argmax(bad))
            raise self.error(message(row), row, column)


@dataclass(frozen=True)
class _Rows:
    """The file as arrays, one element per data row; dates as days since 1970-01-01."""

    codes: Days
    period: Days
    vintage: Days
    value: Floats
    lower: Days

    def take(self, order: npt.NDArray[np.int64]) -> _Rows:
        return _Rows(*(getattr(self, field.name)[order] for field in fields(self)))


def _source(path: Path) -> _Source:
    """Parquet is known by its first bytes, CSV by its name; anything else is an error."""
    source = _Source(path, is_csv=path.name.endswith((".csv", ".CSV", ".csv.gz")))
    try:
        with open(path, "rb") as file:
            head = file.read(4)
    except OSError as error:
        raise source.error(f"cannot be read: {error.strerror}") from error
    if not head:
        raise source.error("is empty")
    if head == b"PAR1":
        return _Source(path, is_csv=False)
    if not source.is_csv:
        raise source.error("is neither Parquet (starts with PAR1) nor CSV (.csv, .csv.gz)")
    return source


def _read_parquet(source: _Source) -> dict[str, pa.Array]:
    try:
        with pq.ParquetFile(source.path) as file:
            names = file.schema_arrow.names
            _check_columns(source, names)
            table = file.read(columns=[name for name in names if name != "start_kind"])
    except (pa.ArrowException, OSError) as error:
        raise source.error(f"is damaged Parquet: {error}") from error
    return {name: _plain(table[name]) for name in table.column_names}


def _read_csv(source: _Source) -> dict[str, pa.Array]:
    """The CSV as text columns; dates and numbers are parsed later, where a bad one has a row."""
    try:
        header = next((row for _, row in _csv_rows(source.path)), [])
        _check_columns(source, header)
        names = [name for name in header if name != "start_kind"]
        options = pa_csv.ConvertOptions(
            include_columns=names,
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=False,
        )
        table = pa_csv.read_csv(source.path, convert_options=options)
    except (pa.ArrowException, OSError, EOFError, zlib.error, csv.Error) as error:
        raise _csv_error(source, error) from error
    return {name: _plain(table[name]) for name in names}


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """One array without dictionary encoding, with one kind of text."""
    array = column.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        array = array.cast(pa.string())
    return array


def _check_columns(source: _Source, names: list[str]) -> None:
    accepted = (*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS)
    for wrong, columns in (
        ("unknown", [name[:40] for name in names if name not in accepted]),
        ("missing", [name for name in REQUIRED_COLUMNS if name not in names]),
        ("repeated", [name for name in accepted if names.count(name) > 1]),
    ):
        if columns:
            shown = ", ".join(repr(name) for name in columns[:5])
            raise source.error(f"{wrong} column {shown}; accepted are {', '.join(accepted)}")


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number (of its last line) and fields of each row, blank lines left out as Arrow does."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file)
        yield from ((reader.line_num, row) for row in reader if row)


def _csv_error(source: _Source, cause: Exception) -> InputError:
    """What Arrow stumbled over, with the line it does not tell."""
    try:
        rows = _csv_rows(source.path)
        _, header = next(rows)
        for number, (_, row) in enumerate(rows):
            if len(row) != len(header):
                return source.error(f"has {len(row)} fields, the header {len(header)}", number)
            for column, text in zip(header, row, strict=True):
                if "\ufffd" in text:
                    return source.error("is not UTF-8 text", number, column)
    except (OSError, EOFError, zlib.error, csv.Error, StopIteration):
        pass  # then the cause says it best
    return source.error(f"is damaged CSV: {cause}")


def _series(source: _Source, array: pa.Array, catalog: Catalog) -> tuple[Days, list[str]]:
    """Each row's series as an index into the ids of the file, sorted."""
    if not pa.types.is_string(array.type):
        raise source.error(f"must be text, not {array.type}", column="series_id")
    encoded = array.dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(-1), dtype=np.int32)
    source.check(codes < 0, "series_id", lambda row: "there is no series id")
    found: list[str] = encoded.dictionary.to_pylist()
    unknown = [id for id in found if id not in catalog.series]
    if unknown:
        row = int(np.argmax(codes == found.index(unknown[0])))
        shown = ", ".join(repr(id[:40]) for id in unknown[:5])
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        message = f"not in the catalog {catalog.path or catalog.name}: {shown}{more}"
        raise source.error(message, row, "series_id")
    rank = np.argsort(np.argsort(np.array(found))).astype(np.int32)
    return rank[codes], sorted(found)


def _days(source: _Source, array: pa.Array, column: str) -> Days:
    days = _optional_days(source, array, column)
    source.check(days == NO_LOWER, column, lambda row: "there is no date; write YYYY-MM-DD")
    return days


def _optional_days(source: _Source, array: pa.Array, column: str) -> Days:
    """Days since 1970-01-01, `NO_LOWER` where there is none."""
    kind = array.type
    if pa.types.is_string(kind):
        return _text_days(source, array, column)
    if pa.types.is_timestamp(kind):
        if kind.tz is not None:
            array = pc.local_timestamp(array)
        late = pc.not_equal(array, pc.floor_temporal(array, unit="day")).fill_null(False)
        source.check(np.asarray(late), column, lambda row: f"{array[row]} is not at midnight")
    elif not (pa.types.is_date(kind) or pa.types.is_null(kind)):
        raise source.error(f"must be dates or text as YYYY-MM-DD, not {kind}", column=column)
    days = np.asarray(array.cast(pa.date32()).cast(pa.int32()).fill_null(int(NO_LOWER)))
    out_of_range = (days != NO_LOWER) & ((days < _MIN_DAY) | (days > _MAX_DAY))
    source.check(out_of_range, column, lambda row: "the date is outside the years 1 to 9999")
    return days


def _text_days(source: _Source, array: pa.Array, column: str) -> Days:
    encoded = array.dictionary_encode()  # dates repeat, so few texts need parsing
    parsed = [_parse_day(text) for text in encoded.dictionary.to_pylist()]
    known = np.array([*parsed, NO_LOWER], dtype=np.int32)
    days: Days = known[np.asarray(encoded.indices.fill_null(len(parsed)))]

    def no_date(row: int) -> str:
        return f"{str(array[row])[:40]!r} is not a date; write it as YYYY-MM-DD"

    source.check(days == _UNPARSEABLE, column, no_date)
    return days


def _parse_day(text: str) -> int:
    if not text:
        return int(NO_LOWER)
    if not _ISO_DATE.fullmatch(text):  # fromisoformat alone would take 2024-W01-1
        return _UNPARSEABLE
    try:
        return to_days(dt.date.fromisoformat(text))
    except ValueError:
        return _UNPARSEABLE


def _values(source: _Source, array: pa.Array) -> Floats:
    """Finite numbers, NaN where the value was withdrawn."""
    kind = array.type

    def not_finite(row: int) -> str:
        return f"{str(array[row])[:40]!r} is not a finite number; {_VALUE_HINT}"

    if pa.types.is_string(kind):
        withdrawn = pc.is_in(array, value_set=pa.array(["", ".", None], pa.string()))
        array = pc.if_else(withdrawn, pa.scalar(None, pa.string()), array)
        matched = pc.match_substring_regex(array, _NUMBER).fill_null(True)
        source.check(~np.asarray(matched), "value", not_finite)
    elif not any(accepts(kind) for accepts in _NUMERIC):
        raise source.error(f"must be numbers or text, not {kind}", column="value")
    numbers = array.cast(pa.float64(), safe=False)
    value = np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)
    source.check(np.asarray(numbers.is_valid()) & ~np.isfinite(value), "value", not_finite)
    return value


def _check_periods(source: _Source, rows: _Rows, series: list[SeriesMeta]) -> None:
    """A period is named by its first day; a week by one of its days, always the same."""
    steps = np.array([_MONTHS.get(meta.frequency, 0) for meta in series])[rows.codes]
    days = rows.period.astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    off = (months.astype("datetime64[D]") != days) | (months.astype(int) % np.maximum(steps, 1) > 0)

    def not_first(row: int) -> str:
        meta = series[rows.codes[row]]
        noun, adjective = PERIOD_NOUNS[meta.frequency], FREQUENCY_NAMES[meta.frequency]
        date = iso(rows.period[row])
        return (
            f"{date} is not the first day of a {noun}, and {meta.id} is {adjective} by the catalog"
        )

    source.check((steps > 0) & off, "date", not_first)
    weekly = np.array([meta.frequency == "w" for meta in series])[rows.codes]
    weekday = (rows.period + 3) % 7  # 1970-01-01 was a Thursday; Monday is 0
    _, first = np.unique(rows.codes, return_index=True)
    expected = weekday[first][rows.codes]

    def other_day(row: int) -> str:
        id, date = series[rows.codes[row]].id, iso(rows.period[row])
        day, usual = _WEEKDAYS[weekday[row]], _WEEKDAYS[expected[row]]
        return f"{date} is a {day}, but the first week of {id} in the file is on a {usual}"

    source.check(weekly & (weekday != expected), "date", other_day)


def _check_order(source: _Source, rows: _Rows) -> None:
    def early(row: int) -> str:
        return f"{iso(rows.vintage[row])} is before its period, {iso(rows.period[row])}, starts"

    def late(row: int) -> str:
        return f"{iso(rows.lower[row])} is not before realtime_start, {iso(rows.vintage[row])}"

    source.check(rows.vintage < rows.period, "realtime_start", early)
    source.check(rows.lower >= rows.vintage, "start_lower", late)  # NO_LOWER is below any date


def _check_repeats(source: _Source, rows: _Rows, order: npt.NDArray[np.int64]) -> None:
    """A change point given twice must be the same both times; then it counts once."""
    ordered = rows.take(order)
    same = np.ones(len(order) - 1, dtype=bool)
    for key in (ordered.codes, ordered.period, ordered.vintage):
        same &= key[1:] == key[:-1]
    value = ordered.value
    differs = (value[1:] != value[:-1]) & ~(np.isnan(value[1:]) & np.isnan(value[:-1]))
    for column, clash in (
        ("value", same & differs),
        ("start_lower", same & (ordered.lower[1:] != ordered.lower[:-1])),
    ):
        if clash.any():
            at = int(np.flatnonzero(clash)[np.argmin(order[1:][clash])])  # first in the file
            row, earlier = int(order[at + 1]), source.place(int(order[at]))
            point = f"{iso(rows.period[row])} in vintage {iso(rows.vintage[row])}"
            message = f"{point} is given twice, with another {column} on {earlier}"
            raise source.error(message, row, column)


def _split(
    source: _Source, rows: _Rows, series: list[SeriesMeta]
) -> list[tuple[list[SeriesMeta], pa.Table]]:
    """One normalised table per series; the rows come sorted."""
    bounds = np.searchsorted(rows.codes, np.arange(len(series) + 1))
    result = []
    for meta, start, stop in zip(series, bounds[:-1], bounds[1:], strict=True):
        value, lower = rows.value[start:stop], rows.lower[start:stop]
        arrays = [
            pa.array(rows.period[start:stop]).cast(pa.date32()),
            pa.array(rows.vintage[start:stop]).cast(pa.date32()),
            pa.array(value, mask=np.isnan(value)),
            pa.array(lower, mask=lower == NO_LOWER).cast(pa.date32()),
        ]
        table = pa.Table.from_arrays(arrays, schema=VINTAGE_SCHEMA)
        result.append(([meta], normalise(table, f"{source.path}: series {meta.id}")))
    return result
