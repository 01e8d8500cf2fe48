"""What users of other clients reported, one test each: `fred_api.md`, section 3.1, 1 to 26.

A docstring starts with the number; the last test checks that no fault and no trap is missing.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fake_fred as ff
import fred_archives as made
from fake_fred import KEY, FakeFred, FakeSeries, growing_series
from fred_builds import FAST, archive, build, built, client, iso, points
from nowcast_alfred.catalog import load_catalog
from nowcast_alfred.errors import (
    InputError,
    KeyRefused,
    SeriesNotArchived,
    SeriesUnknown,
    SourceUnavailable,
    TooManyVintages,
)
from nowcast_alfred.sources import fred_build
from nowcast_alfred.sources.fred import KEY_VARIABLE, Fred
from nowcast_alfred.store import VintageStore, open_store

NOT_APPLICABLE = {
    "26": "a wish for vintages and as-of reads, which is this package",
    "T13": "a vintage is the day ALFRED took a value in: the store keeps it, and the docs say so",
}
PARAMETERS = {
    "series_id", "realtime_start", "realtime_end", "output_type", "limit", "offset", "file_type",
    "release_id", "search_text",
}  # fmt: skip


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeFred]:
    with FakeFred(made.archives(), made.TODAY, release_dates=made.RELEASE_DATES) as server:
        yield server


@pytest.fixture(scope="module")
def store(fake: FakeFred, tmp_path_factory: pytest.TempPathFactory) -> VintageStore:
    folder = tmp_path_factory.mktemp("faults") / "S"
    ids = ("GDP", "GDPC1", "FEDTARMD", "CPIAUCSL", "UNRATE", "DFF")
    return built(folder, fake, *ids)


def on(store: VintageStore, day: str, id: str) -> dict[str, float]:
    seen = store.view(day).observations(id)
    return dict(zip(map(iso, seen.period.tolist()), seen.value.tolist(), strict=True))


def test_a_series_with_more_vintages_than_a_request_may_cover_is_read(
    fake: FakeFred, store: VintageStore
) -> None:
    """1: 2,004 vintages; one call for all of them is a 400."""
    assert points(store, "DFF") == archive(fake.series["DFF"], made.TODAY)
    assert len(store.view(made.TODAY).vintages("DFF")) == made.DFF_DAYS
    with pytest.raises(TooManyVintages, match=r"There are 2004 vintage dates .* \(2000\)"):
        client(fake).changes("DFF", "1776-07-04", "9999-12-31")


@pytest.mark.parametrize("chunk", [1, 2, 3, 90])
def test_chunk_edges_leave_no_trace(fake: FakeFred, tmp_path: Path, chunk: int) -> None:
    """2: chunks clipped dates at their edges and repeated values there."""
    store = built(tmp_path, fake, "GDP", chunk=chunk)
    assert points(store, "GDP") == archive(fake.series["GDP"], made.TODAY)


def test_a_window_that_opens_late_moves_no_date(fake: FakeFred) -> None:
    """3: asked from 2006 on, no day of 2005 is "published" on the window's first day."""
    found = client(fake).changes("DFF", "2006-06-01", "2007-06-01")
    assert min(change.date for change in found) > "2006-05-26"
    assert all(change.vintage > change.date for change in found)


def test_as_of_gives_one_row_a_date(store: VintageStore) -> None:
    """4: 2013-10-01 had three values by 2014-06-01; only 17089.6 is right."""
    seen = store.view("2014-06-01").observations("GDP")
    assert len(set(seen.period.tolist())) == len(seen)
    assert on(store, "2014-06-01", "GDP")["2013-10-01"] == 17089.6


def test_a_value_that_did_not_change_is_not_missing(store: VintageStore) -> None:
    """5: of the projections of 2017-03-15 only one has a row of that day."""
    assert list(on(store, "2017-03-15", "FEDTARMD").values()) == [1.4, 2.1, 3.0]


def test_a_date_of_another_form_is_a_clear_error(fake: FakeFred, store: VintageStore) -> None:
    """6: '1/1/2015' is refused, and no revision of a date is lost to another one."""
    with pytest.raises(InputError, match="not a YYYY-MM-DD formatted date"):
        client(fake).changes("GDP", "1/1/2015", "9999-12-31")
    rows = store.view(made.TODAY).revisions("GDP", "2013-10-01")
    assert [value for _, value in rows] == [17102.5, 17080.7, 17089.6]


def test_dates_before_pandas_can_count_are_dates(tmp_path: Path) -> None:
    """7: search results from 1270-01-01 on, archives from 1650 on, and an end of 9999-12-31."""
    old = {"1270-01-01": [("2000-01-03", "1.0")]}
    less = {"1650-01-01": [("2000-01-03", "1.0")], "1650-02-01": [("2001-01-03", "2.0")]}
    with FakeFred([FakeSeries("OLD", old), FakeSeries("LESS", less)]) as fake:
        [found] = client(fake).search("Title of OLD")
        assert found["observation_start"] == "1270-01-01"
        store = built(tmp_path, fake, "LESS")
    assert on(store, "2002-01-01", "LESS") == {"1650-01-01": 1.0, "1650-02-01": 2.0}


def test_a_good_key_refused_in_a_loop_costs_nothing(fake: FakeFred, tmp_path: Path) -> None:
    """8: "api_key is not registered" now and then, after hundreds of good answers."""
    for id in ("UNRATE", "M1SL", "GDPC1"):
        fake.script(ff.key_not_registered(), series=id, after=2)
    report = build(tmp_path, fake, "GDP", "UNRATE", "ICSA", "M1SL", "GDPC1")
    assert report.failed == {}
    assert len(report.done) == 5


def test_two_vintages_of_a_date_can_be_told_apart(store: VintageStore) -> None:
    """9: GDPC1 2000-01-01 is 9192 in 2001-01-01 and 9102 in 2002-01-01."""
    assert on(store, "2001-01-01", "GDPC1")["2000-01-01"] == 9192.0
    assert on(store, "2002-01-01", "GDPC1")["2000-01-01"] == 9102.0


def test_a_dead_id_and_a_gateway_do_not_kill_the_batch(fake: FakeFred, tmp_path: Path) -> None:
    """10: 504, 504, then an unknown series, among good ones."""
    fake.script(ff.gateway_error(504), series="GDP", times=2)
    report = build(tmp_path, fake, "GDP", "NOPE", "UNRATE")
    assert report.done == ["GDP", "UNRATE"]
    assert report.failed == {
        "NOPE": "SeriesUnknown: NOPE: Bad Request.  The series does not exist."
    }


def test_a_time_out_is_no_misspelling_and_no_nothing(fake: FakeFred, tmp_path: Path) -> None:
    """11: a time-out was told as "did you misspell?", and later as NULL."""
    fake.script(ff.hang(), series="UNRATE", times=2)
    report = build(tmp_path, fake, "UNRATE", options={"timeout": 0.1, "tries": 2})
    assert re.match(r"SourceUnavailable: .*UNRATE.*ReadTimeout", report.failed["UNRATE"])
    assert report.manifest is None


def test_first_publication_days_differ_from_date_to_date(store: VintageStore) -> None:
    """12: the default window dates everything today."""
    view = store.view(made.TODAY)
    first = {view.revisions("GDP", date)[0][0] for date in made.GDP}
    assert len(first) == len({rows[0][0] for rows in made.GDP.values()}) > 9


def test_no_request_spans_more_vintages_than_are_allowed(fake: FakeFred, tmp_path: Path) -> None:
    """13: FRED counts the vintages of the window whatever the output type; type 4 is not used."""
    fake.clear_log()
    build(tmp_path, fake, "DFF")
    asked = fake.requests("series/observations")
    assert {request.params["output_type"] for request in asked} == {"1", "3"}
    for request in asked:
        start, end = request.params["realtime_start"], request.params["realtime_end"]
        days = fake.series["DFF"].vintages(made.TODAY)
        assert sum(start <= day <= end for day in days) <= fred_build.CHUNK < 2000


def test_no_view_sees_a_value_before_its_release(store: VintageStore) -> None:
    """14: on 2023-03-31 the CPI of March, released on 2023-04-12, is not there."""
    assert list(on(store, "2023-03-31", "CPIAUCSL"))[-1] == "2023-02-01"


def test_the_first_release_is_kept_and_every_parameter_is_one_that_fred_knows(
    fake: FakeFred, store: VintageStore, tmp_path: Path
) -> None:
    """15: UNRATE of August 2023 was 3.8; a misspelt parameter is answered with today's data."""
    outcome = store.outcome("UNRATE", "2023-08-01", "lin")
    assert (outcome.first, outcome.first_vintage, outcome.latest) == (3.8, "2023-09-01", 3.7)
    fake.clear_log()
    build(tmp_path, fake, "UNRATE")
    fred = client(fake)
    fred.search("GDP")
    fred.release_dates(10)
    assert {name for request in fake.log for name in request.params} == PARAMETERS


def test_being_too_fast_never_gives_a_part_of_the_data(tmp_path: Path) -> None:
    """16: 429s were taken for empty data; here they delay it, or fail the series."""
    series = [growing_series(f"S{at}", "2015-01-01", 30) for at in range(4)]
    with FakeFred(series, max_per_second=12, retry_after=0.05) as fake:
        store = built(tmp_path, fake, options={"tries": 60})
        assert fake.count(fault="rate") > 0
        for one in series:
            assert points(store, one.id) == archive(one, fake.today)


def test_the_series_asked_for_is_the_series_stored(fake: FakeFred, store: VintageStore) -> None:
    """17: CPI was the OECD's copy, a month late. Ids are FRED's, and no catalog has a copy."""
    assert store.meta("CPIAUCSL").release == "Consumer Price Index"
    assert {request.series for request in fake.requests("series/observations")} <= set(fake.series)
    for name in ("us-core", "us-wide"):
        ids = load_catalog(Path(__file__).parents[1] / "catalogs" / f"{name}.toml").series
        assert "CPIAUCSL" in ids
        assert not [id for id in ids if re.fullmatch(r"(CP|LR|NA|PR)[A-Z0-9]*(01|TT)USM\d+.*", id)]


def test_a_missing_key_is_said_before_anything_is_asked(
    fake: FakeFred, monkeypatch: pytest.MonkeyPatch
) -> None:
    """18: a demo key hid a missing one; requests had neither a time-out nor a second try."""
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    fake.clear_log()
    with pytest.raises(KeyRefused, match=KEY_VARIABLE):
        Fred(base_url=fake.base_url)
    assert fake.log == []
    plain = Fred(KEY, fake.base_url)._fetcher
    assert plain.client.timeout.read == plain.timeout == 60
    assert plain.tries == 6


def test_an_error_body_is_an_error(fake: FakeFred) -> None:
    """19: a 404 in JSON became KeyError 'observations'."""
    with pytest.raises(SeriesNotArchived, match="not available via the API"):
        client(fake).changes("GOLDPMGBD229NLBM", "2020-01-10", "2020-01-10")


def test_a_slow_gateway_is_left_after_the_time_out(fake: FakeFred) -> None:
    """20: a 504 that took very long to come, without a time-out on the client's side."""
    fake.script(ff.gateway_error(504, delay=30), times=math.inf)
    with pytest.raises(SourceUnavailable, match="ReadTimeout"):
        client(fake, timeout=0.1, tries=2).tags("GDP")
    fake.clear_scripts()


def test_a_day_without_data_is_a_day(store: VintageStore) -> None:
    """21: there is no CPI of October 2025, and looking then is no error."""
    assert list(on(store, "2025-11-15", "CPIAUCSL"))[-1] == "2025-09-01"
    seen = store.view("2025-10-15").observations("CPIAUCSL", start="2025-10-01", end="2025-10-31")
    assert len(seen) == 0


def test_nothing_is_invented_before_the_archive_starts(store: VintageStore) -> None:
    """22: GDPC1 has no vintages before its first, and no made-up ones."""
    days = store.view(made.TODAY).vintages("GDPC1")
    assert iso(int(days.min())) == "2000-01-28"


def test_revisions_are_numbered_by_their_days(store: VintageStore) -> None:
    """23: revision_number was always 0, since the real-time dates were thrown away."""
    rows = store.view(made.TODAY).revisions("GDPC1", "2000-01-01")
    assert rows == [("2001-01-01", 9192.0), ("2001-07-27", 9102.0), ("2003-12-10", 9695.6)]


def test_a_version_once_read_reads_the_same_for_ever(fake: FakeFred, tmp_path: Path) -> None:
    """24: a test of another package asserts today's GDP, which is revised."""
    fake.today = "2023-09-15"
    first = built(tmp_path, fake, "UNRATE")
    fake.today = made.TODAY
    build(tmp_path, fake, "UNRATE")
    again = open_store(tmp_path, first.fingerprint)
    for seen, latest in ((first, 3.8), (again, 3.8), (open_store(tmp_path), 3.7)):
        assert seen.outcome("UNRATE", "2023-08-01", "lin").latest == latest


def test_the_newest_month_is_there(fake: FakeFred, store: VintageStore) -> None:
    """25: a loader dropped the last row of each vintage."""
    for id in ("GDP", "CPIAUCSL", "DFF"):
        last = max(fake.series[id].periods(made.TODAY))
        assert max(point[0] for point in points(store, id)) == last


def test_an_unknown_series_and_one_without_archive_are_told_apart(fake: FakeFred) -> None:
    """Of no number: a typo was kept as an empty archive for ever."""
    with pytest.raises(SeriesUnknown):
        Fred(KEY, fake.base_url, rate=FAST).vintage_dates("UNRATTE")


def test_every_fault_and_every_trap_has_a_test_or_a_reason() -> None:
    found: set[str] = set()
    for path in Path(__file__).parent.glob("test_fred_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found |= set(re.findall(r"\A(T?\d+):", ast.get_docstring(node) or ""))
    wanted = {str(n) for n in range(1, 27)} | {f"T{n}" for n in range(1, 23)}
    assert found | NOT_APPLICABLE.keys() == wanted
    assert found.isdisjoint(NOT_APPLICABLE)
