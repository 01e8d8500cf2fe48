"""A made-up store in the shape of a real archive: monthly series that are published and revised.

Each month publishes one new period and revises the two before it; every twelfth publication also
revises the five years before. That gives about eight change points a period, as in FRED's monthly
series. Values are seeded random walks, never withdrawn and never revised to the same value, so
that the pandas and SQL idioms, which treat a withdrawn value differently, give equal results.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from nowcast_alfred.store import VINTAGE_SCHEMA, SeriesInput, SeriesMeta, publish

FIRST_MONTH = np.datetime64("1950-01")
RELEASE_LAG = 35
REVISED_MONTHLY = 3
REVISED_YEARLY = 60
SERIES = 150
ROWS = 1_000_000


def change_points(seed: int, rows: int) -> pa.Table:
    """The first `rows` change points of a made-up series, in order of publication."""
    rng = np.random.default_rng(seed)
    periods: list[int] = []
    vintages: list[int] = []
    month = 0
    while len(periods) < rows:
        span = REVISED_YEARLY if month % 12 == 11 else REVISED_MONTHLY
        revised = range(max(0, month - span + 1), month + 1)
        periods.extend(revised)
        vintages.extend([month] * len(revised))
        month += 1
    at, seen = np.array(periods[:rows]), np.array(vintages[:rows])
    starts = (FIRST_MONTH + np.arange(month).astype("timedelta64[M]")).astype("datetime64[D]")
    level = 1000.0 + np.cumsum(rng.normal(2.0, 5.0, month))
    return pa.table(
        {
            "period": starts[at],
            "vintage": starts[seen] + RELEASE_LAG,
            "value": level[at] + rng.normal(0.0, 1.0, rows),
            "vintage_lower": pa.nulls(rows, pa.date32()),
        }
    ).cast(VINTAGE_SCHEMA)


def series(number: int, rows: int) -> SeriesInput:
    """The `number`-th made-up series."""
    meta = SeriesMeta(
        id=f"MADE{number:03}",
        title=f"Made-up indicator {number}",
        frequency="m",
        units="Thousands",
        seasonal_adjustment="Seasonally Adjusted",
        release="Made-up release",
        transform="chg",
        max_lag_days=45,
        source="benchmarks",
        training="granted",
    )
    return SeriesInput([meta], change_points(number, rows))


def write(root: Path, count: int = SERIES, rows: int = ROWS) -> None:
    """Write `count` series with `rows` change points in all."""
    each = [rows // count + (number < rows % count) for number in range(count)]
    manifest = publish(root, [series(number, n) for number, n in enumerate(each)])
    found = sum(entry.rows for entry in manifest.series.values())
    if found != rows:  # a repeated value would have been dropped
        raise RuntimeError(f"the made-up store has {found} change points, not {rows}")
