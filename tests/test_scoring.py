"""The reward and the numbers it is made of, against one-line references."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nowcast_alfred.scoring import FLOOR, beats_baseline, gain, is_clipped, usable

numbers = st.floats(-1e6, 1e6)
scales = st.floats(1e-3, 1e6)


def test_january_2024_earns_what_the_readme_says() -> None:
    """PAYEMS: forecast 200, first release 353, last change 216, scale 163.3."""
    assert beats_baseline(353.0, 200.0, 216.0, 163.3) == pytest.approx((137 - 153) / 163.3)
    assert beats_baseline(353.0, 200.0, 216.0, 163.3) == pytest.approx(-0.0979792, abs=5e-8)


@given(
    y=st.floats(-1e300, 1e300), forecast=st.floats(-1e308, 1e308), baseline=numbers, scale=scales
)
def test_the_reward_lies_between_minus_one_and_one(
    y: float, forecast: float, baseline: float, scale: float
) -> None:
    assert -1.0 <= beats_baseline(y, forecast, baseline, scale) <= 1.0
    assert FLOOR == -1.0


@given(y=numbers, baseline=numbers, scale=scales)
def test_copying_the_baseline_earns_nothing(y: float, baseline: float, scale: float) -> None:
    assert beats_baseline(y, baseline, baseline, scale) == 0.0


@given(y=numbers, forecast=numbers, baseline=numbers, scale=scales)
def test_no_forecast_earns_more_than_the_outcome(
    y: float, forecast: float, baseline: float, scale: float
) -> None:
    best = beats_baseline(y, y, baseline, scale)
    assert best == min(1.0, abs(baseline - y) / scale)
    assert beats_baseline(y, forecast, baseline, scale) <= best


@given(y=numbers, forecast=numbers, baseline=numbers, scale=scales)
def test_the_clip_is_reported_exactly_where_it_cuts(
    y: float, forecast: float, baseline: float, scale: float
) -> None:
    whole, cut = gain(y, forecast, baseline, scale), beats_baseline(y, forecast, baseline, scale)
    assert is_clipped(y, forecast, baseline, scale) == (whole != cut)


@pytest.mark.parametrize("none", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["y", "baseline", "scale"])
def test_what_is_no_finite_number_gains_nothing(place: str, none: float) -> None:
    values = {"y": 1.0, "baseline": 0.0, "scale": 1.0, place: none}
    assert math.isnan(gain(forecast=1.0, **values))
    assert beats_baseline(forecast=1.0, **values) == FLOOR
    assert not is_clipped(forecast=1.0, **values)


@pytest.mark.parametrize("scale", [0.0, -0.0, -1.0])
def test_a_scale_that_is_not_above_zero_measures_nothing(scale: float) -> None:
    assert not usable(scale)
    assert beats_baseline(1.0, 1.0, 0.0, scale) == FLOOR
    assert not is_clipped(1.0, 1.0, 0.0, scale)


@given(number=st.floats(), scale=st.floats())
def test_usable_is_finite_with_a_positive_scale(number: float, scale: float) -> None:
    finite = math.isfinite(number) and math.isfinite(scale)
    assert usable(scale, number) == (finite and scale > 0.0)


def test_the_median_earns_most_while_nothing_is_clipped() -> None:
    draw = random.Random(7)
    outcomes = [draw.expovariate(1.0) for _ in range(4001)]  # skewed: the mean is not the median
    baseline, scale = 0.4, 100.0

    def earned(forecast: float) -> float:
        assert not any(is_clipped(y, forecast, baseline, scale) for y in outcomes)
        return statistics.fmean(beats_baseline(y, forecast, baseline, scale) for y in outcomes)

    grid = [step / 50 for step in range(101)]
    best = max(grid, key=earned)
    median = statistics.median(outcomes)
    assert abs(best - median) <= 0.02
    assert earned(median) >= earned(best) - 1e-12
    assert earned(median) > earned(statistics.fmean(outcomes))


def test_nearby_forecasts_earn_the_same_where_the_baseline_was_far_off() -> None:
    """The flat top that `is_clipped` reports."""
    assert beats_baseline(0.0, 0.0, 5.0, 1.0) == beats_baseline(0.0, 3.0, 5.0, 1.0) == 1.0
    assert is_clipped(0.0, 3.0, 5.0, 1.0)
