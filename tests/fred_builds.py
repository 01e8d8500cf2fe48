"""What the tests of the FRED client and of builds share: small archives, clients, clocks."""

from __future__ import annotations

import datetime as dt
import math
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fake_fred import KEY, FakeFred, FakeSeries
from nowcast_alfred import cli, cli_output
from nowcast_alfred.catalog import Catalog, CatalogEntry
from nowcast_alfred.sources import fred_build, http
from nowcast_alfred.sources.fred import KEY_VARIABLE, URL_VARIABLE, Fred
from nowcast_alfred.store import VintageStore, open_store

PERMISSION = "St. Louis Fed, letter of 2026-05-04: storage and training"
FAST = 100_000.0
Point = tuple[str, str, float | None]
"""Observation date, vintage, value."""


def client(fake: FakeFred, **options: Any) -> Fred:
    """A client that loses no time: no pauses to speak of, and as fast as it can."""
    settings = {"rate": FAST, "pause": 0.01, "backoff": 0.01, "tries": 3, "timeout": 20.0}
    return Fred(KEY, fake.base_url, **{**settings, **options})


def catalog_of(series: Iterable[str], **changes: Any) -> Catalog:
    """A catalog that says as little as possible of some series."""
    entries = {id: CatalogEntry(id, "chg", 45, **changes) for id in series}
    return Catalog("test", entries)


def build(
    root: Path, fake: FakeFred, *ids: str, options: Mapping[str, Any] | None = None, **more: Any
) -> fred_build.Report:
    """Build series (all of the fake's if none are named) into a folder."""
    catalog = more.pop("catalog", None) or catalog_of(ids or fake.series)
    return fred_build.build(root, catalog, client(fake, **options or {}), PERMISSION, **more)


def built(root: Path, fake: FakeFred, *ids: str, **more: Any) -> VintageStore:
    """The store that a build without any failure makes."""
    report = build(root, fake, *ids, **more)
    assert report.failed == {}
    return open_store(root)


def archive(series: FakeSeries, today: str) -> set[Point]:
    """Every change point that a fake series has on a day."""
    return {
        (date, start, None if text == "." else float(text))
        for date, spans in series.periods(today).items()
        for start, _, text in spans
    }


def points(store: VintageStore, id: str) -> set[Point]:
    """Every change point of a series in a store."""
    columns = store.changes(id).columns
    rows = zip(
        columns.period.tolist(), columns.vintage.tolist(), columns.value.tolist(), strict=True
    )
    return {(iso(period), iso(vintage), None if v != v else v) for period, vintage, v in rows}


def iso(days: int) -> str:
    return (dt.date(1970, 1, 1) + dt.timedelta(days=days)).isoformat()


def causes(error: BaseException) -> Iterator[BaseException]:
    """An exception and all that stand behind it."""
    seen: set[int] = set()
    rest: list[BaseException | None] = [error]
    while rest:
        one = rest.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            rest += [one.__cause__, one.__context__]
            yield one


class Said(NamedTuple):
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str


class Command:
    """Runs `nowcast-alfred` in this process, against a fake."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._patch, self._said = monkeypatch, capsys
        monkeypatch.setattr(cli_output.out, "width", 400)
        monkeypatch.setenv(KEY_VARIABLE, KEY)

    def __call__(self, fake: FakeFred, *line: object) -> Said:
        self._patch.setenv(URL_VARIABLE, fake.base_url)
        self._patch.setattr(sys, "argv", ["nowcast-alfred", *map(str, line)])
        self._said.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Said(int(ended.value.code or 0), *self._said.readouterr())


class Clock:
    """A clock that stands still until someone sleeps; takes the place of a `time` module."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.sleeps: list[float] = []
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert math.isfinite(seconds)
        with self._lock:
            self.now += max(0.0, seconds)
            self.sleeps.append(seconds)


def use_clock(patch: Any) -> Clock:
    """Let the client's limiter and retries live by a clock of their own."""
    clock = Clock()
    patch.setattr(http, "time", clock)
    patch.setattr("tenacity.nap.time", clock)
    return clock
