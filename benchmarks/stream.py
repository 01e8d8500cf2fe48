"""Rows 1 and 2: pulling tasks from the stream, without and with their data."""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, Self

import numpy as np
import verifiers.v1 as vf

from nowcast_alfred.prompts import Context
from nowcast_alfred.taskset import NowcastConfig, NowcastTaskset

from .measure import MB, Bar, Figure, fresh, median_ratio, resident

PULLS = 1_280_000
"""256 tasks a step for 5,000 steps: what prime-rl replays when such a run resumes."""
BLOCK = 64_000
TASKS = {"tools": 20_000, "files": 10_000, "prompt": 5_000}
TASK_BLOCK = 500
PEER_BLOCK = 5 * TASK_BLOCK
PROMPT = "Forecast the first release of this number. " * 30


class ToyData(vf.TaskData):
    """The data of a peer's task."""

    n: int


class EagerTask(vf.Task[ToyData, vf.State, vf.TaskConfig]):
    """A task as verifiers' own infinite tasksets make them: with its data."""


class BareTask(vf.Task[ToyData, vf.State, vf.TaskConfig]):
    """The least a lazy task can be: a number, and data on the first read."""

    def __init__(self, n: int, build: Callable[[int], ToyData], config: vf.TaskConfig) -> None:
        self.config = config
        self._n, self._build = n, build
        self._built: ToyData | None = None
        self._pending: dict[str, Any] = {}

    @property
    def data(self) -> ToyData:
        if self._built is None:
            self._built = self._build(self._n).model_copy(update=self._pending)
        return self._built

    @data.setter
    def data(self, value: ToyData) -> None:
        self._built = value

    def with_data(self, **update: Any) -> Self:
        if self._built is not None:
            return super().with_data(**update)
        clone = copy(self)
        clone._pending = {**self._pending, **update}
        return clone


def toy_data(n: int) -> ToyData:
    """Data with a static prompt."""
    return ToyData(id=f"toy-{n}", prompt=PROMPT, n=n)


class BareTaskset(vf.Taskset[BareTask, vf.TasksetConfig]):
    """The peer of row 1: an endless stream of bare lazy tasks."""

    INFINITE = True

    def load(self) -> Iterator[BareTask]:
        config = vf.TaskConfig()
        for n in itertools.count():
            yield BareTask(n, toy_data, config)


class EagerTaskset(vf.Taskset[EagerTask, vf.TasksetConfig]):
    """The peer of row 2: an endless stream of tasks that are built when pulled."""

    INFINITE = True

    def load(self) -> Iterator[EagerTask]:
        config = vf.TaskConfig()
        for n in itertools.count():
            yield EagerTask(toy_data(n), config)


def ours(context: Context = "tools", store: str | None = None) -> Iterator[Any]:
    """Our stream, its task space found."""
    return iter(NowcastTaskset(NowcastConfig(context=context, store=store)))


def bare() -> Iterator[Any]:
    """The bare lazy stream."""
    return iter(BareTaskset(vf.TasksetConfig()))


def eager() -> Iterator[Any]:
    """The eager toy stream."""
    return iter(EagerTaskset(vf.TasksetConfig()))


def pull(tasks: Iterator[Any], count: int) -> float:
    """Seconds for `count` calls of `next`."""
    start = time.perf_counter()
    for _ in range(count):
        next(tasks)
    return time.perf_counter() - start


def forward() -> dict[str, Any]:
    """Both streams pulled to position 1.28 million, block by block in turn."""
    mine, peer = ours(), bare()
    seconds = [(pull(mine, BLOCK), pull(peer, BLOCK)) for _ in range(PULLS // BLOCK)]
    left, right = map(list, zip(*seconds, strict=True))
    return {"ours": sum(left), "bare": sum(right), "ratio": median_ratio(left, right)}


def growth() -> dict[str, Any]:
    """How much our stream's process grows at most while 1.28 million tasks are pulled."""
    tasks = ours()
    next(tasks)
    before = resident()
    most = 0
    for _ in range(PULLS // BLOCK):
        pull(tasks, BLOCK)
        most = max(most, resident() - before)
    task = next(tasks)
    return {"growth": most, "last": task.data.draw}


def materialise(context: Context, store: str | None = None) -> dict[str, Any]:
    """Latencies of `next`, data, hash and dump, and sizes, with the eager peer in between."""
    count = TASKS[context]
    start = time.perf_counter()
    mine = ours(context, store)
    next(mine).data  # noqa: B018
    first = time.perf_counter() - start
    peer = eager()
    times, sizes = np.zeros((count, 4)), np.zeros(count)
    processor, peers = 0.0, []
    for block in range(0, count, TASK_BLOCK):
        tasks = []
        started = time.thread_time()
        for i in range(block, block + TASK_BLOCK):
            marks = [time.perf_counter()]
            task = next(mine)
            marks.append(time.perf_counter())
            task.data  # noqa: B018
            marks.append(time.perf_counter())
            times[i, :2] = np.diff(marks)
            tasks.append(task)
        processor += time.thread_time() - started
        for i, task in enumerate(tasks, block):
            marks = [time.perf_counter()]
            task.hash  # noqa: B018
            marks.append(time.perf_counter())
            dumped = task.data.model_dump(mode="json")
            marks.append(time.perf_counter())
            times[i, 2:] = np.diff(marks)
            sizes[i] = len(json.dumps(dumped).encode())
        start = time.perf_counter()
        for _ in range(PEER_BLOCK):
            next(peer).data  # noqa: B018
        peers.append((time.perf_counter() - start) / PEER_BLOCK)
    built = times[:, 0] + times[:, 1]
    per_block = built.reshape(-1, TASK_BLOCK).mean(axis=1).tolist()
    return {
        "first": first,
        "rate": 1.0 / statistics.median(per_block),
        "processor_rate": count / processor,
        "peer_rate": 1.0 / statistics.median(peers),
        "ratio": median_ratio(peers, per_block),
        "next_p99": float(np.quantile(times[:, 0], 0.99)),
        "built_p99": float(np.quantile(built, 0.99)),
        "hash": float(np.median(times[:, 2])),
        "dump": float(np.median(times[:, 3])),
        "size_mean": float(sizes.mean()),
        "size_max": float(sizes.max()),
    }


def row_forward() -> list[Figure]:
    """Row 1: fast-forward of 1.28 million draws."""
    timed, grown = fresh(__name__, "forward"), fresh(__name__, "growth")
    if grown["last"] != PULLS + 1:
        raise RuntimeError(f"the stream is at {grown['last']} after {PULLS + 1} pulls")
    return [
        Figure(
            "fast-forward, 1.28 million draws",
            timed["ours"],
            "s",
            "bare lazy task stream",
            timed["bare"],
            timed["ratio"],
            Bar("ratio", "<=", 1.5),
        ),
        Figure(
            "... largest growth of memory", grown["growth"] / MB, "MB", bar=Bar("value", "<=", 20)
        ),
    ]


def row_taskdata(large: str) -> list[Figure]:
    """Row 2: tasks with their data, on the embedded store; `large` is for comparison."""
    figures = []
    for context in TASKS:
        judged = context == "tools"
        found = fresh(__name__, "materialise", context)
        figures += [
            _rate(f"next() + data, context = {context}", found, judged),
            Figure("... p99 of next()", found["next_p99"] * 1e3, "ms", bar=Bar("value", "<=", 1.0)),
            Figure(
                "... p99 of next() + data",
                found["built_p99"] * 1e3,
                "ms",
                bar=Bar("value", "<=", 1.0) if judged else None,
            ),
            Figure("... per second of processor time", found["processor_rate"], "/s"),
            Figure("... hash, median", found["hash"] * 1e3, "ms"),
            Figure("... model_dump(json), median", found["dump"] * 1e3, "ms"),
            Figure("... JSON size, mean", found["size_mean"] / 1024, "KB"),
            Figure(
                "... JSON size, largest",
                found["size_max"] / 1024,
                "KB",
                bar=Bar("value", "<=", 8.0) if judged else None,
            ),
            Figure("... first task, opening included", found["first"], "s"),
        ]
    found = fresh(__name__, "materialise", "tools", large)
    figures += [
        _rate("next() + data, 150 series, 1,000,000 changes", found, False),
        Figure("... per second of processor time", found["processor_rate"], "/s"),
        Figure("... first task, opening included", found["first"], "s"),
    ]
    return figures


def _rate(what: str, found: dict[str, Any], judged: bool) -> Figure:
    return Figure(
        what,
        found["rate"],
        "/s",
        "eager toy task stream",
        found["peer_rate"],
        found["ratio"],
        Bar("value", ">=", 5000) if judged else None,
    )


def main(what: str, *args: Any) -> None:
    """One measurement in this process, printed as JSON."""
    run: dict[str, Callable[..., dict[str, Any]]] = {
        "forward": forward,
        "growth": growth,
        "materialise": materialise,
    }
    print(json.dumps(run[what](*args)))


if __name__ == "__main__":
    main(*sys.argv[1:])
