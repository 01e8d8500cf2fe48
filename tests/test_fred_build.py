"""`build`: from ALFRED's archives to a store, whatever the chunks, and whatever fails."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fake_fred as ff
from fake_fred import FakeFred, FakeSeries, growing_series
from fred_builds import FAST, archive, build, built, catalog_of, client, points
from nowcast_alfred.catalog import Catalog, CatalogEntry
from nowcast_alfred.errors import InputError, KeyRefused
from nowcast_alfred.sources import fred_build
from nowcast_alfred.sources.fred import Fred
from nowcast_alfred.sources.staging import Staging
from nowcast_alfred.store import open_store, verify_store

TODAY = "2024-11-03"


def recorded_gdp(real_data: Path) -> FakeSeries:
    """GDP with the 393 vintages of a recorded body."""
    path = real_data.parent / "fred_fixtures" / "observations_GDP_all_vintages_20241103.json"
    if not path.exists():
        pytest.skip("no recorded bodies")
    rows = json.loads(path.read_text())["observations"]
    quarterly = [{"frequency": "Quarterly", "frequency_short": "Q"}]
    return FakeSeries.from_type1("GDP", rows, metadata=quarterly)


# ------------------------------------------------------------------------------------ chunks


@pytest.mark.real
def test_all_recorded_vintages_are_read_whatever_the_chunk(real_data: Path, tmp_path: Path) -> None:
    gdp = recorded_gdp(real_data)
    expected = archive(gdp, TODAY)
    marks = set()
    with FakeFred([gdp], TODAY) as fake:
        for chunk in (1, 7, 100, 392, 393, 394, 2000):
            fake.clear_log()
            store = built(tmp_path / str(chunk), fake, chunk=chunk)
            assert points(store, "GDP") == expected
            assert fake.count("series/observations", output_type=3) == math.ceil(393 / chunk)
            marks.add(store.fingerprint)
    assert len(marks) == 1
    assert len({vintage for _, vintage, _ in expected}) == 393


def test_a_daily_series_with_5073_vintages_is_read(tmp_path: Path) -> None:
    daily = growing_series("DGS10", "2005-01-03", 5073, "d", revisions=0)
    with FakeFred([daily], TODAY) as fake:
        store = built(tmp_path, fake)
        assert points(store, "DGS10") == archive(daily, TODAY)
        assert len(store.view(TODAY).vintages("DGS10")) == 5073
        assert fake.count("series/observations", output_type=3) == 3
        assert fake.count(status=400) == 0


days = st.integers(1, 28).map(lambda day: f"2020-{1 + day // 10:02d}-{1 + day % 10:02d}")
texts = st.sampled_from([".", "0", "-1.5", "2.25", "1000000", "0.1"])
observations = st.dictionaries(days, texts, min_size=1, max_size=6).map(lambda d: sorted(d.items()))
archives = st.dictionaries(
    st.integers(1, 12).map(lambda month: f"2019-{month:02d}-01"), observations, min_size=1
)


@pytest.fixture(scope="module")
def empty() -> Iterator[FakeFred]:
    with FakeFred([], TODAY) as server:
        yield server


@pytest.fixture(scope="module")
def made_client(empty: FakeFred) -> Fred:
    return client(empty)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(made=archives, chunk=st.integers(1, 30))
def test_any_archive_is_read_whatever_the_chunk(
    empty: FakeFred,
    made_client: Fred,
    tmp_path_factory: pytest.TempPathFactory,
    made: dict[str, list[tuple[str, str]]],
    chunk: int,
) -> None:
    series = FakeSeries("MADE", made)
    empty.series["MADE"] = series
    root = tmp_path_factory.mktemp("any")
    report = fred_build.build(root, catalog_of(["MADE"]), made_client, "me", chunk=chunk)
    assert report.failed == {}
    assert points(open_store(root), "MADE") == archive(series, TODAY)


@pytest.mark.parametrize("chunk", [1, 4, 2000])
def test_a_server_that_is_silent_on_the_first_vintage_loses_nothing(
    tmp_path: Path, chunk: int
) -> None:
    series = growing_series("PAY", "2000-01-01", 30, history=12, benchmark_every=6)
    with FakeFred([series], TODAY, type3_first_vintage=False) as fake:
        assert points(built(tmp_path, fake, chunk=chunk), "PAY") == archive(series, TODAY)


def test_an_answer_too_large_for_the_gateway_is_read_in_smaller_ones(tmp_path: Path) -> None:
    series = growing_series("NFCI", "2000-01-01", 250)
    with FakeFred([series], TODAY) as fake:
        fake.script(ff.gateway_error(504), path="series/observations", times=3)
        assert points(built(tmp_path, fake), "NFCI") == archive(series, TODAY)
        assert fake.count("series/observations", status=200, output_type=3) == 3


# ---------------------------------------------------------------------------- contradictions


def wrong_value(body: dict[str, Any]) -> None:
    body["observations"][-1]["value"] = "1.25"


def strange_vintage(body: dict[str, Any]) -> None:
    body["observations"][-1]["PAY_20001231"] = "1.25"


@pytest.mark.parametrize(
    ("output_type", "edit", "said"),
    [
        (1, wrong_value, "is 1.25 in FRED's snapshot of"),
        (3, strange_vintage, "change points on 2000-12-31, which is no vintage date"),
    ],
)
def test_answers_that_contradict_each_other_are_not_kept_and_asked_again(
    tmp_path: Path, output_type: int, edit: Any, said: str
) -> None:
    with FakeFred([growing_series("PAY", "2000-01-01", 30)], TODAY) as fake:
        fake.script(ff.edited(edit), path="series/observations", after=output_type == 1)
        report = build(tmp_path, fake)
        assert said in report.failed["PAY"]
        assert not (tmp_path / "manifest.json").exists()
        fake.clear_log()
        store = built(tmp_path, fake)
        assert fake.count("series/vintagedates") == 1
        assert points(store, "PAY") == archive(fake.series["PAY"], TODAY)


# ----------------------------------------------------------------------------------- failures


def test_one_bad_series_costs_the_others_nothing(tmp_path: Path) -> None:
    series = [growing_series(id, "2015-01-01", 40) for id in ("A", "B", "C", "D")]
    series.append(growing_series("BW", "2015-01-03", 40, "w"))
    series[-1].metadata = [{"frequency": "Biweekly, Ending Monday", "frequency_short": "BW"}]
    with FakeFred(series, TODAY) as fake:
        fake.script(ff.gateway_error(), series="B", path="series/vintagedates", times=math.inf)
        fake.script(ff.wrong_window("2000-01-01", "2000-01-01"), series="C", times=2, after=1)
        fake.script(ff.overcount(), series="D", path="series/vintagedates", times=math.inf)
        seen: list[str] = []
        catalog = catalog_of([*fake.series, "NOPE"])
        report = build(tmp_path, fake, catalog=catalog, progress=seen.append)
        assert report.done == ["A"]
        assert sorted(seen) == sorted(catalog.series)
        reasons = {id: text.partition(":")[0] for id, text in report.failed.items()}
        assert reasons == {
            "B": "SourceUnavailable",
            "BW": "InputError",
            "C": "SourceUnavailable",
            "D": "SourceUnavailable",
            "NOPE": "SeriesUnknown",
        }
        assert "'Biweekly, Ending Monday' is not supported" in report.failed["BW"]
        assert verify_store(tmp_path)[1] == []
        fake.clear_scripts()
        fake.clear_log()
        again = build(tmp_path, fake, "A", "B", "C", "D")
        assert again.done == ["A", "B", "C", "D"]
        assert fake.requests(series="A") == []  # kept from the first attempt
        assert again.reused > 6
        assert not (tmp_path / ".staging").exists()


def test_if_all_fail_nothing_is_written(tmp_path: Path) -> None:
    with FakeFred([], TODAY) as fake:
        report = build(tmp_path / "S", fake, "X", "Y")
    assert sorted(report.failed) == ["X", "Y"]
    assert report.manifest is None
    assert [path.name for path in (tmp_path / "S").iterdir()] == [".building"]


def test_a_key_refused_in_the_middle_stops_the_build_and_a_rerun_goes_on(tmp_path: Path) -> None:
    series = [growing_series(f"S{at:02}", "2015-01-01", 12) for at in range(30)]
    with FakeFred(series, TODAY) as fake:
        fake.script(ff.key_not_registered(), after=60, times=math.inf)
        with pytest.raises(KeyRefused):
            build(tmp_path, fake)
        assert len(fake.log) <= 60 + 2 * 30
        assert not (tmp_path / "manifest.json").exists()
        fake.clear_scripts()
        fake.clear_log()
        report = build(tmp_path, fake)
        assert len(report.done) == 30
        assert len(fake.log) == 180 - 60


def test_a_build_of_more_series_joins_those_of_before(tmp_path: Path) -> None:
    series = [growing_series(id, "2015-01-01", 12) for id in ("A", "B")]
    with FakeFred(series, TODAY) as fake:
        first = built(tmp_path, fake, "A")
        both = built(tmp_path, fake, "B")
        assert both.series_ids == ("A", "B")
        assert points(both, "A") == points(first, "A")
        again = build(tmp_path, fake)
        assert again.manifest is not None
        assert again.manifest.fingerprint == both.fingerprint


@pytest.mark.parametrize("limits", [{"chunk": 1900}, {"chunk": 3}])
def test_nobody_is_asked_more_than_is_needed(tmp_path: Path, limits: dict[str, int]) -> None:
    with FakeFred([growing_series("PAY", "2015-01-01", 12)], TODAY) as fake:
        built(tmp_path, fake, **limits)
        assert len(fake.log) == 5 + math.ceil(12 / limits["chunk"])
        assert len({(r.path, tuple(r.params.items())) for r in fake.log}) == len(fake.log)


# ----------------------------------------------------------------------------------- metadata


def test_metadata_comes_from_fred_and_contradictions_are_reported(tmp_path: Path) -> None:
    periods = [
        {"title": "Thing", "units": "Index 2012=100"},
        {"title": "Thing", "units": "Index 2012=100", "realtime_start": "2015-06-01"},
        {"title": "Thing", "units": "Index 2017=100", "realtime_start": "2015-09-01"},
    ]
    series = growing_series("A", "2015-01-01", 12, metadata=periods, release=(10, "Prices"))
    entry = CatalogEntry(
        "A", "pch", 30, role="predictor", category="prices", decimals=3, title="thing",
        units="Percent", frequency="q", seasonal_adjustment="Not Seasonally Adjusted",
    )  # fmt: skip
    with FakeFred([series], TODAY) as fake:
        report = build(tmp_path, fake, catalog=Catalog("c", {"A": entry}))
    assert sorted(report.mismatches) == [
        "A: frequency is 'm' at FRED, the catalog has 'q'",
        "A: units is 'Index 2017=100' at FRED, the catalog has 'Percent'",
    ]
    store = open_store(tmp_path)
    meta = store.meta("A")
    assert (meta.units, meta.frequency, meta.release) == ("Index 2017=100", "m", "Prices")
    assert (meta.transform, meta.max_lag_days, meta.decimals) == ("pch", 30, 3)
    assert (meta.role, meta.category, meta.source) == ("predictor", "prices", "ALFRED")
    for day, units in (("2015-08-31", "Index 2012=100"), ("2015-09-01", "Index 2017=100")):
        assert store.view(day).meta("A").units == units
    assert "2017" not in store.view("2015-08-31").search("thing")[0].units


# ------------------------------------------------------------------------------------ staging


def test_staged_answers_are_good_for_some_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000.0
    monkeypatch.setattr("nowcast_alfred.sources.staging.time.time", lambda: now)
    kept = Staging(tmp_path, 12)
    assert kept.fetch("A", "what", lambda: 1) == 1
    now += 12 * 3600 - 1
    assert kept.fetch("A", "what", lambda: 2) == 1
    assert kept.fetch("A", "other", lambda: 2) == 2
    assert kept.fetch("B", "what", lambda: 3) == 3
    now += 2
    assert kept.fetch("A", "what", lambda: 4) == 4
    kept.drop("A")
    assert kept.fetch("A", "what", lambda: 5) == 5
    assert kept.fetch("B", "what", lambda: 6) == 3
    assert kept.reused == ["A", "B"]


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"question": "what"', b"\xff\xfe\x00"])
def test_a_damaged_staged_answer_is_asked_again(tmp_path: Path, damage: bytes) -> None:
    kept = Staging(tmp_path, 12)
    kept.fetch("A", "what", lambda: 1)
    [path] = tmp_path.rglob("*.json")
    path.write_bytes(damage)
    assert kept.fetch("A", "what", lambda: 2) == 2


# --------------------------------------------------------------------------------------- rate


def too_soon(root: Path, fake: FakeFred) -> int:
    """How many requests of a build of everything come too soon for the server."""
    fake.clear_log()
    report = build(root, fake, options={"rate": 100, "tries": 20})
    assert len(report.done) == 150
    return fake.count(fault="rate")


def test_150_series_are_read_at_the_rate_without_a_refusal(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    series = [growing_series(f"S{at:03}", "2019-01-01", 60, history=24) for at in range(150)]
    with FakeFred(series, TODAY, max_per_second=100, retry_after=1) as fake:
        # A busy machine holds a request back now and then; a bad limiter is refused every time.
        assert any(too_soon(tmp_path_factory.mktemp("S"), fake) == 0 for _ in range(4))
        assert fake.count() == 150 * 6
        assert fake.max_in_flight <= fred_build.WORKERS


def test_a_rate_that_is_none_builds_nothing(tmp_path: Path) -> None:
    with FakeFred([], TODAY) as fake, pytest.raises(InputError, match="above 0"):
        build(tmp_path / "S", fake, "A", options={"rate": -FAST})
    assert not (tmp_path / "S").exists()


def test_two_vintages_of_one_day_are_the_last_load(tmp_path: Path) -> None:
    series = growing_series("A", "2015-01-01", 12)
    twin = replace(series, points={d: [*p, (p[-1][0], "7.0")] for d, p in series.points.items()})
    with FakeFred([twin], TODAY) as fake:
        assert points(built(tmp_path, fake), "A") == archive(twin, TODAY)
