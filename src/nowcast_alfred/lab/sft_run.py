"""Warm-start data from a run: the conversations a model had, where they ended in a forecast.

One row a branch, as prime-rl's own export makes them, and only of rollouts that ended well: no
error, not cut short, a well-formed forecast. Every task of the run must be a training task of the
settings at hand, drawn from the store at hand; one that is not refuses the whole run, because then
the run was made for something else. A conversation in which the model read a series that is held
out, or of other rights than its target, is passed over. Each reply is scored again, and a reward
that comes out different refuses the run too.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from pydantic import ValidationError

from ..data import NowcastData, NowcastTrace
from ..errors import InputError, NowcastError
from ..opaque import agent_view, as_shown
from ..periods import to_days
from ..stream import Stream
from ..task import NowcastTask
from ..taskset import NowcastTaskset
from .direct import trace_of
from .sft import Split, replay, require_training, tool_definition
from .sft_dialogue import Message
from .sft_rows import Export, Row, describe, listed, row_of
from .traces import TRACES

SEARCH = "catalog_search"
CLOSE = 1e-9
"""How far a replayed reward may lie from the recorded one."""


def from_run(
    run: Path,
    taskset: NowcastTaskset,
    count: int | None = None,
    min_reward: float | None = None,
) -> Export:
    """The conversations of a run's good rollouts.

    Parameters
    ----------
    run
        A `vf-eval` run directory.
    taskset
        The settings that training uses.
    count
        The most rows to keep, in the order of the stream; None for all.
    min_reward
        Keep only rollouts whose reward is at least this.

    Raises
    ------
    InputError
        If there are no traces, a task is no training task of these settings or of another store,
        or a reply does not earn again what the run says it earned.
    ConfigError
        If the settings are not those of training through the tools.
    """
    require_training(taskset.config)
    stream = taskset.stream()
    split = Split(taskset.config, stream.space.store)
    passed: Counter[str] = Counter()
    found: list[tuple[int, str, Row]] = []
    for where, trace in _traces(run):
        if trace is None:
            passed["failed"] += 1
            continue
        task = _training_task(where, trace, taskset, stream, split)
        if why := _unfit(trace, min_reward):
            passed[why] += 1
            continue
        scored = _replayed(where, trace, task)
        model = trace.agent.config.model or "model"
        barred = _barred(task.data, split)
        tools = json.dumps(
            [tool_definition(tool.name, tool.description, tool.parameters) for tool in trace.tools]
        )
        for branch in trace.branches:
            if branch.trainable and branch.messages:
                messages = [_wire(message) for message in branch.messages]
                if _shown(messages) & barred:
                    passed["reads a series that is held out or of other rights"] += 1
                    continue
                row = row_of(task, scored, messages, tools, f"model:{model}")
                found.append((task.data.draw, _said(messages), row))
    rows: list[Row] = []
    said: set[tuple[str, str]] = set()
    for _, text, row in sorted(found, key=lambda item: item[:2]):
        if (row["task"], text) in said:
            passed["repeated"] += 1
        elif count is None or len(rows) < count:
            said.add((row["task"], text))
            rows.append(row)
    if not rows:
        raise InputError(f"{run}: no rollout is left (passed over: {listed(passed)})")
    return Export(rows, {"from": "run", **describe(rows, passed, taskset, stream)})


def _traces(run: Path) -> Iterator[tuple[str, Any]]:
    """Every trace of a run with its place; None for an episode that failed."""
    path = run / TRACES
    if not path.exists():
        raise InputError(f"{path} is missing: is {run} the directory of a vf-eval run?")
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                episode = vf.WireEpisode.model_validate_json(line)
            except ValidationError as error:
                first = error.errors()[0]
                place = ".".join(map(str, first["loc"]))
                raise InputError(
                    f"{path}, line {number}: not an episode ({place}: {first['msg']})"
                ) from None
            for trace in episode.traces if episode.ok else [None]:
                yield f"{path}, line {number}", trace


def _training_task(
    where: str, trace: Any, taskset: NowcastTaskset, stream: Stream, split: Split
) -> NowcastTask:
    """The task of a trace, if it is one of these settings' training tasks."""
    try:
        data = NowcastData.model_validate(trace.task.data.model_dump())
    except ValidationError:
        raise InputError(f"{where}: {trace.task.key} is no task of nowcast-alfred") from None
    store = stream.space.store
    if data.store != store.fingerprint:
        raise InputError(
            f"{where}: {data.id} was drawn from version {data.store[:12]} of a store, and "
            f"{store.shown} is at {store.fingerprint[:12]}; open the run's store and version"
        )
    targets = stream.space.series.get(data.series_id)
    period, day = to_days(data.reference_period), to_days(data.as_of)
    at = [] if targets is None else (targets.period == period).nonzero()[0].tolist()
    if targets is None or not at or not targets.low[at[0]] <= day <= targets.high[at[0]]:
        fault: str | None = "these settings never draw it"
    else:
        released = store.outcome(data.series_id, data.reference_period, data.transform)
        fault = split.fault(data, released.first_vintage)
    if fault is not None:
        raise InputError(
            f"{where}: {data.id} is no training task ({fault}). Use a run of the training split, "
            "with --config naming the settings that training uses"
        )
    return NowcastTask(data, taskset.config.task)


def _unfit(trace: Any, min_reward: float | None) -> str | None:
    """Why a rollout is not worth learning from; None if it is."""
    if not trace.ok or trace.errors or not trace.agent.trainable:
        return "failed"
    if trace.is_truncated:
        return "cut short"
    if trace.metrics.get("parsed") != 1.0:
        return "no forecast"
    if min_reward is not None and trace.reward < min_reward:
        return "below min_reward"
    return None


def _barred(data: NowcastData, split: Split) -> set[str]:
    """The series, as the agent was shown them, whose values may not stand in a task's row."""
    view = split.store.view(data.as_of)
    seen, fit = agent_view(view, data.opaque), split.beside(data.series_id)
    return {as_shown(seen, meta.id, 0)[0] for meta in view.series() if not fit(meta.id)}


def _shown(messages: list[Message]) -> set[str]:
    """What the answers of the tools begin a line with: each series whose values they give, and
    much else. A search gives no values."""
    return {
        line.partition(" ")[0]
        for message in messages
        if message["role"] == "tool" and message["name"] != SEARCH
        for line in message["content"].splitlines()
    }


def _replayed(where: str, trace: Any, task: NowcastTask) -> NowcastTrace:
    """The reply scored anew, with the run's weights, after a comparison score by score."""
    again = trace_of(task)
    try:
        asyncio.run(replay(task, again, trace.last_reply))
    except NowcastError as error:
        raise InputError(f"{where}: {error}; was another kind of reply elicited?") from None
    for name, held in trace.rewards.items():
        new = again.rewards.get(name)
        if held is not None and new is not None and abs(held.score - new.score) > CLOSE:
            raise InputError(
                f"{where}: {task.data.id} says {name} = {held.score}, and its reply earns "
                f"{new.score} with these settings and this version of nowcast-alfred"
            )
    again.rewards = trace.rewards
    return again


def _wire(message: Any) -> Message:
    """A message of a trace in OpenAI's form."""
    wire: Message = {"role": message.role, "content": _text(message.content)}
    if message.role == "tool":
        return {**wire, "tool_call_id": message.tool_call_id, "name": message.name}
    if message.role == "assistant":
        wire["reasoning_content"] = message.reasoning_content
        if message.tool_calls:
            wire["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in message.tool_calls
            ]
    return wire


def _text(content: Any) -> str:
    """The text of a message's content."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text for part in content if part.type == "text")


def _said(messages: list[Message]) -> str:
    """A conversation without the ids of its calls, which differ between equal ones."""
    calls = [[c["function"] for c in m.get("tool_calls") or []] for m in messages]
    return json.dumps([[m["content"], made] for m, made in zip(messages, calls, strict=True)])
