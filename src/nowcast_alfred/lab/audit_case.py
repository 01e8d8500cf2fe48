"""What every check of the audit works on, and what it gives back.

A `Case` is a taskset with its stream and the distinct ones among its first draws. A `Finding` is
one line of the audit: the route to the answer, what was looked at, the status, the numbers behind
it, and what to do. A check is a function from a case to a finding and prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from ..locate import store_uri
from ..store import VintageStore
from ..stream import Draw, Stream
from ..taskset import NowcastTaskset

Status = Literal["closed", "open", "not checked", "cannot be closed", "note"]
Step = Callable[[], None]
"""Called once per draw by the checks that take long."""


@dataclass(frozen=True)
class Finding:
    """One line of the audit."""

    route: str
    status: Status
    checked: str
    evidence: dict[str, Any] = field(default_factory=dict)
    advice: str = ""


@dataclass(frozen=True)
class Case:
    """A taskset, its stream, and the draws that are looked at: distinct, in order of series."""

    taskset: NowcastTaskset
    stream: Stream
    uri: str
    count: int
    draws: list[Draw]

    @property
    def store(self) -> VintageStore:
        """The store the stream was drawn from."""
        return self.stream.space.store

    def spread(self, count: int) -> list[Draw]:
        """At most `count` of the draws, spread evenly over the series."""
        by_series: dict[str, list[Draw]] = {}
        for draw in self.draws:
            by_series.setdefault(draw.series_id, []).append(draw)
        turns = [(at, draw) for own in by_series.values() for at, draw in enumerate(own)]
        return [draw for _, draw in sorted(turns, key=lambda turn: turn[0])[:count]]


def case_of(taskset: NowcastTaskset, count: int) -> Case:
    """The first `count` draws of a taskset; those that ask the same on the same day count once.

    Raises
    ------
    ConfigError
        If the settings leave no task.
    """
    stream = taskset.stream()
    found: dict[tuple[str, int, int], Draw] = {}
    for n in range(count):
        draw = stream.draw(n)
        found.setdefault((draw.series_id, draw.period, draw.as_of), draw)
    draws = sorted(found.values(), key=lambda draw: (draw.series_id, draw.n))
    return Case(taskset, stream, store_uri(taskset.config.store), count, draws)
