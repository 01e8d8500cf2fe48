"""Scoring replies without a rollout: the rewards of a configuration, called directly.

verifiers scores a rollout by every hook, metrics included, through an event loop of its own per
trace. Here the hooks that have a weight are resolved once, and awaited one after the other on one
reused trace a task, with the record that `finalize` would have written for each reply. The sum is
that of `trace.reward`; a test and, once a configuration, `check` hold it against `task.score`.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import verifiers.v1 as vf

from .. import answers
from ..data import NowcastState, NowcastTrace
from ..errors import ConfigError
from ..opaque import read_reply
from ..periods import Floats
from ..rewards import INFO
from ..task import NowcastTask

Earn: TypeAlias = Callable[[Sequence[str]], Floats]
"""One reply a task, in order -> what each earns."""


def trace_of(task: NowcastTask) -> NowcastTrace:
    """A trace of the task, as a rollout begins with."""
    wire: Any = vf.TraceTask(type="NowcastTask", data=task.data, key=task.key, hash=task.hash)
    state = NowcastState(as_of=task.data.as_of, store=task.data.store)
    return vf.Trace(task=wire, agent=vf.AgentInfo(config=vf.AgentConfig()), state=state)


def earner(tasks: Sequence[NowcastTask]) -> Earn:
    """What a column of replies earns, one reply a task, by the weighted rewards of the tasks.

    Raises
    ------
    ConfigError
        If a reward needs what there is only in a rollout. The function returned raises it if a
        reward fails, or returns what is no finite number.
    """
    scorers = [_scorer(task) for task in tasks]

    def earn(replies: Sequence[str]) -> Floats:
        async def all_of_them() -> list[float]:
            pairs = zip(scorers, replies, strict=True)
            return [await score(reply) for score, reply in pairs]

        return np.array(asyncio.run(all_of_them()), dtype=np.float64)

    return earn


def _scorer(task: NowcastTask) -> Callable[[str], Coroutine[Any, Any, float]]:
    trace, data, config = trace_of(task), task.data, task.config
    trace.root_reply = ""
    silent = task.result(data, trace)
    weighted = [(fn, getattr(fn, "_vf_weight", 1.0)) for fn in task.hooks("reward")]
    hooks = [
        (fn.__name__, fn, weight, _arguments(fn, data, trace)) for fn, weight in weighted if weight
    ]
    if config.judges:
        raise ConfigError("judges ask a model, so their rewards cannot be simulated")

    async def score(reply: str) -> float:
        trace.root_reply = reply
        trace.info = {INFO: record(silent, read(task, reply))}
        earned: dict[str, float] = {}
        for name, fn, weight, given in hooks:
            try:
                value = await fn(**given)
            except (Exception, SystemExit) as error:
                raise ConfigError(
                    f"reward {name} fails on the reply {reply!r}: {type(error).__name__}: {error}"
                ) from error
            earned |= {key: one * weight for key, one in _scores(name, value).items()}
        total = sum(earned.values())
        if not math.isfinite(total):
            raise ConfigError(
                f"the reply {reply!r} earns {total} ({earned}); verifiers does not guard against "
                "it, so give a floor instead"
            )
        return total

    return score


def _scores(name: str, value: Any) -> dict[str, float]:
    """What a reward returned, by name; a text is refused even where it reads as a number."""
    scores = value if isinstance(value, Mapping) else {name: value}
    try:
        return {key: float(one + 0.0) for key, one in scores.items()}
    except (TypeError, ValueError):
        raise ConfigError(
            f"reward {name} returned {value!r}; return a float, or a dict of floats"
        ) from None


def _arguments(fn: Any, data: Any, trace: NowcastTrace) -> dict[str, Any]:
    """What verifiers passes to a hook, by parameter name."""
    offered = {"task": data, "trace": trace}
    parameters = inspect.signature(fn).parameters
    runtime = parameters.get("runtime")
    if runtime is not None and runtime.default is inspect.Parameter.empty:
        raise ConfigError(f"reward {fn.__name__} needs a runtime, so it cannot be simulated")
    return {name: value for name, value in offered.items() if name in parameters}


def read(task: NowcastTask, reply: str) -> answers.Reply:
    """A reply's text in the store's unit, as the task reads it at the end of a rollout."""
    data = task.data
    return read_reply(reply.strip(), task.config.elicit, data.units, data.shown)


def record(silent: dict[str, Any], reply: answers.Reply) -> dict[str, Any]:
    """The record of a reply, from that of silence on the same task."""
    levels = (reply.quantiles or {}).values()
    return {
        **silent,
        "forecast": reply.point,
        "interval": list(reply.interval) if reply.interval else None,
        "quantiles": dict(zip(answers.NAMES, levels, strict=True)) if reply.quantiles else None,
        "reason": reply.reason,
    }


def check(task: NowcastTask, replies: Sequence[str]) -> None:
    """Hold the direct sum against `task.score`, reply by reply.

    Raises
    ------
    ConfigError
        If one differs (a reward then depends on more than task and reply), or scoring fails.
    """
    earn = earner([task])
    for reply in replies:
        (direct,) = earn([reply])
        trace = trace_of(task)
        trace.root_reply = reply
        try:
            asyncio.run(_finish(task, trace))
        except Exception as error:
            raise ConfigError(f"a rollout that ends in {reply!r} fails: {error}") from error
        if not math.isclose(direct, trace.reward, rel_tol=1e-9, abs_tol=1e-12):
            raise ConfigError(
                f"the reply {reply!r} earns {direct} here and {trace.reward} in a rollout: the "
                "reward depends on more than task and reply, so it cannot be simulated"
            )


async def _finish(task: NowcastTask, trace: Any) -> None:
    trace.info[INFO] = task.result(task.data, trace)
    await task.score(trace)
