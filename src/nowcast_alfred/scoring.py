"""Scores, as functions of plain floats with the outcome first."""

from __future__ import annotations

FLOOR = -1.0
"""What `beats_baseline` gives a reply without a forecast."""


def gain(y: float, forecast: float, baseline: float, scale: float) -> float:
    """How much nearer the outcome the forecast is than the baseline, in scales; unbounded above
    only by the baseline's own error.

    >>> round(gain(353.0, 200.0, 216.0, 163.3), 3)
    -0.098
    """
    return (abs(baseline - y) - abs(forecast - y)) / scale


def beats_baseline(y: float, forecast: float, baseline: float, scale: float) -> float:
    """`gain` clipped to [-1, 1].

    Elicits the median while nothing is clipped. It is flat at 1 around an outcome that the
    baseline missed by more than a scale, which is why `clipped` is recorded beside it.

    >>> beats_baseline(0.0, 0.0, 5.0, 1.0)
    1.0
    """
    return max(-1.0, min(1.0, gain(y, forecast, baseline, scale)))


def is_clipped(y: float, forecast: float, baseline: float, scale: float) -> bool:
    """Whether `beats_baseline` hides a difference, so that nearby forecasts earn the same."""
    return abs(gain(y, forecast, baseline, scale)) > 1.0
