"""How fast the client asks: one limiter, pauses that the server asks for, nobody too early."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from email.utils import formatdate

import pytest

import fake_fred as ff
from fake_fred import KEY, FakeFred, growing_series
from fred_builds import client, use_clock
from nowcast_alfred.errors import InputError
from nowcast_alfred.sources.fred import Fred
from nowcast_alfred.sources.http import LATE, MAX_WAIT, Limiter


@pytest.fixture
def fake() -> Iterator[FakeFred]:
    with FakeFred([growing_series("PAY", "2020-01-01", 12)]) as server:
        yield server


@pytest.mark.parametrize("rate", [0.5, 1.9, 2.0, 50.0])
@pytest.mark.parametrize("late", [0.0, 0.02, LATE])
def test_no_second_has_more_requests_than_the_rate(
    rate: float, late: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However late within `LATE` each of them arrives, and however slow its answer is."""
    clock = use_clock(monkeypatch)
    limiter, draw = Limiter(rate), random.Random(0)
    arrived = []
    for _ in range(300):
        with limiter.turn():
            sent = clock.now
            arrived.append(sent + draw.uniform(0, late))
            clock.now += draw.choice([late, 0.3])  # the answer comes after the arrival
        if rate > 2:
            clock.now = sent + 0.001  # other threads go on meanwhile
    span = math.ceil(rate)
    pairs = zip(arrived, arrived[span:], strict=False)
    assert min(second - first for first, second in pairs) >= span / rate - 1e-6
    if rate >= 2:
        assert len(arrived) / (arrived[-1] - arrived[0]) >= 0.9 * rate


def test_threads_and_clients_share_one_limiter() -> None:
    first = Fred(KEY, "http://127.0.0.1:9/fred", rate=3)
    second = Fred(KEY, "http://127.0.0.1:9/fred", rate=4)
    other = Fred(KEY, "http://127.0.0.1:10/fred", rate=4)
    assert first._fetcher.limiter is second._fetcher.limiter
    assert first._fetcher.limiter is not other._fetcher.limiter


def test_threads_never_get_the_same_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = use_clock(monkeypatch)
    limiter, start = Limiter(10), clock.now

    def event(_: int) -> None:
        with limiter.turn():
            pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(event, range(400)))
    assert limiter._next > start + 399.5 * 0.1


def test_a_pause_holds_back_those_already_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = use_clock(monkeypatch)
    limiter, start = Limiter(2), clock.now
    with limiter.turn():
        pass
    asleep = clock.sleep

    def sleep(seconds: float) -> None:  # someone else is told to pause while this one sleeps
        monkeypatch.setattr(clock, "sleep", asleep)
        limiter.hold(30)
        asleep(seconds)

    monkeypatch.setattr(clock, "sleep", sleep)
    with limiter.turn():
        assert clock.now >= start + 30


@pytest.mark.parametrize(
    ("retry_after", "least"),
    [(None, 30.0), ("7", 7.0), ("0", 0.0), ("date", 40.0), ("soon", 30.0), ("-5", 0.0)],
)
def test_a_429_pauses_all_requests_for_as_long_as_the_server_asks(
    monkeypatch: pytest.MonkeyPatch, retry_after: str | None, least: float
) -> None:
    clock = use_clock(monkeypatch)
    asked = formatdate(clock.now + 40, usegmt=True) if retry_after == "date" else retry_after
    series = growing_series("PAY", "2020-01-01", 12)
    with FakeFred([series], clock=clock.monotonic) as fake:
        fred = Fred(KEY, fake.base_url)
        fake.script(ff.too_many_requests(asked))
        assert fred.vintage_dates("PAY")
        assert fred.tags("PAY") == []
        first, second, third = (request.started for request in fake.log)
    assert least <= second - first < least + 1.1
    assert third - second >= 0.5


def test_retry_after_of_a_503_is_honoured_up_to_a_bound(
    fake: FakeFred, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = use_clock(monkeypatch)
    start = clock.now
    for asked in ("9", "86400"):
        fake.script(replace(ff.gateway_error(503), headers=(("Retry-After", asked),)))
    assert client(fake).vintage_dates("PAY")
    assert clock.now - start == pytest.approx(9 + MAX_WAIT, abs=1)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="must be above 0"):
        Fred(KEY, rate=rate)


@pytest.mark.parametrize(
    "url", ["fred", "ftp://fred", "http://", "http://fred:port", "file:///fred"]
)
def test_a_base_url_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(InputError, match="http"):
        Fred(KEY, url)


def requests_too_soon(rate: float) -> int:
    """How many of 120 requests, from two clients in eight threads, the server refuses."""
    series = growing_series("PAY", "2020-01-01", 12)
    with FakeFred([series], max_per_second=rate, retry_after=1) as fake:
        clients = [client(fake, rate=rate), client(fake, rate=rate)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda at: clients[at % 2].tags("PAY"), range(120)))
        return fake.count(fault="rate")


def test_many_threads_keep_the_rate_that_the_server_enforces() -> None:
    # A busy machine holds a request back now and then; a bad limiter is refused every time.
    assert any(requests_too_soon(40) == 0 for _ in range(4))
