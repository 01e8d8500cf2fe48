"""Does anything served depend on the future? Every tool, prompt and staged file, on three stores.

For a sample of draws, the task is built and set up as in a rollout, and every tool of the real
toolset is asked honest and adversarial questions on the state that set-up left: on the store, on a
twin whose later values are a sentinel, and on a twin without later rows. Any byte that differs
depends on the future. Each tool is asked by a rollout of a later day first, so that one which
keeps its answers shows it. Apart from that, no answer may hold a row of the period asked for, and
a call whose state has no day must be refused.

A tool server with a `url` of its own runs elsewhere, on code and a store that cannot be seen from
here: the tools of this installation are asked, and what is served there counts as not checked.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import re
import tarfile
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from .. import prompts
from ..data import NowcastState
from ..periods import UNITS, iso
from ..store import VintageStore
from ..stream import Draw, Stream, describe
from ..task import NowcastTask
from ..taskset import NowcastTaskset
from .audit_case import Case, Finding, Step
from .audit_twins import SENTINEL, SENTINEL_WORD, deleted, placed, replaced

ROUTE = "the tool server, the prompt and the staged files"
SAMPLE = 40
TRACES = (f"{SENTINEL:.8g}", f"{SENTINEL:.0f}"[:8], SENTINEL_WORD.lower())

Call = tuple[str, dict[str, Any]]
Tools = dict[str, Callable[..., Any]]


def check(case: Case, step: Step, sample: int) -> Finding:
    """Compare what the agents of some draws are served with what both twins serve them."""
    draws = case.spread(sample)
    served = 0
    faults: list[str] = []
    for draw in draws:
        calls = calls_of(case, draw)
        texts = served_by(case, draw, case.store, calls)
        served += len(texts)
        own = visible_id(texts["prompt tools"])
        faults += [
            f"{name} gives the period asked for: {describe(draw)}"
            for name, text in texts.items()
            if tells(text, own, iso(draw.period))
        ]
        for kind, twin in (("replaced", replaced), ("deleted", deleted)):
            other = served_by(case, draw, twin(case.store, draw.as_of), calls)
            for name in texts | other:
                found = other.get(name, "")
                if found != texts.get(name):
                    seen = any(trace in found.lower() for trace in TRACES)
                    how = "shows" if seen else "changes with"
                    faults.append(f"{name} {how} later rows, {kind}: {describe(draw)}")
        step()
    faults += [f"{name} answers without an as-of date" for name in unrefused(case)]
    names = sorted({fault.split(" ")[0] for fault in faults})
    evidence: dict[str, Any] = {"draws": len(draws), "texts": served, "differences": len(faults)}
    if faults:
        evidence |= {"where": names, "first": faults[0]}
    advice = ["make what an agent reads from the AsOfView and nothing else"] if faults else []
    if away := elsewhere(case):
        evidence["tool servers not asked"] = away
        advice.append(
            f"the tools at {', '.join(away)} were not asked, only those of this installation: run "
            "the audit where that server runs, on its store and without url, or leave url out, so "
            "that the run starts its own"
        )
    return Finding(
        ROUTE,
        "open" if faults else "not checked" if away else "closed",
        "all later rows replaced by a sentinel, and deleted: every byte served must stay the same; "
        "calls without an as-of date must be refused",
        evidence,
        "; ".join(advice),
    )


def elsewhere(case: Case) -> list[str]:
    """The addresses of tool servers that the run does not start itself."""
    config = case.taskset.config
    servers: list[Any] = [
        *type(case.taskset).toolsets(config),
        *NowcastTask.toolsets(config.task),
    ]
    urls = [getattr(server.config, "url", None) for server in servers]
    return sorted({bare_address(url) for url in urls if url})


def bare_address(url: str) -> str:
    """An address without user, password, query and fragment.

    >>> bare_address("https://me:word@host:80/mcp?key=1")
    'https://host:80/mcp'
    """
    start = url.find("://") + 3 if "://" in url else 0
    return url[:start] + re.split("[?#]", url[start:])[0].rpartition("@")[2]


def served_by(case: Case, draw: Draw, store: VintageStore, calls: list[Call]) -> dict[str, str]:
    """All that the agent of a draw can read from a store, by name."""
    texts: dict[str, str] = {}
    state = NowcastState()
    with placed(store) as uri:
        for context in get_args(prompts.Context):
            try:
                task = task_of(case, draw, store, uri, context)
                state, files = asyncio.run(set_up(task))
            except Exception as error:  # what needs later rows fails where there are none
                texts[f"prompt {context}"] = f"{type(error).__name__}: {error}"
                continue
            texts[f"prompt {context}"] = str(task.data.prompt)
            texts[f"data {context}"] = task.data.model_dump_json()
            texts[f"state {context}"] = state.model_dump_json()
            texts |= {f"file {context} {name}": text for name, text in files.items()}
        later = tools_of(case, uri, state.model_copy(update={"as_of": iso(draw.release + 40)}))
        for name, arguments in dict(reversed(calls)).items():  # the plainest call of each tool
            ask(later, name, arguments)
        tools = tools_of(case, uri, state)
        for name, arguments in calls:
            texts[f"{name} {arguments}"] = ask(tools, name, arguments)
    mark = case.store.fingerprint
    return {name: text.replace(store.fingerprint, mark) for name, text in texts.items()}


def task_of(case: Case, draw: Draw, store: VintageStore, uri: str, context: str) -> NowcastTask:
    """The task of a draw as its taskset builds it, but from this store at this place."""
    config = case.taskset.config.model_copy(update={"context": context})
    space = SimpleNamespace(store=store, series=case.stream.space.series)
    stream = SimpleNamespace(space=space, name=case.stream.name, draw=case.stream.draw)
    data = NowcastTaskset(config).builder(cast(Stream, stream))(draw.n)
    return NowcastTask(data, config.task.model_copy(update={"store": uri, "context": context}))


class Box:
    """A runtime that keeps what is written to it."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    async def write(self, name: str, data: bytes) -> None:
        """Keep a file, or those of an archive."""
        if not name.endswith(".tar"):
            self.files[name] = data.decode(errors="replace")
            return
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for member in tar:
                content = tar.extractfile(member)
                self.files[member.name] = content.read().decode() if content else ""

    async def run(self, command: list[str], environment: dict[str, str]) -> Any:
        """Run nothing, with success."""
        return SimpleNamespace(exit_code=0, stdout="", stderr="")


async def set_up(task: NowcastTask) -> tuple[NowcastState, dict[str, str]]:
    """The state and the files as a task's set-up leaves them."""
    trace, box = SimpleNamespace(state=NowcastState(), info={}), Box()
    await task.setup(cast(Any, trace), cast(Any, box))
    return trace.state, box.files


def tools_of(case: Case, uri: str, state: NowcastState) -> Tools:
    """The tools of every tool server of the taskset, as they are in a call that brings a state."""
    config = case.taskset.config
    servers: list[Any] = [
        *type(case.taskset).toolsets(
            config.model_copy(
                update={
                    "store": uri,
                    "context": "tools",
                    "tools": config.tools.model_copy(update={"store": uri, "url": None}),
                }
            )
        ),
        *NowcastTask.toolsets(config.task.model_copy(update={"store": uri})),
    ]
    found: Tools = {}
    for server in servers:
        for name, value in state:
            if hasattr(server.state, name):
                setattr(server.state, name, value)
        for name, method in inspect.getmembers(type(server), inspect.isfunction):
            if hasattr(method, "tool"):  # the mark of `vf.tool`
                shown = f"{type(server).__name__}.{name}" if name in found else name
                found[shown] = getattr(server, name)
    return found


def ask(tools: Tools, name: str, arguments: dict[str, Any]) -> str:
    """The answer to a tool call; an exception is an answer too, as verifiers passes it on."""

    async def call() -> str:
        return str(await tools[name](**arguments))

    try:
        return asyncio.run(call())
    except Exception as error:
        return f"error: {type(error).__name__}: {error}"


def calls_of(case: Case, draw: Draw) -> list[Call]:
    """What an agent may ask each tool: each argument alone, then several at once."""
    with placed(case.store) as uri:
        task = task_of(case, draw, case.store, uri, case.taskset.config.context)
        tools = tools_of(case, uri, asyncio.run(set_up(task))[0])
        listed = ask(tools, "search", {"text": "", "limit": 40})
    own = visible_id(str(task.data.prompt)) or draw.series_id
    ids = [line.split(" | ")[0] for line in listed.splitlines() if " | " in line] or [own]
    other = ids[draw.n % len(ids)]
    choices = choices_of(draw, own, other, ids)
    calls: list[Call] = []
    for name, method in tools.items():
        values, needed = values_for(method, choices)
        alone = [{**needed, key: value} for key, of in values.items() for value in of]
        most = max(map(len, values.values()), default=0)
        together = [{key: of[i % len(of)] for key, of in values.items()} for i in range(most)]
        calls += [(name, arguments) for arguments in (needed, *alone, *together)]
    return calls


def values_for(
    method: Callable[..., Any], choices: dict[str, list[Any]]
) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """The values to try for each argument of a tool, and its plainest call."""
    parameters = inspect.signature(method).parameters.values()
    hints = get_type_hints(method)
    values = {
        p.name: choices.get(p.name) or [*listed_in(hints.get(p.name)), *UNKNOWN] for p in parameters
    }
    return values, {p.name: values[p.name][0] for p in parameters if p.default is p.empty}


def listed_in(hint: Any) -> list[Any]:
    """The values that a type lists: those of every `Literal` in it."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [value for part in get_args(hint) for value in listed_in(part)]


UNKNOWN: list[Any] = ["9999-12-31", 10**9, "", None, True, "latest", "all"]
"""What is tried for an argument of a name not known here, beside what its type lists."""


def choices_of(draw: Draw, own: str, other: str, ids: list[str]) -> dict[str, list[Any]]:
    """Values to try by name of argument: honest ones first, then those of one who looks ahead.

    Small integers as text are the dates of opaque tasks.
    """
    ahead = [iso(draw.as_of + 1), iso(draw.release), iso(draw.release + 40), "9999-12-31", "1"]
    dates = [None, *ahead, iso(draw.period), "-3", "yesterday"]
    counts = [12, 1, 10**9, 0, -5]
    return {
        "series_ids": [own, [own, other], ids[:12], ["NOPE", "../../etc/passwd"]],
        "series_id": [own, other, "NOPE", "../../etc/passwd"],
        "units": [*UNITS, "level"],
        "start": dates,
        "end": dates[::-1],
        "period": [iso(draw.period), *dates],
        "text": ["", own, "release", SENTINEL_WORD],
        "last": counts,
        "limit": counts,
        "skip": counts,
    }


def visible_id(prompt: str) -> str:
    """The id that a prompt gives its series; empty if it gives none."""
    found = re.search(r"^Series: (\S+)", prompt, re.MULTILINE)
    return found.group(1) if found else ""


def tells(answer: str, own: str, period: str) -> bool:
    """Whether an answer of a tool has a row of the period asked for, in a block of its series."""
    blocks = answer.split("\n\n")
    return any(block.startswith(f"{own} |") and f"\n{period}," in block for block in blocks)


def unrefused(case: Case) -> list[str]:
    """Tools that answer a call whose state has no day, or names no store."""
    day, key = iso(case.draws[0].as_of), case.draws[0].series_id
    states = [NowcastState(), NowcastState(as_of=day), NowcastState(store=case.store.fingerprint)]
    choices = choices_of(case.draws[0], key, key, [key])
    answered = set()
    for tools in [tools_of(case, case.uri, state) for state in states]:
        for name, method in tools.items():
            _, needed = values_for(method, choices)
            if not ask(tools, name, needed).startswith("error:"):
                answered.add(name)
    return sorted(answered)
