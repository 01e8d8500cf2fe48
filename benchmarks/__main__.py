"""`python -m benchmarks [NAME ...] [--json]`: measure, print, and fail if a bar is missed."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from nowcast_alfred.locate import STORE_VARIABLE, build_synthetic
from nowcast_alfred.store import open_store
from nowcast_alfred.store.files import CACHE_VARIABLE

from . import as_of, bls, fred, made_up, opening
from .measure import Figure

VERSIONS = ("verifiers", "pydantic", "numpy", "pandas", "pyarrow", "duckdb")


class Workshop:
    """A temporary folder with the stores that rows share, each made, and its cache built, when
    first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def embedded(self) -> str:
        """The embedded synthetic store."""
        build_synthetic(self.folder / "embedded")
        return self._cached("embedded")

    @cached_property
    def large(self) -> str:
        """150 series, 1,000,000 change points."""
        made_up.write(self.folder / "large")
        return self._cached("large")

    @cached_property
    def tiny(self) -> str:
        """One series, to warm up on."""
        made_up.write(self.folder / "tiny", 1, 500)
        return self._cached("tiny")

    def _cached(self, name: str) -> str:
        open_store(self.folder / name)
        return str(self.folder / name)


def _forward(shop: Workshop) -> list[Figure]:
    from . import stream  # imports verifiers

    return stream.row_forward()


def _taskdata(shop: Workshop) -> list[Figure]:
    from . import stream

    return stream.row_taskdata(shop.large)


def _pool(shop: Workshop) -> list[Figure]:
    from . import pool

    return pool.row_pool(shop.large, shop.tiny)


ROWS: dict[str, Callable[[Workshop], list[Figure]]] = {
    "forward": _forward,
    "taskdata": _taskdata,
    "as-of": lambda shop: as_of.row_as_of(shop.folder / "one"),
    "open": lambda shop: opening.row_open(shop.large, shop.tiny),
    "bls": lambda shop: bls.row_bls(shop.folder / "bls"),
    "fred": lambda shop: fred.row_fred(shop.folder / "fred"),
    "pool": _pool,
}


def main(argv: list[str] | None = None) -> int:
    """Run the rows named, or all; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"rows to run, of: {', '.join(ROWS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args(argv)
    if unknown := sorted(set(chosen.name) - set(ROWS)):
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    figures: list[tuple[str, Figure]] = []
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="nowcast-alfred-bench-") as folder:
        os.environ[CACHE_VARIABLE] = f"{folder}/cache"
        shop = Workshop(Path(folder))
        os.environ[STORE_VARIABLE] = shop.embedded
        for name in chosen.name or ROWS:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            figures += [(name, figure) for figure in ROWS[name](shop)]
    missed = sum(figure.ok is False for _, figure in figures)
    load = round(os.getloadavg()[0], 1)
    machine = {
        "date": dt.date.today().isoformat(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in VERSIONS},
        "load": load,
        "seconds": round(time.perf_counter() - start, 1),
    }
    if chosen.json:
        rows = [{"row": name, **figure.as_dict()} for name, figure in figures]
        print(json.dumps({"machine": machine, "figures": rows, "missed": missed}, indent=1))
    else:
        print(table(figures))
        print(", ".join(f"{key} {value}" for key, value in machine.items()))
        print(f"{missed} bar(s) missed" if missed else "every bar reached")
        if missed and load > (os.cpu_count() or 1):
            print("the machine was busy: run again when it is quiet before believing a miss")
    return 1 if missed else 0


def table(figures: list[tuple[str, Figure]]) -> str:
    """The figures as aligned columns."""
    head = ("row", "what", "value", "peer", "", "ratio", "bar", "")
    lines = [head] + [
        (
            name,
            figure.what,
            f"{number(figure.value)} {figure.unit}",
            "" if figure.peer is None else f"{number(figure.peer)} {figure.unit}",
            figure.peer_name,
            "" if figure.ratio is None else f"{figure.ratio:.3g} x",
            str(figure.bar or ""),
            {None: "", True: "ok", False: "MISSED"}[figure.ok],
        )
        for name, figure in figures
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    right = {2, 3, 5}
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def number(value: float) -> str:
    """Three significant digits, or all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
