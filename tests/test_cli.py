"""The command line: what it prints, what it refuses, and the status it ends with."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from commands import BIN, ROOT, environment, run
from nowcast_alfred.catalog import load_catalog
from nowcast_alfred.cli import main
from nowcast_alfred.cli_output import show_table
from nowcast_alfred.locate import build_synthetic
from nowcast_alfred.sources.files import read_long
from nowcast_alfred.store import SeriesInput, open_store, publish

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


def build(source: str) -> list[str]:
    return ["store", "build", "B", "--catalog", "small.toml", "--source", source]


def make_store(files: Path) -> None:
    catalog = load_catalog(files / "small.toml")
    publish(
        files / "S",
        [SeriesInput(meta, rows) for meta, rows in read_long(files / "rows.csv", catalog)],
    )


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
        (["sample", "--config", "none.toml"], "'none.toml' does not exist"),
        (["sample", "-n", "0"], "greater than or equal to 1"),
        (["policy", "--host", "no.such.host.invalid"], "give another --port"),
        (["demo", "--kind", "oracle", "--output", "D"], "one of constant:NUMBER"),
        (["demo", "--store", "nothing", "--output", "D"], "no store at"),
        (["demo", "--output", "rows.csv"], "rows.csv is a file; name a folder"),
        (["backtest", "--output", "rows.csv"], "--output rows.csv"),
        (["ablate", "small.toml", "--output", "rows.csv"], "--output rows.csv"),
        (["sft", "--output", "rows.csv"], "--output rows.csv"),
        (["sft", "--output", "x" * 300], "File name too long"),
        (["report", "S", "--output", "."], "name the file to write"),
        (["report", "S", "--output", "rows.csv/report.html"], "--output rows.csv"),
        (["store", "merge", "ALL", "S", "--prefer", "A"], "write SERIES=STORE"),
        (build("rtdsm"), "--contact"),
        (["readiness", "."], "give the folder of a vf-eval run"),
        (["store", "info", "rows.csv"], "rows.csv is or lies in a file; a store is a folder"),
        (["sample", "--store", "rows.csv/S"], "is or lies in a file"),
        (["store", "synth", "rows.csv"], "rows.csv: it is or lies in a file; name a folder"),
        (["backtest", "--source", "near"], "name with --config the TOML that has the"),
        (["sample", "--config", "typo.toml"], "splitt: unknown setting; valid ones: as_of_max"),
        (["sample", "--config", "typo.toml"], "'train', 'eval' or 'all', not 'test'"),
        (["view", "2020-03-31", "B", "--store", "S"], "no series 'B'"),
        (["view", "2020-03-31", "A", "--search", "b", "--store", "S"], "not both"),
    ],
)
def test_wrong_use_ends_with_status_2_and_says_what_to_do(
    files: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_store(files)
    (files / "typo.toml").write_text('[taskset]\nsplitt = "train"\nsplit = "test"\n')
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sys.argv", ["nowcast-alfred", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = " ".join("".join(capsys.readouterr()).split())
    assert ended.value.code == 2
    assert message in said


@pytest.mark.parametrize("command", ["sample", "backtest", "audit", "sft"])
def test_help_names_the_tables_of_a_config(command: str, tmp_path: Path) -> None:
    said = run(tmp_path, "nowcast-alfred", command, "--help")
    assert "[env.taskset], [taskset] or prime-rl's" in " ".join(said.replace("│", " ").split())


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    assert run(tmp_path, "nowcast-alfred", "--version").strip() == version("nowcast-alfred")


def test_a_narrow_table_wraps_texts_and_cuts_no_word(capsys: pytest.CaptureFixture[str]) -> None:
    name, number = "GACDFSA066MSFRBPHI" * 5, 0.123456
    row = {"series_id": name, "what": "words " * 40, "first": number, "last": None}
    show_table("a title", tuple(row), [row])
    said = capsys.readouterr().out
    assert name in said
    assert f"{number:g}" in said
    assert said.count("words") == 40
    assert "…" not in said


def test_a_store_is_not_made_over_another(files: Path) -> None:
    make_store(files)
    before = open_store(files / "S").fingerprint
    status, said = refused(files, "store", "synth", "S")
    assert (status, open_store(files / "S").fingerprint) == (2, before)
    assert "holds a store already" in said


def test_sample_reads_a_train_source_of_prime_rl(tmp_path: Path) -> None:
    config = ["--config", str(ROOT / "configs/train/large.toml"), "--source"]
    sizes = [
        json.loads(run(tmp_path, "nowcast-alfred", "sample", "--json", *config, name))["targets"]
        for name in ("near", "labour-and-prices")
    ]
    assert sizes[0] > sizes[1] > 0


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
