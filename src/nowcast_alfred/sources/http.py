"""Polite requests: one limiter, bounded retries, and a key that is in no message.

Every request of a process goes through one `Limiter`, which spaces requests evenly and holds all
of them back when the server says so. What may pass by itself (429, 5xx, time-outs, cut or HTML
bodies) is tried again a bounded number of times, honouring `Retry-After`, and is never taken for
an empty answer. The key is added below httpx, in the transport, so that it is in no URL that httpx
logs or puts into an exception.
"""

from __future__ import annotations

import html
import json
import math
import random
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import tenacity

from ..errors import InputError, SourceUnavailable
from ..store.files import without_secrets

MAX_WAIT = 120.0
"""Longest wait between two tries, in seconds, whatever a server asks for."""
LATE = 0.1
"""Seconds that a request may take to be counted by a server, at the most."""

_XML_ERROR = re.compile(rb'<error code="\d+" message="([^"]*)"')


class Limiter:
    """Spaces events evenly over all threads of a process.

    A server counts a request when it arrives, and one that arrives late must not share its second
    with one too many of those behind it. So an event waits, too, until the one that is a second's
    worth of events before it was answered a second ago, or was sent `LATE` seconds more than that.

    Parameters
    ----------
    rate
        Events a second, above 0.
    """

    def __init__(self, rate: float) -> None:
        self._lock = threading.Lock()
        self._next = self._held = 0.0
        self._counted: deque[list[float]] = deque()  # by when each of the last ones was counted
        self.set_rate(rate)

    def set_rate(self, rate: float) -> None:
        """Space the events to come for another rate."""
        if not rate > 0:
            raise InputError(f"rate {rate}: must be above 0 requests a second")
        with self._lock:
            self._interval = 1.0 / rate
            self._counted = deque(self._counted, maxlen=math.ceil(min(rate, 1e4)))

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Sleep until this event's turn; the block is the event."""
        counted = self._take()
        try:
            yield
        finally:
            counted[0] = min(counted[0], time.monotonic())

    def _take(self) -> list[float]:
        turn, counted = -1.0, [0.0]
        while turn < self._held:  # at first, and after a `hold` while asleep
            with self._lock:
                turn = max(time.monotonic(), self._next)
                if len(self._counted) == self._counted.maxlen:
                    turn = max(turn, self._counted[0][0] + self._interval * len(self._counted))
                counted = [turn + LATE]
                self._counted.append(counted)
                self._next = turn + self._interval
            time.sleep(max(0.0, turn - time.monotonic()))
        counted[0] = time.monotonic() + LATE  # a busy machine sleeps longer than it was asked to
        return counted

    def hold(self, seconds: float) -> None:
        """Let no event happen for a while, those already waiting included."""
        with self._lock:
            self._held = max(self._held, time.monotonic() + seconds)
            self._next = max(self._next, self._held)


_limiters: dict[str, Limiter] = {}
_guard = threading.Lock()


def shared_limiter(server: str, rate: float) -> Limiter:
    """The process's one limiter for a server; the rate asked for last holds."""
    with _guard:
        if server not in _limiters:
            _limiters[server] = Limiter(rate)
        _limiters[server].set_rate(rate)
        return _limiters[server]


@dataclass
class Counts:
    """What a client has done so far; safe to read at any time."""

    requests: int = 0
    retries: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, requests: int = 0, retries: int = 0) -> None:
        """Count some more."""
        with self._lock:
            self.requests += requests
            self.retries += retries


class _Passing(Exception):
    """A failure that may pass by itself; carries how long the server asked to wait."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class _SecretTransport(httpx.BaseTransport):
    """Adds secret query parameters to what goes over the wire, and only there."""

    def __init__(self, inner: httpx.BaseTransport, secret: Mapping[str, str]) -> None:
        self._inner, self._secret = inner, dict(secret)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url.copy_merge_params(self._secret)
        sent = httpx.Request(
            request.method,
            url,
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        return self._inner.handle_request(sent)

    def close(self) -> None:
        self._inner.close()


@dataclass
class Fetcher:
    """Gets JSON from one server.

    Parameters
    ----------
    base_url
        An http or https URL that paths are appended to.
    limiter
        Shared by everything in the process that talks to that server.
    secret
        Query parameters that must not be seen (an API key).
    tries
        How often one request is sent at the most.
    timeout
        Seconds for one try.
    pause
        Wait after a 429 without `Retry-After`, in seconds.
    backoff
        Wait after the first of other failures, in seconds; it doubles with each more.
    """

    base_url: str
    limiter: Limiter
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    tries: int = 6
    timeout: float = 60.0
    pause: float = 30.0
    backoff: float = 1.0
    counts: Counts = field(default_factory=Counts)
    client: httpx.Client = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            url = httpx.URL(self.base_url)
            known = url.scheme in ("http", "https") and url.host != ""
        except httpx.InvalidURL:
            known = False
        if not known:
            shown = without_secrets(self.base_url)
            raise InputError(f"{shown!r} is not a URL that starts with http:// or https://")
        inner = httpx.HTTPTransport(limits=httpx.Limits(max_connections=32))
        self.client = httpx.Client(
            transport=_SecretTransport(inner, self.secret),
            timeout=self.timeout,
            headers=dict(self.headers),
        )

    def json(
        self,
        path: str,
        params: Mapping[str, str],
        refuse: Callable[[int, str], Exception],
    ) -> dict[str, Any]:
        """One answer, or an error that says what went wrong.

        Parameters
        ----------
        path
            Below the base URL.
        params
            Query parameters, without the secret ones.
        refuse
            Makes the error of a refusal from its status and text; what it raises is not retried.

        Raises
        ------
        SourceUnavailable
            If the tries were used up.
        """
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Passing),
            stop=tenacity.stop_after_attempt(self.tries),
            wait=self._wait,
            before_sleep=self._count_retry,
            reraise=True,
        )
        what = f"{path} ({', '.join(f'{k}={v}' for k, v in params.items() if k != 'file_type')})"
        try:
            return retrying(self._once, path, params, refuse)
        except _Passing as error:
            text = self._clean(str(error))
        raise SourceUnavailable(f"{what}: no proper answer in {self.tries} tries; the last: {text}")

    def _once(
        self, path: str, params: Mapping[str, str], refuse: Callable[[int, str], Exception]
    ) -> dict[str, Any]:
        failure = ""
        with self.limiter.turn():
            self.counts.add(requests=1)
            try:
                response = self.client.get(
                    f"{self.base_url.rstrip('/')}/{path}", params=dict(params)
                )
            except httpx.HTTPError as error:
                failure = f"{type(error).__name__} {error}"
        if failure:  # outside the handler, so that no context carries the request
            raise _Passing(failure)
        if response.status_code == 429:
            wait = retry_after(response)
            self.limiter.hold(self.pause if wait is None else wait)
            raise _Passing("429, too many requests", 0.0)
        if response.status_code == 403 or response.status_code >= 500:
            raise _Passing(f"status {response.status_code}", retry_after(response))
        body = _object(response)
        if body is None:
            raise _Passing(f"status {response.status_code} with a body that is not a JSON object")
        if response.status_code != 200:
            text = str(body.get("error_message") or body.get("message") or body)
            raise refuse(response.status_code, self._clean(text))
        return body

    def _wait(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = getattr(error, "wait", None)
        if asked is not None:
            return min(float(asked), MAX_WAIT)
        grow = tenacity.wait_exponential(multiplier=self.backoff, max=MAX_WAIT)
        return grow(state) + random.uniform(0.0, self.backoff)

    def _count_retry(self, state: tenacity.RetryCallState) -> None:
        self.counts.add(retries=1)

    def _clean(self, text: str) -> str:
        for value in self.secret.values():
            text = text.replace(value, "***") if value else text
        return text[:500]


def _object(response: httpx.Response) -> dict[str, Any] | None:
    """The JSON object of a body, or what an error in FRED's XML says; None: neither."""
    try:
        body = json.loads(response.content)
    except ValueError:
        error = _XML_ERROR.search(response.content) if response.status_code != 200 else None
        return {"message": html.unescape(error[1].decode(errors="replace"))} if error else None
    return body if isinstance(body, dict) else None


def retry_after(response: httpx.Response) -> float | None:
    """Seconds a server asked to wait, from either form of the header."""
    text = response.headers.get("Retry-After", "").strip()
    if not text:
        return None
    try:
        return min(max(0.0, float(text)), MAX_WAIT)
    except ValueError:
        pass
    try:
        return min(max(0.0, parsedate_to_datetime(text).timestamp() - time.time()), MAX_WAIT)
    except ValueError:
        return None
