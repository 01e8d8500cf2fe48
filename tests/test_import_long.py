"""Long-format vintages: what is read is what the file says, and a bad row is named exactly."""

from __future__ import annotations

import datetime as dt
import gzip
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nowcast_alfred.catalog import Catalog, CatalogEntry, load_catalog
from nowcast_alfred.errors import CatalogError, InputError
from nowcast_alfred.sources.files import read_long
from nowcast_alfred.store.schema import VINTAGE_SCHEMA, normalise

CATALOGS = Path(__file__).resolve().parents[1] / "catalogs"
HEADER = ("series_id", "date", "realtime_start", "value", "start_lower")
Row = tuple[Any, ...]


def entry(id: str, frequency: Any) -> CatalogEntry:
    return CatalogEntry(
        id=id,
        transform="chg",
        max_lag_days=45,
        title=id,
        frequency=frequency,
        units="Units",
        seasonal_adjustment="None",
        release="Release",
    )


CATALOG = Catalog(
    "test",
    {id: entry(id, code) for id, code in zip("DWMQA", "dwmqa", strict=True)}
    | {"BARE": CatalogEntry(id="BARE", transform="lin", max_lag_days=3)},
)


def write_csv(path: Path, rows: list[Row], header: tuple[str, ...] = HEADER) -> Path:
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
    path.write_text("\n".join([",".join(header), *lines]) + "\n", encoding="utf-8")
    return path


def write_parquet(path: Path, rows: list[Row], header: tuple[str, ...] = HEADER) -> Path:
    table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(header)})
    pq.write_table(table, path)
    return path


def refusal(path: Path, catalog: Catalog = CATALOG) -> str:
    with pytest.raises(InputError) as caught:
        read_long(path, catalog)
    message = str(caught.value)
    assert message.startswith(str(path))
    return message


def table(rows: list[Row]) -> pa.Table:
    """Rows (period, vintage, value, lower) of one series, in canonical form."""
    days = [
        (dt.date.fromisoformat(p), dt.date.fromisoformat(v), x, low and dt.date.fromisoformat(low))
        for p, v, x, low in rows
    ]
    columns = [[row[at] for row in days] for at in range(4)]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, VINTAGE_SCHEMA, strict=True)]
    return normalise(pa.Table.from_arrays(arrays, schema=VINTAGE_SCHEMA), "expected")


MONTHS = [f"{year}-{month:02d}-01" for year in (1969, 2023) for month in range(1, 13)]
QUARTERS = MONTHS[::3]
WEEKS = [str(np.datetime64("2023-01-07") + np.timedelta64(7 * n, "D")) for n in range(20)]
VINTAGES = [str(np.datetime64("2024-01-05") + np.timedelta64(11 * n, "D")) for n in range(12)]

points = st.dictionaries(
    st.one_of(
        st.tuples(st.just("M"), st.sampled_from(MONTHS), st.sampled_from(VINTAGES)),
        st.tuples(st.just("Q"), st.sampled_from(QUARTERS), st.sampled_from(VINTAGES)),
        st.tuples(st.just("W"), st.sampled_from(WEEKS), st.sampled_from(VINTAGES)),
    ),
    st.tuples(
        st.one_of(
            st.none(),
            st.sampled_from([0.0, 1.0, 1.5]),  # repeats across vintages, so some change nothing
            st.floats(allow_nan=False, allow_infinity=False),
        ),
        st.sampled_from([None, "2024-01-04", "1970-01-01"]),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(points=points, data=st.data())
def test_any_change_points_come_back_from_csv_and_parquet(
    points: dict[tuple[str, str, str], tuple[float | None, str | None]], data: st.DataObject
) -> None:
    rows = [(*key, *value) for key, value in points.items()]
    repeats = data.draw(st.lists(st.sampled_from(rows), max_size=5))
    rows = data.draw(st.permutations(rows + repeats))
    expected = {
        id: table([row[1:] for row in rows if row[0] == id]) for id in {row[0] for row in rows}
    }
    blank = data.draw(st.sampled_from(["", "."]))
    as_text = [(*row[:3], blank if row[3] is None else repr(row[3]), row[4]) for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        files = [
            write_csv(Path(folder) / "a.csv", as_text),
            write_parquet(Path(folder) / "text.parquet", as_text),
            write_parquet(Path(folder) / "plain.parquet", rows),
            Path(folder) / "typed.parquet",
        ]
        columns = dict(zip(HEADER, zip(*rows, strict=True), strict=True))
        typed = {
            "value": pa.array(columns["value"], pa.float64()),
            "series_id": pa.array(columns["series_id"]).dictionary_encode(),
            "date": pa.array(columns["date"]).cast(pa.date32()),
            "realtime_start": pa.array(columns["realtime_start"]).cast(pa.timestamp("ns")),
            "start_lower": pa.array(columns["start_lower"], pa.string()).cast(pa.timestamp("s")),
        }
        pq.write_table(pa.table(typed), files[-1])
        for path in files:
            read = read_long(path, CATALOG)
            assert [metas[0].id for metas, _ in read] == sorted(expected)
            for metas, got in read:
                assert len(metas) == 1
                assert got.schema.equals(VINTAGE_SCHEMA)
                assert got.equals(expected[metas[0].id])


def test_nothing_but_the_needed_columns_is_needed(tmp_path: Path) -> None:
    rows = [("A", "2023-01-01", "2024-01-05", 3)]
    want = table([("2023-01-01", "2024-01-05", 3.0, None)])
    for path in (
        write_csv(tmp_path / "a.csv", rows, HEADER[:4]),
        write_parquet(tmp_path / "a.parquet", rows, HEADER[:4]),
    ):
        assert read_long(path, CATALOG)[0][1].equals(want)


def test_columns_may_come_in_any_order_and_start_kind_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.CSV"
    path.write_bytes(
        b"\xef\xbb\xbfvalue,start_kind,realtime_start,series_id,date\r\n"
        b'"-1.5e2",snapshot,2024-02-02,M,2024-01-01\r\n\r\n'
    )
    assert read_long(path, CATALOG)[0][1].equals(
        table([("2024-01-01", "2024-02-02", -150.0, None)])
    )


def test_a_compressed_csv_is_read_and_its_bad_line_found(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    text = "series_id,date,realtime_start,value\nM,2024-01-01,2024-02-02,1\n"
    path.write_bytes(gzip.compress(text.encode()))
    assert read_long(path, CATALOG)[0][1].num_rows == 1
    path.write_bytes(gzip.compress((text + "M,2024-01-01,2024-03-02,x\n").encode()))
    assert "line 3, column value: 'x'" in refusal(path)
    path.write_bytes(gzip.compress(text.encode())[:40])
    assert "damaged CSV" in refusal(path)


def test_a_value_that_did_not_change_is_left_out(tmp_path: Path) -> None:
    rows = [("M", "2024-01-01", f"2024-0{month}-02", 7, None) for month in (3, 2, 4)]
    [(_, got)] = read_long(write_csv(tmp_path / "a.csv", rows), CATALOG)
    assert got.equals(table([("2024-01-01", "2024-02-02", 7.0, None)]))


def test_reading_writes_nothing(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [("M", "2024-01-01", "2024-02-02", 7, None)])
    before = path.read_bytes()
    read_long(path, CATALOG)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before


FINE: list[Row] = [
    ("M", "2024-01-01", "2024-02-02", "1", "2024-01-31"),
    ("Q", "2024-01-01", "2024-04-02", "1", None),
    ("W", "2024-01-06", "2024-02-02", "1", None),
    ("A", "2023-01-01", "2024-02-02", ".", None),
    ("D", "2024-01-09", "2024-02-02", "", None),
]


@pytest.mark.parametrize(
    ("bad", "column", "words"),
    [
        (("M", "2024-02-30", "2024-03-02", "1", None), "date", "'2024-02-30' is not a date"),
        (("M", "2024-W01-1", "2024-03-02", "1", None), "date", "YYYY-MM-DD"),
        (("M", "01/01/2024", "2024-03-02", "1", None), "date", "'01/01/2024' is not a date"),
        (("M", "", "2024-03-02", "1", None), "date", "no date"),
        (("M", "2024-01-01", "2024-3-2", "1", None), "realtime_start", "'2024-3-2'"),
        (("M", "2024-01-01", "", "1", None), "realtime_start", "no date"),
        (("M", "2024-01-01", "2024-03-02", "1", "soon"), "start_lower", "'soon' is not a date"),
        (("M", "2024-01-01", "2024-03-02", "1_0", None), "value", "'1_0' is not a finite number"),
        (("M", "2024-01-01", "2024-03-02", "0x1f", None), "value", "'0x1f'"),
        (("M", "2024-01-01", "2024-03-02", "nan", None), "value", "'nan' is not a finite number"),
        (("M", "2024-01-01", "2024-03-02", "-inf", None), "value", "'-inf'"),
        (("M", "2024-01-01", "2024-03-02", "1e999", None), "value", "'1e999'"),
        (("M", "2024-01-01", "2024-03-02", "#N/A", None), "value", "withdrawn"),
        (("M", "2024-01-01", "2024-02-02", "2", "2024-01-31"), "value", "given twice"),
        (("M", "2024-01-01", "2024-02-02", "", "2024-01-31"), "value", "given twice"),
        (("M", "2024-01-01", "2024-02-02", "1", "2024-01-30"), "start_lower", "given twice"),
        (("M", "2024-01-01", "2024-02-02", "1", None), "start_lower", "given twice"),
        (("M", "2024-01-01", "2024-03-02", "1", "2024-03-02"), "start_lower", "not before"),
        (("M", "2024-01-01", "2024-03-02", "1", "2024-03-03"), "start_lower", "not before"),
        (("M", "2024-04-01", "2024-03-02", "1", None), "realtime_start", "2024-04-01"),
        (("M", "2024-01-31", "2024-03-02", "1", None), "date", "not the first day of a month"),
        (("Q", "2024-02-01", "2024-04-02", "1", None), "date", "not the first day of a quarter"),
        (("A", "2023-07-01", "2024-04-02", "1", None), "date", "not the first day of a year"),
        (("W", "2024-01-14", "2024-04-02", "1", None), "date", "2024-01-14 is a Sunday"),
        (("W", "2024-01-14", "2024-04-02", "1", None), "date", "on a Saturday"),
        (("", "2024-01-01", "2024-04-02", "1", None), "series_id", "''"),
        (("NOPE", "2024-01-01", "2024-04-02", "1", None), "series_id", "'NOPE'"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, bad: Row, column: str, words: str) -> None:
    rows = [*FINE, bad, FINE[0]]
    for path, place in (
        (write_csv(tmp_path / "a.csv", rows), "line 7"),
        (write_parquet(tmp_path / "a.parquet", rows), "row 6"),
    ):
        message = refusal(path)
        assert f"{place}, column {column}: " in message
        assert words in message


def test_a_clash_names_both_rows(tmp_path: Path) -> None:
    rows = [*FINE, ("M", "2024-01-01", "2024-02-02", "2", "2024-01-31")]
    said = "2024-01-01 in vintage 2024-02-02 is given twice, with another value on"
    assert refusal(write_csv(tmp_path / "a.csv", rows)).endswith(f"{said} line 2")
    assert refusal(write_parquet(tmp_path / "a.parquet", rows)).endswith(f"{said} row 1")


def test_the_line_is_the_one_an_editor_shows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "series_id,date,realtime_start,value\n\nM,2024-01-01,2024-02-02,1\n\n\n"
        "M,2024-01-01,2024-03-02,?\n"
    )
    assert "line 6, column value" in refusal(path)


def test_the_first_unknown_series_are_listed(tmp_path: Path) -> None:
    rows = [FINE[0], *((f"X{n}", *FINE[0][1:]) for n in range(9))]
    message = refusal(write_csv(tmp_path / "a.csv", rows))
    assert "line 3, column series_id: not in the catalog test" in message
    assert message.endswith("'X0', 'X1', 'X2', 'X3', 'X4' and 4 more")


def test_a_series_without_metadata_is_the_catalog_s_fault(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [("BARE", *FINE[0][1:])])
    with pytest.raises(CatalogError, match="series BARE: missing title"):
        read_long(path, CATALOG)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ((*HEADER[:4], "vintage"), "unknown column 'vintage'; accepted are series_id, date"),
        (HEADER[:3], "missing column 'value'"),
        ((*HEADER, "value"), "repeated column 'value'"),
        (("series_id;date;realtime_start;value",), "unknown column 'series_id;date"),
    ],
)
def test_wrong_columns_are_named_with_the_right_ones(
    tmp_path: Path, header: tuple[str, ...], words: str
) -> None:
    path = write_csv(tmp_path / "a.csv", [("M",) * len(header)], header)
    assert words in refusal(path)
    if len(set(header)) == len(header):
        path = write_parquet(tmp_path / "a.parquet", [("M",) * len(header)], header)
        assert words in refusal(path)


def test_a_line_with_too_few_or_too_many_fields_is_named(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [*FINE, FINE[0][:4]])
    assert "line 7: has 4 fields, the header 5" in refusal(path)
    path = write_csv(tmp_path / "a.csv", [*FINE, (*FINE[0], "1,000")])
    assert "line 7: has 7 fields, the header 5" in refusal(path)


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", FINE)
    path.write_bytes(path.read_bytes() + b"M\xe9,2024-01-01,2024-02-02,1,\n")
    assert "line 7, column series_id: is not UTF-8" in refusal(path)


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("value", pa.array([True, False]), "column value: must be numbers or text, not bool"),
        ("value", pa.array([1.0, float("nan")]), "row 2, column value: 'nan'"),
        ("value", pa.array([float("-inf"), 1.0]), "row 1, column value: '-inf'"),
        ("series_id", pa.array([1, 2]), "column series_id: must be text, not int64"),
        ("series_id", pa.array(["M", None]), "row 2, column series_id: there is no series id"),
        ("date", pa.array([20240101, 20240201]), "column date: must be dates"),
        ("date", pa.nulls(2), "row 1, column date: there is no date"),
        ("date", pa.array([0, 3_000_000], pa.date32()), "row 2, column date: the date is outside"),
        (
            "realtime_start",
            pa.array([dt.datetime(2025, 1, 1), dt.datetime(2025, 1, 1, 8, 30)]),
            "row 2, column realtime_start: 2025-01-01 08:30:00 is not at midnight",
        ),
    ],
)
def test_a_wrong_parquet_type_or_cell_is_named(
    tmp_path: Path, column: str, values: pa.Array, words: str
) -> None:
    columns = {
        "series_id": pa.array(["M", "M"]),
        "date": pa.array([dt.date(2024, 1, 1), dt.date(2024, 2, 1)]),
        "realtime_start": pa.array([dt.date(2024, 3, 1), dt.date(2024, 3, 1)]),
        "value": pa.array([1, 2]),
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns | {column: values}), path)
    assert words in refusal(path)


def test_numbers_of_other_types_are_numbers(tmp_path: Path) -> None:
    for type_ in (pa.int64(), pa.float32(), pa.decimal128(9, 2), pa.uint8()):
        columns = {
            "series_id": pa.array(["M", "M"], pa.large_string()),
            "date": pa.array([dt.date(2024, 1, 1)] * 2, pa.date64()),
            "realtime_start": pa.array([dt.date(2024, 3, 1), dt.date(2024, 4, 1)]),
            "value": pa.array([7, None], type_),
        }
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table(columns), path)
        [(_, got)] = read_long(path, CATALOG)
        assert got["value"].to_pylist() == [7.0, None]


def test_files_that_are_neither(tmp_path: Path) -> None:
    def file(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    assert "is empty" in refusal(file("a.csv", b""))
    assert "is empty" in refusal(file("a.parquet", b""))
    assert "has no rows" in refusal(write_csv(tmp_path / "b.csv", []))
    assert "has no rows" in refusal(write_parquet(tmp_path / "b.parquet", []))
    assert "missing column" in refusal(file("blank.csv", b"\n\n"))
    assert "neither Parquet" in refusal(file("a.xlsx", b"PK\x03\x04"))
    assert "neither Parquet" in refusal(file("c.parquet", b"series_id,date"))
    assert "damaged Parquet" in refusal(file("d.parquet", b"PAR1 and then nothing"))
    assert "damaged CSV" in refusal(file("e.csv.gz", b"this is not gzip"))
    assert "cannot be read" in refusal(tmp_path / "nowhere.csv")
    assert "cannot be read" in refusal(tmp_path)


@pytest.fixture(scope="module")
def panel(real_data: Path) -> dict[str, pa.Table]:
    catalog = load_catalog(CATALOGS / "us-macro.toml")
    read = read_long(real_data / "us_panel_2016_2025.parquet", catalog)
    return {metas[0].id: rows for metas, rows in read}


def as_of(rows: pa.Table, day: str) -> dict[str, float]:
    """What was known at the end of `day`, the slow and obvious way."""
    known: dict[str, float] = {}
    for row in rows.to_pylist():  # sorted by period and vintage, so the last one known wins
        if row["vintage"] <= dt.date.fromisoformat(day):
            known[row["period"].isoformat()] = row["value"]
    return {period: value for period, value in known.items() if value is not None}


@pytest.mark.real
def test_the_real_panel_is_read_whole(panel: dict[str, pa.Table]) -> None:
    assert len(panel) == 35
    # The panel holds changes only, so normalising drops none of its 63,668 rows.
    assert sum(rows.num_rows for rows in panel.values()) == 63_668
    assert sum(rows["value"].null_count for rows in panel.values()) == 96
    assert all(rows.schema.equals(VINTAGE_SCHEMA) for rows in panel.values())


@pytest.mark.real
def test_real_payrolls_are_what_was_published(panel: dict[str, pa.Table]) -> None:
    rows = panel["PAYEMS"]
    assert "2023-12-01" not in as_of(rows, "2024-01-04")
    assert as_of(rows, "2024-01-05")["2023-12-01"] == 157_232
    known = as_of(rows, "2024-02-01")
    assert known["2023-12-01"] == 157_232
    assert known["2023-12-01"] - known["2023-11-01"] == 216
    levels = [known[period] for period in sorted(known)]
    assert round(float(np.diff(levels)[-24:].std()), 1) == 163.3
    known = as_of(rows, "2024-02-02")
    assert known["2023-12-01"] == 157_347
    assert known["2024-01-01"] == 157_700


@pytest.mark.real
def test_real_brackets_are_kept(panel: dict[str, pa.Table]) -> None:
    rows = panel["JTSJOL"].to_pylist()
    first_panel = dt.date(2016, 10, 3)
    for row in rows:
        assert (row["vintage_lower"] is None) == (row["vintage"] == first_panel)
    assert all(row["vintage_lower"] is None for row in panel["PAYEMS"].to_pylist()[-100:])
