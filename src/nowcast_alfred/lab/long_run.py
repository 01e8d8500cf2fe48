"""How sure a mean or a ratio of outcomes is that come by dates.

Outcomes of one date miss together and a date resembles the one before it, so they are not as many
observations as they are. What the outcomes of a date deviate by is added up first (Driscoll and
Kraay 1998); the variance of those sums takes in neighbouring dates (Newey and West, Bartlett
kernel). That is too small where dates are few, for which the standard error is raised by the factor
of Harvey, Leybourne and Newbold (1997), and held against Student's t. Sums are exact (`math.fsum`),
so that a figure does not depend on the machine's order of adding.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..periods import Days, Floats

Dates = npt.NDArray[np.int32]
"""A date of each outcome, in any unit; only equality and order count, not the distance."""
Interval = tuple[float, float]

LEAST = 10
"""With fewer dates than these there is no test and no interval."""
RISK = 0.05
"""Share of intervals that miss."""


def by_date(values: Floats, when: Dates) -> Floats:
    """The sum of each date, in their order.

    >>> by_date(np.array([1.0, 2.0, 4.0]), np.array([9, 5, 9], dtype=np.int32)).tolist()
    [2.0, 5.0]
    """
    which = np.unique(when, return_inverse=True)[1]
    return np.bincount(which, weights=values).astype(np.float64)


def months(days: Days) -> Dates:
    """The month of each day, as a number: the date of series that are pooled.

    Series that miss together do so in the reports of one month, not of one day.

    >>> months(np.array([30, 31, 31 + 28], dtype=np.int32)).tolist()
    [0, 1, 2]
    """
    found: Dates = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int32)
    return found


def automatic_lag(count: int) -> int:
    """The truncation lag 4 (n / 100)^(2/9), rounded down (Newey and West 1994, Bartlett kernel).

    >>> automatic_lag(100), automatic_lag(1000)
    (4, 6)
    """
    lag = math.floor(4.0 * math.pow(count / 100.0, 2.0 / 9.0))
    return min(lag, count - 1)


def covariance(a: Floats, b: Floats) -> float:
    """Long-run covariance of the totals of two series of deviations by date: shape (dates,)."""
    found = math.fsum((a * b).tolist())
    lags = automatic_lag(len(a))
    for lag in range(1, lags + 1):
        product = math.fsum((a[lag:] * b[:-lag]).tolist())
        product += product if a is b else math.fsum((b[lag:] * a[:-lag]).tolist())
        found += (1.0 - lag / (lags + 1)) * product
    return found


def shrink(dates: int) -> float:
    """What a statistic is multiplied with for the few dates it has (Harvey, Leybourne, Newbold).

    >>> round(shrink(10), 3), round(shrink(100), 3)
    (0.748, 0.955)
    """
    ahead = automatic_lag(dates) + 1
    return math.sqrt((dates + 1 - 2 * ahead + ahead * (ahead - 1) / dates) / dates)


def student_p(statistic: float, freedom: int) -> float:
    """Two-sided p of Student's t with whole degrees of freedom, to 13 decimals.

    >>> round(student_p(2.262, 9), 4), student_p(0.0, 9)
    (0.05, 1.0)
    """
    angle = math.atan2(abs(statistic), math.sqrt(freedom))
    square = math.cos(angle) ** 2
    # The finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4.
    even = freedom % 2 == 0
    term = math.sin(angle) * (1.0 if even else math.cos(angle))
    terms = [term] if freedom > 1 else []
    for i in range(1 if even else 2, freedom - 2, 2):
        term *= square * i / (i + 1)
        terms.append(term)
    inside = math.fsum(terms) if even else 2.0 / math.pi * (angle + math.fsum(terms))
    return max(0.0, 1.0 - inside)


def critical(freedom: int) -> float:
    """The size of Student's t that is exceeded with probability `RISK`.

    >>> round(critical(9), 3), round(critical(1000), 3)
    (2.262, 1.962)
    """
    low, high = 0.0, 20.0  # at one degree it is 12.7
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, freedom) > RISK else (low, middle)
    return high


def ratio_interval(part: Floats, whole: Floats, when: Dates) -> Interval | None:
    """95 % interval of sum(part) / sum(whole): the ratios r at which part - r whole may have the
    mean zero (Fieller 1954).

    Parameters
    ----------
    part, whole, when
        Values and date of each outcome: shape (n,), n >= 1.

    Returns
    -------
    None with fewer than ten dates, or if the mean of `whole` is not itself surely above zero.
    """
    dates = by_date(whole, when)
    count, total = len(dates), math.fsum(whole.tolist())
    if count < LEAST or total <= 0.0:
        return None
    ratio = math.fsum(part.tolist()) / total
    rest = by_date(part - ratio * whole, when)
    around = dates - total / count
    bound = (critical(count - 1) / shrink(count)) ** 2
    both = covariance(around, rest)
    sure = total * total - bound * covariance(around, around)
    if sure <= 0.0:
        return None
    middle = ratio - bound * both / sure
    square = bound * (bound * both * both + sure * covariance(rest, rest))
    half = math.sqrt(max(0.0, square)) / sure
    return middle - half, middle + half
