"""Row 4: opening a store whose cache is built, and what one more process costs."""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .measure import MB, ROOT, Bar, Figure, fresh, median_ratio, private

REPEATS = 5
AS_OF = "2005-06-15"


def opened(store: str, tiny: str) -> dict[str, Any]:
    """Seconds of `open_store`, imports excluded; the very first call, nothing warmed up."""
    from nowcast_alfred.store import open_store

    start = time.perf_counter()
    found = open_store(store)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "series": len(found.series_ids)}


def read_pandas(store: str, tiny: str) -> dict[str, Any]:
    """Seconds of reading every Parquet file with pandas, imports and a first read excluded."""
    import pandas as pd

    return _read_files(pd.read_parquet, store, tiny)


def read_pyarrow(store: str, tiny: str) -> dict[str, Any]:
    """Seconds of reading every Parquet file with pyarrow, imports and a first read excluded."""
    import pyarrow.parquet as pq

    return _read_files(pq.read_table, store, tiny)


def _read_files(read: Callable[[Path], Any], store: str, tiny: str) -> dict[str, Any]:
    paths = _files(store)
    read(_files(tiny)[0])  # pyarrow imports pandas at its first read
    start = time.perf_counter()
    held = [read(path) for path in paths]
    return {"seconds": time.perf_counter() - start, "series": len(held)}


def _files(store: str) -> list[Path]:
    return sorted((Path(store) / "vintages").glob("*.parquet"))


def read_every(store: str) -> Any:
    """Open a store and read each series once as of a day; returns the store, kept open."""
    from nowcast_alfred.store import open_store

    found = open_store(store)
    view = found.view(AS_OF)
    total = sum(len(view.observations(key)) for key in found.series_ids)
    if not total:
        raise RuntimeError(f"nothing was known on {AS_OF}")
    return found


def hold(store: str) -> None:
    """Be the first process: hold every page of the store until stdin closes."""
    found = read_every(store)
    print("ready", flush=True)
    sys.stdin.read()
    del found


def added(store: str, tiny: str) -> dict[str, Any]:
    """Private bytes that opening and reading the store adds, imports and first uses excluded."""
    return _grown(lambda: read_every(tiny), lambda: read_every(store))


def added_pandas(store: str, tiny: str) -> dict[str, Any]:
    """The same, for pandas frames of all Parquet files and one filter each."""
    import pandas as pd

    day = pd.Timestamp(AS_OF).date()

    def read(root: str) -> Any:
        frames = [pd.read_parquet(path) for path in _files(root)]
        known = [
            df[df.vintage <= day].sort_values(["period", "vintage"]).groupby("period").last()
            for df in frames
        ]
        return frames, sum(map(len, known))

    return _grown(lambda: read(tiny), lambda: read(store))


def _grown(warm_up: Callable[[], Any], run: Callable[[], Any]) -> dict[str, Any]:
    held = [warm_up()]
    gc.collect()
    before = private()
    held.append(run())
    gc.collect()
    return {"bytes": private() - before, "held": len(held)}


def row_open(store: str, tiny: str) -> list[Figure]:
    """Row 4: opening a store of 150 series and 1,000,000 change points."""
    kinds = ("opened", "read_pandas", "read_pyarrow")
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(REPEATS):
        for kind, kept in seconds.items():
            kept.append(fresh(__name__, kind, store, tiny)["seconds"])
    command = [sys.executable, "-m", __name__, "hold", store]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        if first.stdout.readline().strip() != "ready":
            raise RuntimeError("the first process did not open the store")
        mine, peers = [], []
        for _ in range(3):
            mine.append(fresh(__name__, "added", store, tiny)["bytes"] / MB)
            peers.append(fresh(__name__, "added_pandas", store, tiny)["bytes"] / MB)
        first.stdin.close()
    value = statistics.median(seconds["opened"]) * 1e3
    return [
        Figure(
            "open, 150 series, 1,000,000 change points",
            value,
            "ms",
            "pandas.read_parquet of all files",
            statistics.median(seconds["read_pandas"]) * 1e3,
            median_ratio(seconds["read_pandas"], seconds["opened"]),
            Bar("value", "<=", 50),
        ),
        Figure(
            "open, 150 series, 1,000,000 change points",
            value,
            "ms",
            "pyarrow read_table of all files",
            statistics.median(seconds["read_pyarrow"]) * 1e3,
            median_ratio(seconds["read_pyarrow"], seconds["opened"]),
        ),
        Figure(
            "private memory of a second process",
            statistics.median(mine),
            "MB",
            "pandas frames of all files",
            statistics.median(peers),
            median_ratio(peers, mine),
            Bar("value", "<=", 15),
        ),
    ]


def main(what: str, *args: str) -> None:
    """One measurement in this process, printed as JSON."""
    if what == "hold":
        hold(*args)
        return
    run: dict[str, Callable[..., dict[str, Any]]] = {
        "opened": opened,
        "read_pandas": read_pandas,
        "read_pyarrow": read_pyarrow,
        "added": added,
        "added_pandas": added_pandas,
    }
    print(json.dumps(run[what](*args)))


if __name__ == "__main__":
    main(*sys.argv[1:])
