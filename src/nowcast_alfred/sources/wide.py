"""Vintages from wide files: ALFRED's own download, and FRED-MD's monthly files.

ALFRED writes a row for each period and a column for each vintage of each series, named after both
(`PAYEMS_20240105`), as CSV or as a workbook. The days are exact, provided that the file holds every
vintage of the time it spans.

FRED-MD writes a file for each month (`2024-01.csv`): names, then a row of transform codes, then a
row for each month (`sasdate`, as `1/1/1959`), in levels as FRED had them when the file's month
ended. Only that month is known, so a change is dated to its last day, with `vintage_lower` at the
last day of the file before.
"""

from __future__ import annotations

import csv
import datetime as dt
import re
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import periods as p
from ..catalog import Catalog
from ..errors import InputError
from ..store import SeriesInput, SeriesMeta
from ..store.schema import NO_LOWER
from .matrix import Place, change_points, early, metadata, numbers
from .workbook import Workbook

DATE_COLUMNS = ("observation_date", "date")
"""How ALFRED calls the first column, in any case."""

_LABEL = re.compile(r"(.+)_([0-9]{4})([0-9]{2})([0-9]{2})")
_ISO = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[ T]00:00:00)?")
_SERIAL = re.compile(r"[0-9]{1,6}(\.0*)?")
_US = re.compile(r"([0-9]{1,2})/0?1/([0-9]{4})")
_EXCEL_EPOCH = p.to_days(dt.date(1899, 12, 30))
_MONTHLY = re.compile(r"(?:FRED-MD_)?([0-9]{4})[-m]([0-9]{2})(?:-md)?\.csv", re.IGNORECASE)
_MONTHS = {"m": 1, "q": 3, "a": 12}

Rows = Iterator[tuple[int, list[str]]]
"""Number of a row (or line) in its file, and its cells without blanks around them."""


def read_alfred_wide(
    path: str | Path, catalog: Catalog, rights: str | None = None
) -> list[SeriesInput]:
    """Read a download of ALFRED's, all vintages beside each other.

    Parameters
    ----------
    path
        A CSV file, or an XLSX workbook of which every sheet that starts with the date column is
        read. The first column is `observation_date` (or `DATE`), with dates as ALFRED has them;
        the others are called `SERIES_YYYYMMDD`, several series in any order. A cell that is
        empty, `.` or `#N/A` has no value. Weekly series are dated by their last day there and by
        their first one in a store.
    catalog
        Full metadata of every series in the file.
    rights
        The right to train on all of them, instead of the catalog's.

    Returns
    -------
    One entry a series, sorted by id.

    Raises
    ------
    InputError
        If the file is malformed (file, sheet, row and column are named), or has a series that is
        not in the catalog.
    CatalogError
        If metadata are missing.
    """
    path = Path(path)
    found: dict[str, dict[int, _Column]] = {}
    with closing(_sheets(path)) as sheets:
        for place, rows in sheets:
            for column in _alfred_columns(place, rows):
                if column.id not in catalog.series:
                    where = catalog.path or catalog.name
                    raise column.error(f"{column.id} is not in the catalog {where}")
                series = found.setdefault(column.id, {})
                if column.vintage in series:
                    raise column.error("the same vintage comes twice")
                series[column.vintage] = column
    metas = metadata(catalog, sorted(found), rights)
    result = []
    for id, meta in metas.items():
        days = np.array(sorted(found[id]), dtype=np.int32)
        result.append(_series(meta, found[id], days, np.full_like(days, NO_LOWER)))
    return result


def read_fred_md(
    folder: str | Path, catalog: Catalog, rights: str | None = None
) -> list[SeriesInput]:
    """Read a folder of FRED-MD's monthly vintages.

    Parameters
    ----------
    folder
        Holds files called `2024-01.csv` (or, as the archives have them, `2024-01-md.csv`,
        `FRED-MD_2024m01.csv`); others in it are left alone. A month without a file widens the
        bracket of the next one. Import the whole folder again when a month is added: what one
        file withdraws is known from the one before.
    catalog
        Full metadata of monthly series called like FRED-MD's columns. Other columns are left
        alone; a column that is not there, or has no value at all, says nothing about that month.
    rights
        The right to train on all of them, instead of the catalog's.

    Returns
    -------
    One entry a series that is in any of the files, sorted by id.

    Raises
    ------
    InputError
        If a file is malformed (file, line and column are named), a month has two files, or no
        column is in the catalog.
    CatalogError
        If metadata are missing.
    """
    folder = Path(folder)
    found: dict[str, dict[int, _Column]] = {}
    for month, path in _monthly_files(folder).items():
        for column in _fred_md_columns(path, month, catalog):
            found.setdefault(column.id, {})[column.vintage] = column
    if not found:
        raise InputError(f"{folder}: no column is in the catalog {catalog.path or catalog.name}")
    metas = metadata(catalog, sorted(found), rights)
    result = []
    for id, meta in metas.items():
        columns = found[id]
        if meta.frequency != "m":
            raise next(iter(columns.values())).error("is monthly here, and not in the catalog")
        days = np.array(sorted(columns), dtype=np.int32)
        before = p.shift(int(days[0]) + 1, "m", -1) - 1
        lowers = np.concatenate([[before], days[:-1]]).astype(np.int32)
        result.append(_series(meta, columns, days, lowers))
    return result


class _Block:
    """A table of a file: dates down, columns across, NaN where there is no value."""

    def __init__(self, place: Place, header: int, names: list[str]) -> None:
        self.place, self.header, self.names = place, header, names
        self.rows: dict[int, int] = {}
        self._values: list[p.Floats] = []

    def add(self, row: int, date: int, cells: list[str]) -> None:
        """Take the values of one date, from the second cell on."""
        if self.rows.setdefault(date, row) != row:
            message = f"{p.iso(date)} was on {self.rows[date]} already"
            raise self.place.error(message, row, self.names[0])
        values = numbers(self.place, row, self.names, ["", *cells[1:]])
        self._values.append(np.array(values, dtype=np.float64))

    def values(self) -> p.Floats:
        """All values, of shape (dates, columns); the first column holds the dates themselves."""
        return np.array(self._values, dtype=np.float64).reshape(len(self.rows), len(self.names))


@dataclass(frozen=True)
class _Column:
    """One vintage of one series: a column of a block, with its values."""

    block: _Block
    name: str
    id: str
    vintage: int
    values: p.Floats

    def error(self, message: str, date: int | None = None) -> InputError:
        """An error about the column, or about its cell for a date of the file."""
        row = self.block.header if date is None else self.block.rows[date]
        return self.block.place.error(message, row, self.name)


def _series(
    meta: SeriesMeta, columns: dict[int, _Column], days: p.Days, lowers: p.Days
) -> SeriesInput:
    """The vintages of one series put together, checked, as change points."""
    blocks = {column.block for column in columns.values()}
    dates = np.unique([date for block in blocks for date in block.rows]).astype(np.int32)
    places = {block: np.searchsorted(dates, list(block.rows)) for block in blocks}
    values = np.full((len(dates), len(days)), np.nan)
    for at, day in enumerate(days.tolist()):
        values[places[columns[day].block], at] = columns[day].values
    filled = ~np.isnan(values).all(axis=1)
    dates, values = dates[filled], values[filled]
    if len(dates) == 0:
        raise next(iter(columns.values())).error(f"{meta.id} has no values")

    def at_fault(row: int, message: str) -> InputError:
        """An error about the first cell of a period that has a value."""
        at = int(np.argmax(~np.isnan(values[row])))
        return columns[int(days[at])].error(message, int(dates[row]))

    for row, date in enumerate(dates.tolist()):
        if reason := _not_first(date, int(dates[0]), meta.frequency):
            raise at_fault(row, f"{p.iso(date)} is not {reason}")
    periods = dates - np.int32(6 if meta.frequency == "w" else 0)
    if cell := early(periods, days, values):
        period, day = p.iso(periods[cell[0]]), p.iso(days[cell[1]])
        raise at_fault(cell[0], f"a value on {day}, before its period, {period}, starts")
    return SeriesInput([meta], change_points(periods, days, lowers, values, meta.id))


def _not_first(date: int, first: int, frequency: p.Frequency) -> str:
    """What a date should be that names no period; empty where it does."""
    if frequency == "w":
        return "" if (date - first) % 7 == 0 else "on the same day of the week as those before"
    day = p.to_date(date)
    step = _MONTHS.get(frequency, 0)
    if step and (day.day > 1 or (day.month - 1) % step):
        return f"the first day of a {p.PERIOD_NOUNS[frequency]}"
    return ""


# --- ALFRED


def _sheets(path: Path) -> Generator[tuple[Place, Rows]]:
    """The file, or each sheet of the workbook that holds vintages."""
    if not _head(path).startswith(b"PK"):
        yield Place(path), _csv_rows(path)
        return
    with Workbook(path) as book:
        names = [
            name
            for name in book.sheets
            if next((c for _, c in book.rows(name) if any(c)), [""])[0].lower() in DATE_COLUMNS
        ]
        if not names:
            sheets = ", ".join(book.sheets)
            raise InputError(f"{path}: no sheet starts with observation_date; it has {sheets}")
        if book.dates_from_1904:
            raise InputError(f"{path}: counts its dates from 1904; save it as CSV")
        for name in names:
            yield Place(path, name), book.rows(name)


def _alfred_columns(place: Place, rows: Rows) -> Iterator[_Column]:
    filled = ((row, cells) for row, cells in rows if any(cells))
    header, names = next(filled, (1, [""]))
    if names[0].lower() not in DATE_COLUMNS:
        raise place.error("the first column must be observation_date", header)
    labels = {at: _alfred_label(place, header, n) for at, n in enumerate(names) if at and n}
    if not labels:
        raise place.error("there are no vintages beside observation_date", header)
    block = _Block(place, header, names)
    for row, cells in filled:
        block.add(row, _alfred_date(place, row, cells[0]), cells)
    values = block.values()
    for at, (id, vintage) in labels.items():
        yield _Column(block, names[at], id, vintage, values[:, at])


def _alfred_label(place: Place, header: int, name: str) -> tuple[str, int]:
    """Series and vintage of a column."""
    match = _LABEL.fullmatch(name)
    try:
        if match:
            day = dt.date(int(match[2]), int(match[3]), int(match[4]))
            return match[1], p.to_days(day)
    except ValueError:
        pass
    raise place.error("is no vintage, such as PAYEMS_20240105", header, name)


def _alfred_date(place: Place, row: int, text: str) -> int:
    """A date as text, or in a workbook as its serial number."""
    match = _ISO.fullmatch(text)
    try:
        if match:
            return p.to_days(dt.date(int(match[1]), int(match[2]), int(match[3])))
        if place.sheet and _SERIAL.fullmatch(text):
            return _EXCEL_EPOCH + int(float(text))
    except ValueError:
        pass
    raise place.error(f"{text[:40]!r} is no date, such as 2024-01-01", row, "observation_date")


# --- FRED-MD


def _monthly_files(folder: Path) -> dict[int, Path]:
    """Files by the last day of their month, in order."""
    found: dict[int, Path] = {}
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from error
    for path in paths:
        match = _MONTHLY.fullmatch(path.name)
        if match is None or not 1 <= int(match[2]) <= 12:
            continue
        day = p.period_end(p.to_days(dt.date(int(match[1]), int(match[2]), 1)), "m")
        if day in found:
            raise InputError(f"{path}: is of the same month as {found[day].name}")
        found[day] = path
    if not found:
        raise InputError(f"{folder}: there is no monthly file, such as 2024-01.csv")
    return dict(sorted(found.items()))


def _fred_md_columns(path: Path, day: int, catalog: Catalog) -> Iterator[_Column]:
    """The catalog's columns of a file that have any value."""
    place = Place(path)
    filled = ((row, cells) for row, cells in _csv_rows(path) if any(cells))
    header, names = next(filled, (1, [""]))
    if names[0].lower() != "sasdate":
        raise place.error("the first column must be sasdate", header)
    wanted = [at for at, name in enumerate(names) if at and name in catalog.series]
    if repeated := {names[at] for at in wanted if names.count(names[at]) > 1}:
        raise place.error("the column comes twice", header, min(repeated))
    block = _Block(place, header, [names[0], *(names[at] for at in wanted)])
    for row, cells in filled:
        if cells[0].lower().startswith("transform") and not block.rows:
            continue
        if len(cells) != len(names):
            raise place.error(f"has {len(cells)} fields, the header {len(names)}", row)
        block.add(row, _us_date(place, row, cells[0]), ["", *(cells[at] for at in wanted)])
    if not block.rows:
        raise place.error("has no rows of values")
    for name, values in zip(block.names[1:], block.values().T[1:], strict=True):
        if not np.isnan(values).all():
            yield _Column(block, name, name, day, values)


def _us_date(place: Place, row: int, text: str) -> int:
    match = _US.fullmatch(text)
    try:
        if match:
            return p.to_days(dt.date(int(match[2]), int(match[1]), 1))
    except ValueError:
        pass
    message = f"{text[:40]!r} is not the first day of a month, such as 1/1/1959"
    raise place.error(message, row, "sasdate")


# --- CSV


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(512)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _csv_rows(path: Path) -> Rows:
    head = _head(path)
    if not head:
        raise InputError(f"{path}: is empty")
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        raise InputError(f"{path}: is a web page, not data; download the file itself")
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file)
        try:
            for cells in reader:
                yield reader.line_num, [cell.strip() for cell in cells]
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}: is damaged CSV: {error}") from error
