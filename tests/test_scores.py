"""Scores against published values, closed forms, quadrature, and scoringrules where it is right."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nowcast_alfred import scoring

try:
    import scoringrules as sr
except ImportError:
    sr = None

with_oracle = pytest.mark.skipif(sr is None, reason="scoringrules is not installed")
TIGHT = {"rel": 1e-12, "abs": 1e-12}
LEVELS = (0.10, 0.25, 0.50, 0.75, 0.90)
NORMAL_QUANTILES = dict(zip(LEVELS, (-1.2816, -0.6745, 0.0, 0.6745, 1.2816), strict=True))

PINNED = [
    ("CRPS N(0,1) at 0", scoring.crps_normal(0, 0, 1), 0.23369497725510913),
    ("CRPS N(0,1) at 1", scoring.crps_normal(1, 0, 1), 0.6024413576276163),
    ("CRPS N(216,163.3) at 353", scoring.crps_normal(353, 216, 163.3), 81.50373147655192),
    ("CRPS N(0.2,0.7) at -1.5", scoring.crps_normal(-1.5, 0.2, 0.7), 1.3085605202710302),
    ("CRPS of a point", scoring.crps_normal(1, 3, 0), 2.0),
    ("log score N(0,1) at 0", scoring.log_score(0, 0, 1), 0.9189385332046727),
    ("log score N(0,1) at 1", scoring.log_score(1, 0, 1), 1.4189385332046727),
    ("pinball 3, 2, .1", scoring.pinball(3, 2, 0.1), 0.1),
    ("pinball 3, 2, .9", scoring.pinball(3, 2, 0.9), 0.9),
    ("pinball 1, 2, .1", scoring.pinball(1, 2, 0.1), 0.9),
    ("pinball 1, 2, .9", scoring.pinball(1, 2, 0.9), 0.1),
    ("interval [0,4] at 5", scoring.interval_score(5, 0, 4, 0.2), 14.0),
    ("interval part .2 at 1", scoring.interval_score(1, -1.2816, 1.2816, 0.2), 2.5632),
    ("interval part .5 at 1", scoring.interval_score(1, -0.6745, 0.6745, 0.5), 2.651),
    ("WIS at 0", scoring.weighted_interval_score(0, NORMAL_QUANTILES), 0.237428),
    ("WIS at 1", scoring.weighted_interval_score(1, NORMAL_QUANTILES), 0.567628),
    ("WIS at -2", scoring.weighted_interval_score(-2, NORMAL_QUANTILES), 1.454988),
    ("mean pinball at 1", scoring.crps_quantiles(1, NORMAL_QUANTILES) / 2, 0.283814),
    ("gain, January 2024", scoring.gain(353, 200, 216, 163.3), (137 - 153) / 163.3),
    ("reward, January 2024", scoring.beats_baseline(353, 200, 216, 163.3), (137 - 153) / 163.3),
]

numbers = st.floats(-1e3, 1e3)
spreads = st.floats(1e-3, 1e3)
levels = st.floats(0.01, 0.99)


@pytest.mark.parametrize(
    ("value", "pinned"), [case[1:] for case in PINNED], ids=[c[0] for c in PINNED]
)
def test_a_pinned_value_holds(value: float, pinned: float) -> None:
    assert value == pytest.approx(pinned, **TIGHT)


def test_the_width_of_the_normal_interval_is_the_quantile() -> None:
    assert pytest.approx(statistics.NormalDist().inv_cdf(0.9), **TIGHT) == scoring.Z90


@with_oracle
@settings(deadline=None)
@given(y=numbers, mu=numbers, sigma=spreads)
def test_crps_and_log_score_of_a_normal_agree_with_scoringrules(
    y: float, mu: float, sigma: float
) -> None:
    # Far out both are a difference of two large numbers.
    slack = 1e-12 * (abs(y - mu) + sigma)
    assert abs(scoring.crps_normal(y, mu, sigma) - float(sr.crps_normal(y, mu, sigma))) <= slack
    if abs(y - mu) > 30 * sigma:
        return  # theirs is the logarithm of a density that underflows
    assert scoring.log_score(y, mu, sigma) == pytest.approx(
        float(sr.logs_normal(y, mu, sigma)), rel=1e-11, abs=1e-9
    )


@with_oracle
@settings(deadline=None)
@given(y=numbers, a=numbers, b=numbers, alpha=levels)
def test_interval_score_and_pinball_agree_with_scoringrules(
    y: float, a: float, b: float, alpha: float
) -> None:
    low, high = sorted((a, b))
    theirs = float(sr.interval_score(y, low, high, alpha))
    assert scoring.interval_score(y, low, high, alpha) == pytest.approx(theirs, rel=1e-12, abs=1e-9)
    loss = float(sr.quantile_score(y, a, alpha))
    assert scoring.pinball(y, a, alpha) == pytest.approx(loss, rel=1e-12, abs=1e-12)


@with_oracle
@settings(deadline=None)
@given(y=numbers, values=st.lists(numbers, min_size=5, max_size=5))
def test_crps_of_quantiles_agrees_with_scoringrules(y: float, values: list[float]) -> None:
    theirs = float(sr.crps_quantile(y, np.array(sorted(values)), np.array(LEVELS)))
    ours = scoring.crps_quantiles(y, dict(zip(LEVELS, sorted(values), strict=True)))
    assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-12)


@with_oracle
def test_the_weighted_interval_score_of_scoringrules_is_wrong_on_numpy() -> None:
    """It weighs the median itself where the definition has the distance to it.

    A policy rewarded with it would learn to print a huge negative median. When this test fails,
    they have mended it and it can serve as an oracle.
    """
    sides, alphas = np.array([0.6745, 1.2816]), np.array([0.5, 0.2])
    theirs = sr.weighted_interval_score(
        np.array([1.0]), np.array([0.0]), -sides[None], sides[None], alphas, backend="numpy"
    )
    assert float(np.squeeze(theirs)) == pytest.approx(0.367628, abs=1e-9)
    assert scoring.weighted_interval_score(1.0, NORMAL_QUANTILES) == pytest.approx(0.567628)


def by_definition(y: float, quantiles: dict[float, float]) -> float:
    """(|y - m| / 2 + sum of alpha/2 IS_alpha) / (K + 1/2), Bracher et al. 2021."""
    below = [tau for tau in quantiles if tau < 0.5]
    parts = [
        tau * scoring.interval_score(y, quantiles[tau], quantiles[_mirror(quantiles, tau)], 2 * tau)
        for tau in below
    ]
    return (abs(y - quantiles[0.5]) / 2 + math.fsum(parts)) / (len(below) + 0.5)


def _mirror(quantiles: dict[float, float], tau: float) -> float:
    return min(quantiles, key=lambda other: abs(other + tau - 1.0))


@settings(deadline=None)
@given(
    y=numbers,
    below=st.lists(st.integers(1, 499), min_size=0, max_size=6, unique=True),
    data=st.data(),
)
def test_the_weighted_interval_score_is_the_mean_pinball_loss(
    y: float, below: list[int], data: st.DataObject
) -> None:
    taus = sorted([n / 1000 for n in below] + [0.5] + [1 - n / 1000 for n in below])
    values = sorted(data.draw(st.lists(numbers, min_size=len(taus), max_size=len(taus))))
    quantiles = dict(zip(taus, values, strict=True))
    assert scoring.weighted_interval_score(y, quantiles) == pytest.approx(
        by_definition(y, quantiles), rel=1e-11, abs=1e-9
    )


@pytest.mark.parametrize("taus", [(0.1, 0.9), (0.1, 0.5), (0.1, 0.5, 0.8), (0.25, 0.5, 0.6, 0.75)])
def test_levels_that_are_not_pairs_around_the_median_are_refused(taus: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="median"):
        scoring.weighted_interval_score(0.0, dict.fromkeys(taus, 0.0))


@pytest.mark.parametrize(
    ("y", "mu", "sigma"),
    [(0.0, 0.0, 1.0), (1.7, -0.4, 0.6), (-3.0, 1.0, 2.0), (216.0, 353.0, 90.0)],
)
def test_the_crps_is_the_integral_of_squared_differences_and_of_pinball_losses(
    y: float, mu: float, sigma: float
) -> None:
    law = statistics.NormalDist(mu, sigma)
    # (F - 1{x >= y})^2 is smooth on either side of y: midpoints on each.
    reach, steps, total = 9.0 * sigma + abs(y - mu), 20_000, 0.0
    for start, end, step in ((mu - reach, y, 0.0), (y, mu + reach, 1.0)):
        width = (end - start) / steps
        total += width * math.fsum(
            (law.cdf(start + (i + 0.5) * width) - step) ** 2 for i in range(steps)
        )
    assert scoring.crps_normal(y, mu, sigma) == pytest.approx(total, rel=1e-6)
    taus = [(i + 0.5) / 4001 for i in range(4001)]
    dense = scoring.crps_quantiles(y, {tau: law.inv_cdf(tau) for tau in taus})
    assert dense == pytest.approx(total, rel=2e-3)


@settings(deadline=None)
@given(mu=numbers, sigma=spreads)
def test_the_expected_crps_of_the_true_normal_is_sigma_over_root_pi(
    mu: float, sigma: float
) -> None:
    law = statistics.NormalDist(mu, sigma)
    outcomes = [law.inv_cdf((i + 0.5) / 400) for i in range(400)]
    mean = statistics.fmean(scoring.crps_normal(y, mu, sigma) for y in outcomes)
    assert mean == pytest.approx(sigma / math.sqrt(math.pi), rel=5e-3)


@settings(deadline=None)
@given(y=numbers, mu=numbers, sigma=spreads, shift=numbers, factor=st.floats(0.1, 10))
def test_scores_move_with_the_unit(
    y: float, mu: float, sigma: float, shift: float, factor: float
) -> None:
    assume(abs(y - mu) < 30 * sigma)
    before = scoring.crps_normal(y, mu, sigma)
    after = scoring.crps_normal(shift + factor * y, shift + factor * mu, factor * sigma)
    assert after == pytest.approx(factor * before, rel=1e-6, abs=1e-9)
    low, high = mu - sigma, mu + sigma
    width = scoring.interval_score(y, low, high, 0.2)
    moved = [shift + factor * x for x in (y, low, high)]
    assert scoring.interval_score(*moved, 0.2) == pytest.approx(factor * width, rel=1e-6, abs=1e-9)


@settings(deadline=None)
@given(y=numbers, q=numbers)
def test_twice_the_pinball_loss_of_the_median_is_the_absolute_error(y: float, q: float) -> None:
    error = scoring.absolute_error(y, q)
    assert 2.0 * scoring.pinball(y, q, 0.5) == pytest.approx(error, **TIGHT)
    assert scoring.squared_error(y, q) == pytest.approx(error**2, **TIGHT)


@settings(deadline=None)
@given(y=numbers, forecast=numbers, reference=numbers, band=st.floats(0, 10))
def test_direction_has_three_results_and_a_dead_band(
    y: float, forecast: float, reference: float, band: float
) -> None:
    value = scoring.direction(y, forecast, reference, band)
    assert value in (0.0, 0.5, 1.0)
    assert (value == 0.5) == (min(abs(y - reference), abs(forecast - reference)) <= band)
    assert value == scoring.direction(forecast, y, reference, band)


anything = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(0.0, exclude_min=False, allow_infinity=True)


@settings(deadline=None)
@given(y=anything, mu=anything, sigma=positive, values=st.lists(anything, min_size=5, max_size=5))
def test_no_finite_forecast_makes_a_score_that_is_no_number(
    y: float, mu: float, sigma: float, values: list[float]
) -> None:
    quantiles = dict(zip(LEVELS, sorted(values), strict=True))
    for loss in (
        scoring.crps_normal(y, mu, sigma),
        scoring.crps_quantiles(y, quantiles),
        scoring.weighted_interval_score(y, quantiles),
        scoring.interval_score(y, quantiles[0.1], quantiles[0.9], 0.2),
        scoring.absolute_error(y, mu),
        scoring.squared_error(y, mu),
    ):
        assert loss >= 0.0
    assert not math.isnan(scoring.log_score(y, mu, sigma))


def test_the_reward_of_what_is_no_number_is_the_floor() -> None:
    for case in ((math.nan, 1.0, 0.0, 1.0), (0.0, 1.0, math.nan, 1.0), (0.0, 1.0, 0.0, math.nan)):
        assert scoring.beats_baseline(*case) == scoring.FLOOR
    assert scoring.beats_baseline(1e308, -1e308, -1e308, 1.0) == scoring.FLOOR


def test_a_spike_far_from_the_outcome_loses_its_distance() -> None:
    assert scoring.crps_normal(1.0, 0.0, 5e-324) == 1.0
    assert scoring.crps_normal(0.0, 1e308, 1e-300) == 1e308
    assert scoring.crps_normal(0.0, 0.0, math.inf) == math.inf
