"""Canned agents that run bash commands in a row and then reply, for `lab.policy.PolicyServer`.

What an agent answers depends on the conversation alone, so one server serves many rollouts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Barrier
from typing import Any

from nowcast_alfred.lab.policy import Agent

PATIENCE = 300.0
"""Seconds that rollouts wait for each other."""


def scripted(
    commands: Callable[[str], list[str]],
    closing: Callable[[str, list[str]], str],
    meet: Barrier | None = None,
) -> Agent:
    """An agent that runs commands one by one and then replies.

    Parameters
    ----------
    commands
        From the prompt to the commands.
    closing
        From the prompt and what the commands printed to the last reply.
    meet
        Where rollouts wait for each other, at the beginning and before the end, so that each
        lives while the others try.
    """

    def agent(messages: list[dict[str, Any]], tools: list[str]) -> dict[str, Any]:
        prompt = next(_text(m) for m in messages if m["role"] == "user")
        outputs = [_text(m) for m in messages if m["role"] == "tool"]
        script, done = commands(prompt), len(outputs)
        if meet is not None and done in (0, len(script)):
            meet.wait(PATIENCE)
        if done == len(script):
            return {"role": "assistant", "content": closing(prompt, outputs)}
        arguments = json.dumps({"command": script[done]})
        function = {"name": "bash", "arguments": arguments}
        call = {"id": f"call_{done}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    return agent


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)
