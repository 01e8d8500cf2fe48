"""Reading a run: `traces.jsonl` of a `vf-eval` run directory, one record a rollout.

verifiers exits with 0 when every rollout failed, so whether a run went well is read from here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError

TRACES = "traces.jsonl"


@dataclass(frozen=True)
class Rollout:
    """One rollout of a run."""

    ok: bool
    reward: float
    rewards: dict[str, float]
    metrics: dict[str, float]
    nowcast: dict[str, Any]
    task: dict[str, Any]
    errors: list[str] = field(default_factory=list)


def read_run(folder: str | Path) -> list[Rollout]:
    """Every rollout of a run, failed ones included.

    Raises
    ------
    InputError
        If there are no traces, or a line is not an episode.
    """
    path = Path(folder) / TRACES
    if not path.exists():
        raise InputError(f"{path} is missing: is {folder} the directory of a vf-eval run?")
    rollouts: list[Rollout] = []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        try:
            rollouts.extend(_rollouts(json.loads(text)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path}, line {number}: not an episode ({error})") from None
    return rollouts


def _rollouts(episode: dict[str, Any]) -> Iterator[Rollout]:
    traces = episode.get("traces") or []
    errors = [_message(error) for error in episode.get("errors") or []]
    if not traces:
        yield Rollout(False, 0.0, {}, {}, {}, {}, errors or ["the episode has no trace"])
    for trace in traces:
        held = {name: r for name, r in trace["rewards"].items() if r is not None}
        yield Rollout(
            ok=bool(trace["ok"]) and bool(episode.get("ok", True)),
            reward=sum(r["score"] * r["weight"] for r in held.values()),
            rewards={name: r["score"] for name, r in held.items()},
            metrics={name: m for name, m in trace["metrics"].items() if m is not None},
            nowcast=(trace.get("info") or {}).get("nowcast", {}),
            task=trace["task"],
            errors=errors + [_message(error) for error in trace.get("errors") or []],
        )


def _message(error: dict[str, Any]) -> str:
    return f"{error.get('type', 'error')}: {error.get('message', '')}"
