"""Row 6: a build from a FRED server that enforces its rate, beside the bare limiter."""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from nowcast_alfred.catalog import Catalog, CatalogEntry
from nowcast_alfred.sources import fred_build
from nowcast_alfred.sources.fred import KEY_VARIABLE, Fred
from nowcast_alfred.sources.http import Limiter

from .measure import ROOT, Bar, Figure, median_ratio

RATE = 50.0
MONTHLY, DAILY = 145, 5
REPEATS = 2


def _fake() -> Any:
    """The fake server of the tests."""
    sys.path.insert(0, str(ROOT / "tests"))
    return importlib.import_module("fake_fred")


def serve() -> None:
    """Be the server: for each line on stdin, print what was asked since the last one."""
    fake = _fake()
    series = [
        fake.growing_series(f"M{at:03}", "1985-01-01", 470, history=110, benchmark_every=12)
        for at in range(MONTHLY)
    ] + [
        fake.growing_series(f"D{at:03}", "2014-01-02", 2500, "d", revisions=0)
        for at in range(DAILY)
    ]
    with fake.FakeFred(series, max_per_second=RATE, retry_after=1) as server:
        for one in series:  # so that no request pays for finding them
            one.vintages(server.today)
        changes = sum(len(rows) for one in series for rows in one.points.values())
        about = {"url": server.base_url, "key": fake.KEY, "changes": changes}
        print(json.dumps({**about, "ids": list(server.series)}), flush=True)
        for _ in sys.stdin:
            log = server.requests()
            seconds = log[-1].ended - log[0].started
            told = {"requests": len(log), "refused": server.count(fault="rate")}
            print(json.dumps({**told, "seconds": seconds}), flush=True)
            server.clear_log()


class Server:
    """The server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.about = self._read()

    def told(self) -> dict[str, Any]:
        """Requests, refusals, and the seconds from the first request to the last answer."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found


@contextmanager
def started() -> Iterator[Server]:
    """A server, as long as the block runs."""
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Server(process)
        assert process.stdin is not None
        process.stdin.close()


def build(server: Server, root: Path) -> float:
    """Seconds of a build of all series, the publication included."""
    os.environ[KEY_VARIABLE] = server.about["key"]
    catalog = Catalog("all", {id: CatalogEntry(id, "chg", 45) for id in server.about["ids"]})
    start = time.perf_counter()
    report = fred_build.build(root, catalog, Fred(None, server.about["url"], RATE), "benchmark")
    if report.failed or report.manifest is None:
        raise RuntimeError(f"the build failed: {report.failed}")
    found = sum(entry.rows for entry in report.manifest.series.values())
    if found != server.about["changes"]:
        raise RuntimeError(f"the store has {found} change points, not {server.about['changes']}")
    return time.perf_counter() - start


def bare(server: Server, requests: int) -> None:
    """As many requests of the cheapest kind, from as many threads, with nothing but the limiter."""
    limiter = Limiter(RATE)
    params = {"api_key": server.about["key"], "file_type": "json", "series_id": "M000"}
    with httpx.Client() as client, ThreadPoolExecutor(fred_build.WORKERS) as pool:

        def ask(_: int) -> None:
            with limiter.turn():
                client.get(f"{server.about['url']}/series/tags", params=params)

        list(pool.map(ask, range(requests)))


def row_fred(folder: Path) -> list[Figure]:
    """Row 6: 150 series of realistic size, 50 requests a second allowed."""
    ours, peers, whole, refused = [], [], [], []
    with started() as server:
        for turn in range(REPEATS):
            whole.append(build(server, folder / f"fred-{turn}"))
            told = server.told()
            ours.append(told["seconds"] / told["requests"])
            refused.append(told["refused"])
            bare(server, told["requests"])
            told = server.told()
            peers.append(told["seconds"] / told["requests"])
    size = f"{MONTHLY + DAILY} series, {server.about['changes']:,} change points"
    return [
        Figure(
            f"requests of a build, {RATE:g} a second allowed",
            1 / statistics.median(ours),
            "/s",
            "the bare limiter",
            1 / statistics.median(peers),
            median_ratio(peers, ours),
            Bar("value", ">=", 0.9 * RATE),
        ),
        Figure("... refused since they came too soon, and sent again", max(refused), ""),
        Figure(f"the whole build, publication included: {size}", statistics.median(whole), "s"),
    ]


if __name__ == "__main__":
    serve()
