"""Row 7: verifiers' env server with 1, 2 and 4 workers, the store on disk and in a bucket."""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest import mock

from nowcast_alfred.lab import policy
from nowcast_alfred.store.files import CACHE_VARIABLE
from nowcast_alfred.taskset import NowcastConfig, NowcastTaskset

from .measure import MB, ROOT, Bar, Figure, private

WORKERS = (1, 2, 4)
ROLLOUTS = 16


def _pools() -> Any:
    """The env servers of the tests."""
    sys.path.insert(0, str(ROOT / "tests"))
    return importlib.import_module("pools")


def _search(prompt: str, tools: list[str]) -> dict[str, Any]:
    """A tool call for which the server reads every series of the store."""
    function = {"name": "catalog_search", "arguments": json.dumps({"text": ""})}
    return {"id": "call_search", "type": "function", "function": function}


def measured(store: str, workers: int) -> dict[str, Any]:
    """A pool's first rollouts, then `ROLLOUTS` of them timed, then its memory.

    The first rollouts, one a worker, make each tool server read all of the store.
    """
    pools = _pools()
    taskset = NowcastTaskset(NowcastConfig(store=store, closed_egress=False))
    tasks = list(taskset.take(workers + ROLLOUTS))
    start = perf_counter()
    with policy.PolicyServer("mean-12") as model, pools.serving(workers, store) as server:
        with mock.patch.object(policy, "_call", _search):
            episodes = server.run(tasks[:workers], model.base_url)
        ready = perf_counter() - start
        pids = [server.pid, *pools.below(server.pid)]
        start, spent = perf_counter(), processor(pids)
        episodes += server.run(tasks[workers:], model.base_url)
        seconds, spent = perf_counter() - start, processor(pids) - spent
        own = server.tool_servers()
        held = [sum(map(private, (pid, *tools))) for pid, tools in own.items()]
    if failed := [episode.errors for episode in episodes if not episode.ok]:
        raise RuntimeError(f"{len(failed)} of {len(episodes)} rollouts failed: {failed[0]}")
    if [len(tools) for tools in own.values()] != [1] * workers:
        raise RuntimeError(f"not one tool server for each of {workers} workers: {own}")
    calls = [episode.traces[0].calls for episode in episodes[workers:]]
    return {
        "ready": ready,
        "rate": 60 * ROLLOUTS / seconds,
        "processor": spent / ROLLOUTS,
        "latency": [second.time.start - first.time.end for first, second in calls],
        "private": held,
    }


def processor(pids: list[int]) -> float:
    """Seconds of processor time of processes, and of their children that have ended."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def row_pool(large: str, tiny: str) -> list[Figure]:
    """Row 7: pools over 150 series with 1,000,000 change points, canned policy, null harness."""
    found = {f"{count} worker(s), disk": measured(large, count) for count in WORKERS}
    cache = Path(os.environ[CACHE_VARIABLE] + "-of-the-bucket")
    with _pools().bucket(Path(large), cache) as uri:
        found["2 worker(s), s3"] = measured(uri, 2)
    without = statistics.median(measured(tiny, 2)["private"])
    figures = []
    for name, one in found.items():
        figures += [
            Figure(f"rollouts a minute, {name}", one["rate"], "/min"),
            Figure("... processor time a rollout, its harness included", one["processor"], "s"),
            Figure(
                "... tool call as the agent waits for it, median",
                1e3 * statistics.median(one["latency"]),
                "ms",
            ),
            Figure("... first rollout of every worker done after", one["ready"], "s"),
            Figure(
                "... private memory of worker and tool server, added by the store, largest",
                (max(one["private"]) - without) / MB,
                "MB",
                "the same two processes on one series",
                without / MB,
                bar=Bar("value", "<=", 15),
            ),
        ]
    return figures
