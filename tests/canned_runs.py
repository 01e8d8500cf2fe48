"""Made-up run folders in the form that vf-eval writes, for what reads runs.

Only the parts that a reader looks at are written; test_readiness.py holds them against a record
that verifiers itself made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Episode = dict[str, Any]
STAGES = ("boot", "setup", "agent", "finalize", "scoring")


def beats_baseline(forecast: float | None, y: float = 0.0, naive: float = 1.0) -> float:
    """The default reward at a scale of 1."""
    return -1.0 if forecast is None else max(-1.0, min(1.0, abs(naive - y) - abs(forecast - y)))


def episode(
    group: str,
    forecast: float | None,
    *,
    reason: str = "no line starts with FORECAST:",
    rewards: dict[str, tuple[float, float]] | None = None,
    seconds: tuple[float, ...] = (1.0, 2.0, 30.0, 0.5, 0.5),
    stop: str = "agent_completed",
    finish: str = "stop",
    runtime: dict[str, Any] | None = None,
    tools: Iterable[str] = ("SYN | chg",),
    **more: Any,
) -> Episode:
    """One rollout of a group. `rewards` are (score, weight); `more` overrides fields of the
    trace."""
    earned = rewards or {"beats_baseline": (beats_baseline(forecast), 1.0)}
    parsed = float(forecast is not None)
    refused = "" if forecast is not None else reason
    at, timing = 100.0, {}
    for name, spent in zip(STAGES, seconds, strict=True):
        timing[name] = {"start": at, "end": at + spent}
        at += spent
    trace = {
        "task": {"type": "NowcastTask", "data": {}, "key": group, "hash": f"hash of {group}"},
        "agent": {"runtime": runtime or {"type": "subprocess"}},
        "nodes": [{"message": {"role": "tool", "content": text}} for text in tools],
        "calls": [{"finish_reason": finish}],
        "rewards": {name: {"score": s, "weight": w} for name, (s, w) in earned.items()},
        "metrics": {"parsed": parsed, "lookups": 1.0, "clipped": 0.0, "beyond": 0.0},
        "info": {"nowcast": {"forecast": forecast, "reason": refused}},
        "ok": True,
        "stop_condition": stop,
        "errors": [],
        "timing": {"start": 100.0, **timing},
    }
    return {"ok": True, "errors": [], "task": trace["task"], "traces": [{**trace, **more}]}


def failed(group: str, message: str = "no box") -> Episode:
    """A rollout that failed before it had a trace."""
    error = {"type": "SandboxError", "message": message}
    task = {"type": "NowcastTask", "data": {}, "key": group}
    return {"ok": False, "errors": [error], "task": task, "traces": []}


def write_run(folder: Path, episodes: Iterable[Episode]) -> Path:
    """A run folder with these episodes."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(each, ensure_ascii=False) + "\n" for each in episodes]
    (folder / "traces.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder
