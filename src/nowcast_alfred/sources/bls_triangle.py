"""One member of BLS' archive of payroll vintages: the text of a triangle, as arrays.

The header is `year,month,Jan_39,Feb_39,...`, years in two digits; each further line is a
publication. A member is read as whole columns and checked with array operations. Only where those
find a fault, or cannot read a cell, is the text read again line by line, to say where it is.
"""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from ..errors import InputError
from ..periods import Floats
from .bls_calendar import month_number, month_text

PIVOT = 39
"""Two-digit years from here on are 19.., earlier ones 20..: the first reference month is January
1939."""

Months = npt.NDArray[np.int64]
"""Months since 1970-01."""

_YEARS = range(1939, 2100)
_COLUMN = re.compile(r"([A-Za-z]{3})_(\d\d)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Member:
    """The member being read; makes its errors."""

    archive: str
    name: str

    def error(self, message: str, line: int = 0, row: str = "", column: str = "") -> InputError:
        """An error about the member, or a place in it."""
        parts = [self.archive, self.name]
        parts += [f"line {line}"] if line else []
        parts += [f"row {row}"] if row else []
        parts += [f"column {column}"] if column else []
        return InputError(f"{', '.join(parts)}: {message}")


@dataclass(frozen=True)
class Triangle:
    """`value` of shape (reference months, publications), NaN where a cell is empty; `labels` are
    the reference months that the publications are named after, in order."""

    periods: Months
    labels: Months
    value: Floats


def read_triangle(member: Member, data: bytes) -> Triangle:
    """The arrays of a member.

    Raises
    ------
    InputError
        If a line, a cell or the order of rows or columns is wrong; it names the place.
    """
    head, _, body = data.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    names, periods = _header(member, head)
    cells = _columns(len(names), body)
    if cells is None or not _sound(periods, cells):
        cells = _cells(member, names, periods, body)
    return Triangle(periods, _labels(cells).astype(np.int64), cells[2:] + 0.0)  # one zero


def _header(member: Member, head: bytes) -> tuple[list[str], Months]:
    """The columns' names and their months."""
    try:
        names = [name.strip() for name in next(csv.reader([head.decode()]), [])]
    except (UnicodeDecodeError, csv.Error):
        raise member.error("is not CSV in UTF-8", line=1) from None
    if [name.lower() for name in names[:2]] != ["year", "month"] or len(names) == 2:
        shown = ",".join(names)[:40]
        raise member.error(f"the header is year,month,Jan_39,..., not {shown!r}", line=1)
    months: list[int] = []
    for name in names[2:]:
        found = _COLUMN.fullmatch(name)
        if found is None or found[1].lower() not in _MONTHS:
            raise member.error("is not a month such as Jan_39", line=1, column=repr(name[:40]))
        year = int(found[2])
        year += 1900 if year >= PIVOT else 2000
        months.append(month_number(year, _MONTHS.index(found[1].lower()) + 1))
        if len(months) > 1 and months[-1] <= months[-2]:
            raise member.error(
                f"comes after {month_text(months[-2])} and is read as {month_text(months[-1])}: "
                f"years {PIVOT} to 99 are 19.., others 20.., and columns go on in time",
                line=1,
                column=name,
            )
    return names, np.array(months, dtype=np.int64)


def _columns(count: int, body: bytes) -> Floats | None:
    """The cells of shape (columns, rows), NaN where empty; None if one is no number."""
    names = [str(at) for at in range(count)]
    # Arrow's own copy: a thread of its reader that lets go of `bytes` while the interpreter ends
    # aborts the process (apache/arrow issue 34314).
    copy = pa.BufferOutputStream()
    copy.write(body)
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(copy.getvalue()),
            read_options=pa_csv.ReadOptions(column_names=names, block_size=len(body) + 1),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.float64()), null_values=[""]
            ),
        )
    except pa.ArrowInvalid:
        return None
    cells = np.array([column.to_numpy() for column in table.columns], dtype=np.float64)
    empty = np.isnan(cells)
    if empty.sum() != sum(column.null_count for column in table.columns):
        return None  # a cell says nan
    return np.asarray(cells[:, ~empty.all(axis=0)])  # without lines of nothing but commas


def _labels(cells: Floats) -> Floats:
    return np.asarray((cells[0] - 1970) * 12 + cells[1] - 1)


def _sound(periods: Months, cells: Floats) -> bool:
    """Whether what `_cells` checks one by one holds."""
    (year, month), value = cells[:2], cells[2:]
    labels = _labels(cells)
    dated = (year == np.floor(year)) & (year >= _YEARS.start) & (year < _YEARS.stop)
    dated &= (month == np.floor(month)) & (month >= 1) & (month <= 12)
    if not dated.all() or not (np.diff(labels) > 0).all():
        return False
    wrong = np.isinf(value) | (value < 0)
    wrong |= (periods[:, None] > labels[None, :]) & ~np.isnan(value)
    return not wrong.any()


def _cells(member: Member, names: list[str], periods: Months, body: bytes) -> Floats:
    """What `_columns` gives, cell by cell, or an error about the first that is wrong."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        line = 2 + body.count(b"\n", 0, error.start)
        raise member.error("is not UTF-8 text", line) from None
    reader = csv.reader(io.StringIO(text, newline=""))
    rows: list[list[float]] = []
    for row in reader:
        line = reader.line_num + 1
        fields = [field.strip() for field in row]
        if not any(fields):
            continue
        if len(fields) != len(names):
            raise member.error(f"has {len(fields)} fields, the header {len(names)}", line)
        year = _whole(member, line, "year", fields[0], _YEARS)
        month = _whole(member, line, "month", fields[1], range(1, 13))
        label = month_number(year, month)
        if rows and label <= month_number(int(rows[-1][0]), int(rows[-1][1])):
            raise member.error(
                "is not after the row above; rows go on in time", line, month_text(label), "month"
            )
        cells = [
            _number(member, line, label, name, period, field)
            for name, period, field in zip(names[2:], periods.tolist(), fields[2:], strict=True)
        ]
        rows.append([float(year), float(month), *cells])
    return np.array(rows, dtype=np.float64).reshape(-1, len(names)).T


def _whole(member: Member, line: int, column: str, text: str, valid: range) -> int:
    if not text.isascii() or not text.isdigit() or int(text) not in valid:
        raise member.error(
            f"{text[:40]!r} is not a {column} from {valid.start} to {valid.stop - 1}",
            line,
            column=column,
        )
    return int(text)


def _number(member: Member, line: int, label: int, name: str, period: int, text: str) -> float:
    """One cell's value, NaN where it is empty."""
    if not text:
        return math.nan
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not 0 <= value < math.inf:
        message = f"{text[:40]!r} is not a number of employees; leave a cell empty that has none"
    elif period > label:
        message = f"has a value in the publication of {month_text(label)}, an earlier month"
    else:
        return value
    raise member.error(message, line, month_text(label), name)
