"""Does a task, its state or its trace hold the answer? Every field against the first release.

What crosses the wire to env workers, what the tool server is told and what a trace holds before
the agent has ended is taken apart into its numbers, those in texts included. Each is compared with
the first release at the precision it is written with. A number that is the first release now and
then is chance; in more than half of the draws that can tell, it is the answer. A draw cannot tell
for a field whose number a value of the view rounds to as well, or whose number has one digit. The
words about a series (title, units and the like) are looked through for every draw, to eight
digits: they are no vintages, so a number written into them is there on any day.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
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
from .audit_numbers import FEWEST, NUMBERS, Printed, numbers_in, same, ungrouped
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
Answers = list[tuple[float, list[float]]]
"""The first release in each form it could be told in, and what the view holds in that form."""


def check(case: Case, step: Step, sample: int = SAMPLE) -> Finding:
    """Look for the first release in every field of data, state and trace."""
    hits: Counter[str] = Counter()
    unclear: Counter[str] = Counter()
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
        known = newest(case, draw, data.transform)
        if not foreseen(y, known):
            looked += 1
            told, coarse = fields_with(
                answers_of(data, y, known, newest(case, draw, "lin")),
                {"trace": trace, "state": trace.state},
            )
            unclear.update(coarse)
            for name, number in told.items():
                hits[name] += 1
                holds = f"{name} holds {number.value:.8g} where {y:.8g} is the first release"
                examples.setdefault(name, f"{holds}: {describe(draw)}")
        step()
    of = {name: looked - unclear[name] for name in hits}
    told_by = [name for name, count in hits.items() if count >= LEAST and 2 * count > of[name]]
    most = max((hits[name] / of[name] for name in hits if of[name] >= LEAST), default=0.0)
    words = hinted(case)
    evidence: dict[str, Any] = {"draws": looked, "largest share of any field": round(most, 3)}
    if strange:
        evidence["fields not known here"] = sorted(strange)
    if told_by:
        evidence |= {"fields": sorted(told_by), "first": examples[min(told_by)]}
    if words:
        evidence |= {"metadata": words[:20]}
    advice = []
    if told_by:
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
        "metadata, against the first release as written, where the view does not hold it",
        evidence,
        "; ".join(advice),
    )


def hinted(case: Case) -> list[str]:
    """The draws whose first release stands in the words about their series on that day."""
    found = []
    for draw in case.draws:
        meta = case.store.meta_on(draw.series_id, draw.as_of)
        words = " ".join(texts_of(meta))
        texts = {*telling(words), *telling(ungrouped(words))}
        said = [float(text.replace("\u2212", "-")) for text in texts]
        if not said:
            continue
        units = case.stream.space.series[draw.series_id].role.transform
        y = case.store.outcome(draw.series_id, draw.period, units).first
        if any(same(y, number) for number in said) and not foreseen(y, newest(case, draw, units)):
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


def newest(case: Case, draw: Draw, units: Units) -> list[float]:
    """The newest values of a draw's view, in a transform."""
    known = case.store.view(iso(draw.as_of)).observations(draw.series_id, units=units)
    return [float(value) for value in known.value[-RECENT:]]


def foreseen(y: float, known: list[float]) -> bool:
    """Whether values of the view hold a number that is the outcome anyway."""
    return any(same(y, value) for value in known)


def answers_of(data: NowcastData, y: float, known: list[float], level: list[float]) -> Answers:
    """The first release as it is and as shown, each with what the view holds in the same form."""
    answers = [(y, [*known, *level])]
    if data.shown:
        answers.append((data.shown.shown(y), [data.shown.shown(value) for value in known]))
    return answers


def fields_with(answers: Answers, records: dict[str, Any]) -> tuple[dict[str, Printed], set[str]]:
    """The fields of some records, at most three names deep, that hold an answer, with the number;
    and those whose number may be the answer and may be another."""
    told: dict[str, Printed] = {}
    unclear: set[str] = set()
    for record, content in records.items():
        for path, number in numbers_in(content.model_dump(mode="json"), (record,)):
            for y, known in answers:
                if number.is_rounded(y):
                    name = ".".join(path[1:4] if record == "trace" else path[:3])
                    if tells(number, y, known):
                        told.setdefault(name, number)
                    else:
                        unclear.add(name)
    return told, unclear - set(told)


def tells(number: Printed, y: float, known: list[float]) -> bool:
    """Whether a number that may be the answer can be nothing else: not a value of the view,
    rounded alike, and not zero, and not a single digit unless that is all of the answer."""
    if same(y, number.value):
        return number.digits > 0
    return number.digits >= FEWEST and not any(number.is_rounded(value) for value in known)
