"""The fake FRED server answers as recorded bodies and documented rules say it must."""

from __future__ import annotations

import gzip
import http.client
import itertools
import json
import math
import random
import threading
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fake_fred as ff
from fake_fred import KEY, FakeFred, FakeSeries, Fault, growing_series
from fake_fred_semantics import MAX_DAY, MIN_DAY, central, number_text
from nowcast_alfred.store.schema import normalise
from store_samples import PAY, table

TODAY = "2024-11-03"
OBSERVATIONS = "series/observations"
FULL = {"realtime_start": MIN_DAY, "realtime_end": MAX_DAY}
Answer = tuple[int, Any]

# Archive start 2020-01-10; "2019-12-01" is withdrawn and returns; "2019-10-01" is back-filled.
SMALL = {
    "2019-10-01": [("2020-03-10", "90.0")],
    "2019-11-01": [("2020-01-10", "100.0")],
    "2019-12-01": [
        ("2020-01-10", "101.0"),
        ("2020-02-10", "101.5"),
        ("2020-03-10", "."),
        ("2020-03-11", "101.5"),
    ],
    "2020-01-01": [("2020-02-10", "102.0"), ("2020-03-10", "102.5")],
    "2020-02-01": [("2020-03-10", "103.0"), ("2020-04-10", "103.1")],
    "2020-03-01": [("2020-04-10", ".")],
}
VINTAGES = ["2020-01-10", "2020-02-10", "2020-03-10", "2020-03-11", "2020-04-10"]


def sample(**more: Any) -> FakeSeries:
    return FakeSeries("PAY", {date: list(points) for date, points in SMALL.items()}, **more)


def samples() -> list[FakeSeries]:
    tags = [ff.tag("copyrighted: pre-approval required", "cc", 9), ff.tag("nsa", "seas", 2)]
    current = {"2024-11-01": [("2024-11-01", "5728.8")]}
    metadata = [
        {"title": "Payrolls", "units": "Index 2012=100"},
        {"title": "Payrolls", "units": "Index 2017=100", "realtime_start": "2020-03-10"},
    ]
    return [
        sample(metadata=metadata, release=(50, "Employment Situation"), tags=tags),
        FakeSeries("SP500", current, archived=False),
        FakeSeries("GOLD", {"2020-01-01": [("2020-01-10", "1.0")]}, restricted=True),
    ]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeFred]:
    """A server that tests only read from."""
    with FakeFred(samples(), TODAY) as fake:
        yield fake


@pytest.fixture
def fake() -> Iterator[FakeFred]:
    """A server for one test."""
    with FakeFred(samples(), TODAY) as fake:
        yield fake


def url(fake: FakeFred, path: str, **params: Any) -> str:
    query = {"api_key": KEY, "file_type": "json", **params}
    text = urllib.parse.urlencode({k: v for k, v in query.items() if v is not None})
    return f"{fake.base_url}/{path}?{text}"


def fetch(fake: FakeFred, path: str, **params: Any) -> tuple[int, bytes, Any]:
    try:
        with urllib.request.urlopen(url(fake, path, **params), timeout=10) as response:
            return response.status, response.read(), response.headers
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, answer.read(), answer.headers


def get(fake: FakeFred, path: str = OBSERVATIONS, **params: Any) -> Answer:
    """Status and JSON; about the sample series unless another one is named."""
    status, body, _ = fetch(fake, path, **{"series_id": "PAY", **params})
    return status, json.loads(body)


def rows(fake: FakeFred, **params: Any) -> list[dict[str, str]]:
    status, body = get(fake, **params)
    assert status == 200, body
    assert body["count"] == len(body["observations"])
    return body["observations"]


def message(fake: FakeFred, path: str = OBSERVATIONS, **params: Any) -> str:
    status, body = get(fake, path, **params)
    assert set(body) == {"error_code", "error_message"}
    assert body["error_code"] == status >= 400
    return body["error_message"]


def cells(found: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    return {row["date"]: {k[-8:]: v for k, v in row.items() if k != "date"} for row in found}


# ------------------------------------------------------------------- against recorded bodies


@pytest.fixture(scope="module")
def recorded(real_data: Path) -> Path:
    folder = real_data.parent / "fred_fixtures"
    if not folder.is_dir():
        pytest.skip(f"no recorded bodies at {folder}")
    return folder


def body_of(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def gdp(recorded: Path) -> Iterator[FakeFred]:
    full = body_of(recorded, "observations_GDP_all_vintages_20241103")["observations"]
    series = FakeSeries.from_type1(
        "GDP",
        full,
        metadata=body_of(recorded, "series_GDP")["seriess"],
        release=(53, "Gross Domestic Product"),
        tags=body_of(recorded, "series_tags_GDP")["tags"],
    )
    series.metadata[0]["realtime_start"] = "1991-12-04"
    dates = [row["date"] for row in body_of(recorded, "release_10_dates")["release_dates"]]
    with FakeFred([series], TODAY, release_dates={10: dates}) as fake:
        yield fake


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("observations_GDP_default", {}),
        ("observations_GDP_all_vintages_20241103", FULL),
        ("observations_GDP_realtime_1776_to_20190101", {**FULL, "realtime_end": "2019-01-01"}),
        ("observations_GDP_output_type4_20241103", {"output_type": 4, "realtime_start": MIN_DAY}),
        *(
            (
                f"observations_gdp_vintage_dates_20220929_20221027_output_type{kind}",
                {"output_type": kind, "vintage_dates": "2022-09-29,2022-10-27", "series_id": "gdp"},
            )
            for kind in (1, 2, 3, 4)
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_observations_are_the_recorded_ones_row_for_row(
    gdp: FakeFred, recorded: Path, name: str, params: dict[str, str]
) -> None:
    status, body = get(gdp, **{"series_id": "GDP", **params})
    assert status == 200
    assert body == body_of(recorded, name)


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "path", "params"),
    [
        ("vintagedates_GDP_20241103", "series/vintagedates", {}),
        ("series_GDP", "series", {}),
        ("release_10_dates", "release/dates", {"release_id": 10}),
    ],
)
def test_other_endpoints_answer_the_recorded_bodies(
    gdp: FakeFred, recorded: Path, name: str, path: str, params: dict[str, Any]
) -> None:
    assert get(gdp, path, series_id="GDP", **params) == (200, body_of(recorded, name))


@pytest.mark.real
def test_release_and_tags_have_the_recorded_form(gdp: FakeFred, recorded: Path) -> None:
    release = body_of(recorded, "series_release_GDP")
    del release["releases"][0]["link"]
    assert get(gdp, "series/release", series_id="GDP") == (200, release)
    tags = body_of(recorded, "series_tags_GDP")
    day = {"realtime_start": tags["realtime_start"], "realtime_end": tags["realtime_end"]}
    assert get(gdp, "series/tags", series_id="GDP", **day) == (200, tags)


@pytest.mark.real
def test_two_vintages_later_the_archive_is_the_later_recording(recorded: Path) -> None:
    names = ("observations_GDP_all_vintages_20241103", "observations_GDP_all_vintages_20250120")
    before, after = (body_of(recorded, name) for name in names)
    series = FakeSeries.from_type1("GDP", before["observations"])
    with FakeFred([series], TODAY) as fake:
        assert get(fake, series_id="GDP", **FULL) == (200, before)
        for row in after["observations"]:
            if row["realtime_start"] > TODAY:
                fake.add_vintage("GDP", row["realtime_start"], {row["date"]: row["value"]})
        assert get(fake, series_id="GDP", **FULL) == (200, after)


@pytest.mark.real
def test_cpi_new_and_revised_cells_are_the_recorded_xml(recorded: Path) -> None:
    name = "observations_CPIAUCSL_output_type3_19930513_19970617.xml"
    document = ET.parse(recorded / name).getroot()
    told = [dict(child.attrib) for child in document]
    series = FakeSeries.from_type3("CPIAUCSL", told)
    days = series.vintages(MAX_DAY)
    assert len(days) == 50
    # One row has no cell; an earlier value that came again with the whole history explains it.
    assert [row for row in told if len(row) == 1] == [{"date": "1992-07-01"}]
    series.set("1992-07-01", "1993-04-13", "1")
    series.set("1992-07-01", "1994-02-17", "1")
    with FakeFred([series], TODAY) as fake:
        asked = {"series_id": "CPIAUCSL", "output_type": 3}
        listed = {"vintage_dates": ",".join(days)}
        _, text, _ = fetch(fake, OBSERVATIONS, **asked, **listed, file_type=None)
        served = ET.fromstring(text)
        assert served.attrib == document.attrib
        assert [child.attrib for child in served] == told
        assert rows(fake, **asked, **listed) == told
        assert rows(fake, **asked, realtime_start=days[0], realtime_end=days[-1]) == told
        column = f"CPIAUCSL_{days[0].replace('-', '')}"
        snapshot = rows(fake, series_id="CPIAUCSL", realtime_start=days[0], realtime_end=days[0])
        assert {row["date"]: row["value"] for row in snapshot} == {
            "1992-07-01": "1",
            **{row["date"]: row[column] for row in told if column in row},
        }


@pytest.mark.real
def test_every_error_text_of_the_catalogue_is_answered(recorded: Path) -> None:
    def texts(fake: FakeFred, **params: Any) -> tuple[int, str]:
        status, body = get(fake, **{"series_id": "LONG", **params})
        return status, body["error_message"]

    long = growing_series("LONG", "2000-01-03", 5090, "d", revisions=0)
    with FakeFred([long, *samples()], "2026-08-15") as fake:
        said = {
            texts(fake, api_key="a" * 32),
            texts(fake, api_key=None),
            texts(fake, api_key="short"),
            texts(fake, series_id="NONE"),
            texts(fake, series_id="NONE", realtime_start="2001-01-01", realtime_end="2001-01-01"),
            texts(fake, **FULL),
            texts(fake, output_type=2),
            texts(fake, realtime_start="1/1/2015"),
            texts(fake, limit=0),
            texts(fake, series_id="A B"),
            texts(fake, series_id="GOLD"),
        }
        status, body = get(fake, "no/such/path")
        said.add((status, body["error_message"]))
        fake.script(ff.too_many_requests())
        said.add(texts(fake))
        fake.today = "2026-09-18"
        said.add(texts(fake, realtime_end="2026-09-19"))
        assert "not be after" in texts(fake, realtime_start="2026-09-19")[1]
    short = growing_series("LONG", "2000-01-03", 2004, "d", revisions=0)
    with FakeFred([short], TODAY, cap_wording="old") as fake:
        said.add(texts(fake, **FULL))
    entries = body_of(recorded, "errors_catalogue")
    known = {
        (entry["http_status"], entry["body"]["error_message"])
        for entry in entries
        if "error_message" in entry["body"] and "YYYY-MM-DD)" not in entry["body"]["error_message"]
    }
    assert said == known
    with FakeFred([short], TODAY, key_wording="docs") as fake:
        status, text, _ = fetch(fake, "series", series_id="LONG", api_key=None, file_type=None)
    assert {"http_status": status, "body": text.decode()} in [
        {"http_status": entry["http_status"], "body": entry["body"]} for entry in entries
    ]


# ------------------------------------------------------------------------------ output types


def test_the_envelope_is_echoed_as_recorded(server: FakeFred) -> None:
    _, body = get(server, **FULL)
    del body["observations"]
    assert body == {
        **FULL,
        "observation_start": "1600-01-01",
        "observation_end": "9999-12-31",
        "units": "lin",
        "output_type": 1,
        "file_type": "json",
        "order_by": "observation_date",
        "sort_order": "asc",
        "count": 11,
        "offset": 0,
        "limit": 100_000,
    }


def test_type_1_is_every_period_of_every_observation(server: FakeFred) -> None:
    found = [row for row in rows(server, **FULL) if row["date"] == "2019-12-01"]
    assert [(row["realtime_start"], row["realtime_end"], row["value"]) for row in found] == [
        ("2020-01-10", "2020-02-09", "101.0"),
        ("2020-02-10", "2020-03-09", "101.5"),
        ("2020-03-10", "2020-03-10", "."),
        ("2020-03-11", "9999-12-31", "101.5"),
    ]


def test_type_1_rows_are_clipped_to_the_window(server: FakeFred) -> None:
    found = rows(server, realtime_start="2020-02-20", realtime_end="2020-03-10")
    spans = {(row["date"], row["realtime_start"], row["realtime_end"]) for row in found}
    assert spans == {
        ("2019-10-01", "2020-03-10", "2020-03-10"),
        ("2019-11-01", "2020-02-20", "2020-03-10"),
        ("2019-12-01", "2020-02-20", "2020-03-09"),
        ("2019-12-01", "2020-03-10", "2020-03-10"),
        ("2020-01-01", "2020-02-20", "2020-03-09"),
        ("2020-01-01", "2020-03-10", "2020-03-10"),
        ("2020-02-01", "2020-03-10", "2020-03-10"),
    }


def test_type_1_takes_listed_vintages_as_a_window(server: FakeFred) -> None:
    listed = rows(server, vintage_dates="2020-04-10,2020-01-10")
    assert listed == rows(server, realtime_start="2020-01-10", realtime_end="2020-04-10")
    assert {row["realtime_start"] for row in listed} > {"2020-02-10", "2020-03-11"}


def test_type_2_has_a_column_per_vintage_and_no_key_before_the_first(server: FakeFred) -> None:
    found = cells(rows(server, output_type=2, vintage_dates="2020-02-10,2020-03-10"))
    assert found == {
        "2019-10-01": {"20200310": "90.0"},
        "2019-11-01": {"20200210": "100.0", "20200310": "100.0"},
        "2019-12-01": {"20200210": "101.5", "20200310": "."},
        "2020-01-01": {"20200210": "102.0", "20200310": "102.5"},
        "2020-02-01": {"20200310": "103.0"},
    }


def test_type_2_over_a_window_has_the_edges_as_columns(server: FakeFred) -> None:
    window = {"realtime_start": "2020-02-01", "realtime_end": "2020-03-01"}
    found = cells(rows(server, output_type=2, **window))
    assert found["2019-12-01"] == {"20200201": "101.0", "20200210": "101.5", "20200301": "101.5"}
    assert found["2020-01-01"] == {"20200210": "102.0", "20200301": "102.0"}


def test_type_2_columns_may_be_days_without_a_vintage(server: FakeFred) -> None:
    found = cells(rows(server, output_type=2, vintage_dates="2020-02-29"))
    assert found["2019-12-01"] == {"20200229": "101.5"}


def test_type_3_has_only_cells_that_changed_and_no_edges(server: FakeFred) -> None:
    window = {"realtime_start": "2020-02-11", "realtime_end": "2020-03-10"}
    assert cells(rows(server, output_type=3, **window)) == {
        "2019-10-01": {"20200310": "90.0"},
        "2019-12-01": {"20200310": "."},
        "2020-01-01": {"20200310": "102.5"},
        "2020-02-01": {"20200310": "103.0"},
    }


def test_type_3_over_chunks_is_type_3_over_everything(server: FakeFred) -> None:
    merged: dict[str, dict[str, str]] = {}
    for day in VINTAGES:
        chunk = rows(server, output_type=3, realtime_start=day, realtime_end=day)
        for date, found in cells(chunk).items():
            merged.setdefault(date, {}).update(found)
    assert merged == cells(rows(server, output_type=3, **FULL))
    assert merged == {
        date: {day.replace("-", ""): value for day, value in points}
        for date, points in SMALL.items()
    }


def test_type_3_has_a_row_without_a_cell_for_a_value_that_was_loaded_again(
    fake: FakeFred,
) -> None:
    fake.change_past("PAY", "2020-04-10", {"2019-11-01": "100.0"})
    window = {"realtime_start": "2020-04-01", "realtime_end": "2020-05-01"}
    assert cells(rows(fake, output_type=3, **window)) == {
        "2019-11-01": {},
        "2020-02-01": {"20200410": "103.1"},
        "2020-03-01": {"20200410": "."},
    }


def test_type_3_may_leave_out_the_first_vintage() -> None:
    with FakeFred(samples(), TODAY, type3_first_vintage=False) as fake:
        found = cells(rows(fake, output_type=3, **FULL))
    assert {day for row in found.values() for day in row} == {
        day.replace("-", "") for day in VINTAGES[1:]
    }


def test_type_4_leaves_out_the_first_vintage_and_what_was_filled_back(server: FakeFred) -> None:
    found = rows(server, output_type=4, realtime_start=MIN_DAY)
    assert [tuple(row.values()) for row in found] == [
        ("2020-02-10", "2020-03-09", "2020-01-01", "102.0"),
        ("2020-03-10", "2020-04-09", "2020-02-01", "103.0"),
        ("2020-04-10", "9999-12-31", "2020-03-01", "."),
    ]


def test_type_4_leaves_out_what_appeared_before_the_window_and_clips_the_end(
    server: FakeFred,
) -> None:
    window = {"realtime_start": "2020-03-01", "realtime_end": "2020-03-31"}
    found = rows(server, output_type=4, **window)
    assert [tuple(row.values()) for row in found] == [
        ("2020-03-10", "2020-03-31", "2020-02-01", "103.0")
    ]
    with FakeFred(samples(), TODAY, type4_first_in_window=False) as fake:
        assert rows(fake, output_type=4, **window) == []


def test_random_archives_are_answered_as_a_brute_force_reading_says() -> None:
    draw = random.Random(4)
    days = [f"2020-{month:02d}-{day:02d}" for month in (1, 2) for day in range(1, 20)]
    for _ in range(20):
        points = {
            f"2019-{month:02d}-01": [
                (day, draw.choice(["1.0", "2.0", "."]))
                for day in sorted(draw.sample(days, draw.randint(1, 5)))
            ]
            for month in range(1, 9)
        }
        # Day by day: what each observation was, if it was anything.
        known = {
            day: {
                date: [value for vintage, value in spans if vintage <= day][-1]
                for date, spans in points.items()
                if spans[0][0] <= day
            }
            for day in days
        }
        steps = list(itertools.pairwise(days))
        start, end = sorted(draw.sample(days[10:], 2))
        inside = [now for then, now in steps if start <= now <= end and known[then] != known[now]]
        window = {"series_id": "R", "realtime_start": start, "realtime_end": end}
        with FakeFred([FakeSeries("R", points)], TODAY) as fake:
            assert get(fake, "series/vintagedates", **window)[1]["vintage_dates"] == inside
            spans = rows(fake, **window)
            for day in (day for day in days if start <= day <= end):
                current = [r for r in spans if r["realtime_start"] <= day <= r["realtime_end"]]
                assert {row["date"]: row["value"] for row in current} == known[day]
            wide = cells(rows(fake, output_type=2, **window))
            sparse = cells(rows(fake, output_type=3, **window))
            first = {row["date"]: row for row in rows(fake, output_type=4, **window)}
        for then, now in steps:
            if now not in inside:
                continue
            for date in points:
                column, value = now.replace("-", ""), known[now].get(date)
                assert wide.get(date, {}).get(column) == value
                changed = value if value != known[then].get(date) else None
                assert sparse.get(date, {}).get(column) == changed
                newer = date in known[now] and known[then] and date > max(known[then])
                assert (date in first and first[date]["realtime_start"] == now) == bool(newer)


# --------------------------------------------------------------------------- windows and days


def test_a_default_body_carries_the_day_of_the_last_update(server: FakeFred) -> None:
    _, body = get(server)
    assert body["realtime_start"] == body["realtime_end"] == "2020-04-10"
    assert {row["realtime_start"] for row in body["observations"]} == {"2020-04-10"}
    _, body = get(server, "series")
    assert body["realtime_end"] == body["seriess"][0]["realtime_start"] == "2020-04-10"
    with FakeFred(samples(), TODAY, stale_defaults=False) as fake:
        assert get(fake)[1]["realtime_start"] == get(fake, "series")[1]["realtime_end"] == TODAY


@pytest.mark.parametrize("alone", [{"realtime_start": MIN_DAY}, {"realtime_end": MAX_DAY}])
def test_one_sentinel_alone_means_the_full_period(server: FakeFred, alone: dict[str, str]) -> None:
    assert get(server, **alone) == get(server, **FULL)


def test_a_start_alone_ends_today(server: FakeFred) -> None:
    _, body = get(server, realtime_start="2020-04-01")
    assert (body["realtime_start"], body["realtime_end"]) == ("2020-04-01", TODAY)
    assert {row["realtime_end"] for row in body["observations"]} == {"2020-04-09", TODAY}


def test_a_future_end_is_refused_with_the_servers_day_unless_it_is_the_sentinel(
    server: FakeFred,
) -> None:
    assert message(server, realtime_start="2020-01-01", realtime_end="2024-11-04") == (
        "Bad Request.  Variable realtime_end can not be after today's date (2024-11-03) unless "
        "it's equal to the real-time max date 9999-12-31."
    )
    assert message(server, realtime_start="2024-11-04").startswith(
        "Bad Request.  Variable realtime_start can not be after today's date (2024-11-03)"
    )
    assert rows(server, realtime_start="2020-01-01", realtime_end=MAX_DAY)


@pytest.mark.parametrize("text", ["1/1/2015", "2020-02-30", "2020-1-1", "20200101", ""])
@pytest.mark.parametrize("name", ["realtime_start", "realtime_end", "observation_start"])
def test_a_malformed_day_is_refused(server: FakeFred, name: str, text: str) -> None:
    assert message(server, **{name: text}) == (
        f"Bad Request.  Variable {name} is not a YYYY-MM-DD formatted date (e.g. 2000-02-24)."
    )


def test_vintages_after_today_are_not_known(fake: FakeFred) -> None:
    fake.today = "2020-03-10"
    found = [row for row in rows(fake, **FULL) if row["date"] == "2019-12-01"]
    assert (found[-1]["value"], found[-1]["realtime_end"]) == (".", "9999-12-31")
    assert get(fake, "series/vintagedates")[1]["vintage_dates"] == VINTAGES[:3]
    fake.today = "2020-03-11"
    found = [row for row in rows(fake, **FULL) if row["date"] == "2019-12-01"]
    assert found[-2]["realtime_end"] == "2020-03-10"


def test_observation_bounds_are_inclusive_and_echoed(server: FakeFred) -> None:
    bounds = {"observation_start": "2019-12-01", "observation_end": "2020-02-01"}
    _, body = get(server, output_type=3, **FULL, **bounds)
    assert [row["date"] for row in body["observations"]] == sorted(SMALL)[2:5]
    assert {name: body[name] for name in bounds} == bounds


# ---------------------------------------------------------------------------- limits and pages


def test_pages_are_of_rows_and_concatenate(server: FakeFred) -> None:
    whole = rows(server, **FULL)
    pages = [get(server, **FULL, limit=5, offset=at)[1] for at in (0, 5, 10, 15)]
    assert [len(page["observations"]) for page in pages] == [5, 5, 1, 0]
    assert {page["count"] for page in pages} == {11}
    assert [row for page in pages for row in page["observations"]] == whole


def test_descending_order_is_by_observation_date(server: FakeFred) -> None:
    found = [row["date"] for row in rows(server, **FULL, sort_order="desc")]
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("limit", [0, 100_001, -1, "x"])
def test_a_limit_out_of_range_is_refused(server: FakeFred, limit: Any) -> None:
    text = "Bad Request.  Variable limit is not between 1 and 100000."
    assert message(server, limit=limit) == text


def test_the_row_limit_can_be_made_small() -> None:
    with FakeFred(samples(), TODAY, max_rows=5) as fake:
        _, body = get(fake, **FULL)
        assert (body["count"], body["limit"], len(body["observations"])) == (11, 5, 5)
        assert message(fake, limit=6) == "Bad Request.  Variable limit is not between 1 and 5."


@pytest.mark.parametrize(("wording", "extra"), [("new", " for this file type"), ("old", "")])
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_too_many_vintages_in_the_window_are_refused_before_rows_are_filtered(
    wording: str, extra: str, kind: int
) -> None:
    with FakeFred(samples(), TODAY, max_vintages=4, cap_wording=wording) as fake:
        none = {"observation_start": "2023-01-01"}
        assert message(fake, output_type=kind, **FULL, **none) == (
            "Bad Request.  There are 5 vintage dates in the specified real-time period: "
            "1776-07-04 to 9999-12-31.  This exceeds the maximum number of vintage dates "
            f"allowed{extra} (4)."
        )
        assert rows(fake, output_type=kind, **{**FULL, "realtime_end": "2020-04-09"})


def test_listed_vintages_count_against_the_cap() -> None:
    with FakeFred(samples(), TODAY, max_vintages=4) as fake:
        assert "There are 5 vintage dates" in message(
            fake, output_type=3, vintage_dates=",".join(VINTAGES)
        )
        assert rows(fake, output_type=3, vintage_dates=",".join(VINTAGES[1:]))


def test_a_daily_archive_of_5073_vintages_meets_the_real_cap() -> None:
    series = growing_series("DGS", "2005-01-03", 5073, "d", revisions=0)
    with FakeFred([series], TODAY) as fake:
        _, listed = get(fake, "series/vintagedates", series_id="DGS")
        days = listed["vintage_dates"]
        assert listed["count"] == len(days) == 5073
        assert "There are 5073 vintage dates" in message(fake, series_id="DGS", **FULL)
        found: list[dict[str, str]] = []
        for at in range(0, 5073, 2000):
            chunk = days[at : at + 2000]
            window = {"realtime_start": chunk[0], "realtime_end": chunk[-1]}
            found += rows(fake, series_id="DGS", output_type=3, **window)
        assert {row["date"] for row in found} == set(series.points)


def test_vintage_dates_have_pages_windows_and_an_order(server: FakeFred) -> None:
    _, body = get(server, "series/vintagedates", limit=2, offset=1)
    assert body == {
        **FULL,
        "order_by": "vintage_date",
        "sort_order": "asc",
        "count": 5,
        "offset": 1,
        "limit": 2,
        "vintage_dates": VINTAGES[1:3],
    }
    _, body = get(server, "series/vintagedates", sort_order="desc", realtime_end="2020-03-10")
    assert body["vintage_dates"] == VINTAGES[2::-1]
    assert message(server, "series/vintagedates", limit=10_001).endswith("1 and 10000.")


# -------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (None, "Variable api_key is not set."),
        ("", "Variable api_key is not set."),
        (KEY + " ", "32 character alpha-numeric lower-case string."),
        (KEY.upper(), "32 character alpha-numeric lower-case string."),
        (KEY[:-1], "32 character alpha-numeric lower-case string."),
        ("f" * 32, "The value for variable api_key is not registered."),
    ],
)
@pytest.mark.parametrize("path", [OBSERVATIONS, "series", "series/vintagedates", "release/dates"])
def test_a_bad_key_is_named_by_a_400(
    server: FakeFred, path: str, key: str | None, text: str
) -> None:
    status, body = get(server, path, api_key=key)
    assert (status, body["error_code"]) == (400, 400)
    assert body["error_message"].startswith("Bad Request.  ")
    assert text in body["error_message"]


def test_further_keys_can_be_registered() -> None:
    with FakeFred(samples(), TODAY, keys=["a" * 32]) as fake:
        assert get(fake, api_key="a" * 32)[0] == 200
        assert "not registered" in message(fake)


@pytest.mark.parametrize("id", ["A B", "A" * 26, "PAY;", "Ä"])
def test_a_malformed_series_id_is_refused(server: FakeFred, id: str) -> None:
    assert message(server, series_id=id) == (
        "Bad Request.  Invalid value for variable series_id.  Series IDs should be 25 or less "
        "alphanumeric characters."
    )


def test_an_unknown_id_without_a_window_does_not_exist(server: FakeFred) -> None:
    for path in (OBSERVATIONS, "series", "series/release", "series/tags"):
        text = message(server, path, series_id="NONE")
        assert text == "Bad Request.  The series does not exist."


@pytest.mark.parametrize("path", [OBSERVATIONS, "series", "series/vintagedates"])
def test_three_different_reasons_give_the_identical_400(server: FakeFred, path: str) -> None:
    past = {"realtime_start": "2019-01-01", "realtime_end": "2019-12-31"}
    early, unknown, current = (
        fetch(server, path, series_id=id, **past) for id in ("PAY", "NONE", "SP500")
    )
    assert early[:2] == unknown[:2] == current[:2]
    assert json.loads(early[1])["error_message"] == (
        "Bad Request.  The series does not exist in ALFRED but may exist in FRED.  Try setting "
        "realtime_start and realtime_end to today's date or removing the realtime_start and "
        "realtime_end variables."
    )


def test_a_series_without_archive_has_todays_values_only(server: FakeFred) -> None:
    today = {"realtime_start": TODAY, "realtime_end": TODAY}
    assert get(server, series_id="SP500")[0] == 200
    assert [row["value"] for row in rows(server, series_id="SP500", **today)] == ["5728.8"]
    for more in (FULL, {"output_type": 4, **FULL}, {"vintage_dates": "2024-11-01"}):
        assert "does not exist in ALFRED" in message(server, series_id="SP500", **more)
    assert "ALFRED" in message(server, "series/vintagedates", series_id="SP500")


@pytest.mark.parametrize("kind", [2, 3, 4])
def test_types_2_to_4_without_a_window_find_no_vintages(server: FakeFred, kind: int) -> None:
    assert message(server, output_type=kind) == (
        "Bad Request.  No vintage dates exist for the specified real-time period: "
        "2024-11-03 to 2024-11-03."
    )


def test_a_restricted_series_is_a_404_with_a_json_body(server: FakeFred) -> None:
    assert message(server, series_id="GOLD").startswith(
        "Not Found.  The data for this series is not available via the API; the"
    )


def test_an_unknown_path_is_a_404(server: FakeFred) -> None:
    for path in ("", "serie/observations", "series/observations/", "../series", "categories"):
        assert get(server, path) == (404, {"error_code": 404, "error_message": "Not Found"})


def test_unknown_parameters_are_ignored(server: FakeFred) -> None:
    assert get(server, vintage_date="2020-02-10", nonsense=1) == get(server)


def test_what_the_fake_cannot_do_is_a_501(server: FakeFred) -> None:
    for more in ({"units": "pch"}, {"frequency": "q"}, {"file_type": "csv"}):
        assert fetch(server, OBSERVATIONS, series_id="PAY", **more)[0] == 501


def test_a_client_that_forgets_the_file_type_gets_xml(server: FakeFred) -> None:
    status, body, headers = fetch(server, OBSERVATIONS, series_id="PAY", file_type=None, **FULL)
    assert (status, headers["Content-Type"]) == (200, "text/xml; charset=UTF-8")
    document = ET.fromstring(body)
    assert document.attrib["count"] == str(len(document)) == "11"
    status, body, _ = fetch(server, OBSERVATIONS, series_id="NONE", file_type=None)
    assert (status, body) == (
        400,
        b'<error code="400" message="Bad Request.  The series does not exist."/>',
    )
    for path, child in (
        ("series", "series"),
        ("series/vintagedates", "vintage_date"),
        ("series/release", "release"),
        ("series/tags", "tag"),
    ):
        document = ET.fromstring(fetch(server, path, series_id="PAY", file_type="xml")[1])
        assert {element.tag for element in document} == {child}


# ---------------------------------------------------------------------------- other endpoints


def test_a_series_id_in_lower_case_is_answered_in_upper_case(server: FakeFred) -> None:
    assert get(server, series_id="pay", **FULL) == get(server, **FULL)
    found = rows(server, series_id="pay", output_type=3, vintage_dates="2020-02-10")
    assert "PAY_20200210" in found[0]


def test_metadata_has_an_entry_per_period_of_the_window(server: FakeFred) -> None:
    _, body = get(server, "series", **FULL)
    spans = [(e["realtime_start"], e["realtime_end"], e["units"]) for e in body["seriess"]]
    assert spans == [
        ("2020-01-10", "2020-03-09", "Index 2012=100"),
        ("2020-03-10", "9999-12-31", "Index 2017=100"),
    ]
    assert body["seriess"][1]["last_updated"] == central("2020-04-10") == "2020-04-10 07:54:01-05"
    assert body["seriess"][1]["observation_start"] == "2019-10-01"
    assert body["seriess"][1]["observation_end"] == "2020-02-01"  # March is "."
    _, body = get(server, "series", realtime_start="2020-02-01", realtime_end="2020-02-01")
    [entry] = body["seriess"]
    assert (entry["realtime_start"], entry["units"]) == ("2020-02-01", "Index 2012=100")
    assert entry["observation_end"] == "2019-12-01"


def test_release_and_tags_of_a_series(server: FakeFred) -> None:
    _, body = get(server, "series/release")
    [release] = body["releases"]
    assert (release["id"], release["name"]) == (50, "Employment Situation")
    _, body = get(server, "series/tags")
    assert [(tag["name"], tag["group_id"]) for tag in body["tags"]] == [
        ("nsa", "seas"),
        ("copyrighted: pre-approval required", "cc"),
    ]
    assert (body["order_by"], body["count"], body["limit"]) == ("series_count", 2, 1000)


def test_release_dates_are_those_given_or_the_vintages(server: FakeFred) -> None:
    _, body = get(server, "release/dates", release_id=50)
    assert [row["date"] for row in body["release_dates"]] == VINTAGES
    planned = {50: ["2024-10-04", "2024-11-01", "2024-12-06"], 7: ["2020-01-01"]}
    with FakeFred(samples(), TODAY, release_dates=planned) as fake:
        _, body = get(fake, "release/dates", release_id=50, sort_order="desc", limit=1)
        assert body["release_dates"] == [{"release_id": 50, "date": "2024-11-01"}]
        assert body["count"] == 2
        every = {"include_release_dates_with_no_data": "true"}
        assert get(fake, "release/dates", release_id=50, **every)[1]["count"] == 3
        assert get(fake, "release/dates", release_id=7)[0] == 200
        assert "release does not exist" in message(fake, "release/dates", release_id=8)


def test_search_filters_and_ranks() -> None:
    series = [
        growing_series("AAA", "2020-01-01", 3, metadata=[{"title": "Real GDP", "popularity": 5}]),
        growing_series("AAB", "2020-01-01", 3, metadata=[{"title": "Real pay", "popularity": 9}]),
        growing_series("B", "2020-01-01", 3, tags=[ff.tag("nsa", "seas")]),
    ]

    def found(fake: FakeFred, **params: Any) -> list[str]:
        _, body = get(fake, "series/search", **params)
        return [entry["id"] for entry in body["seriess"]]

    with FakeFred(series, TODAY) as fake:
        assert found(fake, search_text="real") == ["AAB", "AAA"]
        assert found(fake, search_text="real+gdp") == ["AAA"]
        assert found(fake, search_text="AA*", search_type="series_id") == ["AAA", "AAB"]
        assert found(fake, search_text="real", limit=1, offset=1) == ["AAA"]
        assert found(fake, search_text="title", tag_names="nsa") == ["B"]
        assert found(fake, search_text="title", exclude_tag_names="nsa") == []
        keep = {"filter_variable": "units", "filter_value": "Percent"}
        assert found(fake, search_text="real", **keep) == []
        _, body = get(fake, "series/search", search_text="real")
        assert body["seriess"][0]["group_popularity"] == 9
        assert (body["order_by"], body["sort_order"]) == ("search_rank", "desc")


# -------------------------------------------------------------------------------------- faults


def statuses(fake: FakeFred, number: int, **params: Any) -> list[int]:
    return [fetch(fake, OBSERVATIONS, **{"series_id": "PAY", **params})[0] for _ in range(number)]


def test_scripts_queue_up_and_wait_their_turn(fake: FakeFred) -> None:
    fake.script(ff.too_many_requests(), after=1)
    fake.script(ff.gateway_error(503), times=2)
    fake.script(ff.gateway_error(504))
    assert statuses(fake, 6) == [503, 429, 503, 504, 200, 200]


def test_scripts_are_about_a_path_and_a_series(fake: FakeFred) -> None:
    fake.script(ff.gateway_error(), path="series", times=math.inf)
    fake.script(ff.forbidden(), path=OBSERVATIONS, series="sp500", times=math.inf)
    assert statuses(fake, 1) == [200]
    assert [fetch(fake, "series", series_id="PAY")[0] for _ in range(3)] == [504] * 3
    assert fetch(fake, OBSERVATIONS, series_id="SP500")[0] == 403
    fake.clear_scripts()
    assert fetch(fake, "series", series_id="PAY")[0] == 200


@pytest.mark.parametrize("wait", [None, 1, "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_429_may_say_how_long_to_wait(fake: FakeFred, wait: Any) -> None:
    fake.script(ff.too_many_requests(wait))
    status, body, headers = fetch(fake, OBSERVATIONS, series_id="PAY")
    assert (status, headers["Retry-After"]) == (429, None if wait is None else str(wait))
    text = "Too Many Requests.  Exceeded Rate Limit"
    assert json.loads(body) == {"error_code": 429, "error_message": text}


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (ff.gateway_error(500), 500),
        (ff.gateway_error(502), 502),
        (ff.gateway_error(503), 503),
        (ff.gateway_error(504, delay=0.05), 504),
        (ff.forbidden(), 403),
        (ff.html_with_200(), 200),
    ],
)
def test_faults_of_the_edge_are_html(fake: FakeFred, fault: Fault, status: int) -> None:
    fake.script(fault)
    found, body, headers = fetch(fake, OBSERVATIONS, series_id="PAY")
    assert found == status
    assert headers["Content-Type"].startswith("text/html")
    assert body.startswith(b"<html>")
    assert statuses(fake, 1) == [200]


def test_a_truncated_body_may_look_whole(fake: FakeFred) -> None:
    whole = fetch(fake, OBSERVATIONS, series_id="PAY")[1]
    fake.script(ff.truncated(0.5))
    status, body, headers = fetch(fake, OBSERVATIONS, series_id="PAY")
    assert (status, int(headers["Content-Length"])) == (200, len(body))
    assert whole.startswith(body)
    with pytest.raises(json.JSONDecodeError):
        json.loads(body)


def test_a_truncated_body_may_be_a_connection_that_ended(fake: FakeFred) -> None:
    fake.script(ff.truncated(0.5, cut=True))
    with pytest.raises(http.client.IncompleteRead):
        fetch(fake, OBSERVATIONS, series_id="PAY")


def test_a_body_may_say_another_window_or_a_larger_count(fake: FakeFred) -> None:
    true = get(fake, **FULL)[1]
    fake.script(ff.wrong_window(TODAY, TODAY))
    fake.script(ff.overcount(3))
    fake.script(ff.edited(lambda body: body["observations"].pop()))
    assert get(fake, **FULL)[1] == {**true, "realtime_start": TODAY, "realtime_end": TODAY}
    assert get(fake, **FULL)[1] == {**true, "count": 14}
    assert get(fake, **FULL)[1]["observations"] == true["observations"][:-1]
    assert get(fake, **FULL)[1] == true


def test_an_edit_leaves_errors_alone(fake: FakeFred) -> None:
    fake.script(ff.overcount())
    assert message(fake, series_id="NONE") == "Bad Request.  The series does not exist."


def test_the_servers_clock_may_be_a_day_behind(fake: FakeFred) -> None:
    window = {"realtime_start": "2020-01-01", "realtime_end": TODAY}
    fake.script(ff.clock_behind())
    assert "today's date (2024-11-02)" in message(fake, **window)
    assert rows(fake, **window)


def test_a_good_key_may_be_refused_once(fake: FakeFred) -> None:
    fake.script(ff.key_not_registered())
    fake.script(ff.refuse(423, "Locked"))
    assert "api_key is not registered" in message(fake)
    assert get(fake) == (423, {"error_code": 423, "error_message": "Locked"})
    assert statuses(fake, 1) == [200]


def test_a_connection_may_be_reset(fake: FakeFred) -> None:
    fake.script(ff.reset())
    with pytest.raises((ConnectionResetError, urllib.error.URLError)) as caught:
        fetch(fake, OBSERVATIONS, series_id="PAY")
    reason = getattr(caught.value, "reason", caught.value)
    assert type(reason) is ConnectionResetError
    assert fake.log[0].status is None
    assert statuses(fake, 1) == [200]


def test_a_request_may_hang_until_the_client_gives_up(fake: FakeFred) -> None:
    fake.script(ff.hang())
    with pytest.raises(TimeoutError):
        urllib.request.urlopen(url(fake, OBSERVATIONS, series_id="PAY"), timeout=0.05)
    assert statuses(fake, 1) == [200]


def test_a_hanging_request_ends_by_itself(fake: FakeFred) -> None:
    fake.script(ff.hang(0.05))
    with pytest.raises(http.client.RemoteDisconnected):
        fetch(fake, OBSERVATIONS, series_id="PAY")


def test_requests_too_soon_after_others_are_refused() -> None:
    now = [100.0]
    limits = {"max_per_second": 2, "retry_after": 1}
    with FakeFred(samples(), TODAY, clock=lambda: now[0], **limits) as fake:
        fake.script(ff.gateway_error(500), after=2)
        assert statuses(fake, 3) == [200, 200, 429]
        assert fake.log[2].fault == "rate"
        now[0] += 0.9
        assert fetch(fake, OBSERVATIONS, series_id="PAY")[2]["Retry-After"] == "1"
        now[0] += 0.1
        assert statuses(fake, 3) == [500, 200, 429]


def test_a_mistake_in_the_fake_fails_the_test_that_uses_it() -> None:
    fake = FakeFred(samples()).__enter__()
    fake.script(ff.edited(lambda body: body.pop("no such key")))
    assert statuses(fake, 1) == [500]
    with pytest.raises(AssertionError, match="the fake itself failed"):
        fake.__exit__(None)


# ----------------------------------------------------------------------------- log and server


def test_the_log_has_every_request_without_its_key(fake: FakeFred) -> None:
    fake.script(ff.gateway_error(503), path=OBSERVATIONS)
    statuses(fake, 2)
    get(fake, "series", series_id="sp500")
    assert [(r.path, r.status, r.fault, r.series) for r in fake.log] == [
        (OBSERVATIONS, 503, "503", "PAY"),
        (OBSERVATIONS, 200, "", "PAY"),
        ("series", 200, "", "SP500"),
    ]
    assert fake.log[0].params == {"file_type": "json", "series_id": "PAY"}
    assert KEY not in repr(fake.log)
    assert all(r.ended is not None and r.started <= r.ended for r in fake.log)
    assert fake.count() == 3
    assert fake.count(OBSERVATIONS) == fake.count(series="pay") == 2
    assert fake.count(OBSERVATIONS, status=503) == fake.count(fault="503") == 1
    assert fake.requests(file_type="json", series_id="sp500") == [fake.log[2]]
    fake.clear_log()
    assert fake.count() == 0


def test_the_log_is_complete_when_many_ask_at_once(fake: FakeFred) -> None:
    assert fake.max_in_flight == 0
    fake.script(ff.slow(0.2), times=8)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: get(fake, **FULL), range(40)))
    assert all(answer == answers[0] for answer in answers)
    assert fake.count(status=200) == 40
    assert 2 <= fake.max_in_flight <= 8


def test_connections_are_kept_alive(fake: FakeFred) -> None:
    address = urllib.parse.urlsplit(fake.base_url).netloc
    connection = http.client.HTTPConnection(address, timeout=10)
    target = url(fake, OBSERVATIONS, series_id="PAY").removeprefix(f"http://{address}")
    for _ in range(3):
        connection.request("GET", target)
        assert connection.getresponse().read()
    assert len({request.connection for request in fake.log}) == 1
    connection.close()


def test_an_idle_connection_does_not_keep_the_server() -> None:
    before = set(threading.enumerate())
    with FakeFred(samples()) as fake:
        address = urllib.parse.urlsplit(fake.base_url).netloc
        connection = http.client.HTTPConnection(address, timeout=10)
        connection.request("GET", "/fred/series")
        assert connection.getresponse().read()
    assert connection.sock.recv(1) == b""
    connection.close()
    assert set(threading.enumerate()) <= before


def test_bodies_are_compressed_for_those_who_ask(server: FakeFred) -> None:
    request = urllib.request.Request(
        url(server, OBSERVATIONS, series_id="PAY", **FULL), headers={"Accept-Encoding": "gzip"}
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        body = gzip.decompress(response.read())
    assert body == fetch(server, OBSERVATIONS, series_id="PAY", **FULL)[1]


# ------------------------------------------------------------------------------------ archives


def test_a_new_vintage_extends_the_archive_and_moves_the_day(fake: FakeFred) -> None:
    before = rows(fake, output_type=3, **FULL)
    fake.add_vintage("PAY", "2024-12-06", {"2020-03-01": "104.0", "2019-11-01": "100.0"})
    assert fake.today == "2024-12-06"
    _, body = get(fake, "series/vintagedates")
    assert body["vintage_dates"] == [*VINTAGES, "2024-12-06"]
    after = rows(fake, output_type=3, **FULL)
    assert after[:-1] == before[:-1]  # 100.0 was known
    assert after[-1] == {**before[-1], "PAY_20241206": "104.0"}
    with pytest.raises(ValueError, match="not after the last vintage"):
        fake.add_vintage("PAY", "2024-12-06", {})


def test_the_past_may_change(fake: FakeFred) -> None:
    fake.change_past("PAY", "2020-02-10", {"2019-12-01": None, "2020-01-01": "102.2"})
    found = cells(rows(fake, output_type=3, **FULL))
    assert found["2019-12-01"] == {"20200110": "101.0", "20200310": ".", "20200311": "101.5"}
    assert found["2020-01-01"] == {"20200210": "102.2", "20200310": "102.5"}
    fake.change_past("PAY", "2020-02-20", {"2019-11-01": "99.9"})
    assert "2020-02-20" in get(fake, "series/vintagedates")[1]["vintage_dates"]


def test_an_archive_is_rebuilt_from_its_own_rows(server: FakeFred) -> None:
    assert FakeSeries.from_type1("PAY", rows(server, **FULL)).points == SMALL
    assert FakeSeries.from_type3("PAY", rows(server, output_type=3, **FULL)).points == SMALL


def test_an_archive_is_made_from_a_table_of_the_store() -> None:
    series = FakeSeries.from_table("PAY", normalise(table(PAY), "PAY"))
    assert series.points["2020-02-01"] == [("2020-03-06", "."), ("2020-03-13", "104.5")]
    assert series.points["2019-12-01"] == [("2020-01-10", "100"), ("2020-02-07", "101")]
    series = FakeSeries.from_table("PAY", normalise(table(PAY), "PAY"), decimals=2)
    assert series.points["2020-02-01"][1] == ("2020-03-13", "104.50")


@pytest.mark.parametrize("value", [0.1, 1e-7, 123456789.125, -0.001, 1e20, 3.0])
def test_a_number_reads_back_from_its_text(value: float) -> None:
    assert float(number_text(value)) == value
    assert "e" not in number_text(value)


@pytest.mark.parametrize(("frequency", "start"), [("d", "2020-01-01"), ("w", "2020-01-04")])
def test_days_and_weeks_grow_on_their_weekdays(frequency: str, start: str) -> None:
    series = growing_series("S", start, 300, frequency, revisions=1)
    assert len(series.vintages(MAX_DAY)) == 300
    assert all(date < points[0][0] for date, points in series.points.items())
    assert (series.points["2020-01-01"][0][1] == ".") if frequency == "d" else True


@pytest.mark.parametrize("frequency", ["d", "w", "m", "q"])
def test_a_grown_archive_has_history_revisions_and_withdrawals(frequency: str) -> None:
    more = {"history": 40, "benchmark_every": 12}
    start = "2000-01-01"
    series = growing_series("S", start, 100, frequency, **more)
    assert series == growing_series("S", start, 100, frequency, **more)
    assert series.points != growing_series("S", start, 100, frequency, seed=1, **more).points
    periods = series.periods(MAX_DAY)
    first = series.vintages(MAX_DAY)[0]
    assert sum(spans[0][0] == first for spans in periods.values()) == 41
    oldest = [value for _, _, value in next(iter(periods.values()))]
    assert oldest[1] == "."
    assert oldest[2] != "."
    assert max(len(spans) for spans in periods.values()) > 3
    for spans in periods.values():
        assert all(a[2] != b[2] for a, b in itertools.pairwise(spans))
