"""The FRED client: retries, pauses, refusals by their text, and answers that are none."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fake_fred as ff
from fake_fred import KEY, FakeFred, FakeSeries, Fault, growing_series
from fake_fred_semantics import (
    KEY_MALFORMED,
    KEY_NOT_SET,
    KEY_NOT_SET_IN_DOCS,
    KEY_UNREGISTERED,
    NO_SERIES,
    NOT_IN_ALFRED,
    RESTRICTED,
)
from fred_builds import FAST, client
from nowcast_alfred.errors import (
    InputError,
    KeyRefused,
    NowcastError,
    SeriesNotArchived,
    SeriesUnknown,
    SourceError,
    SourceUnavailable,
    TooManyVintages,
)
from nowcast_alfred.sources import fred as fred_module
from nowcast_alfred.sources.fred import Change, Fred

TODAY = "2024-11-03"
PAY = {
    "2020-01-01": [("2020-02-07", "100.0"), ("2020-03-06", "100.5")],
    "2020-02-01": [("2020-03-06", "101.0"), ("2020-04-03", ".")],
    "2020-03-01": [("2020-04-03", "99.0")],
}
CHANGES = [
    Change("2020-01-01", "2020-02-07", 100.0),
    Change("2020-01-01", "2020-03-06", 100.5),
    Change("2020-02-01", "2020-03-06", 101.0),
    Change("2020-02-01", "2020-04-03", None),
    Change("2020-03-01", "2020-04-03", 99.0),
]
WINDOW = ("2020-02-07", "2020-04-03")
CALLS: dict[str, Callable[[Fred], Any]] = {
    "metadata": lambda fred: fred.metadata("PAY"),
    "release": lambda fred: fred.release("PAY"),
    "tags": lambda fred: fred.tags("PAY"),
    "vintage_dates": lambda fred: fred.vintage_dates("PAY"),
    "changes": lambda fred: fred.changes("PAY", *WINDOW),
    "snapshot": lambda fred: fred.snapshot("PAY", "2020-04-03"),
    "release_dates": lambda fred: fred.release_dates(10),
    "search": lambda fred: fred.search("title"),
}
PASSING: dict[str, Fault] = {
    "429": ff.too_many_requests(),
    "429, Retry-After in seconds": ff.too_many_requests(0.01),
    "500": ff.gateway_error(500),
    "502": ff.gateway_error(502),
    "503": ff.gateway_error(503),
    "504": ff.gateway_error(504),
    "403 from the edge": ff.forbidden(),
    "HTML with 200": ff.html_with_200(),
    "half of the body": ff.truncated(),
    "connection lost in the body": ff.truncated(cut=True),
    "reset": ff.reset(),
    "closed": ff.hang(0.0),
}


@pytest.fixture
def fake() -> Iterator[FakeFred]:
    series = [
        FakeSeries("PAY", {date: list(rows) for date, rows in PAY.items()}),
        FakeSeries("SP500", {"2024-11-01": [("2024-11-01", "5728.8")]}, archived=False),
        FakeSeries("GOLD", {"2020-01-01": [("2020-01-10", "1.0")]}, restricted=True),
    ]
    series[0].tags.append(ff.tag("nsa", "seas"))
    with FakeFred(series, TODAY) as server:
        yield server


def test_the_answers_are_those_of_the_archive(fake: FakeFred) -> None:
    fred = client(fake)
    assert sorted(fred.changes("PAY", *WINDOW)) == CHANGES
    assert fred.vintage_dates("PAY") == ["2020-02-07", "2020-03-06", "2020-04-03"]
    assert fred.snapshot("PAY", "2020-03-31") == {"2020-01-01": 100.5, "2020-02-01": 101.0}
    assert fred.snapshot("PAY", "2020-04-03")["2020-02-01"] is None
    assert [entry["title"] for entry in fred.metadata("PAY")] == ["Title of PAY"]
    assert fred.release("PAY")["name"] == "Sample Release"
    assert fred.release_dates(10)[0] == "2020-01-10"
    assert [row["id"] for row in fred.search("pay")] == ["PAY"]
    assert fred.counts.requests == len(fake.log) == 8
    assert fred.counts.retries == 0


# ------------------------------------------------------------------------------------- passing


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_what_may_pass_is_asked_again_until_it_has_passed(fake: FakeFred, fault: Fault) -> None:
    fred = client(fake)
    fake.script(fault, times=2)
    assert sorted(fred.changes("PAY", *WINDOW)) == CHANGES
    assert (fred.counts.requests, fred.counts.retries) == (3, 2)
    assert len({tuple(request.params.items()) for request in fake.log}) == 1


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_what_does_not_pass_is_unavailable_and_never_empty(fake: FakeFred, fault: Fault) -> None:
    fake.script(fault, times=math.inf)
    with pytest.raises(SourceUnavailable) as refused:
        client(fake).changes("PAY", *WINDOW)
    assert len(fake.log) == 3
    said = str(refused.value)
    assert "series/observations" in said
    assert "series_id=PAY" in said
    assert "in 3 tries" in said
    assert KEY not in said


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_kind_of_request_fails_loudly(fake: FakeFred, call: Callable[[Fred], Any]) -> None:
    for fault in (ff.too_many_requests(), ff.html_with_200(), ff.truncated()):
        fake.script(fault, times=2)
        with pytest.raises(SourceUnavailable):
            call(client(fake, tries=2))
    assert call(client(fake))


def test_a_server_that_hangs_costs_a_bounded_number_of_timeouts(fake: FakeFred) -> None:
    fake.script(ff.hang(), times=math.inf)
    with pytest.raises(SourceUnavailable, match="ReadTimeout"):
        client(fake, tries=2, timeout=0.1).vintage_dates("PAY")
    assert len(fake.log) == 2


def test_nobody_listening_is_unavailable(fake: FakeFred) -> None:
    nowhere = Fred(KEY, "http://127.0.0.1:9/fred", rate=FAST, backoff=0.01, tries=2)
    with pytest.raises(SourceUnavailable, match="ConnectError"):
        nowhere.tags("PAY")


def test_answers_under_load_are_each_counted(fake: FakeFred) -> None:
    fred = client(fake)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: fred.snapshot("PAY", "2020-04-03"), range(200)))
    assert found.count(found[0]) == 200
    assert fred.counts.requests == len(fake.log) == 200


# ---------------------------------------------------------------------------------- refusals

TOO_MANY_OLD = (
    "There are 2004 vintage dates in the specified real-time period: 1776-07-04 to 9999-12-31.  "
    "This exceeds the maximum number of vintage dates allowed (2000)."
)
TOO_MANY_NEW = TOO_MANY_OLD.replace("allowed (", "allowed for this file type (")
NO_VINTAGES = "No vintage dates exist for the specified real-time period: 2026-08-15 to 2026-08-15."
AFTER_TODAY = "Variable realtime_{} can not be after today's date (2026-09-18) unless it's equal to"
BAD_DATE = "Variable realtime_start is not a YYYY-MM-DD formatted date (e.g. 2000-02-24)."
BAD_ID = (
    "Invalid value for variable series_id.  Series IDs should be 25 or less alphanumeric characters"
)
REFUSALS: list[tuple[int, str, type[NowcastError]]] = [
    (400, KEY_UNREGISTERED, KeyRefused),
    (400, KEY_NOT_SET, KeyRefused),
    (400, KEY_NOT_SET_IN_DOCS, KeyRefused),
    (400, KEY_MALFORMED, KeyRefused),
    (400, NO_SERIES, SeriesUnknown),
    (400, NOT_IN_ALFRED, SeriesNotArchived),
    (400, TOO_MANY_OLD, TooManyVintages),
    (400, TOO_MANY_NEW, TooManyVintages),
    (400, NO_VINTAGES, SeriesNotArchived),
    (400, AFTER_TODAY.format("end"), SourceUnavailable),
    (400, AFTER_TODAY.format("start"), SourceUnavailable),
    (400, BAD_DATE, InputError),
    (400, "Variable limit is not between 1 and 100000.", SourceError),
    (400, BAD_ID, SeriesUnknown),
    (404, "Not Found", SourceError),
    (404, RESTRICTED, SeriesNotArchived),
    (423, "Locked", SourceError),
]


@pytest.mark.parametrize(("status", "text", "kind"), REFUSALS)
def test_a_refusal_is_told_by_its_text_and_not_asked_again(
    fake: FakeFred, status: int, text: str, kind: type[NowcastError]
) -> None:
    fake.script(ff.refuse(status, f"Bad Request.  {text}" if status == 400 else text))
    with pytest.raises(NowcastError) as refused:
        client(fake).changes("PAY", *WINDOW)
    assert type(refused.value) is kind
    assert text[:40] in str(refused.value)
    assert fake.count("series/observations") == 1


def test_a_refusal_in_xml_or_with_the_keys_of_v2_is_read_too(fake: FakeFred) -> None:
    page = f'<error code="400" message="Bad Request.  {KEY_NOT_SET_IN_DOCS}"/>'
    fake.script(Fault("xml", page=(400, page)))
    with pytest.raises(KeyRefused, match="has not been set"):
        client(fake).tags("PAY")
    page = json.dumps({"code": 400, "message": "release_id is not a positive integer"})
    fake.script(Fault("v2", page=(400, page)))
    with pytest.raises(SourceError, match="positive integer"):
        client(fake).tags("PAY")


@pytest.mark.real
def test_every_recorded_error_is_one_of_ours(fake: FakeFred, real_data: Path) -> None:
    path = real_data.parent / "fred_fixtures" / "errors_catalogue.json"
    if not path.exists():
        pytest.skip("no recorded errors")
    for row in json.loads(path.read_text()):
        body = row["body"] if isinstance(row["body"], str) else json.dumps(row["body"])
        fake.script(Fault("recorded", page=(row["http_status"], body)), times=3)
        with pytest.raises(NowcastError) as refused:
            client(fake).changes("PAY", *WINDOW)
        passing = row["http_status"] in (403, 429, 504)
        assert ("no proper answer" in str(refused.value)) == passing, row
        fake.clear_scripts()


def test_one_more_request_tells_an_unknown_series_from_one_without_archive(
    fake: FakeFred,
) -> None:
    fred = client(fake)
    with pytest.raises(SeriesUnknown, match=r"NOPE: Bad Request\.  The series does not exist\."):
        fred.vintage_dates("NOPE")
    with pytest.raises(SeriesNotArchived, match="SP500: ALFRED has no vintages"):
        fred.vintage_dates("SP500")
    with pytest.raises(SeriesNotArchived, match="PAY: ALFRED has no vintages"):
        fred.changes("PAY", "2019-01-01", "2019-12-31")  # before the first vintage
    assert [request.path for request in fake.log[1::2]] == ["series"] * 3
    assert all("realtime_start" not in request.params for request in fake.log[1::2])


def test_a_key_refused_after_successes_is_tried_once_more(fake: FakeFred) -> None:
    fred = client(fake)
    fake.script(ff.key_not_registered(), after=1)
    fred.tags("PAY")
    assert sorted(fred.changes("PAY", *WINDOW)) == CHANGES
    assert len(fake.log) == 3
    fake.script(ff.key_not_registered(), times=2)
    with pytest.raises(KeyRefused):
        fred.changes("PAY", *WINDOW)
    assert len(fake.log) == 5


def test_a_key_refused_at_first_is_believed(fake: FakeFred) -> None:
    with pytest.raises(KeyRefused, match="not registered"):
        Fred("f" * 32, fake.base_url, rate=FAST).tags("PAY")
    assert len(fake.log) == 1


def test_a_key_refused_in_the_probe_is_tried_once_more_too(fake: FakeFred) -> None:
    fred = client(fake)
    fred.tags("PAY")
    fake.script(ff.key_not_registered(), path="series")
    with pytest.raises(SeriesUnknown):
        fred.vintage_dates("NOPE")


# --------------------------------------------------------------------- answers that are none


@pytest.mark.parametrize("call", ["metadata", "vintage_dates", "changes", "snapshot"])
def test_an_answer_about_another_window_is_refused(fake: FakeFred, call: str) -> None:
    fake.script(ff.wrong_window("2024-11-03", "2024-11-03"))
    with pytest.raises(SourceUnavailable, match=r"asked for realtime_start=.* answered for 2024"):
        CALLS[call](client(fake))


@pytest.mark.parametrize("call", ["vintage_dates", "changes", "snapshot", "release_dates"])
@pytest.mark.parametrize("extra", [1, -1, "missing", "text"])
def test_a_count_that_is_not_the_number_of_rows_is_refused(
    fake: FakeFred, call: str, extra: Any
) -> None:
    def edit(body: dict[str, Any]) -> None:
        right = body.pop("count")
        if extra != "missing":
            body["count"] = str(right) if extra == "text" else right + extra

    fake.script(ff.edited(edit), times=math.inf)
    with pytest.raises(SourceUnavailable, match="rows and gave"):
        CALLS[call](client(fake))


def rows_with(**fields: Any) -> Callable[[dict[str, Any]], None]:
    def edit(body: dict[str, Any]) -> None:
        body["observations"][0].update(fields)

    return edit


BROKEN: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "no list": ("changes", lambda body: body.pop("observations")),
    "rows that are none": ("changes", lambda body: body.update(observations=[1, 2, 3])),
    "no date": ("changes", lambda body: body["observations"][0].pop("date")),
    "another column": ("changes", rows_with(value="1.0")),
    "no number": ("changes", rows_with(PAY_20200207="n/a")),
    "not a number": ("changes", rows_with(PAY_20200207="NaN")),
    "infinite": ("snapshot", rows_with(value="inf")),
    "no value": ("snapshot", lambda body: body["observations"][0].pop("value")),
    "dates that are none": ("vintage_dates", lambda body: body.update(vintage_dates=[1, 2, 3])),
    "no dates": ("vintage_dates", lambda body: body.update(vintage_dates=[], count=0)),
    "no metadata": ("metadata", lambda body: body["seriess"][0].pop("realtime_start")),
}


@pytest.mark.parametrize(("call", "edit"), BROKEN.values(), ids=BROKEN)
def test_a_body_of_another_shape_is_refused(
    fake: FakeFred, call: str, edit: Callable[[dict[str, Any]], Any]
) -> None:
    fake.script(ff.edited(edit))
    with pytest.raises(SourceUnavailable, match=r"PAY: "):
        CALLS[call](client(fake))


def test_a_server_whose_clock_is_a_day_behind_says_so(fake: FakeFred) -> None:
    fake.today = "2020-04-03"
    fake.script(ff.clock_behind())
    with pytest.raises(SourceUnavailable, match=r"clock is behind .*2020-04-02"):
        client(fake).changes("PAY", *WINDOW)


def test_pages_are_read_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fred_module, "MAX_ROWS", 7)
    monkeypatch.setattr(fred_module, "MAX_DATES", 5)
    series = growing_series("PAY", "2000-01-01", 40)
    with FakeFred([series], TODAY, max_rows=7, max_dates=5) as fake:
        fred = client(fake)
        dates = fred.vintage_dates("PAY")
        assert dates == series.vintages(TODAY)
        assert fred.release_dates(10) == dates
        assert len(fred.snapshot("PAY", dates[-1])) == 40
        found = fred.changes("PAY", dates[0], dates[-1])
        assert len(set(found)) == len(found) == sum(map(len, series.points.values()))
        assert fake.count("series/observations", output_type=3) == 6


def test_a_page_that_fails_late_loses_the_whole_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fred_module, "MAX_ROWS", 7)
    with FakeFred([growing_series("PAY", "2000-01-01", 40)], TODAY, max_rows=7) as fake:
        fake.script(ff.html_with_200(), after=3, times=math.inf)
        with pytest.raises(SourceUnavailable):
            client(fake).snapshot("PAY", TODAY)
