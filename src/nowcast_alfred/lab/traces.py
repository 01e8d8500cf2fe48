"""Reading a run: `traces.jsonl` of a `vf-eval` run directory, one record a rollout.

verifiers exits with 0 when every rollout failed, so whether a run went well is read from here. Only
what makes a record an episode is demanded; what a version of verifiers, or a rollout that failed
early, does not write is at its default.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError

TRACES = "traces.jsonl"
STAGES = ("boot", "setup", "agent", "finalize", "scoring")
"""The stages of a rollout in their order; its box lives through all of them."""
LIMITS = ("max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens")
"""Stop conditions by which verifiers cuts a conversation short."""
TOOL_ERRORS = ("error:", "Error executing tool")
"""How an answer that is none begins: from our tools and verifiers' harnesses, or as MCP says."""


@dataclass(frozen=True)
class Rollout:
    """One rollout of a run.

    `group` is what the rollouts of one task share. `stages` are seconds. `size` is the bytes of the
    record in the file. `tool_errors` are the first lines of those answers to tool calls that are an
    error. `runtime` is the box as verifiers recorded it.
    """

    ok: bool
    reward: float
    rewards: dict[str, float]
    metrics: dict[str, float]
    nowcast: dict[str, Any]
    task: dict[str, Any]
    errors: list[str] = field(default_factory=list)
    weights: dict[str, float] = field(default_factory=dict)
    group: str = ""
    stages: dict[str, float] = field(default_factory=dict)
    stop: str = ""
    truncated: bool = False
    tokens: tuple[int, int] = (0, 0)
    tool_calls: int = 0
    tool_errors: list[str] = field(default_factory=list)
    runtime: dict[str, Any] = field(default_factory=dict)
    size: int = 0
    model: str = ""


def read_run(folder: str | Path) -> list[Rollout]:
    """Every rollout of a run, failed ones included.

    Raises
    ------
    InputError
        If there are no traces, or a line is not an episode.
    """
    path = Path(folder) / TRACES
    if not path.exists():
        raise InputError(
            f"{path} is missing: give the folder of a vf-eval run, such as outputs/NAME, which "
            "holds a traces.jsonl and which vf-eval names as its output"
        )
    rollouts: list[Rollout] = []
    # Lines of bytes: `str.splitlines` would also cut at U+2028, which a reply may hold.
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                rollouts.extend(_rollouts(json.loads(line), len(line)))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise InputError(f"{path}, line {number}: not an episode ({error})") from None
    return rollouts


def _rollouts(episode: dict[str, Any], size: int) -> Iterator[Rollout]:
    traces = episode.get("traces") or []
    errors = [_message(error) for error in episode.get("errors") or []]
    given = (episode.get("group") or {}).get("id") or ""
    if not traces:
        task = episode.get("task") or {}
        yield Rollout(
            ok=False,
            reward=0.0,
            rewards={},
            metrics={},
            nowcast={},
            task={},
            errors=errors or ["the episode has no trace"],
            group=given or _identity(task),
            size=size,
        )
    for trace in traces:
        held = {name: r for name, r in trace["rewards"].items() if r is not None}
        calls, failed = _tools(trace)
        yield Rollout(
            ok=bool(trace["ok"]) and bool(episode.get("ok", True)),
            reward=sum(r["score"] * r["weight"] for r in held.values()),
            rewards={name: r["score"] for name, r in held.items()},
            metrics={name: m for name, m in trace["metrics"].items() if m is not None},
            nowcast=(trace.get("info") or {}).get("nowcast", {}),
            task=trace["task"],
            errors=errors + [_message(error) for error in trace.get("errors") or []],
            weights={name: r["weight"] for name, r in held.items()},
            group=given or _identity(trace["task"]),
            stages=_stages(trace.get("timing") or {}),
            stop=trace.get("stop_condition") or "",
            truncated=_truncated(trace),
            tokens=(trace.get("num_input_tokens") or 0, trace.get("num_output_tokens") or 0),
            tool_calls=calls,
            tool_errors=failed,
            runtime=(trace.get("agent") or {}).get("runtime") or {},
            size=size // len(traces),
            model=((trace.get("agent") or {}).get("config") or {}).get("model") or "",
        )


def _identity(task: dict[str, Any]) -> str:
    return str(task.get("key") or task.get("hash") or "")


def _stages(timing: dict[str, Any]) -> dict[str, float]:
    """Seconds of every stage that began and ended; verifiers marks one that did not with 0."""
    spans = {name: timing.get(name) or {} for name in STAGES}
    return {
        name: max(0.0, span["end"] - span["start"])
        for name, span in spans.items()
        if span.get("start") and span.get("end")
    }


def _truncated(trace: dict[str, Any]) -> bool:
    """Whether a limit ended the conversation or cut its last reply, as `Trace.is_truncated`."""
    if trace.get("stop_condition") in (*LIMITS, "compaction_failed"):
        return True
    calls = [call for call in trace.get("calls") or [] if call.get("error") is None]
    return bool(calls) and calls[-1].get("finish_reason") == "length"


def _tools(trace: dict[str, Any]) -> tuple[int, list[str]]:
    """How many tool calls were answered, and the first lines of the answers that are an error."""
    messages = [node.get("message") or {} for node in trace.get("nodes") or []]
    texts = [str(m.get("content") or "") for m in messages if m.get("role") == "tool"]
    return len(texts), [t.partition("\n")[0][:200] for t in texts if t.startswith(TOOL_ERRORS)]


def _message(error: dict[str, Any]) -> str:
    return f"{error.get('type', 'error')}: {error.get('message', '')}"
