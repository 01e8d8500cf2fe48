"""The tool server against arguments, states and stores that nobody honest sends.

An answer to a wrong question is one line that starts with `error:`; nothing in it depends on what
is known only later; no argument ever becomes a path; and no file of a store runs anything. The
server as a process is in `test_tool_server`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from crowd import Call
from nowcast_alfred import served, tools
from nowcast_alfred.data import NowcastState
from nowcast_alfred.opaque import agent_view
from nowcast_alfred.periods import UNITS, iso, to_days
from nowcast_alfred.store import AsOfView, VintageStore, publish
from nowcast_alfred.tools import REFUSED, UNREADABLE, CatalogToolset, CatalogToolsetConfig
from panels import meta, small_inputs, small_store, store_of
from test_leaks import TOOLS, poisoned, truncated

SOURCES = Path(__file__).resolve().parents[1] / "src"
SMALL = small_store()
DAY = "2014-06-30"
LONGEST_REFUSAL = 1000
"""Bytes; a refusal repeats at most 64 letters of what was asked, each at most ten when escaped."""
nan, inf = float("nan"), float("inf")
LONG = "9" * 1_000_000


def published(root: Path) -> str:
    """The small store on disk."""
    publish(root, small_inputs())
    return str(root)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    return published(tmp_path_factory.mktemp("store"))


# --- Arguments

Wrong = list[Any]
NO_IDS: Wrong = [
    *[
        "",
        " ",
        "NOPE",
        "emp",
        "EMP ",
        "EMP\n",
        "EMP\0",
        "E\u200bMP",
        "\u0415\u041c\u0420",
        "EMP%00",
    ],
    *["\u202eEMP", "\ud800", "\U000e0001" * 99, "\x1b[2J", "error: EMP | 1", "A" * 1_000_000],
    *["../EMP", "../../etc/passwd", "/etc/passwd", "..\\EMP", "file:///etc/passwd", "EMP/../EMP"],
]
NO_TEXT: Wrong = [None, True, 0, 7, -1, 10**400, 1.5, nan, inf, [], ["EMP"], {"id": "EMP"}]
NO_DATES: Wrong = [
    *["yesterday", "2020-13-01", "2020-02-30", "2020-1-1", "2020-01-01T00:00", "2020-01-01\0"],
    *["\uff12\uff10\uff12\uff10-01-01", "../../../x", "2020/01/01", "+020-01-01", "\u202e", LONG],
    *["\ud800-01-01-1", "0000-01-01", "1e9", "nan", "-", "t", "99999999999999999999"],
]
NO_COUNTS: Wrong = [
    *[None, True, False, nan, inf, -inf, 2.5, -1, -(10**400), -1.0, "", "x", "2.5", "0x10", "1e9"],
    *["\uff12", "\u0662", "nan", "-1", LONG, "1" * 19, [], [3], {"last": 3}],
]
WRONG: dict[tuple[str, str], Wrong] = {
    ("observations", "series_ids"): [
        *[*NO_IDS, *NO_TEXT[:9], [], {}, {"EMP": 1}, [["EMP"]], ["EMP", None], ["EMP", 5]],
        *[[f"X{n}" for n in range(10_000)], list(range(10_000))],
    ],
    ("observations", "units"): [*NO_TEXT, "", "LIN", "lin ", "lin\0", "\u202elin", "u" * 1_000_000],
    ("observations", "start"): [*NO_TEXT[1:], *NO_DATES],
    ("observations", "end"): [*NO_TEXT[1:], *NO_DATES],
    ("observations", "last"): [0, *NO_COUNTS],
    ("search", "text"): NO_TEXT,
    ("search", "limit"): [0, *NO_COUNTS],
    ("search", "skip"): NO_COUNTS,
    ("series", "series_id"): [*NO_IDS, *NO_TEXT],
    ("revisions", "series_id"): [*NO_IDS, *NO_TEXT],
    ("revisions", "period"): [*NO_TEXT[1:], *NO_DATES],
    ("releases", "series_id"): [*NO_IDS, *NO_TEXT],
    ("releases", "last"): [0, *NO_COUNTS],
}


def honest(view: AsOfView) -> dict[str, dict[str, Any]]:
    """A good call of each tool on a view."""
    one = {"series_id": view.series()[0].id}
    return {
        "observations": {"series_ids": one["series_id"]},
        **{"search": {}, "series": one, "revisions": one, "releases": one},
    }


def view_of(store: VintageStore, kind: str, day: str = DAY) -> AsOfView:
    return agent_view(store.view(day), "a key" if kind == "opaque" else None)


def is_refusal(answer: str) -> bool:
    """One short line that can be printed as it is."""
    short = len(answer.encode()) <= LONGEST_REFUSAL
    return answer.startswith("error: ") and answer.isprintable() and short


def test_every_argument_of_every_tool_is_tried() -> None:
    asked = {(name, each) for name, tool in TOOLS.items() for each in arguments_of(tool)}
    assert set(WRONG) == asked


def arguments_of(tool: Callable[..., str]) -> list[str]:
    import inspect

    return list(inspect.signature(tool).parameters)[1:]


@pytest.mark.parametrize("kind", ["plain", "opaque"])
@pytest.mark.parametrize(("tool", "argument"), WRONG)
def test_a_wrong_argument_gets_one_short_line_without_a_later_fact(
    tool: str, argument: str, kind: str
) -> None:
    stores = (SMALL, poisoned(SMALL, to_days(DAY)), truncated(SMALL, to_days(DAY)))
    views = [view_of(store, kind) for store in stores]
    good = honest(views[0])[tool]
    for value in WRONG[tool, argument]:
        answer, *others = [TOOLS[tool](view, **{**good, argument: value}) for view in views]
        assert is_refusal(answer), (value, answer[:300])
        assert others == [answer, answer], value


@pytest.mark.parametrize("kind", ["plain", "opaque"])
def test_a_good_call_beside_them_is_answered(kind: str) -> None:
    view = view_of(SMALL, kind)
    assert not [name for name, of in honest(view).items() if is_refusal(TOOLS[name](view, **of))]


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.lists(st.one_of(st.text(), st.integers(), st.none()), max_size=20),
    st.dictionaries(st.text(), st.integers(), max_size=2),
    st.sampled_from(["EMP", "LATE", "lin", "pch", "2014-01-01", "-3", "12", ["EMP", "SALES"]]),
)


@given(data=st.data(), kind=st.sampled_from(["plain", "opaque"]), tool=st.sampled_from(list(TOOLS)))
@settings(max_examples=400, deadline=None)
def test_whatever_is_asked_gets_a_bounded_answer_that_no_later_row_changes(
    data: st.DataObject, kind: str, tool: str
) -> None:
    view, bare = view_of(SMALL, kind), view_of(BARE, kind)
    names = arguments_of(TOOLS[tool])
    asked = {**honest(view)[tool], **data.draw(st.dictionaries(st.sampled_from(names), JUNK))}
    answer = TOOLS[tool](view, **asked)
    assert answer == TOOLS[tool](bare, **asked)
    assert len(answer.encode()) <= served.MAX_BYTES
    blocks = answer.split("\n\n")
    assert all(is_refusal(block) for block in blocks if block.startswith("error:"))


BARE = truncated(SMALL, to_days(DAY))


def test_a_refusal_names_the_argument_and_lists_the_choices() -> None:
    view = SMALL.view(DAY)
    assert served.observations(view, "EMP", "LIN").endswith(f"one of {', '.join(UNITS)}")
    assert "'NOPE' is known on 2014-06-30; search lists those" in served.series(view, "NOPE")
    assert "write it as YYYY-MM-DD" in served.revisions(view, "EMP", "x")
    for answer in (served.releases(view, "EMP", 0), served.observations(view, "EMP", last=True)):
        assert answer == "error: last must be a whole number, 1 or more"
    assert served.search(view, skip=-1) == "error: skip must be a whole number, 0 or more"
    assert served.search(view, 5) == "error: text must be text, not int"  # type: ignore[arg-type]
    many = [f"X{n}" for n in range(13)]
    assert served.observations(view, many) == "error: 13 series asked for; at most 12 a call"


def test_numbers_that_agents_write_in_quotes_or_with_a_point_are_numbers() -> None:
    view = SMALL.view(DAY)
    for last in ("7", " 7 ", 7.0, "7.0", "+7"):
        assert served.observations(view, "EMP", last=last) == served.observations(  # type: ignore[arg-type]
            view, "EMP", last=7
        )
    assert served.search(view, limit=10**400) == served.search(view, limit=served.MAX_MATCHES)
    assert served.observations(view, "EMP", start="") == served.observations(view, "EMP")


# --- Over MCP


def offered(server: CatalogToolset) -> MCPServer:
    mcp = MCPServer("catalog")
    server.register(mcp)
    return mcp


def over_mcp(name: str, arguments: dict[str, Any]) -> str:
    """The answer to a call of no rollout, or the text of the error that MCP answers with."""

    async def call() -> str:
        server = offered(CatalogToolset(CatalogToolsetConfig()))
        return text_of(await server.call_tool(name, arguments))

    return asyncio.run(call())


def text_of(result: Any) -> str:
    return "\n".join(part.text for part in result.content)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("series", {}),
        ("releases", {"last": 3}),
        ("observations", {"series_ids": "[" * 500_000}),
        ("observations", {"series_ids": "9" * 5_000}),
        ("nothing", {}),
        ("no\x1b[2J\n\u202etool" + "x" * 1_000_000, {}),
        ("\ud800", {}),
    ],
    ids=["missing", "missing too", "deep", "digits", "unknown", "long name", "surrogate"],
)
def test_what_mcp_refuses_is_one_short_line_too(name: str, arguments: dict[str, Any]) -> None:
    try:
        said = over_mcp(name, arguments)  # newer MCPs leave what is no JSON to our own checks
    except ToolError as error:
        said = str(error)
    assert is_refusal(said)
    assert "Traceback" not in said


@pytest.mark.parametrize("argument", [None, 5, True, nan, {"a": [1]}, "[1, 2]", '{"a": 1}'])
def test_mcp_lets_any_type_through_to_our_own_checks(argument: Any) -> None:
    assert over_mcp("observations", {"series_ids": argument, "last": argument}) == REFUSED


def test_the_agent_is_shown_types_and_defaults_as_before() -> None:
    async def listed() -> dict[str, dict[str, Any]]:
        found = await offered(CatalogToolset(CatalogToolsetConfig())).list_tools()
        return {tool.name: tool.input_schema for tool in found}

    schemas = asyncio.run(listed())
    text, count, maybe = {"type": "string"}, {"type": "integer"}, [{"type": "string"}]
    maybe_text: dict[str, Any] = {"anyOf": [*maybe, {"type": "null"}], "default": None}
    several = {"anyOf": [{"type": "array", "items": text}, text]}
    assert {name: shown(schema) for name, schema in schemas.items()} == {
        "observations": {
            "series_ids": several,
            "units": {**text, "default": "lin"},
            "start": maybe_text,
            "end": maybe_text,
            "last": {**count, "default": 36},
        },
        "search": {
            "text": {**text, "default": ""},
            "limit": {**count, "default": 20},
            "skip": {**count, "default": 0},
        },
        "series": {"series_id": text},
        "revisions": {"series_id": text, "period": maybe_text},
        "releases": {"series_id": text, "last": {**count, "default": 12}},
    }
    required = {name: schema.get("required", []) for name, schema in schemas.items()}
    one = ["series_id"]
    assert required == {
        **{"observations": ["series_ids"], "search": []},
        **{"series": one, "revisions": one, "releases": one},
    }


def shown(schema: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, dict[str, Any]] = schema["properties"]
    return {name: {k: v for k, v in of.items() if k != "title"} for name, of in fields.items()}


# --- The size of an answer


def wide_store(words: str) -> VintageStore:
    """Thirty daily series of numbers as long as they get, with metadata full of some words."""
    days = [iso(day) for day in range(to_days("2012-01-02"), to_days("2012-12-01"))]
    rows = [(day, day, -1.2345678e-300 * (n + 1)) for n, day in enumerate(days)]
    revised = [(days[0], day, -1.2345678e-300 * n) for n, day in enumerate(days[1:], 9999)]
    ids = [f"{'W' * 60}{n:04d}" for n in range(60)]
    text = {"title": words, "units": words, "release": words, "category": words}
    return store_of(
        *((meta(key, "d", seasonal_adjustment=words, **text), [*rows, *revised]) for key in ids)
    )


def largest_answers(store: VintageStore) -> dict[str, str]:
    """The answers of the tools that are asked for as much as they give."""
    view = store.view("2013-01-01")
    ids = list(store.series_ids)
    return {
        "observations": served.observations(view, ids[:12], "ch1", last=10**9),
        "one": served.observations(view, ids[0], last=10**9),
        "search": served.search(view, limit=10**9),
        "series": served.series(view, ids[0]),
        "revisions": served.revisions(view, ids[0], "2012-01-02"),
        "releases": served.releases(view, ids[0], 10**9),
    }


def test_the_largest_answers_are_far_below_the_bound() -> None:
    sizes = {key: len(x.encode()) for key, x in largest_answers(wide_store("w " * 100)).items()}
    assert max(sizes.values()) == sizes["search"]
    assert sizes["search"] < served.MAX_BYTES / 2
    assert sizes["revisions"] > served.MAX_ROWS * len("2012-01-02,-1.2345678e-300")


@pytest.mark.parametrize("words", ["w" * 100_000, "\u20ac\n" * 50_000])
def test_metadata_of_any_length_do_not_lengthen_an_answer(words: str) -> None:
    for answer in largest_answers(wide_store(words)).values():
        cut = served.bounded(answer)
        assert len(cut.encode()) <= served.MAX_BYTES
        kept, _, remark = cut.rpartition("\n")
        assert cut == answer or (answer.startswith(kept) and remark.startswith("(cut: an answer"))


def test_a_tool_call_is_cut_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    store = wide_store("w" * 100_000)
    monkeypatch.setattr(tools, "opened", lambda uri, fingerprint: store)
    said = ask(NowcastState(as_of="2013-01-01", store=store.fingerprint), ("search", {}))
    assert said == served.bounded(served.search(store.view("2013-01-01")))
    assert len(said.encode()) <= served.MAX_BYTES


# --- The state


def ask(state: NowcastState, call: Call, uri: str | None = None) -> str:
    """A call on a server that holds some state."""
    server = CatalogToolset(CatalogToolsetConfig(store=uri or os.devnull))
    for name, value in state:
        setattr(server.state, name, value)
    return str(asyncio.run(getattr(server, call[0])(**call[1])))


CALLS: list[Call] = [(name, arguments) for name, arguments in honest(SMALL.view(DAY)).items()]


@pytest.mark.parametrize(
    "as_of",
    [
        *["", " ", "latest", "2014-13-01", "2014-06-30T00:00", "2014-06-30\n", "../2014-06-30"],
        *["0001-01-01", "1970-01-01", "2030-01-01", "2999-12-31", "9999-12-31"],
    ],
)
def test_a_day_that_no_task_can_have_is_refused(as_of: str, place: str) -> None:
    for call in CALLS:
        assert ask(NowcastState(as_of=as_of, store=SMALL.fingerprint), call, place) == REFUSED


def test_the_first_and_the_last_day_of_a_store_are_answered(place: str) -> None:
    first, last = tools._span(SMALL)
    call: Call = ("search", {})
    for day in (first, last, last + 9 * 366):
        said = ask(NowcastState(as_of=iso(day), store=SMALL.fingerprint), call, place)
        assert said == served.search(SMALL.view(iso(day)))
    before = NowcastState(as_of=iso(first - 1), store=SMALL.fingerprint)
    assert ask(before, call, place) == REFUSED


def test_whether_a_day_is_refused_does_not_depend_on_what_comes_after_it() -> None:
    first, last = tools._span(SMALL)
    for day in [*range(first, last, 97), last, last + 3000, last + 5000]:
        assert tools._can_be_asked(truncated(SMALL, day), iso(day)) == tools._can_be_asked(
            SMALL, iso(day)
        )


@pytest.mark.parametrize(
    "mark",
    [
        *["", "0" * 63, "0" * 65, "0" * 64 + "\n", "A" * 64, "g" * 64, SMALL.fingerprint[:12]],
        *["../../../../../etc/passwd", f"../manifests/{SMALL.fingerprint}", "\0" * 64],
    ],
)
def test_a_fingerprint_that_is_none_opens_nothing(
    mark: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("the store was opened")

    monkeypatch.setattr(tools, "opened", refuse)
    for call in CALLS:
        assert ask(NowcastState(as_of=DAY, store=mark), call, place) == REFUSED


def test_an_unknown_version_is_told_to_the_log_and_not_to_the_agent(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    for call in CALLS:
        assert ask(NowcastState(as_of=DAY, store="0" * 64), call, place) == UNREADABLE
    assert SMALL.fingerprint in caplog.text
    assert place in caplog.text


def test_a_fault_while_answering_is_told_to_the_log_and_not_to_the_agent(
    place: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(view: AsOfView, series_id: str) -> str:
        raise RuntimeError(f"the next value of {series_id} is 4711")

    monkeypatch.setattr(served, "series", broken)
    state = NowcastState(as_of=DAY, store=SMALL.fingerprint)
    assert ask(state, ("series", {"series_id": "EMP"}), place) == UNREADABLE
    assert "4711" in caplog.text
