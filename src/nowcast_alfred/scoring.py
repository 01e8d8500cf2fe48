"""Scores, as functions of plain floats with the outcome first.

Losses: lower is better, zero or bounded below, in the unit of the outcome unless said. Each is
proper for what it elicits: its expectation is best at the statistic named. What a reward makes of
them is an affine map (`rewards`), because ratios, exponentials and tight clips move the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

FLOOR = -1.0
"""What `beats_baseline` gives a reply without a forecast."""

_SQRT_PI, _SQRT_2, _SQRT_2PI = math.sqrt(math.pi), math.sqrt(2.0), math.sqrt(2.0 * math.pi)
Z90 = 1.2815515655446004
"""The 90 % quantile of the standard normal: half the width of its central 80 % interval."""


def usable(scale: float, *numbers: float) -> bool:
    """Whether errors can be measured in a scale, and from these numbers: all finite, scale > 0.

    >>> usable(1.0, 2.0), usable(0.0, 2.0), usable(1.0, math.inf)
    (True, False, False)
    """
    return 0.0 < scale < math.inf and all(map(math.isfinite, numbers))


def gain(y: float, forecast: float, baseline: float, scale: float) -> float:
    """How much nearer the outcome the forecast is than the baseline, in scales.

    NaN where outcome, baseline or scale is not `usable`.

    >>> round(gain(353.0, 200.0, 216.0, 163.3), 3)
    -0.098
    """
    if not usable(scale, y, baseline):
        return math.nan
    return (abs(baseline - y) - abs(forecast - y)) / scale


def beats_baseline(y: float, forecast: float, baseline: float, scale: float) -> float:
    """`gain` clipped to [-1, 1]; -1 where it is no number.

    Elicits the median while nothing is clipped. It is flat at 1 around an outcome that the
    baseline missed by more than a scale, which is why `clipped` is recorded beside it.

    >>> beats_baseline(0.0, 0.0, 5.0, 1.0)
    1.0
    """
    value = gain(y, forecast, baseline, scale)
    return FLOOR if math.isnan(value) else max(-1.0, min(1.0, value))


def is_clipped(y: float, forecast: float, baseline: float, scale: float) -> bool:
    """Whether `beats_baseline` hides a difference, so that nearby forecasts earn the same."""
    return abs(gain(y, forecast, baseline, scale)) > 1.0


def absolute_error(y: float, forecast: float) -> float:
    """|y - f|; elicits the median.

    >>> absolute_error(3.0, 5.0)
    2.0
    """
    return abs(y - forecast)


def squared_error(y: float, forecast: float) -> float:
    """(y - f)^2, in the square of the unit; elicits the mean.

    >>> squared_error(3.0, 5.0)
    4.0
    """
    return (y - forecast) * (y - forecast)


def pinball(y: float, q: float, tau: float) -> float:
    """Quantile loss max(tau (y - q), (tau - 1) (y - q)); elicits the tau-quantile.

    Twice this, averaged over levels, approximates the CRPS (Gneiting & Raftery 2007).

    >>> pinball(3.0, 2.0, 0.9), pinball(1.0, 2.0, 0.9)
    (0.9, 0.09999999999999998)
    """
    return max(tau * (y - q), (tau - 1.0) * (y - q))


def interval_score(y: float, lower: float, upper: float, alpha: float) -> float:
    """Width plus 2/alpha times the miss (Winkler 1972); elicits the central 1 - alpha interval.

    >>> interval_score(5.0, 0.0, 4.0, 0.2)
    14.0
    """
    # The miss comes first in max, which then keeps one that is no number.
    return (upper - lower) + 2.0 / alpha * (max(lower - y, 0.0) + max(y - upper, 0.0))


def crps_quantiles(y: float, quantiles: Mapping[float, float]) -> float:
    """Mean over the levels of twice the pinball loss; elicits those quantiles.

    Parameters
    ----------
    quantiles
        Level in (0, 1) -> value.

    >>> crps_quantiles(1.0, {0.5: 0.0})
    1.0
    """
    # Not fsum, which raises where a sum overflows.
    return sum(2.0 * pinball(y, q, tau) for tau, q in quantiles.items()) / len(quantiles)


def weighted_interval_score(y: float, quantiles: Mapping[float, float]) -> float:
    """Weighted interval score of a median and central intervals (Bracher et al. 2021).

    By the pinball identity it is `crps_quantiles` of levels that are symmetric around one half
    and hold it.

    Raises
    ------
    ValueError
        If the levels are not.
    """
    levels = sorted(quantiles)
    symmetric = all(abs(a + b - 1.0) < 1e-9 for a, b in zip(levels, levels[::-1], strict=True))
    if not symmetric or len(levels) % 2 == 0:
        raise ValueError(f"levels {levels}: need the median and pairs around it")
    return crps_quantiles(y, quantiles)


def crps_normal(y: float, mu: float, sigma: float) -> float:
    """CRPS of a normal: sigma (z (2 Phi(z) - 1) + 2 phi(z) - 1/sqrt(pi)); elicits mu and sigma.

    |y - mu| where sigma is 0 (Gneiting & Raftery 2007).

    >>> round(crps_normal(353.0, 216.0, 163.3), 9)
    81.503731477
    """
    if sigma == math.inf:
        return math.inf
    z = (y - mu) / sigma if sigma > 0.0 else math.inf
    if math.isinf(z):
        return abs(y - mu)
    density = math.exp(-0.5 * z * z) / _SQRT_2PI
    return sigma * (z * math.erf(z / _SQRT_2) + 2.0 * density - 1.0 / _SQRT_PI)


def log_score(y: float, mu: float, sigma: float) -> float:
    """-ln of the normal density at y, in nats; elicits mu and sigma.

    Infinite where sigma is 0 or infinite.

    >>> round(log_score(0.0, 0.0, 1.0), 12)
    0.918938533205
    """
    if sigma == 0.0 or sigma == math.inf:
        return math.inf
    z = (y - mu) / sigma
    return 0.5 * z * z + math.log(sigma * _SQRT_2PI)


def direction(y: float, forecast: float, reference: float, band: float) -> float:
    """1 if forecast and outcome lie on the same side of a reference, 0 if on opposite sides, one
    half if either is within `band` of it; elicits the side that has more than half of the odds.

    >>> direction(2.0, 3.0, 1.0, 0.1), direction(2.0, 0.0, 1.0, 0.1), direction(1.05, 3.0, 1.0, 0.1)
    (1.0, 0.0, 0.5)
    """
    if abs(y - reference) <= band or abs(forecast - reference) <= band:
        return 0.5
    return float((y > reference) == (forecast > reference))
