"""RTDSM workbooks: what a vintage holds, the days it stands for, and what is wrong, by its cell."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nowcast_alfred.catalog import Catalog, CatalogEntry, load_catalog, metas
from nowcast_alfred.errors import (
    CatalogError,
    HistoryChanged,
    InputError,
    SourceError,
    SourceUnavailable,
)
from nowcast_alfred.periods import iso, to_days
from nowcast_alfred.recheck import faults
from nowcast_alfred.sources.files import read_long
from nowcast_alfred.sources.rtdsm import (
    LATE,
    MONTH_END,
    read_workbooks,
    vintage_days,
    workbooks,
)
from nowcast_alfred.sources.rtdsm_fetch import FILES, PAGES, fetch_workbook, fetch_workbooks
from nowcast_alfred.store import SeriesInput, VintageStore, open_store, publish
from nowcast_alfred.targets import SpaceConfig, build_space
from nowcast_alfred.taskset import NowcastConfig, NowcastTaskset
from xlsx import write_xlsx

ROOT = Path(__file__).resolve().parents[1]
Row = tuple[str, str, float | None, str]


def entry(id: str, frequency: Any = "m", **more: Any) -> CatalogEntry:
    facts = {"title": id, "units": "Units", "seasonal_adjustment": "None", "release": "Release"}
    return CatalogEntry(
        id=id,
        transform="chg",
        max_lag_days=62,
        frequency=frequency,
        training="research",
        **facts,
        **more,
    )


CATALOG = Catalog(
    "test",
    {
        id: entry(id, frequency)
        for id, frequency in [
            ("RTDSM_EMPLOY_M", "m"),
            ("RTDSM_ROUTPUT_Q", "q"),
            ("RTDSM_ROUTPUT_M", "q"),
            ("RTDSM_RUC_Q", "m"),
            ("RTDSM_M1_Q", "m"),
            ("RTDSM_HSTARTS_M", "m"),
            ("PAYEMS", "m"),
        ]
    },
)
EMPLOY = [
    ["DATE", "EMPLOY99M12", "EMPLOY00M1", "EMPLOY00M2"],
    ["1999:10", 100.0, 100.0, "#N/A"],
    ["1999:11", 101.5, 102, 102],
    ["1999:12", "#N/A", 103.25, 104],
    ["2000:01", "#N/A", None, 105],
]


def rows(item: SeriesInput) -> list[Row]:
    def text(day: dt.date) -> str:
        return day.isoformat()

    return [
        (text(r["period"]), text(r["vintage"]), r["value"], text(r["vintage_lower"]))
        for r in item.table.to_pylist()
    ]


def read(path: Path, catalog: Catalog = CATALOG) -> list[Row]:
    [item] = read_workbooks([path], catalog)
    return rows(item)


def refusal(path: Path, catalog: Catalog = CATALOG) -> str:
    with pytest.raises(InputError) as caught:
        read_workbooks([path], catalog)
    message = str(caught.value)
    assert message.startswith(str(path))
    return message


EXPECTED: list[Row] = [
    ("1999-10-01", "1999-12-15", 100.0, "1999-11-15"),
    ("1999-10-01", "2000-02-15", None, "2000-01-15"),
    ("1999-11-01", "1999-12-15", 101.5, "1999-11-15"),
    ("1999-11-01", "2000-01-15", 102.0, "1999-12-15"),
    ("1999-12-01", "2000-01-15", 103.25, "1999-12-15"),
    ("1999-12-01", "2000-02-15", 104.0, "2000-01-15"),
    ("2000-01-01", "2000-02-15", 105.0, "2000-01-15"),
]


# --- Reading


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"strings": "inline"},
        {"strings": "rich"},
        {"errors": True},
        {"references": False},
    ],
)
def test_a_workbook_is_read_however_it_was_written(tmp_path: Path, how: dict[str, Any]) -> None:
    path = write_xlsx(tmp_path / "employMvMd.xlsx", {"employ": EMPLOY}, **how)
    assert read(path) == EXPECTED


def test_a_value_that_disappears_is_withdrawn_and_one_not_there_yet_is_not(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", {"employ": EMPLOY})
    nulls = [row for row in read(path) if row[2] is None]
    assert nulls == [("1999-10-01", "2000-02-15", None, "2000-01-15")]


def test_empty_rows_and_columns_at_the_end_are_no_data(tmp_path: Path) -> None:
    table = [[*row, None, ""] for row in EMPLOY] + [[], [None, None], ["", " "]]
    assert read(write_xlsx(tmp_path / "a.xlsx", {"employ": table})) == EXPECTED


def test_a_vintage_without_any_value_was_not_collected(tmp_path: Path) -> None:
    table = [
        ["DATE", "EMPLOY99M11", "EMPLOY99M12", "EMPLOY00M1", "EMPLOY00M2"],
        ["1999:11", "#N/A", 1, "#N/A", 1],
        ["1999:12", "#N/A", "#N/A", "#N/A", 2],
    ]
    assert read(write_xlsx(tmp_path / "a.xlsx", {"employ": table})) == [
        ("1999-11-01", "1999-12-15", 1.0, "1999-11-15"),
        ("1999-12-01", "2000-02-15", 2.0, "1999-12-15"),  # not from January's middle on
    ]


def test_the_two_digit_year_turns_at_50(tmp_path: Path) -> None:
    table = [["DATE", "EMPLOY50M1", "EMPLOY49M12"], ["1949:11", 1, 2]]
    assert read(write_xlsx(tmp_path / "a.xlsx", {"employ": table})) == [
        ("1949-11-01", "1950-01-15", 1.0, "1949-12-15"),
        ("1949-11-01", "2049-12-15", 2.0, "1950-01-15"),
    ]


def test_a_variable_that_ends_in_a_digit_is_told_from_its_vintages(tmp_path: Path) -> None:
    table = [["DATE", "M165Q4", "M166Q1"], ["1965:10", 1, 2], ["1965:11", "#N/A", 3]]
    [item] = read_workbooks([write_xlsx(tmp_path / "m1QvMd.xlsx", {"m1": table})], CATALOG)
    assert item.id == "RTDSM_M1_Q"
    assert rows(item)[0] == ("1965-10-01", "1965-11-15", 1.0, "1965-08-15")


def test_a_folder_is_read_by_the_catalog_in_any_case_and_lock_files_are_not(tmp_path: Path) -> None:
    write_xlsx(tmp_path / "EMPLOYmvmd.XLSX", {"employ": EMPLOY})
    quarterly = [["DATE", "ROUTPUT99Q4", "ROUTPUT00Q1"], ["1999:Q3", 1, 1], ["1999:Q4", "", 2]]
    write_xlsx(tmp_path / "ROUTPUTQvQd.xlsx", {"ROUTPUT": quarterly})
    (tmp_path / "~$employMvMd.xlsx").write_bytes(b"\x05someone")
    (tmp_path / "employ_first_second_third.xlsx").write_bytes(b"<html>")
    (tmp_path / "notes.txt").write_text("mine")
    found = read_workbooks(tmp_path, CATALOG)
    assert [item.id for item in found] == ["RTDSM_EMPLOY_M", "RTDSM_ROUTPUT_Q"]
    assert all(item.complete and item.retrieved_at for item in found)
    others = Catalog("x", {"RTDSM_HSTARTS_M": CATALOG.series["RTDSM_HSTARTS_M"]})
    with pytest.raises(InputError, match=r"no workbook of the catalog, such as hstartsMvMd\.xlsx"):
        read_workbooks(tmp_path, others)


def test_the_catalog_s_rights_hold_unless_others_are_stated(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", {"employ": EMPLOY})
    assert read_workbooks(path, CATALOG)[0].meta[0].training == "research"
    [item] = read_workbooks(path, CATALOG, rights="permission: the bank, by letter")
    assert item.meta[0].training == "permission: the bank, by letter"
    with pytest.raises(InputError, match="training 'sure'; one of granted"):
        read_workbooks(path, CATALOG, rights="sure")


def test_of_several_sheets_the_one_with_dates_is_read(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", {"Notes": [["by", "me"]], "employ": EMPLOY})
    assert read(path) == EXPECTED
    path = write_xlsx(tmp_path / "a.xlsx", {"employ": EMPLOY, "copy": EMPLOY})
    assert "one sheet must start with DATE; there are employ, copy" in refusal(path)


def test_a_workbook_whose_past_was_corrected_changes_history_by_name(tmp_path: Path) -> None:
    path, root = tmp_path / "a.xlsx", tmp_path / "store"
    publish(root, read_workbooks(write_xlsx(path, {"employ": EMPLOY}), CATALOG))
    added = ["EMPLOY00M3", "", 102, 104, 106]
    later = [[*row, cell] for row, cell in zip(EMPLOY, added, strict=True)]
    publish(root, read_workbooks(write_xlsx(path, {"employ": later}), CATALOG))
    later[2][1] = "#N/A"
    with pytest.raises(HistoryChanged, match=r"EMPLOY_M 1999-11-01 in vintage 1999-12-15: 101\.5"):
        publish(root, read_workbooks(write_xlsx(path, {"employ": later}), CATALOG))


# --- Days


def days(variable: str, kind: str, *labels: int) -> list[tuple[str, str]]:
    found = vintage_days(variable, kind, np.array(labels, dtype=np.int32))
    return [(iso(lower), iso(day)) for day, lower in zip(*found, strict=True)]


def test_monthly_vintages_stand_for_the_15th_and_begin_after_the_one_before() -> None:
    assert days("EMPLOY", "MvMd", 2023 * 12, 2023 * 12 + 1, 2023 * 12 + 4) == [
        ("2022-12-15", "2023-01-15"),
        ("2023-01-15", "2023-02-15"),
        ("2023-02-15", "2023-05-15"),  # two vintages are not there
    ]


def test_quarterly_vintages_stand_for_the_15th_of_the_middle_month() -> None:
    expected = [("2019-11-15", "2020-02-15"), ("2020-02-15", "2020-05-15")]
    assert days("ROUTPUT", "QvQd", 2020 * 4, 2020 * 4 + 1) == expected
    assert days("RUC", "QvMd", 2020 * 4, 2020 * 4 + 1) == expected


def test_what_comes_later_in_a_month_stands_for_the_month_s_end() -> None:
    for variable in MONTH_END:
        assert days(variable, "MvMd", 2024 * 12 + 1) == [("2024-01-31", "2024-02-29")]


def test_national_accounts_by_month_are_not_asked_for_after_their_release() -> None:
    """The first estimate of 2008 Q4, out on 30 January 2009, is new in the vintage of February."""
    [(lower, day)] = days("ROUTPUT", "MvQd", 2009 * 12 + 1)
    assert (lower, day) == ("2009-01-15", "2009-02-28")
    assert lower < "2009-01-30" <= day


def test_a_release_that_a_shutdown_delayed_is_not_seen_before_its_day() -> None:
    assert days("EMPLOY", "MvMd", 2013 * 12 + 9, 2013 * 12 + 10) == [
        ("2013-09-15", "2013-10-22"),
        ("2013-10-22", "2013-11-15"),
    ]
    assert days("ROUTPUT", "QvQd", 2019 * 4) == [("2018-11-15", "2019-02-28")]
    for kind, late in LATE.items():
        for label, day in late.items():
            number = int(label[6:]) if "Q" in label else int(label[5:])
            ordinal = int(label[:4]) * (4 if "Q" in label else 12) + number - 1
            [(lower, found)] = days("ANY", kind, ordinal)
            assert lower < day == found


# --- What is wrong


def changed(row: int, column: int, cell: Any) -> list[list[Any]]:
    table: list[list[Any]] = [list(cells) for cells in EMPLOY]
    table[row][column] = cell
    return table


@pytest.mark.parametrize(
    ("row", "column", "cell", "words"),
    [
        (3, 2, "abc", "row 4, column EMPLOY00M1: 'abc' is not a finite number"),
        (3, 2, "1,000", "row 4, column EMPLOY00M1: '1,000'"),
        (3, 2, "nan", "row 4, column EMPLOY00M1: 'nan'"),
        (3, 2, "1_0", "row 4, column EMPLOY00M1: '1_0'"),
        (3, 2, "1e999", "row 4, column EMPLOY00M1: '1e999'"),
        (3, 2, "#REF!", "row 4, column EMPLOY00M1: '#REF!'"),
        (2, 0, "1999-11", "row 3, column DATE: '1999-11' is no date"),
        (2, 0, 36465, "row 3, column DATE: '36465' is no date"),
        (2, 0, "1999:13", "row 3, column DATE: '1999:13' is no date"),
        (2, 0, "1999:Q3", "row 3, column DATE: '1999:Q3': monthly and quarterly dates"),
        (2, 0, "", "row 3, column DATE: '' is no date"),
        (2, 0, "1999:10", "row 3, column DATE: 1999:10 was on row 2 already"),
        (4, 1, 7.5, "row 5, column EMPLOY99M12: has a value for 2000-01-01 on 1999-12-15"),
        (0, 0, "Month", "row 1: the first column must be DATE"),
        (0, 2, "EMPLOY0M1", "row 1, column EMPLOY0M1: 'EMPLOY0M1' is no vintage"),
        (0, 2, "EMPLOY00M13", "row 1, column EMPLOY00M13: 'EMPLOY00M13' is no vintage"),
        (0, 2, "EMPLOY00Q1", "row 1, column EMPLOY00Q1: vintages of EMPLOY and others"),
        (0, 2, "IPT00M1", "row 1, column IPT00M1: vintages of EMPLOY and others"),
        (0, 2, "EMPLOY99M12", "row 1, column EMPLOY99M12: vintages must ascend"),
        (0, 2, "EMPLOY99M11", "row 1, column EMPLOY99M11: vintages must ascend"),
        (0, 2, None, "row 2: '100.0' has no column name above it"),
    ],
)
def test_a_bad_cell_is_named(tmp_path: Path, row: int, column: int, cell: Any, words: str) -> None:
    path = write_xlsx(tmp_path / "employMvMd.xlsx", {"employ": changed(row, column, cell)})
    assert refusal(path).startswith(f"{path}, sheet employ, {words}")


def test_a_workbook_that_is_another_than_its_name_says_is_refused(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "iptMvMd.xlsx", {"employ": EMPLOY})
    assert "is called iptMvMd but holds employMvMd" in refusal(path)
    quarterly = [["DATE", "EMPLOY99M12"], ["1999:Q3", 1]]
    path = write_xlsx(tmp_path / "a.xlsx", {"employ": quarterly})
    assert "has quarterly values; RTDSM_EMPLOY_M has frequency 'm'" in refusal(path)
    path = write_xlsx(tmp_path / "b.xlsx", {"x": [["DATE", "OTHER99M12"], ["1999:03", 1]]})
    assert "its columns are of RTDSM_OTHER_M, which is not in test" in refusal(path)
    one, two = (write_xlsx(tmp_path / f"{n}.xlsx", {"employ": EMPLOY}) for n in "12")
    with pytest.raises(InputError, match=r"2\.xlsx, sheet employ: RTDSM_EMPLOY_M is in .*1\.xlsx"):
        read_workbooks([one, two], CATALOG)


def test_a_workbook_without_data_is_refused(tmp_path: Path) -> None:
    for table, words in (
        ([], "row 1: the first column must be DATE"),
        ([["DATE"], ["1999:01"]], "there are no vintages beside DATE"),
        (EMPLOY[:1], "has no values"),
        ([EMPLOY[0], ["1999:01", "#N/A"]], "has no values"),
    ):
        assert words in refusal(write_xlsx(tmp_path / "a.xlsx", {"employ": table}))


def test_a_file_that_is_no_workbook_is_never_parsed(tmp_path: Path) -> None:
    path = tmp_path / "employMvMd.xlsx"
    for content, words in (
        (b"", "is empty"),
        (b"\xef\xbb\xbf\n<!DOCTYPE html><html>", "is a web page under a workbook's name"),
        (b"<html>DATE EMPLOY64M12</html>", "is a web page under a workbook's name"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "legacy format; save it as .xlsx"),
        (b"DATE,EMPLOY64M12\n", "is no XLSX workbook"),
        (b"PK\x03\x04 and then nothing", "is a damaged workbook"),
    ):
        path.write_bytes(content)
        assert words in refusal(path)
    whole = write_xlsx(path, {"employ": EMPLOY}).read_bytes()
    path.write_bytes(whole[:-200])
    assert "is a damaged workbook" in refusal(path)
    assert "cannot be read" in refusal(tmp_path / "nowhere.xlsx")


def test_a_hostile_or_broken_workbook_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b SYSTEM "file:///etc/passwd">]>'
    write_xlsx(path, {"employ": EMPLOY}, prolog=bomb)
    assert "sheet1.xml has a document type definition; refused" in refusal(path)
    sheet = "xl/worksheets/sheet1.xml"
    for part, content, words in (
        (sheet, "<worksheet><sheetData><row", "sheet1.xml is damaged"),
        (sheet, '<w><row r="2"/><row r="2"/></w>', "row '2' after 2"),
        (sheet, '<w><row r="1"><c r="B1"/><c r="A1"/></row></w>', "cell A1 is out of place"),
        (sheet, '<w><row r="1"><c r="XFE1"/></row></w>', "cell XFE1 is out of place"),
        (sheet, '<w><row r="1"><c r="?"/></row></w>', "cell ? is out of place"),
        (sheet, '<w><row r="1"><c r="A1" t="s"><v>99</v></c></row></w>', "row 1: is damaged"),
        ("xl/workbook.xml", None, "it has no xl/workbook.xml"),
        (sheet, None, "it has no xl/worksheets/sheet1.xml"),
    ):
        write_xlsx(path, {"employ": EMPLOY}, replace={part: content})
        assert words in refusal(path)


def test_series_are_called_after_their_workbooks() -> None:
    assert workbooks(CATALOG) == {
        "RTDSM_EMPLOY_M": "employMvMd",
        "RTDSM_ROUTPUT_Q": "routputQvQd",
        "RTDSM_ROUTPUT_M": "routputMvQd",
        "RTDSM_RUC_Q": "rucQvMd",
        "RTDSM_M1_Q": "m1QvMd",
        "RTDSM_HSTARTS_M": "hstartsMvMd",
    }
    for id, frequency in (("RTDSM_EMPLOY", "m"), ("RTDSM_EMPLOY_D", "m"), ("RTDSM_X_M", "w")):
        with pytest.raises(CatalogError, match=f"test: series {id}: must be called RTDSM_VARIABLE"):
            workbooks(Catalog("test", {id: entry(id, frequency)}))
    with pytest.raises(CatalogError, match="no series is called RTDSM_VARIABLE_M"):
        workbooks(Catalog("test", {"PAYEMS": entry("PAYEMS")}))


# --- The catalog


def test_the_catalog_is_for_research_and_asks_for_growth_only() -> None:
    catalog = load_catalog(ROOT / "catalogs/us-rtdsm.toml")
    series = metas(catalog)
    assert 22 <= len(series) <= 30
    names = workbooks(catalog)
    for meta in series:
        assert (meta.source, meta.training) == ("Philadelphia Fed RTDSM", "research")
        assert "Federal Reserve Bank of Philadelphia" in meta.attribution
        assert meta.transform in ("chg", "pch", "pca")
        if meta.transform == "chg":  # of a level without a base year
            assert meta.units != "Index"
            assert "Real" not in meta.units
        assert (meta.role == "predictor") == names[meta.id].endswith("QvMd")
        assert not any(digits in f"{meta.title} {meta.units}" for digits in ("19", "20", "=100"))


def test_the_catalog_s_lags_are_those_of_the_vintage_rule() -> None:
    catalog = load_catalog(ROOT / "catalogs/us-rtdsm.toml")
    for id, name in workbooks(catalog).items():
        variable, kind = name[:-4].upper(), name[-4:]
        step = 12 if kind[0] == "M" else 4
        # 2021 to 2024: every length of a month, no delayed vintage.
        ordinals = np.arange(2021 * step, 2025 * step, dtype=np.int32)
        lags = []
        for day in vintage_days(variable, kind, ordinals)[0].tolist():
            # The newest period: the month before, or the quarter before the vintage's middle.
            date = np.datetime64(day, "D").astype("datetime64[M]")
            if kind == "MvQd":
                if int(date.astype(int)) % 3 != 1:  # first estimates are in February, May, ...
                    continue
                date -= np.timedelta64(1, "M")
            elif kind == "QvQd":
                date -= np.timedelta64(1, "M")
            lags.append(day - (int(date.astype("datetime64[D]").astype(int)) - 1))
        assert max(lags) == catalog.series[id].max_lag_days, id


# --- Downloads


class Server:
    """Answers by path (and query), from lists of (status, body, headers) that the last stays of."""

    def __init__(self) -> None:
        self.answers: dict[str, list[tuple[int, bytes]]] = {}
        self.asked: list[str] = []
        self.agents: set[str] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                outer.agents.add(self.headers["User-Agent"])
                found = outer.answers.get(self.path, [(404, b"<html>none</html>")])
                status, body = found.pop(0) if len(found) > 1 else found[0]
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join()


PLAIN, PAGE = f"/{FILES}/employMvMd.xlsx", f"/{PAGES}/employ"
HTML = b"<!DOCTYPE html><title>Not here</title>"


@pytest.fixture
def body(tmp_path: Path) -> bytes:
    return write_xlsx(tmp_path / "source.xlsx", {"employ": EMPLOY}).read_bytes()


Fetch = Callable[..., Path]


@pytest.fixture
def fetch(server: Server, tmp_path: Path) -> Fetch:
    def run(name: str = "employMvMd", **more: Any) -> Path:
        settings = {"base_url": server.url, "backoff": 0.01} | more
        return fetch_workbook(name, "me@example.org", tmp_path / "new" / "folder", **settings)

    return run


def test_the_plain_link_is_enough_where_it_works(server: Server, fetch: Fetch, body: bytes) -> None:
    server.answers[PLAIN] = [(200, body)]
    path = fetch()
    assert path.name == "employMvMd.xlsx"
    assert path.read_bytes() == body
    assert read(path) == EXPECTED
    assert fetch() == path  # and is kept
    assert server.asked == [PLAIN]
    [agent] = server.agents
    assert agent.startswith("nowcast-alfred/")
    assert agent.endswith("(me@example.org)")
    fetch(again=True)
    assert server.asked == [PLAIN, PLAIN]


@pytest.mark.parametrize("status", [200, 403, 404])
def test_a_web_page_instead_leads_to_the_link_on_the_series_page(
    server: Server, fetch: Fetch, body: bytes, status: int
) -> None:
    link = f"{PLAIN.lower()}?sc_lang=en&hash=1F"
    server.answers[PLAIN] = [(status, HTML)]
    server.answers[PAGE] = [
        (
            200,
            b"<a href='http://[bad'>x</a><a href=\"https://elsewhere.example/employMvMd.xlsx\">x</a>"
            b'<a href="/x/employ_first_second_third.xlsx">x</a><a class=b HREF = "'
            + link.replace("&", "&amp;").encode()
            + b'">Vintages</a>',
        )
    ]
    server.answers[link] = [(200, body)]
    assert fetch().read_bytes() == body
    assert server.asked == [PLAIN, PAGE, link]


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ((404, HTML), "refused with status 404"),
        ((200, HTML), "has no link to employMvMd.xlsx"),
        ((200, f'<a href="{PLAIN}?hash=1">'.encode()), "web page"),
    ],
)
def test_without_any_workbook_the_error_says_what_to_do_by_hand(
    server: Server, fetch: Fetch, tmp_path: Path, page: tuple[int, bytes], words: str
) -> None:
    server.answers = {PLAIN: [(200, HTML)], f"{PLAIN}?hash=1": [(200, HTML)], PAGE: [page]}
    with pytest.raises(SourceError) as caught:
        fetch()
    message = str(caught.value)
    assert words in message
    folder = tmp_path / "new" / "folder"
    assert f"open {server.url}{PAGE}, download employMvMd.xlsx and put it into {folder}" in message
    assert not list(folder.glob("*.xlsx"))


def test_what_passes_is_tried_again_and_not_for_ever(
    server: Server, fetch: Fetch, body: bytes
) -> None:
    server.answers[PLAIN] = [(503, b""), (200, body[:-100]), (200, body)]
    assert fetch().read_bytes() == body
    server.asked.clear()
    server.answers[PLAIN] = [(500, b"")]
    with pytest.raises(SourceUnavailable, match=r"Else open .*/employ, download employMvMd"):
        fetch(again=True, tries=3)
    assert server.asked == [PLAIN] * 3
    server.answers = {PLAIN: [(200, HTML)], PAGE: [(502, b"")]}
    with pytest.raises(SourceUnavailable, match="no proper answer in 2 tries"):
        fetch(again=True, tries=2)


def test_a_name_or_a_contact_that_is_none_asks_nobody(server: Server, fetch: Fetch) -> None:
    for name in ("employ", "../employMvMd", "employMvMd.xlsx"):
        with pytest.raises(InputError, match="is no workbook"):
            fetch(name)
    for contact in ("", "me", "me@example.org\r\nX: y"):
        with pytest.raises(InputError, match="state an e-mail or web address"):
            fetch_workbook("employMvMd", contact, "nowhere", base_url=server.url)
    assert server.asked == []


def test_all_workbooks_of_a_catalog_are_fetched_once(
    server: Server, tmp_path: Path, body: bytes
) -> None:
    two = {id: CATALOG.series[id] for id in ("RTDSM_EMPLOY_M", "RTDSM_ROUTPUT_Q")}
    catalog = Catalog("two", two)
    quarterly = [["DATE", "ROUTPUT99Q4"], ["1999:Q3", 1]]
    other = write_xlsx(tmp_path / "other.xlsx", {"ROUTPUT": quarterly}).read_bytes()
    server.answers = {PLAIN: [(200, body)], f"/{FILES}/routputQvQd.xlsx": [(200, other)]}
    said: list[str] = []
    for _ in range(2):
        paths = fetch_workbooks(
            catalog, "me@example.org", tmp_path / "w", base_url=server.url, progress=said.append
        )
    assert len(server.asked) == 2
    assert said == ["employMvMd", "routputQvQd"] * 2
    assert [item.id for item in read_workbooks(paths, catalog)] == sorted(two)
    assert [item.id for item in read_workbooks(tmp_path / "w", catalog)] == sorted(two)


# --- The real workbooks


@pytest.fixture(scope="module")
def real(real_data: Path) -> dict[str, SeriesInput]:
    catalog = load_catalog(ROOT / "catalogs/us-rtdsm.toml")
    return {item.id: item for item in read_workbooks(real_data, catalog)}


@pytest.fixture(scope="module")
def store(real: dict[str, SeriesInput], tmp_path_factory: pytest.TempPathFactory) -> VintageStore:
    folder = tmp_path_factory.mktemp("rtdsm")
    publish(folder, real.values())
    return open_store(folder)


@pytest.mark.real
def test_real_payrolls_are_read_whole(real: dict[str, SeriesInput], store: VintageStore) -> None:
    assert sorted(real) == ["RTDSM_EMPLOY_M", "RTDSM_ROUTPUT_Q"]
    known = [
        store.view(day).observations("RTDSM_EMPLOY_M", start="2023-12-01", end="2023-12-01").value
        for day in ("2024-01-14", "2024-01-15", "2024-02-14", "2024-02-15")
    ]
    assert [values.tolist() for values in known] == [[], [157_232], [157_232], [157_347]]
    vintages = {row["vintage"] for row in real["RTDSM_EMPLOY_M"].table.to_pylist()}
    assert min(vintages) == dt.date(1964, 12, 15)
    assert max(vintages) == dt.date(2024, 3, 15)


@pytest.mark.real
def test_real_release_days_lie_within_the_brackets(
    real: dict[str, SeriesInput], real_data: Path
) -> None:
    """Against the days of a panel from ALFRED, the shutdown of 2019 included."""
    catalog = load_catalog(ROOT / "catalogs/us-macro.toml")
    panel = {m[0].id: t for m, t in read_long(real_data / "us_panel_2016_2025.parquet", catalog)}
    checked = 0
    for mine, theirs in (("RTDSM_EMPLOY_M", "PAYEMS"), ("RTDSM_ROUTPUT_Q", "GDPC1")):
        first: dict[dt.date, dict[str, Any]] = {}
        for row in real[mine].table.to_pylist():
            first.setdefault(row["period"], row)
        released: dict[dt.date, dict[str, Any]] = {}
        for row in panel[theirs].to_pylist():
            released.setdefault(row["period"], row)
        start = min(row["vintage"] for row in released.values())
        for period, row in released.items():
            if row["vintage"] > start and row["vintage_lower"] is None and period in first:
                found = first[period]
                assert found["vintage_lower"] < row["vintage"] <= found["vintage"], period
                assert found["value"] == pytest.approx(row["value"], abs=0.05)
                checked += 1
    assert checked > 110


@pytest.mark.real
def test_a_rebase_of_real_output_is_no_outcome(store: VintageStore) -> None:
    """1985 Q3 reads 1,684.8 first and 8,604.2 last; every outcome is growth inside one vintage."""
    revisions = store.view("2024-03-15").revisions("RTDSM_ROUTPUT_Q", "1985-07-01")
    assert revisions[0] == ("1985-11-15", 1684.8)
    assert revisions[-1] == ("2023-11-15", pytest.approx(8604.2))
    [targets] = build_space(store, SpaceConfig(series=["RTDSM_ROUTPUT_Q"])).series.values()
    assert len(targets.period) > 180
    outcomes = {
        iso(period): store.outcome("RTDSM_ROUTPUT_Q", iso(period), "pca").first
        for period in targets.period.tolist()
    }
    assert outcomes["1985-07-01"] == pytest.approx(3.3, abs=0.05)
    assert "1995-10-01" not in outcomes  # the shutdown's, first seen half a year late
    assert "2018-10-01" not in outcomes
    extremes = sorted(outcomes, key=lambda period: abs(outcomes[period]))[-2:]
    assert sorted(extremes) == ["2020-04-01", "2020-07-01"]
    assert max(abs(value) for value in outcomes.values()) < 34
    assert max(abs(v) for period, v in outcomes.items() if period[:4] != "2020") < 15


@pytest.mark.real
def test_real_tasks_follow_from_the_raw_rows(store: VintageStore) -> None:
    taskset = NowcastTaskset(NowcastConfig(store=store.uri))
    stream = taskset.stream()
    data_of = taskset.builder(stream)
    asked = set()
    for n in range(200):
        data = data_of(n)
        assert faults(store.uri, data) == []
        asked.add(data.series_id)
        released = store.changes(data.series_id)
        start, _ = released.rows_of(to_days(data.reference_period))
        assert to_days(data.as_of) <= released.columns.lower[start]
    assert asked == {"RTDSM_EMPLOY_M", "RTDSM_ROUTPUT_Q"}
