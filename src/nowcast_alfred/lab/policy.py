"""Canned policies behind an OpenAI-compatible server, for checking the plumbing without a model.

A canned policy behaves like an agent as far as the environment can tell: it reads the prompt, asks
for data (a catalog tool where there is one, `bash` where files are staged, else the tables of the
prompt), computes its forecast from the answer it got, and replies in the grammar. What it knows of
the task comes from the prompt alone, so a policy that cannot find the data says so and gives none.

Where the prompt asks for an interval or for quantiles, the numeric policies spread them around
their number as a normal law would, with the population standard deviation of the last 24 known
values.
"""

from __future__ import annotations

import json
import re
import statistics
import threading
import uuid
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from .. import answers
from .. import periods as p
from ..errors import ConfigError

KINDS = ("constant:NUMBER", "last-change", "mean-12", "silent", "malformed")

_SERIES = re.compile(r"^Series: (\S+) \(", re.MULTILINE)
_FREQUENCY = re.compile(r"^Period: .*\((\w+)(?:, starting \d{4}-\d\d-\d\d)?\)$", re.MULTILINE)
_UNITS = re.compile(r"units code (\w+)")
_NUMBER = r"-?[0-9.]+(?:e[+-]?\d+)?"
_ROW = re.compile(rf"^(\d{{4}}-\d\d-\d\d|-?\d+),({_NUMBER})(?:,({_NUMBER})?)?$", re.MULTILINE)

_QUANTILE = {level: statistics.NormalDist().inv_cdf(level) for level in answers.LEVELS}
Rule = Callable[[list[float]], float | str]
"""From the target's known values, oldest first, to the forecast, or to a reply without one."""
Agent = Callable[[list[dict[str, Any]], list[str]], dict[str, Any]]
"""From a conversation and the names of its tools to the assistant message that follows."""


def rule(kind: str) -> Rule:
    """The policy of a name.

    Raises
    ------
    ConfigError
        If there is no such policy.
    """
    name, _, argument = kind.partition(":")
    if name == "constant":
        try:
            value = float(argument)
        except ValueError:
            raise ConfigError(f"policy {kind!r}: write constant:200, with a number") from None
        return lambda known: value
    simple: dict[str, Rule] = {
        "last-change": lambda known: known[-1] if known else "I found no data.",
        "mean-12": lambda known: statistics.fmean(known[-12:]) if known else "I found no data.",
        "silent": lambda known: "I would rather not say.",
        "malformed": lambda known: "FORECAST: about 200K, give or take",
    }
    if kind not in simple:
        raise ConfigError(f"no policy {kind!r}; one of {', '.join(KINDS)}")
    return simple[kind]


def _reply(value: float, known: list[float], prompt: str) -> str:
    """A forecast in the grammar that the prompt asks for."""
    spread = statistics.pstdev(known[-24:]) if known else 0.0
    quantile = {level: f"{value + z * spread:.10g}" for level, z in _QUANTILE.items()}
    lines = ["From the values known on the date."]
    if answers.QUANTILES in prompt:
        pairs = zip(answers.NAMES, answers.LEVELS, strict=True)
        lines.append(
            f"{answers.QUANTILES} "
            + ", ".join(f"{name}={quantile[level]}" for name, level in pairs)
        )
    else:
        lines.append(f"{answers.MARKER} {value:.10g}")
        if answers.INTERVAL in prompt:
            lines.append(f"{answers.INTERVAL} {quantile[0.10]}, {quantile[0.90]}")
    return "\n".join(lines)


def answer(policy: Rule, messages: list[dict[str, Any]], tools: list[str]) -> dict[str, Any]:
    """The assistant message that follows a conversation: a tool call first, then the reply."""
    prompt = next((_text(m) for m in messages if m.get("role") == "user"), "")
    data = [_text(m) for m in messages if m.get("role") == "tool"]
    call = None if data else _call(prompt, tools)
    if call is not None:
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    known = _known(prompt, data)
    said = policy(known)
    content = said if isinstance(said, str) else _reply(said, known, prompt)
    return {"role": "assistant", "content": content}


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def _call(prompt: str, tools: list[str]) -> dict[str, Any] | None:
    """The call that fetches the target's history with the tools at hand, if any can."""
    series, units = _SERIES.search(prompt), _UNITS.search(prompt)
    if series is None or units is None:
        return None
    reader = next((name for name in tools if name.endswith("observations")), None)
    if reader is not None:
        arguments: dict[str, Any] = {"series_ids": series[1], "units": units[1], "last": 24}
    elif "bash" in tools:
        reader, arguments = "bash", {"command": f"cat catalog/{series[1]}.csv"}
    else:
        return None
    function = {"name": reader, "arguments": json.dumps(arguments)}
    return {"id": f"call_{uuid.uuid4().hex[:12]}", "type": "function", "function": function}


def _known(prompt: str, data: list[str]) -> list[float]:
    """The target's values in its own units, oldest first, from a tool's answer or the prompt."""
    series, units = _SERIES.search(prompt), _UNITS.search(prompt)
    period = _FREQUENCY.search(prompt)
    if series is None or units is None or period is None:
        return []
    code = p.check_units(units[1])
    source = data[-1] if data else prompt.partition(f"What is known of {series[1]}")[2]
    same = source.partition(f"The same as {code}:")[2]
    rows = _ROW.findall((same or source).partition("\n\n")[0])
    if same or code == "lin" or source.startswith(f"{series[1]} |"):
        return [float(value) for _, value, _ in rows]
    if f"value,{code}\n" in source:  # an opaque file
        return [float(value) for _, _, value in rows if value]
    frequency = next(f for f, name in p.FREQUENCY_NAMES.items() if name == period[1])
    days = np.array([p.to_days(day) for day, _, _ in rows], dtype=np.int32)
    numbers = np.array([float(value) for _, value, _ in rows])
    changed = p.transform(days, numbers, code, p.check_frequency(frequency))
    return [float(value) for value in changed[~np.isnan(changed)]]


class PolicyServer:
    """A canned policy served on a port, for use as a context manager.

    Parameters
    ----------
    kind
        One of `KINDS`, or an agent of your own.
    host, port
        Where to listen; port 0 takes a free one.

    Raises
    ------
    ConfigError
        If there is no such policy, or the port cannot be had.
    """

    def __init__(self, kind: str | Agent, host: str = "127.0.0.1", port: int = 0) -> None:
        self.kind = kind if isinstance(kind, str) else "agent"
        agent = partial(answer, rule(kind)) if isinstance(kind, str) else kind
        try:
            self._server = ThreadingHTTPServer((host, port), _handler(self.kind, agent))
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {host}:{port} ({error.strerror}); give another --port (0 takes "
                "a free one) or --host"
            ) from None
        self._server.daemon_threads = True
        self._server.request_queue_size = 256

    @property
    def base_url(self) -> str:
        """What a client takes as its base URL."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    def serve_forever(self) -> None:
        """Serve until interrupted."""
        self._server.serve_forever()

    def __enter__(self) -> PolicyServer:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(kind: str, agent: Agent) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send({"object": "list", "data": [{"id": f"canned/{kind}", "object": "model"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            if not self.path.endswith("/chat/completions"):
                self._send({"error": {"message": f"no route {self.path}"}}, status=404)
                return
            names = [tool["function"]["name"] for tool in body.get("tools") or []]
            message = agent(body["messages"], names)
            events = _completion(str(body.get("model")), message, bool(body.get("stream")))
            if body.get("stream"):
                lines = [f"data: {json.dumps(event)}\n\n" for event in events]
                self._reply("".join([*lines, "data: [DONE]\n\n"]), "text/event-stream")
            else:
                self._send(events[0])

        def _send(self, body: dict[str, Any], status: int = 200) -> None:
            self._reply(json.dumps(body), "application/json", status)

        def _reply(self, text: str, kind: str, status: int = 200) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet: a request is no news."""

    return Handler


def _completion(model: str, message: dict[str, Any], stream: bool) -> list[dict[str, Any]]:
    """A message as one completion, or as the chunks of a stream."""
    head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": 0, "model": model}
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    if not stream:
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return [{**head, "object": "chat.completion", "choices": [choice], "usage": usage}]
    calls = [{"index": i, **call} for i, call in enumerate(message.get("tool_calls") or [])]
    delta = {**message, "tool_calls": calls} if calls else message
    head["object"] = "chat.completion.chunk"
    return [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**head, "choices": [], "usage": usage},
    ]
