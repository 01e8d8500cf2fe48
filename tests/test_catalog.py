"""A catalog is read as written, and everything wrong in it is named: file, series and key."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nowcast_alfred.catalog import METADATA, Catalog, load_catalog, metas
from nowcast_alfred.errors import CatalogError
from nowcast_alfred.sources.files import read_long
from nowcast_alfred.store.schema import SeriesMeta

CATALOGS = Path(__file__).resolve().parents[1] / "catalogs"

FULL = """
name = "test"

[defaults]
source = "ours"
training = "granted"
transform = "pch"

[[series]]
id = "PAYEMS"
transform = "chg"
max_lag_days = 45
role = "target"
category = "labour"
title = "All Employees"
frequency = "m"
units = "Thousands of Persons"
seasonal_adjustment = "Seasonally Adjusted"
release = "Employment Situation"
decimals = 0
copyright = "none"
licence = "public domain"
attribution = "BLS"
training = "permission: the author, by letter"
notes = "for people"

[[series]]
id = "BARE"
max_lag_days = -5
role = "predictor"
"""


def load(folder: Path, text: str) -> Catalog:
    path = folder / "test.toml"
    path.write_text(text, encoding="utf-8")
    return load_catalog(path)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(CatalogError) as caught:
        load(folder, text)
    message = str(caught.value)
    assert str(folder / "test.toml") in message
    return message


def series(*lines: str) -> str:
    return 'name = "test"\n[[series]]\n' + "\n".join(lines)


GOOD = ('id = "PAYEMS"', 'transform = "chg"', "max_lag_days = 45")


def test_own_keys_win_over_defaults_and_notes_are_ignored(tmp_path: Path) -> None:
    catalog = load(tmp_path, FULL)
    assert catalog.name == "test"
    assert list(catalog.series) == ["PAYEMS", "BARE"]
    payems, bare = catalog.series.values()
    assert (payems.transform, payems.source) == ("chg", "ours")
    assert payems.training == "permission: the author, by letter"
    assert (bare.transform, bare.training, bare.role) == ("pch", "granted", "predictor")
    assert (bare.max_lag_days, bare.decimals) == (-5, 2)
    assert not hasattr(payems, "notes")


def test_a_catalog_without_metadata_loads_and_says_what_it_lacks(tmp_path: Path) -> None:
    bare = load(tmp_path, FULL).series["BARE"]
    assert tuple(bare.missing()) == METADATA


def test_metas_are_the_catalog_s_words(tmp_path: Path) -> None:
    [meta] = metas(load(tmp_path, FULL), ["PAYEMS"])
    assert meta == SeriesMeta(
        id="PAYEMS",
        title="All Employees",
        frequency="m",
        units="Thousands of Persons",
        seasonal_adjustment="Seasonally Adjusted",
        release="Employment Situation",
        transform="chg",
        max_lag_days=45,
        role="target",
        category="labour",
        decimals=0,
        copyright="none",
        source="ours",
        licence="public domain",
        attribution="BLS",
        training="permission: the author, by letter",
    )


def test_metas_name_each_series_and_what_it_lacks(tmp_path: Path) -> None:
    catalog = load(tmp_path, FULL.replace('release = "Employment Situation"', 'release = ""'))
    with pytest.raises(CatalogError) as caught:
        metas(catalog)
    message = str(caught.value)
    assert str(tmp_path / "test.toml") in message
    assert "series PAYEMS: missing release" in message
    assert "series BARE: missing title, frequency, units, seasonal_adjustment, release" in message


def test_metas_of_a_series_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"test\.toml: no series NOPE"):
        metas(load(tmp_path, FULL), ["PAYEMS", "NOPE"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (series(*GOOD, 'titel = "x"'), ["series PAYEMS", "unknown key titel", "title", "notes"]),
        (series(*GOOD, 'valid_from = "2020-01-01"'), ["PAYEMS", "unknown key valid_from"]),
        ("nmae = 1\n" + series(*GOOD), ["unknown key nmae", "name, defaults, series"]),
        (
            series(*GOOD).replace("[[series]]", '[defaults]\nid = "A"\n[[series]]'),
            ["defaults", "unknown key id", "transform"],
        ),
        (series(*GOOD, "[[series]]", *GOOD), ["series PAYEMS", "duplicate id", "1 and 2"]),
        (series(*GOOD[1:]), ["[[series]] 1", "missing key id"]),
        (series(*GOOD, "[[series]]", 'id = ""', *GOOD[1:]), ["[[series]] 2", "missing key id"]),
        (series(GOOD[0], GOOD[2]), ["series PAYEMS", "missing key transform"]),
        (series(*GOOD[:2]), ["series PAYEMS", "missing key max_lag_days"]),
        (series("id = 3", *GOOD[1:]), ["[[series]] 1", "id must be text, not a number"]),
        (series(*GOOD[:2], 'max_lag_days = "45"'), ["PAYEMS", "max_lag_days", "whole number"]),
        (series(*GOOD[:2], "max_lag_days = 4.5"), ["PAYEMS", "max_lag_days", "whole number"]),
        (series(*GOOD[:2], "max_lag_days = true"), ["PAYEMS", "max_lag_days", "true/false"]),
        (series(*GOOD[:2], "max_lag_days = 99999"), ["PAYEMS", "max_lag_days is 99999", "3660"]),
        (series(*GOOD, "decimals = -1"), ["PAYEMS", "decimals is -1"]),
        (series(*GOOD, 'category = ["a"]'), ["PAYEMS", "category must be text, not a list"]),
        (series(GOOD[0], 'transform = "log"', GOOD[2]), ["PAYEMS", "transform 'log'", "pca"]),
        (series(*GOOD, 'role = "victim"'), ["PAYEMS", "role 'victim'", "predictor"]),
        (series(*GOOD, 'frequency = "Monthly"'), ["PAYEMS", "frequency 'Monthly'", "d, w, m, q"]),
        (series(*GOOD, 'training = "yes"'), ["PAYEMS", "training 'yes'", "prohibited"]),
        (series('id = "a/b"', *GOOD[1:]), ["a/b", "letters"]),
        ("[defaults]\ndecimals = true\n" + series(*GOOD), ["name"]),
        (
            'name = "x"\n[defaults]\ndecimals = "2"\n[[series]]\n' + "\n".join(GOOD),
            ["defaults", "decimals must be a whole number, not text"],
        ),
        ('name = "x"\ndefaults = 3\n', ["defaults", "table"]),
        ("[[series]]\n" + "\n".join(GOOD), ["needs a name"]),
        ('name = "x"\n', ["empty"]),
        ('name = "x"\nseries = []\n', ["empty"]),
        ('name = "x"\nseries = [3]\n', ["[[series]] 1", "table"]),
        ('name = "x"\n[series]\nid = "A"\n', ["[[series]]"]),
        ('name = "x"\n[[series]\n', ["is not TOML", "line 2"]),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: list[str]) -> None:
    message = refusal(tmp_path, text)
    for word in words:
        assert word in message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.toml", tmp_path):
        with pytest.raises(CatalogError, match=re.escape(str(path))):
            load_catalog(path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CatalogError, match="not UTF-8"):
        load_catalog(str(binary))


def test_the_us_catalog_has_full_metadata_and_prohibits_training() -> None:
    all_metas = metas(load_catalog(CATALOGS / "us-macro.toml"))
    assert len(all_metas) == 35
    for meta in all_metas:
        assert meta.training == "prohibited"
        assert meta.source == "ALFRED"
        assert "not endorsed" in meta.attribution
        assert meta.category
    assert {meta.id for meta in all_metas if meta.role == "predictor"} == {"TCU", "MTSDS133FMS"}


def test_the_us_catalog_tells_nothing_from_after_a_past_day() -> None:
    for meta in metas(load_catalog(CATALOGS / "us-macro.toml")):
        told = f"{meta.title} {meta.units} {meta.release}"
        assert not re.search(r"\d{4}|=\s*100|discontinued", told, re.IGNORECASE), meta.id


def told(catalog: Catalog) -> list[str]:
    return [f"{entry.title} {entry.units}" for entry in catalog.series.values()]


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("us-core", 25, 35), ("us-wide", 140, 160), ("payrolls-2024", 1, 1)],
)
def test_a_fred_catalog_prohibits_training_and_states_no_later_fact(
    name: str, least: int, most: int
) -> None:
    catalog = load_catalog(CATALOGS / f"{name}.toml")  # refuses a duplicate
    assert catalog.name == name
    assert least <= len(catalog.series) <= most
    for id, entry in catalog.series.items():
        assert re.fullmatch(r"[A-Z0-9]{1,25}", id)  # what FRED takes as an id
        assert (entry.source, entry.training) == ("ALFRED", "prohibited")
        assert "not endorsed" in entry.attribution
        assert entry.category
        assert entry.frequency
    assert not [x for x in told(catalog) if re.search(r"\d{4}|=\s*100|discontinued", x, re.I)]


@pytest.mark.parametrize("name", ["us-core", "us-macro", "payrolls-2024"])
def test_us_wide_asks_the_same_of_every_series_of_another_catalog(name: str) -> None:
    wide = load_catalog(CATALOGS / "us-wide.toml").series
    for id, entry in load_catalog(CATALOGS / f"{name}.toml").series.items():
        other = wide[id]
        assert (other.transform, other.max_lag_days) == (entry.transform, entry.max_lag_days), id
        assert (other.frequency, other.category) == (entry.frequency, entry.category), id
        assert other.decimals == entry.decimals, id


def test_us_core_is_all_targets_and_us_wide_never_asks_for_poor_ones() -> None:
    core = load_catalog(CATALOGS / "us-core.toml").series.values()
    assert {entry.role for entry in core} == {"target"}
    wide = load_catalog(CATALOGS / "us-wide.toml").series.values()
    predictors = {entry.id for entry in wide if entry.role == "predictor"}
    rewritten = {"NFCI", "ANFCI", "STLFSI4", "WEI", "USPHCI", "GDPNOW"}
    licensed = {"VIXCLS", "UMCSENT", "MICH", "MORTGAGE30US", "EXHOSLUSM495S", "CSUSHPINSA"}
    assert rewritten | licensed | {"IC4WSA", "MTSDS133FMS"} <= predictors
    assert {entry.id for entry in wide if entry.frequency == "d"} <= predictors


@pytest.mark.real
def test_the_catalog_s_largest_lags_fit_the_real_releases(real_data: Path) -> None:
    """In years without a shutdown nearly every period's first value is within the limit."""
    catalog = load_catalog(CATALOGS / "us-macro.toml")
    for [meta], rows in read_long(real_data / "us_panel_2016_2025.parquet", catalog):
        first: dict[np.datetime64, np.datetime64] = {}
        for row in rows.to_pylist():
            first.setdefault(np.datetime64(row["period"]), np.datetime64(row["vintage"]))
        months = 3 if meta.frequency == "q" else 1
        lags = [
            int((vintage - ((period.astype("M8[M]") + months).astype("M8[D]") - 1)).astype(int))
            for period, vintage in first.items()
            if np.datetime64("2020-01-01") <= period < np.datetime64("2025-01-01")
        ]
        limit = meta.max_lag_days
        assert sum(lag > limit for lag in lags) <= 1, meta.id
        assert sorted(lags)[-2] <= limit <= sorted(lags)[-2] + 12, meta.id
