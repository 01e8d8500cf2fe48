"""Wide vintages: ALFRED's download and FRED-MD's months give the days and values they state."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pytest

from nowcast_alfred.catalog import Catalog, CatalogEntry, load_catalog, metas
from nowcast_alfred.errors import CatalogError, InputError
from nowcast_alfred.recheck import faults
from nowcast_alfred.sources.wide import read_alfred_wide, read_fred_md
from nowcast_alfred.store import SeriesInput, VintageStore, open_store, publish
from nowcast_alfred.taskset import NowcastConfig, NowcastTaskset
from xlsx import write_xlsx

ROOT = Path(__file__).resolve().parents[1]
Row = tuple[str, str, float | None, str | None]


def entry(id: str, frequency: Any = "m") -> CatalogEntry:
    return CatalogEntry(
        id=id,
        transform="chg",
        max_lag_days=31,
        title=id,
        frequency=frequency,
        units="Units",
        seasonal_adjustment="None",
        release="Release",
        training="prohibited",
    )


CATALOG = Catalog(
    "test",
    {"PAYEMS": entry("PAYEMS"), "UNRATE": entry("UNRATE"), "BARE": CatalogEntry("BARE", "lin", 3)}
    | {"GDP": entry("GDP", "q"), "ICSA": entry("ICSA", "w"), "MY_ID": entry("MY_ID", "a")},
)


def rows(item: SeriesInput) -> list[Row]:
    def text(day: dt.date | None) -> str | None:
        return day.isoformat() if day else None

    return [
        (str(r["period"]), str(r["vintage"]), r["value"], text(r["vintage_lower"]))
        for r in item.table.to_pylist()
    ]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# --- ALFRED

ALFRED = """\
observation_date,PAYEMS_20240105,PAYEMS_20240202,UNRATE_20240105
2023-11-01,157016,157014,3.7
2023-12-01,157232,157347,3.7
2024-01-01,,157700,
"""
PAYEMS: list[Row] = [
    ("2023-11-01", "2024-01-05", 157016.0, None),
    ("2023-11-01", "2024-02-02", 157014.0, None),
    ("2023-12-01", "2024-01-05", 157232.0, None),
    ("2023-12-01", "2024-02-02", 157347.0, None),
    ("2024-01-01", "2024-02-02", 157700.0, None),
]


def alfred(path: Path, text: str, catalog: Catalog = CATALOG) -> dict[str, list[Row]]:
    found = read_alfred_wide(write(path, text), catalog)
    return {item.id: rows(item) for item in found}


def refusal(path: Path, catalog: Catalog = CATALOG) -> str:
    with pytest.raises(InputError) as caught:
        read_alfred_wide(path, catalog)
    message = str(caught.value)
    assert message.startswith(str(path))
    return message


def test_a_column_is_a_vintage_of_an_exact_day(tmp_path: Path) -> None:
    found = alfred(tmp_path / "a.csv", ALFRED)
    assert list(found) == ["PAYEMS", "UNRATE"]
    assert found["PAYEMS"] == PAYEMS
    assert found["UNRATE"] == [
        ("2023-11-01", "2024-01-05", 3.7, None),
        ("2023-12-01", "2024-01-05", 3.7, None),
    ]


def test_columns_come_in_any_order_with_marks_and_blank_lines(tmp_path: Path) -> None:
    text = (
        "\ufeffDATE,UNRATE_20240105,PAYEMS_20240202,PAYEMS_20240105\r\n"
        "2024-01-01,.,157700,#N/A\r\n\r\n,,,\r\n"
        "2023-12-01, 3.7 ,157347,157232\r\n2023-11-01,3.7,157014,157016\r\n"
    )
    assert alfred(tmp_path / "a.csv", text)["PAYEMS"] == PAYEMS


@pytest.mark.parametrize("blank", ["", ".", "#N/A"])
def test_a_blank_before_the_first_value_is_unknown_and_after_it_withdrawn(
    tmp_path: Path, blank: str
) -> None:
    text = (
        "observation_date,PAYEMS_20240105,PAYEMS_20240202,PAYEMS_20240308,PAYEMS_20240405\n"
        f"2023-12-01,{blank},1,{blank},{blank}\n2024-01-01,{blank},{blank},{blank},{blank}\n"
        f"2023-11-01,5,5,{blank},6\n"
    )
    assert alfred(tmp_path / "a.csv", text)["PAYEMS"] == [
        ("2023-11-01", "2024-01-05", 5.0, None),
        ("2023-11-01", "2024-03-08", None, None),
        ("2023-11-01", "2024-04-05", 6.0, None),
        ("2023-12-01", "2024-02-02", 1.0, None),
        ("2023-12-01", "2024-03-08", None, None),
    ]


def test_series_of_several_frequencies_share_a_file(tmp_path: Path) -> None:
    text = (
        "observation_date,GDP_20240125,PAYEMS_20240202,MY_ID_20240202,ICSA_20240201\n"
        "2022-01-01,.,,5,\n2023-10-01,27938.8,1,,\n2023-11-01,,2,,\n2024-01-27,,,,224000\n"
    )
    found = alfred(tmp_path / "a.csv", text)
    assert found["GDP"] == [("2023-10-01", "2024-01-25", 27938.8, None)]
    assert found["MY_ID"] == [("2022-01-01", "2024-02-02", 5.0, None)]
    # ALFRED dates a week by its last day, a store by its first.
    assert found["ICSA"] == [("2024-01-21", "2024-02-01", 224000.0, None)]
    assert len(found["PAYEMS"]) == 2


def test_a_workbook_is_read_sheet_by_sheet(tmp_path: Path) -> None:
    readme = [["ALFRED"], [None, "observation_date"]]
    first = [["observation_date", "PAYEMS_20240105"], ["2023-11-01", 157016], [45261, 157232]]
    second = [
        ["observation_date", "PAYEMS_20240202"],
        [45231, 157014],
        ["2023-12-01 00:00:00", 157347],
        [45292.0, 157700],
    ]
    sheets = {"README": readme, "Monthly": first, "Monthly 2": second}
    path = write_xlsx(tmp_path / "a.xlsx", sheets)
    [item] = read_alfred_wide(path, CATALOG)
    assert rows(item) == PAYEMS
    renamed = path.rename(tmp_path / "a.csv")  # known by what it is, not by its name
    assert rows(read_alfred_wide(renamed, CATALOG)[0]) == PAYEMS
    path = write_xlsx(tmp_path / "b.xlsx", {"Monthly": first}, dates_from_1904=True)
    assert "counts its dates from 1904" in refusal(path)
    path = write_xlsx(tmp_path / "c.xlsx", {"README": readme, "Other": [["x"]]})
    assert "no sheet starts with observation_date; it has README, Other" in refusal(path)
    path = write_xlsx(tmp_path / "d.xlsx", {"Monthly": [*first, [45262, 1]]})
    words = "sheet Monthly, row 4, column PAYEMS_20240105: 2023-12-02 is not the first day of a"
    assert words in refusal(path)


def test_a_download_is_no_whole_archive(tmp_path: Path) -> None:
    found = read_alfred_wide(write(tmp_path / "a.csv", ALFRED), CATALOG)
    assert not any(item.complete for item in found)


def test_rights_may_be_stated_for_all_series(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ALFRED)
    right = "permission: the bank, by letter"
    for given, expected in ((None, "prohibited"), (right, right)):
        found = read_alfred_wide(path, CATALOG, given)
        assert {item.meta[0].training for item in found} == {expected}
    with pytest.raises(InputError, match="training 'yes'; one of granted"):
        read_alfred_wide(path, CATALOG, rights="yes")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("157232", "157,232", "line 3: '3.7' has no column name above it"),
        ("157232", "abc", "line 3, column PAYEMS_20240105: 'abc' is not a finite number"),
        ("157232", "NaN", "line 3, column PAYEMS_20240105: 'NaN' is not a finite number"),
        ("157232", "1\ufffd", "line 3, column PAYEMS_20240105: '1\ufffd'"),
        ("2023-12-01", "12/1/2023", "line 3, column observation_date: '12/1/2023' is no date"),
        ("2023-12-01", "2023-13-01", "line 3, column observation_date: '2023-13-01' is no date"),
        ("2023-12-01", "45261", "line 3, column observation_date: '45261' is no date"),
        ("2023-12-01", "", "line 3, column observation_date: '' is no date"),
        ("2023-12-01", "2023-11-01", "line 3, column observation_date: 2023-11-01 was on 2 alr"),
        ("2023-12-01", "2023-12-31", "line 3, column PAYEMS_20240105: 2023-12-31 is not the first"),
        ("2023-12-01", "2024-02-01", "line 3, column PAYEMS_20240105: a value on 2024-01-05, be"),
        ("observation_date", "when", "line 1: the first column must be observation_date"),
        ("PAYEMS_20240202", "PAYEMS", "line 1, column PAYEMS: is no vintage, such as"),
        ("PAYEMS_20240202", "PAYEMS_20240230", "line 1, column PAYEMS_20240230: is no vintage"),
        ("PAYEMS_20240202", "PAYEMS_20240105", "line 1, column PAYEMS_20240105: the same vint"),
        ("PAYEMS_20240202", "", "line 2: '157014' has no column name above it"),
        ("UNRATE_2", "NOPE_2", "line 1, column NOPE_20240105: NOPE is not in the catalog test"),
        ("UNRATE_2", "GDP_2", "line 2, column GDP_20240105: 2023-11-01 is not the first day of a"),
        (ALFRED, "", "is empty"),
        (ALFRED, "\n\n", "line 1: the first column must be observation_date"),
        (ALFRED, "observation_date\n2024-01-01\n", "there are no vintages beside"),
        (ALFRED, "DATE,PAYEMS_20240105\n", "line 1, column PAYEMS_20240105: PAYEMS has no values"),
        (ALFRED, " \n<!DOCTYPE html>", "is a web page, not data"),
    ],
)
def test_what_is_wrong_in_a_download_is_named(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    path = write(tmp_path / "a.csv", ALFRED.replace(old, new, 1))
    assert words in refusal(path)


def test_weeks_are_dated_by_one_day_of_the_week(tmp_path: Path) -> None:
    text = "DATE,ICSA_20240208\n2024-01-29,1\n2024-02-05,2\n2024-02-06,3\n"
    path = write(tmp_path / "a.csv", text)
    words = "line 4, column ICSA_20240208: 2024-02-06 is not on the same day of the week as those"
    assert words in refusal(path)


def test_a_file_that_is_not_there_or_lacks_metadata_is_named(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path / "nowhere.csv")
    path = write(tmp_path / "a.csv", ALFRED.replace("UNRATE", "BARE"))
    with pytest.raises(CatalogError, match="series BARE: missing title"):
        read_alfred_wide(path, CATALOG)


# --- FRED-MD


def month(path: Path, *lines: str, codes: str = "Transform:,5,2,1,2") -> Path:
    header = "sasdate,PAYEMS,S&P 500,UNRATE,XYZ"
    return write(path, "\n".join([header, *([codes] if codes else []), *lines]) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "md"
    month(folder / "2023-12.csv", "10/1/2023,10,x,3.9,", "11/1/2023,11,x,3.7,?", ",,,,", ",,,,")
    month(folder / "2024-01.csv", "10/1/2023,10,x,3.9,", "11/1/2023,11.5,x,,", "12/1/2023,12,,3.7,")
    month(folder / "2024-03.csv", "10/01/2023,10,,3.8,", "11/1/2023,11.5,,,", "12/1/2023,,,3.7,")
    return folder


def test_a_change_is_dated_to_its_month_s_end_after_the_file_before(folder: Path) -> None:
    payems, unrate = read_fred_md(folder, CATALOG)
    assert rows(payems) == [
        ("2023-10-01", "2023-12-31", 10.0, "2023-11-30"),
        ("2023-11-01", "2023-12-31", 11.0, "2023-11-30"),
        ("2023-11-01", "2024-01-31", 11.5, "2023-12-31"),
        ("2023-12-01", "2024-01-31", 12.0, "2023-12-31"),
        ("2023-12-01", "2024-03-31", None, "2024-01-31"),  # there is no file of February
    ]
    assert rows(unrate) == [
        ("2023-10-01", "2023-12-31", 3.9, "2023-11-30"),
        ("2023-10-01", "2024-03-31", 3.8, "2024-01-31"),
        ("2023-11-01", "2023-12-31", 3.7, "2023-11-30"),
        ("2023-11-01", "2024-01-31", None, "2023-12-31"),
        ("2023-12-01", "2024-01-31", 3.7, "2023-12-31"),
    ]
    assert not payems.complete


def test_files_are_taken_by_the_names_of_the_archives_and_others_left(folder: Path) -> None:
    before = [rows(item) for item in read_fred_md(folder, CATALOG)]
    (folder / "2024-01.csv").rename(folder / "2024-01-MD.csv")
    (folder / "2024-03.csv").rename(folder / "FRED-MD_2024m03.csv")
    for name in ("current.csv", "2024-02-qd.csv", "2024-13.csv", "2024-02.csv.bak", "README"):
        (folder / name).write_text("not read")
    assert [rows(item) for item in read_fred_md(folder, CATALOG)] == before
    month(folder / "2024-01.csv", "10/1/2023,10,,3.9,")
    with pytest.raises(InputError, match=r"2024-01\.csv: is of the same month as 2024-01-MD\.csv"):
        read_fred_md(folder, CATALOG)


def test_a_column_that_a_month_lacks_says_nothing_about_it(folder: Path) -> None:
    write(folder / "2024-01.csv", "sasdate,UNRATE,PAYEMS\n10/1/2023,4.1,\n")
    payems, unrate = read_fred_md(folder, CATALOG)
    assert ("2023-11-01", "2024-03-31", 11.5, "2023-12-31") in rows(payems)
    assert ("2023-10-01", "2024-01-31", 4.1, "2023-12-31") in rows(unrate)
    assert {row[1] for row in rows(payems)} == {"2023-12-31", "2024-03-31"}


def test_the_row_of_codes_may_be_missing(folder: Path) -> None:
    before = rows(read_fred_md(folder, CATALOG)[0])
    path = folder / "2024-01.csv"
    path.write_text("\ufeff" + path.read_text().replace("Transform:,5,2,1,2\n", ""))
    assert rows(read_fred_md(folder, CATALOG)[0]) == before


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("12/1/2023,12", "12/1/2023,1x", "line 5, column PAYEMS: '1x' is not a finite number"),
        ("12/1/2023", "2023-12-01", "line 5, column sasdate: '2023-12-01' is not the first day"),
        ("12/1/2023", "12/2/2023", "line 5, column sasdate: '12/2/2023' is not the first day"),
        ("12/1/2023", "13/1/2023", "line 5, column sasdate: '13/1/2023' is not the first day"),
        ("12/1/2023", "11/1/2023", "line 5, column sasdate: 2023-11-01 was on 4 already"),
        ("12/1/2023", "2/1/2024", "line 5, column PAYEMS: a value on 2024-01-31, before its"),
        ("12/1/2023,12,", "12/1/2023,12,,", "line 5: has 6 fields, the header 5"),
        ("12/1/2023,12,,3.7,", "12/1/2023,12", "line 5: has 2 fields, the header 5"),
        ("11/1/2023", "Transform:", "line 4, column sasdate: 'Transform:' is not the first day"),
        ("sasdate", "date", "line 1: the first column must be sasdate"),
        ("XYZ", "PAYEMS", "line 1, column PAYEMS: the column comes twice"),
    ],
)
def test_what_is_wrong_in_a_month_is_named(folder: Path, old: str, new: str, words: str) -> None:
    path = folder / "2024-01.csv"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        read_fred_md(folder, CATALOG)
    assert f"{path}, {words}" in str(caught.value)


def test_a_month_that_is_no_data_is_named(folder: Path) -> None:
    for text, words in (
        ("<html>", "is a web page, not data"),
        ("", "is empty"),
        ("sasdate,PAYEMS\nTransform:,5\n,\n", "has no rows of values"),
    ):
        (folder / "2024-01.csv").write_text(text)
        with pytest.raises(InputError, match=rf"2024-01\.csv: {words}"):
            read_fred_md(folder, CATALOG)


def test_a_folder_needs_a_month_and_a_column_of_the_catalog(folder: Path, tmp_path: Path) -> None:
    other = Catalog("other", {"GDP": CATALOG.series["GDP"]})
    with pytest.raises(InputError, match="no column is in the catalog other"):
        read_fred_md(folder, other)
    quarterly = Catalog("q", {"PAYEMS": entry("PAYEMS", "q")})
    with pytest.raises(InputError, match="column PAYEMS: is monthly here, and not in the catalog"):
        read_fred_md(folder, quarterly)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="there is no monthly file, such as"):
        read_fred_md(tmp_path / "empty", CATALOG)
    with pytest.raises(InputError, match="cannot be read"):
        read_fred_md(tmp_path / "nowhere", CATALOG)


def test_rights_may_be_stated_for_fred_md_too(folder: Path) -> None:
    assert {item.meta[0].training for item in read_fred_md(folder, CATALOG)} == {"prohibited"}
    found = read_fred_md(folder, CATALOG, rights="permission: the bank, by letter")
    assert {item.meta[0].training for item in found} == {"permission: the bank, by letter"}


def test_importing_a_longer_folder_later_is_the_same_as_importing_it_at_once(
    folder: Path, tmp_path: Path
) -> None:
    late = (folder / "2024-03.csv").rename(tmp_path / "2024-03.csv")
    publish(tmp_path / "grown", read_fred_md(folder, CATALOG))
    late.rename(folder / "2024-03.csv")
    grown = publish(tmp_path / "grown", read_fred_md(folder, CATALOG))
    assert (
        grown.fingerprint == publish(tmp_path / "once", read_fred_md(folder, CATALOG)).fingerprint
    )


def test_the_fred_md_catalog_prohibits_training_and_states_no_later_fact() -> None:
    series = metas(load_catalog(ROOT / "catalogs/fred-md.toml"))
    assert 28 <= len(series) <= 36
    for meta in series:
        assert (meta.source, meta.training, meta.frequency) == ("FRED-MD", "prohibited", "m")
        assert "not endorsed" in meta.attribution
        assert meta.category
        assert not re.search(r"\d{4}|=\s*100|discontinued", f"{meta.title} {meta.units}", re.I)
    assert {meta.id for meta in series if meta.role == "predictor"} == {
        "CLAIMSx", "FEDFUNDS", "GS10", "UMCSENTx"
    }  # fmt: skip


@pytest.fixture(scope="module")
def real(real_data: Path) -> list[SeriesInput]:
    return read_fred_md(real_data / "fred-md", load_catalog(ROOT / "catalogs/fred-md.toml"))


@pytest.fixture(scope="module")
def store(real: list[SeriesInput], tmp_path_factory: pytest.TempPathFactory) -> VintageStore:
    folder = tmp_path_factory.mktemp("fred-md")
    publish(folder, real)
    return open_store(folder)


@pytest.mark.real
def test_three_real_months_give_payrolls_as_published(store: VintageStore) -> None:
    def known(day: str) -> dict[str, float]:
        series = store.view(day).observations("PAYEMS", start="2023-11-01").to_pandas()
        return {str(date.date()): value for date, value in series.items()}

    assert known("2024-01-30") == {"2023-11-01": 157_087}
    assert known("2024-01-31") == {"2023-11-01": 157_016, "2023-12-01": 157_232}
    assert known("2024-02-28") == known("2024-01-31")
    assert known("2024-02-29")["2024-01-01"] == 157_700
    assert store.outcome("PAYEMS", "2024-01-01", "chg").first == 353


@pytest.mark.real
def test_the_real_columns_are_all_there_and_within_their_lags(
    real: list[SeriesInput], store: VintageStore
) -> None:
    assert {item.id for item in real} == set(load_catalog(ROOT / "catalogs/fred-md.toml").series)
    space = NowcastTaskset(NowcastConfig(store=store.uri)).stream().space
    targets = {item.id for item in real if item.meta[0].role == "target"}
    assert set(space.series) == targets
    assert all(len(found.period) == 2 for found in space.series.values())


@pytest.mark.real
def test_real_monthly_tasks_follow_from_the_raw_rows(store: VintageStore) -> None:
    taskset = NowcastTaskset(NowcastConfig(store=store.uri))
    data_of = taskset.builder(taskset.stream())
    for n in range(200):
        data = data_of(n)
        assert faults(store.uri, data) == []
        assert data.as_of in ("2023-12-31", "2024-01-31")
