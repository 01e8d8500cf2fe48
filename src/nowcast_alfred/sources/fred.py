"""The FRED API as far as vintages need it: metadata, vintage dates, change points, calendars.

FRED answers a misspelt parameter with today's data, clips real-time dates to the window asked for,
and says "400" for five different things. So: parameters are written here and nowhere else; change
points are read with output type 3, whose dates are never clipped and which compares each vintage
with its true predecessor, so that chunks of the vintage list join without a seam; the window of
every answer is held against the window asked for; counts are held against rows; and refusals are
told apart by their text, with one probe where the text is the same for an unknown id and for a
series without an archive.

Source: FRED API documentation (fred.stlouisfed.org/docs/api/fred).
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..errors import (
    InputError,
    KeyRefused,
    SeriesNotArchived,
    SeriesUnknown,
    SourceError,
    SourceUnavailable,
    TooManyVintages,
)
from .http import Counts, Fetcher, shared_limiter

BASE_URL = "https://api.stlouisfed.org/fred"
KEY_VARIABLE = "FRED_API_KEY"
URL_VARIABLE = "FRED_BASE_URL"
RATE = 2.0
"""Requests a second that FRED allows (enforced since 2026)."""

MIN_DAY, MAX_DAY = "1776-07-04", "9999-12-31"
MAX_VINTAGES = 2000
"""Vintage dates that one request may cover."""
MAX_ROWS = 100_000
MAX_DATES = 10_000
MISSING = "."

_KEY = re.compile(r"[a-z0-9]{32}")
_CELL = re.compile(r".*_(\d{4})(\d\d)(\d\d)")


class Change(NamedTuple):
    """A change point: the value of a period from a vintage date on; None: withdrawn or missing."""

    date: str
    vintage: str
    value: float | None


class Fred:
    """A client of the FRED API, safe to share between threads.

    Parameters
    ----------
    key
        The API key; None reads `FRED_API_KEY`. Surrounding white space is dropped.
    base_url
        None reads `FRED_BASE_URL`, else FRED itself.
    rate
        Requests a second, over all threads and all clients of that server in this process.
    options
        As for `Fetcher`: `tries`, `timeout`, `pause`, `backoff`.

    Raises
    ------
    KeyRefused
        If there is no key, or it cannot be one.
    InputError
        If the URL or the rate is none.
    """

    def __init__(
        self,
        key: str | None = None,
        base_url: str | None = None,
        rate: float = RATE,
        **options: Any,
    ) -> None:
        key = (key if key is not None else os.environ.get(KEY_VARIABLE, "")).strip()
        if not key:
            raise KeyRefused(
                f"no FRED API key: set {KEY_VARIABLE} (a key is free: "
                "https://fred.stlouisfed.org/docs/api/api_key.html)"
            )
        if not _KEY.fullmatch(key):
            raise KeyRefused(
                f"the FRED API key in {KEY_VARIABLE} is not 32 lower-case letters and digits"
            )
        url = base_url or os.environ.get(URL_VARIABLE) or BASE_URL
        limiter = shared_limiter(url, rate)
        self._fetcher = Fetcher(url, limiter, secret={"api_key": key}, **options)
        self._answered = False

    @property
    def counts(self) -> Counts:
        """Requests and retries so far."""
        return self._fetcher.counts

    def metadata(self, series_id: str) -> list[dict[str, Any]]:
        """Metadata of a series, one entry for each real-time period, oldest first."""
        body = self._get("series", series_id, realtime_start=MIN_DAY, realtime_end=MAX_DAY)
        entries: list[dict[str, Any]] = _listed(body, "seriess", series_id)
        if not entries:
            raise SeriesUnknown(f"{series_id}: FRED gave no metadata")
        return sorted(entries, key=lambda entry: _text(entry, "realtime_start", series_id))

    def release(self, series_id: str) -> dict[str, Any]:
        """The release a series belongs to: `id`, `name`."""
        entries = _listed(self._get("series/release", series_id), "releases", series_id)
        return entries[0] if entries else {}

    def tags(self, series_id: str) -> list[str]:
        """The names of a series' tags."""
        entries = _listed(self._get("series/tags", series_id), "tags", series_id)
        return [str(entry.get("name", "")) for entry in entries]

    def vintage_dates(self, series_id: str) -> list[str]:
        """Every vintage date of a series, ascending.

        Raises
        ------
        SeriesUnknown, SeriesNotArchived
            If there is no such series, or ALFRED keeps no vintages of it.
        """
        pages = self._pages(
            "series/vintagedates",
            series_id,
            "vintage_dates",
            MAX_DATES,
            realtime_start=MIN_DAY,
            realtime_end=MAX_DAY,
        )
        dates = sorted(pages)
        if not dates:
            raise SourceUnavailable(f"{series_id}: FRED's list of its vintage dates is empty")
        return dates

    def changes(self, series_id: str, first: str, last: str) -> list[Change]:
        """Change points of the vintages from `first` to `last`, at most 2,000 of them."""
        rows = self._pages(
            "series/observations",
            series_id,
            "observations",
            MAX_ROWS,
            realtime_start=first,
            realtime_end=last,
            output_type="3",
        )
        return [change for row in rows for change in _cells(row, series_id)]

    def snapshot(self, series_id: str, day: str) -> dict[str, float | None]:
        """Values as they stood on one past day, by observation date."""
        rows = self._pages(
            "series/observations",
            series_id,
            "observations",
            MAX_ROWS,
            realtime_start=day,
            realtime_end=day,
            output_type="1",
        )
        return {_text(row, "date", series_id): _value(row.get("value"), series_id) for row in rows}

    def release_dates(self, release_id: int) -> list[str]:
        """The days on which a release came out. Not each of them is a first release: seasonal
        factors and corrections are releases too."""
        pages = self._pages(
            "release/dates",
            None,
            "release_dates",
            MAX_DATES,
            release_id=str(release_id),
            realtime_start=MIN_DAY,
            realtime_end=MAX_DAY,
        )
        return [_text(entry, "date", f"release {release_id}") for entry in pages]

    def search(self, text: str, limit: int = 20) -> list[dict[str, Any]]:
        """Series that match some words, best first."""
        body = self._get("series/search", None, search_text=text, limit=str(limit))
        return _listed(body, "seriess", text)

    def _pages(
        self, path: str, series_id: str | None, key: str, size: int, **params: str
    ) -> Iterator[Any]:
        """All entries of a paged answer; their number is held against `count`."""
        offset, total = 0, None
        while offset != total:
            body = self._get(path, series_id, **params, limit=str(size), offset=str(offset))
            kind = str if key == "vintage_dates" else dict
            entries, total = _listed(body, key, series_id or path, kind), body.get("count")
            yield from entries
            offset += len(entries)
            if offset != total and (not entries or type(total) is not int or offset > total):
                raise SourceUnavailable(
                    f"{series_id or path}: {path} says {total} rows and gave {offset}; nothing of "
                    "it is kept"
                )

    def _get(self, path: str, series_id: str | None, **params: str) -> dict[str, Any]:
        """One answer, with its real-time window held against the request's."""
        if series_id is not None:
            params = {"series_id": series_id, **params}
        body = self._ask(path, series_id, params)
        for name in ("realtime_start", "realtime_end"):
            asked = params.get(name)
            if asked is not None and body.get(name) != asked:
                raise SourceUnavailable(
                    f"{series_id or path}: {path} was asked for {name}={asked} and answered for "
                    f"{body.get(name)}; nothing of it is kept"
                )
        return body

    def _ask(self, path: str, series_id: str | None, params: dict[str, str]) -> dict[str, Any]:
        try:
            return self._send(path, series_id or path, params)
        except SeriesNotArchived:
            # The text is the same for an unknown id; asking without a window tells them apart.
            if series_id is not None and "realtime_start" in params:
                self._send("series", series_id, {"series_id": series_id})
            raise

    def _send(self, path: str, what: str, params: dict[str, str]) -> dict[str, Any]:
        sent, refuse = {**params, "file_type": "json"}, _refusal(what)
        try:
            body = self._fetcher.json(path, sent, refuse)
        except KeyRefused:
            if not self._answered:
                raise
            # A key that worked before is refused now and then under load: once more, then believe.
            time.sleep(self._fetcher.backoff)
            body = self._fetcher.json(path, sent, refuse)
        self._answered = True
        return body


def _refusal(what: str) -> Callable[[int, str], Exception]:
    """Which error a refusal is, from its text: the status is 400 for most of them."""

    def refuse(status: int, text: str) -> Exception:
        lower = text.lower()
        if "api_key" in lower:
            return KeyRefused(f"FRED refused the API key in {KEY_VARIABLE}: {text}")
        if "does not exist in alfred" in lower or "no vintage dates exist" in lower:
            return SeriesNotArchived(f"{what}: ALFRED has no vintages of it for that time ({text})")
        if "maximum number of vintage dates" in lower:
            return TooManyVintages(f"{what}: {text}")
        if "does not exist" in lower or "invalid value for variable series_id" in lower:
            return SeriesUnknown(f"{what}: {text}")
        if "not available via the api" in lower:
            return SeriesNotArchived(f"{what}: {text}")
        if "can not be after today's date" in lower:
            return SourceUnavailable(f"{what}: FRED's clock is behind its own dates ({text})")
        if "formatted date" in lower:
            return InputError(f"{what}: {text}")
        return SourceError(f"{what}: FRED answered {status}: {text}")

    return refuse


def _listed(body: dict[str, Any], key: str, what: str, kind: type = dict) -> list[Any]:
    entries = body.get(key)
    if not isinstance(entries, list) or not all(isinstance(entry, kind) for entry in entries):
        raise SourceUnavailable(f"{what}: the answer has no proper list {key!r}")
    return entries


def _cells(row: dict[str, Any], series_id: str) -> Iterator[Change]:
    """The cells of an output-type-3 row: `{"date": ..., "GDP_20221027": "25663.289"}`."""
    date = _text(row, "date", series_id)
    for name, text in row.items():
        if name != "date":
            match = _CELL.fullmatch(name)
            if match is None:
                raise SourceUnavailable(f"{series_id}: unexpected column {name!r} in vintages")
            yield Change(date, "-".join(match.groups()), _value(text, series_id))


def _text(row: dict[str, Any], name: str, what: str) -> str:
    text = row.get(name)
    if not isinstance(text, str):
        raise SourceUnavailable(f"{what}: the answer has a row without {name!r}")
    return text


def _value(text: Any, series_id: str) -> float | None:
    if text == MISSING:
        return None
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise SourceUnavailable(f"{series_id}: {str(text)[:40]!r} is not a value")
    return value
