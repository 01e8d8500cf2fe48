"""The guarded autoregression behind the baseline `ar_bic`.

An autoregression fitted to a series with April 2020 in it forecasts nonsense for years. Three
guards: the sample is winsorised around its median; the coefficients come from the Yule-Walker
equations of the biased autocovariances, whose solution is stationary by construction; and the
forecast never leaves the band of the winsorised sample.

Lags count values: a period that was never published is left out of the sample, not filled in.

Plain loops over floats with exact sums, no linear algebra library, so that a task's numbers are the
same to the last bit on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from operator import mul

from .periods import Frequency

SAMPLE: dict[Frequency, int] = {"d": 520, "w": 1040, "m": 240, "q": 80, "a": 20}
"""The newest values a fit uses: twenty years; two of a daily series."""
ORDERS: dict[Frequency, int] = {"d": 5, "w": 8, "m": 12, "q": 4, "a": 2}
"""The highest order a fit may choose."""
CUT = 5.0
"""Values are drawn in to so many median absolute deviations around the median."""

_DECIMALS = Context(prec=28)


def median(values: Sequence[float]) -> float:
    """The middle of the sorted values, or the mean of the two middle ones.

    >>> median([3.0, 1.0, 2.0, 4.0])
    2.5
    """
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return 0.5 * ordered[half - 1] + 0.5 * ordered[half]  # halves first: their sum is finite


def mean(values: Sequence[float]) -> float:
    """The mean by an exact sum, in fractions where the sum is too large for a float."""
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return float(sum(map(Fraction, values)) / len(values))


def centre(values: Sequence[float]) -> tuple[float, float]:
    """Median and median absolute deviation; the mean one where more than half are equal."""
    middle = median(values)
    distances = [abs(x - middle) for x in values]
    return middle, median(distances) or mean(distances)


def winsorised(values: Sequence[float]) -> list[float]:
    """The values, none further than `CUT` deviations from the median.

    >>> winsorised([1.0, 2.0, 3.0, 4.0, 1000.0])
    [1.0, 2.0, 3.0, 4.0, 8.0]
    """
    middle, spread = centre(values)
    low, high = middle - CUT * spread, middle + CUT * spread
    return [min(max(x, low), high) for x in values]


def yule_walker(covariances: Sequence[float], count: int) -> list[float]:
    """Coefficients of the autoregression whose order has the lowest BIC.

    The Levinson-Durbin recursion gives every order's coefficients and innovation variance v_p in
    turn. BIC is n ln v_p + p ln n; compared here is its exponential, v_p n^(p/n), which needs no
    logarithm of the variance and so depends on no mathematics library.

    Parameters
    ----------
    covariances
        Biased (divided by n) autocovariances at lags 0 to the highest order; lag 0 positive.
    count
        The length n of the sample.

    Returns
    -------
    Coefficients of lags 1 to p, of a stationary process: every reflection coefficient that is used
    lies inside (-1, 1). Empty if order 0 is best.

    >>> yule_walker([1.0, 0.5, 0.25], 100)
    [0.5]
    """
    left, weights = covariances[0], list[float]()
    best, chosen = left, weights
    root, penalty = _root(count), 1.0
    for order in range(1, len(covariances)):
        back = covariances[order - 1 : 0 : -1]
        reflection = (covariances[order] - math.fsum(map(mul, weights, back))) / left
        turned = [w - reflection * v for w, v in zip(weights, reversed(weights), strict=True)]
        weights = [*turned, reflection]
        left *= 1.0 - reflection * reflection
        if not left > 0.0:  # nothing is left to explain: a further order would divide by zero
            break
        penalty *= root
        if left * penalty < best:
            best, chosen = left * penalty, weights
    return chosen


@lru_cache(maxsize=2048)
def _root(count: int) -> float:
    """count^(1/count), correctly rounded everywhere, unlike `pow`."""
    return float(_DECIMALS.exp(_DECIMALS.divide(_DECIMALS.ln(Decimal(count)), Decimal(count))))


def forecast(values: Sequence[float], frequency: Frequency) -> float:
    """One step ahead of the values (oldest first, at least one), inside the winsorised band."""
    sample = winsorised(values[-SAMPLE[frequency] :])
    count = len(sample)
    middle, spread = centre(sample)
    if not 0.0 < spread < math.inf:
        return sample[-1]
    scaled = [(x - middle) / spread for x in sample]  # of order one, whatever the unit
    shift = math.fsum(scaled) / count
    around = [x - shift for x in scaled]
    most = min(ORDERS[frequency], (count - 1) // 4)
    covariances = [math.fsum(map(mul, around[lag:], around)) / count for lag in range(most + 1)]
    weights = yule_walker(covariances, count)
    ahead = shift + math.fsum(map(mul, weights, reversed(around)))
    return min(max(middle + spread * ahead, min(sample)), max(sample))
