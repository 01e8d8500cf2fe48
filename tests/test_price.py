"""Prices: the article's example to the cent, units, what a run measures, and wrong use."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from canned_runs import episode, failed, write_run
from commands import BIN, environment
from nowcast_alfred.errors import ConfigError, InputError
from nowcast_alfred.lab.demo import run_demo
from nowcast_alfred.lab.price import DEFAULT_PRICES, Cost, Estimate, estimate, read_prices
from nowcast_alfred.lab.traces import Rollout, read_run

PRICES = read_prices()
GIB = 1024**3


def boxes(minutes: dict[str, list[float]], size: int = GIB, **runtime: object) -> list[Rollout]:
    """Rollouts whose boxes lived so many minutes, by group, with traces of a GiB each."""
    held = {"type": "prime", **runtime}
    made = []
    for group, lived in minutes.items():
        for each in lived:
            stages = {"boot": 60.0 * each / 2, "agent": 60.0 * each / 2}
            made.append(
                Rollout(True, 0.0, {}, {}, {}, {}, group=group, stages=stages, size=size,
                        runtime=held)
            )  # fmt: skip
    return made


def cost(found: Estimate, item: str) -> Cost:
    (held,) = [each for each in found.costs if each.item == item]
    return held


# The article.


def test_the_articles_box_and_run_to_the_cent() -> None:
    found = estimate(PRICES, minutes=10, steps=100, batch=512)
    sandbox = cost(found, "sandbox")
    assert found.rollouts == 51_200
    assert round(sandbox.rollout, 4) == 0.0077
    assert sandbox.run is not None
    assert round(sandbox.run, 2) == 392.53 == round(51_200 * 10 * 0.046 / 60, 2)
    assert [each.item for each in found.costs] == ["sandbox"]
    assert any("traces are not priced" in note for note in found.notes)


def test_the_shipped_prices_are_the_articles_and_dated() -> None:
    assert PRICES.sandbox.per_hour == 0.046
    assert (PRICES.sandbox.cpu, PRICES.sandbox.memory, PRICES.sandbox.disk) == (1, 2, 5)
    assert PRICES.traces.ingestion_per_gib == 1.0
    assert PRICES.traces.storage_per_gib_month == 0.1
    assert PRICES.sandbox.date == PRICES.traces.date == dt.date(2026, 10, 14)


# A run's own figures.


def test_an_hour_and_a_gib_cost_what_the_list_says() -> None:
    found = estimate(PRICES, boxes({"a": [60.0], "b": [60.0]}), months=3)
    assert cost(found, "sandbox").rollout == pytest.approx(0.046)
    assert cost(found, "trace ingestion").rollout == pytest.approx(1.0)
    assert cost(found, "trace ingestion").amount == 1024**2
    assert cost(found, "trace storage").rollout == pytest.approx(0.3)
    assert cost(found, "sum").rollout == pytest.approx(1.346)
    assert found.costs[-1].item == "sum"
    assert cost(found, "sum").run is None


def test_the_range_of_rollouts_is_their_deciles_and_that_of_the_run_its_mean_error() -> None:
    minutes = {"a": [1.0, 2.0], "b": [4.0, 6.0], "c": [10.0, 13.0]}
    sandbox = cost(estimate(PRICES, boxes(minutes), steps=10, batch=64), "sandbox")
    flat, rate = np.concatenate(list(minutes.values())), 0.046 / 60
    low, high = np.quantile(flat, [0.1, 0.9]) * rate
    assert (sandbox.p10, sandbox.p90) == pytest.approx((low, high))
    means = np.array([np.mean(group) for group in minutes.values()])
    error = means.std(ddof=1) / np.sqrt(3)
    assert sandbox.run == pytest.approx(640 * rate * flat.mean())
    assert sandbox.low == pytest.approx(max(0.0, 640 * rate * (flat.mean() - 2 * error)))
    assert sandbox.high == pytest.approx(640 * rate * (flat.mean() + 2 * error))


def test_one_group_gives_no_range_of_the_run() -> None:
    found = estimate(PRICES, boxes({"a": [1.0, 2.0]}), steps=1, batch=8)
    assert (cost(found, "sandbox").low, cost(found, "sandbox").high) == (None, None)
    assert any("one group" in note for note in found.notes)


def test_a_box_lives_through_all_stages_and_failed_ones_are_paid_for(tmp_path: Path) -> None:
    spent = episode("a", 1.0, seconds=(1.0, 2.0, 54.0, 1.0, 2.0))
    wasted = episode("b", None, seconds=(60.0, 60.0, 0.0, 0.0, 0.0), ok=False)
    found = estimate(PRICES, read_run(write_run(tmp_path, [spent, wasted, failed("c")])))
    assert cost(found, "sandbox").amount == pytest.approx((1.0 + 2.0) / 2)
    assert found.stages["agent"] == pytest.approx(54.0 / 2)
    assert "1 of 3 rollouts have no timings and are left out" in found.notes


def test_waiting_for_an_image_is_no_box_time() -> None:
    found = estimate(PRICES, boxes({"a": [10.0]}, image_cached=False))
    assert cost(found, "sandbox").amount == pytest.approx(5.0)
    assert any("1 boxes waited for their image" in note for note in found.notes)
    cached = estimate(PRICES, boxes({"a": [10.0]}, image_cached=True))
    assert cost(cached, "sandbox").amount == pytest.approx(10.0)


def test_notes_name_a_runtime_and_a_size_that_are_not_the_priced_ones() -> None:
    here = estimate(PRICES, boxes({"a": [1.0]}, type="subprocess"))
    assert "the run's runtime is subprocess" in here.notes[0]
    large = estimate(PRICES, boxes({"a": [1.0]}, cpu=4.0, memory=2.0, disk=5.0))
    assert "(cpu 4.0, memory 2.0, disk 5.0)" in large.notes[0]
    usual = estimate(PRICES, boxes({"a": [1.0], "b": [1.0]}, cpu=1.0, memory=2.0, disk=5.0))
    assert usual.notes == ["GPU hours and tokens are not priced"]


def test_groups_to_be_replaced_are_named_with_what_they_cost() -> None:
    tied, mixed = boxes({"a": [1.0, 1.0], "b": [1.0, 1.0]}), boxes({"c": [1.0, 1.0]})
    mixed[0] = replace(mixed[0], reward=0.5)
    half = estimate(PRICES, tied + mixed, steps=10, batch=8)
    text = "2 of 3 groups of the run are tied: a trainer that replaces them pays 3.0 x the sums"
    assert f"{text} for the run" in half.notes
    assert half.rollouts == 80
    assert any("never fills a batch" in note for note in estimate(PRICES, tied).notes)


def test_assumed_minutes_take_the_place_of_the_measured_ones() -> None:
    found = estimate(PRICES, boxes({"a": [1.0], "b": [3.0]}), minutes=60, steps=1, batch=8)
    assert cost(found, "sandbox").run == pytest.approx(8 * 0.046)
    assert cost(found, "sandbox").low is None
    assert cost(found, "sum").run == pytest.approx(8 * (0.046 + 1.0 + 0.1))


# Wrong use.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "give a run, or --minutes"),
        ({"minutes": 10, "steps": 100}, "give both, or neither"),
        ({"minutes": 10, "batch": 100}, "give both, or neither"),
        ({"minutes": 0}, "--minutes 0"),
        ({"minutes": float("nan")}, "--minutes nan"),
        ({"minutes": 1, "steps": -1, "batch": 8}, "--steps -1"),
        ({"minutes": 1, "months": float("inf")}, "--months inf"),
    ],
)
def test_settings_that_price_nothing_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        estimate(PRICES, **settings)  # type: ignore[arg-type]


def test_a_run_without_timings_needs_minutes(tmp_path: Path) -> None:
    untimed = read_run(write_run(tmp_path, [failed("a")]))
    with pytest.raises(InputError, match="give --minutes"):
        estimate(PRICES, untimed)
    assert estimate(PRICES, untimed, minutes=1).measured == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("per_hour = 0.046", "per_hour = -1"), "sandbox.per_hour: .*greater than or equal to 0"),
        (("per_hour = 0.046", "per_hour = inf"), "sandbox.per_hour: .*finite"),
        (("per_hour", "per_minute"), "sandbox.per_hour: Field required; sandbox.per_minute: Extra"),
        (("date = 2026-10-14", "date = 'soon'"), "sandbox.date"),
        (('currency = "USD"', ""), "currency: Field required"),
        (("[traces]", "[traces"), "prices.toml"),
    ],
)
def test_a_price_list_is_checked(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(DEFAULT_PRICES.read_text().replace(*change))
    with pytest.raises(ConfigError, match=message):
        read_prices(path)


def test_a_missing_price_list_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml"):
        read_prices(tmp_path / "none.toml")


# The command.


def command(*arguments: object) -> tuple[int, str, str]:
    line = [str(BIN / "nowcast-alfred"), "price", *map(str, arguments)]
    done = subprocess.run(
        line, env=environment(COLUMNS="150"), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_the_command_prints_the_articles_run() -> None:
    status, said, _ = command("--minutes", 10, "--steps", 100, "--batch", 512)
    assert status == 0
    assert "392.53" in said
    assert "prices of 2026-10-14" in said


def test_own_prices_and_json(tmp_path: Path) -> None:
    dear = tmp_path / "dear.toml"
    dear.write_text(DEFAULT_PRICES.read_text().replace("0.046", "0.46"))
    run = write_run(tmp_path / "run", [episode("a", 1.0), episode("b", 2.0)])
    status, said, _ = command(run, "--steps", 1, "--batch", 8, "--prices", dear, "--json")
    found = json.loads(said)
    assert status == 0
    assert found["prices"]["sandbox"]["per_hour"] == 0.46
    assert found["costs"][0]["run"] == pytest.approx(8 * 34 / 3600 * 0.46)
    assert found["costs"][1]["amount"] == (run / "traces.jsonl").stat().st_size / 2 / 1024


def test_wrong_use_ends_with_status_2(tmp_path: Path) -> None:
    (tmp_path / "traces.jsonl").write_text("")
    for arguments, message in {
        (): "give a run, or --minutes",
        (tmp_path,): "has no rollouts",
        ("--minutes", 1, "--steps", 2): "give both",
        ("--minutes", "soon"): "should be a valid number",
    }.items():
        status, _, said = command(*arguments)
        assert status == 2
        assert message in said


@pytest.mark.e2e
def test_a_run_of_the_demo_is_priced_from_its_traces(tmp_path: Path) -> None:
    (row,) = run_demo(tmp_path, ("mean-12",), 2, 2)
    rollouts = read_run(row.run)
    found = estimate(PRICES, rollouts, steps=100, batch=512)
    wall = 60 * cost(found, "sandbox").amount
    assert set(found.stages) == {"boot", "setup", "agent", "finalize", "scoring"}
    assert wall == pytest.approx(sum(found.stages.values()))
    size = (row.run / "traces.jsonl").stat().st_size
    paid = 51_200 * (wall / 3600 * 0.046 + size / 4 / GIB * 1.1)
    assert cost(found, "sum").run == pytest.approx(paid, rel=1e-4)
