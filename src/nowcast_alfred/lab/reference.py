"""`docs/reference.md`, written from the code: settings, rewards and metrics, tools, commands.

Run `python -m nowcast_alfred.lab.reference docs/reference.md` (or `make docs`) after a change; a
test holds the file against what this module makes.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
import verifiers.v1 as vf
from pydantic import BaseModel

from ..cli import app
from ..rewards import Scored
from ..taskset import NowcastConfig
from ..tools import CatalogToolset

HEAD = """\
# Reference

Written by `make docs` from the code; a test fails when it is out of date.
"""


def reference() -> str:
    """The whole page."""
    parts = [HEAD, _settings(), _scores(), _tools(), _commands()]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _settings() -> str:
    lines = ["## Settings (`[env.taskset]`; `[taskset]` for vf-validate)", ""]
    lines += ["| setting | type | default | meaning |", "|---|---|---|---|"]
    inherited = set(vf.TasksetConfig.model_fields) - {"task"}
    for name, field in sorted(NowcastConfig.model_fields.items()):
        if name not in inherited:
            default = field.get_default(call_default_factory=True, validated_data={})
            shown = "" if isinstance(default, BaseModel) else f"`{default!r}`"
            meaning = " ".join((field.description or "").split())
            lines.append(f"| `{name}` | {_type(field.annotation)} | {shown} | {meaning} |")
    return "\n".join(lines)


def _type(annotation: Any) -> str:
    if typing.get_origin(annotation) is typing.Literal:
        return ", ".join(f"`{value}`" for value in typing.get_args(annotation))
    name = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    if typing.get_origin(annotation) is not None:
        name = str(annotation)
    for noise in ("typing.", "datetime.", "nowcast_alfred.", "data.", "tools."):
        name = name.replace(noise, "")
    if "Annotated[" in name or "Literal[" in name:
        name = name.split("[")[0]
    return f"`{name}`".replace("|", "\\|")


def _scores() -> str:
    lines = ["## Rewards and metrics", ""]
    lines += ["| name | kind | weight | meaning |", "|---|---|---|---|"]
    for kind in ("reward", "metric"):
        for method in _tagged(Scored, kind):
            weight = f"{getattr(method, '_vf_weight', 0.0):g}" if kind == "reward" else ""
            lines.append(f"| `{method.__name__}` | {kind} | {weight} | {_doc(method)} |")
    return "\n".join(lines)


def _tools() -> str:
    lines = ["## Tools", ""]
    for method in _tagged(CatalogToolset, "tool"):
        arguments = list(inspect.signature(method).parameters.values())[1:]
        shown = ", ".join(_argument(argument) for argument in arguments)
        lines += [f"### `catalog_{method.__name__}({shown})`", "", _doc(method), ""]
    return "\n".join(lines)


def _argument(argument: inspect.Parameter) -> str:
    empty = argument.default is inspect.Parameter.empty
    return argument.name if empty else f"{argument.name}={argument.default!r}"


def _tagged(owner: type, tag: str) -> Iterator[Callable[..., Any]]:
    for _, method in sorted(vars(owner).items()):
        if callable(method) and hasattr(method, tag):
            yield method


def _doc(method: Callable[..., Any]) -> str:
    return " ".join(inspect.cleandoc(method.__doc__ or "").split()).replace("|", "\\|")


def _commands() -> str:
    lines = ["## Commands", ""]
    for path, command in _walk(typer.main.get_command(app), ["nowcast-alfred"]):
        usage = [f"`{' '.join(path)}`: {' '.join((command.help or '').split())}", ""]
        usage += [f"- {_parameter(parameter)}" for parameter in command.params]
        lines += [*usage, ""]
    return "\n".join(lines)


def _walk(command: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name in sorted(children):
        yield from _walk(children[name], [*path, name])


def _parameter(parameter: Any) -> str:
    text = " ".join((parameter.help or "").split())
    if parameter.param_type_name == "option":
        return f"`{', '.join([*parameter.opts, *parameter.secondary_opts])}` {text}".rstrip()
    return f"`{parameter.name.upper()}` {text}".rstrip()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference())
