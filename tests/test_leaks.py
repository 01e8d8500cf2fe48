"""Nothing first known after an as-of date is ever read by an agent.

For a day, a store has two twins: in one every later value is a sentinel and every later title
another, in the other no later row exists at all. What an agent can read on that day must be the
same bytes from all three: then it cannot depend on anything later, in whatever form. That the
comparison can fail is tested too, with a store that looks ahead.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nowcast_alfred import prompts, served, tools
from nowcast_alfred.catalog import load_catalog
from nowcast_alfred.data import NowcastData, NowcastState
from nowcast_alfred.errors import QueryError
from nowcast_alfred.lab.audit_twins import SENTINEL, SENTINEL_WORD, deleted, replaced
from nowcast_alfred.periods import UNITS, iso, to_days
from nowcast_alfred.sources import synthetic
from nowcast_alfred.sources.files import read_long
from nowcast_alfred.store import AsOfView, VintageStore
from nowcast_alfred.stream import Draw, Stream
from nowcast_alfred.targets import SpaceConfig
from nowcast_alfred.task import make_data
from panels import small_store

ROOT = Path(__file__).resolve().parents[1]
DRAWS = 5000
TRACES = (b"987654321", b"9.8765432e+08", SENTINEL_WORD.lower().encode())

# --- The twins


def poisoned(store: VintageStore, day: int) -> VintageStore:
    """The store with every value and text from after a day replaced."""
    return named_as(store, replaced(store, day))


def truncated(store: VintageStore, day: int) -> VintageStore:
    """The store without any row from after a day."""
    return named_as(store, deleted(store, day))


def named_as(store: VintageStore, twin: VintageStore) -> VintageStore:
    """The twin under the store's name; the fingerprint is an identity, not a datum."""
    return VintageStore(store.uri, store.fingerprint, twin._mapped)


class Peeking(VintageStore):
    """A reader with the fault that all this is about: it reads two months ahead."""

    def __init__(self, store: VintageStore) -> None:
        super().__init__(store.uri, store.fingerprint, store._mapped)

    def view(self, as_of: Any) -> AsOfView:
        honest = super().view(as_of)
        return PeekingView(self, honest._day)


class PeekingView(AsOfView):
    def __init__(self, store: VintageStore, day: int) -> None:
        super().__init__(store, day + 60)

    @property
    def as_of(self) -> str:
        return iso(self._day - 60)


# --- What an agent can read

Call = tuple[str, dict[str, Any]]
TOOLS: dict[str, Callable[..., str]] = {
    "observations": served.observations,
    "search": served.search,
    "series": served.series,
    "revisions": served.revisions,
    "releases": served.releases,
}
ODD_IDS = ["", "NOPE", "emp", "EMP ", "EMP\n", "../../etc/passwd", "\u00dcn\u00ef\u2212", "X" * 300]
ODD_DATES = [None, "", "yesterday", "2024-13-01", "2012-02-30", "9999-12-31", "0001-01-01", "1e9"]
ODD_UNITS = ["", "LIN", "level", "percent", "\u2212", "lin; drop"]
COUNTS = [1, 3, 12, 36, 240, 10**9, 0, -5]
WORDS = [
    "",
    "e",
    "rate",
    "later",
    "hereafter",
    "employment report",
    "2017 dollars",
    "\u2212",
    "z" * 900,
]


def answer(view: AsOfView, call: Call) -> str:
    name, arguments = call
    return TOOLS[name](view, **arguments)


def calls_of(store: VintageStore, draw: Draw) -> list[Call]:
    """Tool calls chosen by a hash of the draw: what an agent asks, and what it should not."""
    digest = hashlib.shake_256(f"{store.fingerprint}/{draw}".encode()).digest(160)
    words = iter(np.frombuffer(digest, dtype=">u8").tolist())

    def pick(choices: Any) -> Any:
        return choices[next(words) % len(choices)]

    ids = [*store.series_ids, *ODD_IDS]
    ahead = [iso(day) for day in (draw.as_of, draw.as_of + 1, draw.release, draw.release + 40)]
    dates = [*ahead, iso(draw.period), *ODD_DATES]
    units = [*UNITS, *UNITS, *ODD_UNITS]
    own, future = draw.series_id, {"start": iso(draw.as_of + 1), "end": "9999-12-31"}
    return [
        ("observations", {"series_ids": own, "units": pick(units), "last": pick(COUNTS)}),
        ("observations", {"series_ids": [own, pick(ids)], "units": pick(units), **future}),
        ("observations", {"series_ids": [pick(ids), pick(ids)], "last": pick(COUNTS)}),
        ("observations", {"series_ids": own, "start": pick(dates), "end": pick(dates)}),
        ("search", {"text": pick(WORDS), "limit": pick(COUNTS), "skip": pick(COUNTS)}),
        ("series", {"series_id": own}),
        ("series", {"series_id": pick(ids)}),
        ("revisions", {"series_id": own, "period": iso(draw.period)}),
        ("revisions", {"series_id": pick(ids), "period": pick(dates)}),
        ("revisions", {"series_id": own}),
        ("releases", {"series_id": own, "last": pick(COUNTS)}),
        ("releases", {"series_id": pick(ids)}),
    ]


def reading(store: VintageStore, draw: Draw, stream: Stream, calls: list[Call]) -> dict[str, bytes]:
    """All that the agent of one draw can read from one store, by name."""
    view = store.view(iso(draw.as_of))
    units = stream.space.series[draw.series_id].role.transform
    data = make_data(store, draw, units, stream=stream.name, context="prompt")
    state = NowcastState(as_of=data.as_of, series_id=data.series_id, store=data.store)
    texts = {"data": data.model_dump_json(), "state": state.model_dump_json()}
    for context in ("tools", "files"):
        texts[context] = prompts.build(view, draw.series_id, draw.period, units, context)
    for number, call in enumerate(calls):
        texts[f"{number} {call[0]}"] = answer(view, call)
    return {name: text.encode() for name, text in texts.items()}


def levels(view: AsOfView) -> bytes:
    """Every value of a view: the bytes behind every staged file."""
    known = [(row.id, view.observations(row.id)) for row in view.series()]
    return b"".join(key.encode() + o.period.tobytes() + o.value.tobytes() for key, o in known)


def staged(view: AsOfView) -> bytes:
    return served.as_tar(served.staged_files(view))


def by_day(stream: Stream, count: int) -> Iterator[tuple[int, list[Draw]]]:
    """The first draws of a stream by as-of date, so that twins are made once a day."""
    draws = sorted((stream.draw(n) for n in range(count)), key=lambda draw: draw.as_of)
    for day, group in groupby(draws, key=lambda draw: draw.as_of):
        yield day, list(group)


def check(store: VintageStore, count: int, stage_every: int) -> None:
    """Compare what the agents of the first draws read with what they read from both twins."""
    stream = Stream(store, SpaceConfig(split="all"))
    checked = 0
    for number, (day, draws) in enumerate(by_day(stream, count)):
        poison, bare = poisoned(store, day), truncated(store, day)
        if number % 4 == 0:
            read = staged if number % stage_every == 0 else levels
            expected, *others = [read(s.view(iso(day))) for s in (store, poison, bare)]
            assert others == [expected, expected], f"{read.__name__} on {iso(day)}"
        for draw in draws:
            calls = calls_of(store, draw)
            texts = reading(store, draw, stream, calls)
            for twin in (poison, bare):
                assert reading(twin, draw, stream, calls) == texts, (draw, calls)
            for name, text in texts.items():
                lowered = text.lower()
                assert not any(trace in lowered for trace in TRACES), (draw, name)
            checked += 1
    assert checked == count


# --- The stores


@pytest.fixture(scope="module")
def synthetic_store() -> VintageStore:
    series = synthetic.generate()
    return VintageStore.from_tables(
        {item.meta[0].id: item.table for item in series}, [row for s in series for row in s.meta]
    )


@pytest.fixture(scope="module")
def real_store(real_data: Path) -> VintageStore:
    catalog = load_catalog(ROOT / "catalogs" / "us-macro.toml")
    panel = read_long(real_data / "us_panel_2016_2025.parquet", catalog)
    return VintageStore.from_tables(
        {info[0].id: table for info, table in panel}, [row for info, _ in panel for row in info]
    )


# --- The promise, on 5,000 draws of each


def test_no_draw_of_the_small_store_reads_the_future() -> None:
    check(small_store(), DRAWS, stage_every=4)


def test_no_draw_of_the_synthetic_store_reads_the_future(synthetic_store: VintageStore) -> None:
    check(synthetic_store, DRAWS, stage_every=40)


@pytest.mark.real
def test_no_draw_of_the_real_panel_reads_the_future(real_store: VintageStore) -> None:
    check(real_store, DRAWS, stage_every=40)


# --- The promise, with arguments of hypothesis's choice

SMALL = small_store()
FIRST, LAST = 15_000, 18_500  # before the first vintage of the small store, after its last
texts = st.text(st.characters(), max_size=30)
ids = st.one_of(st.sampled_from([*SMALL.series_ids, *ODD_IDS]), texts)
dates = st.one_of(
    st.integers(FIRST, LAST).map(iso), st.sampled_from(ODD_DATES), st.dates().map(str), texts
)
counts = st.one_of(st.integers(-10, 400), st.integers())
TOOL_CALLS = st.one_of(
    st.tuples(
        st.just("observations"),
        st.fixed_dictionaries(
            {"series_ids": st.one_of(ids, st.lists(ids, max_size=14))},
            optional={
                "units": st.one_of(st.sampled_from(UNITS), texts),
                "start": dates,
                "end": dates,
                "last": counts,
            },
        ),
    ),
    st.tuples(
        st.just("search"),
        st.fixed_dictionaries(
            {}, optional={"text": st.one_of(texts, st.sampled_from(WORDS)), "limit": counts}
        ),
    ),
    st.tuples(st.just("series"), st.fixed_dictionaries({"series_id": ids})),
    st.tuples(
        st.just("revisions"),
        st.fixed_dictionaries({"series_id": ids}, optional={"period": dates}),
    ),
    st.tuples(
        st.just("releases"), st.fixed_dictionaries({"series_id": ids}, optional={"last": counts})
    ),
)


@settings(max_examples=600, deadline=None)
@given(day=st.integers(FIRST, LAST), call=TOOL_CALLS)
def test_a_tool_answers_the_same_without_the_future(day: int, call: Call) -> None:
    expected = answer(SMALL.view(iso(day)), call).encode()
    assert answer(poisoned(SMALL, day).view(iso(day)), call).encode() == expected
    assert answer(truncated(SMALL, day).view(iso(day)), call).encode() == expected


@settings(max_examples=60, deadline=None)
@given(day=st.integers(FIRST, LAST))
def test_staged_files_are_the_same_without_the_future(day: int) -> None:
    expected = staged(SMALL.view(iso(day)))
    assert staged(poisoned(SMALL, day).view(iso(day))) == expected
    assert staged(truncated(SMALL, day).view(iso(day))) == expected


@settings(max_examples=150, deadline=None)
@given(
    day=st.integers(FIRST, LAST),
    name=st.sampled_from(["meta", "observations", "vintages", "revisions", "releases"]),
    key=ids,
    date=dates,
    units=st.one_of(st.sampled_from(UNITS), texts),
)
def test_a_view_raises_the_same_error_without_the_future(
    day: int, name: str, key: str, date: str | None, units: str
) -> None:
    def outcome(store: VintageStore) -> str:
        view = store.view(iso(day))
        arguments: dict[str, Any] = {"observations": {"start": date, "units": units}}.get(name, {})
        if name == "revisions":
            arguments = {"period": date or ""}
        try:
            return repr(getattr(view, name)(key, **arguments))
        except QueryError as error:
            return f"error: {error}"

    expected = outcome(SMALL)
    assert outcome(poisoned(SMALL, day)) == expected
    assert outcome(truncated(SMALL, day)) == expected


@pytest.mark.parametrize(
    ("key", "change"),
    [(row.id, row.valid_from) for row in SMALL._mapped.meta if row.valid_from],
)
def test_new_metadata_are_read_from_their_first_day_and_not_before(key: str, change: str) -> None:
    target = int(SMALL.changes(key).periods[-1])
    told = []
    for day in (to_days(change) - 1, to_days(change)):
        found = []
        for store in (SMALL, poisoned(SMALL, day), truncated(SMALL, day)):
            view = store.view(iso(day))
            texts = [served.series(view, key), served.search(view), str(served.staged_files(view))]
            contexts: tuple[prompts.Context, ...] = ("tools", "files", "prompt")
            texts += [prompts.build(view, key, target, "chg", context) for context in contexts]
            found.append(texts)
        assert found[0] == found[1] == found[2]
        told.append(found[0])
    assert all(before != after for before, after in zip(*told, strict=True))


# --- The comparison can fail


@pytest.mark.filterwarnings("ignore:overflow encountered")  # a sentinel to the fourth power
def test_a_reader_that_looks_ahead_is_caught_on_every_draw() -> None:
    stream = Stream(SMALL, SpaceConfig(split="all"))
    caught: set[str] = set()
    for n in range(300):
        draw = stream.draw(n)
        calls = calls_of(SMALL, draw)
        truth = reading(Peeking(SMALL), draw, stream, calls)
        poison = Peeking(poisoned(SMALL, draw.as_of))
        found = reading(poison, draw, stream, calls)
        different = {name.split()[-1] for name in truth if truth[name] != found[name]}
        if draw.release <= draw.as_of + 60:
            assert different, draw
            assert any(TRACES[1] in text or TRACES[0] in text for text in found.values())
        bare = reading(Peeking(truncated(SMALL, draw.as_of)), draw, stream, calls)
        caught |= different | {name.split()[-1] for name in truth if truth[name] != bare[name]}
    # The prompts of "tools" and "files" hold metadata only, and few of those change.
    assert caught >= {"data", *TOOLS}


@pytest.mark.parametrize("read", [levels, staged])
def test_a_reader_that_looks_ahead_is_caught_in_the_files(read: Callable[..., bytes]) -> None:
    for day in range(15_400, 16_400, 50):
        truth = read(Peeking(SMALL).view(iso(day)))
        assert read(Peeking(poisoned(SMALL, day)).view(iso(day))) != truth
        assert read(Peeking(truncated(SMALL, day)).view(iso(day))) != truth


def test_the_twins_differ_from_the_store_only_after_the_day() -> None:
    day = 16_000
    columns, poison = SMALL._mapped.columns, poisoned(SMALL, day)._mapped.columns
    later = columns.vintage > day
    assert (poison.value[later] == SENTINEL).all()
    assert np.array_equal(poison.value[~later], columns.value[~later], equal_nan=True)
    assert len(truncated(SMALL, day)._mapped.columns.value) == (~later).sum()
    assert truncated(SMALL, FIRST).series_ids == ()


# --- The release day


def test_neither_prompt_nor_state_depends_on_the_release_day() -> None:
    stream = Stream(SMALL, SpaceConfig(split="all"))
    for n in range(300):
        draw = stream.draw(n)
        units = stream.space.series[draw.series_id].role.transform
        for context in ("tools", "files", "prompt"):
            data = make_data(SMALL, draw, units, context=context)
            other = make_data(
                SMALL, replace(draw, release=draw.release + 500), units, context=context
            )
            assert other.horizon_days == data.horizon_days + 500
            assert other.model_copy(update={"horizon_days": data.horizon_days}) == data
            assert isinstance(data.prompt, str)
            told = set(re.findall(r"\d{4}-\d\d-\d\d", data.prompt)) - {data.reference_period}
            assert max(told, default="") <= data.as_of, (draw, context)
    assert "horizon_days" not in NowcastState.model_fields


# --- The shape of what is served


@pytest.mark.parametrize("model", [NowcastData, NowcastState])
def test_no_field_of_task_data_or_state_holds_an_outcome(model: Any) -> None:
    forbidden = ("first", "latest", "outcome", "outturn", "actual", "answer", "truth", "release")
    assert [name for name in model.model_fields if any(word in name for word in forbidden)] == []


def test_task_data_take_no_other_field() -> None:
    stream = Stream(SMALL, SpaceConfig(split="all"))
    draw = stream.draw(0)
    data = make_data(SMALL, draw, stream.space.series[draw.series_id].role.transform)
    assert set(data.model_dump()) == set(NowcastData.model_fields)


def test_no_argument_of_a_view_reaches_another_day() -> None:
    allowed = {"self", "series_id", "text", "start", "end", "units", "period"}
    methods = {
        name: set(inspect.signature(method).parameters)
        for name, method in inspect.getmembers(AsOfView, inspect.isfunction)
        if not name.startswith("_")
    }
    assert set(methods) == {
        "meta",
        "observations",
        "releases",
        "revisions",
        "search",
        "series",
        "vintages",
    }
    assert {name: found - allowed for name, found in methods.items() if found - allowed} == {}


def test_no_function_of_served_takes_more_than_a_view_and_what_a_tool_is_asked() -> None:
    for name, function in TOOLS.items():
        view, *arguments = inspect.signature(function).parameters
        tool = list(inspect.signature(getattr(tools.CatalogToolset, name)).parameters)
        assert view == "view"
        assert ["self", *arguments] == tool
        assert not {"as_of", "day", "date", "vintage", "realtime", "store"} & set(arguments)


# --- The tool server without a rollout

EVERY_CALL: list[Call] = [
    ("observations", {"series_ids": "EMP"}),
    ("search", {}),
    ("series", {"series_id": "EMP"}),
    ("revisions", {"series_id": "EMP"}),
    ("releases", {"series_id": "EMP"}),
]


@pytest.mark.parametrize("state", [{}, {"as_of": "2015-01-01"}, {"store": "0" * 64}])
@pytest.mark.parametrize("call", EVERY_CALL, ids=[name for name, _ in EVERY_CALL])
def test_the_tool_server_refuses_a_call_without_a_day_and_opens_nothing(
    state: dict[str, str], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("the store was opened for a call of no rollout")

    monkeypatch.setattr(tools, "opened", refuse)
    monkeypatch.setattr(tools, "store_uri", refuse)
    server = tools.CatalogToolset(tools.CatalogToolsetConfig())
    for name, value in state.items():
        setattr(server.state, name, value)
    name, arguments = call
    assert asyncio.run(getattr(server, name)(**arguments)) == tools.REFUSED
    assert server.state.lookups == 0


def test_the_tool_server_answers_for_the_day_of_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "opened", lambda uri, fingerprint: SMALL)
    monkeypatch.setattr(tools, "store_uri", lambda configured: os.devnull)
    server = tools.CatalogToolset(tools.CatalogToolsetConfig())
    server.state.store = SMALL.fingerprint
    for lookups, day in enumerate(range(15_400, 17_400, 100)):
        server.state.as_of = iso(day)
        name, arguments = call = EVERY_CALL[lookups % len(EVERY_CALL)]
        found = asyncio.run(getattr(server, name)(**arguments))
        assert found == answer(truncated(SMALL, day).view(iso(day)), call)
        assert server.state.lookups == lookups + 1
