"""`recall`: what is left of a model's skill without data, on made-up runs of known skill."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from canned_runs import episode, failed, write_run
from commands import ROOT, eval_config, run
from nowcast_alfred import prompts
from nowcast_alfred.cli import app
from nowcast_alfred.errors import InputError
from nowcast_alfred.lab import recall as module
from nowcast_alfred.lab.policy import PolicyServer
from nowcast_alfred.lab.recall import recall
from nowcast_alfred.lab.sampling import read_settings
from nowcast_alfred.locate import embedded_store

STORE = "f" * 64
Forecast = Callable[[float, np.random.Generator], float | None]


def rollout(n: int, y: float, forecast: float | None, shown: bool, **facts: Any) -> dict[str, Any]:
    """One rollout of task n: the n-th month, released in the next, one of three series, baseline
    0, scale 1."""
    nowcast = {
        "series_id": f"S{n % 3}",
        "reference_period": month(n),
        "first_vintage": month(n + 1),
        "as_of": "2020-01-31",
        "transform": "chg",
        "forecast": forecast,
        "first": y,
        "baseline": 0.0,
        "scale": 1.0,
        **facts,
    }
    data = {"store": STORE, "prompt": "Read on." if shown else f"Forecast.\n\n{prompts.NONE}"}
    task = {"type": "NowcastTask", "data": data, "key": f"task {n}", "hash": ""}
    return episode(f"task {n}", forecast, info={"nowcast": nowcast}, task=task)


def month(n: int) -> str:
    return f"{2000 + n // 12}-{n % 12 + 1:02d}-01"


def folders(
    where: Path,
    tasks: int,
    with_data: Forecast,
    without: Forecast,
    rollouts: int = 1,
    seed: int = 0,
) -> tuple[Path, Path]:
    """Two runs over the same tasks; outcomes are standard normal."""
    random = np.random.default_rng(seed)
    outcomes = random.normal(size=tasks)
    made = []
    for name, policy, shown in (("with", with_data, True), ("without", without, False)):
        lines = [
            rollout(n, y, policy(y, random), shown)
            for n, y in enumerate(outcomes.tolist())
            for _ in range(rollouts)
        ]
        made.append(write_run(where / name, lines))
    return made[0], made[1]


def knows(part: float) -> Forecast:
    """Takes away a part of the baseline's error."""
    return lambda y, random: part * y


def naive(y: float, random: np.random.Generator) -> float:
    return 0.0


def noise(y: float, random: np.random.Generator) -> float:
    return float(0.3 * random.normal())


def silent(y: float, random: np.random.Generator) -> None:
    return None


def overall(found: module.Recall) -> module.Row:
    return next(row for row in found.rows if row.kind == "all")


def test_a_memoriser_keeps_all_its_skill(tmp_path: Path) -> None:
    row = overall(recall(*folders(tmp_path, 200, knows(0.8), knows(0.8))))
    assert row.with_data == pytest.approx(0.8)
    assert row.without_data == pytest.approx(0.8)
    assert row.share == pytest.approx(1.0)
    assert row.share_interval == pytest.approx((1.0, 1.0))


def test_an_honest_agent_keeps_none(tmp_path: Path) -> None:
    row = overall(recall(*folders(tmp_path, 200, knows(0.5), naive)))
    assert row.with_data == pytest.approx(0.5)
    assert row.without_data == row.share == 0.0


def test_half_remembered_is_half(tmp_path: Path) -> None:
    row = overall(recall(*folders(tmp_path, 200, knows(0.6), knows(0.3))))
    assert row.share == pytest.approx(0.5)


def test_without_skill_there_is_no_share(tmp_path: Path) -> None:
    row = overall(recall(*folders(tmp_path, 200, noise, naive)))
    assert row.with_interval is not None
    assert row.with_interval[0] <= 0
    assert row.share is None
    assert row.share_interval is None


def test_replies_without_a_forecast_count_as_the_baseline_and_are_counted(tmp_path: Path) -> None:
    found = recall(*folders(tmp_path, 60, knows(0.5), silent, rollouts=2))
    assert found.unparsed == (0, 120)
    assert overall(found).without_data == 0.0


def test_a_blunder_counts_as_one_scale(tmp_path: Path) -> None:
    found = overall(recall(*folders(tmp_path, 60, knows(1.0), lambda y, random: 1e9)))
    outcomes = np.random.default_rng(0).normal(size=60)
    assert found.without_data == pytest.approx(-60 / np.abs(outcomes).sum())


def test_rollouts_of_a_task_are_averaged(tmp_path: Path) -> None:
    replies = iter([0.0, 1.0] * 20 + [0.0] * 40)
    lines = [
        [rollout(n, 1.0, next(replies), shown) for n in range(20) for _ in (0, 1)]
        for shown in (True, False)
    ]
    runs = [write_run(tmp_path / str(i), each) for i, each in enumerate(lines)]
    assert overall(recall(*runs)).with_data == pytest.approx(0.5)


def test_it_is_told_by_series_and_by_year(tmp_path: Path) -> None:
    def of_series(n: int) -> float:
        return 0.9 if n % 3 == 1 else 0.0

    lines = [
        [rollout(n, 1.0 + n % 5, (1.0 + n % 5) * (part if shown else part and of_series(n)), shown)
         for n, part in ((n, 0.9) for n in range(180))]
        for shown in (True, False)
    ]  # fmt: skip
    found = recall(*(write_run(tmp_path / str(i), each) for i, each in enumerate(lines)))
    shares = {row.name: row.share for row in found.rows if row.kind == "series"}
    assert shares == {"S0": 0.0, "S1": pytest.approx(1.0), "S2": 0.0}
    assert [row.name for row in found.rows if row.kind == "year"] == [
        str(year) for year in range(2000, 2015)
    ]
    assert sum(row.tasks for row in found.rows if row.kind == "year") == found.tasks == 180


def test_few_months_give_a_skill_and_no_interval(tmp_path: Path) -> None:
    row = overall(recall(*folders(tmp_path, 9, knows(0.5), naive)))
    assert row.with_data == pytest.approx(0.5)
    assert row.with_interval is None
    assert row.share is None


def test_a_month_is_one_observation(tmp_path: Path) -> None:
    """Twelve outcomes that are released together and are as one, say no more than one of them; nor
    does one outcome that is asked on twelve days."""
    released = [{"series_id": f"S{i}"} for i in range(12)]
    asked = [{"as_of": f"2020-02-{day:02d}"} for day in range(1, 13)]
    for name, twelve in (("released", released), ("asked", asked)):
        full, bare = (
            [
                rollout(n, y, part * y, shown, **facts)
                for n, y in enumerate(np.random.default_rng(0).normal(size=144).tolist())
                for part in [0.5 if shown else 0.5 * (n % 2)]
                for facts in twelve
            ]
            for shown in (True, False)
        )
        folder = tmp_path / name
        found = overall(recall(write_run(folder / "a", full), write_run(folder / "b", bare)))
        alone = overall(
            recall(write_run(folder / "c", full[::12]), write_run(folder / "d", bare[::12]))
        )
        assert found.tasks == 12 * alone.tasks == 12 * 144
        assert found.without_interval == pytest.approx(alone.without_interval)
        assert found.share_interval == pytest.approx(alone.share_interval)
        assert width(found.share_interval) > 0.1


def width(interval: tuple[float, float] | None) -> float:
    assert interval is not None
    return interval[1] - interval[0]


def test_the_figures_are_the_same_each_time(tmp_path: Path) -> None:
    runs = folders(tmp_path, 100, knows(0.5), noise)
    assert recall(*runs) == recall(*runs)


def test_failed_rollouts_and_tasks_of_one_run_are_left_out_and_counted(tmp_path: Path) -> None:
    full, bare = folders(tmp_path, 40, knows(0.5), naive)
    with (full / "traces.jsonl").open("a") as file:
        file.write(json.dumps(failed("task 99")) + "\n")
        file.write(json.dumps(rollout(40, 1.0, 0.5, True)) + "\n")
    found = recall(full, bare)
    assert (found.tasks, found.unpaired, found.failed) == (40, (1, 0), (1, 0))


# --- Recalled numbers


def by_heart(part: float) -> Forecast:
    """Knows a part of the numbers, and guesses wildly at the others."""

    def forecast(y: float, random: np.random.Generator) -> float:
        return y if random.random() < part else y + 3.0 * float(random.normal())

    return forecast


def test_numbers_by_heart_are_seen_where_misses_cancel_the_skill(tmp_path: Path) -> None:
    row = overall(recall(*folders(tmp_path, 300, knows(0.5), by_heart(0.4))))
    assert row.share is not None
    assert row.share < 0.2
    assert row.hits.without_data == pytest.approx(0.4, abs=0.06)
    assert row.hits.baseline == pytest.approx(0.04, abs=0.03)
    assert row.hits.with_data == pytest.approx(0.08, abs=0.04)
    assert row.hits.recalled


@pytest.mark.parametrize("part", [0.1, 0.3])
def test_a_few_numbers_by_heart_are_enough(tmp_path: Path, part: float) -> None:
    assert overall(recall(*folders(tmp_path, 300, knows(0.5), by_heart(part)))).hits.recalled


def test_who_remembers_nothing_is_seldom_said_to(tmp_path: Path) -> None:
    for name, guess in (("naive", naive), ("noise", noise), ("wild", by_heart(0.0))):
        runs = (folders(tmp_path / f"{name} {i}", 64, knows(0.9), guess, seed=i) for i in range(40))
        said = [overall(recall(*one)).hits.recalled for one in runs]
        assert sum(said) <= 2, name


def test_a_guess_that_hits_in_any_month_is_no_memory(tmp_path: Path) -> None:
    """A rate that is unchanged in every second month, and a baseline that is never so round."""
    outcomes = [0.0 if n % 2 else 0.5 + n for n in range(144)]
    runs = [
        write_run(
            tmp_path / str(shown),
            [
                rollout(n, y, 0.0, shown, baseline=0.2, series_id="U")
                for n, y in enumerate(outcomes)
            ],
        )
        for shown in (True, False)
    ]
    hits = overall(recall(*runs)).hits
    assert hits.without_data == 0.5
    assert hits.baseline == 0.0
    assert hits.above_baseline is not None
    assert hits.above_baseline[0] > 0.3
    assert hits.other_periods == pytest.approx(0.5, abs=0.01)
    assert not hits.recalled


def test_a_hit_is_near_in_scales_and_counts_by_task_among_those_with_a_forecast(
    tmp_path: Path,
) -> None:
    forecasts = [[5.0, 9.0], [5.39, None], [5.41, 5.41], [None, None]]
    full, bare = (
        write_run(
            tmp_path / str(shown),
            [
                rollout(n, 5.0, forecast, shown, scale=8.0, baseline=5.0 if n else 0.0)
                for n, both in enumerate(forecasts)
                for forecast in both
            ],
        )
        for shown in (True, False)
    )
    hits = overall(recall(full, bare)).hits
    assert hits.without_data == hits.with_data == pytest.approx((0.5 + 1.0 + 0.0) / 3)
    assert hits.baseline == pytest.approx(2 / 3)


def test_an_outcome_that_is_asked_on_many_days_is_one_hit(tmp_path: Path) -> None:
    def both(days: int) -> module.Hits:
        random = np.random.default_rng(3)
        told = [(float(random.normal()), random.random() < 0.2) for _ in range(40)]
        runs = [
            write_run(
                tmp_path / f"{days} {shown}",
                [
                    rollout(n, y, y if known else 9.0, shown, as_of=f"2020-02-{day:02d}")
                    for n, (y, known) in enumerate(told)
                    for day in range(1, days + 1)
                ],
            )
            for shown in (True, False)
        ]
        return overall(recall(*runs)).hits

    one, many = both(1), both(12)
    assert one.above_baseline == pytest.approx(many.above_baseline)
    assert one.other_periods == pytest.approx(many.other_periods)
    assert one.recalled == many.recalled


def test_with_few_months_hits_are_told_and_nothing_is_claimed(tmp_path: Path) -> None:
    hits = overall(recall(*folders(tmp_path, 9, knows(0.5), knows(1.0)))).hits
    assert hits.without_data == 1.0
    assert hits.above_baseline is None
    assert not hits.recalled


# --- Wrong use


def test_runs_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    full, bare = folders(tmp_path, 20, knows(0.5), naive)
    with pytest.raises(InputError, match="first"):
        recall(bare, full)
    with pytest.raises(InputError, match="first"):
        recall(full, full)
    far = write_run(
        tmp_path / "far", [rollout(n, 1.0, 0.0, False, as_of="1999-01-01") for n in range(9)]
    )
    with pytest.raises(InputError, match="share no task"):
        recall(full, far)
    lines = [rollout(n, 1.0, 0.0, False) for n in range(9)]
    for line in lines:
        line["traces"][0]["task"]["data"]["store"] = "0" * 64
    with pytest.raises(InputError, match="different versions of a store"):
        recall(full, write_run(tmp_path / "other", lines))
    other = write_run(
        tmp_path / "scale", [rollout(n, 1.0, 0.0, False, scale=2.0) for n in range(9)]
    )
    with pytest.raises(InputError, match="different baselines"):
        recall(full, other)
    with pytest.raises(InputError, match="none of its 1 rollouts was scored"):
        recall(full, write_run(tmp_path / "bad", [failed("task 1")]))


# --- The command and the configs


def told(full: Path, bare: Path, columns: int = 80) -> list[str]:
    """The lines of the command."""
    said = CliRunner().invoke(app, ["recall", str(full), str(bare)], env={"COLUMNS": str(columns)})
    assert said.exit_code == 0
    return said.stdout.splitlines()


def test_the_command_prints_a_table_or_json(tmp_path: Path) -> None:
    full, bare = folders(tmp_path, 40, knows(0.5), silent)
    said = "\n".join(told(full, bare))
    assert "40 tasks in both runs" in said
    assert "40 without" in said
    found = CliRunner().invoke(app, ["recall", str(full), str(bare), "--json"])
    row = json.loads(found.stdout)["rows"][0]
    assert row["share"] == 0.0
    assert row["hits"]["without_data"] is row["hits"]["baseline"] is None
    assert row["hits"]["recalled"] is False


def test_the_command_says_in_one_line_that_numbers_are_recalled(tmp_path: Path) -> None:
    memory = told(*folders(tmp_path / "memory", 300, knows(0.5), by_heart(0.4)))
    (line,) = [line for line in memory if line.startswith("numbers are recalled: ")]
    hits = overall(recall(tmp_path / "memory/with", tmp_path / "memory/without")).hits
    assert hits.without_data is not None
    assert f"{100 * hits.without_data:.0f} % hits without data" in line
    assert any("net, misses cancel hits" in line for line in memory)
    honest = told(*folders(tmp_path / "honest", 300, knows(0.5), noise))
    assert not any("recalled: " in line for line in honest)


def test_the_table_is_readable_at_80_columns(tmp_path: Path) -> None:
    lines = told(*folders(tmp_path, 300, knows(0.5), by_heart(0.4)))
    table = [line for line in lines if line[:1] in "┏┃┡│└"]
    assert max(map(len, table)) <= 80
    assert any(re.search(r"all .* \d+/\d+/\d+ ", line) for line in table)
    assert sum(line.startswith("│") for line in table) <= 2 * 40  # a row is two lines at most


@pytest.mark.parametrize("shown", [True, False])
def test_a_run_without_any_forecast_is_told_in_one_line(tmp_path: Path, shown: bool) -> None:
    policies = (silent, naive) if shown else (knows(0.5), silent)
    lines = told(*folders(tmp_path, 40, *policies))
    (line,) = [line for line in lines if "says nothing" in line]
    assert line.startswith(f"no reply {'with' if shown else 'without'} data gave a forecast")
    some = told(*folders(tmp_path / "some", 40, knows(0.5), naive))
    assert not any("says nothing" in line for line in some)


def test_the_two_configs_ask_for_the_same_tasks() -> None:
    full, bare = (read_settings(ROOT / f"configs/eval/{name}.toml") for name in ("tools", "recall"))
    keys = [[one.key for one in taskset.take(8)] for taskset in (full, bare)]
    assert keys[0] == keys[1]
    prompt = next(iter(bare)).data.prompt
    assert prompts.NONE in str(prompt)
    assert "catalog" not in str(prompt)


@pytest.mark.e2e
def test_two_real_runs_are_compared(tmp_path: Path) -> None:
    for name, kind, context in (("with", "mean-12", "tools"), ("without", "constant:0", "none")):
        folder = tmp_path / name
        folder.mkdir()
        with PolicyServer(kind) as server:
            config = eval_config(
                folder, server.base_url, embedded_store(), num_rollouts="1",
                taskset=f'closed_egress = false\ncontext = "{context}"',
            )  # fmt: skip
            run(folder, "vf-eval", "@", config, "-n", 4, "--no-rich")
    arguments = [tmp_path / name / "outputs/run" for name in ("with", "without")]
    found = json.loads(run(tmp_path, "nowcast-alfred", "recall", *arguments, "--json"))
    assert found["tasks"] == 4
    assert found["unpaired"] == found["unparsed"] == found["failed"] == [0, 0]
