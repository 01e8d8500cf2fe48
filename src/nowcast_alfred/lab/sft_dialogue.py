"""One conversation of warm-start data, written from where the agent stands.

The writer has the prompt, asks the tools, and works with the numbers in their answers and with
nothing else, so a row can hold no fact that its as-of date did not know. It tries the baselines
whose arithmetic a reply can show on the newest values it was served, each forecast from the values
before it, takes the one with the smallest average miss, and spreads it by the misses of that same
trial. Values are rounded once, when read; every number of the text follows from those roundings.
Plan and wording are chosen by a hash of the task's key, so that a model learns the grammar and the
method, not one sentence.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from .. import answers
from .. import periods as p
from ..autoregression import mean
from .sft_trial import METHODS, Question, Table, Trial, read_table, try_methods

T = TypeVar("T")
Message = dict[str, Any]
Ask = Callable[[str, dict[str, Any]], Awaitable[str]]
"""A tool's name and arguments -> its answer."""

ROWS = (36, 48, 60)
WEEKLY_ROWS = 78
"""For weekly series without seasonal adjustment: a year and a trial."""
NO_SUBJECT = {"synthetic", "total", "items", "index", "rate", "number", "united", "states"}
NO_SUBJECT |= {"adjusted", "unadjusted", "from", "with"}
"""Words of titles that no one would search for."""

OPENINGS = (
    "I start with the history of {series}, in the unit asked for.",
    "First the known values of {series}, as {code}.",
    "What has been published of {series} so far?",
    "Let me read the newest values of {series} before I choose a method.",
)
SEARCHES = (
    "First I look for a series that may move with {series}: a search for {word}.",
    "Which other series are about {word}?",
    "Let me see what else the catalog has on {word}.",
)
WITH_OTHER = (
    "I read {other} beside {series}, both as {code}.",
    "Now {series} together with {other}, in one call.",
    "{other} may help. I ask for both.",
)
CALENDAR = (
    "When were past periods published?",
    "I check the release calendar as well.",
    "Next, how long after a period its number comes.",
)
SEEN = (
    "The answer holds {count} values, the newest {value} for {when}.",
    "Of {count} values the newest is {value} ({when}).",
    "{count} values are shown; the last one, for {when}, is {value}.",
)
LAGS = (
    "Past periods came out {lag} days after their end as a rule; {label} is not among them yet.",
    "The usual lag is {lag} days after the period's end, and {label} has yet to come.",
)
OTHERS = (
    "{other} last came in at {value}, against a mean of {mean} over its last {count}. I leave it "
    "out of the number, which {series} gives alone.",
    "For {other} the newest value is {value} and the mean of its last {count} is {mean}. That is "
    "context; the forecast rests on {series}.",
)
TRIALS = (
    "I try simple methods on the last {n} values, each from those before it. The average miss is "
    "{listing}.",
    "One step ahead over the last {n} values, the average miss would have been {listing}.",
    "How far off would each have been over the last {n} values, on average? By {listing}.",
)
CHOICES = (
    "The smallest average miss is that of {method}, so I use it.",
    "I take {method}: none of these misses by less.",
    "None does better than {method}, which I use.",
)
SPREADS = (
    "For the spread, its {n} misses by size: {misses}. {ranks}",
    "The {n} misses of this method, in ascending size, are {misses}. {ranks}",
)


class Pick:
    """Choices that depend on a key and on what is chosen, and on nothing that ran before."""

    def __init__(self, key: str) -> None:
        self.key = key

    def word(self, purpose: str) -> str:
        """64 hexadecimal digits."""
        return hashlib.sha256(f"{self.key}/{purpose}".encode()).hexdigest()

    def one(self, purpose: str, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[int(self.word(purpose), 16) % len(choices)]


@dataclass(frozen=True)
class Dialogue:
    """A whole conversation after the prompt, and what it came to."""

    messages: list[Message]
    method: str

    @property
    def reply(self) -> str:
        """The last message."""
        return str(self.messages[-1]["content"])


async def converse(
    prompt: str,
    elicit: answers.Elicit,
    ask: Ask,
    key: str,
    may_read: Callable[[str], bool] | None = None,
) -> Dialogue | None:
    """Ask, try, choose and answer.

    Parameters
    ----------
    prompt
        The user message of a task with `context = "tools"`.
    elicit
        What the reply holds.
    ask
        The tools, as of the task's date.
    key
        What plan and wording are chosen by.
    may_read
        Whether the values of another series may stand in the conversation; None: of no other.

    Returns
    -------
    The conversation, or None where too few values are served to choose a method by.
    """
    question, pick = Question.of(prompt), Pick(key)
    turns = _Turns(ask, pick)
    plan = pick.one("plan", ("alone", "alone", "calendar", "other"))
    other = None
    if plan == "other" and may_read is not None:
        other = await _find_other(question, pick, turns, may_read)
    rows = pick.one("rows", ROWS)
    if question.frequency == "w" and not question.adjusted:
        rows = WEEKLY_ROWS
    opening = pick.one("opening", WITH_OTHER if other else OPENINGS)
    answer = await turns.call(
        opening.format(series=question.series, code=question.code, other=other),
        "catalog_observations",
        {
            "series_ids": [question.series, other] if other else question.series,
            "units": question.code,
            "last": rows,
        },
    )
    table = read_table(answer, question.series)
    trial = try_methods(question, table)
    if trial is None:
        return None
    newest = {"value": table.text(table.value[-1]), "when": table.when[-1]}
    seen = [pick.one("seen", SEEN).format(count=len(table.value), **newest)]
    if plan == "calendar":
        seen += await _lag(question, pick, turns)
    if other:
        seen += _beside(question, other, read_table(answer, other), pick)
    parts = [" ".join(seen), _reasons(question, table, trial, pick)]
    if elicit != "point":
        parts.append(_spread(table, trial, pick))
    parts.append(_answer(table, trial, elicit))
    turns.say("\n\n".join(parts))
    return Dialogue(turns.messages, trial.method)


class _Turns:
    """The messages so far."""

    def __init__(self, ask: Ask, pick: Pick) -> None:
        self.messages: list[Message] = []
        self._ask, self._pick = ask, pick

    async def call(self, said: str, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool; its answer."""
        number = f"call_{self._pick.word(f'call {len(self.messages)}')[:12]}"
        function = {"name": tool, "arguments": json.dumps(arguments)}
        call = {"id": number, "type": "function", "function": function}
        answer = await self._ask(tool, arguments)
        self.messages += [
            {"role": "assistant", "content": said, "tool_calls": [call]},
            {"role": "tool", "content": answer, "tool_call_id": number, "name": tool},
        ]
        return answer

    def say(self, text: str) -> None:
        """End with a reply."""
        self.messages.append({"role": "assistant", "content": text})


async def _find_other(
    question: Question, pick: Pick, turns: _Turns, may_read: Callable[[str], bool]
) -> str | None:
    """Search for a word of the title; the first other series found of the same frequency."""
    words = re.findall(r"[a-z]{4,}", question.title.lower())
    words = [word for word in words if word not in NO_SUBJECT]
    if not words:
        return None
    word = pick.one("word", words)
    said = pick.one("search", SEARCHES).format(series=question.series, word=word)
    found = await turns.call(said, "catalog_search", {"text": word, "limit": 8})
    for line in found.splitlines()[1:]:
        name, *rest = line.split(" | ")
        same = rest[:1] == [p.FREQUENCY_NAMES[question.frequency]]
        if same and name != question.series and may_read(name):
            return name
    return None


async def _lag(question: Question, pick: Pick, turns: _Turns) -> list[str]:
    """Ask for the release calendar; what it says of the usual lag."""
    said = pick.one("calendar", CALENDAR)
    answer = await turns.call(said, "catalog_releases", {"series_id": question.series})
    lag = re.search(r"usually (\S+) days", answer)
    return [pick.one("lag", LAGS).format(lag=lag[1], label=question.label)] if lag else []


def _beside(question: Question, other: str, table: Table, pick: Pick) -> list[str]:
    """What the other series' values say."""
    recent = table.value[-12:]
    if not recent:
        return []
    facts = {"value": table.text(recent[-1]), "mean": table.text(mean(recent))}
    said = pick.one("beside", OTHERS)
    return [said.format(other=other, series=question.series, count=len(recent), **facts)]


def _reasons(question: Question, table: Table, trial: Trial, pick: Pick) -> str:
    """The trial, the choice and the arithmetic."""
    each = [f"{table.text(size)} for {METHODS[m]}" for m, size in trial.averages.items()]
    listing = f"{', '.join(each[:-1])} and {each[-1]}"
    tried = pick.one("trial", TRIALS).format(n=len(trial.misses), listing=listing)
    chosen = pick.one("choice", CHOICES).format(method=METHODS[trial.method])
    return f"{tried} {chosen} {_arithmetic(question, table, trial)}"


def _arithmetic(question: Question, table: Table, trial: Trial) -> str:
    """How the forecast comes out of the values shown."""
    forecast, method = table.text(trial.forecast), trial.method
    if method == "last_change":
        return f"That is {forecast}, the value of {table.when[-1]}."
    if method == "last_value":
        return "If the level does not change, the number is 0."
    if method == "seasonal_naive":
        back = p.PERIODS_PER_YEAR[question.frequency]
        return f"That is {forecast}, the value of {table.when[-back]}, {back} values back."
    recent = table.value[-3:] if method == "mean_3" else table.value[-12:]
    if method == "median_12":
        ordered = ", ".join(map(table.text, sorted(recent)))
        return f"In order they are {ordered}; halfway between the middle two is {forecast}."
    terms = ", ".join(map(table.text, recent))
    total = table.text(sum(recent))
    return f"They are {terms}, together {total}; divided by {len(recent)} that is {forecast}."


def _spread(table: Table, trial: Trial, pick: Pick) -> str:
    """The misses, and what the next one stays within, by rank."""
    wide, narrow = table.text(trial.within(0.8)), table.text(trial.within(0.5))
    ranks = (
        f"By rank, the next one stays within {wide} four times in five, "
        f"and within {narrow} every other time."
    )
    misses = ", ".join(map(table.text, trial.misses))
    return pick.one("spread", SPREADS).format(n=len(trial.misses), misses=misses, ranks=ranks)


def _answer(table: Table, trial: Trial, elicit: answers.Elicit) -> str:
    """The answer lines of the grammar."""
    wide, narrow = trial.within(0.8), trial.within(0.5)
    ends = [table.text(trial.forecast + shift) for shift in (-wide, -narrow, 0.0, narrow, wide)]
    if elicit == "quantiles":
        named = [f"{name}={end}" for name, end in zip(answers.NAMES, ends, strict=True)]
        return f"{answers.QUANTILES} {', '.join(named)}"
    interval = f"\n{answers.INTERVAL} {ends[0]}, {ends[-1]}" if elicit == "interval" else ""
    return f"{answers.MARKER} {ends[2]}{interval}"
