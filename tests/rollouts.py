"""Scoring a reply as verifiers does, without a model: real tasks, real traces."""

from __future__ import annotations

import asyncio

import verifiers.v1 as vf

from nowcast_alfred.data import NowcastState, NowcastTrace
from nowcast_alfred.task import NowcastTask


def trace_of(task: NowcastTask, reply: str, lookups: int = 0) -> NowcastTrace:
    """The trace of a rollout that ended in a reply."""
    record = vf.TraceTask(type="NowcastTask", data=task.data, key=task.key, hash=task.hash)
    state = NowcastState(as_of=task.data.as_of, store=task.data.store, lookups=lookups)
    trace = vf.Trace(task=record, agent=vf.AgentInfo(config=vf.AgentConfig()), state=state)
    trace.root_reply = reply
    return trace


def score(task: NowcastTask, reply: str, lookups: int = 0) -> NowcastTrace:
    """Finalize and score a reply; the scored trace."""
    trace = trace_of(task, reply, lookups)

    async def end() -> None:
        await task.finalize(trace, None)  # type: ignore[arg-type]
        await task.score(trace)

    asyncio.run(end())
    return trace
