"""Two forecasters on the same targets: errors, ratios, and whether the difference is luck.

Pure functions on arrays of forecast errors (forecast - outcome). Sums are exact (`math.fsum`), so
that a figure does not depend on the order in which processes hand in their part. What has no value,
a ratio to zero or a test on too few releases, is None and never NaN. What makes a difference sure
is in `long_run`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..autoregression import mean
from ..periods import Floats
from .long_run import LEAST, Dates, by_date, covariance, shrink, student_p


@dataclass(frozen=True)
class Comparison:
    """One forecaster's errors, and how they stand to a reference's on the same targets."""

    n: int
    mae: float
    rmse: float
    bias: float
    """Mean of forecast - outcome: positive is too high."""
    relative_mae: float | None
    relative_rmse: float | None
    """Divided by the reference's: below 1 is better. None if the reference made no error."""
    scaled_mae: float
    """Mean absolute error as a share of the target's scale."""
    dm: float | None
    dm_p: float | None
    """`diebold_mariano` with absolute errors: negative is better than the reference."""


def compare(error: Floats, reference: Floats, scale: Floats, when: Dates) -> Comparison:
    """Hold a forecaster's errors against a reference's.

    Parameters
    ----------
    error, reference
        Forecast - outcome on the same targets, in one unit: shape (n,), n >= 1.
    scale
        The targets' scales in that unit, positive: shape (n,).
    when
        The date of each outcome, in any unit that orders them: shape (n,).

    >>> one = np.ones(2)
    >>> compare(np.array([1.0, -1.0]), np.array([4.0, 0.0]), 2 * one, np.arange(2)).relative_mae
    0.5
    """
    mae, rmse = mean_absolute(error), root_mean_square(error)
    dm, dm_p = diebold_mariano(np.abs(error) - np.abs(reference), when) or (None, None)
    return Comparison(
        n=len(error),
        mae=mae,
        rmse=rmse,
        bias=mean(error.tolist()),
        relative_mae=_ratio(mae, mean_absolute(reference)),
        relative_rmse=_ratio(rmse, root_mean_square(reference)),
        scaled_mae=mean_absolute(error / scale),
        dm=dm,
        dm_p=dm_p,
    )


def mean_absolute(error: Floats) -> float:
    """Mean absolute error.

    >>> mean_absolute(np.array([1.0, -3.0]))
    2.0
    """
    return mean(np.abs(error).tolist())


def root_mean_square(error: Floats) -> float:
    """Root of the mean squared error, without squares that overflow.

    >>> root_mean_square(np.array([3e200, -3e200, 3e200, -3e200]))
    3e+200
    """
    return math.hypot(*error.tolist()) / math.sqrt(len(error))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0.0 else None


def diebold_mariano(difference: Floats, when: Dates) -> tuple[float, float] | None:
    """The Diebold-Mariano test of equal accuracy: statistic, and two-sided p.

    The mean loss difference divided by its standard error over dates, as modified by Harvey,
    Leybourne and Newbold for small samples (`long_run`); p is Student's, with one degree of freedom
    less than there are dates. With one outcome a date this is the textbook test.

    Parameters
    ----------
    difference
        Loss of the forecaster - loss of the reference, per target: shape (n,), n >= 1.
    when
        The date of each outcome: shape (n,).

    Returns
    -------
    None with fewer than ten dates, or if the variance is zero: the two are equal, or apart by the
    same amount everywhere.
    """
    middle = mean(difference.tolist())
    deviation = by_date(difference - middle, when)
    if len(deviation) < LEAST:
        return None
    variance = covariance(deviation, deviation)
    rounding = 1e-9 * float(np.abs(difference).max())
    if not rounding * rounding < variance < math.inf:
        return None
    statistic = shrink(len(deviation)) * len(difference) * middle / math.sqrt(variance)
    return statistic, student_p(statistic, len(deviation) - 1)
