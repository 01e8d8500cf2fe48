"""verifiers' env server with 1, 2 and 4 workers: what prime-rl trains through."""

from __future__ import annotations

from pathlib import Path

import pytest

from nowcast_alfred.lab.policy import PolicyServer
from nowcast_alfred.locate import embedded_store
from nowcast_alfred.store import publish
from nowcast_alfred.taskset import NowcastConfig, NowcastTaskset
from panels import small_inputs, small_inputs_until
from pools import bucket, command, serving

pytestmark = pytest.mark.e2e

SETTINGS = {"closed_egress": False}


def run(store: str, workers: int, **settings: str) -> None:
    """Two rollouts a worker: what is sent comes back scored, and nothing is left behind."""
    taskset = NowcastTaskset(NowcastConfig.model_validate({"store": store, **SETTINGS, **settings}))
    tasks = list(taskset.take(2 * workers))
    with PolicyServer("last-change") as policy, serving(workers, store) as server:
        episodes = server.run(tasks, policy.base_url)
        tool_servers = server.tool_servers()
    assert len(tool_servers) == workers
    assert [len(own) for own in tool_servers.values()] == [1] * workers
    for task, episode in zip(tasks, episodes, strict=True):
        assert episode.ok, episode.errors
        (trace,) = episode.traces
        assert (trace.task.key, trace.task.hash) == (task.key, task.hash)
        assert trace.metrics["parsed"] == trace.metrics["lookups"] == 1.0
        found = trace.info["nowcast"]
        assert found["forecast"] == pytest.approx(task.data.baseline, rel=1e-5)
        assert found["first_vintage"] > task.data.as_of
        assert trace.rewards["beats_baseline"].score == pytest.approx(0.0, abs=1e-4)
    gone = [pid for worker, own in tool_servers.items() for pid in (worker, *own)]
    assert [command(pid) for pid in gone] == [""] * len(gone)


def test_one_worker_serves_tasks_of_a_version_before_the_one_in_force(tmp_path: Path) -> None:
    store = tmp_path / "S"
    before = publish(store, small_inputs_until("2017-06-30")).fingerprint
    assert publish(store, small_inputs()).fingerprint != before
    run(str(store), 1, fingerprint=before)


def test_two_workers_read_a_store_in_a_bucket(tmp_path: Path) -> None:
    publish(tmp_path / "S", small_inputs())
    with bucket(tmp_path / "S", tmp_path / "cache") as uri:
        run(uri, 2)
    assert len(list((tmp_path / "cache").glob("*.arrow"))) == 1


def test_four_workers_each_have_one_tool_server() -> None:
    run(embedded_store(), 4)
