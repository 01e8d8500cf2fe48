"""A reward as a plug-in: see plugin.toml, and docs/rewards.md for the rules it follows.

A plug-in is a coroutine function of `task` (the task's data), `trace` and `runtime`, by name and in
any number, that returns a float or a dict of floats. The forecast comes from the record and not
from the text: the record is the same whatever a reply is asked to hold and however it is shown.
"""

from __future__ import annotations

from nowcast_alfred import rewards

FLOOR, MOST = -11.0, 10.0


async def huber(task, trace) -> float:
    """-(Huber loss in scales): squared within one scale, linear beyond, at least -10; -11 without
    a forecast."""
    record = trace.info[rewards.INFO]  # `finalize` writes it in every rollout
    if record["forecast"] is None:
        return FLOOR  # strictly below every answer
    error = abs(record["forecast"] - record["first"]) / task.scale
    loss = 0.5 * error * error if error <= 1.0 else error - 0.5
    return -min(loss, MOST)
