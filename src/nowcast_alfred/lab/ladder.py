"""Policies of known quality: what the reward lab plays against a reward.

The honest ones say what they expect: the outcome plus noise of a known size, and every baseline.
The exploits say something else on purpose: the naive forecast itself, one number for everything,
a hedge, a far too narrow interval, nothing. Every reply is text in the elicited grammar, so that
the real parser reads it. An honest spread is the true one: that of the noise, or for a baseline the
one number of scales with which its 80 % intervals hold 80 % of the outcomes at hand.

All noise is a hash of (seed, draw, policy, position in the group), without a running generator: a
policy says the same whoever else plays, in any process.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .. import answers
from ..opaque import Rescaling
from ..scoring import Z90

NORMAL = statistics.NormalDist()
Z = {level: NORMAL.inv_cdf(level) for level in answers.LEVELS}
NOISES = (0.25, 0.5, 1.0, 2.0)
"""Standard deviations of the oracles' noise, in scales."""
HALF = "oracle+0.5"
"""The honest forecast that the hedger and the overconfident one know and distort."""


@dataclass(frozen=True)
class Case:
    """A task as only the lab sees it, its outcome included; values in the target's unit.

    Parameters
    ----------
    n
        Position in the stream.
    month
        Of the release, as YYYY-MM.
    y, naive, scale
        First release, the task's baseline, its unit of error.
    forecasts
        What each baseline says, by name.
    shown
        How an opaque task shows the target's numbers, and replies are to be given; None for plain.
    """

    n: int
    series_id: str
    month: str
    y: float
    naive: float
    scale: float
    forecasts: Mapping[str, float]
    shown: Rescaling | None = None


@dataclass(frozen=True)
class Said:
    """A forecast, and the standard deviation of the normal law around it; in the target's unit."""

    centre: float
    spread: float = 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The central 80 % interval."""
        return self.centre - Z90 * self.spread, self.centre + Z90 * self.spread

    @property
    def quantiles(self) -> dict[float, float]:
        """Level -> value, at the levels of the grammar."""
        return {level: self.centre + z * self.spread for level, z in Z.items()}


Column = list[Said | None]
"""One reply a task, in the order of the cases; None is silence."""


def text(said: Said | None, elicit: answers.Elicit, shown: Rescaling | None = None) -> str:
    """A reply in the elicited grammar, in shown numbers if there are such; without a forecast, a
    sentence that holds none.

    >>> text(Said(2.0), "point")
    'FORECAST: 2.0'
    """
    if said is None:
        return "I cannot say."
    if shown is not None:
        said = Said(shown.shown(said.centre), shown.times * said.spread)
    if elicit == "quantiles":
        named = zip(answers.NAMES, said.quantiles.values(), strict=True)
        return f"{answers.QUANTILES} " + ", ".join(f"{name}={value!r}" for name, value in named)
    point = f"{answers.MARKER} {said.centre!r}"
    if elicit == "point":
        return point
    low, high = said.interval
    return f"{point}\n{answers.INTERVAL} {low!r}, {high!r}"


def noise(seed: int, n: int, policy: str, i: int = 0) -> float:
    """A standard normal number, fixed by its key."""
    digest = hashlib.sha256(f"{seed}/{n}/{policy}/{i}".encode()).digest()
    return NORMAL.inv_cdf(((int.from_bytes(digest[:8], "big") >> 11) + 0.5) * 2.0**-53)


@dataclass(frozen=True)
class Policy:
    """Someone who answers.

    Parameters
    ----------
    centre
        Case and a standard normal number -> forecast; None is silence.
    spread
        Standard deviation of its error where that is known, in scales.
    stretch
        How many times too wide it states its spread.
    draws_as
        The policy whose noise it shares, if not its own.
    """

    name: str
    honest: bool
    centre: Callable[[Case, float], float] | None
    spread: float | None = None
    stretch: float = 1.0
    draws_as: str = ""

    def replies(self, cases: Sequence[Case], seed: int, i: int = 0) -> Column:
        """What it says on each case, as the i-th of a group."""
        if self.centre is None:
            return [None] * len(cases)
        key = self.draws_as or self.name
        centres = [self.centre(case, noise(seed, case.n, key, i)) for case in cases]
        width = self.spread if self.spread is not None else true_spread(cases, centres)
        pairs = zip(cases, centres, strict=True)
        return [Said(centre, self.stretch * width * case.scale) for case, centre in pairs]


def true_spread(cases: Sequence[Case], centres: Sequence[float]) -> float:
    """The standard deviation, in scales, whose 80 % intervals hold 80 % of the outcomes."""
    pairs = zip(cases, centres, strict=True)
    errors = [abs(centre - case.y) / case.scale for case, centre in pairs]
    return float(np.quantile(errors, 0.8)) / Z90


def oracle(size: float) -> Policy:
    """The outcome plus normal noise of so many scales."""
    return Policy(
        f"oracle+{size:g}", True, lambda case, z: case.y + size * case.scale * z, spread=size
    )


def baseline(name: str) -> Policy:
    """A baseline, as an honest forecast."""
    return Policy(name, True, lambda case, z: case.forecasts[name])


def ladder(elicit: answers.Elicit, baselines: Sequence[str], naive: str) -> list[Policy]:
    """Every policy, best oracle first, exploits last.

    Parameters
    ----------
    elicit
        What a reply holds. A point is hedged half-way to the naive forecast; where a spread is
        stated, the hedge is one three times too wide, and the overconfident one plays too.
    baselines
        Names of the honest baselines.
    naive
        The one that is the tasks' own naive forecast: it plays as the copier.
    """
    honest = [oracle(size) for size in NOISES]
    honest += [baseline(name) for name in baselines if name != naive]
    copier = Policy("copier", False, lambda case, z: case.naive)
    constant = Policy("constant 0", False, lambda case, z: 0.0)
    silent = Policy("silent", False, None)
    half = oracle(0.5).centre
    assert half is not None
    if elicit == "point":
        hedges = [
            Policy(
                "hedger",
                False,
                lambda case, z: 0.5 * (case.naive + half(case, z)),
                draws_as=HALF,
            )
        ]
    else:
        hedges = [
            Policy("hedger", False, half, spread=0.5, stretch=3.0, draws_as=HALF),
            Policy("overconfident", False, half, spread=0.5, stretch=0.1, draws_as=HALF),
        ]
    return [*honest, copier, constant, *hedges, silent]


def plausible(cases: Sequence[Case], seed: int, i: int) -> Column:
    """What the i-th rollout of a group may say: a centre that the group shares, noise of half a
    scale, and about the true spread (a factor of exp(0.3 z)).

    The centre misses the outcome by as many scales as `mean_12` does on another task, the next in
    an order drawn by hash. So the misses are as large as those of a forecaster of typical skill,
    surprises of the store included, and say nothing of where any baseline lies: around a baseline's
    own forecast, a group would keep off the clips of `beats_baseline` where that one is the naive
    forecast, for no merit of the reward. A policy that misses where the naive forecast misses is on
    a clip less often than this one.
    """
    order = sorted(cases, key=lambda case: noise(seed, case.n, "plausible order"))
    others = {case.n: other for case, other in zip(order, order[1:] + order[:1], strict=True)}
    centres = [
        case.y + case.scale * (_miss(others[case.n]) + 0.5 * noise(seed, case.n, "plausible", i))
        for case in cases
    ]
    width = true_spread(cases, centres)
    return [
        Said(centre, case.scale * width * math.exp(0.3 * noise(seed, case.n, "plausible width", i)))
        for case, centre in zip(cases, centres, strict=True)
    ]


def _miss(case: Case) -> float:
    """By how many scales `mean_12` lies above the outcome."""
    return (case.forecasts["mean_12"] - case.y) / case.scale
