"""What the embedded data set promises, read off its change points."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest

from nowcast_alfred.periods import iso, period_end, to_date, to_days, transform
from nowcast_alfred.sources import synthetic
from nowcast_alfred.sources.synthetic import SyntheticSeries, generate
from nowcast_alfred.sources.synthetic_panel import ARCHIVE_END, FIRST_PERIOD, PLANS, SHUTDOWN
from nowcast_alfred.store.schema import NO_LOWER, SeriesMeta, content_hash, normalise, to_arrays

Floats = npt.NDArray[np.float64]

IDS = [plan.id for plan in PLANS]
REBASED = [plan.id for plan in PLANS if plan.bases]
REVISED = [plan.id for plan in PLANS if plan.revisions]
TARGETS = [plan.id for plan in PLANS if plan.role == "target"]
PLAN = {plan.id: plan for plan in PLANS}

GOLDEN = {
    "SYN_PAYROLL": "b950a41d1df5b26283eb02f1edbe26ba769c4e31b3005fa838d1be04e95e946e",
    "SYN_CLAIMS": "63a15e80f88f2c0b90e61aa175a9d78ccac060a51b6505aebc630f0b983e29d2",
    "SYN_GDP": "7c81f9fd9329a65d99a86da14734b1101568360c468dabd1a0df34f2dfd9aa04",
}


@cache
def panel(seed: int = 0) -> dict[str, SyntheticSeries]:
    return {series.meta[0].id: series for series in generate(seed)}


def meta(name: str) -> SeriesMeta:
    return panel()[name].meta[0]


@cache
def columns(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Period, vintage, value (NaN: withdrawn)."""
    period, vintage, value, _ = to_arrays(panel()[name].table)
    return period, vintage, value


@cache
def first_releases(name: str) -> dict[int, int]:
    """Vintage of the first release of each period that was not in the archive's first vintage."""
    period, vintage, _ = columns(name)
    first: dict[int, int] = {}
    for p, v in zip(period.tolist(), vintage.tolist(), strict=True):
        first.setdefault(p, v)
    return {p: v for p, v in first.items() if v > vintage.min()}


def known(name: str, day: int) -> dict[int, float]:
    """What a view on `day` shows: newest value of each period, without the withdrawn."""
    period, vintage, value = columns(name)
    seen = vintage <= day
    rows = zip(period[seen].tolist(), value[seen].tolist(), strict=True)
    return {p: v for p, v in dict(rows).items() if v == v}


def changed_in(name: str, day: int) -> int:
    """How many periods known before change in the vintage of `day`."""
    period, vintage, _ = columns(name)
    return len(set(period[vintage == day].tolist()) & set(period[vintage < day].tolist()))


def transformed(name: str, day: int) -> dict[int, float]:
    """The transform of everything known on `day`."""
    levels = known(name, day)
    periods = np.array(sorted(levels), dtype=np.int32)
    values = np.array([levels[p] for p in periods.tolist()])
    result = transform(periods, values, meta(name).transform, meta(name).frequency)
    return dict(zip(periods.tolist(), result.tolist(), strict=True))


@cache
def outcomes(name: str) -> tuple[Floats, Floats, Floats, Floats]:
    """First release, latest value, last known, mean of the last 12 known; of the transform."""
    latest, rows = transformed(name, ARCHIVE_END), []
    for period, day in first_releases(name).items():
        now = transformed(name, day)
        before = [now[p] for p in sorted(now) if p < period and now[p] == now[p]]
        if len(before) >= 36 and now[period] == now[period] and period in latest:
            mean = sum(before[-12:]) / 12
            rows.append((now[period], latest[period], before[-1], mean))
    first, final, last, mean_12 = np.array(rows).T
    return first, final, last, mean_12


# Reproducibility.


def test_two_processes_with_other_hash_seeds_and_zones_make_the_same_bytes() -> None:
    program = (
        "import json; from nowcast_alfred.sources.synthetic import generate;"
        "from nowcast_alfred.store.schema import content_hash, meta_hash;"
        "print(json.dumps([content_hash(s.table) + meta_hash(s.meta) for s in generate(0)]))"
    )

    def run(hash_seed: str, zone: str) -> list[str]:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": zone}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
        return [str(line) for line in json.loads(done.stdout)]

    one, other = run("1", "Asia/Tokyo"), run("2", "America/Los_Angeles")
    assert one == other
    assert [hashes[:64] for hashes in one] == [content_hash(s.table) for s in panel().values()]


@pytest.mark.parametrize("name", GOLDEN)
def test_the_change_points_of_seed_0_never_change(name: str) -> None:
    # If this fails on purpose, raise SYNTHETIC_VERSION and say so in the CHANGELOG.
    assert content_hash(panel()[name].table) == GOLDEN[name]


def test_another_seed_makes_another_economy_of_the_same_shape() -> None:
    other = panel(1)
    assert list(other) == list(panel())
    for name in IDS:
        assert content_hash(other[name].table) != content_hash(panel()[name].table)
        assert len(other[name].table) == pytest.approx(len(panel()[name].table), rel=0.1)


def test_a_series_does_not_depend_on_which_others_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(synthetic, "PLANS", (PLAN["SYN_GDP"], PLAN["SYN_PAYROLL"]))
    for series in generate(0):
        assert content_hash(series.table) == content_hash(panel()[series.meta[0].id].table)


# The panel.


def test_every_series_says_that_it_is_synthetic_and_may_be_trained_on() -> None:
    for name, series in panel().items():
        assert name.startswith("SYN_")
        for row in series.meta:
            assert row.id == name
            assert row.title.startswith("Synthetic: ")
            assert row.release.startswith("Synthetic ")
            assert (row.source, row.licence, row.training) == ("synthetic", "MIT", "granted")


def test_the_panel_has_the_size_it_says() -> None:
    frequencies = [str(meta(name).frequency) for name in IDS]
    assert {f: frequencies.count(f) for f in "wmq"} == {"w": 5, "m": 27, "q": 10}
    assert {meta(name).category for name in IDS} == {
        "labour", "output", "prices", "consumption", "housing", "regional", "money", "surveys"
    }  # fmt: skip
    assert {meta(name).transform for name in IDS} == {"lin", "chg", "ch1", "pch", "pc1", "pca"}
    assert 60_000 <= sum(len(series.table) for series in panel().values()) <= 200_000


def test_the_panel_stays_small_on_disk() -> None:
    buffer = io.BytesIO()
    for series in panel().values():
        pq.write_table(series.table, buffer)
    assert buffer.tell() <= 10_000_000


@pytest.mark.parametrize("name", IDS)
def test_tables_are_canonical_and_rounded(name: str) -> None:
    table = panel()[name].table
    assert normalise(table, name).equals(table)
    value = columns(name)[2]
    value = value[~np.isnan(value)]
    assert (value == np.round(value, meta(name).decimals)).all()


def test_periods_are_identified_by_their_first_day() -> None:
    for name in IDS:
        dates = [to_date(p) for p in set(columns(name)[0].tolist())]
        if meta(name).frequency == "w":
            assert all(date.weekday() == 6 for date in dates)
        else:
            months = {"m": range(1, 13), "q": (1, 4, 7, 10)}[meta(name).frequency]
            assert all(date.day == 1 and date.month in months for date in dates)


@pytest.mark.parametrize("name", IDS)
def test_the_first_vintage_holds_the_whole_history_known_that_day(name: str) -> None:
    period, vintage, _ = columns(name)
    first = period[vintage == vintage.min()]
    assert first.min() == FIRST_PERIOD
    assert len(first) >= 6
    later = sorted(first_releases(name))
    assert later[0] > first.max()


def test_archives_start_in_different_years_and_cover_two_decades() -> None:
    starts = {to_date(columns(name)[1].min()).year for name in IDS}
    assert starts == set(range(1996, 2004))


# Calendars.


def test_nothing_is_published_on_a_weekend_or_after_the_archive() -> None:
    for name in IDS:
        vintages = columns(name)[1]
        assert ((vintages + 3) % 7 < 5).all()
        assert vintages.max() <= ARCHIVE_END


@pytest.mark.parametrize(
    ("name", "weekday"),
    [("SYN_PAYROLL", 4), ("SYN_CLAIMS", 3), ("SYN_REGJOBS", 1), ("SYN_MORTGAGE", 2)],
)
def test_a_release_with_a_weekday_keeps_it(name: str, weekday: int) -> None:
    days = [to_date(day) for day in first_releases(name).values()]
    off = [day for day in days if day.weekday() != weekday]
    assert len(off) <= 0.03 * len(days)  # holidays, and the shutdown


@pytest.mark.parametrize("name", IDS)
def test_first_releases_come_within_the_lag_that_targets_allow(name: str) -> None:
    frequency = meta(name).frequency
    lags = [day - period_end(p, frequency) for p, day in first_releases(name).items()]
    late = [lag for lag in lags if lag > meta(name).max_lag_days]
    assert len(late) <= 8  # delayed by the shutdown only
    assert max(lags) <= meta(name).max_lag_days + 60
    assert sorted(lags)[len(lags) // 2] <= meta(name).max_lag_days - 3


def test_series_of_one_release_share_its_days() -> None:
    payroll, rate = first_releases("SYN_PAYROLL"), first_releases("SYN_UNRATE")
    assert payroll == {p: rate[p] for p in payroll}


def test_the_shutdown_stops_official_releases_and_then_brings_several_at_once() -> None:
    at_once = {}
    for name in ("SYN_PAYROLL", "SYN_CPI", "SYN_INDPRO", "SYN_RETAIL", "SYN_STARTS", "SYN_CLAIMS"):
        vintages = columns(name)[1]
        assert not ((SHUTDOWN[0] <= vintages) & (vintages <= SHUTDOWN[1])).any()
        days = list(first_releases(name).values())
        at_once[name] = max(days.count(day) for day in days)
        full = [day for day in set(days) if days.count(day) > 1]
        assert all(SHUTDOWN[1] < day <= SHUTDOWN[1] + 20 for day in full)
    assert at_once.pop("SYN_CLAIMS") >= 6
    assert set(at_once.values()) == {2}


def test_the_shutdown_does_not_stop_private_releases() -> None:
    for name in ("SYN_MFGSURVEY", "SYN_MORTGAGE", "SYN_REGJOBS"):
        vintages = columns(name)[1]
        assert ((SHUTDOWN[0] <= vintages) & (vintages <= SHUTDOWN[1])).any()
        days = list(first_releases(name).values())
        assert len(set(days)) == len(days)


# Revisions.


@pytest.mark.parametrize("name", REVISED)
def test_a_period_is_estimated_again_once_to_three_times_and_then_rests(name: str) -> None:
    period, vintage, _ = columns(name)
    estimates, first = len(PLAN[name].revisions), first_releases(name)
    assert 1 <= estimates <= 3
    number = {day: n for n, day in enumerate(sorted(set(vintage.tolist())))}
    routine = [day for day in number if changed_in(name, day) <= estimates + 2]  # no benchmark
    ages = [
        number[day] - number[first[p]]
        for p, day in zip(period.tolist(), vintage.tolist(), strict=True)
        if p in first and day in routine
    ]
    for age in range(1, estimates + 1):
        assert ages.count(age) > 0.4 * len(first)
    assert sum(age > estimates for age in ages) <= 1  # the one that is withdrawn and comes back


def test_quarterly_accounts_are_estimated_three_times_a_month_apart() -> None:
    period, vintage, _ = columns("SYN_GDP")
    gaps = []
    for p, first in first_releases("SYN_GDP").items():
        second, third, *_ = [*sorted(set(vintage[period == p].tolist()))[1:], 0, 0]
        if third and to_date(first).year != to_date(SHUTDOWN[0]).year:
            gaps.append((second - first, third - first))
    assert len(gaps) > 90
    assert np.median(gaps, axis=0) == pytest.approx([30, 60], abs=2)


@pytest.mark.parametrize(
    ("name", "month"), [("SYN_PAYROLL", 2), ("SYN_INDPRO", 6), ("SYN_CLAIMS", 3)]
)
def test_each_year_a_benchmark_rewrites_the_past_years(name: str, month: int) -> None:
    vintages = sorted(set(columns(name)[1].tolist()))[1:]
    rewriting = [day for day in vintages if changed_in(name, day) > 12]
    assert {to_date(day).month for day in rewriting} == {month}
    years = [to_date(day).year for day in rewriting]
    assert years == list(range(years[0], 2025))


def test_surveys_are_hardly_revised() -> None:
    for name in ("SYN_MFGSURVEY", "SYN_CAPEX"):
        assert len(columns(name)[0]) == len(set(columns(name)[0].tolist()))
    first, latest, _, _ = outcomes("SYN_DISTRICT")
    assert (latest - first).std() < 0.1 * first.std()


@pytest.mark.parametrize("name", TARGETS)
def test_revisions_are_smaller_than_what_is_to_be_forecast(name: str) -> None:
    first, latest, _, _ = outcomes(name)
    assert (latest - first).std() < 0.75 * first.std()


# Base years.


def test_index_and_chained_series_get_a_new_base_two_or_three_times() -> None:
    assert len(REBASED) > 10
    for name, series in panel().items():
        assert len(series.meta) in ((3, 4) if name in REBASED else (1,))


@pytest.mark.parametrize("name", REBASED)
def test_a_new_base_rescales_all_periods_in_the_vintage_its_units_start(name: str) -> None:
    rows = panel()[name].meta
    step = 0.1 ** meta(name).decimals
    for before, after in pairwise(rows):
        assert after.valid_from is not None
        day = to_days(after.valid_from)
        assert before.units != after.units
        old, new = known(name, day - 1), known(name, day)
        assert changed_in(name, day) >= 0.98 * len(old)
        ratios = np.array([new[p] / old[p] for p in sorted(old)])
        factor = float(np.median(ratios))
        assert abs(factor - 1) > 0.01
        assert np.abs(ratios / factor - 1).max() < 0.03
        # Rounding aside, the history that no benchmark touches moves by one factor.
        settled = sorted(old)[: -PLAN[name].window - 1]
        factor = float(np.mean([new[p] for p in settled]) / np.mean([old[p] for p in settled]))
        assert all(abs(new[p] - factor * old[p]) <= (1 + factor) * step for p in settled)


@pytest.mark.parametrize("name", REBASED)
def test_units_never_name_a_base_that_is_not_introduced_yet(name: str) -> None:
    introduced = {base: year for year, base in PLAN[name].bases}
    first = iso(columns(name)[1].min())
    for row in panel()[name].meta:
        (base,) = [year for year in introduced if str(year) in row.units]
        assert introduced[base] <= int((row.valid_from or first)[:4])


@pytest.mark.parametrize("name", [name for name in REBASED if "=100" in PLAN[name].units])
def test_an_index_averages_100_in_its_base_year(name: str) -> None:
    for row in panel()[name].meta[1:]:
        assert row.valid_from is not None
        levels = known(name, to_days(row.valid_from))
        base = [v for p, v in levels.items() if f"Index {to_date(p).year}=100" == row.units]
        assert np.mean(base) == pytest.approx(100, abs=0.05)


# Odd cases.


def test_one_value_is_withdrawn_and_comes_back() -> None:
    period, vintage, value = columns("SYN_REGJOBS")
    rows = period == to_days("2008-05-01")
    (gone,) = np.flatnonzero(np.isnan(value[rows]))
    assert 0 < gone < rows.sum() - 1
    assert np.diff(vintage[rows])[gone] > 60


def test_one_value_is_withdrawn_for_good() -> None:
    period, _, value = columns("SYN_BANKCREDIT")
    history = value[period == to_days("2010-02-07")]
    assert np.isnan(history[-1])
    assert not np.isnan(history[:-1]).any()


def test_no_other_value_is_withdrawn() -> None:
    assert sum(int(np.isnan(columns(name)[2]).sum()) for name in IDS) == 2


def test_one_series_stops_and_its_metadata_do_not_tell() -> None:
    stopped = [name for name in IDS if columns(name)[1].max() < ARCHIVE_END - 120]
    assert stopped == ["SYN_DISTRICT"]
    assert to_date(columns("SYN_DISTRICT")[1].max()).year == 2018
    (row,) = panel()["SYN_DISTRICT"].meta
    assert "discontinued" not in str(row).lower()
    assert "2018" not in str(row)


def test_vintage_days_are_bracketed_in_one_series_and_exact_in_all_others() -> None:
    for name in IDS:
        _, vintage, _, lower = to_arrays(panel()[name].table)
        if name == "SYN_REGACTIVITY":
            assert (vintage - lower == 5).all()
            assert np.diff(np.unique(vintage)).min() > 5
        else:
            assert (lower == NO_LOWER).all()


# What there is to forecast.


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_series_has_many_genuine_first_releases_and_a_scale(name: str) -> None:
    first, _, _, _ = outcomes(name)
    assert len(first) >= {"w": 1_000, "m": 240, "q": 75}[meta(name).frequency]
    scales = np.array([first[i - 24 : i].std() for i in range(24, len(first))])
    assert scales.min() > 0
    assert np.abs(first - np.median(first)).max() < 30 * np.median(scales)
    assert (np.abs(first - np.median(first)) > 1.5 * first.std()).mean() > 0.01


@pytest.mark.parametrize("name", IDS)
def test_levels_stay_sane(name: str) -> None:
    value = columns(name)[2]
    if meta(name).units == "Percent Balance":
        assert np.nanmin(value) > -100
        assert np.nanmax(value) < 100
    else:
        assert np.nanmin(value) > 0
        assert np.nanmax(value) < 8 * np.nanmin(value)


def test_no_single_naive_forecast_is_best_everywhere() -> None:
    def error_of_mean(name: str) -> float:
        first, _, last, mean_12 = outcomes(name)
        return float(np.abs(first - mean_12).mean() / np.abs(first - last).mean())

    assert error_of_mean("SYN_STARTS") < 0.75
    assert error_of_mean("SYN_RETAIL") < 0.8
    assert error_of_mean("SYN_PAYROLL") > 1.05
    assert error_of_mean("SYN_CLAIMS") > 1.3


def test_one_crisis_is_abrupt_and_deep() -> None:
    first, _, _, _ = outcomes("SYN_PAYROLL")
    worst = int(np.argmin(first))
    assert first[worst] < np.median(first) - 5 * first[:200].std()
    assert first[worst + 8 : worst + 14].mean() > first[worst] / 4


def test_series_move_together() -> None:
    pairs = [
        ("SYN_PAYROLL", "SYN_INDPRO"),
        ("SYN_PAYROLL", "SYN_PAYMFG"),
        ("SYN_INDPRO", "SYN_MFGSURVEY"),
    ]
    for one, other in pairs:
        left, right = transformed(one, ARCHIVE_END), transformed(other, ARCHIVE_END)
        both = sorted(set(left) & set(right))[1:]
        assert np.corrcoef([left[p] for p in both], [right[p] for p in both])[0, 1] > 0.5


def test_an_unadjusted_series_measures_the_same_prices_as_the_adjusted_one() -> None:
    plain, adjusted = known("SYN_CPINSA", ARCHIVE_END), known("SYN_CPI", ARCHIVE_END)
    ratio = np.array([plain[p] / adjusted[p] for p in sorted(plain)])
    assert np.abs(ratio - 1).max() < 0.012
    assert np.abs(ratio[12:] - ratio[:-12]).mean() < np.abs(ratio[1:] - ratio[:-1]).mean()
