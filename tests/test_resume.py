"""Resume: prime-rl's replay finds the same tasks, also after the store was updated."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import verifiers.v1 as vf
from pydantic import ValidationError

from nowcast_alfred.errors import StoreError, StoreMismatch
from nowcast_alfred.locate import embedded_store, opened
from nowcast_alfred.rewards import outcome
from nowcast_alfred.store import publish
from nowcast_alfred.store.files import Files
from nowcast_alfred.taskset import NowcastConfig, NowcastTaskset
from panels import small_inputs_until
from prime_rl import Settings, over_the_wire
from rollouts import score
from store_samples import output, python

COUNT = 24
MAIN = "import runpy; runpy.run_module('prime_rl', run_name='__main__')"
SPLIT = {"split": "train", "eval_from": "2012-01-01"}
SOURCES: Settings = {
    "near": {"ratio": 2.0, "taskset": {**SPLIT, "max_horizon": 14}},
    "far": {"ratio": 1.0, "taskset": {**SPLIT, "context": "prompt", "seed": 1}},
    "labour": {"ratio": 0.5, "taskset": {**SPLIT, "categories": ["labour"]}},
}
PULLS = [0, 1, 1_000, 1_280_000]
"""The last: 256 tasks a step for 5,000 steps."""


def orchestrator(act: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    """A process that begins or resumes."""
    arguments = [json.dumps(given) for given in (SOURCES, str(folder), PULLS, COUNT)]
    return python(MAIN, act, *arguments, **environment)


def test_a_killed_run_resumes_with_the_tasks_it_would_have_had(tmp_path: Path) -> None:
    embedded_store()
    first = orchestrator("begin", tmp_path, PYTHONHASHSEED="1")
    assert first.stdout is not None
    said = first.stdout.readline()
    first.kill()
    assert said, first.communicate()[1]
    elsewhere = {"PYTHONHASHSEED": "2", "TZ": "Pacific/Auckland", "LC_ALL": "C"}
    found = json.loads(output(orchestrator("resume", tmp_path, **elsewhere)))
    assert found["tasks"] == json.loads(said)
    for lines in found["tasks"].values():
        assert len(set(lines)) == COUNT
        assert {line.split()[0] for line in lines} == set(SOURCES)
    assert found["grown"] < 20_000_000


# What an update of the store does to a run on it.


def versions(root: Path, until: str) -> str:
    """Publish the small store as it was known on a day; its fingerprint."""
    return publish(root, small_inputs_until(until)).fingerprint


@pytest.fixture
def updated(tmp_path: Path) -> tuple[Path, str, str]:
    """A store of two versions: its place, the fingerprint before the update, and after."""
    before, after = versions(tmp_path / "S", "2017-06-30"), versions(tmp_path / "S", "2018-12-31")
    assert before != after
    return tmp_path / "S", before, after


def taskset(root: Path, fingerprint: str | None = None) -> NowcastTaskset:
    return NowcastTaskset(NowcastConfig(store=str(root), fingerprint=fingerprint))


def keys(one: NowcastTaskset) -> list[str]:
    return [task.key for task in one.take(COUNT)]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_run_that_names_its_version_resumes_exactly_after_an_update(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "S"
    before = versions(root, "2017-06-30")
    unnamed, named = keys(taskset(root)), keys(taskset(root, before))
    assert unnamed == named
    versions(root, "2018-12-31")
    opened.cache_clear()  # as in a new process
    assert keys(taskset(root, before)) == named
    assert warnings(caplog) == []


def test_a_run_that_names_none_is_told_which_version_it_may_have_begun_on(
    updated: tuple[Path, str, str], caplog: pytest.LogCaptureFixture
) -> None:
    root, before, after = updated
    assert keys(taskset(root)) == keys(taskset(root, after)) != keys(taskset(root, before))
    (said,) = warnings(caplog)
    assert said.startswith(f"{root} has more than one version: tasks are drawn from {after}")
    assert f"which replaced {before}." in said
    assert f"{root}/manifests" in said
    assert said.endswith(f'To be able to resume this run, set fingerprint = "{after}"')
    assert next(iter(taskset(root))).data.store == after  # where the warning says it stands


def test_a_store_that_was_rolled_back_warns_too(
    updated: tuple[Path, str, str], caplog: pytest.LogCaptureFixture
) -> None:
    root, before, after = updated
    shutil.copy(root / "manifests" / f"{before}.json", root / "manifest.json")
    assert keys(taskset(root)) == keys(taskset(root, before)) != keys(taskset(root, after))
    (said,) = warnings(caplog)
    assert said.startswith(f"{root} has more than one version: tasks are drawn from {before}.")
    assert "replaced" not in said


def test_a_store_whose_versions_cannot_be_listed_is_drawn_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Files, folder: str) -> list[str]:
        raise StoreError(f"cannot read {folder}: access denied")

    versions(tmp_path / "S", "2017-06-30")
    monkeypatch.setattr(Files, "names", refuse)
    assert keys(taskset(tmp_path / "S"))


def test_a_store_of_one_version_needs_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    versions(tmp_path / "S", "2017-06-30")
    assert keys(taskset(tmp_path / "S"))
    assert warnings(caplog) == []


def test_a_version_that_is_gone_is_an_error_that_names_both(
    updated: tuple[Path, str, str],
) -> None:
    root, before, _ = updated
    shutil.rmtree(root)
    other = versions(root, "2018-06-30")
    opened.cache_clear()
    with pytest.raises(StoreMismatch, match=f"is at version {other} and has no version {before}"):
        next(iter(taskset(root, before)))


@pytest.mark.parametrize("wrong", ["", "3f2a", "../manifest", "G" * 64])
def test_a_fingerprint_is_64_hexadecimal_digits(wrong: str) -> None:
    with pytest.raises(ValidationError, match="fingerprint"):
        NowcastConfig(fingerprint=wrong)


def test_env_workers_score_tasks_of_the_version_they_were_drawn_from(
    updated: tuple[Path, str, str],
) -> None:
    root, before, after = updated
    worker = taskset(root)  # it knows the store's place, not the version
    for task in taskset(root, before).take(COUNT):
        back: Any = over_the_wire(worker, task)
        assert (back.key, back.hash, back.data.store) == (task.key, task.hash, before)
        y = outcome(back.data, str(root)).first
        assert score(back, f"FORECAST: {y!r}").metrics["abs_error_first"] == 0.0
        latest = score(back, "").info["nowcast"]["latest_vintage"]
        assert latest <= "2017-06-30"
    assert opened(str(root), after).fingerprint == after


def test_the_place_of_a_version_decides_no_draw(tmp_path: Path) -> None:
    first = versions(tmp_path / "A", "2017-06-30")
    assert versions(tmp_path / "B", "2017-06-30") == first
    assert keys(taskset(tmp_path / "A")) == keys(taskset(tmp_path / "B", first))


def test_a_view_of_the_taskset_resumes_like_the_taskset() -> None:
    config = vf.SelectConfig(skip=3)
    whole = NowcastTaskset(NowcastConfig())
    chosen = iter(whole.select(config))
    assert [next(chosen).key for _ in range(5)] == [task.key for task in whole.take(8)][3:]
