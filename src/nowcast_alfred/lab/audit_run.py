"""What a run's TOML closes: the network, and the box that the agent's code runs in.

Read are vf-eval's form (`[env]`), vf-validate's (`[taskset]`, which runs no agent) and prime-rl's
(`[[orchestrator.train.source]]`, `[[orchestrator.eval.source]]`, `[[source]]`). Whether a harness
runs code and whether a runtime can close the network is asked of the installed verifiers; what it
does not know is taken to run code, and not to close. A taskset's id is read as verifiers reads it.
Tasksets of other packages are skipped, and the audit of ours names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

from .. import task
from ..errors import ConfigError
from ..taskset import NowcastTaskset
from .audit_case import Finding
from .sampling import read_toml

EGRESS = "egress"
BOX = "the box that the agent's code runs in"
OTHERS = "other tasksets of the run"
TASKSET = "nowcast-alfred"
WHERE = (
    "[env.taskset], [taskset], [[orchestrator.train.source]], [[orchestrator.eval.source]] or "
    "[[source]]"
)
SEAT = 'a seat has the tables harness and runtime, as in harness = { id = "bash" }'

Table = dict[str, Any]


@dataclass(frozen=True)
class Agent:
    """A seat of a run: its harness and runtime by name, and what verifiers says of them."""

    harness: str
    runtime: str
    runs_code: bool
    can_close: bool

    @property
    def text(self) -> str:
        """The seat in a few words."""
        return f"{self.harness} harness on the {self.runtime} runtime"


@dataclass(frozen=True)
class Source:
    """One taskset of a run and the agents it is given to; None where no run is known."""

    name: str
    settings: Table
    agents: list[Agent] | None
    uploads: bool = False


@dataclass(frozen=True)
class Sources:
    """The tasksets of a run: ours, and a line for each of another package."""

    own: list[Source]
    skipped: list[str]


def read_sources(path: Path | None) -> Sources:
    """Every taskset of a run's TOML, ours apart from others; without one, the default settings.

    Raises
    ------
    ConfigError
        If the file cannot be read, has something else where a table belongs, or holds no taskset
        of ours.
    """
    if path is None:
        return Sources([Source("", {}, None)], [])
    own: list[Source] = []
    skipped: list[str] = []
    for name, where, settings, env, uploads in _tables(read_toml(path), str(path)):
        ident = text_in(settings, "id", where, TASKSET, "a taskset is named by text")
        if module_of(ident) == module_of(TASKSET):
            agents = None if env is None else agents_of(env, where.removesuffix(".taskset"))
            own.append(Source(name, settings, agents, uploads))
        else:
            skipped.append(f"{name} ({ident})")
    if not own:
        others = f"; skipped: {', '.join(skipped)}" if skipped else ""
        raise ConfigError(f"{path} has no {TASKSET} taskset in {WHERE}{others}")
    return Sources(own, skipped)


def module_of(ident: str) -> str:
    """The module that verifiers imports for an id: `owner/name@version` without its ends.

    >>> module_of("me/Nowcast-Alfred@1.0")
    'nowcast_alfred'
    """
    return ident.rsplit("/", 1)[-1].split("@", 1)[0].replace("-", "_").lower()


def _tables(document: Table, path: str) -> Iterator[tuple[str, str, Table, Table | None, bool]]:
    """Of every taskset: name, place in the file, its table, its `[env]`, whether traces go up."""
    if "taskset" in document:
        found = table_in(document, "taskset", path, "it is a table with the taskset's settings")
        yield "taskset", f"{path}: taskset", found, None, False
    if "env" in document:
        env = table_in(document, "env", path, "it is a table with taskset and agent")
        yield "env", *_taskset(env, f"{path}: env"), env, bool(document.get("push", True))
    orchestrator = table_in(document, "orchestrator", path, "it is prime-rl's table")
    for group, holder in (("train", orchestrator), ("eval", orchestrator), ("source", document)):
        where = f"{path}: source" if group == "source" else f"{path}: orchestrator.{group}.source"
        if group != "source":
            holder = table_in(holder, group, f"{path}: orchestrator", "it is prime-rl's table")
        sources = holder.get("source", [])
        if not isinstance(sources, list) or not all(isinstance(one, dict) for one in sources):
            raise ConfigError(f"{where} is no list of tables; begin each source with [[...]]")
        for number, source in enumerate(sources):
            place = f"{where}[{number}]"
            env = table_in(source, "env", place, "it is a table with taskset and agent")
            name = f"{group}: {source.get('name', number)}"
            yield name, *_taskset(env, f"{place}.env"), env, False


def _taskset(env: Table, where: str) -> tuple[str, Table]:
    found = table_in(env, "taskset", where, f'it is a table, as in {{ id = "{TASKSET}" }}')
    return f"{where}.taskset", found


def table_in(parent: Table, key: str, where: str, expected: str) -> Table:
    """A table within a table, empty where there is none; `ConfigError` where it is no table."""
    found = parent.get(key, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: {key} = {found!r} is no table; {expected}")
    return found


def text_in(parent: Table, key: str, where: str, default: str, expected: str) -> str:
    """A text within a table; `ConfigError` where it is none."""
    found = parent.get(key, default)
    if not isinstance(found, str):
        raise ConfigError(f"{where}: {key} = {found!r} is no text; {expected}")
    return found


def agents_of(env: Table, where: str) -> list[Agent]:
    """The seats of an `[env]` table; one with verifiers' defaults where none is named.

    Raises
    ------
    ConfigError
        If a seat, its harness or its runtime is no table.
    """
    table_in(env, "agent", where, SEAT)
    seats = {
        key: table
        for key, table in env.items()
        if isinstance(table, dict) and (key == "agent" or {"harness", "runtime"} & set(table))
    }
    return [agent_of(seat, f"{where}.{key}") for key, seat in (seats or {"agent": {}}).items()]


def agent_of(seat: Table, where: str) -> Agent:
    """A seat from its table."""
    harness = table_in(seat, "harness", where, SEAT)
    runtime = table_in(seat, "runtime", where, SEAT)
    defaults = vf.AgentConfig()
    usual = vf.default_agent_harness(TASKSET).id
    name = text_in(harness, "id", f"{where}.harness", usual, "a harness is named by text")
    usual = defaults.runtime.type
    kind = text_in(runtime, "type", f"{where}.runtime", usual, "a runtime is named by text")
    try:
        config = vf.AgentConfig.model_validate({"harness": {"id": name}}).harness
        runs_code = vf.load_harness(config).EXECUTES_CODE
    except Exception:  # a harness that is not installed here, or that another version has
        runs_code = True
    try:
        held = vf.AgentConfig.model_validate({"runtime": {"type": kind}}).runtime
        # Not exported by 0.4.0: the base of the runtimes that can enforce a policy.
        can_close = "NetworkPolicyConfig" in {base.__name__ for base in type(held).__mro__}
    except ValueError:
        can_close = False
    return Agent(name, kind, runs_code, can_close)


def others(skipped: list[str]) -> Finding:
    """The tasksets of a run that are not looked at."""
    return Finding(
        OTHERS,
        "not checked",
        f"tasksets whose id is not {TASKSET}",
        {"skipped": skipped},
        f"skipped: {', '.join(skipped)}; check them by what their own packages offer",
    )


def network(taskset: NowcastTaskset, agents: list[Agent] | None) -> Finding:
    """Whether tasks ask for no network in the field that the installed verifiers has."""
    asked = task.closed_network(True)
    data = vf.TaskData(idx=0, prompt="", **asked)
    taken = task.is_closed(data)
    closed = taskset.config.closed_egress
    coders = [agent for agent in agents or [] if agent.runs_code]
    evidence: dict[str, Any] = {
        "verifiers": version("verifiers"),
        "field": ", ".join(asked),
        "closed_egress": closed,
    }
    checked = "whether the network policy of a task is in a field that verifiers reads"
    if closed and not taken:
        evidence["first"] = f"TaskData drops {', '.join(asked)}"
        advice = "use a version of verifiers that this package supports"
        return Finding(EGRESS, "open", checked, evidence, advice)
    if closed:
        return Finding(EGRESS, "closed", checked, evidence)
    if coders:
        evidence["first"] = f"closed_egress = false with the {coders[0].text}"
        advice = "set closed_egress = true and a runtime that enforces it (docker, prime)"
        return Finding(EGRESS, "open", checked, evidence, advice)
    if agents is None:
        evidence["why"] = "closed_egress = false, and no agent is named"
        return Finding(EGRESS, "not checked", checked, evidence, "give the run's TOML: --config")
    evidence["why"] = "nothing in the rollout runs code"
    return Finding(EGRESS, "closed", checked, evidence)


def box(source: Source) -> Finding:
    """Whether the agents' code, if they run any, is kept from the host and its store."""
    checked = "the harness and the runtime of each agent"
    if source.agents is None:
        why = "no agent is named" if source.settings else "no config is given"
        return Finding(BOX, "not checked", checked, {"why": why}, "give the run's TOML: --config")
    evidence: dict[str, Any] = {"agents": [agent.text for agent in source.agents]}
    if source.uploads:
        evidence["note"] = "push is not false: vf-eval uploads traces, which hold outcomes"
    coders = [agent for agent in source.agents if agent.runs_code]
    on_host = [agent for agent in coders if agent.runtime == "subprocess"]
    unknown = [agent for agent in coders if not agent.can_close]
    if on_host:
        evidence["first"] = f"{on_host[0].text}: the box is the host, with its store and network"
        advice = "use docker or prime, or the null harness, which runs no code"
        return Finding(BOX, "open", checked, evidence, advice)
    if unknown:
        evidence["why"] = f"the {unknown[0].runtime} runtime is not known to enforce a policy"
        return Finding(BOX, "not checked", checked, evidence, "use docker or prime")
    evidence["why"] = (
        "a container without the store"
        if coders
        else "no harness runs code: tools are all there is"
    )
    return Finding(BOX, "closed", checked, evidence)
