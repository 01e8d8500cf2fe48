"""Baselines and scales against one-line references, `best_of` inside its view, real ratios."""

from __future__ import annotations

import hashlib
import math
import os
import statistics
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nowcast_alfred import autoregression, choice, recheck
from nowcast_alfred.baselines import (
    BASELINES,
    SCALES,
    BaselineName,
    Known,
    ScaleName,
    mad_24,
    mean_abs_change_60,
    rounding_unit,
    scale_of,
    std_24,
)
from nowcast_alfred.choice import baseline_on, best_of, known_on
from nowcast_alfred.data import NowcastData
from nowcast_alfred.lab import backtest
from nowcast_alfred.periods import (
    PERIODS_PER_YEAR,
    UNITS,
    Days,
    Floats,
    Frequency,
    Units,
    iso,
    shift,
    to_days,
    transform,
)
from nowcast_alfred.store import SeriesInput, VintageStore, open_store, publish
from nowcast_alfred.stream import Draw, Stream
from nowcast_alfred.targets import SpaceConfig, build_space, first_releases
from nowcast_alfred.task import make_data
from nowcast_alfred.taskset import NowcastConfig
from panels import day, meta, months, small_inputs, small_series, small_store, store_of, table

ROOT = Path(__file__).resolve().parent.parent
BASELINE_NAMES: tuple[BaselineName, ...] = get_args(BaselineName)
SCALE_NAMES: tuple[ScaleName, ...] = get_args(ScaleName)
FREQUENCIES: tuple[Frequency, ...] = get_args(Frequency)

# Nine decimals: squares of denormal numbers vanish, and no series has such values.
numbers = st.floats(-1e6, 1e6).map(lambda x: round(x, 9))
anything = st.floats(allow_nan=False, allow_infinity=False)
histories = st.lists(numbers, min_size=1, max_size=90)


def known_of(values: Any, units: Units = "lin", frequency: Frequency = "m") -> Known:
    """A series whose levels are its values; what most baselines read is only the values."""
    array = np.array(values, dtype=np.float64)
    return Known(array, array, units, frequency)


def forecast(name: str, values: Any, frequency: Frequency = "m") -> float:
    return BASELINES[name](known_of(values, frequency=frequency))


# --- Baselines, one line each


def weighted(values: list[float]) -> float:
    """The exponentially weighted mean by its weights."""
    n = len(values)
    weights = [0.3 * 0.7 ** (n - 1 - i) for i in range(n)]
    weights[0] = 0.7 ** (n - 1)
    return sum(w * v for w, v in zip(weights, values, strict=True))


REFERENCES: dict[str, Any] = {
    "last_change": lambda x: x[-1],
    "last_value": lambda x: x[-1],
    "mean_3": lambda x: statistics.mean(x[-3:]),
    "mean_12": lambda x: statistics.mean(x[-12:]),
    "median_12": lambda x: statistics.median(x[-12:]),
    "mean_all": lambda x: statistics.mean(x),
    "ewma": lambda x: weighted(x[-60:]),
    "seasonal_naive": lambda x: x[-12] if len(x) >= 12 else x[-1],
}


@pytest.mark.parametrize("name", REFERENCES)
@given(values=histories)
def test_each_baseline_is_its_one_line_reference(name: str, values: list[float]) -> None:
    assert forecast(name, values) == pytest.approx(REFERENCES[name](values), rel=1e-12, abs=1e-9)


def test_every_baseline_has_a_reference() -> None:
    assert {*REFERENCES, "ar_bic", "best_of"} == set(BASELINE_NAMES)


@given(
    level=st.lists(st.integers(1, 10**6).map(lambda i: i / 10), min_size=1, max_size=90),
    units=st.sampled_from(UNITS),
    frequency=st.sampled_from(("m", "q", "a")),
)
def test_last_value_is_the_transform_of_a_level_that_stays(
    level: list[float], units: Units, frequency: Frequency
) -> None:
    step = {"m": 1, "q": 3, "a": 12}[frequency]
    periods = np.array([to_days(p) for p in months("1980-01-01", (len(level) + 1) * step)[::step]])
    stays = np.array([*level, level[-1]])
    after = transform(periods.astype(np.int32), stays, units, frequency)
    value = after[:-1][~np.isnan(after[:-1])]
    found = BASELINES["last_value"](Known(value, stays[:-1], units, frequency)) if len(value) else 0
    if len(value):  # then a year before the next period is known too
        assert found == pytest.approx(after[-1], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("count", [2, 3, 7, 12])
def test_a_mean_of_the_largest_floats_is_one_of_them(count: int) -> None:
    assert forecast("mean_all", [sys.float_info.max] * count) == sys.float_info.max
    assert forecast("mean_12", [-sys.float_info.max] * count) == -sys.float_info.max
    assert std_24(np.array([sys.float_info.max] * count)) == 0.0


def test_last_value_of_a_year_is_last_change_where_the_year_before_has_no_meaning() -> None:
    level = np.array([0.0, 1.0, 2.0, 3.0])
    assert BASELINES["last_value"](Known(np.array([7.0]), level, "pc1", "q")) == 7.0
    assert BASELINES["last_value"](Known(np.array([7.0]), level[1:], "ch1", "q")) == 7.0
    assert BASELINES["last_value"](Known(np.array([7.0]), level, "ch1", "q")) == 3.0


@pytest.mark.parametrize("frequency", FREQUENCIES)
def test_seasonal_naive_looks_back_a_year(frequency: Frequency) -> None:
    values = np.arange(400.0)
    assert forecast("seasonal_naive", values, frequency) == 400 - PERIODS_PER_YEAR[frequency]


# --- A year before, by the calendar

YEARLY = ["seasonal_naive", "last_value"]
STARTS: dict[Frequency, int] = {f: to_days("1990-01-01") for f in ("d", "m", "q", "a")} | {
    "w": to_days("1990-01-06")
}


def consecutive(frequency: Frequency, count: int) -> Days:
    """So many periods in a row."""
    first = STARTS[frequency]
    return np.array([shift(first, frequency, i) for i in range(count)], dtype=np.int32)


def seen(
    period: Days, level: Floats, units: Units, frequency: Frequency, target: int | None = None
) -> Known:
    """What is known of levels with their periods."""
    value = transform(period, level, units, frequency)
    keep = ~np.isnan(value)
    return Known(value[keep], level, units, frequency, period[keep], period, target)


def by_position(name: str, known: Known) -> float:
    """A year back as so many values back."""
    back = PERIODS_PER_YEAR[known.frequency]
    if name == "seasonal_naive":
        return float(known.value[-back] if len(known.value) >= back else known.value[-1])
    if known.units not in ("ch1", "pc1"):
        return float(known.level[-1]) if known.units == "lin" else 0.0
    if len(known.level) < back:
        return float(known.value[-1])
    last, before = float(known.level[-1]), float(known.level[-back])
    return last - before if known.units == "ch1" else (last / before - 1.0) * 100.0


@pytest.mark.parametrize("name", YEARLY)
@given(
    whole=st.lists(st.integers(1, 10**6), min_size=2, max_size=600),
    units=st.sampled_from(UNITS),
    frequency=st.sampled_from(FREQUENCIES),
)
def test_without_a_gap_the_calendar_and_the_positions_are_one(
    name: str, whole: list[int], units: Units, frequency: Frequency
) -> None:
    period, level = consecutive(frequency, len(whole) + 1), np.array(whole) / 10
    known = seen(period[:-1], level, units, frequency)
    if not len(known.value):
        return
    told = replace(known, target=int(period[-1]))
    bare = Known(known.value, known.level, units, frequency)
    expected = by_position(name, known)
    assert [BASELINES[name](k) for k in (known, told, bare)] == [expected] * 3


@pytest.mark.parametrize("frequency", ["w", "m", "q", "a"])
@pytest.mark.parametrize("units", ["lin", "chg", "ch1", "pc1"])
@given(data=st.data())
def test_with_gaps_a_year_before_is_the_calendar_s(
    frequency: Frequency, units: Units, data: st.DataObject
) -> None:
    back = PERIODS_PER_YEAR[frequency]
    period = consecutive(frequency, 3 * back + 3)
    level = np.arange(1.0, len(period) + 1) ** 2  # no two values or changes are equal
    gaps = st.sets(st.integers(1, len(period) - 2), max_size=max(2, back // 3))
    keep = np.ones(len(period) - 1, dtype=bool)
    keep[list(data.draw(gaps))] = False
    known = seen(period[:-1][keep], level[:-1][keep], units, frequency, int(period[-1]))
    if not len(known.value):
        return
    assert known.value_period is not None
    a_year_before = period[-1 - back]
    value = dict(zip(known.value_period.tolist(), known.value.tolist(), strict=True))
    assert BASELINES["seasonal_naive"](known) == value.get(int(a_year_before), known.value[-1])
    if units in ("ch1", "pc1"):
        stays = np.append(known.level, known.level[-1])
        by_definition = transform(np.append(period[:-1][keep], period[-1]), stays, units, frequency)
        expected = known.value[-1] if np.isnan(by_definition[-1]) else by_definition[-1]
        assert BASELINES["last_value"](known) == expected


def shutdown_input(units: Units) -> SeriesInput:
    """Ten years, each month 41 days after its start; October 2025 was never published."""
    periods = [p for p in months("2016-01-01", 131) if p != "2025-10-01"]
    rows = [(p, iso(day(p) + 41), 1000.0 + 100 * int(p[5:7]) + int(p[:4])) for p in periods]
    return SeriesInput([meta("NSA", transform=units, seasonal_adjustment="Not")], table(rows))


def shutdown(units: Units) -> VintageStore:
    """The same as a store in memory."""
    found = shutdown_input(units)
    return VintageStore.from_tables({"NSA": found.table}, found.meta)


@pytest.mark.parametrize("units", ["lin", "pc1"])
def test_a_month_that_was_never_published_moves_no_other(units: Units) -> None:
    store = shutdown(units)
    targets = build_space(store, SpaceConfig(split="all")).series["NSA"]
    late = [
        (p, h) for p, h in zip(targets.period, targets.high, strict=True) if p > day("2025-08-01")
    ]
    assert {"2025-11-01", "2026-03-01"} < {iso(period) for period, _ in late}
    for period, as_of in late:
        view = store.view(iso(as_of))
        known = known_on(view, "NSA", units, int(period))
        year_before = shift(int(period), "m", -12)
        values = view.observations("NSA", units=units)
        held = dict(zip(values.period.tolist(), values.value.tolist(), strict=True))
        expected = held.get(year_before, values.value[-1])
        assert BASELINES["seasonal_naive"](known) == expected, iso(period)
        if units == "pc1":
            level = view.observations("NSA")
            then = dict(zip(level.period.tolist(), level.value.tolist(), strict=True))[year_before]
            expected = (level.value[-1] / then - 1.0) * 100.0
            assert BASELINES["last_value"](known) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("units", ["lin", "pc1"])
@pytest.mark.parametrize("name", YEARLY)
def test_a_task_and_the_backtest_forecast_the_period_asked_for(
    name: BaselineName, units: Units, tmp_path: Path
) -> None:
    """Both give November 2025 what November 2024 says, with nothing known after September."""
    publish(tmp_path, [shutdown_input(units)])
    held = open_store(tmp_path)
    targets = build_space(held, SpaceConfig(split="all")).series["NSA"]
    made = backtest.forecast(
        held, backtest.Job("", held.fingerprint, "NSA", targets, SpaceConfig())
    )
    seen_november = 0
    for i, (period, as_of) in enumerate(zip(made.period, made.as_of, strict=True)):
        draw = Draw(0, "NSA", int(period), int(as_of), int(made.release[i]))
        task = make_data(held, draw, units, baseline=name)
        known = known_on(held.view(iso(as_of)), "NSA", units, int(period))
        assert (
            task.baseline == made.forecast[i, backtest.NAMES.index(name)] == BASELINES[name](known)
        )
        assert recheck.faults(str(tmp_path), task) == []
        seen_november += iso(period) == "2025-11-01"
    assert seen_november > 0


def test_the_backtest_of_best_of_forecasts_the_period_and_not_the_next() -> None:
    """November 2025, asked for after September: a year before it is November 2024."""
    store = shutdown("lin")
    release, eve = day("2025-12-12"), day("2025-12-11")
    past = choice._Past(store.fingerprint, "NSA", "lin", release, store)
    errors = dict(zip(BASELINES, choice._errors(past, day("2025-11-01"), eve), strict=True))
    assert errors["seasonal_naive"] == 1.0


@pytest.mark.parametrize("name", BASELINES)
@settings(max_examples=200)
@given(
    values=st.lists(anything, min_size=1, max_size=70),
    units=st.sampled_from(UNITS),
    frequency=st.sampled_from(FREQUENCIES),
)
def test_a_baseline_is_finite_whatever_is_known(
    name: str, values: list[float], units: Units, frequency: Frequency
) -> None:
    found = BASELINES[name](known_of(values, units, frequency))
    assert type(found) is float
    assert math.isfinite(found)


@pytest.mark.parametrize("name", BASELINES)
@given(values=histories, frequency=st.sampled_from(FREQUENCIES))
def test_a_baseline_lies_within_what_was_known(
    name: str, values: list[float], frequency: Frequency
) -> None:
    rounding = 1e-12 * max(map(abs, values))
    found = forecast(name, values, frequency)
    assert min(values) - rounding <= found <= max(values) + rounding


@pytest.mark.parametrize("name", BASELINES)
@given(values=histories)
def test_a_baseline_turns_and_grows_with_its_series_to_the_bit(
    name: str, values: list[float]
) -> None:
    found = forecast(name, values)
    assert forecast(name, [-x for x in values]) == -found
    assert forecast(name, [4.0 * x for x in values]) == 4.0 * found


@pytest.mark.parametrize(
    ("name", "span"),
    {"mean_3": 3, "mean_12": 12, "median_12": 12, "std_24": 24, "mad_24": 24}.items(),
)
@given(values=histories, data=st.data())
def test_the_order_within_the_span_and_what_is_older_do_not_matter(
    name: str, span: int, values: list[float], data: st.DataObject
) -> None:
    recent = data.draw(st.permutations(values[-span:]))
    if name in BASELINES:
        assert forecast(name, recent) == forecast(name, values)
    else:
        assert SCALES[name](np.array(recent)) == SCALES[name](np.array(values))


@given(older=st.lists(numbers, max_size=9), values=st.lists(numbers, min_size=61, max_size=61))
def test_what_is_older_than_sixty_values_does_not_matter(
    older: list[float], values: list[float]
) -> None:
    assert forecast("ewma", older + values) == forecast("ewma", values)
    assert mean_abs_change_60(np.array(older + values)) == mean_abs_change_60(np.array(values))


# --- The autoregression


def solved(values: list[float], most: int) -> tuple[float, np.ndarray]:
    """Forecast and coefficients by direct solution of each order's Yule-Walker equations."""
    middle = statistics.median(values)
    spread = statistics.median([abs(x - middle) for x in values])
    x = np.clip(values, middle - 5 * spread, middle + 5 * spread)
    n, around = len(x), x - x.mean()
    gamma = np.array([around[k:] @ around[: n - k] / n for k in range(most + 1)])
    best = (n * np.log(gamma[0]), x.mean(), np.zeros(0))
    for p in range(1, most + 1):
        matrix = gamma[np.abs(np.subtract.outer(np.arange(p), np.arange(p)))]
        phi = np.linalg.solve(matrix, gamma[1 : p + 1])
        bic = n * np.log(gamma[0] - phi @ gamma[1 : p + 1]) + p * np.log(n)
        if bic < best[0]:
            best = (bic, x.mean() + phi @ around[::-1][:p], phi)
    return float(np.clip(best[1], x.min(), x.max())), best[2]


def simulated(seed: int, phi: list[float], n: int = 240) -> list[float]:
    draw, x = np.random.default_rng(seed), [0.0] * len(phi)
    for _ in range(n + 50):
        x.append(sum(a * b for a, b in zip(phi, x[::-1], strict=False)) + draw.normal())
    return [3.0 + 0.5 * value for value in x[-n:]]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("phi", [[], [0.8], [-0.5], [0.4, 0.4], [0.0] * 11 + [0.6]], ids=str)
def test_the_recursion_solves_the_yule_walker_equations(phi: list[float], seed: int) -> None:
    values = simulated(seed, phi)
    expected, weights = solved(values, 12)
    assert forecast("ar_bic", values) == pytest.approx(expected, abs=1e-9)
    if len(weights):
        assert max(abs(np.roots([1.0, *-weights]))) < 1.0


def test_a_year_s_lag_is_found() -> None:
    orders = [len(solved(simulated(seed, [0.0] * 11 + [0.6]), 12)[1]) for seed in range(40)]
    assert sum(order == 12 for order in orders) > 35


@pytest.mark.parametrize(("frequency", "most"), [("m", 12), ("q", 4), ("w", 8), ("d", 5), ("a", 2)])
def test_each_frequency_has_its_sample_and_highest_order(frequency: Frequency, most: int) -> None:
    values = simulated(3, [0.3, 0.3], 1500)
    span = {"d": 520, "w": 1040, "m": 240, "q": 80, "a": 20}[frequency]
    expected, _ = solved(values[-span:], most)
    assert forecast("ar_bic", values, frequency) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "values",
    [
        [1.5**i for i in range(80)],
        [(-1.5) ** i for i in range(80)],
        [float(i) ** 3 for i in range(300)],
        [float(i % 2) for i in range(100)],
        [0.0] * 60 + [1.0],
        [1.0] + [0.0] * 60,
        [2.5],
        [2.5, 3.5],
        [1e300 * (-1) ** i for i in range(50)],
    ],
    ids=lambda x: f"{x[0]:g}...{x[-1]:g}",
)
def test_the_autoregression_is_stable_on_samples_that_are_not(values: list[float]) -> None:
    found = forecast("ar_bic", values)
    drawn_in = autoregression.winsorised(values[-240:])
    assert min(drawn_in) <= found <= max(drawn_in)


@pytest.mark.parametrize("since", range(13))
def test_april_2020_does_not_last(since: int) -> None:
    draw = np.random.default_rng(5)
    calm = draw.normal(180, 60, 240).round().tolist()
    shock = [-870.0, -20500.0, 2509.0, 4800.0]
    later = draw.normal(300, 100, since).round().tolist()
    assert -300 < forecast("ar_bic", calm + shock + later) < 700


@given(st.lists(numbers, min_size=40, max_size=90))
def test_every_reflection_is_inside_the_unit_interval(values: list[float]) -> None:
    around = np.array(values) - np.mean(values)
    covariances = [float(around[k:] @ around[: len(around) - k]) for k in range(9)]
    if covariances[0] > 1e-6:
        weights = autoregression.yule_walker(covariances, len(values))
        radius = max(abs(np.roots([1.0, *(-w for w in weights)])), default=0.0)
        assert radius < 1.0 + 1e-6  # to what NumPy's root finder can tell


# --- Scales


@given(histories)
def test_std_24_is_the_population_deviation_of_at_most_24(values: list[float]) -> None:
    largest = max(map(abs, values[-24:]))
    expected = statistics.pstdev(values[-24:])
    assert std_24(np.array(values)) == pytest.approx(expected, rel=1e-6, abs=2e-9 * largest)


@given(histories)
def test_mad_24_is_the_median_distance_from_the_median(values: list[float]) -> None:
    x = values[-24:]
    expected = statistics.median(abs(v - statistics.median(x)) for v in x)
    largest = max(map(abs, x))
    assert mad_24(np.array(values)) == pytest.approx(expected, rel=1e-12, abs=2e-9 * largest)


@given(st.lists(numbers, min_size=2, max_size=90))
def test_mean_abs_change_60_is_the_mean_step(values: list[float]) -> None:
    expected = float(np.abs(np.diff(values))[-60:].mean())
    largest = max(map(abs, values[-61:]))
    found = mean_abs_change_60(np.array(values))
    assert found == pytest.approx(expected, rel=1e-9, abs=2e-9 * largest)


@pytest.mark.parametrize("name", SCALE_NAMES)
@given(value=st.floats(-1e12, 1e12), length=st.integers(1, 70), units=st.sampled_from(UNITS))
def test_a_series_that_does_not_move_has_no_scale(
    name: ScaleName, value: float, length: int, units: Units
) -> None:
    assert SCALES[name](np.full(length, value)) == 0.0
    assert scale_of(name, known_of([value] * length, units)) == 0.0  # the floor makes none


@pytest.mark.parametrize("name", SCALE_NAMES)
@pytest.mark.parametrize("step", [0.1, 0.3, 1.7, -0.7])
def test_rounding_of_equal_changes_is_no_scale(name: ScaleName, step: float) -> None:
    levels = np.array([round(100 + step * i, 1) for i in range(70)])
    changes = np.diff(levels)
    assert len(set(changes.tolist())) > 1
    assert SCALES[name](changes) == 0.0
    assert scale_of(name, Known(changes, levels, "chg", "m")) == 0.0


@pytest.mark.parametrize("name", SCALE_NAMES)
@given(values=st.lists(anything, min_size=1, max_size=70), units=st.sampled_from(UNITS))
def test_a_scale_is_finite_and_not_negative(
    name: ScaleName, values: list[float], units: Units
) -> None:
    assert 0.0 <= SCALES[name](np.array(values)) < math.inf
    assert scale_of(name, known_of(values, units)) >= 0.0


@pytest.mark.parametrize(
    ("levels", "unit"),
    [
        ([157_232.0, 157_016.0], 1.0),
        ([3.9, 4.0, 4.1], 0.1),
        ([1.0, 2.0, 1034.57], 0.01),
        ([1500.0, 1200.0, 0.0], 100.0),
        ([221_000.0, 230_000.0], 1000.0),
        ([0.1 + 0.2], 0.0),  # seventeen digits are no printed number
        ([0.0, 0.0], 0.0),
        ([1e-15], 1e-15),
        ([1e20], 1e15),
        ([0.3] + [7.0] * 60, 1.0),  # sixty levels are read
        ([0.3] + [7.0] * 59, 0.1),
        ([-12.5, 3.0], 0.1),
    ],
)
def test_the_rounding_unit_is_the_last_digit_in_use(levels: list[float], unit: float) -> None:
    assert rounding_unit(np.array(levels)) == unit
    assert rounding_unit(np.array(levels), above=unit) == 0.0


@given(
    st.lists(st.integers(-(10**7), 10**7), min_size=1, max_size=80), st.integers(-9, 5), st.floats()
)
def test_the_rounding_unit_is_that_of_the_decimals(
    whole: list[int], power: int, above: float
) -> None:
    levels = [float(f"{n}e{power}") for n in whole]
    used = [Decimal(repr(x)).normalize().as_tuple().exponent for x in levels[-60:] if x]
    expected = float(f"1e{min(used)}") if used else 0.0
    assert rounding_unit(np.array(levels)) == expected
    if not math.isnan(above):
        cut = expected if expected > above else 0.0
        assert rounding_unit(np.array(levels), above=above) == cut


@given(
    name=st.sampled_from(SCALE_NAMES),
    whole=st.lists(st.integers(1, 400), min_size=3, max_size=70),
    power=st.integers(-3, 3),
    units=st.sampled_from(UNITS),
)
def test_a_positive_scale_is_at_least_a_printed_unit(
    name: ScaleName, whole: list[int], power: int, units: Units
) -> None:
    level = np.array([float(f"{n}e{power}") for n in whole])
    value = np.diff(level) if units == "chg" else level
    raw, unit = SCALES[name](value), rounding_unit(level)
    floor = 100 * unit / level[-1] if units in ("pch", "pc1", "pca") else unit
    expected = max(raw, floor) if raw > 0 else 0.0
    assert scale_of(name, Known(value, level, units, "m")) == pytest.approx(expected, rel=1e-12)


# --- best_of


def up_to(store_day: int, later: Any = None) -> VintageStore:
    """The small store without the rows after a day, or with others in their place."""
    kept = {}
    for key, (info, rows) in small_series().items():
        own = [tuple(row.values()) for row in rows.to_pylist()]
        past = [row for row in own if day(row[1]) <= store_day]
        future = [later(row) for row in own if day(row[1]) > store_day] if later else []
        if past:
            kept[key] = (info, table([*past, *future], key))
    return VintageStore.from_tables(
        {key: rows for key, (_, rows) in kept.items()},
        [row for info, _ in kept.values() for row in info],
    )


def poison(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A later row that says something else, about another period as well."""
    return (*row[:2], 1e9 if row[2] is None else -37.5 * row[2], *row[3:])


DAYS = ["2012-01-15", "2013-06-03", "2014-06-20", "2014-12-10", "2016-03-01", "2018-02-14"]


@pytest.mark.parametrize("as_of", DAYS)
@pytest.mark.parametrize("later", [None, poison], ids=["cut", "poisoned"])
def test_best_of_sees_nothing_after_its_day(as_of: str, later: Any) -> None:
    whole, changed = small_store(), up_to(day(as_of), later)
    assert whole.fingerprint != changed.fingerprint
    for info in whole.view(as_of).series():
        for units in UNITS:
            found = [known_on(s.view(as_of), info.id, units) for s in (whole, changed)]
            if not len(found[0].value):
                continue
            names = [best_of(s, info.id, units, day(as_of)) for s in (whole, changed)]
            assert names[0] == names[1], (info.id, units)
            values = [
                baseline_on("best_of", s, info.id, day(as_of), known)
                for s, known in zip((whole, changed), found, strict=True)
            ]
            assert values[0] == values[1]


def test_a_backfill_after_the_day_does_not_undo_a_release_before_it() -> None:
    """The period after a backfilled one loses its window, but only from the backfill on."""
    store, cut = small_store(), day("2014-11-20")  # 2014-06 comes on 2014-12-03
    seen = choice._releases(choice._Past("", "SALES", "lin", cut, store))
    assert day("2014-07-01") in seen.period
    whole = first_releases(store.changes("SALES"), seen.role)
    assert day("2014-07-01") not in whole.period


ANY = SpaceConfig(split="all", min_history=1, max_horizon=10_000)


def test_best_of_is_the_lowest_mean_error_over_24_first_releases() -> None:
    store, chosen = small_store(), set()
    for key, targets in build_space(store, ANY).series.items():
        units, releases = targets.role.transform, targets.release
        for at in range(14, len(releases), 9):
            if at + 1 == len(releases) or releases[at + 1] <= releases[at]:
                continue
            own = choice._releases(choice._Past("", key, units, int(releases[at]), store))
            errors = {name: list[float]() for name in BASELINES}
            for period, high in zip(own.period.tolist(), own.high.tolist(), strict=True):
                y = store.outcome(key, period, units).first
                known = known_on(store.view(iso(high)), key, units)
                for name in BASELINES:
                    errors[name].append(abs(BASELINES[name](known) - y))
            assert len(own.period) <= 24
            means = {name: math.fsum(e) / len(e) for name, e in errors.items()}
            found = best_of(store, key, units, int(releases[at]))
            assert means[found] == min(means.values())
            assert found == next(name for name in means if means[name] == means[found])
            chosen.add(found)
    assert len(chosen) >= 4  # no baseline is best everywhere


def test_draws_in_one_window_share_one_choice() -> None:
    store = small_store()
    targets = build_space(store, ANY).series["EMP"]
    low, high = int(targets.low[40]), int(targets.high[40])
    choice._best.cache_clear()  # other tests ask of an equal store
    best_of(store, "EMP", "chg", low)
    before = choice._best.cache_info().misses
    assert len({best_of(store, "EMP", "chg", d) for d in range(low, high + 1)}) == 1
    assert choice._best.cache_info().misses == before
    best_of(store, "EMP", "chg", int(targets.release[40]))
    assert choice._best.cache_info().misses == before + 1


def test_too_little_history_is_last_change_and_ties_go_to_the_first() -> None:
    periods = months("2010-01-01", 60)
    first = [(p, "2012-01-11", 100.0) for p in periods[:24]]
    rest = [(p, iso(day(p) + 41), 100.0) for p in periods[24:]]
    store = store_of((meta("X"), [*first, *rest]))
    for at in (24, 30, 34):  # fewer than twelve releases
        assert best_of(store, "X", "lin", day(periods[at]) + 41) == "last_change"
    assert best_of(store, "X", "lin", day("2015-06-01")) == "last_change"  # all are right
    moving = [(p, v, 100.0 + 10 * (i % 2)) for i, (p, v, _) in enumerate([*first, *rest])]
    store = store_of((meta("X"), moving))
    assert best_of(store, "X", "chg", day(periods[30]) + 41) == "last_change"
    assert best_of(store, "X", "chg", day("2015-06-01")) == "seasonal_naive"


# --- In tasks


def test_a_baseline_changes_no_draw_and_a_scale_is_part_of_the_stream() -> None:
    plain = Stream(small_store(), NowcastConfig())
    for name in BASELINE_NAMES:
        assert Stream(small_store(), NowcastConfig(baseline=name)).key == plain.key
    keys = {Stream(small_store(), NowcastConfig(scale=name)).key for name in SCALE_NAMES}
    assert len(keys) == len(SCALE_NAMES)
    assert plain.key in keys


def tasks(baseline: BaselineName, scale: ScaleName, count: int = 150) -> list[NowcastData]:
    store = small_store()
    stream = Stream(store, SpaceConfig(split="all", scale=scale))
    roles = {key: found.role for key, found in stream.space.series.items()}
    draws = map(stream.draw, range(count))
    return [
        make_data(store, d, roles[d.series_id].transform, baseline=baseline, scale=scale)
        for d in draws
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("small")
    publish(place, small_inputs())
    return str(place)


@pytest.mark.parametrize(
    ("baseline", "scale"),
    [(name, SCALE_NAMES[i % 3]) for i, name in enumerate(BASELINE_NAMES)],
)
def test_the_raw_rows_give_every_baseline_and_scale(
    baseline: BaselineName, scale: ScaleName, folder: str
) -> None:
    for task in tasks(baseline, scale):
        assert task.scale > 0
        assert recheck.faults(folder, task) == []
        far = task.model_copy(update={"baseline": task.baseline + 1e6})
        assert recheck.faults(folder, far)
        assert recheck.faults(folder, task.model_copy(update={"baseline": math.nan}))
        if baseline not in ("ar_bic", "best_of"):
            near = task.baseline + 1e-6 * max(1, abs(task.baseline))
            assert recheck.faults(folder, task.model_copy(update={"baseline": near}))
        assert recheck.faults(folder, task.model_copy(update={"scale": task.scale * (1 + 1e-6)}))


def digest() -> str:
    """A hash over every baseline and scale of some tasks, to the last bit."""
    text = [
        f"{task.id} {task.baseline.hex()} {task.scale.hex()}"
        for i, name in enumerate(BASELINE_NAMES)
        for task in tasks(name, SCALE_NAMES[i % 3], 60)
    ]
    return hashlib.sha256("\n".join(text).encode()).hexdigest()


def test_every_number_is_the_same_to_the_bit_here_and_in_another_process() -> None:
    """The digest is pinned: it must hold on another machine and another NumPy too."""
    assert digest() == PINNED
    code = "import sys; sys.path.insert(0, 'tests'); import test_baselines as t; print(t.digest())"
    env = {**os.environ, "PYTHONHASHSEED": "4711", "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == PINNED


PINNED = "5f0eb1951feaf8a94076df984042e2af9793a5cdfb8a42037e9c44ad1a1378fb"


# --- Real vintages


Errors = dict[str, dict[BaselineName, Floats]]


@pytest.fixture(scope="module")
def errors(panel: VintageStore) -> tuple[Errors, dict[str, Floats]]:
    """Each baseline's errors on the day before each release, and the periods, by series."""
    errors: Errors = {}
    periods = {}
    for key, targets in build_space(panel, SpaceConfig(split="all")).series.items():
        units, rows = targets.role.transform, []
        for period, high in zip(targets.period.tolist(), targets.high.tolist(), strict=True):
            y = panel.outcome(key, period, units).first
            known = known_on(panel.view(iso(high)), key, units)
            rows.append(
                [abs(baseline_on(name, panel, key, high, known) - y) for name in BASELINE_NAMES]
            )
        errors[key] = dict(zip(BASELINE_NAMES, np.array(rows).T, strict=True))
        periods[key] = targets.period
    return errors, periods


@pytest.mark.real
def test_ratios_to_last_change_are_those_of_the_notes(
    errors: tuple[Errors, dict[str, Floats]],
) -> None:
    def ratio(key: str, name: BaselineName, covid: bool = False) -> float:
        period = errors[1][key]
        calm = (period < to_days("2020-02-01")) | (period > to_days("2021-06-01"))
        keep = np.ones(len(period), dtype=bool) if covid else calm
        own = errors[0][key]
        return float(own[name][keep].mean() / own["last_change"][keep].mean())

    noted = {"HOUST": 0.56, "DGORDER": 0.60, "RSAFS": 0.70, "INDPRO": 0.67, "PAYEMS": 0.85}
    for key, expected in noted.items():
        assert ratio(key, "mean_12") == pytest.approx(expected, abs=0.02)
    assert ratio("HOUST", "ar_bic") == pytest.approx(0.45, abs=0.02)
    assert ratio("DGORDER", "ar_bic") == pytest.approx(0.53, abs=0.02)
    # Unguarded, the notes have 1.31 for payrolls, 2.54 with 2020, and 2.83 for income.
    worst = {c: max(ratio(key, "ar_bic", c) for key in errors[0]) for c in (False, True)}
    assert worst[False] < 1.05
    assert worst[True] < 1.3
    # best_of is never the best in hindsight and never a mistake.
    for key in errors[0]:
        assert ratio(key, "best_of") < 1.1
    typical = [math.log(ratio(key, "best_of")) for key in errors[0]]
    assert math.exp(statistics.fmean(typical)) < 0.85


@pytest.mark.real
def test_the_scale_of_january_2024_payrolls_is_to_the_digit(panel: VintageStore) -> None:
    known = known_on(panel.view("2024-01-31"), "PAYEMS", "chg")
    assert scale_of("std_24", known) == std_24(known.value)
    assert scale_of("std_24", known) == pytest.approx(163.3462, abs=5e-5)
    assert rounding_unit(known.level) == 1.0
