"""Uncertainty over dates: Student's t against scipy, ratios by inverting a test, and coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from nowcast_alfred.lab.long_run import (
    LEAST,
    automatic_lag,
    by_date,
    covariance,
    critical,
    months,
    ratio_interval,
    shrink,
    student_p,
)
from nowcast_alfred.periods import to_days


@pytest.mark.parametrize("freedom", [1, 2, 3, 9, 10, 86, 105, 2600])
def test_p_and_the_critical_value_are_students(freedom: int) -> None:
    for size in (0.0, 0.3, 1.0, -1.96, 5.0, 40.0):
        assert student_p(size, freedom) == pytest.approx(
            2 * student.sf(abs(size), freedom), abs=1e-13
        )
    assert critical(freedom) == pytest.approx(student.ppf(0.975, freedom), rel=1e-9)


@pytest.mark.parametrize(("n", "lag"), [(10, 2), (30, 3), (86, 3), (100, 4), (300, 5), (5000, 9)])
def test_the_automatic_lag(n: int, lag: int) -> None:
    assert automatic_lag(n) == lag


def test_a_month_is_that_of_the_calendar() -> None:
    days = np.array([to_days(d) for d in ("2024-01-31", "2024-02-01", "2024-02-29", "2025-02-01")])
    found = months(days).tolist()
    assert [month - found[0] for month in found] == [0, 1, 1, 13]


def kernel(n: int) -> np.ndarray:
    """Weight of each pair of dates."""
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return np.maximum(0.0, 1 - apart / (automatic_lag(n) + 1))


def test_the_covariance_is_the_sum_over_all_pairs_of_dates() -> None:
    a, b = np.random.default_rng(1).normal(size=(2, 40))
    assert covariance(a, b) == pytest.approx(a @ kernel(40) @ b)
    assert covariance(a, a) == pytest.approx(a @ kernel(40) @ a)
    assert covariance(a, b) == pytest.approx(covariance(b, a))


def panel(
    rng: np.random.Generator, dates: int, each: int, together: float = 0.5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two sums whose ratio is 0.4 (1 - 0.8 and 1 - 0.5 of an error as large as another's), made of
    outcomes that share a part of their month's surprise; and the months."""

    def surprise() -> np.ndarray:
        shared = np.repeat(rng.normal(size=dates), each)
        return np.sqrt(together) * shared + np.sqrt(1 - together) * rng.normal(size=dates * each)

    naive, with_data, without = (np.abs(surprise()) for _ in range(3))
    return (
        naive - 0.8 * without,
        naive - 0.5 * with_data,
        np.repeat(np.arange(dates, dtype=np.int32), each),
    )


def test_the_interval_holds_the_ratios_that_the_test_does_not_reject() -> None:
    part, whole, when = panel(np.random.default_rng(2), 30, 5)
    found = ratio_interval(part, whole, when)
    assert found is not None
    for ratio, inside in (
        (found[0] - 1e-6, False),
        (found[0] + 1e-6, True),
        (part.sum() / whole.sum(), True),
        (found[1] - 1e-6, True),
        (found[1] + 1e-6, False),
    ):
        sums = by_date(part - ratio * whole, when)
        around = sums - sums.mean()
        statistic = sums.sum() / np.sqrt(around @ kernel(30) @ around) * shrink(30)
        assert (abs(statistic) <= student.ppf(0.975, 29)) == inside


def coverage(dates: int, each: int, alone: bool = False) -> float:
    """How often the interval holds the true ratio, of the tries that have one; `alone`: as if each
    outcome were a date of its own."""
    rng, hits = np.random.default_rng(3), []
    for _ in range(400):
        part, whole, when = panel(rng, dates, each)
        if alone:
            when = rng.permutation(len(when)).astype(np.int32)
        found = ratio_interval(part, whole, when)
        if found:
            hits.append(found[0] <= 0.4 <= found[1])
    assert len(hits) > 350
    return float(np.mean(hits))


@pytest.mark.parametrize(("dates", "each"), [(12, 20), (24, 10), (60, 10)])
def test_the_interval_covers_the_truth_though_a_month_surprises_as_one(
    dates: int, each: int
) -> None:
    assert 0.92 < coverage(dates, each) < 0.98
    assert coverage(dates, each, alone=True) < 0.85


def test_there_is_no_interval_with_few_dates_or_of_a_whole_that_may_be_nothing() -> None:
    part, whole, when = panel(np.random.default_rng(4), LEAST, 5)
    assert ratio_interval(part, whole, when) is not None
    assert ratio_interval(part, whole, when % (LEAST - 1)) is None
    assert ratio_interval(whole, part - part.mean(), when) is None
    assert ratio_interval(part, -whole, when) is None
    assert ratio_interval(part, 0 * whole, when) is None


def test_a_ratio_that_is_the_same_everywhere_is_sure() -> None:
    _, whole, when = panel(np.random.default_rng(5), 40, 3)
    assert ratio_interval(0.25 * whole, whole, when) == pytest.approx((0.25, 0.25), abs=1e-12)
