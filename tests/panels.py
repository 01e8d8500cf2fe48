"""A small made-up store that holds every peculiarity of vintages, for tests.

Plain arithmetic on integers, so that its fingerprint is the same everywhere. Days are kept as days
since 1970, as in the store.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nowcast_alfred.periods import Frequency, iso, period_end, shift, to_date, to_days
from nowcast_alfred.store import SeriesInput, VintageStore
from nowcast_alfred.store.schema import VINTAGE_SCHEMA, SeriesMeta, normalise

Day = int | str | dt.date
Row = tuple[Any, ...]
"""(period, vintage, value) or (period, vintage, value, vintage_lower); days or ISO dates."""


def day(value: Day) -> int:
    """A day, however written."""
    return value if isinstance(value, int) else to_days(value)


def table(rows: Iterable[Row], name: str = "made up") -> pa.Table:
    """Change points in canonical form."""
    columns: list[list[Any]] = [[], [], [], []]
    for period, vintage, value, *lower in rows:
        columns[0].append(to_date(day(period)))
        columns[1].append(to_date(day(vintage)))
        columns[2].append(None if value is None else float(value))
        columns[3].append(to_date(day(lower[0])) if lower and lower[0] is not None else None)
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, VINTAGE_SCHEMA, strict=True)
    ]
    return normalise(pa.Table.from_arrays(arrays, schema=VINTAGE_SCHEMA), name)


def meta(series_id: str, frequency: Frequency = "m", **changes: Any) -> SeriesMeta:
    """Metadata with every field filled in."""
    fields: dict[str, Any] = {
        "title": f"Made-up series {series_id}",
        "units": "Thousands",
        "seasonal_adjustment": "Seasonally Adjusted",
        "release": f"Report on {series_id}",
        "transform": "chg",
        "max_lag_days": 60,
        "category": "other",
        "source": "tests",
        "training": "granted",
    }
    return SeriesMeta(id=series_id, frequency=frequency, **{**fields, **changes})


def store_of(*series: tuple[SeriesMeta | list[SeriesMeta], Iterable[Row]]) -> VintageStore:
    """A store in memory from metadata and rows."""
    tables, metas = {}, []
    for info, rows in series:
        own = info if isinstance(info, list) else [info]
        tables[own[0].id] = table(rows, own[0].id)
        metas += own
    return VintageStore.from_tables(tables, metas)


def months(first: str, count: int) -> list[str]:
    """Months in order, as dates."""
    return [iso(shift(to_days(first), "m", i)) for i in range(count)]


def after(period: str, days: int, frequency: Any = "m") -> str:
    """A day so many days after the period's end."""
    return iso(shift(to_days(period), frequency, 1) - 1 + days)


def plain(count: int = 8, lag: int = 10) -> list[Row]:
    """Two years in the first vintage, then one month a release; every change another."""
    old, new = months("2010-01-01", 24), months("2012-01-01", count)
    rows: list[Row] = [(p, "2012-01-11", 100.0 + i * i) for i, p in enumerate(old)]
    return rows + [(p, after(p, lag), 700.0 + i * i * i) for i, p in enumerate(new)]


def number(key: str, span: int) -> int:
    """A whole number in [-span, span], fixed by a text."""
    word = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
    return word % (2 * span + 1) - span


def history(
    key: str,
    frequency: Frequency,
    first: str,
    count: int,
    lag: int,
    *,
    archive: int = 45,
    start: int = 10_000,
    step: int = 5,
    span: int = 60,
    ages: int = 2,
    benchmark: bool = False,
    rebased: dict[int, int] | None = None,
    days: dict[int, str] | None = None,
    bracket: int = 0,
) -> list[Row]:
    """Published history of a random walk in tenths, one period a release.

    Parameters
    ----------
    key, frequency, first, count
        Seed; the periods.
    lag
        Days from the period's end to its release, give or take two (none for daily and weekly).
    archive
        The release that the archive starts with: all before it is in its first vintage.
    start, step, span
        Level, drift and largest shock, in tenths.
    ages
        How many later releases revise a period.
    benchmark
        Whether each February's release revises two years.
    rebased
        Release -> percent of the old base that all history is restated in.
    days
        Release -> its day, where it is moved.
    bracket
        The release day is known only within so many days.
    """
    periods = [shift(day(first), frequency, i) for i in range(count)]
    truth = [start]
    for i in range(1, count):
        truth.append(max(truth[-1] + step + number(f"{key}/truth/{i}", span), 100))
    rows: dict[tuple[int, int], float] = {}
    percent = 100
    for j in range(archive, count):
        released = period_end(periods[j], frequency) + lag
        released += number(f"{key}/day/{j}", 2) if frequency in "mqa" else 0
        released = day((days or {}).get(j, released))
        revised = 24 if benchmark and to_date(released).month == 2 else ages
        if j in (rebased or {}):
            percent = percent * rebased[j] // 100
        if j == archive or j in (rebased or {}):
            revised = j
        for i in range(max(j - revised, 0), j + 1):
            age = min(j - i, ages + (j if revised > ages else 0))
            shown = truth[i] + (number(f"{key}/print/{i}/{age}", span // 3 + 1))
            rows[periods[i], released] = (shown * percent // 100) / 10
    lower = bracket or None
    return [(p, v, x, v - lower if lower else None) for (p, v), x in rows.items()]


@lru_cache(maxsize=1)
def small_series() -> dict[str, tuple[list[SeriesMeta], pa.Table]]:
    """The series of the small store, by id.

    EMP     monthly, revised twice and every February
    OUTPUT  quarterly, two changes of base year with new units from that day
    CLAIMS  weekly, revised once
    PRICES  monthly, two periods on one day, one first print that is missing
    SALES   monthly, one value withdrawn for good, one that comes back, one period backfilled
    SURVEY  monthly, out before its month ends, days known only within a week
    YIELD   daily, holidays without a value
    LATE    monthly, its archive starts years after the others'; renamed later
    GONE    monthly predictor, given up; its only values are withdrawn in the end
    """
    sales = history("SALES", "m", "2008-01-01", 130, 14, start=30_000, span=300)
    sales = [row for row in sales if day(row[0]) != day("2014-06-01")]
    sales += [
        ("2014-06-01", "2014-12-03", 3333.3),  # five months late, after newer ones
        ("2013-03-01", "2013-08-01", None),
        ("2015-03-01", "2015-09-02", None),
        ("2015-03-01", "2016-02-02", 3456.7),
    ]
    prices = history(
        "PRICES", "m", "2008-01-01", 130, 13, days={69: "2013-11-20", 70: "2013-12-17"}
    )
    prices = [
        # what was due in October came with November's
        ("2013-10-01", "2013-11-20", 1034.5) if day(row[0]) == day("2013-10-01") else row
        for row in prices
        if not (day(row[0]) == day("2013-10-01") and day(row[1]) != day("2013-12-17"))
    ]
    prices = [row for row in prices if day(row[0]) != day("2015-07-01")]
    prices += [("2015-07-01", "2015-08-14", None), ("2015-07-01", "2015-09-13", 1101.5)]
    yields = history("YIELD", "d", "2012-01-02", 420, 1, archive=60, start=900, step=0, ages=0)
    yields = [(p, v, None if number(f"holiday/{p}", 20) == 0 else x, b) for p, v, x, b in yields]
    chained = "Billions of Chained {} Dollars"
    output = meta(
        "OUTPUT", "q", transform="pca", category="accounts", units=chained.format(2009), decimals=1
    )
    late = meta("LATE", category="labour", title="Hours, an early name", transform="ch1")
    rows: dict[str, tuple[list[SeriesMeta], list[Row]]] = {
        "EMP": (
            [meta("EMP", category="labour", title="Employment, all staff", decimals=0)],
            history("EMP", "m", "2008-01-01", 140, 5, benchmark=True, start=90_000, span=900),
        ),
        "OUTPUT": (
            [
                output,
                replace(output, units=chained.format(2012), valid_from="2013-07-29"),
                replace(output, units=chained.format(2017), valid_from="2017-07-28"),
            ],
            history(
                "OUTPUT",
                "q",
                "2000-01-01",
                78,
                29,
                rebased={53: 107, 69: 111},
                days={53: "2013-07-29", 69: "2017-07-28"},
                start=100_000,
                span=900,
            ),
        ),
        "CLAIMS": (
            [meta("CLAIMS", "w", category="labour", transform="lin", max_lag_days=14)],
            history("CLAIMS", "w", "2011-01-02", 240, 5, ages=1, start=3000, step=0),
        ),
        "PRICES": ([meta("PRICES", category="prices", transform="pch")], prices),
        "SALES": ([meta("SALES", category="demand", transform="pch")], sales),
        "SURVEY": (
            [meta("SURVEY", category="demand", transform="lin", units="Percent balance")],
            history("SURVEY", "m", "2008-06-01", 120, -4, bracket=6, ages=1, start=500, step=0),
        ),
        "YIELD": (
            [meta("YIELD", "d", category="rates", units="Percent", max_lag_days=7)],
            yields,
        ),
        "LATE": (
            [late, replace(late, title="Hours, a later name", valid_from="2017-01-01")],
            history("LATE", "m", "2006-01-01", 140, 20, archive=105, start=400, span=9),
        ),
        "GONE": (
            [meta("GONE", category="prices", role="predictor", transform="lin")],
            [
                ("2012-05-01", "2012-07-01", 12.5),
                ("2012-06-01", "2012-08-01", 13.5),
                ("2012-05-01", "2013-02-01", None),
                ("2012-06-01", "2013-03-01", None),
            ],
        ),
    }
    return {key: (info, table(found, key)) for key, (info, found) in rows.items()}


@lru_cache(maxsize=1)
def small_store() -> VintageStore:
    """The small store, in memory."""
    series = small_series()
    return VintageStore.from_tables(
        {key: rows for key, (_, rows) in series.items()},
        [row for info, _ in series.values() for row in info],
    )


def small_inputs() -> list[SeriesInput]:
    """The same for `publish`."""
    return [SeriesInput(info, rows) for info, rows in small_series().values()]


def small_inputs_until(until: Day) -> list[SeriesInput]:
    """What `publish` could be given on a day: no later vintage, no later metadata."""
    last = day(until)
    return [
        SeriesInput(
            [one for one in info if day(one.valid_from or 0) <= last],
            rows.filter(pc.less_equal(rows["vintage"], to_date(last))),
        )
        for info, rows in small_series().values()
    ]
