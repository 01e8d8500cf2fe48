"""Rollouts to read: the best and the worst of a run, and replies that were refused.

A run's conversations are far larger than its numbers, so they are not kept while a run is read:
the lines of the chosen rollouts are read again. What is shown is the way from the root of the
trace's graph to its last message.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from .report_page import details, escaped, paragraph, pre
from .report_parts import error_of
from .traces import TRACES, Rollout

SHOWN = 3
"""How many best and how many worst rollouts are shown, each of another task."""
LONGEST = {"user": 6000, "system": 3000, "assistant": 4000, "tool": 1500}
"""Most characters of a message that are shown, by who said it."""
MESSAGES = 24
"""Most messages of a conversation that are shown."""

Message = dict[str, Any]


def best_and_worst(rollouts: Sequence[Rollout]) -> tuple[list[int], list[int]]:
    """Places of the best and the worst rollouts by reward, then by error; one of each task.

    Refused replies are shown apart, so the worst are the worst forecasts, where there are any.
    """
    answered = [i for i, r in enumerate(rollouts) if r.ok and r.nowcast["forecast"] is not None]
    ranked = sorted(answered, key=lambda i: (-rollouts[i].reward, error_of(rollouts[i]), i))
    best = _of_other_tasks(rollouts, ranked)
    taken = {rollouts[i].group for i in best}
    rest = [i for i in reversed(ranked) if rollouts[i].group not in taken]
    return best, _of_other_tasks(rollouts, rest)


def _of_other_tasks(rollouts: Sequence[Rollout], ranked: Sequence[int]) -> list[int]:
    chosen: dict[str, int] = {}
    for i in ranked:
        chosen.setdefault(rollouts[i].group, i)
    return list(chosen.values())[:SHOWN]


def conversations(folder: str | Path, places: Collection[int]) -> dict[int, list[Message]]:
    """The messages of some rollouts of a run, by their place in what `read_run` gives."""
    found: dict[int, list[Message]] = {}
    at = 0
    with (Path(folder) / TRACES).open("rb") as lines:
        for line in lines:
            # An episode without a trace is one rollout, as in `read_run`.
            traces = json.loads(line).get("traces") or [{}]
            for trace in traces:
                if at in places:
                    found[at] = _messages(trace)
                at += 1
    return found


def _messages(trace: dict[str, Any]) -> list[Message]:
    nodes = trace.get("nodes") or []
    at = len(nodes) - 1 if nodes else None
    path: list[Message] = []
    while at is not None and len(path) < len(nodes):
        path.append(nodes[at].get("message") or {})
        at = nodes[at].get("parent")
    path.reverse()
    said = trace.get("root_reply")
    if said is not None and (not path or _text(path[-1]).strip() != said.strip()):
        path.append({"role": "assistant", "content": said})
    return path


def example(rollout: Rollout, messages: Sequence[Message]) -> str:
    """A rollout as a block to open: what was asked, called, answered and replied."""
    task, held = rollout.task["data"], rollout.nowcast
    name = task.get("name") or rollout.group
    forecast = held["forecast"]
    said = f"refused ({held['reason']})" if forecast is None else f"forecast {forecast:.6g}"
    head = (
        f"{name}: reward {rollout.reward:+.3f}, {said}, first release {held['first']:.6g}, "
        f"baseline {held['baseline']:.6g}, scale {held['scale']:.4g}"
    )
    left = len(messages) - MESSAGES
    if left > 0:  # the prompt, and how it ended
        messages = [*messages[:2], *messages[2 - MESSAGES :]]
    parts = [_message(message) for message in messages]
    if left > 0:
        parts.insert(2, paragraph(f"[{left} messages left out]"))
    return details(head, "".join(parts) or paragraph("The trace holds no message."))


def _message(message: Message) -> str:
    role = str(message.get("role") or "message")
    name = f" {message['name']}" if message.get("name") else ""
    parts = [f"<h3>{escaped(role + name)}</h3>\n"]
    for kind in ("reasoning_content", "content"):
        text = _text(message, kind)
        if text:
            parts.append(pre(text, LONGEST.get(role, LONGEST["assistant"])))
    for call in message.get("tool_calls") or []:
        called = call.get("function") or call
        parts.append(pre(f"{called.get('name')}({called.get('arguments')})", LONGEST["tool"]))
    return "".join(parts)


def _text(message: Message, kind: str = "content") -> str:
    """The text of a message; of parts, those that are text."""
    content = message.get(kind)
    if isinstance(content, list):
        return "\n".join(str(part["text"]) for part in content if part.get("type") == "text")
    return str(content or "")
