"""What a run's TOML closes: the network, and the box that the agent's code runs in.

Read are vf-eval's form (`[env]`), vf-validate's (`[taskset]`, which runs no agent) and prime-rl's
(`[[orchestrator.train.source]]`, `[[orchestrator.eval.source]]`, `[[source]]`). Whether a harness
runs code and whether a runtime can close the network is asked of the installed verifiers; what it
does not know is taken to run code, and not to close.
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
TASKSET = "nowcast-alfred"


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
    settings: dict[str, Any]
    agents: list[Agent] | None
    uploads: bool = False


def read_sources(path: Path | None) -> list[Source]:
    """Every `nowcast-alfred` taskset of a run's TOML; without one, the default settings.

    Raises
    ------
    ConfigError
        If the file cannot be read or holds no such taskset.
    """
    if path is None:
        return [Source("", {}, None)]
    found = [
        source
        for source in _sources(read_toml(path))
        if source.settings.get("id", TASKSET).rsplit("/", 1)[-1].split("@")[0] == TASKSET
    ]
    if not found:
        raise ConfigError(
            f"{path} has no {TASKSET} taskset in [env.taskset], [taskset], "
            "[[orchestrator.train.source]], [[orchestrator.eval.source]] or [[source]]"
        )
    return found


def _sources(document: dict[str, Any]) -> Iterator[Source]:
    if "taskset" in document:
        yield Source("taskset", document["taskset"], None)
    if "env" in document:
        env = document["env"]
        yield Source("env", env.get("taskset", {}), agents_of(env), document.get("push", True))
    orchestrator = document.get("orchestrator", {})
    groups = {
        "train": orchestrator.get("train", {}).get("source", []),
        "eval": orchestrator.get("eval", {}).get("source", []),
        "source": document.get("source", []),
    }
    for group, sources in groups.items():
        for number, source in enumerate(sources):
            env = source.get("env", {})
            name = f"{group}: {source.get('name', number)}"
            yield Source(name, env.get("taskset", {}), agents_of(env))


def agents_of(env: dict[str, Any]) -> list[Agent]:
    """The seats of an `[env]` table; one with verifiers' defaults where none is named."""
    seats = [
        table
        for key, table in env.items()
        if isinstance(table, dict) and (key == "agent" or {"harness", "runtime"} & set(table))
    ]
    return [agent_of(seat.get("harness", {}), seat.get("runtime", {})) for seat in seats or [{}]]


def agent_of(harness: dict[str, Any], runtime: dict[str, Any]) -> Agent:
    """A seat from its two tables."""
    defaults = vf.AgentConfig()
    name = harness.get("id", vf.default_agent_harness(TASKSET).id)
    kind = runtime.get("type", defaults.runtime.type)
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
