"""Which first releases are genuine, when they may be asked for, and what each filter leaves."""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from nowcast_alfred import recheck
from nowcast_alfred.catalog import Catalog, CatalogEntry
from nowcast_alfred.data import NowcastData
from nowcast_alfred.errors import ConfigError, StoreMismatch
from nowcast_alfred.periods import PERIODS_PER_YEAR, UNITS, Units, iso, shift, to_days
from nowcast_alfred.store import SeriesInput, VintageStore, publish
from nowcast_alfred.store.schema import SeriesMeta
from nowcast_alfred.stream import Stream
from nowcast_alfred.targets import (
    Role,
    SeriesTargets,
    SpaceConfig,
    TaskSpace,
    build_space,
    first_releases,
)
from nowcast_alfred.task import draw_at, make_data
from panels import Row, after, meta, months, plain, small_inputs, small_store, store_of, table

ANY = SpaceConfig(split="all", min_history=1, max_horizon=10_000)


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
    return readable(space.series[key])


def readable(found: SeriesTargets) -> Windows:
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
    role = Role(frequency, units, max_lag, "target", "", "granted")  # type: ignore[arg-type]
    got = readable(first_releases(store.changes("X"), role))
    expected = defined_targets(canonical(rows), frequency, units, max_lag)
    assert got == expected
    for period in got:
        assert math.isfinite(store.outcome("X", period, units).first)
    assert windows(rows, info=info).items() <= expected.items()


def tasks_of(store: VintageStore, config: SpaceConfig, count: int) -> list[NowcastData]:
    """The data of the first draws."""
    stream = Stream(store, config)
    draws = [stream.draw(n) for n in range(count)]
    roles = {key: targets.role for key, targets in stream.space.series.items()}
    return [make_data(store, draw, roles[draw.series_id].transform) for draw in draws]


@settings(max_examples=60, deadline=None)
@given(histories(), st.sampled_from(UNITS))
def test_the_raw_rows_have_no_fault_to_find_in_a_task(
    history: tuple[str, list[Row]], units: Units
) -> None:
    frequency, rows = history
    info = meta("X", frequency, transform=units, max_lag_days=400)  # type: ignore[arg-type]
    store = store_of((info, rows))
    try:
        tasks = tasks_of(store, ANY, 12)
    except ConfigError:
        return
    with tempfile.TemporaryDirectory() as folder:
        manifest = publish(folder, [SeriesInput([info], table(rows))])
        assert manifest.fingerprint == store.fingerprint
        assert [recheck.faults(folder, task) for task in tasks] == [[]] * 12


@pytest.fixture(scope="module")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("small")
    assert publish(folder, small_inputs()).fingerprint == small_store().fingerprint
    return str(folder)


@pytest.fixture(scope="module")
def small_tasks() -> list[NowcastData]:
    return tasks_of(small_store(), SpaceConfig(split="all"), 400)


def test_the_raw_rows_have_no_fault_to_find_in_the_small_store(
    small_folder: str, small_tasks: list[NowcastData]
) -> None:
    assert {task.series_id for task in small_tasks} == set(small_store().series_ids) - {"GONE"}
    assert [recheck.faults(small_folder, task) for task in small_tasks] == [[]] * 400


def moved(task: NowcastData, days: int) -> dict[str, Any]:
    """Another as-of date, with the distance to the release kept right."""
    as_of = iso(to_days(task.as_of) + days)
    return {"as_of": as_of, "horizon_days": task.horizon_days - days}


TAMPERED = {
    "as_of, a day later": lambda t: {"as_of": iso(to_days(t.as_of) + 1)},
    "as_of, the release day": lambda t: moved(t, t.horizon_days),
    "as_of, years after": lambda t: moved(t, 3000),
    "as_of, half a year before": lambda t: moved(t, -183),
    "as_of, before the archive": lambda t: {"as_of": "1990-01-01"},
    "reference_period, the next": lambda t: {"reference_period": following(t, 1)},
    "reference_period, the one before": lambda t: {"reference_period": following(t, -1)},
    "reference_period, none": lambda t: {"reference_period": "1990-01-02"},
    "horizon_days": lambda t: {"horizon_days": t.horizon_days + 1},
    "baseline": lambda t: {"baseline": t.baseline + 1e-6 * max(1, abs(t.baseline))},
    "baseline, not a number": lambda t: {"baseline": math.nan},
    "baseline_name": lambda t: {"baseline_name": "mean_12"},
    "scale": lambda t: {"scale": t.scale * (1 + 1e-6)},
    "scale, of a sample": lambda t: {"scale": t.scale * math.sqrt(24 / 23)},
    "scale, zero": lambda t: {"scale": 0.0},
    "series_id": lambda t: {"series_id": "EMP" if t.series_id != "EMP" else "PRICES"},
    "series_id, unknown": lambda t: {"series_id": "NOPE"},
    "transform": lambda t: {"transform": "pc1" if t.transform != "pc1" else "lin"},
}


def following(task: NowcastData, count: int) -> str:
    return iso(shift(to_days(task.reference_period), task.frequency, count))


@pytest.mark.parametrize("tamper", TAMPERED.values(), ids=TAMPERED)
def test_the_raw_rows_betray_each_tampered_field(
    tamper: Any, small_folder: str, small_tasks: list[NowcastData]
) -> None:
    for task in small_tasks[:80]:
        assert recheck.faults(small_folder, task.model_copy(update=tamper(task))), task.id


def test_the_raw_rows_betray_another_frequency(
    small_folder: str, small_tasks: list[NowcastData]
) -> None:
    for task in small_tasks[:80]:
        if task.transform in ("chg", "pch", "pca"):  # a level has no lag, and a year is a year
            other = "q" if task.frequency != "q" else "m"
            assert recheck.faults(small_folder, task.model_copy(update={"frequency": other}))


def test_a_day_inside_the_bracket_of_the_release_is_a_fault(
    small_folder: str, small_tasks: list[NowcastData]
) -> None:
    inside = [task for task in small_tasks if task.series_id == "SURVEY"]
    for task in inside:
        release = to_days(task.as_of) + task.horizon_days
        shifted = task.model_copy(update=moved(task, release - 5 - to_days(task.as_of)))
        assert any("inside the bracket" in fault for fault in recheck.faults(small_folder, shifted))
    assert inside


@pytest.mark.parametrize(
    ("key", "period", "as_of", "fault"),
    [
        ("EMP", "2014-03-01", "2014-04-10", "already known on 2014-04-10"),
        ("EMP", "2014-03-01", "2014-02-20", "the period before is not published either"),
        ("EMP", "2011-06-01", "2011-12-01", "is the series' first vintage"),
        ("SALES", "2014-06-01", "2014-12-01", "a backfill"),
        ("PRICES", "2015-07-01", "2015-08-10", "the first vintage has no value"),
        ("SURVEY", "2014-03-01", "2014-03-25", "inside the bracket"),
        ("YIELD", "2012-06-01", "2012-06-01", None),
        ("EMP", "2014-03-01", "2014-03-20", None),
    ],
)
def test_a_task_that_is_right_in_itself_but_no_first_release_is_found(
    key: str, period: str, as_of: str, fault: str | None, small_folder: str
) -> None:
    store = small_store()
    task = make_data(store, draw_at(store, key, period, as_of), store.meta(key).transform)
    found = recheck.faults(small_folder, task)
    assert found == [] if fault is None else any(fault in text for text in found), found


def test_a_release_day_is_not_asked_on_though_all_numbers_are_right(
    small_folder: str, small_tasks: list[NowcastData]
) -> None:
    store = small_store()
    for task in small_tasks[:80]:
        release = iso(to_days(task.as_of) + task.horizon_days)
        draw = draw_at(store, task.series_id, task.reference_period, release)
        late = make_data(store, draw, task.transform)
        assert f"the period is already known on {release}" in recheck.faults(small_folder, late)


def test_a_task_of_another_store_cannot_be_checked(
    small_folder: str, small_tasks: list[NowcastData]
) -> None:
    with pytest.raises(StoreMismatch, match="no version 000000000000"):
        recheck.faults(small_folder, small_tasks[0].model_copy(update={"store": "0" * 64}))


def test_a_task_is_checked_against_the_version_it_was_drawn_from(
    tmp_path: Path, small_tasks: list[NowcastData]
) -> None:
    publish(tmp_path, small_inputs())
    info = [meta("EMP", category="labour", title="Employment, all staff", decimals=0)]
    newer = publish(tmp_path, [SeriesInput(info, table([("2019-08-01", "2020-01-06", 1.0)]))])
    assert newer.fingerprint != small_tasks[0].store
    assert [recheck.faults(str(tmp_path), task) for task in small_tasks[:20]] == [[]] * 20


# --- Filters


def space_of(**settings: Any) -> TaskSpace:
    return build_space(small_store(), SpaceConfig(**{"split": "all", **settings}))


EVERY = space_of()
DATES = st.dates(dt.date(2011, 6, 1), dt.date(2019, 12, 31))


def space_or_none(**settings: Any) -> dict[str, SeriesTargets]:
    try:
        return space_of(**settings).series
    except ConfigError:
        return {}


@settings(max_examples=40, deadline=None)
@given(DATES, st.sets(st.sampled_from(["EMP", "CLAIMS", "SALES", "OUTPUT"]), max_size=3))
def test_training_and_evaluation_never_overlap(eval_from: dt.date, holdout: set[str]) -> None:
    names = {"eval_from": eval_from, "holdout_series": sorted(holdout)}
    train = space_or_none(split="train", **names)
    held_out = space_or_none(split="eval", **names)
    first = to_days(eval_from)
    assert all((targets.release < first).all() for targets in train.values())
    assert all((targets.low >= first).all() for targets in held_out.values())
    assert not holdout & set(train)
    for key, targets in EVERY.series.items():
        empty = targets.where(targets.period < 0)
        learned = set(train.get(key, empty).period.tolist())
        tested = set(held_out.get(key, empty).period.tolist())
        assert not learned & tested
        if key not in holdout:  # nothing is lost but what straddles the day
            rest = ~((targets.release < first) | (targets.high >= first))
            assert learned | tested == set(targets.period[~rest].tolist())


@settings(max_examples=20, deadline=None)
@given(DATES, st.integers(0, 10**6))
def test_no_training_release_is_on_or_after_the_first_evaluation_day(
    eval_from: dt.date, n: int
) -> None:
    for split in ("train", "eval"):
        try:
            stream = Stream(small_store(), SpaceConfig(split=split, eval_from=eval_from))
        except ConfigError:
            continue
        for draw in (stream.draw(n + i) for i in range(20)):
            day = draw.release if split == "train" else draw.as_of
            assert (day < to_days(eval_from)) == (split == "train")


def test_evaluation_without_a_day_is_on_the_held_out_series_alone() -> None:
    found = space_of(split="eval", holdout_series=["EMP", "SALES"])
    assert set(found.series) == {"EMP", "SALES"}
    assert set(space_of(split="train", holdout_series=["EMP", "SALES"]).series) == {
        key for key in EVERY.series if key not in ("EMP", "SALES")
    }
    assert set(space_of(holdout_series=["EMP"]).series) == set(EVERY.series)


@settings(max_examples=30, deadline=None)
@given(DATES)
def test_after_a_model_cutoff_every_release_is_news(cutoff: dt.date) -> None:
    last = to_days(cutoff)
    found = space_or_none(model_cutoff=cutoff)
    assert all((targets.release > last).all() for targets in found.values())
    exact = [key for key in EVERY.series if key != "SURVEY"]
    for key in exact:  # where the day is exact, nothing else is lost
        expected = (EVERY.series[key].release > last).sum()
        assert len(found[key].period if key in found else []) == expected
    if "SURVEY" in found:  # in a bracket, the whole of it lies after the cutoff
        assert (found["SURVEY"].high >= last).all()


@settings(max_examples=30, deadline=None)
@given(DATES, DATES)
def test_as_of_dates_stay_between_their_bounds(a: dt.date, b: dt.date) -> None:
    low, high = min(a, b), max(a, b)
    for targets in space_or_none(as_of_min=low, as_of_max=high).values():
        assert (targets.low >= to_days(low)).all()
        assert (targets.high <= to_days(high)).all()
        assert (targets.low <= targets.high).all()


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({"series": ["EMP", "OUTPUT"]}, {"EMP", "OUTPUT"}),
        ({"exclude_series": ["EMP", "OUTPUT"]}, set(EVERY.series) - {"EMP", "OUTPUT"}),
        ({"series": ["EMP", "OUTPUT"], "exclude_series": ["EMP"]}, {"OUTPUT"}),
        ({"categories": ["labour"]}, {"EMP", "CLAIMS", "LATE"}),
        ({"categories": ["rates", "accounts"]}, {"YIELD", "OUTPUT"}),
        ({"frequencies": ["w", "q"]}, {"CLAIMS", "OUTPUT"}),
        ({"categories": ["labour"], "frequencies": ["m"]}, {"EMP", "LATE"}),
        ({"weights": {"labour": 0}}, set(EVERY.series) - {"EMP", "CLAIMS", "LATE"}),
        ({"weights": {"labour": 0, "EMP": 0.5}}, set(EVERY.series) - {"CLAIMS", "LATE"}),
        ({"weights": {"labour": 2, "EMP": 0}}, set(EVERY.series) - {"EMP"}),
    ],
)
def test_series_are_chosen_by(settings: dict[str, Any], left: set[str]) -> None:
    assert set(space_of(**settings).series) == left


def test_a_predictor_is_asked_for_only_by_name() -> None:
    store = store_of(
        (meta("A"), plain()),
        (meta("B", role="predictor"), plain()),
    )
    assert set(build_space(store, ANY).series) == {"A"}
    named = ANY.model_copy(update={"series": ["B"]})
    assert set(build_space(store, named).series) == {"B"}


@pytest.mark.parametrize(
    ("rights", "left"),
    [
        ("any", {"granted", "permission", "research", "prohibited", "unknown"}),
        ("research", {"granted", "permission", "research"}),
        ("granted", {"granted", "permission"}),
    ],
)
def test_rights_leave_what_may_be_used_so(rights: str, left: set[str]) -> None:
    kinds = ["granted", "research", "prohibited", "unknown", "permission: by mail of 2026-01-05"]
    store = store_of(*((meta(kind[:10].strip(":"), training=kind), plain()) for kind in kinds))
    config = ANY.model_copy(update={"rights": rights})
    assert set(build_space(store, config).series) == left


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("series", ["EMP", "NOPE"]),
        ("exclude_series", ["NOPE"]),
        ("holdout_series", ["NOPE"]),
        ("categories", ["NOPE"]),
        ("weights", {"NOPE": 2.0}),
    ],
)
def test_an_unknown_name_is_refused_and_the_known_ones_are_listed(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{field}: NOPE not in the store") as refused:
        space_of(**{field: value})
    assert ("labour" if field in ("categories", "weights") else "CLAIMS") in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"weights": {"EMP": -1.0}},
        {"weights": {"EMP": math.nan}},
        {"weights": {"EMP": math.inf}},
        {"max_horizon": 0},
        {"min_history": 0},
        {"split": "test"},
        {"frequencies": ["monthly"]},
        {"rights": "all"},
        {"horizon": 3},
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SpaceConfig(**settings)


def test_evaluation_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs eval_from or holdout_series"):
        space_of(split="eval")


@pytest.mark.parametrize(
    ("settings", "filter_"),
    [
        ({"series": ["GONE"]}, "min_history = 36 and a positive scale"),
        ({"exclude_series": sorted(EVERY.series)}, "exclude_series"),
        ({"series": ["EMP"], "categories": ["rates"]}, "categories"),
        ({"frequencies": ["a"]}, "frequencies"),
        ({"series": ["EMP"], "weights": {"labour": 0}}, "weights"),
        ({"split": "train", "series": ["EMP"], "holdout_series": ["EMP"]}, "holdout_series"),
        ({"split": "train", "eval_from": "2000-01-01"}, "split = train, eval_from"),
        ({"split": "eval", "eval_from": "2030-01-01"}, "split = eval, eval_from"),
        (
            {"split": "eval", "series": ["EMP"], "holdout_series": ["SALES"]},
            "split = eval, holdout_series",
        ),
        ({"model_cutoff": "2030-01-01"}, "model_cutoff"),
        ({"series": ["SURVEY"], "max_horizon": 5}, "max_horizon = 5"),
        ({"as_of_min": "2030-01-01"}, "as_of_min"),
        ({"as_of_max": "2000-01-01"}, "as_of_max"),
        ({"min_history": 10_000}, "min_history = 10000 and a positive scale"),
    ],
)
def test_an_empty_space_says_which_filter_emptied_it(settings: Any, filter_: str) -> None:
    with pytest.raises(ConfigError, match="no task is left in memory:: ") as refused:
        space_of(**settings)
    text = str(refused.value)
    assert f"{filter_} removed the last one" in text
    *_, count = text.split()
    assert count == "0"
    counts = [int(part.rsplit(": ", 1)[1]) for part in text.split("each filter: ")[1].split("; ")]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0 < counts[-2]


def test_rights_that_nothing_has_are_named() -> None:
    store = store_of((meta("X", training="prohibited"), plain()))
    with pytest.raises(ConfigError, match='rights = "granted" removed the last one'):
        build_space(store, ANY.model_copy(update={"rights": "granted"}))


def test_a_catalog_says_what_is_asked_for_instead_of_the_store() -> None:
    entry = CatalogEntry(id="EMP", transform="pc1", max_lag_days=14, category="jobs")
    unknown = CatalogEntry(id="ELSEWHERE", transform="lin", max_lag_days=14)
    catalog = Catalog("one", {"EMP": entry, "ELSEWHERE": unknown})
    space = build_space(small_store(), SpaceConfig(split="all"), catalog)
    assert set(space.series) == {"EMP"}
    role = space.series["EMP"].role
    assert (role.transform, role.max_lag_days, role.category) == ("pc1", 14, "jobs")
    assert build_space(small_store(), SpaceConfig(categories=["jobs"]), catalog).series
    late = replace(entry, max_lag_days=1)
    with pytest.raises(ConfigError, match="first releases in the store removed the last one"):
        build_space(small_store(), SpaceConfig(), Catalog("late", {"EMP": late}))
    with pytest.raises(ConfigError, match="no series of the catalog"):
        build_space(small_store(), SpaceConfig(), Catalog("none", {"ELSEWHERE": unknown}))
