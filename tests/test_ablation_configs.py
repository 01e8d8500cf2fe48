"""`configs/ablations`: each overlay turns on what it is named after, and nothing else."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import verifiers.v1 as vf

from commands import ROOT, run
from nowcast_alfred import NowcastTaskset
from nowcast_alfred.answers import Elicit
from nowcast_alfred.lab.variants import merged
from nowcast_alfred.locate import embedded_store, opened
from nowcast_alfred.prompts import oracle
from nowcast_alfred.rewards import outcome
from nowcast_alfred.taskset import NowcastConfig
from rollouts import score

FOLDER = ROOT / "configs/ablations"
INTENDED: dict[str, tuple[str, dict[str, float]]] = {
    "article": ("point", {"beats_baseline": 1.0}),
    "scaled-error": ("point", {"scaled_error": 1.0}),
    "unit-error": ("point", {"unit_error": 1.0}),
    "squared-error": ("point", {"squared_error": 1.0}),
    "crps": ("interval", {"crps_normal": 1.0}),
    "log-score": ("interval", {"log_score": 1.0}),
    "interval": ("interval", {"interval_score": 1.0}),
    "wis": ("quantiles", {"pinball": 1.0}),
    "direction": ("point", {"direction": 1.0}),
    "hit": ("point", {"hit": 1.0}),
    "mixture-format": ("point", {"scaled_error": 1.0, "format": 0.1}),
    "baseline-mean12": ("point", {"beats_baseline": 1.0}),
    "plugin": ("point", {"huber": 1.0}),
}


def read(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text())


@pytest.fixture
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plug-ins are named by their path from the project's root."""
    monkeypatch.chdir(ROOT)


def built(name: str, **settings: Any) -> NowcastTaskset:
    """The taskset of an overlay, through verifiers' own parser of `[env]`."""
    document = merged(merged(read("base"), read(name)), {"env": {"taskset": settings}})
    config = vf.resolve_env_config(document["env"])
    assert type(config.taskset) is NowcastConfig
    taskset = vf.load_taskset(config.taskset)
    assert isinstance(taskset, NowcastTaskset)
    return taskset


def test_every_overlay_is_known_here_and_says_what_it_is_for() -> None:
    names = {path.stem for path in FOLDER.glob("*.toml")} - {"base"}
    assert names == set(INTENDED)
    for name in names:
        text = (FOLDER / f"{name}.toml").read_text()
        assert text.startswith("# ")
        assert "licits " in text
        assert "Use it" in text
    assert "diagnostic, not for training" in (FOLDER / "hit.toml").read_text()


@pytest.mark.parametrize("name", INTENDED)
@pytest.mark.usefixtures("at_root")
def test_an_overlay_weighs_exactly_what_it_is_named_after(name: str) -> None:
    elicit, weights = INTENDED[name]
    taskset = built(name)
    assert taskset.config.elicit == taskset.config.task.elicit == elicit
    (task,) = taskset.take(1)
    y = outcome(task.data).first
    trace = score(task, oracle(y, elicit))  # type: ignore[arg-type]
    held = {name: one.weight for name, one in trace.rewards.items() if one.weight != 0.0}
    assert held == weights
    silent = score(task, "no idea")
    worse = score(task, oracle(y + 1.5 * task.data.scale, elicit))  # type: ignore[arg-type]
    assert trace.reward > worse.reward
    assert trace.reward > silent.reward
    if name == "baseline-mean12":
        known = opened(embedded_store()).view(task.data.as_of)
        values = known.observations(task.data.series_id, units=task.data.transform).value
        assert task.data.baseline == pytest.approx(values[-12:].mean(), rel=1e-12)


@pytest.mark.parametrize("opaque", [False, True], ids=["plain", "opaque"])
@pytest.mark.parametrize("elicit", ["point", "interval", "quantiles"])
@pytest.mark.usefixtures("at_root")
def test_the_example_plug_in_pays_by_the_error_however_it_is_asked_and_shown(
    elicit: Elicit, opaque: bool
) -> None:
    for task in built("plugin", elicit=elicit, opaque=opaque).take(3):
        truth, scale, shown = outcome(task.data).first, task.data.scale, task.data.shown
        assert (shown is not None) == opaque
        for error, expected in ((0, 0.0), (0.5, -0.125), (1, -0.5), (3, -2.5), (99, -10.0)):
            told = truth + error * scale
            reply = oracle(shown.shown(told) if shown else told, elicit)
            assert score(task, reply).reward == pytest.approx(expected, abs=1e-9)
        assert score(task, "").reward == -11.0


def test_the_base_alone_has_no_reward_and_says_so() -> None:
    config = vf.resolve_env_config(read("base")["env"])
    with pytest.raises(ValueError, match="no reward has a weight"):
        vf.load_taskset(config.taskset)


@pytest.mark.e2e
def test_vf_eval_merges_base_and_overlay_in_the_same_way(tmp_path: Path) -> None:
    over = FOLDER / "wis.toml"
    run(tmp_path, "vf-eval", "@", FOLDER / "base.toml", "@", over, "--dry-run", "--no-rich")
    (saved,) = tmp_path.rglob("eval.json")
    env = json.loads(saved.read_text())["env"]
    assert vf.resolve_env_config(env).taskset == built("wis").config
