"""Row 3: what was known of one series on one day, beside pandas and DuckDB."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pandas as pd

from nowcast_alfred.periods import iso
from nowcast_alfred.store import open_store, publish

from .made_up import series
from .measure import Bar, Figure, interleaved, median_ratio

CHANGES = 5_000
REPEATS = 9
EQUAL_DAYS = 200
CALLS = {"ours": 2_000, "pandas": 40, "duckdb": 40}
SERIES = "MADE000"

Pair: TypeAlias = tuple[npt.NDArray[np.datetime64], npt.NDArray[np.float64]]
Read: TypeAlias = Callable[[str], Pair]

ARG_MAX = """\
SELECT period, arg_max(value, vintage) AS value FROM {source}
WHERE vintage <= ?::DATE GROUP BY period ORDER BY period"""
WINDOW = """\
SELECT period, value FROM {source} WHERE vintage <= ?::DATE
QUALIFY row_number() OVER (PARTITION BY period ORDER BY vintage DESC) = 1 ORDER BY period"""


def duckdb_reads(path: Path) -> Iterator[tuple[str, Read]]:
    """Every way to ask DuckDB: both queries, the file and a table, one thread and all."""
    sources = {"Parquet file": f"read_parquet('{path}')", "table": "changes"}
    for (query_name, query), (name, source), threads in itertools.product(
        {"arg_max": ARG_MAX, "window": WINDOW}.items(), sources.items(), (1, 2)
    ):
        connection = duckdb.connect()
        connection.execute(f"SET threads = {threads}")
        connection.execute(f"CREATE TABLE changes AS SELECT * FROM read_parquet('{path}')")
        sql = query.format(source=source)

        def read(
            day: str, connection: duckdb.DuckDBPyConnection = connection, sql: str = sql
        ) -> Pair:
            found = connection.execute(sql, [day]).fetchnumpy()
            return np.asarray(found["period"]), np.asarray(found["value"])

        yield f"{query_name}, {name}, {threads} thread{'s' * (threads > 1)}", read


def pandas_read(path: Path) -> Read:
    """The filter and groupby that users of fredapi write, on a DataFrame that is ready."""
    frame = pd.read_parquet(path)[["period", "vintage", "value"]]
    df = pd.DataFrame(
        {
            "date": pd.to_datetime(frame["period"]),
            "realtime_start": pd.to_datetime(frame["vintage"]),
            "value": frame["value"],
        }
    )

    def read(day: str) -> Pair:
        d = pd.Timestamp(day)
        known = (
            df[df.realtime_start <= d]
            .sort_values(["date", "realtime_start"])
            .groupby("date")
            .last()
        )
        return known.index.to_numpy(), known["value"].to_numpy()

    return read


def same(left: Pair, right: Pair) -> bool:
    """Whether two answers are the same periods and the same values, to the last bit."""
    dates = [side[0].astype("datetime64[D]") for side in (left, right)]
    return np.array_equal(dates[0], dates[1]) and np.array_equal(left[1], right[1])


def row_as_of(folder: Path) -> list[Figure]:
    """Row 3: as-of reads of a monthly series with 5,000 change points."""
    publish(folder, [series(0, CHANGES)])
    (path,) = (folder / "vintages").glob("*.parquet")
    store = open_store(folder)

    def levels(day: str) -> Pair:
        known = store.view(day).observations(SERIES)
        return known.period.astype("datetime64[D]"), known.value

    vintage = store.changes(SERIES).columns.vintage
    if len(vintage) != CHANGES:
        raise RuntimeError(f"the series has {len(vintage)} change points, not {CHANGES}")
    rng = np.random.default_rng(0)
    drawn = rng.integers(vintage.min(), vintage.max() + 60, 4096)
    days = [iso(int(day)) for day in drawn]
    users, candidates = pandas_read(path), dict(duckdb_reads(path))
    for day in days[:EQUAL_DAYS]:
        expected = levels(day)
        for name, read in {"pandas": users, **candidates}.items():
            if not same(expected, read(day)):
                raise RuntimeError(f"{name} and the view differ on {day}")

    def on_days(read: Callable[[str], object]) -> Callable[[], object]:
        turn = itertools.cycle(days)
        return lambda: read(next(turn))

    tried = interleaved([(on_days(read), 20) for read in candidates.values()], 5)
    medians = dict(zip(candidates, map(statistics.median, tried), strict=True))
    fastest = min(medians, key=medians.__getitem__)
    mine, changed, pandas, sql = interleaved(
        [
            (on_days(lambda day: store.view(day).observations(SERIES)), CALLS["ours"]),
            (on_days(lambda day: store.view(day).observations(SERIES, units="chg")), CALLS["ours"]),
            (on_days(users), CALLS["pandas"]),
            (on_days(candidates[fastest]), CALLS["duckdb"]),
        ],
        REPEATS,
    )
    value = statistics.median(mine) * 1e6
    return [
        Figure(
            "as-of read, 5,000 change points",
            value,
            "us",
            "pandas filter + groupby",
            statistics.median(pandas) * 1e6,
            median_ratio(pandas, mine),
            Bar("ratio", ">=", 50),
        ),
        Figure(
            "as-of read, 5,000 change points",
            value,
            "us",
            f"DuckDB ({fastest})",
            statistics.median(sql) * 1e6,
            median_ratio(sql, mine),
            Bar("ratio", ">=", 20),
        ),
        Figure("... with units = chg", statistics.median(changed) * 1e6, "us"),
    ]
