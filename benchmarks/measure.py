"""Measuring: figures with bars, interleaved timing, memory from /proc, fresh processes.

The machine may be busy, so nothing is compared across runs: the two sides of a ratio take turns
(A/B/A/B), and the ratio is the median of the pairs' ratios.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parents[1]
PAGE = os.sysconf("SC_PAGE_SIZE")
MB = 1e6


@dataclass(frozen=True)
class Bar:
    """What has to hold of a figure's value, or of its ratio to the peer."""

    subject: Literal["value", "ratio"]
    sign: Literal["<=", ">="]
    limit: float

    def __str__(self) -> str:
        return f"{self.subject} {self.sign} {self.limit:,g}"

    def holds(self, value: float) -> bool:
        """Whether a number is on the right side of the limit."""
        return value <= self.limit if self.sign == "<=" else value >= self.limit


@dataclass(frozen=True)
class Figure:
    """One line of the report. Without a bar it is there for information only."""

    what: str
    value: float
    unit: str
    peer_name: str = ""
    peer: float | None = None
    ratio: float | None = None
    """For a time, how many times the peer's (`<=` bars) or how many times faster (`>=` bars);
    the median over interleaved pairs, hence not exactly the quotient of the two medians."""
    bar: Bar | None = None

    @property
    def ok(self) -> bool | None:
        """Whether the bar is reached; None where there is none."""
        if self.bar is None:
            return None
        judged = self.value if self.bar.subject == "value" else self.ratio
        return judged is not None and self.bar.holds(judged)

    def as_dict(self) -> dict[str, Any]:
        """The figure for `--json`."""
        return {
            "what": self.what,
            "value": self.value,
            "unit": self.unit,
            "peer_name": self.peer_name or None,
            "peer": self.peer,
            "ratio": self.ratio,
            "bar": str(self.bar) if self.bar else None,
            "ok": self.ok,
        }


def interleaved(sides: list[tuple[Callable[[], object], int]], repeats: int) -> list[list[float]]:
    """Seconds a call of each side, in `repeats` rounds that take the sides in turn.

    Parameters
    ----------
    sides
        What to call, and how often in a row within one round.
    repeats
        Number of rounds.
    """
    seconds: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats):
        for kept, (call, times) in zip(seconds, sides, strict=True):
            start = time.perf_counter()
            for _ in range(times):
                call()
            kept.append((time.perf_counter() - start) / times)
    return seconds


def median_ratio(above: list[float], below: list[float]) -> float:
    """The median of the ratios of rounds."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def resident() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def private(pid: int | str = "self") -> int:
    """Bytes that only one process holds: Private_Clean and Private_Dirty of smaps_rollup."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kept = [line.split() for line in lines if line.startswith(("Private_Clean", "Private_Dirty"))]
    return sum(int(words[1]) for words in kept) * 1024


def fresh(module: str, *args: str) -> dict[str, Any]:
    """Run `python -m MODULE ARGS` in a new process; the JSON object it prints."""
    command = [sys.executable, "-m", module, *args]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
