"""When a row of BLS' payroll vintages was published.

The archive labels a publication with the reference month that it publishes first, which tells the
month it came out in, not the day. So the day is bracketed, (end of the reference month, end of the
next month], unless a calendar of release days gives it. Two releases came later than that, after
the shutdown of October and November 2025; a bracket that ended too early would show them before
they were out, so they are written down here.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import InputError, QueryError
from ..periods import Days, iso, to_days
from ..store.schema import NO_LOWER

RELEASE = "Employment Situation"
RELEASE_NAMES = (RELEASE.lower(), "the employment situation", "empsit", "ces", "bls-ces", "")
"""What a calendar may call the release, case-blind; rows of other releases are passed over."""
LATE = {"2025-09": "2025-11", "2025-10": "2025-12"}
"""Reference month -> the month it was published in, where that is not the next one: September 2025
came out on 2025-11-20, October together with November on 2025-12-16 (BLS, revised schedule)."""

_COLUMNS = ("release", "reference_month", "day")
_MONTH = re.compile(r"((?:19|20)\d\d)-(0[1-9]|1[0-2])")
_YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False, "": False}


def month_number(year: int, month: int) -> int:
    """A month as months since 1970-01."""
    return (year - 1970) * 12 + month - 1


def month_text(month: int) -> str:
    """A month as `YYYY-MM`."""
    return f"{1970 + month // 12}-{month % 12 + 1:02d}"


def month_start(month: int) -> int:
    """The first day of a month, in days since 1970."""
    return int(np.datetime64(month, "M").astype("datetime64[D]").astype(np.int64))


def bracket(month: int) -> tuple[int, int]:
    """The days between which a reference month was published: after the first, up to the second."""
    late = LATE.get(month_text(month))
    published = month + 1 if late is None else month_number(int(late[:4]), int(late[5:]))
    return month_start(month + 1) - 1, month_start(published + 1) - 1


def read_calendar(path: str | Path) -> dict[int, int]:
    """Release days by reference month (`month_number`), from a CSV.

    Parameters
    ----------
    path
        A CSV with the columns `release` (`Employment Situation`; rows of other releases are passed
        over), `reference_month` (`YYYY-MM`) and `day` (`YYYY-MM-DD`), and optionally `delayed`: a
        day after the next month's end is an error unless this says `yes`, because it is nearly
        always a slip, and rarely a shutdown.

    Raises
    ------
    InputError
        If the file is malformed, a day is outside its bracket, a month comes twice, or a release
        is before that of an earlier month; it names file, line and column.
    """
    where = str(path)
    days: dict[int, int] = {}
    lines: dict[int, int] = {}
    others = set()
    for line, cells in _rows(path):
        if cells["release"].lower() not in RELEASE_NAMES:
            others.add(cells["release"])
            continue
        month, day = _entry(cells, f"{where}, line {line}")
        if month in days:
            raise InputError(
                f"{where}, line {line}, column reference_month: {month_text(month)} is given "
                f"twice, first on line {lines[month]}"
            )
        days[month], lines[month] = day, line
    if not days:
        named = f"; it has {', '.join(sorted(others)[:5])}" if others else ""
        raise InputError(f"{where}: has no row whose release is {RELEASE}{named}")
    ordered = sorted(days)
    for before, month in itertools.pairwise(ordered):
        if days[month] < days[before]:
            raise InputError(
                f"{where}, line {lines[month]}, column day: {month_text(month)} is out on "
                f"{iso(days[month])}, before {month_text(before)} on {iso(days[before])}"
            )
    return days


def _rows(path: str | Path) -> list[tuple[int, dict[str, str]]]:
    """The line and the cells of each row, by column."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(row)]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: is not CSV in UTF-8: {error}") from None
    if not rows:
        raise InputError(f"{path}: is empty")
    first, header = rows[0]
    names = [name.lower().replace(" ", "_") for name in header]
    if lacking := [name for name in _COLUMNS if names.count(name) != 1]:
        raise InputError(
            f"{path}, line {first}: needs the column(s) {', '.join(lacking)}, once; "
            f"the header is {', '.join(_COLUMNS)}[, delayed]"
        )
    for line, row in rows:
        if len(row) != len(names):
            raise InputError(f"{path}, line {line}: has {len(row)} fields, the header {len(names)}")
    return [(line, dict(zip(names, row, strict=True))) for line, row in rows[1:]]


def _entry(cells: dict[str, str], place: str) -> tuple[int, int]:
    """One row's month and day, checked against its bracket."""
    month = _month(cells["reference_month"])
    if month is None:
        raise InputError(
            f"{place}, column reference_month: {cells['reference_month'][:40]!r} is not a month; "
            "write it as YYYY-MM"
        )
    try:
        day = to_days(cells["day"])
    except QueryError as error:
        raise InputError(f"{place}, column day: {error}") from None
    delayed = _YES.get(cells.get("delayed", "").lower())
    if delayed is None:
        raise InputError(f"{place}, column delayed: {cells['delayed'][:40]!r}; write yes or no")
    lower, upper = bracket(month)
    if day <= lower or (day > upper and not delayed):
        advice = "; if it was delayed, add a column delayed with yes" if day > upper else ""
        raise InputError(
            f"{place}, column day: {iso(day)} is outside the bracket of {month_text(month)}, after "
            f"{iso(lower)} and up to {iso(upper)}{advice}"
        )
    return month, day


def _month(text: str) -> int | None:
    found = _MONTH.fullmatch(text)
    return month_number(int(found[1]), int(found[2])) if found else None


def publication_days(months: Sequence[int], calendar: dict[int, int]) -> tuple[Days, Days]:
    """`vintage` and `vintage_lower` of publications, given in order of their reference months.

    Raises
    ------
    InputError
        If the calendar delays a release past the bracket of a later one that it does not list.
    """
    vintage = [calendar.get(month, bracket(month)[1]) for month in months]
    lower = [int(NO_LOWER) if month in calendar else bracket(month)[0] for month in months]
    for at in range(1, len(vintage)):
        if vintage[at] < vintage[at - 1]:
            raise InputError(
                f"the calendar has {month_text(months[at - 1])} out on {iso(vintage[at - 1])} and "
                f"does not say when {month_text(months[at])} was, which would be before; list both"
            )
    return np.array(vintage, dtype=np.int32), np.array(lower, dtype=np.int32)
