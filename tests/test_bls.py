"""BLS' archive of payroll vintages: what each day knew is what the publications say, bad places are
named, and the download comes whole or not at all."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bls_archives import (
    JUNE_2023,
    Server,
    calendar,
    industry,
    invented,
    months,
    packed,
    release_days,
    triangle,
    whole,
)
from nowcast_alfred import recheck
from nowcast_alfred.catalog import Catalog, load_catalog
from nowcast_alfred.errors import (
    CatalogError,
    ConfigError,
    HistoryChanged,
    InputError,
    QueryError,
    SourceError,
    SourceUnavailable,
    StoreLocked,
)
from nowcast_alfred.periods import iso, period_end, shift, to_days
from nowcast_alfred.sources.bls import LICENCE, Summary, fetch_archive, read_archive
from nowcast_alfred.sources.download import LOCK, check_zip, download
from nowcast_alfred.store import SeriesInput, VintageStore, open_store, publish
from nowcast_alfred.store.files import exclusive
from nowcast_alfred.store.schema import content_hash, normalise
from nowcast_alfred.stream import Stream
from nowcast_alfred.targets import SpaceConfig, build_space
from nowcast_alfred.task import make_data

CATALOGS = Path(__file__).resolve().parents[1] / "catalogs"
PAYROLLS = load_catalog(CATALOGS / "us-payrolls.toml")
NONFARM, UNADJUSTED = "CES0000000001", "CEU0000000001"
CONTACT = "someone@example.org"


@pytest.fixture(scope="module")
def archive() -> bytes:
    return whole()


@pytest.fixture(scope="module")
def bracketed(archive: bytes, tmp_path_factory: pytest.TempPathFactory) -> VintageStore:
    """The store without a calendar."""
    folder = tmp_path_factory.mktemp("bracketed")
    publish(folder, read_archive(archive, PAYROLLS, unadjusted=True))
    return open_store(folder)


@pytest.fixture(scope="module")
def dated(archive: bytes, tmp_path_factory: pytest.TempPathFactory) -> VintageStore:
    """The store with a calendar."""
    folder = tmp_path_factory.mktemp("dated")
    path = folder / "calendar.csv"
    path.write_text(calendar(release_days()))
    publish(folder / "store", read_archive(archive, PAYROLLS, unadjusted=True, calendar=path))
    return open_store(folder / "store")


def known(store: VintageStore, day: str, series_id: str = NONFARM) -> dict[str, float]:
    """Month -> value, as known on a day; nothing before the series' first publication."""
    try:
        seen = store.view(day).observations(series_id)
    except QueryError:
        return {}
    return {iso(p)[:7]: v for p, v in zip(seen.period, seen.value.tolist(), strict=True)}


def only(text: str, code: str = "000000", **settings: Any) -> SeriesInput:
    """The series of an archive with one adjusted member."""
    (item,) = read_archive(packed({f"tri_{code}_SA.csv": text}), PAYROLLS, **settings)
    return item


def points(item: SeriesInput) -> list[tuple[str, str, float | None, str | None]]:
    """Change points as text."""
    return [
        (
            str(row["period"])[:7],
            str(row["vintage"]),
            row["value"],
            row["vintage_lower"] and str(row["vintage_lower"]),
        )
        for row in item.table.to_pylist()
    ]


# -------------------------------------------------------------------------------- what it reads


def test_june_2023_reads_what_bls_published_of_it(
    bracketed: VintageStore, dated: VintageStore
) -> None:
    days = release_days()
    for row, value in JUNE_2023.items():
        assert known(dated, days[row])["2023-06"] == value
        after = iso(shift(to_days(f"{row}-01"), "m", 2) - 1)  # the end of the month it came out in
        assert known(bracketed, after)["2023-06"] == value
    assert days["2023-06"] == "2023-07-07"
    assert "2023-06" not in known(dated, "2023-07-06")
    assert "2023-06" not in known(bracketed, "2023-07-30")
    assert known(dated, days["2023-12"])["2023-06"] == 156_075
    assert known(dated, "2026-03-01")["2023-06"] == 155_871
    changes = [v for p, _, v, _ in points_of(dated) if p == "2023-06"]
    assert changes == [*JUNE_2023.values(), 155_871]


def points_of(store: VintageStore, series_id: str = NONFARM) -> list[tuple[str, str, float, str]]:
    changes = store.changes(series_id)
    return [
        (iso(p)[:7], iso(v), float(x), str(low))
        for p, v, x, low in zip(
            changes.columns.period,
            changes.columns.vintage,
            changes.columns.value,
            changes.columns.lower,
            strict=True,
        )
    ]


def test_change_points_only_with_blanks_withdrawals_and_returns() -> None:
    text = "\n".join(
        [
            "year,month,Mar_03,Apr_03,May_03,Jun_03,Jul_03,Aug_03",
            "2003,5,10,,30,,,",  # April is not in the first publication
            "2003,6,10,20,30.5,40,,",
            "2003,7,,20,30.5,41,50,",  # March is withdrawn
            ",,,,,,,",
            "2003,8,11,20,30.5,41,50,60",  # and comes back
            "",
        ]
    )
    item = only(text)
    may, june, july, august = (
        ("2003-06-30", "2003-05-31"),
        ("2003-07-31", "2003-06-30"),
        ("2003-08-31", "2003-07-31"),
        ("2003-09-30", "2003-08-31"),
    )
    assert points(item) == [
        ("2003-03", may[0], 10, may[1]),
        ("2003-03", july[0], None, july[1]),
        ("2003-03", august[0], 11, august[1]),
        ("2003-04", june[0], 20, june[1]),
        ("2003-05", may[0], 30, may[1]),
        ("2003-05", june[0], 30.5, june[1]),
        ("2003-06", june[0], 40, june[1]),
        ("2003-06", july[0], 41, july[1]),
        ("2003-07", july[0], 50, july[1]),
        ("2003-08", august[0], 60, august[1]),
    ]
    assert content_hash(item.table) == content_hash(normalise(item.table, "again"))
    assert only("\ufeff" + text.replace("\n", "\r\n")).table == item.table
    spaced = (
        text.replace("year,month", "Year, Month").replace(",20,", ", 20 ,").replace("10,,", "10, ,")
    )
    assert only(spaced).table == item.table  # read slowly


def test_a_publication_without_any_value_changes_nothing() -> None:
    rows, columns = months("2023-01", "2023-04"), months("2022-01", "2023-04")
    value = industry("200000")
    full = only(triangle([r for r in rows if r != "2023-03"], columns, value), "200000")
    gap = triangle(rows, columns, lambda row, m: None if row == "2023-03" else value(row, m))
    assert only(gap, "200000").table == full.table


def test_two_digit_years_turn_at_1939() -> None:
    text = triangle(["2038-12"], months("1939-01", "2038-12"), lambda row, month: 7)
    assert [p for p, *_ in points(only(text))] == months("1939-01", "2038-12")
    with pytest.raises(InputError, match="line 1, column Jan_39: comes after 2038-12"):
        only(text.replace("Dec_38", "Dec_38,Jan_39"))


def test_the_summary_says_what_was_left_out_and_what_is_absent(archive: bytes) -> None:
    summary = Summary()
    seen: list[str] = []
    found = read_archive(archive, PAYROLLS, summary=summary, progress=seen.append)
    ids = [NONFARM, "CES2000000001", "CES4244900001"]
    assert [item.id for item in found] == seen == ids
    assert all(item.complete and item.retrieved_at for item in found)
    assert (summary.series, summary.publications) == (3, 273)
    assert (summary.first, summary.last) == ("2003-05", "2026-01")
    assert summary.left_out == {
        "readme.txt": "is not named tri_CCCCCC_SA.csv or _NSA.csv",
        "tri_999999_SA.csv": "CES9999990001 is not in the catalog",
    }
    assert len(summary.absent) == len(PAYROLLS.series) - 3
    assert "CES3000000001" in summary.absent
    empty = packed(
        {
            "folder/": "",
            "folder/TRI_000000_sa.CSV": "year,month,Jan_03,May_03\n2003,5,1,2\n",
            "folder/tri_050000_SA.csv": "year,month,May_03\n2003,5,\n",
            "tri_060000_SA.csv": "year,month,May_03",
            "__MACOSX/._tri_000000_SA.csv": "",
        }
    )
    summary = Summary()
    assert [item.id for item in read_archive(empty, PAYROLLS, summary=summary)] == [NONFARM]
    assert summary.left_out == {
        "folder/tri_050000_SA.csv": "has no values",
        "tri_060000_SA.csv": "has no values",
    }


def test_unadjusted_series_come_on_request_from_the_same_entries(archive: bytes) -> None:
    (first, second) = read_archive(archive, PAYROLLS, adjusted=False, unadjusted=True)
    assert (first.id, second.id) == (UNADJUSTED, "CEU2000000001")
    (meta,) = first.meta
    assert meta.title == "All Employees, Total Nonfarm"
    assert (meta.seasonal_adjustment, meta.transform) == ("Not Seasonally Adjusted", "ch1")
    with pytest.raises(ConfigError, match="neither"):
        read_archive(archive, PAYROLLS, adjusted=False)


def test_a_series_that_begins_with_a_new_classification_has_only_its_own_vintages(
    bracketed: VintageStore,
) -> None:
    assert not known(bracketed, "2022-02-27", "CES4244900001")
    first = known(bracketed, "2022-02-28", "CES4244900001")
    assert (min(first), max(first)) == ("1990-01", "2022-01")


def test_every_series_is_public_domain_and_says_so(bracketed: VintageStore) -> None:
    for series_id in bracketed.series_ids:
        meta = bracketed.meta(series_id)
        assert (meta.source, meta.training, meta.licence) == ("BLS", "granted", LICENCE)
        assert meta.attribution == "Source: U.S. Bureau of Labor Statistics"


def test_rights_a_catalog_leaves_open_are_those_of_bls(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    text = (CATALOGS / "us-payrolls.toml").read_text()
    path.write_text(re.sub(r"(?m)^(source|training|licence|attribution) = .*$", "", text))
    archive = packed({"tri_000000_SA.csv": "year,month,May_03\n2003,5,1\n"})
    (item,) = read_archive(archive, load_catalog(path))
    assert (item.meta[0].source, item.meta[0].training) == ("BLS", "granted")
    assert item.meta[0].licence == LICENCE


labels = st.lists(
    st.sampled_from(months("2023-01", "2023-12")), min_size=1, max_size=8, unique=True
)
cells = st.one_of(st.none(), st.integers(0, 3), st.sampled_from([1.5, 1e3, 0.1]))


@settings(max_examples=60, deadline=None)
@given(rows=labels, data=st.data(), exact=st.booleans())
def test_each_day_knows_what_the_publication_before_it_says(
    rows: list[str], data: st.DataObject, exact: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = sorted(rows)
    columns = months("2022-10", "2023-12")
    table = {(r, c): data.draw(cells) for r in rows for c in columns if c <= r}
    table[rows[0], rows[0]] = 1
    text = triangle(rows, columns, lambda row, month: table[row, month])
    days = {r: iso(shift(to_days(f"{r}-01"), "m", 2) - 1) for r in rows}
    path = None
    if exact:
        days = {
            r: iso(shift(to_days(f"{r}-01"), "m", 1) + data.draw(st.integers(0, 27))) for r in rows
        }
        path = tmp_path_factory.mktemp("calendar") / "days.csv"
        path.write_text(calendar(days))
    item = only(text, calendar=path)
    store = VintageStore.from_tables({NONFARM: normalise(item.table, NONFARM)}, item.meta)
    said: dict[str, float] = {}
    for row in rows:
        day = days[row]
        assert known(store, iso(to_days(day) - 1)) == said
        shown = {c: float(v) for (r, c), v in table.items() if r == row and v is not None}
        said = shown or said
        assert known(store, day) == said
    lower = {row[3] for row in points(item)}
    assert (lower == {None}) is exact


# ------------------------------------------------------------------------------ publication days


def month_ends(store: VintageStore, series_id: str) -> dict[str, tuple[str, str]]:
    space = build_space(store, SpaceConfig(series=[series_id], split="all"))
    targets = space.series[series_id]
    return {
        iso(p)[:7]: (iso(low), iso(high))
        for p, low, high in zip(targets.period, targets.low, targets.high, strict=True)
    }


@pytest.mark.parametrize("series_id", [NONFARM, UNADJUSTED, "CES2000000001"])
def test_without_a_calendar_a_task_is_asked_at_the_end_of_its_month_only(
    bracketed: VintageStore, series_id: str
) -> None:
    windows = month_ends(bracketed, series_id)
    # The first publication is no release; that of the shutdown could not be foreseen.
    asked = [m for m in months("2003-06", "2026-01") if m not in ("2025-09", "2025-10", "2025-11")]
    assert list(windows) == asked
    for month, window in windows.items():
        assert window == (iso(period_end(to_days(f"{month}-01"), "m")),) * 2
    stream = Stream(bracketed, SpaceConfig(series=[series_id], split="all"))
    for n in range(300):
        draw = stream.draw(n)
        assert draw.as_of == period_end(draw.period, "m")


def test_with_a_calendar_a_task_is_asked_from_one_release_to_the_day_before_the_next(
    dated: VintageStore,
) -> None:
    days = release_days()
    windows = month_ends(dated, NONFARM)
    assert windows["2023-06"] == (days["2023-05"], "2023-07-06")
    for month, (low, high) in windows.items():
        before = months("2003-05", month)[-2]
        assert (low, high) == (days[before], iso(to_days(days[month]) - 1))
    assert set(months("2003-06", "2026-01")) - windows.keys() == {"2025-09", "2025-10", "2025-11"}


def test_months_that_share_a_release_appear_on_its_day_and_the_later_row_has_the_last_word(
    archive: bytes, dated: VintageStore, bracketed: VintageStore
) -> None:
    on, before = known(dated, "2025-12-16"), known(dated, "2025-12-15")
    assert max(before) == "2025-09"
    assert on["2025-10"] == invented("000000", "2025-11", "2025-10")  # not what its own row says
    assert on["2025-11"] == invented("000000", "2025-11", "2025-11")
    assert not [v for _, v, *_ in points_of(dated) if "2025-11-20" < v < "2025-12-16"]
    text = "year,month,Sep_25,Oct_25,Nov_25\n2025,9,1,,\n2025,10,2,3,\n2025,11,,4,5\n"
    assert points(only(text)) == [
        ("2025-09", "2025-11-30", 1, "2025-09-30"),
        ("2025-09", "2025-12-31", 2, "2025-11-30"),  # the later row leaves it out
        ("2025-10", "2025-12-31", 4, "2025-11-30"),
        ("2025-11", "2025-12-31", 5, "2025-11-30"),
    ]
    # Nothing is shown before it was out, with or without a calendar.
    for store in (dated, bracketed):
        assert max(known(store, "2025-10-31")) == "2025-08"
        assert max(known(store, "2025-11-19")) == "2025-08"
        assert max(known(store, "2025-11-30")) == "2025-09"
        assert max(known(store, "2025-12-15")) == "2025-09"
        assert max(known(store, "2025-12-31")) == "2025-11"


def test_rows_that_a_calendar_does_not_list_are_bracketed(tmp_path: Path) -> None:
    text = triangle(months("2023-05", "2023-07"), months("2023-04", "2023-07"), lambda r, m: r[-1])
    path = tmp_path / "days.csv"
    path.write_text(
        "\ufeffRelease,Reference Month,Day,Delayed\r\n"
        "Consumer Price Index,2023-06,2023-07-12,\r\n"
        "employment situation,2023-06,2023-07-07,no\r\n\r\n"
    )
    dates = {(vintage, lower) for _, vintage, _, lower in points(only(text, calendar=path))}
    assert dates == {
        ("2023-06-30", "2023-05-31"),
        ("2023-07-07", None),
        ("2023-08-31", "2023-07-31"),
    }


def test_a_delay_must_be_said_to_be_one(tmp_path: Path) -> None:
    rows = months("2030-01", "2030-03")
    text = triangle(rows, months("2029-12", "2030-03"), lambda row, month: int(row[-1]))
    path = tmp_path / "days.csv"
    path.write_text(calendar({"2030-01": "2030-03-04"}))
    with pytest.raises(InputError, match=r"days.csv, line 2, column day: 2030-03-04 .* delayed"):
        only(text, calendar=path)
    head = "release,reference_month,day,delayed\n"
    path.write_text(head + "Employment Situation,2030-01,2030-03-04,yes\n")
    vintages = {vintage for _, vintage, _, _ in points(only(text, calendar=path))}
    assert vintages == {"2030-03-04", "2030-03-31", "2030-04-30"}
    path.write_text(head + "Employment Situation,2030-01,2030-04-02,yes\n")
    with pytest.raises(InputError, match=r"2030-01 out on 2030-04-02 .* 2030-02"):
        only(text, calendar=path)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (",2023-06,2023-06-30", ("column day", "2023-06-30", "after 2023-06-30", "2023-07-31")),
        (",2023-06,2023-08-01", ("column day", "up to 2023-07-31", "delayed")),
        (",2023-6,2023-07-07", ("column reference_month", "'2023-6'", "YYYY-MM")),
        (",2023-13,2023-07-07", ("column reference_month", "'2023-13'")),
        (",2023-06,07/07/2023", ("column day", "'07/07/2023'", "YYYY-MM-DD")),
        (",2023-06,", ("column day", "''")),
        (",2023-06,2023-07-07,x", ("has 4 fields, the header 3",)),
        (",2023-05,2023-06-02", ("column reference_month", "2023-05 is given twice", "line 2")),
    ],
)
def test_a_bad_day_is_named_with_its_file_row_and_column(
    tmp_path: Path, row: str, words: tuple[str, ...]
) -> None:
    path = tmp_path / "days.csv"
    path.write_text(calendar({"2023-05": "2023-06-02"}) + row + "\n")
    with pytest.raises(InputError) as caught:
        only("year,month,May_03\n2003,5,1\n", calendar=path)
    assert str(caught.value).startswith(f"{path}, line 3")
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("release,day\n", "needs the column.s. reference_month"),
        (calendar({"2023-06": "2023-07-12"}, "Consumer Price Index"), "has Consumer Price Index"),
        ("release,reference_month,day,delayed\n,2023-06,2023-07-07,perhaps\n", "column delayed"),
        (
            calendar({"2025-09": "2025-11-20", "2025-10": "2025-11-07"}),
            "line 3, column day: 2025-10",
        ),
        (b"\xff\xfe\x00", "is not CSV in UTF-8"),
    ],
)
def test_a_calendar_that_is_none_is_refused(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    path = tmp_path / "days.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=message):
        only("year,month,May_03\n2003,5,1\n", calendar=path)
    with pytest.raises(InputError, match="cannot be read"):
        only("year,month,May_03\n2003,5,1\n", calendar=tmp_path / "none.csv")


# ------------------------------------------------------------------------------------- the store


def test_200_tasks_follow_from_the_raw_rows(bracketed: VintageStore, dated: VintageStore) -> None:
    for store in (bracketed, dated):
        stream = Stream(store, SpaceConfig(split="all", rights="granted"))
        roles = {key: targets.role for key, targets in stream.space.series.items()}
        assert set(roles) == set(store.series_ids)
        for n in range(200):
            draw = stream.draw(n)
            data = make_data(store, draw, roles[draw.series_id].transform)
            assert recheck.faults(store.uri, data) == []


def test_a_later_archive_only_adds_and_a_changed_past_is_refused(tmp_path: Path) -> None:
    columns = months("2020-01", "2024-01")
    value = industry("000000")

    def build(last: str, change: Any = value) -> str:
        text = triangle(months("2023-01", last), columns, change)
        return publish(tmp_path, [only(text)]).fingerprint

    first = build("2023-11")
    assert build("2023-11") == first
    assert build("2023-12") != first
    with pytest.raises(HistoryChanged, match="CES0000000001 2022-05-01 in vintage 2023-07-31"):
        build(
            "2024-01",
            lambda row, m: 1 if (row, m) == ("2023-06", "2022-05") else value(row, m),
        )


def test_the_shipped_catalog_has_the_industries_and_states_no_later_fact() -> None:
    assert PAYROLLS.name == "us-payrolls"
    assert 105 <= len(PAYROLLS.series) <= 120
    for id, entry in PAYROLLS.series.items():
        assert re.fullmatch(r"CES\d{6}0001", id)
        assert not entry.missing()
        assert (entry.source, entry.training, entry.role) == ("BLS", "granted", "target")
        assert not re.search(r"\d{4}|discontinued", f"{entry.title} {entry.units}")
    assert len({entry.title for entry in PAYROLLS.series.values()}) == len(PAYROLLS.series)
    codes = ["00", "20", "30", "40", "50", "55", "60", "65", "70"]
    assert {f"CES{code}00000001" for code in codes} <= PAYROLLS.series.keys()


# ---------------------------------------------------------------------------------------- errors

GOOD = "year,month,Apr_23,May_23,Jun_23\n2023,5,10,20,\n2023,6,10,21,30\n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (",30", ",x", ("line 3, row 2023-06, column Jun_23: 'x' is not a number",)),
        (",30", ",nan", ("line 3, row 2023-06, column Jun_23: 'nan'",)),
        (",30", ",inf", ("line 3, row 2023-06, column Jun_23: 'inf'",)),
        (",30", ",1e999", ("line 3, row 2023-06, column Jun_23: '1e999'",)),
        (",21,", ",-21,", ("line 3, row 2023-06, column May_23: '-21'",)),
        (",21,", ',"1,021",', ("line 3, row 2023-06, column May_23: '1,021'",)),
        (",21,", ",N/A,", ("line 3, row 2023-06, column May_23: 'N/A'",)),
        (
            ",20,\n",
            ",20,30\n",
            ("line 2, row 2023-05, column Jun_23: has a value", "earlier month"),
        ),
        ("2023,6", "2023,5", ("line 3, row 2023-05, column month: is not after the row above",)),
        ("2023,6", "2023,13", ("line 3, column month: '13' is not a month from 1 to 12",)),
        ("2023,6", "2023,5.5", ("line 3, column month: '5.5'",)),
        ("2023,5", "23,5", ("line 2, column year: '23' is not a year from 1939",)),
        ("2023,5", ",5", ("line 2, column year: ''",)),
        (",30\n", "\n", ("line 3: has 4 fields, the header 5",)),
        (",30\n", ",30,1\n", ("line 3: has 6 fields, the header 5",)),
        ("\n2023,6,10,21,30\n", "\n\n2023,6,10,21,?\n", ("line 4, row 2023-06, column Jun_23",)),
        ("May_23", "May-23", ("line 1, column 'May-23': is not a month such as Jan_39",)),
        ("May_23", "Mai_23", ("line 1, column 'Mai_23'",)),
        ("Apr_23", "Jun_23", ("line 1, column May_23: comes after 2023-06",)),
        ("May_23", "Apr_23", ("line 1, column Apr_23: comes after 2023-04",)),
        ("year,month", "month,year", ("line 1: the header is year,month,Jan_39",)),
        (GOOD, "year,month\n2023,5\n", ("line 1: the header is",)),
        (GOOD, "<html>no such page</html>", ("line 1: the header is", "<html>")),
        (GOOD, "", ("line 1: the header is",)),
    ],
)
def test_an_error_names_member_row_and_column_and_nothing_is_given_out(
    tmp_path: Path, old: str, new: str, words: tuple[str, ...]
) -> None:
    assert old in GOOD
    path = tmp_path / "own.zip"
    bad = GOOD.replace(old, new)
    path.write_bytes(packed({"tri_000000_SA.csv": GOOD, "tri_200000_SA.csv": bad}))
    with pytest.raises(InputError) as caught:
        read_archive(path, PAYROLLS)
    message = str(caught.value)
    assert message.startswith(f"{path}, tri_200000_SA.csv, ")
    assert all(word in message for word in words), message


def test_text_that_is_not_utf_8_is_named_by_line() -> None:
    for at, line in ((b"10,21", 3), (b"month", 1)):
        bad = GOOD.encode().replace(at, at + b"\xff")
        with pytest.raises(InputError, match=rf"tri_000000_SA.csv, line {line}: is not .*UTF-8"):
            read_archive(packed({"tri_000000_SA.csv": bad}), PAYROLLS)


def test_an_archive_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.zip"
    page.write_text("\n<!DOCTYPE html><html><body>year,month,May_03</body></html>")
    with pytest.raises(InputError, match=r"page.zip: is a web page \(HTML\), not a zip archive"):
        read_archive(page, PAYROLLS)
    with pytest.raises(InputError, match="the archive: is not a zip archive: it starts with"):
        read_archive(GOOD.encode(), PAYROLLS)
    with pytest.raises(InputError, match="is empty"):
        read_archive(b"", PAYROLLS)
    with pytest.raises(InputError, match="cannot be read"):
        read_archive(tmp_path / "none.zip", PAYROLLS)
    whole = packed({"tri_000000_SA.csv": GOOD})
    with pytest.raises(InputError, match="damaged zip archive"):
        read_archive(whole[:60], PAYROLLS)
    at = whole.index(b"tri_000000_SA.csv") + 30
    flipped = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    with pytest.raises(InputError, match=r"tri_000000_SA.csv: is damaged.*get https"):
        read_archive(flipped, PAYROLLS)
    with pytest.raises(
        InputError, match=r"b/tri_000000_SA.csv: .* is in a/tri_000000_SA.csv already"
    ):
        read_archive(packed({f"{f}/tri_000000_SA.csv": GOOD for f in "ab"}), PAYROLLS)
    with pytest.raises(InputError, match=r"has no member of a series of .*us-payrolls.toml"):
        read_archive(packed({"tri_000000_NSA.csv": GOOD}), PAYROLLS)
    others = Catalog("others", {"PAYEMS": PAYROLLS.series[NONFARM]})
    with pytest.raises(CatalogError, match="others: has no series of BLS"):
        read_archive(whole, others)


# -------------------------------------------------------------------------------------- download


def fetch(server: Server, folder: Path, **settings: Any) -> Any:
    return fetch_archive(CONTACT, folder, url=server.url, backoff=0.01, **settings)


def leftovers(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {LOCK}


def test_a_build_through_a_server_that_wants_a_contact_and_breaks_in_the_middle(
    archive: bytes, tmp_path: Path
) -> None:
    with Server(archive, faults=["broken"]) as server:
        done = fetch(server, tmp_path)
        with pytest.raises(SourceError, match=r"refused with status 403; .*--file"):
            download(server.url, tmp_path / "other.zip", hint="use --file")
    assert server.agents[0] == server.agents[1]
    assert re.fullmatch(r"nowcast-alfred/\d+\.\d+\S* \(someone@example\.org\)", server.agents[0])
    assert server.asked == ["", f"bytes={len(archive) // 2}-", ""]
    assert done.path == tmp_path / "cesvinall.zip"
    assert (done.size, done.requests) == (len(archive), 2)
    assert done.sha256 == hashlib.sha256(done.path.read_bytes()).hexdigest()
    assert done.path.read_bytes() == archive
    record = json.loads((tmp_path / "cesvinall.zip.json").read_text())
    assert (record["sha256"], record["url"]) == (done.sha256, server.url)
    assert dt.datetime.fromisoformat(record["retrieved_at"]).tzinfo
    assert leftovers(tmp_path) == {"cesvinall.zip", "cesvinall.zip.json"}
    publish(tmp_path / "store", read_archive(done.path, PAYROLLS))
    assert known(open_store(tmp_path / "store"), "2023-07-31")["2023-06"] == 156_204


@pytest.mark.parametrize("contact", [None, "", "  ", "me@example.org\r\nX: y", "josé@example.org"])
def test_without_a_usable_contact_nothing_is_asked_for(tmp_path: Path, contact: str | None) -> None:
    with Server(b"") as server, pytest.raises(ConfigError, match="--contact"):
        fetch_archive(contact, tmp_path, url=server.url)
    assert server.asked == []
    assert leftovers(tmp_path) == set()


def test_a_later_call_goes_on_where_an_earlier_one_stopped(tmp_path: Path) -> None:
    body = packed({"tri_000000_SA.csv": GOOD * 50})
    with Server(body, faults=["broken"]) as server:
        with pytest.raises(SourceUnavailable, match=r"after 1 tries.* bytes are kept"):
            fetch(server, tmp_path, tries=1)
        assert not (tmp_path / "cesvinall.zip").exists()
        seen: list[tuple[int, int | None]] = []
        done = fetch(server, tmp_path, progress=lambda *state: seen.append(state))
    assert server.asked == ["", f"bytes={len(body) // 2}-"]
    assert done.path.read_bytes() == body
    assert seen[-1] == (len(body), len(body))
    assert seen[0][0] > len(body) // 2


@pytest.mark.parametrize(
    ("settings", "faults", "asked"),
    [
        ({"ranges": False}, ["broken"], 2),  # the server starts over
        ({"etag": None}, ["broken"], 2),  # Last-Modified serves as well
        ({"etag": None, "last_modified": None}, ["broken"], 2),  # nothing to go on with
        ({"etag": 'W/"weak"', "last_modified": None}, ["broken"], 2),
        ({}, ["broken", "shifted"], 3),  # a range that does not fit
        ({}, ["broken", "416"], 3),
        ({}, ["broken", "broken", "broken"], 4),
        ({}, ["429", "503", "408"], 4),
        ({}, ["unsized"], 2),  # half a zip that says it is whole
    ],
)
def test_whatever_breaks_the_file_comes_whole(
    tmp_path: Path, settings: dict[str, Any], faults: list[str], asked: int
) -> None:
    body = packed({"tri_000000_SA.csv": np.random.default_rng(0).bytes(300_000)})
    with Server(body, faults=list(faults), **settings) as server:
        done = fetch(server, tmp_path)
    assert done.path.read_bytes() == body
    assert len(server.asked) == done.requests == asked
    resumes = sum(bool(r) for r in server.asked)
    assert (resumes > 0) is (faults[0] == "broken" and server.validates())


def test_a_server_that_sends_less_than_was_asked_for_is_asked_for_the_rest(tmp_path: Path) -> None:
    body = packed({"tri_000000_SA.csv": GOOD * 50})
    with Server(body, faults=["broken", "piece"]) as server:
        assert fetch(server, tmp_path).path.read_bytes() == body
    half = len(body) // 2
    assert server.asked == ["", f"bytes={half}-", f"bytes={half + 10}-"]


def test_what_was_whole_before_a_crash_is_taken_and_what_came_from_elsewhere_is_not(
    tmp_path: Path,
) -> None:
    body = packed({"tri_000000_SA.csv": GOOD * 50})
    part = tmp_path / ".cesvinall.zip.part"
    with Server(body, faults=["broken"]) as server:
        with pytest.raises(SourceUnavailable):
            fetch(server, tmp_path, tries=1)
        half = part.read_bytes()
        part.write_bytes(body)  # the crash came before the file got its name
        done = fetch(server, tmp_path)
        assert (done.requests, done.path.read_bytes()) == (0, body)
        server.faults = ["broken"]
        with pytest.raises(SourceUnavailable):
            fetch(server, tmp_path, tries=1)
        assert part.read_bytes() == half
        with Server(body) as other:
            fetch(other, tmp_path)
            assert other.asked == [""]


def test_two_halves_of_different_files_are_never_put_together(tmp_path: Path) -> None:
    old = packed({"tri_000000_SA.csv": np.random.default_rng(1).bytes(200_000)})
    new = packed({"tri_000000_SA.csv": np.random.default_rng(2).bytes(200_000)})
    for faults in ([], ["mixed"]):  # a server that heeds If-Range, and one that does not
        folder = tmp_path / str(len(faults))
        with Server(old, faults=["broken"]) as server:
            with pytest.raises(SourceUnavailable):
                fetch(server, folder, tries=1)
            server.body, server.etag, server.last_modified = new, '"two"', None
            server.faults = list(faults)
            assert fetch(server, folder).path.read_bytes() == new
            assert server.asked[1] == f"bytes={len(old) // 2}-"


def test_html_with_status_200_is_never_kept_and_not_asked_for_again(tmp_path: Path) -> None:
    (tmp_path / "cesvinall.zip").write_bytes(b"an earlier archive")
    with (
        Server(b"", faults=["html"]) as server,
        pytest.raises(SourceError, match=r"what came is a web page \(HTML\).*--file"),
    ):
        fetch(server, tmp_path)
    assert len(server.asked) == 1
    assert leftovers(tmp_path) == {"cesvinall.zip"}
    assert (tmp_path / "cesvinall.zip").read_bytes() == b"an earlier archive"


def test_what_stays_broken_is_given_up_after_the_tries(tmp_path: Path) -> None:
    with Server(b"PK\x03\x04 no archive") as server:
        with pytest.raises(SourceUnavailable, match="damaged"):
            fetch(server, tmp_path, tries=3)
        assert len(server.asked) == 3
        server.faults = ["404"]
        with pytest.raises(SourceError, match="refused with status 404"):
            fetch(server, tmp_path)
        url = server.url
    assert leftovers(tmp_path) == set()
    with pytest.raises(SourceUnavailable, match="not whole after 2 tries; the last: ConnectError"):
        fetch_archive(CONTACT, tmp_path, url=url, tries=2, backoff=0.01)
    with pytest.raises(SourceError, match="ftp"):
        fetch_archive(CONTACT, tmp_path, url="ftp://example.org/a.zip")


def test_one_download_at_a_time(tmp_path: Path) -> None:
    with exclusive(tmp_path, LOCK, "testing"), pytest.raises(StoreLocked, match="downloading into"):
        download("http://127.0.0.1:9/a.zip", tmp_path / "a.zip", check=check_zip)
