"""Builds that are killed, that meet a full disk or a read-only one, or that meet each other."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fake_fred as ff
from commands import BIN, environment
from fake_fred import KEY, FakeFred, Request, growing_series
from fred_builds import FAST, PERMISSION, Command, archive, build, built, catalog_of, client, points
from nowcast_alfred.errors import StoreError, StoreLocked
from nowcast_alfred.sources import fred_build
from nowcast_alfred.store import open_store, verify_store
from store_samples import Disk

TODAY = "2024-11-03"
Question = tuple[str, str]
"""A series and what was asked of it, in the words of the staging area."""


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeFred]:
    series = [growing_series(f"S{at:02}", "2015-01-01", 60, history=12) for at in range(19)]
    series.append(growing_series("DGS", "2005-01-03", 4000, "d", revisions=0))
    with FakeFred(series, TODAY) as server:
        yield server


@pytest.fixture(scope="module")
def undisturbed(fake: FakeFred, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The fingerprint of a build that nobody disturbs."""
    return built(tmp_path_factory.mktemp("undisturbed"), fake).fingerprint


@pytest.fixture
def folder(fake: FakeFred, tmp_path: Path) -> Path:
    """A folder with a store of two of the series, of an earlier day, and a catalog of all."""
    fake.today = "2016-06-30"
    built(tmp_path / "S", fake, "S00", "S01")
    fake.today = TODAY
    fake.clear_log()
    (tmp_path / "c.toml").write_text(
        'name = "c"\n[defaults]\ntransform = "chg"\nmax_lag_days = 45\n'
        + "".join(f'[[series]]\nid = "{id}"\n' for id in fake.series)
    )
    return tmp_path


def started(fake: FakeFred, folder: Path) -> subprocess.Popen[str]:
    """`nowcast-alfred store build`, started."""
    line = [str(BIN / "nowcast-alfred"), "store", "build", "S", "--catalog", "c.toml"]
    return subprocess.Popen(
        [*line, "--fred-permission", PERMISSION, "--rate", "2000", "--json"],
        cwd=folder,
        env=environment(FRED_API_KEY=KEY, FRED_BASE_URL=fake.base_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kept(root: Path) -> set[Question]:
    """What the staging area has."""
    files = (root / fred_build.STAGED_BUILD).glob("*/*.json")
    return {(path.parent.name, json.loads(path.read_text())["question"]) for path in files}


def question(fake: FakeFred, request: Request) -> Question:
    """What a request asks, in the words of the staging area."""
    simple = {
        "series": "metadata",
        "series/tags": "tags",
        "series/release": "release",
        "series/vintagedates": "vintages",
    }
    if request.path in simple:
        return request.series, simple[request.path]
    start, end = request.params["realtime_start"], request.params["realtime_end"]
    if request.params["output_type"] == "1":
        return request.series, f"snapshot {start}"
    days = fake.series[request.series].vintages(TODAY)
    return request.series, f"changes {start} {end} {sum(start <= day <= end for day in days)}"


def test_twenty_kills_lose_no_more_than_what_was_in_flight(
    fake: FakeFred, folder: Path, undisturbed: str
) -> None:
    draw = random.Random(20261130)
    root = folder / "S"
    first = open_store(root).fingerprint
    killed = 0
    for _ in range(20):
        before = kept(root)
        fake.clear_log()
        process = started(fake, folder)
        answers, at, later = 0, draw.randint(1, 13), draw.uniform(0, 0.04)

        def count(_: Any, process: Any = process, at: int = at, later: float = later) -> None:
            nonlocal answers  # under the fake's lock
            answers += 1
            if answers == at:
                threading.Timer(later, process.kill).start()

        fake.script(ff.edited(count), times=10**6)
        process.communicate()
        fake.clear_scripts()
        killed += process.returncode == -signal.SIGKILL
        answered = {question(fake, request) for request in fake.requests(status=200)}
        assert before.isdisjoint(answered), "a finished request was repeated"
        mark, after = open_store(root).fingerprint, kept(root)
        assert verify_store(root)[1] == []
        if mark == first:  # killed before it could publish
            assert before <= after
            assert len(answered - after) <= fred_build.WORKERS
        else:
            assert mark == undisturbed
    assert killed >= 15
    before = kept(root)
    fake.clear_log()
    process = started(fake, folder)
    said, _ = process.communicate()
    assert process.returncode == 0
    assert json.loads(said)["fingerprint"] == undisturbed
    assert json.loads(said)["reused"] == len(before)
    assert before.isdisjoint(question(fake, request) for request in fake.log)
    assert open_store(root).fingerprint == undisturbed
    assert not (root / fred_build.STAGED_BUILD).exists()


@pytest.mark.parametrize("at", [1, 2, 5, 17, 60, 250, 900])
def test_a_full_disk_is_one_clear_error_and_the_old_store_stays(
    fake: FakeFred, folder: Path, undisturbed: str, at: int
) -> None:
    root = folder / "S"
    before = open_store(root)

    def full(name: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    fred = client(fake)  # its certificates are read before the disk is full
    catalog = catalog_of(fake.series)
    with Disk(full, at, onward=True), pytest.raises(StoreError, match="No space left") as refused:
        fred_build.build(root, catalog, fred, PERMISSION)
    assert type(refused.value) is StoreError
    assert open_store(root).fingerprint == before.fingerprint
    assert verify_store(root)[1] == []
    assert points(open_store(root), "S00") == archive(fake.series["S00"], "2016-06-30")
    assert built(root, fake).fingerprint == undisturbed


def test_a_full_disk_stops_the_requests_too(fake: FakeFred, folder: Path) -> None:
    def full(name: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Disk(full, 40, onward=True), pytest.raises(StoreError, match="the store is as it was"):
        build(folder / "S", fake)
    assert fake.count() < 60  # of 124


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


def line(folder: Path) -> list[object]:
    """`store build`, to be run in this process."""
    build = ["store", "build", folder / "S", "--catalog", folder / "c.toml", "--rate", FAST]
    return [*build, "--fred-permission", PERMISSION]


def test_a_read_only_folder_is_one_clear_error(
    fake: FakeFred, folder: Path, command: Command
) -> None:
    before = open_store(folder / "S").fingerprint

    def read_only(name: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with Disk(read_only, 1, onward=True):
        said = command(fake, *line(folder))
    assert said.status == 2
    assert said.err.count("error:") == 1
    assert "StoreError: cannot write to" in said.err
    assert "Read-only file system" in said.err
    assert "Traceback" not in said.err
    assert fake.log == []
    assert open_store(folder / "S").fingerprint == before


def test_a_second_build_or_update_of_a_folder_is_refused(
    fake: FakeFred, folder: Path, command: Command
) -> None:
    refusals: list[str] = []

    def meanwhile(series_id: str) -> None:
        if not refusals:
            for again in (
                lambda: build(folder / "S", fake),
                lambda: fred_build.update(folder / "S", client(fake)),
            ):
                with pytest.raises(StoreLocked) as refused:
                    again()
                refusals.append(str(refused.value))
            said = command(fake, *line(folder))
            assert (said.status, "StoreLocked" in said.err) == (2, True)

    report = build(folder / "S", fake, progress=meanwhile)
    assert len(report.done) == 20
    assert all("another process is building or updating" in text for text in refusals)
    assert len(refusals) == 2


def test_an_interrupt_waits_for_what_is_in_flight_and_keeps_it(
    fake: FakeFred, folder: Path
) -> None:
    def interrupt(series_id: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(folder / "S", fake, "DGS", "S00", chunk=20, progress=interrupt)
    finished = fake.count(status=200)
    assert finished < 200  # a series of 200 chunks is not read to its end
    assert len(kept(folder / "S")) == finished
    fake.clear_log()
    assert build(folder / "S", fake, "DGS", "S00", chunk=20).reused == finished
    assert finished + len(fake.log) == (5 + 200) + (5 + 3)
    assert points(open_store(folder / "S"), "DGS") == archive(fake.series["DGS"], TODAY)
