"""The Philadelphia Fed's Real-Time Data Set for Macroeconomists (RTDSM): its workbooks as vintages.

A workbook is one variable: `DATE` down (`1939:01`, `1947:Q1`), a column for each vintage
(`EMPLOY64M12`, `ROUTPUT65Q4`; two-digit years from 50 on are of the 20th century), `#N/A` or a
blank where a vintage has no value. Its name says how often there is a vintage and how often a
value: `employMvMd`, `rucQvMd`, `ROUTPUTQvQd`. One variable may have two workbooks, so a series is
called `RTDSM_ROUTPUT_Q` (quarterly vintages) or `RTDSM_ROUTPUT_M` (monthly ones), which is no id of
FRED's, and the catalog's frequency completes the name of the workbook.

Days. A vintage's label names a month or quarter, never a day. `vintage` is a day on which its
values were out for certain, `vintage_lower` one on which what is new in it was not out yet:

* the rule (RTDSM's general notes): what was available on the 15th of the month, or of the quarter's
  middle month; what is new came after the vintage before. The days in `LATE` break the rule: a
  shutdown delayed the release past the 15th, and the vintage holds it all the same;
* `MONTH_END`: statistics out about or after the middle of a month, whose vintages hold the release
  of their own month (the vintage of March 2024 has housing starts that came out on 19 March). Both
  days are month ends; with a largest lag of 31 days the lower one holds in any case, for a month's
  number is not out before the month is over;
* quarterly values with monthly vintages (`MvQd`, the national accounts): what was out on the 15th,
  so the first estimate of 2008 Q4 (out on 30 January 2009) is new in the vintage of *February*.
  `vintage` is the month's end, the safe side, but `vintage_lower` is the 15th of the month before:
  the end of that month would already be after the release.

Monthly values with quarterly vintages (`QvMd`) come three at a time and revised, so they hold no
first releases; the catalog makes them predictors.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import periods as p
from ..catalog import Catalog
from ..errors import CatalogError, InputError
from ..store import SeriesInput
from .matrix import Place, change_points, early, metadata, numbers
from .workbook import Workbook

PREFIX = "RTDSM_"
PIVOT = 50
"""Two-digit years from here on are of the 20th century."""
MONTH_END = frozenset(["IPT", "IPM", "CUT", "CUM", "HSTARTS", "PCPI", "PCPIX", "PPPI", "PPPIX"])
"""Variables whose monthly vintages hold what came out in the month, to its end."""
LATE = {
    # The Employment Situation of December 1995, September 2013, September and November 2025.
    "MvMd": {
        "1996-01": "1996-01-19",
        "2013-10": "2013-10-22",
        "2025-11": "2025-11-20",
        "2025-12": "2025-12-16",
    },
    "QvMd": {"2025-Q4": "2025-11-20"},
    # First estimates of the national accounts for 2018 Q4, 2025 Q3, 2025 Q4.
    "QvQd": {"2019-Q1": "2019-02-28", "2025-Q4": "2025-12-23", "2026-Q1": "2026-02-20"},
}
"""Vintages that hold a delayed release, with its day, by kind of workbook."""

_ID = re.compile(rf"{PREFIX}([A-Z][A-Z0-9]*)_([MQ])")
_NAME = re.compile(r"([A-Z][A-Z0-9]*)([MQ])V([MQ])D")
_COLUMN = re.compile(r"([A-Z][A-Z0-9]*)([0-9]{2})([MQ])([0-9]{1,2})")
_DATE = re.compile(r"([0-9]{4}):(Q?)([0-9]{1,2})")
_PER_YEAR = {"M": 12, "Q": 4}


def workbooks(catalog: Catalog) -> dict[str, str]:
    """Name of the workbook, without suffix, of each series of a catalog that has one.

    Raises
    ------
    CatalogError
        If no series has one, or a series is neither monthly nor quarterly.
    """
    found = {}
    for id, entry in catalog.series.items():
        if not id.startswith(PREFIX):
            continue
        match = _ID.fullmatch(id)
        if match is None or entry.frequency not in ("m", "q"):
            raise CatalogError(
                f"{catalog.path or catalog.name}: series {id}: must be called {PREFIX}VARIABLE_M "
                "(monthly vintages) or _Q (quarterly ones), and have frequency m or q"
            )
        found[id] = f"{match[1].lower()}{match[2]}v{entry.frequency.upper()}d"
    if not found:
        raise CatalogError(
            f"{catalog.path or catalog.name}: no series is called {PREFIX}VARIABLE_M or "
            f"{PREFIX}VARIABLE_Q"
        )
    return found


def read_workbooks(
    source: str | Path | Iterable[str | Path], catalog: Catalog, rights: str | None = None
) -> list[SeriesInput]:
    """Read real-time workbooks.

    Parameters
    ----------
    source
        A folder, of which the workbooks of the catalog's series are read (by name, in any case);
        or one or several files, each of a series of the catalog.
    catalog
        Full metadata of series called `RTDSM_VARIABLE_M` or `_Q`; series of other sources in it
        are left alone.
    rights
        The right to train on all of them, instead of the catalog's.

    Returns
    -------
    One entry a workbook, sorted by id. A series of the catalog without a workbook has none.

    Raises
    ------
    InputError
        If a workbook is malformed (file, sheet, row and column are named), is not of the catalog,
        comes twice, or none is there.
    CatalogError
        If metadata are missing.
    """
    names = workbooks(catalog)
    found: dict[str, _Matrix] = {}
    for path in _files(source, names):
        matrix = _read(path)
        if matrix.id not in names:
            raise matrix.place.error(
                f"its columns are of {matrix.id}, which is not in {catalog.path or catalog.name}"
            )
        if matrix.id in found:
            raise matrix.place.error(f"{matrix.id} is in {found[matrix.id].place.path} too")
        found[matrix.id] = matrix
    metas = metadata(catalog, sorted(found), rights)
    result = []
    for id, meta in metas.items():
        matrix = found[id]
        if meta.frequency != matrix.data.lower():
            values = "monthly" if matrix.data == "M" else "quarterly"
            raise matrix.place.error(
                f"has {values} values; {id} has frequency {meta.frequency!r} in the catalog"
            )
        modified = dt.datetime.fromtimestamp(matrix.place.path.stat().st_mtime, dt.UTC)
        retrieved = modified.isoformat(timespec="seconds")
        result.append(SeriesInput([meta], matrix.table(), retrieved, complete=True))
    return result


def vintage_days(variable: str, kind: str, ordinals: p.Days) -> tuple[p.Days, p.Days]:
    """Days of vintages and the days after which what is new in them came.

    Parameters
    ----------
    variable, kind
        Such as `EMPLOY` and `MvMd`.
    ordinals
        Months or quarters since the year 0, shape (v,), ascending.

    Returns
    -------
    Two arrays of shape (v,), as days since 1970-01-01.
    """
    step = 12 // _PER_YEAR[kind[0]]
    numbered = np.concatenate([[ordinals[0] - 1], ordinals]).astype(np.int64)
    months = numbered * step + step // 2 - 1970 * 12

    def first_day(months: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        days = months.astype("datetime64[M]").astype("datetime64[D]")
        return np.asarray(days.astype(np.int64), dtype=np.int32)

    middle = first_day(months) + np.int32(14)
    end = first_day(months + 1) - np.int32(1)
    if kind == "MvQd":
        return end[1:], middle[:-1]
    if kind == "MvMd" and variable in MONTH_END:
        return end[1:], end[:-1]
    late = LATE.get(kind, {})
    for at, ordinal in enumerate(numbered.tolist()):
        if day := late.get(_label(ordinal, kind[0])):
            middle[at] = p.to_days(day)
    return middle[1:], middle[:-1]


def _label(ordinal: int, letter: str) -> str:
    year, at = divmod(ordinal, _PER_YEAR[letter])
    return f"{year}-Q{at + 1}" if letter == "Q" else f"{year}-{at + 1:02d}"


def _files(source: str | Path | Iterable[str | Path], names: dict[str, str]) -> Iterator[Path]:
    """The files to read, in order of name."""
    if not isinstance(source, str | Path):
        yield from sorted(Path(path) for path in source)
        return
    source = Path(source)
    if not source.is_dir():
        yield source
        return
    wanted = {name.lower() for name in names.values()}
    # What Excel leaves beside an open workbook (`~$employMvMd.xlsx`) has another stem.
    found = [
        path
        for path in sorted(source.iterdir())
        if path.suffix.lower() == ".xlsx" and path.stem.lower() in wanted
    ]
    if not found:
        some = ", ".join(f"{name}.xlsx" for name in sorted(names.values())[:5])
        raise InputError(f"{source}: there is no workbook of the catalog, such as {some}")
    yield from found


@dataclass(frozen=True)
class _Matrix:
    """A workbook as read; `rows` are the numbers of the periods' rows in the sheet."""

    place: Place
    variable: str
    kind: str
    rows: list[int]
    columns: list[str]
    periods: p.Days
    ordinals: p.Days
    values: p.Floats

    @property
    def id(self) -> str:
        return f"{PREFIX}{self.variable}_{self.kind[0]}"

    @property
    def data(self) -> str:
        """Letter of the values' frequency."""
        return self.kind[2]

    def table(self) -> pa.Table:
        """The change points."""
        days, lowers = vintage_days(self.variable, self.kind, self.ordinals)
        if at := early(self.periods, days, self.values):
            row, column = at
            raise self.place.error(
                f"has a value for {p.iso(self.periods[row])} on {p.iso(days[column])}, before that "
                "period starts",
                self.rows[row],
                self.columns[column],
            )
        return change_points(self.periods, days, lowers, self.values, self.id)


def _read(path: Path) -> _Matrix:
    with Workbook(path) as book:
        sheet = _sheet(book)
        place = Place(path, sheet)
        rows = ((row, cells) for row, cells in book.rows(sheet) if any(cells))
        row, header = next(rows, (1, [""]))
        if header[0].upper() != "DATE":
            raise place.error("the first column must be DATE, vintages beside it", row)
        columns = [name.upper() for name in header]
        variable, vintages, ordinals = _vintages(place, row, columns)
        data = ""
        found: dict[int, int] = {}
        values: list[p.Floats] = []
        for row, cells in rows:
            letter, period = _period(place, row, cells[0])
            if letter != (data := data or letter):
                raise place.error(f"{cells[0]!r}: monthly and quarterly dates", row, "DATE")
            if found.setdefault(period, row) != row:
                raise place.error(f"{cells[0]} was on row {found[period]} already", row, "DATE")
            line = numbers(place, row, columns, ["", *cells[1:]])[1:]
            values.append(np.array(line, dtype=np.float64))
    kind = f"{vintages}v{data}d"
    _check_name(place, variable, kind)
    table = np.array(values, dtype=np.float64).reshape(len(values), len(columns) - 1)
    # A vintage without any value was not collected; it is no withdrawal of everything.
    collected = np.flatnonzero(~np.isnan(table).all(axis=0))
    if len(collected) == 0:
        raise place.error("has no values")
    return _Matrix(
        place,
        variable,
        kind,
        list(found.values()),
        [columns[at + 1] for at in collected],
        np.array(list(found), dtype=np.int32),
        np.array([ordinals[at] for at in collected.tolist()], dtype=np.int32),
        table[:, collected],
    )


def _sheet(book: Workbook) -> str:
    """The sheet of the vintages: the only one, or the only one that starts with DATE."""
    if len(book.sheets) == 1:
        return book.sheets[0]
    tops = {name: next((c for _, c in book.rows(name) if any(c)), [""]) for name in book.sheets}
    found = [name for name, cells in tops.items() if cells[0].upper() == "DATE"]
    if len(found) != 1:
        raise InputError(
            f"{book.path}: one sheet must start with DATE; there are {', '.join(book.sheets)}"
        )
    return found[0]


def _vintages(place: Place, row: int, columns: list[str]) -> tuple[str, str, dict[int, int]]:
    """Variable, letter of the vintages' frequency, and month or quarter by place in the header."""
    found: dict[int, int] = {}
    variable = letter = ""
    for at, name in enumerate(columns[1:]):
        if not name:
            continue
        match = _COLUMN.fullmatch(name)
        if match is None or not 1 <= int(match[4]) <= _PER_YEAR[match[3]]:
            raise place.error(f"{name[:40]!r} is no vintage, such as EMPLOY64M12", row, name)
        if (variable or match[1], letter or match[3]) != (match[1], match[3]):
            raise place.error(f"vintages of {variable} and others: {name}", row, name)
        variable, letter = match[1], match[3]
        year = int(match[2]) + (1900 if int(match[2]) >= PIVOT else 2000)
        ordinal = year * _PER_YEAR[letter] + int(match[4]) - 1
        if found and ordinal <= max(found.values()):
            raise place.error("vintages must ascend, without repeats", row, name)
        found[at] = ordinal
    if not found:
        raise place.error("there are no vintages beside DATE", row)
    return variable, letter, found


def _period(place: Place, row: int, text: str) -> tuple[str, int]:
    """Letter of a date's frequency, and its first day."""
    match = _DATE.fullmatch(text.upper())
    letter = "Q" if match and match[2] else "M"
    if match is None or not 1 <= int(match[3]) <= _PER_YEAR[letter]:
        raise place.error(f"{text[:40]!r} is no date, such as 1939:01 or 1947:Q1", row, "DATE")
    month = int(match[3]) if letter == "M" else 3 * int(match[3]) - 2
    return letter, p.to_days(dt.date(int(match[1]), month, 1))


def _check_name(place: Place, variable: str, kind: str) -> None:
    """A file that has a workbook's name holds that workbook."""
    match = _NAME.fullmatch(place.path.stem.upper())
    if match and (match[1], f"{match[2]}v{match[3]}d") != (variable, kind):
        raise place.error(f"is called {place.path.stem} but holds {variable.lower()}{kind}")
