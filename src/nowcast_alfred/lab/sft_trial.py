"""The method of warm-start conversations: the store's baselines, tried on the values served.

A baseline whose arithmetic a reply can show forecasts each of the newest values from those before
it; the one with the smallest average miss makes the forecast, and the sizes of its misses make the
spread. Prompt and answers are read as text, as an agent has them. Values are rounded once, when
read, and everything else follows from the rounded ones, so that the text adds up as written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from .. import periods as p
from ..autoregression import mean
from ..baselines import BASELINES, Known

TRIAL = 19
"""Values the methods are tried on: the 16th and the 10th of 19 misses by size are what 80 % and
50 % of the next ones stay within, where misses come in no particular order (16/20, 10/20)."""
LEAST_TRIAL = 9
"""With fewer, there is nothing to choose by, and no conversation."""
BEFORE = 12
"""Values that every forecast of the trial has before it: the longest mean's."""
OPAQUE = "t = "
"""How the period of a row begins that counts on an opaque task's clock."""
METHODS = {
    "last_change": "the newest value",
    "last_value": "zero (no change)",
    "mean_3": "the mean of the last 3",
    "mean_12": "the mean of the last 12",
    "median_12": "the median of the last 12",
    "seasonal_naive": "the value a year before",
}
"""The baselines a reply can compute, in the order in which ties are broken."""


@dataclass(frozen=True)
class Question:
    """What a prompt asks, read from its text."""

    series: str
    title: str
    label: str
    frequency: p.Frequency
    code: p.Units
    adjusted: bool

    @classmethod
    def of(cls, prompt: str) -> Question:
        """Read a prompt as `prompts.build` writes it."""
        series = re.search(r"^Series: (\S+)(?: \((.*)\))?$", prompt, re.MULTILINE)
        period = re.search(r"^Period: (.+?) \((\w+)\b", prompt, re.MULTILINE)
        code = re.search(r"units code (\w+)", prompt)
        if series is None or period is None or code is None:
            raise ValueError("the prompt names no series, period or units code")
        code_of = {name: code for code, name in p.FREQUENCY_NAMES.items()}
        return cls(
            series=series[1],
            title=series[2] or "",
            label=period[1],
            frequency=p.check_frequency(code_of[period[2]]),
            code=p.check_units(code[1]),
            adjusted="not seasonally adjusted" not in prompt,
        )


@dataclass(frozen=True)
class Table:
    """The rows of one series in an answer: when and how much, oldest first, rounded."""

    when: list[str]
    value: list[float]
    decimals: int

    def text(self, number: float) -> str:
        """A number as the conversation writes it.

        >>> Table([], [], 2).text(-4.3575), Table([], [], 1).text(30.0), Table([], [], 0).text(-0.2)
        ('-4.36', '30', '0')
        """
        digits = f"{number:.{self.decimals}f}"
        digits = digits.rstrip("0").rstrip(".") if self.decimals else digits
        return "0" if digits == "-0" else digits

    def round(self, number: float) -> float:
        """The number that `text` shows."""
        return float(self.text(number))


def read_table(answer: str, series: str) -> Table:
    """The rows of one series in an answer of `catalog_observations`; none if it has none.

    Values are rounded to two digits below the mean step from one to the next.
    """
    for block in answer.split("\n\n"):
        head, *lines = block.splitlines()
        if head.startswith(f"{series} | ") and lines:
            header, *rows = [line.rsplit(",", 1) for line in lines]
            clock = OPAQUE if header[0] == "t" else ""
            value = [float(number) for _, number in rows]
            step = mean([abs(b - a) for a, b in pairwise(value)]) if len(value) > 1 else 0.0
            decimals = max(0, 2 - int(f"{step:.6e}".partition("e")[2]))
            table = Table([clock + when for when, _ in rows], value, decimals)
            return replace(table, value=[table.round(number) for number in value])
    return Table([], [], 0)


@dataclass(frozen=True)
class Trial:
    """How the methods did on the newest values shown."""

    method: str
    forecast: float
    averages: dict[str, float]
    misses: list[float]

    def within(self, share: float) -> float:
        """The size that this share of misses stays within: by rank, between two where needed.

        >>> Trial("", 0.0, {}, [float(size) for size in range(1, 20)]).within(0.8)
        16.0
        """
        rank = min(max(share * (len(self.misses) + 1), 1.0), float(len(self.misses)))
        low = int(rank)
        high = min(low + 1, len(self.misses))
        part = rank - low
        return (1.0 - part) * self.misses[low - 1] + part * self.misses[high - 1]


def try_methods(question: Question, table: Table) -> Trial | None:
    """Every method's average miss, and the best one's forecast; None if too little is shown.

    A method forecasts each of the last values from those before it. Of equal averages, as written,
    the first in the order of `METHODS` wins. `misses` are the winner's, by size.
    """
    count = min(TRIAL, len(table.value) - BEFORE)
    if count < LEAST_TRIAL:
        return None
    values = np.array(table.value)

    def ahead(method: str, stop: int) -> float:
        known = Known(values[:stop], values[:stop], question.code, question.frequency)
        return table.round(BASELINES[method](known))

    def misses(method: str) -> list[float]:
        places = range(len(values) - count, len(values))
        return [table.round(abs(table.value[i] - ahead(method, i))) for i in places]

    found = {method: misses(method) for method in _candidates(question, table, len(values) - count)}
    averages = {method: table.round(mean(sizes)) for method, sizes in found.items()}
    best = min(averages, key=lambda method: averages[method])
    return Trial(best, ahead(best, len(values)), averages, sorted(found[best]))


def _candidates(question: Question, table: Table, before: int) -> list[str]:
    """The methods that say something of their own of this series and can be had by counting."""
    season = p.PERIODS_PER_YEAR[question.frequency]
    unfit = set()
    if question.code not in ("chg", "pch", "pca"):
        unfit.add("last_value")  # of a level it is the newest value; of a year's change, unknown
    if question.adjusted or season <= 1 or before < season or _has_gap(question, table):
        unfit.add("seasonal_naive")
    return [method for method in METHODS if method not in unfit]


def _has_gap(question: Question, table: Table) -> bool:
    """Whether a period is missing among the rows, so that a year before is not so many values back.
    Daily series count values, and so does the clock of an opaque task's."""
    if table.when[0].startswith(OPAQUE):
        at = [int(when.removeprefix(OPAQUE)) for when in table.when]
        return any(later != earlier + 1 for earlier, later in pairwise(at))
    if question.frequency == "d":
        return False
    days = [p.to_days(when) for when in table.when]
    return any(
        later != p.shift(earlier, question.frequency, 1) for earlier, later in pairwise(days)
    )
