"""The taskset as verifiers sees it: loading, views, laziness, the wire, the network policy."""

from __future__ import annotations

import asyncio
import copy
import json
from pathlib import Path

import pytest
import verifiers.v1 as vf

from nowcast_alfred import NowcastTaskset, task
from nowcast_alfred.data import NowcastData, NowcastState
from nowcast_alfred.errors import ConfigError, StoreMismatch, StoreNotFound
from nowcast_alfred.locate import build_synthetic, embedded_store
from nowcast_alfred.task import NowcastTask, closed_network, is_closed
from nowcast_alfred.taskset import NowcastConfig
from rollouts import score


def taskset(**settings: object) -> NowcastTaskset:
    return NowcastTaskset(NowcastConfig(id="nowcast-alfred", **settings))


def first(count: int, **settings: object) -> list[NowcastTask]:
    return list(taskset(**settings).take(count))


def test_verifiers_finds_the_taskset_and_its_types_by_id() -> None:
    loaded = vf.load_taskset(NowcastConfig(id="nowcast-alfred"))
    assert type(loaded) is NowcastTaskset
    assert loaded.INFINITE
    assert not loaded.bounded
    assert vf.task_type("nowcast-alfred") is NowcastTask
    assert NowcastTask.data_type() is NowcastData
    assert type(first(1)[0].config).__name__ == "NowcastTaskConfig"


def test_building_a_taskset_opens_no_store() -> None:
    with pytest.raises(StoreNotFound, match="store synth"):
        next(iter(taskset(store="/nowhere/at/all")))


def test_an_infinite_stream_must_be_bounded_before_it_is_shuffled() -> None:
    with pytest.raises(ValueError, match="infinite"):
        taskset().shuffle()
    shuffled = list(taskset().include(idx=["20:40"]).shuffle(seed=0).take(5))
    assert all(20 <= one.data.idx < 40 for one in shuffled)


def test_a_task_is_built_when_its_data_are_read_and_only_then(monkeypatch) -> None:
    built = []
    original = task.make_data
    monkeypatch.setattr(
        "nowcast_alfred.taskset.make_data",
        lambda *a, **k: built.append(1) or original(*a, **k),
    )
    tasks = iter(taskset())
    skipped = [next(tasks) for _ in range(100)]
    assert not built
    assert skipped[57].data.draw == skipped[57].data.idx == 57
    assert len(built) == 1


def test_the_system_prompt_of_the_config_reaches_a_lazy_task(tmp_path: Path) -> None:
    (tmp_path / "system.txt").write_text("Be brief.")
    (only,) = first(1, system_prompt=tmp_path / "system.txt")
    assert only.data.system_prompt == "Be brief."


def test_a_deferred_copy_of_a_lazy_task_is_the_same_task() -> None:
    (only,) = first(1)
    deferred = only.defer_scoring()
    assert deferred.scoring_deferred
    assert deferred.hash == only.hash == copy.deepcopy(only).hash


def test_key_and_hash_survive_the_wire_to_an_env_worker() -> None:
    for sent in first(50):
        wire = json.loads(json.dumps(sent.data.model_dump(mode="json")))
        rebuilt = NowcastTask(NowcastData.model_validate(wire), sent.config)
        assert (rebuilt.key, rebuilt.hash) == (sent.key, sent.hash)


def test_keys_are_unique_and_do_not_depend_on_the_position_in_a_view() -> None:
    tasks = first(500)
    assert len({one.key for one in tasks}) == 500
    (later,) = taskset().skip(7).take(1)
    assert later.key == tasks[7].key


def test_task_data_stay_small() -> None:
    for context in ("tools", "files", "prompt"):
        for one in first(50, context=context):
            assert len(one.data.model_dump_json()) <= 8 * 1024


def test_settings_that_do_not_decide_the_draws_do_not_change_them() -> None:
    plain = [one.key for one in first(20)]
    assert plain == [one.key for one in first(20, context="prompt", baseline="mean_12")]
    assert plain != [one.key for one in first(20, seed=1)]


def test_closed_egress_is_on_by_default_and_asks_for_no_network() -> None:
    assert is_closed(first(1)[0].data)
    assert not is_closed(first(1, closed_egress=False)[0].data)


def test_a_verifiers_that_ignores_the_network_field_is_noticed(monkeypatch) -> None:
    unknown = {"network_of_another_version": []}
    monkeypatch.setattr(task, "closed_network", lambda closed: unknown if closed else {})
    with pytest.raises(ConfigError, match="egress would be open"):
        _ = first(1)[0].data


def test_the_network_field_of_either_generation_is_used(monkeypatch) -> None:
    current = closed_network(True)
    assert set(current) <= set(vf.TaskData.model_fields)
    monkeypatch.setattr(vf.TaskData, "model_fields", {"network": None})
    assert closed_network(True) == {"network": {"allow": []}}
    monkeypatch.setattr(vf.TaskData, "model_fields", {"network_allow": None})
    assert closed_network(True) == {"network_allow": []}


def test_no_tools_where_the_data_come_otherwise() -> None:
    assert len(NowcastTaskset.toolsets(NowcastConfig())) == 1
    for context in ("files", "prompt"):
        assert NowcastTaskset.toolsets(NowcastConfig(context=context)) == []


def test_the_tool_server_gets_an_absolute_store(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (server,) = NowcastTaskset.toolsets(NowcastConfig(store="here"))
    assert server.config.store == str(tmp_path / "here")


def test_env_workers_find_store_context_and_elicitation_on_the_task() -> None:
    config = NowcastConfig(store="S", context="files", task={"metrics": {}})
    assert (config.task.store, config.task.context) == ("S", "files")
    again = NowcastConfig.model_validate(config.model_dump())
    assert again == config


def test_a_typo_in_the_settings_is_an_error() -> None:
    with pytest.raises(ValueError, match="eval_form"):
        NowcastConfig.model_validate({"eval_form": "2020-01-01"})


def test_setup_tells_the_tool_server_the_day_and_nothing_of_the_outcome() -> None:
    (only,) = first(1)
    trace = vf.Trace(
        task=vf.TraceTask(type="NowcastTask", data=only.data),
        agent=vf.AgentInfo(config=vf.AgentConfig()),
        state=NowcastState(),
    )
    asyncio.run(only.setup(trace, None))  # type: ignore[arg-type]
    assert trace.state.as_of == only.data.as_of
    assert set(NowcastState.model_fields) == {
        "artifacts", "as_of", "series_id", "store", "opaque", "lookups",
    }  # fmt: skip


def test_rewards_and_metrics_of_a_good_and_of_a_missing_reply() -> None:
    for one in first(30):
        truth = score(one, "").info["nowcast"]["first"]
        oracle = score(one, f"FORECAST: {truth!r}", lookups=2)
        silent = score(one, "no idea")
        assert silent.reward == -1.0
        assert silent.metrics == {
            "parsed": 0.0,
            "beyond": 0.0,
            "clipped": 0.0,
            "lookups": 0.0,
            "leak_attempts": 0.0,
            "baseline_error": oracle.metrics["baseline_error"],
        }
        assert oracle.reward == min(1.0, oracle.metrics["baseline_error"] / one.data.scale)
        assert oracle.metrics["abs_error_first"] == 0.0
        assert oracle.metrics["lookups"] == 2.0
        copied = score(one, f"FORECAST: {one.data.baseline!r}")
        assert copied.reward == 0.0


def test_a_saved_trace_is_scored_again_without_its_store() -> None:
    (only,) = first(1)
    trace = score(only, "FORECAST: 1")
    elsewhere = NowcastTask(only.data, only.config.model_copy(update={"store": "/gone"}))
    before = (dict(trace.rewards), dict(trace.metrics))
    trace.rewards, trace.metrics, trace.state = {}, {}, vf.State()
    asyncio.run(elsewhere.score(trace))
    assert (trace.rewards, trace.metrics) == before


def test_another_version_of_the_store_is_a_mismatch_with_both_fingerprints(
    tmp_path: Path,
) -> None:
    mark = build_synthetic(tmp_path / "other", seed=1)
    (only,) = first(1)
    moved = NowcastTask(
        only.data, only.config.model_copy(update={"store": str(tmp_path / "other")})
    )
    with pytest.raises(StoreMismatch, match=f"{mark[:12]}.*{only.data.store[:12]}"):
        score(moved, "FORECAST: 1")


def test_validate_refuses_a_task_that_was_altered() -> None:
    (only,) = first(1)
    assert asyncio.run(only.validate(None))  # type: ignore[arg-type]
    later = only.data.model_copy(update={"baseline": only.data.baseline + 1.0})
    assert not asyncio.run(NowcastTask(later, only.config).validate(None))  # type: ignore[arg-type]


def test_the_embedded_store_is_made_once_and_small() -> None:
    root = Path(embedded_store())
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    assert size <= 10 * 2**20
    assert embedded_store() == str(root)
