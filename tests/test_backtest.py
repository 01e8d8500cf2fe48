"""The backtest: its statistics by one-line references, its groups, its processes, its files."""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
import struct
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy.stats import t as student

from commands import run as command
from nowcast_alfred.baselines import BASELINES, scale_of
from nowcast_alfred.choice import baseline_on, known_on
from nowcast_alfred.errors import ConfigError
from nowcast_alfred.lab import backtest, backtest_picture
from nowcast_alfred.lab.backtest import COLUMNS, NAMES, Backtest, Job, forecast, run, spread
from nowcast_alfred.lab.compare import compare, diebold_mariano
from nowcast_alfred.periods import iso, to_days
from nowcast_alfred.store import VintageStore, open_store, publish
from nowcast_alfred.targets import SpaceConfig, TaskSpace, build_space
from panels import day, history, meta, small_inputs, small_store, store_of
from test_cli import refused

ROOT = Path(__file__).resolve().parent.parent

errors = st.floats(-1e6, 1e6).map(lambda x: round(x, 6))
Dated = list[tuple[float, float, float, int]]


def dated(least: int = 1) -> st.SearchStrategy[Dated]:
    """Errors of two forecasters, a scale and a date, with dates that repeat."""
    one = st.tuples(errors, errors, st.floats(0.1, 100.0), st.integers(0, 40))
    return st.lists(one, min_size=least, max_size=90)


def columns(rows: Dated) -> tuple[Any, ...]:
    error, reference, scale, when = map(np.array, zip(*rows, strict=True))
    return error, reference, scale, when.astype(np.int32)


# --- Statistics


@given(dated())
def test_each_statistic_is_its_one_line_reference(rows: Dated) -> None:
    e, r, s, when = columns(rows)
    found = compare(e, r, s, when)
    assert found.n == len(e)
    assert found.mae == pytest.approx(np.mean(abs(e)), rel=1e-12)
    assert found.rmse == pytest.approx(np.sqrt(np.mean(e**2)), rel=1e-12)
    assert found.bias == pytest.approx(statistics.mean(e.tolist()), rel=1e-9, abs=1e-9)
    assert found.scaled_mae == pytest.approx(np.mean(abs(e) / s), rel=1e-12)
    if r.any():
        assert found.relative_mae == pytest.approx(sum(abs(e)) / sum(abs(r)), rel=1e-12)
        assert found.relative_rmse == pytest.approx(math.sqrt((e @ e) / (r @ r)), rel=1e-12)
    else:
        assert (found.relative_mae, found.relative_rmse) == (None, None)


def brute_force(difference: list[float], when: list[int]) -> tuple[float, float]:
    """Mean and its standard error: every pair of outcomes, weighted by how near their dates are."""
    n, order = len(difference), sorted(set(when))
    middle, dates = sum(difference) / n, len(set(when))
    reach = min(math.floor(4 * (dates / 100) ** (2 / 9)), dates - 1) + 1
    variance = 0.0
    for a, at in zip(difference, when, strict=True):
        for b, other in zip(difference, when, strict=True):
            apart = abs(order.index(at) - order.index(other))
            variance += max(0.0, 1 - apart / reach) * (a - middle) * (b - middle)
    # Harvey, Leybourne and Newbold (1997), for forecasts `reach` steps ahead.
    small = (dates + 1 - 2 * reach + reach * (reach - 1) / dates) / dates
    return middle, math.sqrt(max(variance, 0.0) / small) / n


@given(dated(least=10))
def test_diebold_mariano_is_the_sum_over_all_pairs(rows: Dated) -> None:
    e, r, s, when = columns(rows)
    difference = abs(e) - abs(r)
    dates, found = len(set(when.tolist())), diebold_mariano(difference, when)
    if dates < 10:
        assert found is None
        return
    middle, error = brute_force(difference.tolist(), when.tolist())
    if error > 1e-6 * max(abs(difference)):
        assert found is not None
        assert found[0] == pytest.approx(middle / error, rel=1e-6, abs=1e-6)
        assert found[1] == pytest.approx(2 * student.sf(abs(found[0]), dates - 1), abs=1e-12)
        assert compare(e, r, s, when).dm == found[0]


@given(dated(least=10))
def test_swapping_the_forecasters_turns_the_sign_and_keeps_p(rows: Dated) -> None:
    e, r, _, when = columns(rows)
    found, turned = (diebold_mariano(d, when) for d in (abs(e) - abs(r), abs(r) - abs(e)))
    assert (found is None) == (turned is None)
    if found and turned:
        assert turned[0] == pytest.approx(-found[0], rel=1e-9, abs=1e-9)
        assert turned[1] == pytest.approx(found[1], rel=1e-6, abs=1e-12)


@given(st.lists(errors, min_size=10, max_size=40), errors)
def test_equal_forecasters_and_a_constant_distance_give_no_test(
    values: list[float], apart: float
) -> None:
    same, when = np.array(values), np.arange(len(values), dtype=np.int32)
    assert diebold_mariano(same - same, when) is None
    assert diebold_mariano(np.full(len(values), apart / 3), when) is None


def test_the_better_forecaster_has_the_negative_sign() -> None:
    draw = np.random.default_rng(1)
    truth, when = draw.normal(size=(2, 200)), np.arange(200, dtype=np.int32)
    found = compare(truth[0], 2 * truth[1], np.ones(200), when)
    assert found.dm is not None
    assert found.dm < -3
    assert found.dm_p is not None
    assert found.dm_p < 0.01


def test_nine_dates_give_no_test_and_ten_do() -> None:
    difference = np.random.default_rng(2).normal(size=30)
    assert diebold_mariano(difference, np.arange(30, dtype=np.int32) % 9) is None
    assert diebold_mariano(difference, np.arange(30, dtype=np.int32) % 10) is not None


def rejections(when: np.ndarray, together: float = 0.0, tries: int = 400) -> float:
    """How often equal accuracy is rejected at 5 %, where it holds and one date's outcomes share
    a part of their loss."""
    draw, count, n = np.random.default_rng(3), 0, len(when)
    for _ in range(tries):
        shared = draw.normal(size=200)[np.arange(n) % 200]
        difference = together * shared + draw.normal(size=n)
        found = diebold_mariano(difference, when.astype(np.int32))
        count += found is not None and found[1] < 0.05
    return count / tries


def test_the_test_keeps_its_size_though_series_miss_together() -> None:
    dates = np.arange(2000) % 200
    assert 0.02 < rejections(dates, together=0.0) < 0.10
    assert 0.02 < rejections(dates, together=1.0) < 0.10
    # Treated as if each outcome were a date of its own, it would not.
    order = np.argsort(np.argsort(np.random.default_rng(4).permutation(2000)))
    assert rejections(order, together=1.0) > 0.3


@pytest.mark.parametrize("dates", [10, 17, 27])
def test_the_test_keeps_its_size_with_few_dates(dates: int) -> None:
    """A normal p, without the factor for small samples, rejects in 16, 11 and 9 % of them."""
    assert 0.02 < rejections(np.arange(dates), tries=1500) < 0.07


# --- Forecasts and groups


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("small")
    publish(place, small_inputs())
    return str(place)


@pytest.fixture(scope="module")
def space(folder: str) -> TaskSpace:
    return build_space(open_store(folder), SpaceConfig())


@pytest.fixture(scope="module")
def found(space: TaskSpace) -> Backtest:
    return run(space, processes=1)


def job_of(space: TaskSpace, key: str) -> Job:
    store = space.store
    return Job(store.uri, store.fingerprint, key, space.series[key], space.config)


def rows_of(found: Backtest, kind: str, baseline: str = "last_change") -> dict[str, dict[str, Any]]:
    return {
        row["group"]: row
        for row in found.rows
        if row["kind"] == kind and row["baseline"] == baseline
    }


@pytest.mark.parametrize("key", ["EMP", "OUTPUT", "CLAIMS", "SURVEY", "YIELD"])
def test_a_forecast_is_the_baseline_of_its_day_and_the_outcome_the_first_release(
    space: TaskSpace, key: str
) -> None:
    made, store = forecast(space.store, job_of(space, key)), space.store
    units = space.series[key].role.transform
    for i in range(len(made.period)):
        view = store.view(iso(int(made.as_of[i])))
        known = known_on(view, key, units)
        expected = [baseline_on(n, store, key, int(made.as_of[i]), known) for n in NAMES]
        assert made.forecast[i].tolist() == expected
        assert made.scale[i] == scale_of("std_24", known) > 0
        assert made.outcome[i] == store.outcome(key, int(made.period[i]), units).first


@pytest.mark.parametrize("key", ["EMP", "SURVEY", "YIELD"])
def test_a_target_is_asked_on_the_first_the_middle_and_the_last_day(
    space: TaskSpace, key: str
) -> None:
    made, targets = forecast(space.store, job_of(space, key)), space.series[key]
    for period, low, high in zip(targets.period, targets.low, targets.high, strict=True):
        own = made.period == period
        days = made.as_of[own].tolist()
        assert days == sorted(
            d for d in {int(low), (int(low) + int(high)) // 2, int(high)} if space.usable(key, d)
        )
        assert made.last[own].tolist() == [d == high for d in days]


def test_the_groups_share_out_the_same_targets(found: Backtest, space: TaskSpace) -> None:
    assert found.targets == found.space == len(space)
    for kind in ("all", "series", "category", "period"):
        assert sum(row["n"] for row in rows_of(found, kind).values()) == len(space)
    asked = sum(len(forecast(space.store, job_of(space, key)).period) for key in space.series)
    assert sum(row["n"] for row in rows_of(found, "horizon").values()) == asked > len(space)
    counts = Counter((row["kind"], row["group"]) for row in found.rows)
    assert set(counts.values()) == {len(NAMES)}


def test_a_series_is_in_its_unit_and_a_pool_in_scales(found: Backtest, space: TaskSpace) -> None:
    pooled = []
    for key in space.series:
        made = forecast(space.store, job_of(space, key))
        error = (made.forecast[:, NAMES.index("mean_12")] - made.outcome)[made.last]
        row = rows_of(found, "series", "mean_12")[key]
        assert row["mae"] == pytest.approx(np.mean(abs(error)), rel=1e-12)
        assert row["scaled_mae"] == pytest.approx(np.mean(abs(error) / made.scale[made.last]))
        pooled += (abs(error) / made.scale[made.last]).tolist()
    row = rows_of(found, "all", "mean_12")["all"]
    assert row["mae"] == row["scaled_mae"] == pytest.approx(statistics.mean(pooled))
    assert row["unit"] == "scales"
    units = {key: row["unit"] for key, row in rows_of(found, "series").items()}
    assert (units["EMP"], units["SALES"]) == ("Thousands", "Percent")


def test_last_change_stands_to_itself_as_one_without_a_test(found: Backtest) -> None:
    for row in found.rows:
        if row["baseline"] == "last_change" and row["mae"] > 0:
            assert (row["relative_mae"], row["relative_rmse"]) == (1.0, 1.0)
            assert (row["dm"], row["dm_p"]) == (None, None)


def test_no_figure_is_a_nan(found: Backtest) -> None:
    numbers = [x for row in found.rows for x in row.values() if isinstance(x, float)]
    assert len(numbers) > 1000
    assert all(map(math.isfinite, numbers))


def across_2020() -> VintageStore:
    """A monthly and a quarterly series from 2012 to 2023, published a month after the period."""
    return store_of(
        (meta("M", category=""), history("M", "m", "2012-01-01", 144, 20)),
        (meta("Q", "q", category="x"), history("Q", "q", "2005-01-01", 76, 28)),
    )


def test_a_period_that_reaches_into_the_pandemic_belongs_to_it() -> None:
    space = build_space(across_2020(), SpaceConfig())
    found = run(space, processes=1)
    shock = {row["group"]: row["n"] for row in rows_of(found, "period").values()}
    assert shock["2020-02 to 2021-06"] == 17 + 6  # months; quarters from 2020Q1 on
    for key, within in (("M", 17), ("Q", 6)):
        whole, calm = (rows_of(found, kind)[key]["n"] for kind in ("series", "without_2020"))
        assert calm == whole - within == len(space.series[key].period) - within
    assert set(rows_of(found, "category")) == {"none", "x"}


@pytest.mark.parametrize(
    ("horizon", "name"),
    [
        *((1, "1-7"), (7, "1-7"), (8, "8-14"), (14, "8-14"), (15, "15-30"), (30, "15-30")),
        *((31, "31-60"), (60, "31-60"), (61, "61+"), (400, "61+")),
    ],
)
def test_the_bounds_of_a_horizon(space: TaskSpace, horizon: int, name: str) -> None:
    made = forecast(space.store, job_of(space, "EMP"))
    moved = replace(made, as_of=made.release - horizon)
    number = backtest._horizon_number(moved)
    assert {backtest.HORIZONS[i] for i in number.tolist()} == {name}


def test_one_series_and_one_target() -> None:
    alone = store_of((meta("X"), history("X", "m", "2008-01-01", 60, 10)))
    found = run(build_space(alone, SpaceConfig()), processes=4)
    assert list(rows_of(found, "series")) == ["X"]
    one = run(build_space(alone, SpaceConfig()), sample=1, processes=1)
    assert one.targets == 1
    for row in one.rows:
        if row["kind"] != "horizon":
            assert row["n"] == 1
            assert row["mae"] == row["rmse"] == abs(row["bias"])
            assert row["dm"] is None


def test_where_last_change_is_never_wrong_there_is_no_ratio(tmp_path: Path) -> None:
    moving = history("X", "m", "2008-01-01", 60, 10)
    rows = [(p, v, x if day(p) < day("2011-10-01") else 999.0) for p, v, x, _ in moving]
    late = SpaceConfig(as_of_min="2012-03-01")
    found = run(build_space(store_of((meta("X"), rows)), late), processes=1)
    series = {name: rows_of(found, "series", name)["X"] for name in NAMES}
    assert series["last_change"]["mae"] == 0.0
    assert series["mean_all"]["mae"] > 0.0
    assert {row["relative_mae"] for row in series.values()} == {None}
    (line,) = [one for one in shown(found).splitlines() if one.startswith("X ")]
    assert line.split()[3:] == ["-"] * 9
    backtest_picture.draw(found, tmp_path / "x.png")
    assert size_of(tmp_path / "x.png")[0] > 800


# --- Samples


def test_a_sample_is_the_same_again_and_part_of_a_larger_one(space: TaskSpace) -> None:
    def chosen(count: int) -> set[tuple[str, int]]:
        return {(key, p) for key, t in spread(space, count).items() for p in t.period.tolist()}

    assert chosen(100) == chosen(100)
    assert len(chosen(100)) == 100
    assert chosen(30) < chosen(100) < chosen(10**6)
    assert len(chosen(10**6)) == len(space)
    other = build_space(space.store, SpaceConfig(seed=1))
    assert {(k, p) for k, t in spread(other, 100).items() for p in t.period.tolist()} != chosen(100)


@pytest.mark.parametrize("count", [9, 40, 100, 333])
def test_a_sample_gives_each_series_its_share(space: TaskSpace, count: int) -> None:
    chosen = spread(space, count)
    for key, targets in space.series.items():
        share = count * len(targets.period) / len(space)
        taken = len(chosen[key].period) if key in chosen else 0
        assert abs(taken - share) <= 2


def test_a_sample_reaches_over_all_of_time(space: TaskSpace) -> None:
    periods, chosen = space.series["EMP"].period, spread(space, 200)["EMP"].period
    quarters = np.searchsorted(periods[:: -(-len(periods) // 4)], chosen, side="right")
    assert set(quarters.tolist()) == {1, 2, 3, 4}
    assert sorted(chosen.tolist()) == chosen.tolist()


# --- Output


def shown(found: Backtest) -> str:
    """The tables as text."""
    tables = backtest_picture.tables(found)
    console = Console(file=io.StringIO(), width=max(map(backtest_picture.width_of, tables)))
    for table in tables:
        console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_csv_reads_back_to_the_last_bit(found: Backtest) -> None:
    lines = list(csv.DictReader(found.as_csv().splitlines()))
    assert tuple(lines[0]) == COLUMNS
    words = ("kind", "group", "unit", "baseline")
    for line, row in zip(lines, found.rows, strict=True):
        for name, text in line.items():
            back = text if name in words else (float(text) if text else None)
            assert back == row[name]


def test_the_json_holds_the_same_rows(found: Backtest) -> None:
    read = json.loads(found.as_json())
    assert read["rows"] == found.rows
    assert read["store"] == small_store().fingerprint


def test_the_table_shows_every_series_uncut_and_stars_the_lowest(found: Backtest) -> None:
    text = shown(found)
    assert "…" not in text
    for key, row in rows_of(found, "series").items():
        (line,) = [one for one in text.splitlines() if one.split()[:1] == [key]]
        ratios = {n: rows_of(found, "series", n)[key]["relative_mae"] for n in NAMES}
        assert line.split()[1] == str(row["n"])
        assert ("*" in line) == (min(ratios.values()) < 1.0)
        if "*" in line:
            assert f"{min(ratios.values()):.2f}*" in line


def test_the_table_shows_a_name_with_brackets_as_it_is(found: Backtest) -> None:
    rows = [{**row, "group": f"{row['group']} [core] [/b] :x:"} for row in found.rows]
    lines = shown(replace(found, rows=rows)).splitlines()
    for kind, prefix in (("series", ""), ("category", "category ")):
        for name in {row["group"] for row in rows if row["kind"] == kind}:
            assert any(line.startswith(f"{prefix}{name} ") for line in lines), name


def size_of(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_the_picture_grows_with_the_series(found: Backtest, tmp_path: Path) -> None:
    backtest_picture.draw(found, tmp_path / "few.png")
    many = [
        {**row, "group": f"{row['group']}_{i}"}
        for i in range(5)
        for row in found.rows
        if row["kind"] == "series"
    ]
    rest = [row for row in found.rows if row["kind"] != "series"]
    backtest_picture.draw(replace(found, rows=many + rest), tmp_path / "many.png")
    few, large = size_of(tmp_path / "few.png"), size_of(tmp_path / "many.png")
    assert few[0] == large[0] > 800
    assert 400 < few[1] < 1000 < large[1] < 2500
    assert len({path.stat().st_size for path in tmp_path.iterdir()}) == 2


# --- Processes and the command


def test_two_processes_give_the_same_bytes(space: TaskSpace, found: Backtest) -> None:
    done: list[tuple[int, int]] = []
    again = run(space, processes=2, progress=lambda *step: done.append(step))
    assert done == [(i + 1, len(space.series)) for i in range(len(space.series))]
    assert again.as_csv() == found.as_csv()
    assert again.as_json() == found.as_json()


def test_ray_and_the_command_give_the_same_bytes(
    folder: str, found: Backtest, tmp_path: Path
) -> None:
    local = {"RAY_ADDRESS": "local", "RAY_USAGE_STATS_ENABLED": "0"}
    asked = ["backtest", "--store", folder, "--ray", "--processes", 2, "--output", "out", "--json"]
    said = command(tmp_path, "nowcast-alfred", *asked, **local)
    assert said == found.as_json()
    assert (tmp_path / "out/backtest.csv").read_text() == found.as_csv()
    assert (tmp_path / "out/backtest.json").read_text() == found.as_json()
    assert size_of(tmp_path / "out/backtest.png")[1] > 400


def test_without_ray_the_error_says_how_to_install_it(
    space: TaskSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray.util.multiprocessing", None)
    with pytest.raises(ConfigError, match=r"pip install 'nowcast-alfred\[ray\]'"):
        run(space, sample=3, ray=True)


def test_the_command_prints_tables_of_a_sample(folder: str, tmp_path: Path) -> None:
    asked = ["backtest", "--store", folder, "--sample", 60, "--processes", 1]
    said = command(tmp_path, "nowcast-alfred", *asked)
    assert said.startswith("60 of ")
    assert "CLAIMS" in said
    assert "horizon 1-7" in said
    assert "…" not in said


def test_wrong_use_ends_with_status_2(folder: str, tmp_path: Path) -> None:
    (tmp_path / "none.toml").write_text('[env.taskset]\nas_of_min = "2099-01-01"\n')
    status, said = refused(tmp_path, "backtest", "--store", folder, "--config", "none.toml")
    assert status == 2
    assert "ConfigError: no task is left" in said
    assert "as_of_min removed the last one" in said
    assert refused(tmp_path, "backtest", "--sample", "0")[0] == 2
    assert refused(tmp_path, "backtest", "--processes", "0")[0] == 2


# --- Real vintages


@pytest.fixture(scope="module")
def measured(panel: VintageStore) -> Backtest:
    return run(build_space(panel, SpaceConfig()))


NOTED = {
    "PAYEMS": {"mean_12": 0.85, "mean_3": 0.88, "last_value": 2.27},
    "UNRATE": {"mean_12": 0.68, "mean_3": 0.77, "last_value": 0.70},
    "CPIAUCSL": {"mean_12": 0.83, "mean_3": 0.90, "last_value": 1.28},
    "CPILFESL": {"mean_12": 0.86, "mean_3": 1.03, "last_value": 2.60},
    "RSAFS": {"mean_12": 0.70, "mean_3": 0.78, "last_value": 0.69},
    "INDPRO": {"mean_12": 0.67, "mean_3": 0.76, "last_value": 0.72},
    "HOUST": {"mean_12": 0.56, "mean_3": 0.65, "last_value": 0.53},
    "DGORDER": {"mean_12": 0.60, "mean_3": 0.70, "last_value": 0.59},
    "PERMIT": {"mean_12": 0.64, "mean_3": 0.73, "last_value": 0.61},
    "JTSJOL": {"mean_12": 0.69, "mean_3": 0.73, "last_value": 0.63},
    "PCEC96": {"mean_12": 0.64, "mean_3": 0.68, "last_value": 0.72},
    "PPIFIS": {"mean_12": 0.78, "mean_3": 0.86, "last_value": 0.96},
}
"""Mean absolute error relative to last change without 2020, measured with other code."""


@pytest.mark.real
@pytest.mark.parametrize("key", NOTED)
def test_the_real_panel_gives_the_ratios_that_were_noted(measured: Backtest, key: str) -> None:
    for name, expected in NOTED[key].items():
        row = rows_of(measured, "without_2020", name)[key]
        assert row["relative_mae"] == pytest.approx(expected, abs=0.03)


@pytest.mark.real
def test_the_year_s_mean_beats_last_change_where_changes_do_not_persist(measured: Backtest) -> None:
    for key in ("HOUST", "DGORDER", "RSAFS", "INDPRO"):
        row = rows_of(measured, "without_2020", "mean_12")[key]
        assert row["relative_mae"] < 0.75
        assert row["dm"] < -3
        assert row["dm_p"] < 0.001


@pytest.mark.real
def test_the_autoregression_is_nowhere_far_behind_2020_included(measured: Backtest) -> None:
    ratios = [row["relative_mae"] for row in rows_of(measured, "series", "ar_bic").values()]
    assert len(ratios) == 33
    assert max(ratios) < 1.3


@pytest.mark.real
def test_no_series_is_without_an_answer(measured: Backtest) -> None:
    assert measured.targets == measured.space > 3000
    assert set(rows_of(measured, "period")) == set(backtest.PERIODS)
    assert len(BASELINES) + 1 == len(NAMES)
    assert rows_of(measured, "series")["PAYEMS"]["mae"] > 500  # April 2020 is in it
    assert rows_of(measured, "without_2020")["PAYEMS"]["mae"] == pytest.approx(105, abs=1)
    assert to_days("2020-02-01") == backtest.SHOCK[0]
