"""FRED's terms: nothing without a stated permission, which every series then carries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_fred import FakeFred, growing_series, tag
from fred_builds import Command, build, client
from nowcast_alfred.catalog import Catalog, CatalogEntry
from nowcast_alfred.errors import PermissionMissing
from nowcast_alfred.sources import fred_build
from nowcast_alfred.sources.fred_terms import NOTICE
from nowcast_alfred.store import open_store

PERMISSION = "St. Louis Fed, letter of 2026-05-04: storage and training at Acme"
CATALOG = """
name = "small"
[defaults]
transform = "chg"
max_lag_days = 45
training = "prohibited"
[[series]]
id = "PAY"
title = "All Employees"
units = "index"
[[series]]
id = "OWNED"
[[series]]
id = "CITED"
"""


@pytest.fixture
def fake() -> Iterator[FakeFred]:
    owned = [tag("copyrighted: citation required", "cc"), tag("nsa", "seas")]
    owned.append(tag("copyrighted: pre-approval required", "cc"))
    cited = [tag("copyrighted: citation required", "cc")]
    series = [
        growing_series("PAY", "2020-01-01", 24),
        growing_series("OWNED", "2020-01-01", 24, tags=owned),
        growing_series("CITED", "2020-01-01", 24, tags=cited),
    ]
    with FakeFred(series) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a catalog."""
    (tmp_path / "c.toml").write_text(CATALOG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


@pytest.mark.parametrize("stated", [None, "", "  \n"])
def test_without_a_permission_nothing_is_asked_and_nothing_written(
    fake: FakeFred, folder: Path, command: Command, stated: str | None
) -> None:
    line = ["build", "S", "--catalog", "c.toml", "--rate", "1000"]
    done = command(fake, "store", *line, *([] if stated is None else ["--fred-permission", stated]))
    assert done.status == 2
    said = " ".join(done.err.split())
    for text in (
        "do not allow, without the bank's written permission",
        "storing, caching or archiving FRED or ALFRED content",
        "machine learning",
        "https://fred.stlouisfed.org/legal/",
        "store synth",
        "public domain",
        '--fred-permission "',
        NOTICE,
    ):
        assert text in said
    assert done.out == ""
    assert fake.log == []
    assert sorted(path.name for path in folder.iterdir()) == ["c.toml"]


@pytest.mark.parametrize("stated", [None, "", " "])
def test_the_library_asks_for_the_permission_too(
    fake: FakeFred, tmp_path: Path, stated: str | None
) -> None:
    catalog = Catalog("c", {})
    with pytest.raises(PermissionMissing, match="--fred-permission"):
        fred_build.build(tmp_path / "S", catalog, client(fake), stated)
    assert not (tmp_path / "S").exists()


def test_with_a_permission_every_series_carries_it_and_info_shows_it(
    fake: FakeFred, folder: Path, command: Command
) -> None:
    line = ["build", "S", "--catalog", "c.toml", "--rate", "1000"]
    done = command(fake, "store", *line, "--fred-permission", f" {PERMISSION}\n")
    assert done.status == 0, done.err
    assert NOTICE in done.out
    assert "left out: OWNED" in done.err
    assert "left out: CITED" in done.err
    assert "--include-restricted" in done.err
    assert "catalog: PAY: title is 'Title of PAY' at FRED, the catalog has 'All Employees'" in (
        done.err
    )
    assert "units is" not in done.err  # but for the case of a letter
    assert fake.count(series="OWNED") == 1
    store = open_store(folder / "S")
    assert store.series_ids == ("PAY",)
    for id in store.series_ids:
        meta = store.meta(id)
        assert meta.training == f"permission: {PERMISSION}"
        assert meta.attribution == NOTICE
        assert "FRED terms of use" in meta.licence
    assert store.meta("PAY").copyright == ""
    said = command(fake, "store", "info", "S")
    assert f"permission: {PERMISSION}" in said.out
    assert said.out.count(NOTICE) == 1
    info = json.loads(command(fake, "store", "info", "S", "--json").out)
    assert {row["training"] for row in info["series"]} == {f"permission: {PERMISSION}"}
    assert {row["attribution"] for row in info["series"]} == {NOTICE}


def test_restricted_series_are_read_if_that_is_asked_for(
    fake: FakeFred, folder: Path, command: Command
) -> None:
    line = ["build", "S", "--catalog", "c.toml", "--rate", "1000", "--include-restricted"]
    done = command(fake, "store", *line, "--fred-permission", PERMISSION, "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["done"] == ["CITED", "OWNED", "PAY"]
    meta = open_store(folder / "S").meta("OWNED")
    assert meta.copyright == "copyrighted: citation required; copyrighted: pre-approval required"


def test_a_catalog_that_says_permission_required_is_believed(
    fake: FakeFred, tmp_path: Path
) -> None:
    entry = CatalogEntry("PAY", "chg", 45, copyright="Cboe: permission required")
    catalog = Catalog("c", {"PAY": entry})
    report = build(tmp_path, fake, catalog=catalog)
    assert list(report.left_out) == ["PAY"]
    build(tmp_path, fake, catalog=catalog, include_restricted=True)
    assert open_store(tmp_path).meta("PAY").copyright == "Cboe: permission required"


def test_a_failure_is_summed_up_and_ends_with_status_1(
    fake: FakeFred, folder: Path, command: Command
) -> None:
    (folder / "c.toml").write_text(CATALOG + '[[series]]\nid = "NOPE"\n')
    line = ["build", "S", "--catalog", "c.toml", "--rate", "1000"]
    done = command(fake, "store", *line, "--fred-permission", PERMISSION)
    assert done.status == 1
    assert "failed: NOPE: SeriesUnknown: NOPE: Bad Request.  The series does not exist." in (
        done.err
    )
    assert "1 series read, 1 failed, 2 left out; 9 requests" in done.out
    assert f"fingerprint {open_store(folder / 'S').fingerprint}" in done.out
    again = command(fake, "store", *line, "--fred-permission", PERMISSION)
    assert again.status == 1
    assert "1 requests, 0 of them again, 8 answers were staged before" in again.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--catalog", "c.toml", "--rate", "0"], "must be above 0"),
        (["--catalog", "c.toml", "--base-url", "fred"], "is not a URL"),
        (["--catalog", "none.toml"], "there is no such catalog file"),
    ],
)
def test_wrong_use_is_status_2_and_one_line(
    fake: FakeFred, folder: Path, command: Command, arguments: list[str], said: str
) -> None:
    done = command(fake, "store", "build", "S", *arguments, "--fred-permission", PERMISSION)
    assert done.status == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (folder / "S").exists()
