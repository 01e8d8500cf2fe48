"""The reward and the numbers it is made of, against one-line references."""

from __future__ import annotations

import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nowcast_alfred.baselines import BASELINES, SCALES, last_change, mean_12, std_24
from nowcast_alfred.scoring import FLOOR, beats_baseline, gain, is_clipped

numbers = st.floats(-1e6, 1e6)
scales = st.floats(1e-3, 1e6)
# Nine decimals: squares of denormal numbers vanish, and no series has such values.
histories = st.lists(numbers.map(lambda x: round(x, 9)), min_size=1, max_size=60)


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


@given(histories)
def test_last_change_is_the_last_value(known: list[float]) -> None:
    assert last_change(np.array(known)) == known[-1]


@given(histories)
def test_mean_12_is_the_mean_of_at_most_twelve(known: list[float]) -> None:
    expected = statistics.mean(known[-12:])
    assert mean_12(np.array(known)) == pytest.approx(expected, rel=1e-12, abs=1e-9)


@given(histories)
def test_std_24_is_the_population_deviation_of_at_most_24(known: list[float]) -> None:
    expected = statistics.pstdev(known[-24:])
    largest = max(map(abs, known[-24:]))
    assert std_24(np.array(known)) == pytest.approx(expected, rel=1e-6, abs=2e-9 * largest)


@given(st.floats(-1e12, 1e12), st.integers(0, 30))
def test_a_series_that_does_not_move_has_no_scale(value: float, length: int) -> None:
    assert std_24(np.full(length, value)) == 0.0


@pytest.mark.parametrize("step", [0.1, 0.3, 1.7, -0.7])
def test_rounding_of_equal_changes_is_no_scale(step: float) -> None:
    levels = np.array([round(100 + step * i, 1) for i in range(40)])
    changes = np.diff(levels)
    assert len(set(changes.tolist())) > 1
    assert std_24(changes) == 0.0


@pytest.mark.parametrize("function", [*BASELINES.values(), *SCALES.values()])
@given(known=st.lists(numbers, min_size=24, max_size=24), older=st.lists(numbers, max_size=9))
def test_what_is_older_than_two_years_does_not_matter(
    function: object, known: list[float], older: list[float]
) -> None:
    assert callable(function)
    assert function(np.array([*older, *known])) == function(np.array(known))
