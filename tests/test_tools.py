"""The shared tool server, as a process, over MCP, with signed state as verifiers sends it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from nowcast_alfred.data import NowcastState
from nowcast_alfred.locate import embedded_store, opened
from nowcast_alfred.tools import REFUSED, CatalogToolsetConfig

SECRET = "a-secret"
TOOLS = {"observations", "search", "series", "revisions", "releases"}


class States(ThreadingHTTPServer):
    """The state channel of several rollouts, by route."""

    def __init__(self) -> None:
        self.held: dict[str, NowcastState] = {}
        super().__init__(("127.0.0.1", 0), StateHandler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/state"


class StateHandler(BaseHTTPRequestHandler):
    server: States

    def do_GET(self) -> None:
        self._send(self.server.held[self.headers["X-Verifiers-State-Route"]].model_dump_json())

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        route = self.headers["X-Verifiers-State-Route"]
        self.server.held[route] = NowcastState.model_validate_json(body)
        self._send("{}")

    def _send(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def states() -> Iterator[States]:
    with States() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running tool server's URL, started as verifiers starts it."""
    port_file = tmp_path_factory.mktemp("server") / "port"
    env = {
        **os.environ,
        "VF_CONFIG": CatalogToolsetConfig(store=embedded_store()).model_dump_json(),
        "VF_STATE_URL": "",
        "VF_STATE_SECRET": SECRET,
        "MCP_PORT_FILE": str(port_file),
    }
    with subprocess.Popen([sys.executable, "-m", "nowcast_alfred.tools"], env=env) as process:
        while not (port_file.exists() and listening(port_file.read_text())):
            assert process.poll() is None
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port_file.read_text()}/mcp"
        process.terminate()


def listening(port: str) -> bool:
    """Whether the server has bound its port and takes connections (it names the port first)."""
    with socket.socket() as probe:
        return bool(port) and probe.connect_ex(("127.0.0.1", int(port))) == 0


def signed(server: str, states: States, route: str) -> str:
    """The tool URL of one rollout."""
    from verifiers.v1.mcp.server import state_signature

    mark = state_signature(SECRET, states.url, route)
    query = {"vf_state_url": states.url, "vf_state_route": route, "vf_state_signature": mark}
    return f"{server}?{urlencode(query)}"


def call(url: str, tool: str, **arguments: object) -> str:
    """One tool call; the text that a model would be given."""

    async def ask() -> str:
        async with Client(streamable_http_client(url)) as client:
            answer = await client.call_tool(tool, arguments)
            return "\n".join(part.text for part in answer.content)

    return asyncio.run(ask())


def test_five_tools_are_advertised_with_descriptions(server: str) -> None:
    async def listed() -> dict[str, str | None]:
        async with Client(streamable_http_client(server)) as client:
            return {tool.name: tool.description for tool in (await client.list_tools()).tools}

    found = asyncio.run(listed())
    assert set(found) == TOOLS
    assert all(found.values())


def test_each_rollout_gets_its_own_day(server: str, states: States) -> None:
    store = opened(embedded_store())
    for route, day in (("early", "2008-06-30"), ("late", "2016-06-30")):
        states.held[route] = NowcastState(as_of=day, store=store.fingerprint)
        said = call(
            signed(server, states, route), "observations", series_ids=["SYN_PAYROLL"], last=1
        )
        known = store.view(day).observations("SYN_PAYROLL")
        assert said.splitlines()[-1].endswith(f",{known.value[-1]:.8g}")
        assert states.held[route].lookups == 1


def test_every_tool_answers_and_counts_as_a_lookup(server: str, states: States) -> None:
    store = opened(embedded_store())
    states.held["all"] = NowcastState(as_of="2010-03-31", store=store.fingerprint)
    url = signed(server, states, "all")
    assert "SYN_PAYROLL" in call(url, "search", text="payroll")
    assert "frequency: monthly" in call(url, "series", series_id="SYN_PAYROLL")
    assert "vintage,value" in call(url, "revisions", series_id="SYN_PAYROLL")
    assert "days after the period ends" in call(url, "releases", series_id="SYN_PAYROLL")
    assert "date,value" in call(url, "observations", series_ids="SYN_PAYROLL", units="chg")
    assert call(url, "observations", series_ids="NOPE").startswith("error: no series 'NOPE'")
    assert states.held["all"].lookups == 6


def test_a_call_without_a_rollout_is_refused(server: str, states: States) -> None:
    assert call(server, "observations", series_ids="SYN_PAYROLL") == REFUSED
    states.held["unset"] = NowcastState()
    assert call(signed(server, states, "unset"), "search") == REFUSED


def test_forged_coordinates_are_refused(server: str, states: States) -> None:
    store = opened(embedded_store())
    states.held["mine"] = NowcastState(as_of="2010-03-31", store=store.fingerprint)
    states.held["other"] = NowcastState(as_of="2020-03-31", store=store.fingerprint)
    forged = signed(server, states, "mine").replace("route=mine", "route=other")
    answer = call(forged, "search")  # verifiers' own refusal; its words depend on the version
    assert answer.startswith("error:")
    assert "series match" not in answer
    assert states.held["other"].lookups == 0


def test_the_server_module_is_light_to_import_up_to_verifiers() -> None:
    code = "import sys, nowcast_alfred; print(sorted(set(sys.modules) & {'numpy', 'verifiers'}))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(said.stdout.replace("'", '"')) == []


def test_the_package_exports_one_taskset_lazily() -> None:
    import nowcast_alfred

    assert nowcast_alfred.__all__ == ["NowcastTaskset"]
    assert Path(str(nowcast_alfred.__file__)).name == "__init__.py"
    with pytest.raises(AttributeError, match="no attribute"):
        _ = nowcast_alfred.Nothing
