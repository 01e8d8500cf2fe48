"""A FRED server for tests: `fake_fred_semantics` over HTTP, with faults on demand and a log.

    with FakeFred([growing_series("PAY", "2000-01-01", 200)], today="2024-11-03") as fake:
        fake.script(too_many_requests(retry_after=1), series="PAY", after=2)
        build(fake.base_url, key=KEY)
        assert fake.count("series/observations", status=429) == 1

Faults are scripted, never random. A request over the rate limit is refused before any of them.
"""

from __future__ import annotations

import datetime as dt
import gzip
import os
import socket
import socketserver
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fake_fred_semantics import (
    KEY,
    KEY_UNREGISTERED,
    TOO_MANY,
    Body,
    FakeApi,
    FakeSeries,
    FredError,
    Rules,
    error,
    growing_series,
    render,
    tag,
)

__all__ = [
    "KEY",
    "FakeFred",
    "FakeSeries",
    "Fault",
    "Request",
    "clock_behind",
    "edited",
    "forbidden",
    "gateway_error",
    "growing_series",
    "hang",
    "html_with_200",
    "key_not_registered",
    "overcount",
    "refuse",
    "reset",
    "slow",
    "tag",
    "too_many_requests",
    "truncated",
    "wrong_window",
]


# --------------------------------------------------------------------------------------- faults


@dataclass(frozen=True)
class Fault:
    """What goes wrong with a request; the functions below make the usual ones."""

    name: str
    refusal: FredError | None = None
    """Answered instead of the truth, in FRED's own form."""
    page: tuple[int, str] | None = None
    """Status and HTML answered instead of the truth."""
    headers: tuple[tuple[str, str], ...] = ()
    edit: Callable[[Body], object] | None = None
    """Changes the true body before it is written."""
    share: float = 1.0
    """So much of the body is sent."""
    cut: bool = False
    """Content-Length speaks of the whole body, and the connection ends."""
    drop: str = ""
    """"reset" or "close": the connection ends without an answer."""
    delay: float = 0.0
    """Seconds before the answer, or before the connection ends."""
    days_behind: int = 0


def refuse(status: int, message: str) -> Fault:
    """An error in FRED's own form, such as 423 "Locked"."""
    return Fault(f"refuse {status}", FredError(status, message))


def too_many_requests(retry_after: float | str | None = None) -> Fault:
    """429; `Retry-After` may be seconds or an HTTP date."""
    headers = () if retry_after is None else (("Retry-After", str(retry_after)),)
    return Fault("429", FredError(429, TOO_MANY), headers=headers)


def key_not_registered() -> Fault:
    """The 400 about the key that users report in the middle of a loop, with a good key."""
    return Fault("key", error(KEY_UNREGISTERED))


def gateway_error(status: int = 504, delay: float = 0.0) -> Fault:
    """500, 502, 503 or 504 with an HTML page, late."""
    title = {500: "Internal Server Error", 502: "Bad Gateway", 504: "Gateway Time-out"}
    return Fault(str(status), page=_page(status, title.get(status, "Unavailable")), delay=delay)


def forbidden() -> Fault:
    """403 with an HTML page, from the edge."""
    return Fault("403", page=_page(403, "Forbidden"))


def html_with_200() -> Fault:
    """200 with an HTML page."""
    return Fault("html", page=_page(200, "Scheduled maintenance"))


def truncated(share: float = 0.5, cut: bool = False) -> Fault:
    """A part of the body: as if it were the whole, or (`cut`) until the connection ends."""
    return Fault("truncated", share=share, cut=cut)


def wrong_window(start: str, end: str) -> Fault:
    """The true body, which says that another window was asked for."""
    return edited(lambda body: body.update(realtime_start=start, realtime_end=end), "window")


def overcount(extra: int = 1) -> Fault:
    """`count` is larger than the rows that can be had."""
    return edited(lambda body: body.update(count=body["count"] + extra), "count")


def edited(edit: Callable[[Body], object], name: str = "edited") -> Fault:
    """The true body after `edit`, which changes it in place."""
    return Fault(name, edit=edit)


def clock_behind(days: int = 1) -> Fault:
    """Answered by a server on which it is still the day before."""
    return Fault("clock", days_behind=days)


def reset() -> Fault:
    """The connection is reset."""
    return Fault("reset", drop="reset")


def hang(seconds: float = 10.0) -> Fault:
    """No answer; the connection is closed after `seconds`, or when the server stops."""
    return Fault("hang", drop="close", delay=seconds)


def slow(seconds: float) -> Fault:
    """The true answer, late."""
    return Fault("slow", delay=seconds)


def _page(status: int, title: str) -> tuple[int, str]:
    text = f"{status} {title}"
    return status, f"<html><head><title>{text}</title></head><body><h1>{text}</h1></body></html>"


@dataclass
class _Script:
    """Which requests a fault befalls, and how often."""

    fault: Fault
    path: str | None
    series: str | None
    after: int
    times: float

    def takes(self, request: Request) -> bool:
        if self.times <= 0 or not request.matches(self.path, self.series):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.times -= 1
        return True


# ------------------------------------------------------------------------------------------ log


@dataclass
class Request:
    """One request. The key is left out; times are those of the server's clock."""

    path: str
    """Below the base URL, such as "series/observations"."""
    params: dict[str, str]
    started: float
    connection: int
    """The client's port: the same for requests that shared a connection."""
    ended: float | None = None
    status: int | None = None
    """None as long as there is no answer, and for ever if the connection was dropped."""
    fault: str = ""
    """The name of the fault; "rate" if it came too soon after others."""

    @property
    def series(self) -> str:
        return self.params.get("series_id", "").upper()

    def matches(self, path: str | None = None, series: str | None = None) -> bool:
        return path in (None, self.path) and (series is None or series.upper() == self.series)


@dataclass
class _Reply:
    status: int
    body: bytes
    content_type: str
    headers: list[tuple[str, str]] = field(default_factory=list)


class FakeFred:
    """A FRED server on a free port of this machine, while the `with` block runs.

    Parameters
    ----------
    series
        The archives, as a list or by id. They are changed by `add_vintage` and `change_past`.
    today
        The server's day, in St. Louis; set `today` to let it pass.
    keys
        The registered keys.
    max_per_second
        Requests in any second beyond these are answered 429 (and do not count themselves).
    retry_after
        The `Retry-After` of those answers, if any.
    release_dates
        Release id -> dates, planned ones too; default: the vintage dates of its series.
    clock
        Seconds, for the rate limit and the log.
    rules
        Fields of `Rules`: `max_vintages`, `max_rows`, `cap_wording`, `stale_defaults`, ...
    """

    def __init__(
        self,
        series: Mapping[str, FakeSeries] | Iterable[FakeSeries],
        today: str = "2024-11-03",
        *,
        keys: Iterable[str] = (KEY,),
        max_per_second: float | None = None,
        retry_after: float | str | None = None,
        release_dates: Mapping[int, Iterable[str]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        **rules: Any,
    ) -> None:
        archives = series.values() if isinstance(series, Mapping) else series
        self.series = {archive.id: archive for archive in archives}
        self.today = today
        self.max_per_second, self.retry_after = max_per_second, retry_after
        self.log: list[Request] = []
        self.max_in_flight = 0
        self._clock = clock
        self._api = FakeApi(self.series, keys, release_dates or {}, Rules(**rules))
        self._accepted: deque[float] = deque()
        self._scripts: list[_Script] = []
        self._in_flight = 0
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self.failures: list[BaseException] = []
        self._server: _Server | None = None

    # ---- what a test does with it

    @property
    def base_url(self) -> str:
        """Such as "http://127.0.0.1:40001/fred"; endpoints are below it."""
        assert self._server is not None, "use it in a `with` block"
        return f"http://127.0.0.1:{self._server.server_address[1]}/fred"

    def script(
        self,
        fault: Fault,
        *,
        path: str | None = None,
        series: str | None = None,
        after: int = 0,
        times: float = 1,
    ) -> None:
        """Let a fault befall the next requests (to a path, about a series).

        It spares the first `after` of them and takes `times` (`math.inf`: all). What an earlier
        script takes is not seen by later ones, so scripts for one path queue up.
        """
        with self._lock:
            self._scripts.append(_Script(fault, path, series, after, times))

    def clear_scripts(self) -> None:
        """Forget the faults that have not happened."""
        with self._lock:
            self._scripts.clear()

    def add_vintage(
        self, series_id: str, date: str, rows: Mapping[str, str] | Iterable[tuple[str, str]]
    ) -> None:
        """Publish what is new (observation date -> text); the server's day moves on to `date`."""
        with self._lock:
            series = self.series[series_id]
            known = {vintage for points in series.points.values() for vintage, _ in points}
            if date <= max(known, default=""):
                raise ValueError(f"{date} is not after the last vintage; use change_past")
            for observation, value in dict(rows).items():
                last = max(series.points.get(observation, []), default=("", None))
                if last[1] != value:
                    series.set(observation, date, value)
            self.today = max(self.today, date)

    def change_past(self, series_id: str, date: str, rows: Mapping[str, str | None]) -> None:
        """Rewrite an old vintage, or back-fill one: observation date -> text, None: no change."""
        with self._lock:
            for observation, value in rows.items():
                self.series[series_id].set(observation, date, value)

    def requests(
        self, path: str | None = None, series: str | None = None, **wanted: Any
    ) -> list[Request]:
        """The log's requests to a path, about a series, with a `status`, a `fault` or params.

        `requests("series/observations", status=200, output_type="3")`
        """
        with self._lock:
            found = [request for request in self.log if request.matches(path, series)]
        for name, value in wanted.items():
            if name in ("status", "fault"):
                found = [request for request in found if getattr(request, name) == value]
            else:
                found = [request for request in found if request.params.get(name) == str(value)]
        return found

    def count(self, path: str | None = None, series: str | None = None, **wanted: Any) -> int:
        """How many `requests` there are."""
        return len(self.requests(path, series, **wanted))

    def clear_log(self) -> None:
        """Forget the requests so far, for instance between two builds."""
        with self._lock:
            self.log.clear()
            self.max_in_flight = self._in_flight

    # ---- the server

    def __enter__(self) -> FakeFred:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        assert self._server is not None
        self._stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.close_all()
        self._server = None
        if self.failures and kind is None:
            raise AssertionError("the fake itself failed") from self.failures[0]

    def serve(self, handler: _Handler) -> None:
        """Answer one request."""
        split = urlsplit(handler.path)
        pairs = parse_qs(split.query, keep_blank_values=True)
        params = {name: values[-1] for name, values in pairs.items()}
        inside = split.path.startswith("/fred/")
        path = split.path.removeprefix("/fred/") if inside else split.path
        shown = {name: value for name, value in params.items() if name != "api_key"}
        with self._lock:
            request = Request(path, shown, self._clock(), handler.client_address[1])
            self.log.append(request)
            self._in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self._in_flight)
            fault = self._fault(request)
            request.fault = fault.name
        try:
            with self._lock:
                reply = self._reply(path, params, fault)
        except Exception as failure:  # a mistake in this file must not look like a server's
            self.failures.append(failure)
            reply = _Reply(500, str(failure).encode(), "text/plain")
        self._stopping.wait(fault.delay)
        with self._lock:  # before the answer, so that whoever has it finds the log complete
            self._in_flight -= 1
            request.ended = self._clock()
            request.status = None if fault.drop else reply.status
        if fault.drop:
            handler.drop(hard=fault.drop == "reset")
        else:
            handler.send(reply, fault)

    def _fault(self, request: Request) -> Fault:
        if self.max_per_second is not None:
            while self._accepted and self._accepted[0] <= request.started - 1:
                self._accepted.popleft()
            if len(self._accepted) >= self.max_per_second:
                return replace(too_many_requests(self.retry_after), name="rate")
            self._accepted.append(request.started)
        for script in self._scripts:
            if script.takes(request):
                return script.fault
        return Fault("")

    def _reply(self, path: str, params: dict[str, str], fault: Fault) -> _Reply:
        if fault.page:
            status, page = fault.page
            return _Reply(status, page.encode(), "text/html; charset=UTF-8", list(fault.headers))
        status, file_type = 200, params.get("file_type", "xml")
        today = dt.date.fromisoformat(self.today) - dt.timedelta(days=fault.days_behind)
        try:
            if fault.refusal:
                raise fault.refusal
            body = self._api.answer(path, params, today.isoformat())
        except FredError as refused:
            status, body = refused.status, refused.body()
        if fault.edit and status == 200:
            fault.edit(body)
        kind = "application/json" if file_type == "json" else "text/xml"
        data = render(body, file_type)
        return _Reply(status, data, f"{kind}; charset=UTF-8", list(fault.headers))


class _Server(ThreadingHTTPServer):
    """Knows its connections, so that it can end those that are kept alive."""

    fake: FakeFred
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: dict[int, tuple[socket.socket, threading.Thread]] = {}
        self._guard = threading.Lock()

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's asks for the host's name

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        key = id(request)
        with self._guard:
            self._open[key] = request, threading.current_thread()
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._guard:
                del self._open[key]

    def close_all(self) -> None:
        self.server_close()
        with self._guard:
            connections = list(self._open.values())
            for connection, _ in connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the client was faster
        for _, thread in connections:
            thread.join(timeout=5)

    def handle_error(self, request: object, client_address: object) -> None:
        failure = sys.exc_info()[1]
        if failure and not isinstance(failure, OSError):  # a client that went away is no failure
            self.fake.failures.append(failure)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "Apache", ""
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self.server.fake.serve(self)

    def send(self, reply: _Reply, fault: Fault) -> None:
        data = reply.body
        declared = sent = data[: int(len(data) * fault.share)]
        headers = [("Content-Type", reply.content_type), ("Cache-Control", "max-age=0, no-cache")]
        if fault.cut:
            declared, self.close_connection = data, True
        elif fault.share == 1 and "gzip" in self.headers.get("Accept-Encoding", ""):
            declared = sent = gzip.compress(data, compresslevel=1)
            headers.append(("Content-Encoding", "gzip"))
        self.send_response(reply.status)
        for name, value in [*headers, *reply.headers, ("Content-Length", str(len(declared)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent)

    def drop(self, hard: bool) -> None:
        """End the connection; `hard`: with a reset."""
        self.close_connection = True
        if hard:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            os.close(self.connection.detach())

    def log_message(self, *_: object) -> None:
        """No lines on the terminal."""
