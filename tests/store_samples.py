"""Small stores for tests, every answer a store gives, and a disk that fails on demand.

Plain functions: the test modules that use them define the fixtures.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import hashlib
import importlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nowcast_alfred.errors import QueryError
from nowcast_alfred.periods import UNITS, to_days
from nowcast_alfred.store import AsOfView, SeriesInput, SeriesMeta, VintageStore, publish
from nowcast_alfred.store.schema import VINTAGE_SCHEMA

TESTS = Path(__file__).resolve().parent
LEFTOVER = ".tmp-*"

Point = tuple[Any, ...]
"""(period, vintage, value) or (period, vintage, value, vintage_lower); dates as ISO texts."""

PAY = [
    ("2019-12-01", "2020-01-10", 100.0),
    ("2020-01-01", "2020-02-07", 103.0),
    ("2019-12-01", "2020-02-07", 101.0),
    ("2020-02-01", "2020-03-06", None),  # "." on the first day
    ("2020-02-01", "2020-03-13", 104.5),
    ("2020-01-01", "2020-03-13", None),  # withdrawn
    ("2020-01-01", "2020-04-03", 102.5),
]
PAY_LATER = [
    ("2020-03-01", "2020-05-08", 90.0, "2020-05-01"),
    ("2019-12-01", "2020-05-08", 50.5),
    ("2020-01-01", "2020-05-08", 51.25),
    ("2020-02-01", "2020-05-08", 52.25),
]
GDP = [
    ("2019-07-01", "2019-10-30", 1.9),
    ("2019-10-01", "2020-01-30", 2.1),
    ("2019-10-01", "2020-02-27", 2.1),  # no change
    ("2019-10-01", "2020-03-26", 2.2),
    ("2020-01-01", "2020-04-29", -4.8),
]
LATE = [("2020-02-01", "2020-03-20", 7.0), ("2020-03-01", "2020-04-20", 8.0)]
DAYS = ("2019-10-29", "2019-10-30", "2020-02-06", "2020-02-07", "2020-03-12", "2020-04-03")
LATER_DAYS = (*DAYS, "2020-05-08", "2024-12-31")


def point_cache_at(folder: Path) -> pytest.MonkeyPatch:
    """Send the caches of this process to `folder`; undo the result when the test is over."""
    patch = pytest.MonkeyPatch()
    patch.setenv("NOWCAST_ALFRED_CACHE", str(folder))
    return patch


def meta(id: str, **changes: Any) -> SeriesMeta:
    """Metadata of a monthly series, but for `changes`."""
    fields = {
        "title": f"Title of {id}",
        "frequency": "m",
        "units": "Units",
        "seasonal_adjustment": "Not adjusted",
        "release": "Release",
        "transform": "chg",
        "max_lag_days": 45,
    }
    return SeriesMeta(id=id, **{**fields, **changes})


def table(points: Iterable[Point]) -> pa.Table:
    """Vintage rows as they come, not normalised."""
    padded = [(*point, None)[:4] for point in points]

    def days(at: int) -> list[dt.date | None]:
        return [None if row[at] is None else dt.date.fromisoformat(row[at]) for row in padded]

    columns = [days(0), days(1), [row[2] for row in padded], days(3)]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, VINTAGE_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, names=VINTAGE_SCHEMA.names)


def series(id: str, points: Iterable[Point], *later: SeriesMeta, **changes: Any) -> SeriesInput:
    """One series as a source hands it over; `later` are metadata rows with a `valid_from`."""
    return SeriesInput([meta(id, **changes), *later], table(points))


def first_inputs() -> list[SeriesInput]:
    """The three series of the sample store."""
    return [series("PAY", PAY), series("GDP", GDP, frequency="q"), series("LATE", LATE)]


def later_inputs() -> list[SeriesInput]:
    """What an update brings: later vintages in a new base year, and a new series."""
    rebased = meta("PAY", units="Units of 2020", valid_from="2020-05-08")
    return [series("PAY", PAY_LATER, rebased), series("NEW", LATE)]


def large_series(id: str, seed: int, periods: int = 500, vintages: int = 100) -> SeriesInput:
    """A monthly series of `periods` x `vintages` change points with random values."""
    period = np.repeat(np.arange(periods), vintages)
    vintage = period * 31 + 62 + np.tile(np.arange(vintages), periods)
    value = np.random.default_rng(seed).normal(size=periods * vintages)
    first = (np.datetime64("1970-01") + period.astype("timedelta64[M]")).astype("datetime64[D]")
    rows = pa.table(
        {
            "period": pa.array(first),
            "vintage": pa.array(vintage.astype(np.int32)).cast(pa.date32()),
            "value": pa.array(value),
            "vintage_lower": pa.nulls(len(period), pa.date32()),
        }
    )
    return SeriesInput([meta(id)], rows)


def known(points: Iterable[Point], day: str) -> dict[int, float]:
    """What was known on a day, by brute force over raw rows: period -> value."""
    found: dict[int, float | None] = {}
    for period, vintage, value, *_ in sorted(points, key=lambda point: point[1]):
        if vintage <= day:
            found[to_days(period)] = value
    return {period: found[period] for period in sorted(found) if found[period] is not None}


def read(store: VintageStore, id: str, day: str) -> dict[int, float]:
    """What the store says was known on a day: period -> value."""
    seen = store.view(day).observations(id)
    return dict(zip(seen.period.tolist(), seen.value.tolist(), strict=True))


def answers_of(view: AsOfView, ids: Iterable[str]) -> dict[str, Any]:
    """Every answer a view gives about some ids, errors included, arrays to the byte."""

    def attempt(ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except QueryError as error:
            return f"QueryError: {error}"

    def observations(id: str, units: Any) -> list[str]:
        found = view.observations(id, units=units)
        return [found.period.tobytes().hex(), found.value.tobytes().hex()]

    def revisions(id: str) -> list[Any]:
        return [view.revisions(id, period) for period in view.observations(id).to_pandas().index]

    def releases(id: str) -> list[Any]:
        found = view.releases(id)
        return [found.period.tolist(), found.day.tolist(), found.lag.tolist()]

    answers: dict[str, Any] = {
        "as_of": view.as_of,
        "series": [asdict(row) for row in view.series()],
        "search": [[row.id for row in view.search(text)] for text in ("", "title", "late new pay")],
    }
    for id in ids:
        answers[id] = [
            attempt(lambda id=id: asdict(view.meta(id))),
            attempt(lambda id=id: view.vintages(id).tolist()),
            attempt(lambda id=id: revisions(id)),
            attempt(lambda id=id: releases(id)),
            *(attempt(lambda id=id, units=units: observations(id, units)) for units in UNITS),
        ]
    return answers


def answers(store: VintageStore, days: Iterable[str], ids: Iterable[str] | None = None) -> str:
    """Every answer of a store on some days, as one text."""
    ids = list(store.series_ids if ids is None else ids)
    return json.dumps([answers_of(store.view(day), ids) for day in days], sort_keys=True)


def digest(store: VintageStore, days: Iterable[str]) -> str:
    """SHA-256 of `answers`."""
    return hashlib.sha256(answers(store, days).encode()).hexdigest()


def levels_digest(store: VintageStore, days: Iterable[str]) -> str:
    """SHA-256 of the levels and changes of every series on some days, for stores that are large."""
    found = hashlib.sha256()
    for view in map(store.view, days):
        for row in view.series():
            for units in ("lin", "chg"):
                seen = view.observations(row.id, units=units)  # type: ignore[arg-type]
                found.update(f"{row.id} {units} {len(seen)} ".encode())
                found.update(seen.period.tobytes() + seen.value.tobytes())
    return found.hexdigest()


def snapshot(folder: Path) -> dict[str, bytes]:
    """The bytes of every file below `folder`, but for the lock."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def flip(path: Path, position: int, mask: int = 0x01) -> None:
    """Flip bits of one byte of a file; the same call again takes it back."""
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ mask]))


def python(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start `code` in another Python that can import this module; its output is text."""
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> str:
    """What a process printed, once it has ended well."""
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out.strip()


class Disk:
    """Counts the steps by which a process changes its disk, and fails at one of them.

    Steps are the calls that make, open, write, sync, rename, lock or remove; a write counts twice,
    before its first byte and when half of it is on the disk.

    Parameters
    ----------
    fail
        Called at the failing step with the name of the call.
    at
        Number of the failing step, from 1.
    onward
        Whether every later step fails too.
    """

    CALLS = ("mkdir", "open", "fsync", "chmod", "replace", "rename", "unlink")

    def __init__(self, fail: Callable[[str], None], at: int, onward: bool = False) -> None:
        self.fail, self.at, self.onward = fail, at, onward
        self.steps = 0
        self._patch = pytest.MonkeyPatch()

    @property
    def failed(self) -> bool:
        """Whether the failing step was reached."""
        return self.steps >= self.at

    def step(self, name: str) -> None:
        """One step; fails if its turn has come."""
        self.steps += 1
        if self.steps == self.at or (self.onward and self.failed):
            self.fail(name)

    def __enter__(self) -> Disk:
        for name in self.CALLS:
            self._patch.setattr(os, name, self._counted(name, getattr(os, name)))
        self._patch.setattr(fcntl, "flock", self._counted("flock", fcntl.flock))
        plain_open = io.open

        def counted_open(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            if not set(mode) & set("wax+"):
                return plain_open(file, mode, *args, **options)
            self.step("open")
            return _Written(self, plain_open(file, mode, *args, **options))

        self._patch.setattr(io, "open", counted_open)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            self.step(name)
            return call(*args, **options)

        return counted


class _Written:
    """A file whose writes are steps of a disk."""

    def __init__(self, disk: Disk, file: Any) -> None:
        self._disk, self._file = disk, file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Written:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: Any) -> int:
        data = memoryview(data)
        half = len(data) // 2
        self._disk.step("write")
        self._file.write(data[:half])
        self._file.flush()
        self._disk.step("write")
        self._file.write(data[half:])
        return len(data)


def kill_at_every_step(base: str, work: str, what: str) -> None:
    """Do something in a copy of `base` once for each of its steps, killed (-9) at that step.

    Runs in a process of its own that never used Arrow, so that its forks are clean. The copy for
    step k is the folder `work`/k; the last one was not killed. Prints their number.
    """
    for name in ("pandas", "pyarrow.acero", "pyarrow.compute", "pyarrow.dataset"):
        importlib.import_module(name)  # what Arrow imports when first used, once and not per fork

    def killed(name: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    for k in range(1, 1000):
        folder = Path(work) / str(k)
        if Path(base).exists():
            shutil.copytree(base, folder)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with Disk(killed, k):
                    DEEDS[what](folder)
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        if status == 0:
            print(k)
            return
        if status != signal.SIGKILL:
            raise SystemExit(f"step {k}: status {status}")


def _open(folder: Path) -> None:
    from nowcast_alfred.store import open_store

    os.environ["NOWCAST_ALFRED_CACHE"] = str(folder / "cache")
    open_store(folder)


DEEDS: dict[str, Callable[[Path], Any]] = {
    "first publish": lambda folder: publish(folder, first_inputs()),
    "update": lambda folder: publish(folder, later_inputs()),
    "open": _open,
}
