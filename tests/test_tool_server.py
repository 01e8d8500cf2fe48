"""One tool server and many rollouts: each is answered for its own day, whatever the others do.

First in this process, through verifiers' own state channel and MCP's server, with every call held
until all have brought their state; then as the process that verifiers starts, over HTTP, which is
also sent what is no MCP at all.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.server.mcpserver import MCPServer
from verifiers.v1.mcp import server as channel

from crowd import OTHER, OWN, Call, Rollout, call_number, rollouts
from nowcast_alfred import tools
from nowcast_alfred.data import NowcastState
from nowcast_alfred.locate import opened
from nowcast_alfred.opaque import agent_view
from nowcast_alfred.periods import UNITS
from nowcast_alfred.store import AsOfView
from nowcast_alfred.tools import CatalogToolset, CatalogToolsetConfig
from test_tool_hardening import offered, published, text_of
from test_tools import listening

SECRET = "a-secret"
ROLLOUTS = 512
SOURCES = Path(tools.__file__).parent
Asked = list[tuple[Rollout, Call]]
pytestmark = pytest.mark.filterwarnings("ignore:The 'initial' parameter:DeprecationWarning")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    return published(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def crowd(place: str) -> list[Rollout]:
    return rollouts(opened(place), ROLLOUTS)


def coordinates(url: str, rollout: Rollout) -> dict[str, str]:
    """What verifiers adds to a rollout's tool URL."""
    return {
        channel.STATE_URL_PARAM: url,
        channel.STATE_ROUTE_PARAM: rollout.route,
        channel.STATE_SIGNATURE_PARAM: channel.state_signature(SECRET, url, rollout.route),
    }


def wrong(asked: Asked, answers: list[str]) -> list[Any]:
    """The calls whose answer is not the one for their own rollout."""
    pairs = zip(asked, answers, strict=True)
    return [(r.route, call, said) for (r, call), said in pairs if said != r.right(call)]


# --- In this process, each call held until all have brought their state


URL = "http://state.invalid/state"


class Held:
    """The state channel's client: answers no request before a whole crowd is waiting."""

    def __init__(self, crowd: list[Rollout], calls: int, seed: int) -> None:
        self.states = {each.route: each.state.model_dump_json().encode() for each in crowd}
        self.lookups = 0
        self.pulls = 0
        self.most = 0
        self._inside = 0
        self._calls, self._all_there = calls, asyncio.Event()
        self._order = random.Random(seed)

    async def request(
        self, method: str, url: str, content: bytes | None = None, headers: Any = None
    ) -> Any:
        """One pull or push of a rollout's state."""
        self._inside += 1
        self.most = max(self.most, self._inside)
        if method == "GET":
            self.pulls += 1
            if self.pulls == self._calls:
                self._all_there.set()
            await self._all_there.wait()
        for _ in range(self._order.randrange(4)):
            await asyncio.sleep(0)
        self.lookups += method == "PUT"
        self._inside -= 1
        held = self.states[headers["X-Verifiers-State-Route"]]
        return SimpleNamespace(content=held, raise_for_status=lambda: None)


def told(
    toolset: type[CatalogToolset], uri: str, asked: Asked, seed: int = 0, at_once: int = 0
) -> tuple[list[str], Held]:
    """What each rollout is told when all its calls and all others' are in flight.

    All of them are worked on at one time, unless the server may have only so many `at_once`.
    """
    crowd = list({rollout.route: rollout for rollout, _ in asked}.values())
    at_once = at_once or len(asked)

    async def one(mcp: MCPServer, rollout: Rollout, call: Call) -> str:
        # A task has a context of its own, as a request has in the server.
        channel._request_query_params.set({k: [v] for k, v in coordinates(URL, rollout).items()})
        return text_of(await mcp.call_tool(*rollout.asks(call)))

    async def all_of_them() -> tuple[list[str], Held]:
        server = toolset(CatalogToolsetConfig(store=uri))
        client = Held(crowd, at_once, seed)
        server._state_client = client
        mcp = offered(server)
        answers = await asyncio.gather(*(one(mcp, rollout, call) for rollout, call in asked))
        assert client.pulls == len(asked)
        assert client.most == at_once
        return answers, client

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VF_STATE_SECRET", SECRET)
        patch.delenv("VF_STATE_URL", raising=False)
        patch.setattr(tools, "AT_ONCE", at_once)
        return asyncio.run(all_of_them())


def test_ten_thousand_calls_in_flight_are_all_answered_for_their_own_day(
    place: str, crowd: list[Rollout]
) -> None:
    asked = [(crowd[n % ROLLOUTS], call_number(n)) for n in range(10_000)]
    answers, client = told(CatalogToolset, place, asked)
    assert wrong(asked, answers) == []
    assert client.lookups == 10_000


def test_calls_beyond_those_worked_on_wait_their_turn(place: str, crowd: list[Rollout]) -> None:
    asked = [(rollout, call_number(n)) for n, rollout in enumerate(crowd)]
    answers, client = told(CatalogToolset, place, asked, at_once=7)
    assert wrong(asked, answers) == []
    assert client.most == 7


IDS = st.one_of(st.sampled_from([OWN, OTHER, "EMP", "NOPE"]), st.text(max_size=8))
COUNTS = st.one_of(st.integers(-2, 300), st.just("7"), st.just(float("nan")))
PERIODS = st.one_of(st.none(), st.sampled_from(["2013-03-01", "-3", "2014-13-01", "\0"]))
CHOSEN = st.one_of(
    st.tuples(
        st.just("observations"),
        st.fixed_dictionaries(
            {"series_ids": st.one_of(IDS, st.lists(IDS, max_size=4))},
            optional={
                "units": st.sampled_from([*UNITS, "LIN"]),
                "start": PERIODS,
                "end": PERIODS,
                "last": COUNTS,
            },
        ),
    ),
    st.tuples(
        st.just("search"),
        st.fixed_dictionaries(
            {}, optional={"text": st.text(max_size=8), "limit": COUNTS, "skip": COUNTS}
        ),
    ),
    st.tuples(st.just("series"), st.fixed_dictionaries({"series_id": IDS})),
    st.tuples(
        st.just("revisions"),
        st.fixed_dictionaries({"series_id": IDS}, optional={"period": PERIODS}),
    ),
    st.tuples(
        st.just("releases"), st.fixed_dictionaries({"series_id": IDS}, optional={"last": COUNTS})
    ),
)


@given(calls=st.lists(CHOSEN, min_size=1, max_size=12), step=st.integers(1, 11), seed=st.integers())
@settings(max_examples=12, deadline=None)
def test_no_answer_belongs_to_another_of_512_rollouts(
    place: str, crowd: list[Rollout], calls: list[Call], step: int, seed: int
) -> None:
    asked = [(rollout, calls[n * step % len(calls)]) for n, rollout in enumerate(crowd)]
    answers, _ = told(CatalogToolset, place, asked, seed)
    assert wrong(asked, answers) == []


def test_the_answers_of_the_crowd_differ(crowd: list[Rollout]) -> None:
    """Else a server that mixed rollouts up could not be told from one that does not."""
    asked: Call = ("observations", {"series_ids": [OWN, OTHER], "last": 12})
    answers = [rollout.right(asked) for rollout in crowd]
    assert len(set(answers)) > 0.7 * len(crowd)
    same: Call = ("observations", {"series_ids": ["EMP", "CLAIMS"], "last": 3})
    plain = [rollout for rollout in crowd if not rollout.state.opaque]
    days = {rollout.state.as_of for rollout in plain}
    assert len({rollout.right(same) for rollout in plain}) > len(days) / 3


class LastView(CatalogToolset):
    """The fault that is looked for: a view is kept, and answers for whoever comes next."""

    def _answer(self, read: Callable[[AsOfView], str]) -> str:
        if not hasattr(self, "kept"):
            store = opened(tools.store_uri(self.config.store), self.state.store)
            self.kept = agent_view(store.view(self.state.as_of), self.state.opaque)
        return read(self.kept)


class LastState(CatalogToolset):
    """Another: the state is the server's, not the call's."""

    async def _pull_state(self) -> Any:
        self.kept = await super()._pull_state()
        await asyncio.sleep(0)  # as anything else that is awaited would
        return self.kept

    @property
    def state(self) -> NowcastState:
        return self.kept


class KeptByDay(CatalogToolset):
    """Another: views are kept by day, so rollouts of one day share a disguise."""

    def _answer(self, read: Callable[[AsOfView], str]) -> str:
        views: dict[str, AsOfView] = self.__dict__.setdefault("views", {})
        store = opened(tools.store_uri(self.config.store), self.state.store)
        view = agent_view(store.view(self.state.as_of), self.state.opaque)
        return read(views.setdefault(self.state.as_of, view))


@pytest.mark.parametrize("faulty", [LastView, LastState, KeptByDay])
def test_a_server_that_mixes_rollouts_up_is_caught(
    faulty: type[CatalogToolset], place: str, crowd: list[Rollout]
) -> None:
    asked = [(rollout, call_number(n)) for n, rollout in enumerate(crowd)]
    answers, _ = told(faulty, place, asked)
    assert len(wrong(asked, answers)) > len(crowd) / 10


# --- As the process that verifiers starts


class States:
    """The state channel of the rollouts: HTTP/1.1 with connections that stay open."""

    def __init__(self, crowd: list[Rollout]) -> None:
        self.held = {each.route: each.state.model_dump_json().encode() for each in crowd}
        self.pushed: dict[str, int] = dict.fromkeys(self.held, 0)
        self.url = ""

    @asynccontextmanager
    async def served(self) -> AsyncIterator[States]:
        """Answer while the block runs."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=4096)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/state"
        try:
            yield self
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:]]
                fields = {name.lower(): value for name, _, value in lines}
                await reader.readexactly(int(fields.get("content-length", 0)))
                route = fields["x-verifiers-state-route"]
                self.pushed[route] += head.startswith(b"PUT")
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(self.held[route])
                )
                writer.write(self.held[route])
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.close()


@dataclass
class Server:
    """A running tool server."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def memory(self) -> int:
        """Its resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) // 1024

    async def sends(self, data: bytes, end: bool = False) -> bytes:
        """All that it answers to some bytes on a connection of their own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            if end:
                writer.write_eof()
            return await reader.read()
        finally:
            writer.close()

    async def answers(self, url: str, rollout: Rollout, call: Call) -> str:
        """The text that a rollout is told, or whatever came instead."""
        data = await self.sends(post(url, rollout, *rollout.asks(call)))
        try:
            return str(json.loads(data.partition(b"\r\n\r\n")[2])["result"]["content"][0]["text"])
        except (ValueError, LookupError):
            return data.decode()


def post(url: str, rollout: Rollout, name: str, arguments: dict[str, Any]) -> bytes:
    """The request of one tool call."""
    call = {"name": name, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    return on(url, rollout, request(json.dumps(body).encode()))


PLACE = "THE-COORDINATES"


def on(url: str, rollout: Rollout, data: bytes) -> bytes:
    """A request on a rollout's URL."""
    return data.replace(PLACE.encode(), urlencode(coordinates(url, rollout)).encode(), 1)


def request(body: bytes, query: str = PLACE, method: str = "POST", **fields: str | None) -> bytes:
    """An HTTP request; a field of None is left out."""
    given = {"Host": "tools", "Content-Type": "application/json", "Connection": "close"}
    given |= {"Accept": "application/json, text/event-stream", "Content-Length": str(len(body))}
    given |= {name.replace("_", "-"): value for name, value in fields.items()}  # type: ignore[misc]
    lines = [f"{name}: {value}" for name, value in given.items() if value is not None]
    head = "\r\n".join([f"{method} /mcp?{query} HTTP/1.1", *lines, "", ""])
    return head.encode("latin-1") + body


@pytest.fixture(scope="module")
def server(place: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A tool server of the small store, started as verifiers starts it."""
    folder = tmp_path_factory.mktemp("server")
    port_file, log = folder / "port", folder / "log"
    env = {
        **os.environ,
        "VF_CONFIG": CatalogToolsetConfig(store=place).model_dump_json(),
        "VF_STATE_URL": "",
        "VF_STATE_SECRET": SECRET,
        "MCP_PORT_FILE": str(port_file),
    }
    command = [sys.executable, "-m", "nowcast_alfred.tools"]
    with log.open("wb") as out, subprocess.Popen(command, env=env, stderr=out) as process:
        while not (port_file.exists() and listening(port_file.read_text())):
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield Server(process, int(port_file.read_text()), log)
        process.terminate()


CALLS_OVER_HTTP = int(os.environ.get("NOWCAST_ALFRED_CALLS", "2000"))
"""The suite's share of the 10,000, which take more than a minute of one core."""


def in_flight() -> int:
    """How many calls at once the limit on open files allows."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 - 64


def test_waves_of_calls_on_a_running_server_are_answered_for_their_own_day(
    server: Server, crowd: list[Rollout]
) -> None:
    asked = [(crowd[n % ROLLOUTS], call_number(n)) for n in range(CALLS_OVER_HTTP)]

    async def waves() -> tuple[list[str], int]:
        answers: list[str] = []
        async with States(crowd).served() as states:
            for start in range(0, len(asked), in_flight()):
                wave = asked[start : start + in_flight()]
                answers += await asyncio.gather(
                    *(server.answers(states.url, rollout, call) for rollout, call in wave)
                )
        return answers, sum(states.pushed.values())

    answers, lookups = asyncio.run(waves())
    assert wrong(asked, answers) == []
    assert lookups == len(asked)


LONG = "x" * 3_000_000
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}


def body(**fields: Any) -> bytes:
    return json.dumps({**CALL, **fields}).encode()


MALFORMED: dict[str, bytes] = {
    "no JSON": request(b"{nonsense"),
    "nothing": request(b""),
    "not UTF-8": request(b"\xff\xfe\x00\x80"),
    "deep JSON": request(b"[" * 200_000),
    "a number of 100,000 digits": request(body(id=0)[:-1] + b', "n": ' + b"9" * 100_000 + b"}"),
    "NaN": request(b'{"jsonrpc": "2.0", "id": NaN, "method": "tools/call"}'),
    "a batch": request(b"[" + body(params={"name": "search"}) + b"]"),
    "a list": request(b"[]"),
    "an unknown method": request(body(method="tools/destroy")),
    "no method": request(b'{"jsonrpc": "2.0", "id": 1}'),
    "another protocol": request(body(jsonrpc="1.0")),
    "no parameters": request(body()),
    "parameters of a wrong type": request(body(params=[1, 2, 3])),
    "arguments of a wrong type": request(body(params={"name": "search", "arguments": "x"})),
    "a name of a wrong type": request(body(params={"name": {"a": 1}})),
    "an unknown tool": request(body(params={"name": "os.system", "arguments": {}})),
    "half a surrogate": request(body(params={"name": "\ud800", "arguments": {}})),
    "an id of a wrong type": request(body(id={"a": 1})),
    "a huge body": request(b'"' + b"x" * 20_000_000 + b'"'),
    "a huge argument": request(body(params={"name": "series", "arguments": {"series_id": LONG}})),
    "no content type": request(body(), Content_Type=None),
    "a wrong content type": request(body(), Content_Type="text/plain"),
    "nothing accepted": request(body(), Accept=None),
    "no host": request(body(), Host=None),
    "an unknown version": request(body(), MCP_Protocol_Version="2999-01-01"),
    "a header of 100 kB": request(body(), X_Long="x" * 100_000),
    "a query of 50 kB": request(body(), query="x" * 50_000),
    "a query that is no UTF-8": request(body(), query="vf_state_route=%ff&x=\xff"),
    "coordinates twice": request(body(params={"name": "search"}), query="vf_state_url=a&" * 2),
    "coordinates without a mark": request(body(params={"name": "search"}), query="vf_state_url=a"),
    "GET": request(b"", method="GET"),
    "DELETE": request(b"", method="DELETE"),
    "a method of its own": request(b"", method="STEAL"),
    "less than announced": request(b"{}", Content_Length="1000"),
    "more than announced": request(body(), Content_Length="3"),
    "a length below zero": request(b"{}", Content_Length="-5"),
    "a length that is none": request(b"{}", Content_Length="many"),
    "no chunks": request(b"zz\r\nx\r\n", Content_Length=None, Transfer_Encoding="chunked"),
    "another path": b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "HTTP/1.0": b"GET / HTTP/1.0\r\n\r\n",
    "TLS": bytes.fromhex("16030100f8010000f40303") + os.urandom(64),
    "noise": os.urandom(4096),
    "an empty line": b"\r\n",
}  # fmt: skip
UNFINISHED = {"nothing", "GET", "less than announced", "no chunks", "TLS", "noise", "an empty line"}
"""After these the connection is closed, else the server waits for more, or holds a stream open."""


def test_the_server_survives_what_is_no_mcp(server: Server, crowd: list[Rollout]) -> None:
    fine: Call = ("observations", {"series_ids": [OWN, OTHER]})
    before = server.memory

    async def all_of_them() -> dict[str, bytes]:
        answers = {}
        async with States(crowd).served() as states:
            for n, (name, data) in enumerate(MALFORMED.items()):
                try:
                    sent = server.sends(on(states.url, crowd[0], data), end=name in UNFINISHED)
                    answers[name] = await asyncio.wait_for(sent, 60)
                except ConnectionError as error:  # the server hangs up on a body too large
                    answers[name] = type(error).__name__.encode()
                honest = crowd[n], fine
                assert await server.answers(states.url, *honest) == crowd[n].right(fine), name
        return answers

    answers = asyncio.run(all_of_them())
    assert server.process.poll() is None
    assert server.memory - before < 200
    for name, answer in answers.items():
        assert len(answer) < 3000, name
        assert b"Traceback" not in answer, name
        assert str(SOURCES).encode() not in answer, name
        assert b'"text":' not in answer or b'"text":"error: ' in answer, name


def test_half_open_connections_keep_no_one_from_an_answer(
    server: Server, crowd: list[Rollout]
) -> None:
    whole = post("http://127.0.0.1:9/state", crowd[0], "search", {})
    parts = [b"", b"POST", whole[:40], whole[:-1], whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"]
    asked = [(rollout, call_number(n)) for n, rollout in enumerate(crowd[:100])]

    async def beside() -> list[str]:
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
        for n, each in enumerate(idle):
            each.sendall(parts[n % len(parts)])
        async with States(crowd).served() as states:
            jobs = [server.answers(states.url, rollout, call) for rollout, call in asked]
            answers = await asyncio.gather(*jobs)
        for each in idle:
            each.close()
        return answers

    before = len(server.log.read_text())
    assert wrong(asked, asyncio.run(beside())) == []
    assert server.process.poll() is None
    noted = server.log.read_text()[before:]
    assert "\u256d" not in noted, "tracebacks are drawn in frames, at a tenth of a second each"


def test_calls_that_are_given_up_harm_no_one(server: Server, crowd: list[Rollout]) -> None:
    asked = [(rollout, call_number(n)) for n, rollout in enumerate(crowd[:100])]

    async def beside() -> list[str]:
        async with States(crowd).served() as states:
            given_up = [
                asyncio.create_task(server.answers(states.url, rollout, call))
                for rollout, call in asked
            ]
            await asyncio.sleep(0.05)
            for each in given_up:
                each.cancel()
            jobs = [server.answers(states.url, rollout, call) for rollout, call in asked]
            return await asyncio.gather(*jobs)

    assert wrong(asked, asyncio.run(beside())) == []


def test_a_state_channel_that_fails_gives_no_answer(server: Server, crowd: list[Rollout]) -> None:
    rollout = crowd[1]

    async def without(held: bytes) -> str:
        states = States(crowd)
        states.held[rollout.route] = held
        async with states.served():
            return await server.answers(states.url, rollout, ("observations", {"series_ids": OWN}))

    for held in (b"", b"{}", b"null", b'{"as_of": 5}', b'{"as_of": "2014-06-30", "latest": true}'):
        said = asyncio.run(without(held))
        assert said.startswith("error: ")
        assert said.isprintable()
        assert len(said) < 400
