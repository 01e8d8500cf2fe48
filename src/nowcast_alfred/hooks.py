"""Rewards, metrics and stops as configured, checked when the taskset is built.

verifiers resolves plug-ins when a rollout is scored, so a mistake in a TOML would err in every
rollout of a run, which still ends with status 0. The same resolution is done here, once, and what
it finds is one `ConfigError` with the valid choices.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .data import NowcastData, NowcastTaskConfig
from .errors import ConfigError
from .rewards import NEEDS, Scored
from .task import NowcastTask

KINDS = ("reward", "metric", "stop")
GIVEN = {"task", "trace", "runtime"}
"""What verifiers passes to a reward or a metric, by parameter name."""


def check_scoring(config: NowcastTaskConfig) -> None:
    """Resolve every hook of a task's configuration as scoring will.

    Raises
    ------
    ConfigError
        If a plug-in cannot be imported, is no coroutine function or wants what nobody gives it; if
        a name without a plug-in is unknown; if a reward with a weight needs more than is elicited;
        or if no reward has a weight.
    """
    for kind in KINDS:
        table = f"[env.taskset.task.{kind}s]"
        known = sorted(name for name, fn in vars(Scored).items() if hasattr(fn, kind))
        for name, entry in getattr(config, f"{kind}s").items():
            if entry.fn is None and name not in known:
                raise ConfigError(
                    f"{table} {name}: no {kind} of that name; one of {', '.join(known) or 'none'}, "
                    'or give fn = "package.module:function"'
                )
    weights = {fn.__name__: getattr(fn, "_vf_weight", 1.0) for fn in _hooks(config, "reward")}
    for kind in KINDS[:2]:
        for fn in _hooks(config, kind):
            _check_function(fn, f"[env.taskset.task.{kind}s] {fn.__name__}")
    plugged = {name for name, entry in config.rewards.items() if entry.fn is not None}
    for name, needed in NEEDS.items():
        if weights[name] != 0 and name not in plugged and config.elicit not in needed:
            raise ConfigError(
                f"reward {name} needs elicit = {' or '.join(map(repr, needed))}, and elicit is "
                f"{config.elicit!r}"
            )
    _hooks(config, "stop")
    if not any(weights.values()) and not config.judges:
        raise ConfigError(
            f"no reward has a weight, so every rollout would earn 0; rewards: {', '.join(weights)}"
        )


def _hooks(config: NowcastTaskConfig, kind: str) -> list[Callable[..., Any]]:
    """The hooks of a kind as verifiers resolves them for a task."""

    def no_data() -> NowcastData:
        raise AssertionError("resolving hooks reads no data")

    task = NowcastTask.lazy(no_data, config)
    try:
        return task.hooks(kind)
    except Exception as error:
        raise ConfigError(f"[env.taskset.task.{kind}s]: {error}") from error


def _check_function(fn: Callable[..., Any], where: str) -> None:
    plain = inspect.unwrap(fn)
    if not inspect.iscoroutinefunction(plain):
        raise ConfigError(f"{where}: it is not a coroutine function; write it with async def")
    for parameter in inspect.signature(plain).parameters.values():
        required = parameter.default is inspect.Parameter.empty
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if required and not variadic and parameter.name not in GIVEN | {"self"}:
            raise ConfigError(
                f"{where}: parameter {parameter.name!r} is not given; use any of "
                f"{', '.join(sorted(GIVEN))}"
            )
