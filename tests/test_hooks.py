"""Mistakes in the scoring tables fail when the taskset is built, in one message with choices."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import verifiers.v1 as vf

from nowcast_alfred import NowcastTaskset
from nowcast_alfred.errors import ConfigError
from nowcast_alfred.rewards import NEEDS, Scored
from nowcast_alfred.taskset import NowcastConfig
from rollouts import score

PLUGINS = """
import verifiers.v1 as vf
from nowcast_alfred import rewards


async def good(task, trace) -> float:
    return 0.5


async def several(trace) -> dict[str, float]:
    return {"length": float(len(trace.last_reply)), "lines": 1.0}


async def truth(task) -> float:
    return rewards.outcome(task).first


async def lenient(trace, *, factor=2.0, **more) -> float:
    return factor


def plain(trace) -> float:
    return 0.5


async def greedy(trace, answer) -> float:
    return answer


async def enough(trace: vf.Trace) -> bool:
    return trace.num_turns > 3


async def untyped(trace) -> bool:
    return False


async def unreadable(trace: "Nonsense") -> bool:
    return False


number = 3
"""

REWARDS = sorted(name for name, fn in vars(Scored).items() if hasattr(fn, "reward"))
METRICS = sorted(name for name, fn in vars(Scored).items() if hasattr(fn, "metric"))
FORMS = ["package.module:function", "path/to/file.py:function"]
COROUTINES = ["good", "several", "truth", "lenient", "greedy"]


@pytest.fixture(autouse=True)
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of plug-ins, and a broken one, in the folder the command runs in."""
    (tmp_path / "mine.py").write_text(PLUGINS)
    (tmp_path / "broken.py").write_text("async def good(:\n")
    (tmp_path / "failing.py").write_text("async def good(): ...\nraise RuntimeError('no licence')")
    (tmp_path / "leaving.py").write_text("import sys\nasync def good(): ...\nsys.exit(0)")
    monkeypatch.chdir(tmp_path)


def built(toml: str) -> NowcastTaskset:
    """The taskset of `[env.taskset]` written as TOML, as verifiers builds it."""
    env = vf.resolve_env_config({"taskset": {"id": "nowcast-alfred", **tomllib.loads(toml)}})
    taskset = vf.load_taskset(env.taskset)
    assert isinstance(taskset, NowcastTaskset)
    return taskset


def rewards(line: str, top: str = "") -> str:
    return f"{top}\n[task.rewards]\n{line}\n"


def metrics(line: str) -> str:
    return f"[task.metrics]\n{line}\n"


def stops(line: str) -> str:
    return f"[task.stops]\n{line}\n"


WHERE = "[env.taskset.task.rewards] mine"
MISTAKES: dict[str, tuple[str, list[str]]] = {
    "no such module": (
        rewards('mine = { fn = "no_such_package.rewards:good" }'),
        [WHERE, "No module named 'no_such_package'", *FORMS],
    ),
    "no such file": (rewards('mine = { fn = "absent.py:good" }'), [WHERE, "absent.py", *FORMS]),
    "a file that is no Python": (
        rewards('mine = { fn = "broken.py:good" }'), [WHERE, "SyntaxError", "broken.py"]
    ),
    "a file that fails": (
        rewards('mine = { fn = "failing.py:good" }'), [WHERE, "RuntimeError: no licence"]
    ),
    "a file that ends the process": (
        rewards('mine = { fn = "leaving.py:good" }'), [WHERE, "SystemExit: 0", "good"]
    ),
    "no such function in a file": (
        rewards('mine = { fn = "mine.py:goood" }'), [WHERE, "goood", *FORMS, *COROUTINES]
    ),
    "no such function in a package": (
        rewards('mine = { fn = "asyncio:sleeep" }'), [WHERE, "sleeep", *FORMS, "sleep, "]
    ),
    "not a function": (
        rewards('mine = { fn = "mine.py:number" }'), [WHERE, "not a function", *COROUTINES]
    ),
    "no path at all": (rewards('mine = { fn = "good" }'), [WHERE, "'good'", *FORMS]),
    "not a coroutine function": (
        rewards('mine = { fn = "mine.py:plain" }'), [WHERE, "not a coroutine", "async def"]
    ),
    "a metric that is no coroutine function": (
        metrics('mine = { fn = "mine.py:plain" }'),
        ["[env.taskset.task.metrics] mine", "not a coroutine"],
    ),
    "a parameter that nobody gives": (
        rewards('mine = { fn = "mine.py:greedy" }'),
        [WHERE, "'answer'", "runtime, task, trace"],
    ),
    "an unknown reward": (rewards("scaled_eror = { weight = 1.0 }"), ["scaled_eror", *REWARDS]),
    "a metric among the rewards": (rewards("parsed = { weight = 1.0 }"), ["parsed", *REWARDS]),
    "an unknown metric": (metrics("parse = { priority = 1 }"), ["parse", *METRICS]),
    "an unknown stop": (stops("enough = { priority = 1 }"), ["enough", "one of none", *FORMS]),
    "a stop whose parameter has no type": (
        stops('enough = { fn = "mine.py:untyped" }'),
        ["[env.taskset.task.stops] enough", "vf.Trace, vf.Request or vf.Response"],
    ),
    "a stop whose type cannot be read": (
        stops('enough = { fn = "mine.py:unreadable" }'), ["stops] enough", "Nonsense"]
    ),
    "a stop that is missing": (stops('enough = { fn = "mine.py:enuf" }'), ["enuf", "enough"]),
    "an interval reward for a point": (
        rewards("interval_score = { weight = 1.0 }"),
        ["interval_score", "'interval' or 'quantiles'", "elicit is 'point'"],
    ),
    "the CRPS for a point": (rewards("crps_normal = { weight = 1.0 }"), ["elicit = 'interval'"]),
    "the log score for quantiles": (
        rewards("log_score = { weight = 1.0 }", 'elicit = "quantiles"'), ["elicit = 'interval'"]
    ),
    "pinball for an interval": (
        rewards("pinball = { weight = 1.0 }", 'elicit = "interval"'), ["elicit = 'quantiles'"]
    ),
    "no weight anywhere": (
        rewards("beats_baseline = { weight = 0.0 }"), ["no reward has a weight", *REWARDS]
    ),
    "no weight, with a plug-in": (
        rewards('beats_baseline = { weight = 0 }\nmine = { fn = "mine.py:good", weight = 0.0 }'),
        ["no reward has a weight", "mine", *REWARDS],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("toml", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_fails_when_the_taskset_is_built(toml: str, said: list[str]) -> None:
    with pytest.raises(ConfigError) as failed:
        built(toml)
    message = str(failed.value)
    assert [part for part in said if part not in message] == []
    assert "\n" not in message.strip() or "SyntaxError" in message


WRONG_KEYS = {
    "a typo in a reward's key": (rewards("scaled_error = { wieght = 1.0 }"), "wieght"),
    "a weight that is a word": (rewards('scaled_error = { weight = "much" }'), "weight"),
    "a weight that is none": (rewards("scaled_error = { weight = nan }"), "weight"),
    "a weight without end": (rewards("scaled_error = { weight = inf }"), "weight"),
    "a weight without a table": (rewards("scaled_error = 1.0"), "scaled_error"),
    "a typo in a table": ("[task.reward]\nscaled_error = { weight = 1.0 }", "reward"),
    "a typo in the elicitation": ('elicit = "intervals"', "'point', 'interval' or 'quantiles'"),
}


@pytest.mark.parametrize(("toml", "said"), WRONG_KEYS.values(), ids=WRONG_KEYS)
def test_a_wrong_key_or_value_fails_when_the_settings_are_read(toml: str, said: str) -> None:
    with pytest.raises(ValueError, match="validation error") as failed:
        built(toml)
    assert said in str(failed.value)


GOOD: dict[str, tuple[str, dict[str, float]]] = {
    "nothing": ("", {"beats_baseline": 1.0}),
    "re-weighted": (rewards("beats_baseline = { weight = 0.25 }"), {"beats_baseline": 0.25}),
    "exchanged": (
        rewards("beats_baseline = { weight = 0.0 }\nscaled_error = { weight = 2.0 }"),
        {"scaled_error": 2.0},
    ),
    "an interval reward that is not weighed": (
        rewards("interval_score = { weight = 0.0 }"), {"beats_baseline": 1.0}
    ),
    "only its order": (rewards("hit = { priority = 3 }"), {"beats_baseline": 1.0}),
    "a function of a file": (
        rewards('mine = { fn = "mine.py:good", weight = 2.0 }'),
        {"beats_baseline": 1.0, "mine": 2.0},
    ),
    "a function of a package, with dots": (
        rewards('mine = { fn = "plugins.half" }'), {"beats_baseline": 1.0, "mine": 1.0}
    ),
    "a function of a package, with a colon": (
        rewards('mine = { fn = "plugins:half" }'), {"beats_baseline": 1.0, "mine": 1.0}
    ),
    "a dict of rewards": (
        rewards('mine = { fn = "mine.py:several", weight = 0.5 }'),
        {"beats_baseline": 1.0, "length": 0.5, "lines": 0.5},
    ),
    "the outcome": (
        rewards('mine = { fn = "mine.py:truth" }'), {"beats_baseline": 1.0, "mine": 1.0}
    ),
    "parameters with defaults": (
        rewards('mine = { fn = "mine.py:lenient" }'), {"beats_baseline": 1.0, "mine": 1.0}
    ),
    "a name taken over": (
        rewards('crps_normal = { fn = "mine.py:good", weight = 1.0 }'),
        {"beats_baseline": 1.0, "crps_normal": 1.0},
    ),
    "a metric": (metrics('mine = { fn = "mine.py:several" }'), {"beats_baseline": 1.0}),
    "a stop": (stops('enough = { fn = "mine.py:enough" }'), {"beats_baseline": 1.0}),
}  # fmt: skip


@pytest.mark.parametrize(("toml", "weights"), GOOD.values(), ids=GOOD)
def test_what_is_right_is_built_and_scores(toml: str, weights: dict[str, float]) -> None:
    (task,) = built(toml).take(1)
    trace = score(task, "FORECAST: 1")
    held = {name: reward.weight for name, reward in trace.rewards.items() if reward.weight != 0.0}
    assert held == weights
    assert None not in trace.rewards.values()


@pytest.mark.parametrize("name", REWARDS)
def test_no_reward_of_ours_may_pay_for_error(name: str) -> None:
    elicit = f'elicit = "{NEEDS.get(name, ("point",))[0]}"'
    assert built(rewards(f"{name} = {{ weight = 0.5 }}", elicit))
    with pytest.raises(ConfigError, match=rf"\] {name}: weight = -0\.5 .* higher when better"):
        built(rewards(f"{name} = {{ weight = -0.5 }}", elicit))


def test_a_plug_in_may_weigh_less_than_nothing_under_any_name() -> None:
    for name in ("mine", "scaled_error"):
        (task,) = built(rewards(f'{name} = {{ fn = "mine.py:good", weight = -2.0 }}')).take(1)
        assert score(task, "FORECAST: 1").rewards[name].weight == -2.0


def test_a_plugged_metric_and_stop_are_there() -> None:
    (task,) = built(metrics('mine = { fn = "mine.py:several" }')).take(1)
    assert score(task, "FORECAST: 1").metrics["length"] == 11.0
    (task,) = built(stops('enough = { fn = "mine.py:enough" }')).take(1)
    assert [fn.__name__ for fn in task.hooks("stop")] == ["enough"]


def test_settings_made_in_code_are_checked_alike() -> None:
    with pytest.raises(ConfigError, match="no reward of that name"):
        NowcastTaskset(NowcastConfig(id="nowcast-alfred", task={"rewards": {"nope": {}}}))


def test_checking_opens_no_store() -> None:
    assert built('store = "/nowhere"\n[task.rewards]\nhit = { weight = 1.0 }').config.store
