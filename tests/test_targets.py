"""Which first releases are genuine, when they may be asked for, and what each filter leaves."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nowcast_alfred.errors import ConfigError
from nowcast_alfred.periods import PERIODS_PER_YEAR, UNITS, Units, iso, shift, to_days
from nowcast_alfred.store.schema import SeriesMeta
from nowcast_alfred.targets import SpaceConfig, TaskSpace, build_space, first_releases
from panels import Row, meta, small_store, store_of

ANY = SpaceConfig(split="all", min_history=1, max_horizon=10_000)


def months(first: str, count: int) -> list[str]:
    return [iso(shift(to_days(first), "m", i)) for i in range(count)]


def after(period: str, days: int, frequency: Any = "m") -> str:
    """A day so many days after the period's end."""
    return iso(shift(to_days(period), frequency, 1) - 1 + days)


def plain(count: int = 8, lag: int = 10) -> list[Row]:
    """Two years in the first vintage, then one month a release; every change another."""
    old, new = months("2010-01-01", 24), months("2012-01-01", count)
    rows: list[Row] = [(p, "2012-01-11", 100.0 + i * i) for i, p in enumerate(old)]
    return rows + [(p, after(p, lag), 700.0 + i * i * i) for i, p in enumerate(new)]


def without(rows: list[Row], *periods: str) -> list[Row]:
    return [row for row in rows if row[0] not in periods]


Windows = dict[str, tuple[str, str, str]]


def windows(rows: list[Row], config: SpaceConfig = ANY, info: SeriesMeta | None = None) -> Windows:
    """Period -> (release, first and last as-of day) of the targets of one series."""
    info = info or meta("X")
    try:
        space = build_space(store_of((info, rows)), config)
    except ConfigError:
        return {}
    return by_period(space, "X")


def by_period(space: TaskSpace, key: str) -> Windows:
    found = space.series[key]
    columns = (found.period, found.release, found.low, found.high)
    return {iso(p): (iso(r), iso(a), iso(b)) for p, r, a, b in zip(*columns, strict=True)}


# --- The rules, one by one


def test_a_month_may_be_asked_for_from_the_release_before_to_the_day_before_its_own() -> None:
    found = windows(plain())
    assert list(found) == months("2012-01-01", 8)
    assert found["2012-03-01"] == ("2012-04-10", "2012-03-10", "2012-04-09")


def test_nothing_of_the_first_vintage_is_a_target() -> None:
    found = windows(plain())
    assert not set(found) & set(months("2010-01-01", 24))
    assert windows(plain(0)) == {}


def test_the_first_vintage_is_that_of_the_series_and_not_of_the_period() -> None:
    """A period whose first vintage is the series' is none, though the next vintage revises it."""
    rows = [*plain(2), ("2011-12-01", "2012-02-10", 650.0)]
    assert list(windows(rows)) == ["2012-01-01", "2012-02-01"]


def test_a_period_older_than_one_already_known_is_a_backfill() -> None:
    late = ("2012-03-01", "2012-05-20", 720.0)  # after April's release on 2012-05-10
    rows = [*without(plain(), "2012-03-01"), late]
    info = meta("X", max_lag_days=90)
    found = windows(rows, info=info)
    assert "2012-03-01" not in found
    # Nor was March known when April came, so April could not be asked for as the next one.
    assert list(found) == [p for p in months("2012-01-01", 8) if p[5:7] not in ("03", "04")]


def test_a_first_release_later_than_the_largest_lag_is_none() -> None:
    rows = [
        row if row[0] != "2012-03-01" else ("2012-03-01", after(row[0], 25), row[2])
        for row in plain()
    ]
    assert "2012-03-01" in windows(rows, info=meta("X", max_lag_days=25))
    assert "2012-03-01" not in windows(rows, info=meta("X", max_lag_days=24))


def test_a_missing_first_print_is_no_target_even_if_a_value_follows() -> None:
    march: list[Row] = [("2012-03-01", "2012-04-10", None), ("2012-03-01", "2012-04-20", 727.0)]
    found = windows([*without(plain(), "2012-03-01"), *march])
    assert "2012-03-01" not in found
    # April's release finds March in place, and is asked for from March's first vintage on.
    assert found["2012-04-01"] == ("2012-05-10", "2012-04-10", "2012-05-09")


def test_a_change_needs_the_value_before_in_the_same_vintage() -> None:
    withdrawn: Row = ("2012-02-01", "2012-04-10", None)  # on the day March comes out
    assert "2012-03-01" not in windows([*plain(), withdrawn])
    assert "2012-03-01" in windows([*plain(), withdrawn], info=meta("X", transform="lin"))
    back: Row = ("2012-02-01", "2012-04-11", 701.0)  # one day too late
    assert "2012-03-01" not in windows([*plain(), withdrawn, back])
    gap = windows(without(plain(), "2012-02-01"))
    assert "2012-03-01" not in gap
    assert "2012-04-01" in gap


@pytest.mark.parametrize("units", ["ch1", "pc1"])
def test_a_change_from_a_year_ago_needs_the_value_of_a_year_ago(units: Units) -> None:
    found = windows(without(plain(), "2011-03-01"), info=meta("X", transform=units))
    assert list(found) == [p for p in months("2012-01-01", 8) if p != "2012-03-01"]


@pytest.mark.parametrize("units", ["pch", "pca", "pc1"])
def test_a_ratio_needs_levels_above_zero(units: Units) -> None:
    rows = [row if row[0] != "2012-03-01" else (*row[:2], 0.0) for row in plain()]
    found = windows(rows, info=meta("X", transform=units))
    assert "2012-03-01" not in found
    assert ("2012-04-01" in found) == (units == "pc1")


def test_a_holiday_without_a_value_is_no_gap_in_a_daily_series() -> None:
    first = to_days("2012-01-02")
    rows: list[Row] = [(first + i, first + 30, float(i * i)) for i in range(30)]
    rows += [(first + i, first + i + 1, None if i == 33 else float(i * i)) for i in range(30, 40)]
    found = windows(rows, info=meta("X", "d"))
    assert list(found) == [iso(first + i) for i in range(30, 40) if i != 33]
    store = store_of((meta("X", "d"), rows))
    assert store.outcome("X", first + 34, "chg").first == 34**2 - 32**2


def test_a_target_needs_as_much_history_as_the_settings_say() -> None:
    # On the last day before January's release, 23 changes are known.
    for enough, config in ((True, 23), (False, 24)):
        found = windows(plain(), ANY.model_copy(update={"min_history": config}))
        assert ("2012-01-01" in found) == enough
        assert "2012-02-01" in found


def test_a_target_needs_a_scale_above_zero() -> None:
    still = [(*row[:2], 5.0 if row[0] < "2012-04-01" else 6.0 + i) for i, row in enumerate(plain())]
    found = windows(still)
    # Until April's release nothing has ever moved.
    assert list(found) == months("2012-05-01", 4)


def test_of_two_periods_on_one_day_only_the_older_is_a_target() -> None:
    rows = [
        row if row[0] != "2012-03-01" else ("2012-03-01", "2012-05-10", row[2]) for row in plain()
    ]
    found = windows(rows)
    assert found["2012-03-01"] == ("2012-05-10", "2012-03-10", "2012-05-09")
    assert "2012-04-01" not in found  # its predecessor is not out on any day before
    assert found["2012-05-01"] == ("2012-06-10", "2012-05-10", "2012-06-09")


def test_where_only_a_bracket_is_known_the_window_ends_at_its_lower_end() -> None:
    rows = [(*row, "2012-04-03") if row[0] == "2012-03-01" else row for row in plain()]
    assert windows(rows)["2012-03-01"] == ("2012-04-10", "2012-03-10", "2012-04-03")
    assert windows(rows)["2012-04-01"][1] == "2012-04-10"
    rows = [(*row, "2012-03-09") if row[0] == "2012-03-01" else row for row in plain()]
    assert "2012-03-01" not in windows(rows)  # the bracket begins before February is out


@pytest.mark.parametrize("horizon", [1, 10, 30, 31, 500])
def test_no_task_is_further_from_its_release_than_the_largest_horizon(horizon: int) -> None:
    found = windows(plain(), ANY.model_copy(update={"max_horizon": horizon}))
    for period, (release, low, high) in found.items():
        assert high == iso(to_days(release) - 1)
        bound = to_days(windows(plain())[period][1])
        assert to_days(low) == max(bound, to_days(release) - horizon)


def test_a_bracket_longer_than_the_horizon_leaves_no_window() -> None:
    rows = [(*row, iso(to_days(row[1]) - 8)) for row in plain()]
    assert windows(rows, ANY.model_copy(update={"max_horizon": 7})) == {}
    assert windows(rows, ANY.model_copy(update={"max_horizon": 8})) != {}


def test_the_outcome_is_computed_inside_its_release_vintage() -> None:
    """January comes out as 157.0 on the new base, where December is 150.0 (100.0 on the old)."""
    rows: list[Row] = [(p, "2012-01-11", 90.0 + i) for i, p in enumerate(months("2010-01-01", 23))]
    rows += [("2011-12-01", "2012-01-20", 100.0)]
    rows += [(p, "2012-02-10", 135.0 + i) for i, p in enumerate(months("2010-01-01", 23))]
    rows += [("2011-12-01", "2012-02-10", 150.0), ("2012-01-01", "2012-02-10", 157.0)]
    rows += [("2012-01-01", "2012-03-09", 160.0)]
    store = store_of((meta("X"), rows))
    outcome = store.outcome("X", "2012-01-01", "chg")
    assert (outcome.first, outcome.first_vintage) == (7.0, "2012-02-10")
    assert (outcome.latest, outcome.latest_vintage) == (10.0, "2012-03-09")
    assert store.outcome("X", "2012-01-01", "lin").first == 157.0
    assert store.outcome("X", "2012-01-01", "pch").first == pytest.approx(100 * 7 / 150)
    assert "2012-01-01" in windows(rows)


def test_the_space_of_the_small_store_holds_each_peculiarity() -> None:
    space = build_space(small_store(), SpaceConfig(split="all"))
    assert "GONE" not in space.series  # a predictor
    assert "2014-06-01" not in by_period(space, "SALES")
    prices = by_period(space, "PRICES")
    assert prices["2013-10-01"][0] == "2013-11-20"
    assert "2015-07-01" not in prices
    survey = space.series["SURVEY"]
    assert (survey.high == survey.release - 6).all()
    assert (survey.release - survey.period < 31).all()


# --- Any history: against the rules written out, and against the raw rows


def defined_targets(rows: list[Row], frequency: str, units: Units, max_lag: int) -> Windows:
    """DESIGN 4.3 (a) to (d) and the window, one loop a rule."""
    history: dict[int, list[tuple[int, float | None, int | None]]] = {}
    for period, vintage, value, lower in sorted(rows, key=lambda row: row[:2]):
        history.setdefault(period, []).append((vintage, value, lower))
    first = {period: changes[0] for period, changes in history.items()}
    found = {}
    for period, (release, value, lower) in first.items():
        if release == min(vintage for vintage, _, _ in first.values()):  # (a)
            continue
        if any(other >= period for other, (day, _, _) in first.items() if day < release):  # (b)
            continue
        end = shift(period, frequency, 1) - 1  # type: ignore[arg-type]
        if release - end > max_lag:  # (c)
            continue
        if value is None or math.isnan(defined_value(history, period, frequency, units, release)):
            continue  # (d)
        before = max(other for other in history if other < period)
        low = first[before][0]
        high = release - 1 if lower is None else lower
        if low <= high:
            found[iso(period)] = (iso(release), iso(low), iso(high))
    return dict(sorted(found.items()))


def defined_value(
    history: dict[int, Any], period: int, frequency: str, units: Units, day: int
) -> float:
    """The transform of a period from the levels known on a day; NaN where there is none."""
    known = {}
    for other, changes in history.items():
        values = [value for vintage, value, _ in changes if vintage <= day]
        if values and values[-1] is not None:
            known[other] = values[-1]
    steps = {"lin": 0, "chg": 1, "pch": 1, "pca": 1}.get(units, PERIODS_PER_YEAR[frequency])
    if frequency == "d":
        past = [other for other in sorted(known) if other <= period]
        earlier = past[-1 - steps] if len(past) > steps else None
    else:
        earlier = shift(period, frequency, -steps)  # type: ignore[arg-type]
    if period not in known or earlier not in known:
        return math.nan
    now, then = known[period], known[earlier]
    if units == "lin":
        return now
    if units in ("chg", "ch1"):
        return now - then
    return now / then - 1 if now > 0 and then > 0 else math.nan


@st.composite
def histories(draw: st.DrawFn) -> tuple[str, list[Row]]:
    """A short history with everything that goes wrong in one: few distinct days and values."""
    frequency = draw(st.sampled_from("dwmqa"))
    start = to_days({"w": "2020-01-05"}.get(frequency, "2020-01-01"))
    count = draw(st.integers(2, 16))
    span = 40 if frequency in "dw" else {"m": 500, "q": 1500, "a": 6000}[frequency]
    release = st.integers(0, span)
    rows: dict[tuple[int, int], Row] = {}
    usual = draw(st.booleans())
    for i in range(count):
        period = shift(start, frequency, i)  # type: ignore[arg-type]
        if draw(st.integers(0, 9)) == 0:
            continue  # a gap
        days = [shift(period, frequency, 1) + draw(st.integers(0, 9))] if usual else []  # type: ignore[arg-type]
        days += [start + draw(release) for _ in range(draw(st.integers(0 if days else 1, 3)))]
        for vintage in sorted(set(days)):
            value = draw(st.sampled_from([None, -1.0, 0.0, 1.0, 2.0, 3.5, 4.0, 7.0]))
            lower = draw(st.one_of(st.none(), st.integers(1, 20)))
            rows[period, vintage] = (period, vintage, value, lower and vintage - lower)
    if not rows:
        rows[start, start] = (start, start, 1.0, None)
    return frequency, list(rows.values())


def canonical(rows: list[Row]) -> list[Row]:
    """The change points that the store keeps: a value that repeats is no change."""
    kept: list[Row] = []
    for row in sorted(rows, key=lambda row: row[:2]):
        if not (kept and kept[-1][0] == row[0] and kept[-1][2] == row[2]):
            kept.append(row)
    return kept


@settings(max_examples=400, deadline=None)
@given(histories(), st.sampled_from(UNITS), st.integers(-40, 400))
def test_first_releases_are_those_of_the_definition(
    history: tuple[str, list[Row]], units: Units, max_lag: int
) -> None:
    frequency, rows = history
    info = meta("X", frequency, transform=units, max_lag_days=max_lag)  # type: ignore[arg-type]
    store = store_of((info, rows))
    # No other filter: what `first_releases` finds, read through a space that keeps all.
    config = ANY.model_copy(update={"max_horizon": 10**6})
    from nowcast_alfred.targets import _roles

    found = first_releases(store.changes("X"), _roles(store, None)["X"])
    columns = (found.period, found.release, found.low, found.high)
    got = {iso(p): (iso(r), iso(a), iso(b)) for p, r, a, b in zip(*columns, strict=True)}
    expected = defined_targets(canonical(rows), frequency, units, max_lag)
    assert got == expected
    for period in got:
        assert math.isfinite(store.outcome("X", period, units).first)
    assert set(windows(rows, config, info)) <= set(expected)
