"""The traps T1 to T22 of `fred_api.md`, section 2: each one sprung on a build.

A docstring starts with the trap's number; `test_fred_faults.py` checks that none is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import fred_archives as made
from fake_fred import FakeFred
from fred_builds import build, client, iso, points
from nowcast_alfred import periods as p
from nowcast_alfred.store import VintageStore, open_store
from nowcast_alfred.store.diff import difference
from nowcast_alfred.targets import Role, first_releases


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeFred]:
    with FakeFred(made.archives(), made.TODAY, release_dates=made.RELEASE_DATES) as server:
        yield server


@pytest.fixture(scope="module")
def root(fake: FakeFred, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traps") / "S"
    report = build(folder, fake)
    assert set(report.failed) == {"SP500", "GOLDPMGBD229NLBM"}
    assert set(report.left_out) == {"VIXCLS"}
    return folder


@pytest.fixture(scope="module")
def store(root: Path) -> VintageStore:
    return open_store(root)


def on(store: VintageStore, day: str, id: str = "GDP") -> dict[str, float]:
    """What a view of a day shows of a series."""
    seen = store.view(day).observations(id)
    return dict(zip(map(iso, seen.period.tolist()), seen.value.tolist(), strict=True))


def lags(store: VintageStore, id: str) -> dict[str, int]:
    seen = store.view(made.TODAY).releases(id)
    return dict(zip(map(iso, seen.period.tolist()), seen.lag.tolist(), strict=True))


def test_history_that_entered_late_holds_no_first_release(store: VintageStore) -> None:
    """T1: 1947 entered the archive in 1992, 1991 with its first vintage."""
    role = Role("q", "pca", 3660, "target", "", "granted")
    found = first_releases(store.changes("GDP"), role)
    periods = set(map(iso, found.period.tolist()))
    assert not periods & {"1947-01-01", "1991-07-01"}
    assert on(store, "1992-12-21") == {"1991-07-01": 5709.2}
    assert on(store, "1992-12-22")["1947-01-01"] == 226.7
    assert "1991-07-01" not in lags(store, "GDP")


def test_a_withdrawn_value_is_absent_and_the_one_before_it_stays_dead(store: VintageStore) -> None:
    """T2: on 1999-10-28 everything but the new quarter is "."."""
    assert on(store, "1999-10-27")["1991-07-01"] == 5950.2
    assert on(store, "1999-10-28") == {"1999-07-01": 9247.5}
    assert on(store, "1999-10-29")["1991-07-01"] == 6015.9
    assert ("1991-07-01", "1999-10-28", None) in points(store, "GDP")
    assert "2003-07-01" not in on(store, "2003-12-22")
    assert on(store, "2003-12-23")["2003-07-01"] == 11107.0


def test_no_edge_of_a_window_is_taken_for_a_publication(fake: FakeFred, tmp_path: Path) -> None:
    """T3: GNPCA 2018 asked from 2019-05-01 would show 2019-05-01; its days are March and July."""
    found = client(fake).changes("GNPCA", "2019-05-01", "2020-05-01")
    assert [(change.vintage, change.value) for change in found] == [("2019-07-26", 18985.0)]
    build(tmp_path, fake, "GNPCA", chunk=1)
    build(tmp_path, fake, "DFF", chunk=97)
    for id in ("GNPCA", "DFF"):
        vintages = {vintage for _, vintage, _ in points(open_store(tmp_path), id)}
        assert vintages == set(fake.series[id].vintages(made.TODAY))


def test_a_day_sees_one_value_of_a_period_and_the_right_one(store: VintageStore) -> None:
    """T4: as of 2014-06-01 2013Q4 is 17089.6, the last of three rows."""
    seen = store.view("2014-06-01").observations("GDP", start="2013-10-01", end="2013-10-01")
    assert seen.value.tolist() == [17089.6]
    assert on(store, "2014-03-26")["2013-10-01"] == 17080.7


def test_growth_is_computed_inside_the_release_vintage(store: VintageStore) -> None:
    """T5: 2013Q2 grew 2.39 % a year, and not the 16.5 % of two vintages."""
    outcome = store.outcome("GDP", "2013-04-01", "pca")
    assert outcome.first == pytest.approx(2.39, abs=0.01)
    assert outcome.first_vintage == "2013-07-31"


def test_a_change_of_units_shows_from_its_day_on(store: VintageStore) -> None:
    """T6: INDPRO is an index of 2012 until 2021-05-27 and of 2017 from then on."""
    assert store.view("2021-05-27").meta("INDPRO").units == "Index 2012=100"
    assert store.view("2021-05-28").meta("INDPRO").units == "Index 2017=100"
    assert on(store, "2021-05-27", "INDPRO")["2018-06-01"] == 107.7
    first = store.outcome("INDPRO", "2018-07-01", "chg").first
    assert first == pytest.approx(108.0 - 107.7)


def test_another_rounding_is_kept_and_ranks_last_among_revisions(
    fake: FakeFred, tmp_path: Path
) -> None:
    """T7: 16999.9 becomes 16999.888 on 2017-10-27, which is a revision of no size."""
    fake.today = "2017-10-01"
    build(tmp_path, fake, "GDP")
    old = open_store(tmp_path)
    fake.today = made.TODAY
    build(tmp_path, fake, "GDP")
    assert on(open_store(tmp_path), "2017-10-27")["2014-01-01"] == 16999.888
    rows = difference(old, open_store(tmp_path)).revisions
    smallest = rows[-1]
    assert (smallest.series_id, smallest.before, smallest.after) == ("GDP", 16999.9, 16999.888)
    assert smallest.size < 0.001 < rows[0].size


def test_a_vintage_that_rewrites_years_is_read_whole(store: VintageStore) -> None:
    """T8: the new base of 2021-05-28 changes all values at once."""
    rewritten = [point for point in points(store, "INDPRO") if point[1] == "2021-05-28"]
    assert len(rewritten) == 3
    assert len([point for point in points(store, "GDP") if point[1] == "1999-10-28"]) == 4


def test_late_releases_keep_the_lags_they_had(store: VintageStore) -> None:
    """T9: shutdowns: 54, 38 and 59 days instead of 29."""
    seen = lags(store, "GDP")
    assert [seen[f"{q}-01"] for q in ("1995-10", "2013-07", "2018-10")] == [54, 38, 59]


def test_an_unchanged_value_is_still_known(store: VintageStore) -> None:
    """T10: the projections of 2017-03-15 are 1.4, 2.1 and 3.0, though one of them is a row."""
    years = on(store, "2017-03-15", "FEDTARMD")
    assert years == {"2017-01-01": 1.4, "2018-01-01": 2.1, "2019-01-01": 3.0}


def test_the_hole_of_october_2025_stays_a_hole(store: VintageStore) -> None:
    """T11: a "." for good, and the next month comes all the same."""
    view = store.view("2026-01-31")
    assert list(on(store, "2026-01-31", "CPIAUCSL"))[-2:] == ["2025-09-01", "2025-11-01"]
    assert view.revisions("CPIAUCSL", "2025-10-01") == [("2025-12-18", None)]
    changes = view.observations("CPIAUCSL", start="2025-09-01", units="chg")
    assert p.to_days("2025-11-01") not in changes.period.tolist()


def test_a_shutdown_of_2013_moved_two_releases(store: VintageStore) -> None:
    """T12: September's CPI came on 2013-10-30, October's on 2013-11-20."""
    assert "2013-09-01" not in on(store, "2013-10-29", "CPIAUCSL")
    assert store.outcome("CPIAUCSL", "2013-10-01", "lin").first_vintage == "2013-11-20"


def test_a_view_of_a_day_has_what_came_that_day(store: VintageStore) -> None:
    """T14: vintages are days; before the release means the day before."""
    assert "2013-07-01" not in on(store, "2013-11-06")
    assert "2013-07-01" in on(store, "2013-11-07")


def test_a_mended_vintage_does_not_hide_the_broken_one(store: VintageStore) -> None:
    """T15: 1999-10-28 and 1999-10-29 are two vintages."""
    vintages = set(map(iso, store.view(made.TODAY).vintages("GDP").tolist()))
    assert {"1999-10-28", "1999-10-29"} <= vintages


def test_series_that_cannot_be_had_are_named_with_the_reason(
    fake: FakeFred, tmp_path: Path
) -> None:
    """T16: not archived, withdrawn by the owner, unknown, in need of approval: and the rest."""
    report = build(tmp_path, fake, "SP500", "GOLDPMGBD229NLBM", "STLFSI9", "VIXCLS", "UNRATE")
    assert report.done == ["UNRATE"]
    assert report.failed["SP500"].startswith("SeriesNotArchived: SP500: ALFRED has no vintages")
    assert "not available via the API" in report.failed["GOLDPMGBD229NLBM"]
    assert report.failed["STLFSI9"].startswith("SeriesUnknown: STLFSI9")
    assert "pre-approval required" in report.left_out["VIXCLS"]


def test_a_week_starts_on_its_first_day(store: VintageStore) -> None:
    """T17: the week that ends on Saturday 2024-01-06 starts on Sunday 2023-12-31; one that is
    dated by a Wednesday keeps it; holidays of daily series are "."."""
    assert list(on(store, "2024-02-01", "ICSA")) == ["2023-12-31", "2024-01-07"]
    assert lags(store, "ICSA") == {"2024-01-07": 5}
    assert list(on(store, "2024-02-01", "WALCL")) == ["2024-01-03", "2024-01-10"]
    assert store.meta("ICSA").frequency == store.meta("WALCL").frequency == "w"
    holidays = {point[0] for point in points(store, "DFF") if point[2] is None}
    assert "2005-07-04" in holidays
    assert "2005-07-04" not in on(store, "2006-01-01", "DFF")


def test_a_survey_may_come_before_its_month_ends(store: VintageStore) -> None:
    """T18: Empire's October is out on the 15th."""
    assert lags(store, "EMPIRE") == {"2024-10-01": -16}
    assert on(store, "2024-10-15", "EMPIRE")["2024-10-01"] == -11.9


def test_a_new_definition_is_a_new_vintage_and_the_old_level_stays(store: VintageStore) -> None:
    """T19: M1 of May 2020 trebled with a definition."""
    assert on(store, "2021-02-22", "M1SL")["2020-05-01"] == 5035.3
    assert on(store, "2021-02-23", "M1SL")["2020-05-01"] == 16232.7


def test_no_request_names_a_day_of_this_machine(fake: FakeFred, tmp_path: Path) -> None:
    """T20: every date asked for is an end of time or one of FRED's own vintage dates."""
    fake.clear_log()
    build(tmp_path, fake, "GDP", "ICSA", "DFF")
    known = {"1776-07-04", "9999-12-31"}
    for series in fake.series.values():
        known |= set(series.vintages(made.TODAY))
    for request in fake.log:
        days = {request.params.get(name) for name in ("realtime_start", "realtime_end")}
        assert days - {None} <= known


def test_release_dates_are_no_vintages(fake: FakeFred, store: VintageStore) -> None:
    """T21: seasonal factors are a release without a vintage; a hole is a vintage without one."""
    released = set(client(fake).release_dates(10))
    vintages = set(map(iso, store.view(made.TODAY).vintages("CPIAUCSL").tolist()))
    assert "2023-02-10" in released - vintages
    assert "2025-12-18" in vintages - released


def test_what_was_current_is_not_when_it_is_revised(fake: FakeFred, tmp_path: Path) -> None:
    """T22: a value that was open-ended is closed by the next build; nothing stored says 9999."""
    fake.today = "2014-02-27"
    build(tmp_path, fake, "GDP")
    assert on(open_store(tmp_path), "2014-03-01")["2013-10-01"] == 17102.5
    fake.today = made.TODAY
    build(tmp_path, fake, "GDP")
    assert on(open_store(tmp_path), "2014-03-01")["2013-10-01"] == 17080.7
    assert on(open_store(tmp_path), "2014-02-27")["2013-10-01"] == 17102.5
    assert max(point[1] for point in points(open_store(tmp_path), "GDP")) < "9999"
