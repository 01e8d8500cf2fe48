"""Does a task, its state or its trace hold the answer? Every field against the first release.

What crosses the wire to env workers, what the tool server is told and what a trace holds before
the agent has ended is taken apart into its numbers, those in texts included. A number that is the
first release now and then is chance; in more than half of the draws in which the view does not
hold it anyway, it is the answer. The words about a series (title, units and the like) are looked
through for every draw: they are no vintages, so a number written into them is there on any day.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf

from ..data import NowcastData, NowcastState
from ..periods import Units, iso
from ..rewards import outcome
from ..store.schema import SeriesMeta
from ..stream import Draw, describe
from ..task import NowcastTask
from .audit_case import Case, Finding, Step
from .audit_files import DATES
from .audit_served import Box

ROUTE = "the task channel and the trace"
SAMPLE = 200
RECENT = 36
LEAST = 3
KNOWN = {
    NowcastData: set(vf.TaskData.model_fields)
    | {"series_id", "title", "as_of", "reference_period", "period_label", "frequency", "transform"}
    | {"units", "horizon_days", "baseline", "baseline_name", "scale", "scale_name", "store"}
    | {"stream", "draw", "opaque", "shown"},
    NowcastState: set(vf.State.model_fields) | {"as_of", "series_id", "store", "lookups", "opaque"},
}
"""The fields looked at by those who designed them; others are named."""
BASE = re.compile(r"[-+]?(?:100|1[89]\d\d|20\d\d)")
NUMBERS = re.compile(r"[-+\u2212]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def check(case: Case, step: Step, sample: int = SAMPLE) -> Finding:
    """Look for the first release in every field of data, state and trace."""
    hits: Counter[str] = Counter()
    examples: dict[str, str] = {}
    strange: set[str] = set()
    looked = 0
    data_of = case.taskset.builder(case.stream)
    for draw in case.spread(sample):
        data = data_of(draw.n)
        y = outcome(data, case.uri).first
        trace = trace_of(NowcastTask(data, case.taskset.config.task))
        records: tuple[Any, ...] = (data, trace.state)
        strange |= {
            f"{type(record).__name__}.{name}" for record in records for name in unexpected(record)
        }
        if not foreseen(case, draw, data.transform, y):
            looked += 1
            told_as = {y, data.shown.shown(y) if data.shown else y}
            for name in fields_with(told_as, {"trace": trace, "state": trace.state}):
                hits[name] += 1
                examples.setdefault(name, f"{name} holds {y:.8g}: {describe(draw)}")
        step()
    words = hinted(case)
    told = [name for name, count in hits.items() if count >= LEAST and 2 * count > looked]
    most = max(hits.values(), default=0) / looked if looked else 0.0
    evidence: dict[str, Any] = {"draws": looked, "largest share of any field": round(most, 3)}
    if strange:
        evidence["fields not known here"] = sorted(strange)
    if told:
        evidence |= {"fields": sorted(told), "first": examples[min(told)]}
    if words:
        evidence |= {"metadata": words[:20]}
    advice = []
    if told:
        advice.append(
            "take the outcome out of what is built before the agent has ended; scoring reads the "
            "store"
        )
    if words:
        advice.append("write the metadata without the number, or date it with valid_from")
    return Finding(
        ROUTE,
        "open" if advice else "closed" if looked >= LEAST else "not checked",
        "numbers of every field of TaskData, State and the trace after set-up, and of the "
        "metadata, against the first release, where the view does not hold it",
        evidence,
        "; ".join(advice),
    )


def hinted(case: Case) -> list[str]:
    """The draws whose first release stands in the words about their series on that day."""
    found = []
    for draw in case.draws:
        meta = case.store.meta_on(draw.series_id, draw.as_of)
        said = [float(text.replace("\u2212", "-")) for text in telling(" ".join(texts_of(meta)))]
        if not said:
            continue
        units = case.stream.space.series[draw.series_id].role.transform
        y = case.store.outcome(draw.series_id, draw.period, units).first
        if any(same(y, number) for number in said) and not foreseen(case, draw, units, y):
            found.append(f"{y:.8g}: {describe(draw)}")
    return found


def texts_of(meta: SeriesMeta) -> list[str]:
    """The words about a series that an agent can read."""
    return [meta.title, meta.units, meta.seasonal_adjustment, meta.release, meta.category]


def telling(text: str) -> list[str]:
    """The numbers of a text with three digits and more, without base years and their 100.

    >>> telling("Jobs (353 in 2024-01), Index 2017=100")
    ['353']
    """
    return [
        number
        for number in NUMBERS.findall(DATES.sub(" ", text))
        if len(number.lstrip("+-\u22120.").replace(".", "")) >= 3 and not BASE.fullmatch(number)
    ]


def trace_of(task: NowcastTask) -> Any:
    """The trace of a task as its set-up leaves it."""
    record: Any = vf.TraceTask(type="NowcastTask", data=task.data, key=task.key, hash=task.hash)
    info = vf.AgentInfo(config=vf.AgentConfig())
    trace: Any = vf.Trace(task=record, agent=info, state=NowcastState())
    asyncio.run(task.setup(trace, Box()))  # type: ignore[arg-type]
    return trace


def unexpected(record: Any) -> list[str]:
    """The fields of a record that are not known here."""
    known = next(names for kind, names in KNOWN.items() if isinstance(record, kind))
    return [name for name in record.model_dump() if name not in known]


def foreseen(case: Case, draw: Draw, units: Units, y: float) -> bool:
    """Whether the view's newest values hold a number that is the outcome anyway."""
    known = case.store.view(iso(draw.as_of)).observations(draw.series_id, units=units)
    return any(same(y, number) for number in known.value[-RECENT:].tolist())


def fields_with(answers: set[float], records: dict[str, Any]) -> set[str]:
    """The fields of some records, at most three names deep, that hold one of some numbers."""
    found = set()
    for name, record in records.items():
        for path, number in numbers_in(record.model_dump(mode="json"), (name,)):
            if any(same(y, number) for y in answers):
                found.add(".".join(path[1:4] if name == "trace" else path[:3]))
    return found


def numbers_in(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every number in a record, those in its texts included, with the names that lead to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers_in(inner, (*path, str(key)))
    elif isinstance(value, list):
        for inner in value:
            yield from numbers_in(inner, path)
    elif isinstance(value, str):
        yield from ((path, float(text.replace("\u2212", "-"))) for text in NUMBERS.findall(value))
    elif isinstance(value, int | float):
        yield path, float(value)


def same(y: float, number: float) -> bool:
    """Whether a number is the outcome as printed to eight digits."""
    return math.isclose(y, number, rel_tol=1e-7, abs_tol=1e-12)
