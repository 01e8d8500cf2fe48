"""Row: the archive of payroll vintages, read and published, at the size it really has.

226 members, 273 publications, 1,045 reference months. Each publication adds a month and revises the
two before it; each January's revises five years, and every fifth of those all history. In the
`every cell` figure each cell is another in each publication, which no real archive comes near.
"""

from __future__ import annotations

import io
import json
import resource
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .measure import MB, Bar, Figure, fresh, interleaved, median_ratio

CODES = [f"{10_000 + number:06d}" for number in range(113)]
FIRST_YEAR = 1939
FIRST_LABEL = 12 * (2003 - FIRST_YEAR) + 4
"""The month that the first publication is named after, counted from January 1939."""
NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
PUBLICATIONS = 273
MONTHS = 1045
BODIES = 8
"""Members that differ; the others repeat them."""
PEER_MEMBERS = 3


def triangle(seed: int, every: bool = False) -> str:
    """The text of a made-up member."""
    rng = np.random.default_rng(seed)
    level = 10_000 + np.cumsum(rng.integers(-50, 60, MONTHS))
    columns = [f"{NAMES[m % 12]}_{(FIRST_YEAR + m // 12) % 100:02d}" for m in range(MONTHS)]
    lines = ["year,month," + ",".join(columns)]
    for label in range(FIRST_LABEL, FIRST_LABEL + PUBLICATIONS):
        year, month, known = FIRST_YEAR + label // 12, label % 12 + 1, label + 1
        revised = 3
        if month == 1:
            revised = known if year % 5 == 0 else 60
        if every:
            level = level + rng.integers(1, 9, MONTHS)
        else:
            level[known - revised : known] += rng.integers(-9, 10, revised)
        cells = map(str, level[:known].tolist())
        lines.append(f"{year},{month}," + ",".join(cells) + "," * (MONTHS - known))
    return "\n".join(lines) + "\n"


def write(path: Path, every: bool = False) -> None:
    """A made-up archive."""
    bodies = [triangle(seed, every) for seed in range(BODIES)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number, code in enumerate(CODES):
            for turn, adjustment in enumerate(("SA", "NSA")):
                body = bodies[(2 * number + turn) % BODIES]
                archive.writestr(f"tri_{code}_{adjustment}.csv", body)


def _catalog(codes: list[str] = CODES) -> Any:
    from nowcast_alfred.catalog import Catalog, CatalogEntry

    entries = [
        CatalogEntry(
            id=f"CES{code}0001",
            transform="chg",
            max_lag_days=31,
            title=f"Made-up industry {code}",
            frequency="m",
            units="Thousands",
            seasonal_adjustment="Seasonally Adjusted",
            release="Made-up release",
        )
        for code in codes
    ]
    return Catalog("made-up", {entry.id: entry for entry in entries})


def build(archive: str) -> dict[str, Any]:
    """Read an archive and publish it as a store; seconds, peak memory, rows."""
    from nowcast_alfred.sources.bls import read_archive
    from nowcast_alfred.store import publish

    with tempfile.TemporaryDirectory(dir=Path(archive).parent) as folder:
        start = time.perf_counter()
        inputs = read_archive(archive, _catalog(), unadjusted=True)
        manifest = publish(folder, inputs)
        seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "series": len(manifest.series),
        "rows": sum(entry.rows for entry in manifest.series.values()),
    }


def read(archive: str, codes: list[str]) -> int:
    """Our change points of the adjusted series of some members."""
    from nowcast_alfred.sources.bls import read_archive

    return sum(item.table.num_rows for item in read_archive(archive, _catalog(codes)))


def read_pandas(archive: str, codes: list[str]) -> int:
    """The same rows as pandas users get them: read_csv, melt, groupby."""
    import pandas as pd

    rows = 0
    with zipfile.ZipFile(archive) as opened:
        for code in codes:
            wide = pd.read_csv(io.BytesIO(opened.read(f"tri_{code}_SA.csv")))
            # October 2025 came out with November's row, which has the last word.
            wide = wide[(wide["year"] != 2025) | (wide["month"] != 10)]
            long = wide.melt(["year", "month"], var_name="period").dropna()
            long["period"] = pd.to_datetime(long["period"], format="%b_%y")
            long = long.sort_values(["period", "year", "month"])
            rows += int((long["value"] != long.groupby("period")["value"].shift()).sum())
    return rows


def row_bls(folder: Path) -> list[Figure]:
    """The row's figures."""
    folder.mkdir(parents=True, exist_ok=True)
    archive, worst = folder / "cesvinall.zip", folder / "every.zip"
    write(archive)
    write(worst, every=True)
    codes = CODES[:PEER_MEMBERS]
    place = str(archive)
    if read(place, codes) != read_pandas(place, codes):
        raise RuntimeError("pandas finds other change points")
    sides: list[tuple[Callable[[], object], int]] = [
        (lambda: read(place, codes), 1),
        (lambda: read_pandas(place, codes), 1),
    ]
    mine, peers = interleaved(sides, 5)
    figures = [
        Figure(
            f"change points of {PEER_MEMBERS} members",
            statistics.median(mine) * 1e3,
            "ms",
            "pandas read_csv, melt, groupby",
            statistics.median(peers) * 1e3,
            median_ratio(peers, mine),
        )
    ]
    for name, path in (("", archive), (", every cell revised", worst)):
        done = fresh(__name__, "build", str(path))
        what = f"226 members x 273 publications, {done['rows']:,} rows{name}"
        figures += [
            Figure(f"build, {what}", done["seconds"], "s", bar=Bar("value", "<=", 180)),
            Figure(f"peak, {what}", done["bytes"] / MB, "MB", bar=Bar("value", "<=", 2000)),
        ]
    return figures


if __name__ == "__main__":
    print(json.dumps({"build": build}[sys.argv[1]](*sys.argv[2:])))
