"""What FRED's API v1 answers, without the network: archives, the rules of each endpoint, errors.

The rules are those of recorded bodies (`test_fake_fred.py` compares row for row) and of quoted
live answers. Where nothing was recorded the code says "guess": a client must not depend on it.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any
from xml.sax.saxutils import quoteattr
from zoneinfo import ZoneInfo

MIN_DAY, MAX_DAY = "1776-07-04", "9999-12-31"
MISSING = "."
KEY = "0123456789abcdef0123456789abcdef"

Row = dict[str, str]
Body = dict[str, Any]
Params = Mapping[str, str]
Points = dict[str, list[tuple[str, str]]]
"""Observation date -> [(first vintage that has the value, value as text)]."""
Periods = dict[str, list[tuple[str, str, str]]]
"""Observation date -> [(first day, last day, value)], without gaps, the last one open."""

# Texts seen in live answers or in FRED's documentation; `error` puts "Bad Request.  " before them.
KEY_NOT_SET = "Variable api_key is not set."
KEY_NOT_SET_IN_DOCS = "Variable api_key has not been set."
KEY_MALFORMED = (
    "The value for variable api_key is not a 32 character alpha-numeric lower-case string.  "
    "Read http://api.stlouisfed.org/api_key.html for more information."
)
KEY_UNREGISTERED = (
    "The value for variable api_key is not registered.  "
    "Read https://fred.stlouisfed.org/docs/api/api_key.html for more information."
)
NO_SERIES = "The series does not exist."
NOT_IN_ALFRED = (
    "The series does not exist in ALFRED but may exist in FRED.  Try setting realtime_start and "
    "realtime_end to today's date or removing the realtime_start and realtime_end variables."
)
BAD_SERIES_ID = (
    "Invalid value for variable series_id.  "
    "Series IDs should be 25 or less alphanumeric characters."
)
RESTRICTED = "Not Found.  The data for this series is not available via the API; the..."
TOO_MANY = "Too Many Requests.  Exceeded Rate Limit"


class FredError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message

    def body(self) -> Body:
        return {"error_code": self.status, "error_message": self.message}


def error(text: str) -> FredError:
    """A 400, which is FRED's answer to nearly everything."""
    return FredError(400, f"Bad Request.  {text}")


# ------------------------------------------------------------------------------------- archives


@dataclass
class FakeSeries:
    """One series: its change points, and what FRED says about it.

    Parameters
    ----------
    points
        Observation date -> [(vintage, text)], "." for a value that is missing or was removed.
        Vintages after the server's today are not served yet. Change them with `set` only. The
        same text twice in a row is no change, and no vintage (but see `type3`).
    metadata
        Periods of metadata; each may have `realtime_start` (default: the first vintage) and any
        field of an entry of fred/series, else a default is made up.
    archived
        False: only today's values are served, ALFRED answers 400.
    restricted
        True: the observations answer 404, as those withdrawn by their owner.
    """

    id: str
    points: Points
    metadata: list[dict[str, Any]] = field(default_factory=list)
    release: tuple[int, str] = (10, "Sample Release")
    tags: list[dict[str, Any]] = field(default_factory=list)
    archived: bool = True
    restricted: bool = False
    _cache: dict[str, tuple[Periods, list[str]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def from_type1(cls, id: str, rows: Iterable[Row], **more: Any) -> FakeSeries:
        """The archive behind rows of output type 1, which should come from the full window."""
        points: Points = {}
        for row in rows:
            points.setdefault(row["date"], []).append((row["realtime_start"], row["value"]))
        return cls(id, points, **more)

    @classmethod
    def from_type3(cls, id: str, rows: Iterable[Row], **more: Any) -> FakeSeries:
        """The archive behind rows of output type 3: every cell is a change point."""
        points: Points = {}
        for row in rows:
            cells = [(key[-8:], value) for key, value in row.items() if key != "date"]
            points[row["date"]] = [(f"{k[:4]}-{k[4:6]}-{k[6:]}", value) for k, value in cells]
        return cls(id, points, **more)

    @classmethod
    def from_table(
        cls, id: str, table: Any, decimals: int | None = None, **more: Any
    ) -> FakeSeries:
        """The archive of a nowcast-alfred table (period, vintage, value; null: removed)."""
        points: Points = {}
        for row in table.select(["period", "vintage", "value"]).to_pylist():
            text = MISSING if row["value"] is None else number_text(row["value"], decimals)
            points.setdefault(str(row["period"]), []).append((str(row["vintage"]), text))
        return cls(id, points, **more)

    def set(self, date: str, vintage: str, value: str | None) -> None:
        """Put a change point where there was none or another one; None takes it away."""
        kept = [point for point in self.points.get(date, []) if point[0] != vintage]
        if value is not None:
            kept.append((vintage, value))
        self.points[date] = kept
        self._cache = {}

    def periods(self, today: str) -> Periods:
        """The values with the days on which they were current, as far as known on `today`."""
        return self._known(today)[0]

    def vintages(self, today: str) -> list[str]:
        """The vintage dates up to `today`: the days on which at least one value changed."""
        return self._known(today)[1]

    def _known(self, today: str) -> tuple[Periods, list[str]]:
        if today not in self._cache:
            periods = periods_of(self.points, today)
            starts = {start for spans in periods.values() for start, _, _ in spans}
            self._cache[today] = periods, sorted(starts)
        return self._cache[today]


def tag(name: str, group_id: str, series_count: int = 1) -> dict[str, Any]:
    """A tag as FRED lists it; copyright tags have group "cc"."""
    created = "2012-02-27 10:18:19-06"
    return {
        "name": name,
        "group_id": group_id,
        "notes": "",
        "created": created,
        "popularity": 50,
        "series_count": series_count,
    }


def number_text(value: float, decimals: int | None = None) -> str:
    """A number as FRED writes it; without `decimals`, the shortest text that reads back.

    >>> number_text(157232.0), number_text(0.00001), number_text(2.5, 3)
    ('157232', '0.00001', '2.500')
    """
    if decimals is not None:
        return f"{value:.{decimals}f}"
    text = format(Decimal(repr(float(value))), "f")
    return text.removesuffix(".0")


def day_before(day: str) -> str:
    return (dt.date.fromisoformat(day) - dt.timedelta(days=1)).isoformat()


def periods_of(points: Points, today: str) -> Periods:
    """Change points as closed periods; a value that repeats the one before it makes none."""
    found: Periods = {}
    for date in sorted(points):
        changes: list[tuple[str, str]] = []
        for start, value in sorted(dict(points[date]).items()):  # the last load of a day wins
            if start <= today and not (changes and changes[-1][1] == value):
                changes.append((start, value))
        ends = [day_before(start) for start, _ in changes[1:]] + [MAX_DAY]
        if changes:
            found[date] = [(s, e, v) for (s, v), e in zip(changes, ends, strict=True)]
    return found


# --------------------------------------------------------------------------------- output types


def type1(periods: Periods, start: str, end: str) -> list[Row]:
    """By real-time period: rows that meet the window, clipped to it."""
    return [
        {"realtime_start": max(s, start), "realtime_end": min(e, end), "date": d, "value": v}
        for d, spans in periods.items()
        for s, e, v in spans
        if s <= end and e >= start
    ]


def type2(periods: Periods, id: str, days: list[str]) -> list[Row]:
    """By vintage: a column per day; no key where the observation is not in the vintage yet."""
    columns = [(day, f"{id}_{day.replace('-', '')}") for day in days]
    rows = []
    for date, spans in periods.items():
        row, at = {"date": date}, 0
        for day, column in columns:
            while at < len(spans) and spans[at][1] < day:
                at += 1
            if spans[at][0] <= day:
                row[column] = spans[at][2]
        rows.append(row)
    return [row for row in rows if len(row) > 1]


def type3(periods: Periods, id: str, days: Iterable[str], points: Points) -> list[Row]:
    """New and revised: the cells that changed on one of the days, never clipped.

    A value that was only loaded again makes a row without a cell: the recorded CPIAUCSL body has
    one (that this is the reason is a guess).
    """
    wanted = {day: f"{id}_{day.replace('-', '')}" for day in days}
    rows = []
    for date, spans in periods.items():
        cells = {wanted[start]: value for start, _, value in spans if start in wanted}
        if cells or any(start in wanted for start, _ in points[date]):
            rows.append({"date": date, **cells})
    return rows


def type4(periods: Periods, start: str, end: str, skip: str | None = None) -> list[Row]:
    """Initial release: observations newer than all that was archived when they appeared."""
    appeared: dict[str, list[str]] = {}
    for date, spans in periods.items():
        appeared.setdefault(spans[0][0], []).append(date)
    rows: list[Row] = []
    newest = None
    for day in sorted(appeared):
        if newest is not None and start <= day <= end and day != skip:
            for date in appeared[day]:
                _, last, value = periods[date][0]
                if date > newest:
                    row = {"realtime_start": day, "realtime_end": min(last, end)}
                    rows.append({**row, "date": date, "value": value})
        newest = max([*appeared[day], newest or ""])
    return sorted(rows, key=lambda row: row["date"])


# ------------------------------------------------------------------------------------ endpoints


@dataclass(frozen=True)
class Rules:
    """What differs between years, what nobody recorded, and limits that tests make small."""

    max_vintages: int = 2000
    max_rows: int = 100_000
    max_dates: int = 10_000
    cap_wording: str = "new"
    """"new": "... allowed for this file type (2000)" (2026), "old": "... allowed (2000)"."""
    key_wording: str = "live"
    """"live": a missing key "is not set", "docs": it "has not been set"."""
    stale_defaults: bool = True
    """Bodies asked for without real-time parameters carry the day of the last update as today."""
    type3_first_vintage: bool = True
    """Not recorded: whether type 3 has the cells of the first vintage of an archive."""
    type4_first_in_window: bool = True
    """Not recorded: whether type 4 has what the first vintage of a window introduced."""
    vintagedates_unknown: str = NOT_IN_ALFRED
    """Not recorded: what fred/series/vintagedates says of an unknown series."""


@dataclass(frozen=True)
class Window:
    """The real-time window of a request; `days` if it named vintage dates."""

    start: str
    end: str
    asked: bool
    days: tuple[str, ...] = ()


class FakeApi:
    """The endpoints over a set of archives; `answer` is a function of its arguments."""

    def __init__(
        self,
        series: dict[str, FakeSeries],
        keys: Iterable[str],
        release_dates: Mapping[int, Iterable[str]],
        rules: Rules,
    ) -> None:
        self.series, self.keys, self.rules = series, set(keys), rules
        self.release_dates = {id: sorted(dates) for id, dates in release_dates.items()}
        self.endpoints: dict[str, Callable[[Params, str], Body]] = {
            "series": self._series,
            "series/observations": self._observations,
            "series/vintagedates": self._vintagedates,
            "series/release": self._release,
            "series/tags": self._tags,
            "series/search": self._search,
            "release/dates": self._release_dates,
        }

    def answer(self, path: str, params: Params, today: str) -> Body:
        """The body of a request; unknown parameters are ignored, as FRED does.

        Raises
        ------
        FredError
            If the answer is an error.
        """
        if path not in self.endpoints:
            raise FredError(404, "Not Found")
        key = params.get("api_key", "")
        if not key:
            live = self.rules.key_wording == "live"
            raise error(KEY_NOT_SET if live else KEY_NOT_SET_IN_DOCS)
        if not re.fullmatch("[0-9a-z]{32}", key):
            raise error(KEY_MALFORMED)
        if key not in self.keys:
            raise error(KEY_UNREGISTERED)
        if params.get("file_type", "xml") not in ("xml", "json"):
            raise FredError(501, "The fake serves xml and json only.")
        return self.endpoints[path](params, today)

    def _find(
        self, params: Params, window: Window, today: str, unknown: str | None = None
    ) -> FakeSeries:
        id = _required(params, "series_id")
        if not re.fullmatch("[A-Za-z0-9]{1,25}", id):
            raise error(BAD_SERIES_ID)
        series = self.series.get(id.upper())
        current = not window.asked or window.start == window.end == today
        archive = series.vintages(today) if series else []
        if series is None or not archive:
            raise error(unknown or (NO_SERIES if current else NOT_IN_ALFRED))
        if not current and (not series.archived or window.end < archive[0]):
            raise error(NOT_IN_ALFRED)
        return series

    def _settle(self, series: FakeSeries, window: Window, today: str) -> Window:
        """The window, moved to the day of the last update if that is where the cache stands."""
        if window.asked or not self.rules.stale_defaults:
            return window
        last = series.vintages(today)[-1]
        return Window(last, last, False)

    def _observations(self, params: Params, today: str) -> Body:
        kind = _whole(params, "output_type", 1, 1, 4)
        limit, offset = self._page(params, self.rules.max_rows)
        sort = _choice(params, "sort_order", ("asc", "desc"))
        for name, only in (("units", "lin"), ("frequency", None), ("aggregation_method", "avg")):
            if params.get(name, only) != only:
                raise FredError(501, f"The fake does not transform: {name}.")
        first = _day(params, "observation_start") or "1600-01-01"
        last = _day(params, "observation_end") or MAX_DAY
        window = _window(params, today, vintage_dates=True)
        series = self._find(params, window, today)
        if series.restricted:
            raise FredError(404, RESTRICTED)
        if kind == 1:
            window = self._settle(series, window, today)
        found = self._rows(kind, series, window, today)
        rows = [row for row in found if first <= row["date"] <= last]
        if sort == "desc":  # guess: the periods of one observation stay in their order
            rows.sort(key=lambda row: row["date"], reverse=True)
        return {
            "realtime_start": window.start,
            "realtime_end": window.end,
            "observation_start": first,
            "observation_end": last,
            "units": "lin",
            "output_type": kind,
            "file_type": params.get("file_type", "xml"),
            "order_by": "observation_date",
            "sort_order": sort,
            "count": len(rows),
            "offset": offset,
            "limit": limit,
            "observations": rows[offset : offset + limit],
        }

    def _rows(self, kind: int, series: FakeSeries, window: Window, today: str) -> list[Row]:
        periods, start, end = series.periods(today), window.start, window.end
        archive = series.vintages(today)
        inside = [day for day in archive if start <= day <= end]
        # Types 1 and 4 take listed vintage dates as the window they span.
        number = len(window.days if kind in (2, 3) and window.days else inside)
        cap = self.rules.max_vintages
        if number > cap:
            allowed = " for this file type" if self.rules.cap_wording == "new" else ""
            raise error(
                f"There are {number} vintage dates in the specified real-time period: "
                f"{start} to {end}.  This exceeds the maximum number of vintage dates "
                f"allowed{allowed} ({cap})."
            )
        if kind == 1:
            return type1(periods, start, end)
        if not inside and not (kind == 2 and window.days):
            text = "No vintage dates exist for the specified real-time period"
            raise error(f"{text}: {start} to {end}.")
        if kind == 2:  # the window's edges are columns, vintages or not
            days = window.days or tuple(sorted({start, end, *inside}))
            return type2(periods, series.id, list(days))
        if kind == 3:
            wanted = set(window.days or inside)
            if not self.rules.type3_first_vintage:
                wanted.discard(archive[0])
            return type3(periods, series.id, wanted, series.points)
        skip = None if self.rules.type4_first_in_window else inside[0]
        return type4(periods, start, end, skip)

    def _vintagedates(self, params: Params, today: str) -> Body:
        limit, offset = self._page(params, self.rules.max_dates)
        sort = _choice(params, "sort_order", ("asc", "desc"))
        window = _window(params, today, full=True)
        series = self._find(params, window, today, self.rules.vintagedates_unknown)
        days = [day for day in series.vintages(today) if window.start <= day <= window.end]
        listed = {"vintage_dates": sorted(days, reverse=sort == "desc")}
        return _listing(window, "vintage_date", sort, listed, limit, offset)

    def _series(self, params: Params, today: str) -> Body:
        window = _window(params, today)
        series = self._find(params, window, today)
        window = self._settle(series, window, today)
        entries = describe(series, window, today)
        return {"realtime_start": window.start, "realtime_end": window.end, "seriess": entries}

    def _release(self, params: Params, today: str) -> Body:
        window = _window(params, today)
        id, name = self._find(params, window, today).release
        span = {"realtime_start": window.start, "realtime_end": window.end}
        return {**span, "releases": [{"id": id, **span, "name": name, "press_release": True}]}

    def _tags(self, params: Params, today: str) -> Body:
        window = _window(params, today)
        tags = self._find(params, window, today).tags
        ordered = sorted(tags, key=lambda tag: tag["series_count"])
        return _listing(window, "series_count", "asc", {"tags": ordered}, 1000, 0)

    def _search(self, params: Params, today: str) -> Body:
        limit, offset = self._page(params, 1000)
        window = _window(params, today)
        kind = _choice(params, "search_type", ("full_text", "series_id"))
        words = _required(params, "search_text").lower().replace("+", " ").split()
        by_id = kind == "series_id"
        order = params.get("order_by", "series_id" if by_id else "search_rank")
        ranked = order in ("search_rank", "popularity")
        sort = _choice(params, "sort_order", ("desc", "asc") if ranked else ("asc", "desc"))
        entries = []
        for series in self.series.values():
            if not series.vintages(today) or not _has_tags(series, params):
                continue
            entry = describe(series, Window(today, today, False), today)[-1]
            text = f"{entry['id']} {entry['title']}".lower()
            patterns = [fnmatchcase(entry["id"].lower(), word) for word in words]
            if not (any(patterns) if by_id else all(word in text for word in words)):
                continue
            name = params.get("filter_variable")
            if name is None or entry.get(name) == params.get("filter_value"):
                entries.append({**entry, "group_popularity": entry["popularity"]})
        key = {"series_id": "id", "search_rank": "popularity"}.get(order, order)
        entries.sort(key=lambda entry: entry[key], reverse=sort == "desc")
        return _listing(window, order, sort, {"seriess": entries}, limit, offset)

    def _release_dates(self, params: Params, today: str) -> Body:
        limit, offset = self._page(params, self.rules.max_dates)
        sort = _choice(params, "sort_order", ("asc", "desc"))
        window = _window(params, today, full=True)
        text = _required(params, "release_id")
        members = [s for s in self.series.values() if str(s.release[0]) == text]
        dates = {day for series in members for day in series.vintages(today)}
        if text.isdecimal() and int(text) in self.release_dates:
            dates = set(self.release_dates[int(text)])
        elif not members:
            raise error("The release does not exist.")  # guess
        planned = params.get("include_release_dates_with_no_data") == "true"
        shown = [d for d in dates if window.start <= d <= window.end and (planned or d <= today)]
        rows = [{"release_id": int(text), "date": d} for d in sorted(shown, reverse=sort == "desc")]
        return _listing(window, "release_date", sort, {"release_dates": rows}, limit, offset)

    @staticmethod
    def _page(params: Params, most: int) -> tuple[int, int]:
        return _whole(params, "limit", most, 1, most), _whole(params, "offset", 0, 0, 10**9)


def describe(series: FakeSeries, window: Window, today: str) -> list[dict[str, Any]]:
    """The entries of fred/series: one for each period of metadata that meets the window."""
    periods = series.periods(today)
    archive = series.vintages(today)
    given = [{"realtime_start": archive[0], **entry} for entry in series.metadata or [{}]]
    given = sorted(given, key=lambda entry: entry["realtime_start"])
    ends = [day_before(entry["realtime_start"]) for entry in given[1:]] + [MAX_DAY]
    entries = []
    for entry, end in zip(given, ends, strict=True):
        if entry["realtime_start"] > window.end or end < window.start:
            continue
        until = min(end, window.end)
        seen = [row["date"] for row in type1(periods, until, until) if row["value"] != MISSING]
        frequency = entry.get("frequency", "Monthly")
        units = entry.get("units", "Index")
        adjusted = entry.get("seasonal_adjustment", "Not Seasonally Adjusted")
        defaults = {
            "id": series.id,
            "title": f"Title of {series.id}",
            "observation_start": min(seen, default=MIN_DAY),
            "observation_end": max(seen, default=MIN_DAY),
            "frequency": frequency,
            "frequency_short": frequency[0],
            "units": units,
            "units_short": units,
            "seasonal_adjustment": adjusted,
            "seasonal_adjustment_short": "".join(word[0] for word in adjusted.split()),
            "last_updated": central(archive[-1]),
            "popularity": 50,
        }
        span = {"realtime_start": max(entry["realtime_start"], window.start), "realtime_end": until}
        entries.append({**defaults, **entry, **span})
    return entries


def central(day: str) -> str:
    """07:54:01 of a day in St. Louis, with FRED's hours-only offset.

    >>> central("2024-10-30"), central("2014-01-17")
    ('2024-10-30 07:54:01-05', '2014-01-17 07:54:01-06')
    """
    zone = ZoneInfo("America/Chicago")
    return dt.datetime.fromisoformat(f"{day} 07:54:01").replace(tzinfo=zone).isoformat(" ")[:22]


def _listing(window: Window, order: str, sort: str, listed: Body, limit: int, offset: int) -> Body:
    [(name, items)] = listed.items()
    return {
        "realtime_start": window.start,
        "realtime_end": window.end,
        "order_by": order,
        "sort_order": sort,
        "count": len(items),
        "offset": offset,
        "limit": limit,
        name: items[offset : offset + limit],
    }


def _has_tags(series: FakeSeries, params: Params) -> bool:
    names = {tag["name"] for tag in series.tags}
    wanted = set(filter(None, params.get("tag_names", "").split(";")))
    unwanted = set(filter(None, params.get("exclude_tag_names", "").split(";")))
    return wanted <= names and not unwanted & names


def _required(params: Params, name: str) -> str:
    if not params.get(name):
        raise error(f"Variable {name} is not set.")  # guess, after the text about api_key
    return params[name]


def _choice(params: Params, name: str, choices: tuple[str, ...]) -> str:
    """One of the choices; the first is the default."""
    value = params.get(name, choices[0])
    if value not in choices:
        raise error(f"Variable {name} is not one of the values: {', '.join(choices)}.")  # guess
    return value


def _whole(params: Params, name: str, default: int, least: int, most: int) -> int:
    text = params.get(name, str(default))
    if not re.fullmatch("[0-9]{1,10}", text) or not least <= int(text) <= most:
        raise error(f"Variable {name} is not between {least} and {most}.")
    return int(text)


def _day(params: Params, name: str, value: str | None = None) -> str | None:
    value = params.get(name) if value is None else value
    if value is None:
        return None
    try:
        good = bool(re.fullmatch(r"\d{4}-\d\d-\d\d", value)) and bool(dt.date.fromisoformat(value))
    except ValueError:
        good = False
    if not good:
        raise error(f"Variable {name} is not a YYYY-MM-DD formatted date (e.g. 2000-02-24).")
    return value


def _window(
    params: Params, today: str, *, full: bool = False, vintage_dates: bool = False
) -> Window:
    """The window asked for; `full`: the default is everything and not today."""
    if vintage_dates and params.get("vintage_dates"):  # replaces the real-time parameters
        named = [day.strip() for day in params["vintage_dates"].split(",")]
        days = tuple(sorted({str(_day(params, "vintage_dates", day)) for day in named}))
        if days[-1] > today:  # guess
            raise error(f"Variable vintage_dates can not be after today's date ({today}).")
        return Window(days[0], days[-1], True, days)
    start, end = _day(params, "realtime_start"), _day(params, "realtime_end")
    asked = full or not start is end is None
    if full or (start, end) in ((MIN_DAY, None), (None, MAX_DAY)):
        start, end = start or MIN_DAY, end or MAX_DAY
    start, end = start or today, end or today
    if start > today:  # the end of the text is not known
        raise error(f"Variable realtime_start can not be after today's date ({today}).")
    if end > today and end != MAX_DAY:
        raise error(
            f"Variable realtime_end can not be after today's date ({today}) unless it's equal to "
            f"the real-time max date {MAX_DAY}."
        )
    if start > end:  # guess
        raise error("Variable realtime_start can not be after variable realtime_end.")
    return Window(start, end, asked)


# --------------------------------------------------------------------------------------- bodies

XML_CHILD = {
    "observations": "observation",
    "seriess": "series",
    "vintage_dates": "vintage_date",
    "releases": "release",
    "release_dates": "release_date",
    "tags": "tag",
}


def render(body: Body, file_type: str) -> bytes:
    """A body as FRED writes it: XML unless JSON was asked for."""
    if file_type == "json":
        return json.dumps(body, separators=(",", ":")).replace("/", "\\/").encode()
    if "error_code" in body:
        values = {"code": body["error_code"], "message": body["error_message"]}
        return f"<error{_attributes(values)}/>".encode()
    [name] = set(body) & set(XML_CHILD)
    lines = [f"<{name}{_attributes({k: v for k, v in body.items() if k != name})}>"]
    for item in body[name]:
        child = XML_CHILD[name]
        if isinstance(item, str):
            lines.append(f"<{child}>{item}</{child}>")
        elif name == "release_dates":
            lines.append(f'<{child} release_id="{item["release_id"]}">{item["date"]}</{child}>')
        else:
            lines.append(f"<{child}{_attributes(item)}/>")
    return "\n".join([*lines, f"</{name}>"]).encode()


def _attributes(values: Mapping[str, Any]) -> str:
    texts = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in values.items()}
    return "".join(f" {name}={quoteattr(text)}" for name, text in texts.items())


# ------------------------------------------------------------------------------- made-up archives

FREQUENCIES = {"d": "Daily", "w": "Weekly, Ending Saturday", "m": "Monthly", "q": "Quarterly"}


def growing_series(
    id: str,
    start: str,
    periods: int,
    frequency: str = "m",
    revisions: int = 2,
    seed: int = 0,
    *,
    history: int = 0,
    benchmark_every: int = 0,
    decimals: int = 1,
    **more: Any,
) -> FakeSeries:
    """An archive that grew one observation at a time.

    Each observation is published after its period ended and revised `revisions` times: with the
    next releases, or (quarterly) 30 days apart. Daily series have business days and "." on some
    holidays. Without quarterly revisions there are `periods - history` vintages; a daily series
    of 5,073 is `growing_series("DGS", "2005-01-03", 5073, "d", revisions=0)`.

    Parameters
    ----------
    start
        First observation date: a Saturday if weekly, the first of a month or quarter.
    history
        So many observations enter with the first vintage, long after their publication.
    benchmark_every
        Every so many releases rewrite the last 36 observations and withdraw the oldest one,
        which the next release brings back.
    """
    draw = random.Random(f"{id}/{seed}")
    dates = _dates(start, periods, frequency)
    days = [_published(date, frequency, draw) for date in dates]
    points: Points = {date.isoformat(): [] for date in dates}
    levels: list[float] = []

    def put(at: int, day: dt.date, withdrawn: bool = False) -> None:
        date = dates[at]
        holiday = frequency == "d" and (date.month, date.day) in ((1, 1), (7, 4), (12, 25))
        text = MISSING if holiday or withdrawn else f"{levels[at]:.{decimals}f}"
        if [value for _, value in points[date.isoformat()]][-1:] != [text]:
            points[date.isoformat()].append((day.isoformat(), text))

    for at, day in enumerate(days):
        levels.append((levels[-1] if levels else 100.0) + draw.gauss(0.3, 1.0))
        if at < history:
            continue
        revised = range(max(0, at - revisions), at) if frequency != "q" else range(0)
        benchmark = benchmark_every and at > history and (at - history) % benchmark_every == 0
        if benchmark:
            revised = range(max(0, at - 36), at)
        for old in revised:
            levels[old] = levels[old] * 1.01 if benchmark else levels[old] + draw.gauss(0, 0.3)
        touched = {0, *revised, at} if at > history else range(at + 1)
        for index in sorted(touched):
            put(index, day, withdrawn=bool(benchmark) and index == 0)
        for k in range(1, revisions + 1) if frequency == "q" else ():
            levels[at] += draw.gauss(0, 0.3)
            put(at, day + dt.timedelta(days=30 * k))
    name = FREQUENCIES[frequency]
    metadata = more.pop("metadata", [{"frequency": name, "frequency_short": frequency.upper()}])
    return FakeSeries(id, points, metadata, **more)


def _dates(start: str, periods: int, frequency: str) -> list[dt.date]:
    day = dt.date.fromisoformat(start)
    if frequency in "mq":
        step = 1 if frequency == "m" else 3
        months = [12 * day.year + day.month - 1 + step * i for i in range(periods)]
        return [dt.date(month // 12, month % 12 + 1, 1) for month in months]
    step = 7 if frequency == "w" else 1
    dates: list[dt.date] = []
    while len(dates) < periods:
        if frequency == "w" or day.weekday() < 5:
            dates.append(day)
        day += dt.timedelta(days=step)
    return dates


def _published(date: dt.date, frequency: str, draw: random.Random) -> dt.date:
    """A Thursday for weeks, the next business day for days, else days after the period's end."""
    if frequency == "w":
        return date + dt.timedelta(days=5)
    if frequency == "d":
        return date + dt.timedelta(days=3 if date.weekday() == 4 else 1)
    months = 12 * date.year + date.month - 1 + (1 if frequency == "m" else 3)
    end = dt.date(months // 12, months % 12 + 1, 1)
    return end + dt.timedelta(days=draw.randrange(3, 15) if frequency == "m" else 28)
