"""A reward as a plug-in: see plugin.toml, and docs/rewards.md for the rules it follows.

A plug-in is a coroutine function of `task` (the task's data), `trace` and `runtime`, by name and in
any number, that returns a float or a dict of floats.
"""

from __future__ import annotations

from nowcast_alfred import answers, rewards

FLOOR, MOST = -11.0, 10.0


async def huber(task, trace) -> float:
    """-(Huber loss in scales): squared within one scale, linear beyond, at least -10; -11 without
    a forecast."""
    reply = answers.parse(trace.last_reply, units=task.units)
    if reply.point is None:
        return FLOOR  # strictly below every answer
    record = trace.info.get(rewards.INFO)
    # The record is there in every rollout; `outcome` reads the store and serves elsewhere, too.
    y = record["first"] if record else rewards.outcome(task).first
    error = abs(reply.point - y) / task.scale
    loss = 0.5 * error * error if error <= 1.0 else error - 0.5
    return -min(loss, MOST)
