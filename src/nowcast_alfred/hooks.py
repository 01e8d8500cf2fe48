"""Rewards, metrics and stops as configured, checked when the taskset is built.

verifiers resolves plug-ins when a rollout is scored, so a mistake in a TOML would err in every
rollout of a run, which still ends with status 0. The same resolution is done here, once, and what
it finds is one `ConfigError` with the valid choices.
"""

from __future__ import annotations

import ast
import inspect
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

from .data import NowcastData, NowcastTaskConfig
from .errors import ConfigError
from .rewards import NEEDS
from .task import NowcastTask

KINDS = ("reward", "metric", "stop")
GIVEN = {"task", "trace", "runtime"}
"""What verifiers passes to a reward or a metric, by parameter name."""
FORMS = 'fn = "package.module:function" or "path/to/file.py:function"'


def check_scoring(config: NowcastTaskConfig) -> None:
    """Resolve every hook of a task's configuration as scoring will.

    Raises
    ------
    ConfigError
        If a plug-in cannot be imported, is no coroutine function or wants what nobody gives it; if
        a name without a plug-in is unknown; if a reward with a weight needs more than is elicited;
        if one of our own has a negative weight; or if no reward has a weight.
    """
    for kind in KINDS:
        known = sorted(fn.__name__ for fn in _hooks(NowcastTaskConfig(), kind))
        for name, entry in getattr(config, f"{kind}s").items():
            where = f"[env.taskset.task.{kind}s] {name}"
            if entry.fn is None and name not in known:
                raise ConfigError(
                    f"{where}: no {kind} of that name; one of {', '.join(known) or 'none'}, "
                    f"or give {FORMS}"
                )
            _check_function(_resolved(config, kind, name, where), kind, where)
    weights = {fn.__name__: getattr(fn, "_vf_weight", 1.0) for fn in _hooks(config, "reward")}
    plugged = {name for name, entry in config.rewards.items() if entry.fn is not None}
    for name, needed in NEEDS.items():
        if weights[name] != 0 and name not in plugged and config.elicit not in needed:
            raise ConfigError(
                f"reward {name} needs elicit = {' or '.join(map(repr, needed))}, and elicit is "
                f"{config.elicit!r}"
            )
    for name, weight in weights.items():
        if weight < 0 and name not in plugged:
            raise ConfigError(
                f"[env.taskset.task.rewards] {name}: weight = {weight:g} pays for the worse reply, "
                "since every built-in reward is higher when better; give 0 or more, or a plug-in "
                "(whose weight may have any sign)"
            )
    if not any(weights.values()) and not config.judges:
        raise ConfigError(
            f"no reward has a weight, so every rollout would earn 0; rewards: {', '.join(weights)}"
        )


def _hooks(config: NowcastTaskConfig, kind: str) -> list[Callable[..., Any]]:
    """The hooks of a kind as verifiers resolves them for a task."""

    def no_data() -> NowcastData:
        raise AssertionError("resolving hooks reads no data")

    return NowcastTask.lazy(no_data, config).hooks(kind)


def _resolved(config: NowcastTaskConfig, kind: str, name: str, where: str) -> Callable[..., Any]:
    """One configured hook, resolved apart from the others so that an error can name it."""
    entry = getattr(config, f"{kind}s")[name]
    alone = config.model_copy(update={f"{kind}s": {name: entry}})
    try:
        hooks = _hooks(alone, kind)
    except (Exception, SystemExit) as error:
        offered = _offered(entry.fn or "")
        choices = f"; its coroutine functions: {', '.join(offered)}" if offered else ""
        raise ConfigError(
            f"{where}: {type(error).__name__}: {error}; write {FORMS}{choices}"
        ) from error
    return next(fn for fn in hooks if fn.__name__ == name)


def _offered(path: str) -> list[str]:
    """The coroutine functions of the module a plug-in was looked for in, if there is one."""
    module, _, _ = path.rpartition(":" if ":" in path else ".")
    try:
        if module.endswith(".py"):
            body = ast.parse(Path(module).read_text()).body
            return [node.name for node in body if isinstance(node, ast.AsyncFunctionDef)]
        held = vars(sys.modules[module]).items()
        return [name for name, value in held if inspect.iscoroutinefunction(value)]
    except (OSError, SyntaxError, KeyError, ValueError):
        return []


def _check_function(fn: Callable[..., Any], kind: str, where: str) -> None:
    plain = inspect.unwrap(fn)
    if kind == "stop":
        _check_stop(plain, where)
        return
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


def _check_stop(plain: Callable[..., Any], where: str) -> None:
    """verifiers picks what a stop sees by the annotation of its parameter."""
    try:
        hints = typing.get_type_hints(plain)
    except Exception as error:
        raise ConfigError(f"{where}: its annotations cannot be read: {error}") from error
    seen = [hints.get(name) for name in inspect.signature(plain).parameters]
    turns = [kind for kind in seen if kind in (vf.Request, vf.Response)]
    traces = seen.count(vf.Trace)
    if (len(turns), traces) not in ((0, 1), (1, 0), (1, 1)):
        raise ConfigError(
            f"{where}: it needs one parameter annotated vf.Trace, vf.Request or vf.Response, as in "
            "async def stop(trace: vf.Trace) -> bool"
        )
