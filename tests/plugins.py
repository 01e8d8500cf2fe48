"""A metric and a reward as a user plugs them in from TOML."""

from __future__ import annotations


async def reply_length(trace) -> float:
    """Length of the last reply, in characters."""
    return float(len(trace.last_reply))


async def half(task) -> float:
    """A reward that is always one half."""
    return 0.5
