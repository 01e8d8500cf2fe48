"""The canned policies: real requests, real tool calls, forecasts computed from what they read."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from nowcast_alfred import prompts, served
from nowcast_alfred.errors import ConfigError
from nowcast_alfred.lab.policy import KINDS, PolicyServer, answer, rule
from nowcast_alfred.locate import embedded_store, opened
from nowcast_alfred.periods import to_days

DAY = "2012-05-15"
CATALOG = ["catalog_observations", "catalog_search"]


def view():
    return opened(embedded_store()).view(DAY)


def prompt(context: str = "tools", series: str = "SYN_PAYROLL") -> dict[str, str]:
    units = view().meta(series).transform
    text = prompts.build(view(), series, to_days("2012-05-01"), units, context)
    return {"role": "user", "content": text}


def converse(kind: str, context: str, tools: list[str]) -> str:
    """The policy's last reply, its tool calls answered from the view."""
    messages: list[dict[str, Any]] = [prompt(context)]
    for _ in range(3):
        message = answer(rule(kind), messages, tools)
        if not message.get("tool_calls"):
            return str(message["content"])
        function = message["tool_calls"][0]["function"]
        arguments = json.loads(function["arguments"])
        if function["name"] == "bash":
            data = served.staged_files(view())[arguments["command"].split()[-1]]
        else:
            data = served.observations(view(), **arguments)
        messages += [message, {"role": "tool", "content": data}]
    raise AssertionError("the policy never replied")


@pytest.mark.parametrize(
    ("context", "tools"), [("tools", CATALOG), ("files", ["bash"]), ("prompt", [])]
)
def test_forecasts_come_from_the_data_whatever_the_context(context: str, tools: list[str]) -> None:
    known = view().observations("SYN_PAYROLL", units="chg").value
    last = converse("last-change", context, tools)
    mean = converse("mean-12", context, tools)
    assert float(last.split("FORECAST:")[1]) == pytest.approx(known[-1], rel=1e-6)
    assert float(mean.split("FORECAST:")[1]) == pytest.approx(known[-12:].mean(), rel=1e-6)


def test_every_policy_makes_a_real_call_before_it_replies() -> None:
    for kind in ("constant:200", *KINDS[1:]):
        assert answer(rule(kind), [prompt()], CATALOG)["tool_calls"]


def test_constant_silent_and_malformed_reply_as_named() -> None:
    assert converse("constant:-2.5", "tools", CATALOG).endswith("FORECAST: -2.5")
    assert "FORECAST" not in converse("silent", "tools", CATALOG)
    assert "FORECAST: about" in converse("malformed", "tools", CATALOG)


def test_without_data_there_is_no_forecast() -> None:
    assert "FORECAST" not in str(answer(rule("last-change"), [prompt()], [])["content"])
    stranger = [{"role": "user", "content": "Hello"}]
    assert "FORECAST" not in str(answer(rule("mean-12"), stranger, CATALOG)["content"])


@pytest.mark.parametrize("kind", ["constant:many", "oracle", ""])
def test_an_unknown_policy_is_an_error_that_lists_them(kind: str) -> None:
    with pytest.raises(ConfigError, match="constant:"):
        rule(kind)


def post(url: str, body: dict[str, Any]) -> str:
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request) as response:
        return str(response.read().decode())


def test_the_server_speaks_openai_streamed_and_whole() -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in CATALOG]
    body = {"model": "m", "messages": [prompt()], "tools": tools}
    with PolicyServer("last-change") as server:
        whole = json.loads(post(server.base_url, body))
        assert whole["choices"][0]["finish_reason"] == "tool_calls"
        lines = post(server.base_url, {**body, "stream": True}).strip().split("\n\n")
        assert lines[-1] == "data: [DONE]"
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
        assert chunks[0]["choices"][0]["delta"]["tool_calls"][0]["index"] == 0
        assert chunks[-1]["usage"]["total_tokens"] > 0
        with urllib.request.urlopen(f"{server.base_url}/models") as response:
            assert "canned/last-change" in response.read().decode()
