"""Naive forecasts and scales, computed from what a view knows.

Sums are exact (`math.fsum`) and everything else is one of + - * / and a square root, so that a
task's numbers, and with them its hash, are the same on any machine.

What looks a year back does so by the calendar, as the transforms do (`periods`): a month that was
never published leaves the value of a year before unknown once, and moves no other. Means, medians,
`ewma`, `ar_bic` and the scales count known values, whatever their periods.

`best_of`, which chooses among these by a backtest inside the view, is in `choice`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from . import autoregression
from .autoregression import mean, median
from .periods import PERIODS_PER_YEAR, Days, Floats, Frequency, Units, shift

BaselineName = Literal[
    "last_change",
    "last_value",
    "mean_3",
    "mean_12",
    "median_12",
    "mean_all",
    "ewma",
    "seasonal_naive",
    "ar_bic",
    "best_of",
]
ScaleName = Literal["std_24", "mad_24", "mean_abs_change_60"]

NEW_WEIGHT = 0.3
"""The weight of the newest value in `ewma`: about what the last six or seven values say."""
EWMA_SPAN = 60
"""Values `ewma` reads; what came before them weighs less than 1e-9."""
UNIT_SPAN = 60
"""Levels the rounding unit is inferred from."""
TENS = tuple((power, float(f"1e{power}")) for power in range(15, -16, -1))
"""Rounding units looked for, coarsest first."""


@dataclass(frozen=True)
class Known:
    """A series on a day: what a baseline and a scale are made from.

    Parameters
    ----------
    value
        Known values of the target's transform, oldest first, at least one: shape (n,), float64.
    level
        Known levels, oldest first: shape (k,), k >= n, float64.
    units, frequency
        The transform of `value`, and the series' frequency.
    value_period, level_period
        First days of the periods of `value` and `level`, ascending: shapes (n,) and (k,), int32.
        None: they follow each other without a gap, and the target comes next.
    target
        First day of the target period. None: the one after the last known level.
    """

    value: Floats
    level: Floats
    units: Units
    frequency: Frequency
    value_period: Days | None = None
    level_period: Days | None = None
    target: int | None = None


# --- Baselines


def last_change(known: Known) -> float:
    """The last known value of the target's transform: for `chg`, the last known change.

    >>> import numpy as np
    >>> last_change(Known(np.array([182.0, 216.0]), np.array([100.0, 282.0, 498.0]), "chg", "m"))
    216.0
    """
    return float(known.value[-1])


def last_value(known: Known) -> float:
    """What the transform gives if the level does not change from the last known one.

    The last level for `lin`, 0 for changes over one period; for changes over a year, the last level
    against that of a year before the target period (`last_change` where it is not known), a year as
    in `seasonal_naive`.

    >>> import numpy as np
    >>> level = np.array([100.0, 101.0, 103.0, 104.0, 107.0])
    >>> last_value(Known(level[4:] - level[:1], level, "ch1", "q"))
    6.0
    """
    if known.units == "lin":
        return float(known.level[-1])
    if known.units in ("chg", "pch", "pca"):
        return 0.0
    last, before = float(known.level[-1]), _year_before(known, known.level_period, known.level)
    if known.units == "ch1":
        change = last - before
    elif last > 0.0 and before > 0.0:
        change = (last / before - 1.0) * 100.0
    else:
        change = math.nan
    return change if math.isfinite(change) else last_change(known)


def mean_3(known: Known) -> float:
    """The mean of the last three known values (of all, where there are fewer).

    >>> import numpy as np
    >>> mean_3(Known(np.arange(24.0), np.arange(24.0), "lin", "m"))
    22.0
    """
    return mean(known.value[-3:].tolist())


def mean_12(known: Known) -> float:
    """The mean of the last twelve known values (of all, where there are fewer).

    >>> import numpy as np
    >>> mean_12(Known(np.arange(24.0), np.arange(24.0), "lin", "m"))
    17.5
    """
    return mean(known.value[-12:].tolist())


def median_12(known: Known) -> float:
    """The median of the last twelve known values (of all, where there are fewer).

    >>> import numpy as np
    >>> median_12(Known(np.array([1.0, 2.0, 900.0]), np.ones(3), "lin", "m"))
    2.0
    """
    return median(known.value[-12:].tolist())


def mean_all(known: Known) -> float:
    """The mean of all known values.

    >>> import numpy as np
    >>> mean_all(Known(np.arange(24.0), np.arange(24.0), "lin", "m"))
    11.5
    """
    return mean(known.value.tolist())


def ewma(known: Known) -> float:
    """The exponentially weighted mean of the last 60 known values.

    It starts at the oldest of them, and each newer value v moves it to 0.7 x mean + 0.3 x v.

    >>> import numpy as np
    >>> ewma(Known(np.array([0.0, 10.0]), np.zeros(2), "lin", "m"))
    3.0
    """
    oldest, *newer = known.value[-EWMA_SPAN:].tolist()
    found: float = oldest
    for value in newer:
        found = (1.0 - NEW_WEIGHT) * found + NEW_WEIGHT * value
    return found


def seasonal_naive(known: Known) -> float:
    """The known value of the target's period a year before, by the calendar.

    `last_change` where it is not known. A year of weeks is 52; of daily series, whose markets
    close, 260 values. For series without seasonal adjustment.

    >>> import numpy as np
    >>> seasonal_naive(Known(np.arange(24.0), np.arange(24.0), "lin", "m"))
    12.0
    """
    before = _year_before(known, known.value_period, known.value)
    return last_change(known) if math.isnan(before) else before


def ar_bic(known: Known) -> float:
    """One step ahead by a guarded autoregression of the order with the lowest BIC.

    Up to twenty years (240 months, 80 quarters, 1,040 weeks; 520 days), winsorised to five median
    absolute deviations around the median; Yule-Walker coefficients, stationary by construction, of
    order 0 to 12 (months), 4 (quarters), 8 (weeks), 5 (days); the forecast stays between the
    smallest and the largest value of the winsorised sample. Lags count known values, as if a
    missing one were not missed. See `autoregression`.

    >>> import numpy as np
    >>> ar_bic(Known(np.array([0.2] * 40), np.arange(41.0), "chg", "m"))
    0.2
    """
    values = known.value[-autoregression.SAMPLE[known.frequency] :].tolist()
    return autoregression.forecast(values, known.frequency)


def _year_before(known: Known, period: Days | None, number: Floats) -> float:
    """The number of the period a year before the target, or NaN."""
    back = PERIODS_PER_YEAR[known.frequency]
    if period is None or known.frequency == "d":  # of daily series, so many values back
        return float(number[-back]) if len(number) >= back else math.nan
    target = known.target
    if target is None:
        newest = period if known.level_period is None else known.level_period
        target = shift(int(newest[-1]), known.frequency, 1)
    then = shift(target, known.frequency, -back)
    at = int(np.searchsorted(period, then))
    return float(number[at]) if at < len(period) and period[at] == then else math.nan


# --- Scales, before their floor


def std_24(value: Floats) -> float:
    """Population standard deviation (ddof 0) of the last 24 known values; 0 for fewer than two.

    A spread that is rounding and nothing else, below 1e-9 of the largest value, is 0 too, and so
    is one too large for a float.

    >>> import numpy as np
    >>> std_24(np.array([1.0, -1.0]))
    1.0
    """
    recent = value[-24:].tolist()
    if len(recent) < 2:
        return 0.0
    middle = mean(recent)
    squares = [(x - middle) * (x - middle) for x in recent]
    return _spread(math.sqrt(_sum(squares) / len(recent)), recent)


def mad_24(value: Floats) -> float:
    """Median absolute deviation from the median of the last 24 known values; 0 for fewer than two.

    As it is: 0.67 standard deviations of a normal series. No single value moves it far, and it is
    0 where more than half of the values are equal. Rounding counts as in `std_24`.

    >>> import numpy as np
    >>> mad_24(np.array([1.0, 2.0, 3.0, 900.0]))
    1.0
    """
    recent = value[-24:].tolist()
    if len(recent) < 2:
        return 0.0
    middle = median(recent)
    return _spread(median([abs(x - middle) for x in recent]), recent)


def mean_abs_change_60(value: Floats) -> float:
    """Mean absolute step from one known value to the next, over the last 60 steps; 0 for none.

    The error that `last_change` would have made in this vintage (the scale of MASE). Rounding
    counts as in `std_24`.

    >>> import numpy as np
    >>> mean_abs_change_60(np.array([1.0, 2.0, 0.0]))
    1.5
    """
    recent = value[-61:].tolist()
    if len(recent) < 2:
        return 0.0
    steps = [abs(b - a) for a, b in pairwise(recent)]
    return _spread(_sum(steps) / len(steps), recent)


def _sum(values: list[float]) -> float:
    """The exact sum of values that are not negative, or infinity."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf


def _spread(spread: float, recent: list[float]) -> float:
    """A spread, or 0 where it is rounding and nothing else, or no finite number."""
    return spread if 1e-9 * max(map(abs, recent)) < spread < math.inf else 0.0


BASELINES: dict[str, Callable[[Known], float]] = {
    "last_change": last_change,
    "last_value": last_value,
    "mean_3": mean_3,
    "mean_12": mean_12,
    "median_12": median_12,
    "mean_all": mean_all,
    "ewma": ewma,
    "seasonal_naive": seasonal_naive,
    "ar_bic": ar_bic,
}
SCALES: dict[str, Callable[[Floats], float]] = {
    "std_24": std_24,
    "mad_24": mad_24,
    "mean_abs_change_60": mean_abs_change_60,
}

assert [*BASELINES, "best_of"] == list(get_args(BaselineName))
assert set(SCALES) == set(get_args(ScaleName))


# --- The floor of a scale


def rounding_unit(level: Floats, above: float = 0.0) -> float:
    """The coarsest power of ten that the last 60 levels are all multiples of, as printed.

    Parameters
    ----------
    level
        Levels, shape (n,). Zeros, multiples of anything, say nothing.
    above
        Only units larger than this are looked for.

    Returns
    -------
    1e-15 to 1e15; 0 where there is no such unit.

    >>> import numpy as np
    >>> rounding_unit(np.array([3.9, 4.0, 4.2]))
    0.1
    """
    recent = [x for x in level[-UNIT_SPAN:].tolist() if x]
    smallest = min(map(abs, recent), default=0.0)  # no multiple of a larger unit
    for power, unit in TENS:
        if unit <= above:
            break
        # Python rounds to the nearest decimal correctly, so a printed 0.3 is three tenths.
        if unit <= smallest and all(round(x, -power) == x for x in recent):
            return unit
    return 0.0


def scale_of(name: ScaleName, known: Known) -> float:
    """A scale, at least the series' rounding unit; 0 stays 0, and is no scale.

    Below the unit, an error of one printed digit would count as several scales. For the percent
    transforms the floor is 100 x unit / |last level|, a change of one unit in percent.

    >>> import numpy as np
    >>> rate = np.array([4.0, 4.0, 4.0, 4.0, 4.1])
    >>> scale_of("std_24", Known(np.diff(rate), rate, "chg", "m"))
    0.1
    """
    scale = SCALES[name](known.value)
    if not scale > 0.0:
        return 0.0
    if known.units in ("lin", "chg", "ch1"):
        return max(scale, rounding_unit(known.level, above=scale))
    last = abs(float(known.level[-1]))
    if last == 0.0:
        return scale
    return max(scale, 100.0 * rounding_unit(known.level, above=scale * last / 100.0) / last)
