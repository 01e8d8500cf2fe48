"""The numbers the project was founded on, out of real vintages."""

from __future__ import annotations

import calendar
from pathlib import Path

import pytest

from nowcast_alfred.data import NowcastTaskConfig
from nowcast_alfred.store import VintageStore
from nowcast_alfred.task import NowcastTask, draw_at, make_data
from rollouts import score

pytestmark = pytest.mark.real
ROOT = Path(__file__).resolve().parent.parent


def payrolls(store: VintageStore, year: int, month: int) -> NowcastTask:
    """Payrolls of a month, asked at the end of the month."""
    last = calendar.monthrange(year, month)[1]
    draw = draw_at(store, "PAYEMS", f"{year}-{month:02d}-01", f"{year}-{month:02d}-{last}")
    return NowcastTask(make_data(store, draw, "chg"), NowcastTaskConfig(store=store.uri))


def test_january_2024_as_of_month_end(panel: VintageStore) -> None:
    levels = panel.view("2024-01-31").observations("PAYEMS").to_pandas()
    assert str(levels.index[-1].date()) == "2023-12-01"
    assert levels.iloc[-1] == 157_232
    task = payrolls(panel, 2024, 1)
    assert task.data.baseline == 216
    assert task.data.scale == pytest.approx(163.3, abs=0.05)
    assert task.data.horizon_days == 2


def test_january_2024_is_353_computed_inside_its_release(panel: VintageStore) -> None:
    release = panel.view("2024-02-02").observations("PAYEMS")
    assert release.value[-2:].tolist() == [157_347, 157_700]
    truth = panel.outcome("PAYEMS", "2024-01-01", "chg")
    assert (truth.first, truth.first_vintage) == (353, "2024-02-02")
    assert truth.latest != truth.first


def test_a_forecast_of_200_earns_what_the_article_recorded(panel: VintageStore) -> None:
    trace = score(payrolls(panel, 2024, 1), "FORECAST: 200", lookups=3)
    assert round(trace.reward, 3) == -0.098
    assert trace.metrics["abs_error_first"] == 153
    assert trace.metrics["baseline_error"] == 137
    assert trace.metrics["lookups"] == 3
    assert trace.info["nowcast"]["first"] == 353


def test_october_2024_is_12_against_a_last_change_of_254(panel: VintageStore) -> None:
    task = payrolls(panel, 2024, 10)
    assert task.data.baseline == 254
    assert panel.outcome("PAYEMS", "2024-10-01", "chg").first == 12


def test_last_change_missed_first_releases_by_104_in_2024(panel: VintageStore) -> None:
    errors = [
        abs(payrolls(panel, 2024, month).data.baseline - outcome.first)
        for month in range(1, 13)
        for outcome in [panel.outcome("PAYEMS", f"2024-{month:02d}-01", "chg")]
    ]
    assert sum(errors) / 12 == pytest.approx(104.3, abs=0.05)
