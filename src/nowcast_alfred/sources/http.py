"""Polite requests: one limiter, bounded retries, and a key that is in no message.

Every request of a process goes through one `Limiter`, which spaces requests evenly and holds all
of them back when the server says so. What may pass by itself (429, 5xx, time-outs, cut or HTML
bodies) is tried again a bounded number of times, honouring `Retry-After`, and is never taken for
an empty answer. The key is added below httpx, in the transport, so that it is in no URL that httpx
logs or puts into an exception.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import tenacity

from ..errors import SourceUnavailable

MAX_WAIT = 120.0
"""Longest wait between two tries, in seconds, whatever a server asks for."""


class Limiter:
    """Spaces events evenly over all threads of a process.

    Parameters
    ----------
    rate
        Events a second, above 0.
    """

    def __init__(self, rate: float) -> None:
        if not rate > 0:
            raise ValueError(f"rate {rate}: must be above 0")
        self._interval = 1.0 / rate
        self._lock = threading.Lock()
        self._next = 0.0

    def wait(self) -> None:
        """Sleep until this event's turn."""
        with self._lock:
            turn = max(time.monotonic(), self._next)
            self._next = turn + self._interval
        time.sleep(max(0.0, turn - time.monotonic()))

    def hold(self, seconds: float) -> None:
        """Let no event happen for a while: the server asked for it."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)


@dataclass
class Counts:
    """What a client has done so far; safe to read at any time."""

    requests: int = 0
    retries: int = 0


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
        What paths are appended to.
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
        self.limiter.wait()
        self.counts.requests += 1
        failure: str | None = None
        try:
            response = self.client.get(f"{self.base_url.rstrip('/')}/{path}", params=dict(params))
        except httpx.HTTPError as error:
            failure = f"{type(error).__name__} {error}"
        if failure is not None:  # outside the handler, so that no context carries the request
            raise _Passing(failure)
        if response.status_code == 429:
            wait = _retry_after(response)
            self.limiter.hold(self.pause if wait is None else wait)
            raise _Passing("429, too many requests", 0.0)
        if response.status_code == 403 or response.status_code >= 500:
            raise _Passing(f"status {response.status_code}", _retry_after(response))
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
        grow = tenacity.wait_exponential_jitter(initial=self.backoff, max=MAX_WAIT)
        return float(grow(state))

    def _count_retry(self, state: tenacity.RetryCallState) -> None:
        self.counts.retries += 1

    def _clean(self, text: str) -> str:
        for value in self.secret.values():
            text = text.replace(value, "***") if value else text
        return text[:500]


def _object(response: httpx.Response) -> dict[str, Any] | None:
    try:
        body = json.loads(response.content)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _retry_after(response: httpx.Response) -> float | None:
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
