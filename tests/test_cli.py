"""The command line: what it prints, what it refuses, and the status it ends with."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from commands import BIN, environment, run
from nowcast_alfred.locate import build_synthetic
from nowcast_alfred.store import open_store

CATALOG = """
name = "small"
[[series]]
id = "A"
title = "A thing"
frequency = "m"
units = "Things"
seasonal_adjustment = "Not Seasonally Adjusted"
release = "Things"
transform = "chg"
max_lag_days = 45
"""
ROWS = """series_id,date,realtime_start,value
A,2020-01-01,2020-02-10,1
A,2020-02-01,2020-03-10,2
A,2020-01-01,2020-03-10,1.5
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "small.toml").write_text(CATALOG)
    (tmp_path / "rows.csv").write_text(ROWS)
    return tmp_path


def refused(folder: Path, *arguments: str) -> tuple[int, str]:
    """Status and message of a command that should fail."""
    line = [str(BIN / "nowcast-alfred"), *arguments]
    done = subprocess.run(
        line,
        cwd=folder,
        env=environment(COLUMNS="200"),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def imports(*more: str) -> list[str]:
    return ["store", "import", "S", "--catalog", "small.toml", "--format", "long", *more]


def test_import_then_view_info_and_verify(files: Path) -> None:
    run(files, "nowcast-alfred", *imports("rows.csv"))
    said = run(files, "nowcast-alfred", "view", "2020-02-28", "A", "--store", "S")
    assert said.splitlines()[-1] == "2020-01-01,1"
    info = json.loads(run(files, "nowcast-alfred", "store", "info", "S", "--json"))
    assert [(row["id"], row["rows"]) for row in info["series"]] == [("A", 3)]
    assert info["fingerprint"] == open_store(files / "S").fingerprint
    checked = json.loads(run(files, "nowcast-alfred", "store", "verify", "S", "--json"))
    assert checked == {"fingerprint": info["fingerprint"], "faults": []}


def test_a_bad_row_is_named_and_writes_nothing(files: Path) -> None:
    (files / "bad.csv").write_text(ROWS + "A,2020-03-01,soon,3\n")
    status, said = refused(files, *imports("bad.csv"))
    assert status == 2
    assert "bad.csv" in said
    assert "line 5" in said
    assert "realtime_start" in said
    assert not (files / "S").exists()


def test_a_changed_past_is_refused_until_it_is_accepted(files: Path) -> None:
    run(files, "nowcast-alfred", *imports("rows.csv"))
    before = open_store(files / "S").fingerprint
    (files / "changed.csv").write_text(ROWS.replace("2020-02-10,1", "2020-02-10,7"))
    status, said = refused(files, *imports("changed.csv"))
    assert status == 2
    assert "HistoryChanged" in said
    assert "A 2020-01-01 in vintage 2020-02-10: 1.0 would become 7.0" in said
    assert open_store(files / "S").fingerprint == before
    run(files, "nowcast-alfred", *imports("changed.csv", "--accept-history"))
    assert open_store(files / "S").fingerprint != before


def test_damage_ends_with_status_1_and_the_file(files: Path) -> None:
    run(files, "nowcast-alfred", *imports("rows.csv"))
    (vintages,) = (files / "S/vintages").iterdir()
    data = bytearray(vintages.read_bytes())
    data[len(data) // 2] ^= 1
    vintages.write_bytes(data)
    status, said = refused(files, "store", "verify", "S")
    assert status == 1
    assert vintages.name in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["store", "info", "nothing"], "no store at"),
        (["view", "yesterday"], "YYYY-MM-DD"),
        (["policy", "--kind", "oracle"], "one of constant:NUMBER"),
        (["store", "import", "S", "--catalog", "none.toml", "rows.csv"], "none.toml"),
        (imports("rows.csv", "--format", "wide"), "one of: long"),
        (["sample", "--config", "small.toml"], "[env.taskset]"),
        (["no-such-command"], "No such command"),
    ],
)
def test_wrong_use_ends_with_status_2_and_says_what_to_do(
    files: Path, arguments: list[str], message: str
) -> None:
    status, said = refused(files, *arguments)
    assert status == 2
    assert message in said
    assert "Traceback" not in said


def test_synth_writes_the_same_store_again(tmp_path: Path) -> None:
    run(tmp_path, "nowcast-alfred", "store", "synth", "one")
    assert open_store(tmp_path / "one").fingerprint == build_synthetic(tmp_path / "two")


def test_sample_shows_the_draws_of_the_stream(tmp_path: Path) -> None:
    said = json.loads(
        run(tmp_path, "nowcast-alfred", "sample", "-n", "3", "--start", "7", "--json")
    )
    assert [row["draw"] for row in said["draws"]] == [7, 8, 9]
    assert said["targets"] > 10_000
    assert {"prompt", "baseline", "first"} <= set(said["draws"][0])
