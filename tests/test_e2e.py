"""The environment through verifiers' own commands, on the embedded store and on real vintages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import bls_archives
from commands import BIN, ROOT, environment, eval_config, run, validate
from nowcast_alfred.lab.policy import PolicyServer
from nowcast_alfred.lab.traces import read_run
from nowcast_alfred.locate import embedded_store

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def panel(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The store of the real panel, imported by the command a user types."""
    folder = tmp_path_factory.mktemp("panel")
    catalog, source = ROOT / "catalogs/us-macro.toml", real_data / "us_panel_2016_2025.parquet"
    run(
        folder, "nowcast-alfred", "store", "import", "S", "--catalog", catalog,
        "--format", "long", source,
    )  # fmt: skip
    return str(folder / "S")


def test_the_shipped_validate_config_finds_every_task_valid(tmp_path: Path) -> None:
    run(tmp_path, "vf-validate", "@", ROOT / "configs/validate.toml", "-n", 200, "--no-rich")
    (found,) = (tmp_path / "outputs").iterdir()
    summary = json.loads((found / "summary.json").read_text())
    assert summary["outcomes"]["valid"] == summary["total"] == 200


@pytest.mark.real
def test_a_thousand_real_tasks_are_valid_in_gold_and_noop(panel: str, tmp_path: Path) -> None:
    summary = validate(tmp_path, "-n", 1000, "--taskset.store", panel)
    assert summary["checks"]["gold"]["valid"] == 1000
    assert summary["checks"]["noop"]["valid"] == 1000


@pytest.mark.real
def test_a_shuffled_selection_of_real_tasks_is_valid(panel: str, tmp_path: Path) -> None:
    choice = ["--select.include.idx", "500:600", "-s", "-n", 20]
    summary = validate(tmp_path, *choice, "--taskset.store", panel)
    assert summary["checks"]["gold"]["valid"] == summary["checks"]["noop"]["valid"] == 20


PLUGGED = f"""
[env.taskset.task.rewards]
beats_baseline = {{ weight = 0.25 }}
half = {{ fn = "{Path(__file__).parent / "plugins.py"}:half", weight = 2.0 }}

[env.taskset.task.metrics]
reply_length = {{ fn = "{Path(__file__).parent / "plugins.py"}:reply_length" }}
"""


@pytest.mark.real
def test_a_real_eval_survives_an_interrupt_and_replays(panel: str, tmp_path: Path) -> None:
    with PolicyServer("mean-12") as server:
        config = eval_config(
            tmp_path, server.base_url, panel, num_rollouts="4", max_concurrent="4", tables=PLUGGED
        )
        command = [str(BIN / "vf-eval"), "@", str(config), "-n", "12", "--no-rich"]
        interrupt_after(6, command, tmp_path)
        assert 0 < len(read_run(tmp_path / "outputs/run")) < 48
        run(tmp_path, *command[:1], *command[1:], "--resume")
    rollouts = read_run(tmp_path / "outputs/run")
    assert len(rollouts) == 48
    assert len({rollout.task["key"] for rollout in rollouts}) == 12
    for rollout in rollouts:
        assert rollout.ok, rollout.errors
        assert rollout.metrics["parsed"] == rollout.metrics["lookups"] == 1.0
        assert rollout.metrics["reply_length"] > 0
        assert rollout.nowcast["forecast"] is not None
        assert rollout.nowcast["first_vintage"] > rollout.nowcast["as_of"]
        assert rollout.reward == pytest.approx(0.25 * rollout.rewards["beats_baseline"] + 1.0)
    replayed = replay(tmp_path, tmp_path / "outputs/run")
    assert replayed == sorted(scores(rollout) for rollout in rollouts)


def interrupt_after(lines: int, command: list[str], folder: Path) -> None:
    """Start a run and stop it as Ctrl-C does once some rollouts are on disk."""
    traces = folder / "outputs/run/traces.jsonl"
    with subprocess.Popen(
        command, cwd=folder, env=environment(), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        while process.poll() is None:
            if traces.exists() and traces.read_bytes().count(b"\n") >= lines:
                os.kill(process.pid, signal.SIGINT)
                process.wait(timeout=120)
                return
            time.sleep(0.1)
    pytest.fail("the run ended before it could be interrupted")


def replay(folder: Path, source: Path) -> list[str]:
    """The scores `vf-replay` computes from a run's traces, in an order of their own."""
    run(folder, "vf-replay", source, "--no-rich", "--output-dir", folder / "replayed")
    return sorted(scores(rollout) for rollout in read_run(folder / "replayed"))


def scores(rollout) -> str:
    held = [rollout.task["key"], sorted(rollout.rewards.items()), sorted(rollout.metrics.items())]
    return json.dumps(held)


def test_the_articles_eval_config_runs_as_it_stands(tmp_path: Path) -> None:
    with PolicyServer("constant:200", port=8765):
        run(tmp_path, "vf-eval", "@", ROOT / "configs/eval/article.toml", "--no-rich")
    (found,) = (tmp_path / "outputs").iterdir()
    rollouts = read_run(found)
    assert [rollout.ok for rollout in rollouts] == [True] * 6
    assert {rollout.nowcast["forecast"] for rollout in rollouts} == {200.0}
    # Where people look: verifiers silences every logger but its own.
    assert "no store is configured" in (found / "logs/latest/eval.log").read_text()


def test_silence_and_malformed_replies_earn_the_floor(tmp_path: Path) -> None:
    for kind in ("silent", "malformed"):
        folder = tmp_path / kind
        folder.mkdir()
        with PolicyServer(kind) as server:
            config = eval_config(folder, server.base_url, embedded_store(), num_rollouts="1")
            run(folder, "vf-eval", "@", config, "-n", 1, "--no-rich")
        (rollout,) = read_run(folder / "outputs/run")
        assert rollout.ok
        assert rollout.reward == -1.0
        assert rollout.metrics["parsed"] == 0.0
        assert rollout.nowcast["reason"]


@pytest.mark.parametrize(("context", "harness"), [("files", "bash"), ("prompt", "null")])
def test_the_other_contexts_give_the_agent_its_data(
    context: str, harness: str, tmp_path: Path
) -> None:
    with PolicyServer("last-change") as server:
        config = eval_config(
            tmp_path, server.base_url, embedded_store(), num_rollouts="1", harness=harness,
            taskset=f'closed_egress = false\ncontext = "{context}"',
        )  # fmt: skip
        run(tmp_path, "vf-eval", "@", config, "-n", 2, "--no-rich")
    for rollout in read_run(tmp_path / "outputs/run"):
        assert rollout.ok, rollout.errors
        assert rollout.nowcast["forecast"] == pytest.approx(rollout.nowcast["baseline"], rel=1e-5)
        assert rollout.metrics["lookups"] == 0.0


def test_closed_egress_is_refused_where_it_cannot_be_enforced(tmp_path: Path) -> None:
    with PolicyServer("silent") as server:
        config = eval_config(
            tmp_path, server.base_url, embedded_store(), num_rollouts="1",
            taskset="closed_egress = true",
        )  # fmt: skip
        run(tmp_path, "vf-eval", "@", config, "-n", 1, "--no-rich")
    (rollout,) = read_run(tmp_path / "outputs/run")
    assert not rollout.ok
    assert "network policy" in " ".join(rollout.errors)


def test_the_demo_prints_its_table_and_where_the_traces_are(tmp_path: Path) -> None:
    said = run(tmp_path, "nowcast-alfred", "demo", "--tasks", 1, "--rollouts", 1, COLUMNS="120")
    assert "last-change" in said
    assert "mean-12" in said
    assert "traces.jsonl" in said


def test_bls_vintages_from_a_copy_on_disk_give_valid_tasks(tmp_path: Path) -> None:
    (tmp_path / "ces.zip").write_bytes(bls_archives.whole())
    run(
        tmp_path, "nowcast-alfred", "store", "build", "S", "--source", "bls-ces",
        "--catalog", ROOT / "catalogs/us-payrolls.toml", "--file", "ces.zip",
    )  # fmt: skip
    summary = validate(tmp_path, "-n", 500, "--taskset.store", tmp_path / "S")
    assert summary["outcomes"]["valid"] == 500


@pytest.mark.real
def test_the_philadelphia_feds_workbooks_give_valid_tasks(real_data: Path, tmp_path: Path) -> None:
    run(
        tmp_path, "nowcast-alfred", "store", "build", "S", "--source", "rtdsm",
        "--catalog", ROOT / "catalogs/us-rtdsm.toml", "--file", real_data,
    )  # fmt: skip
    rights = ["--taskset.rights", "research"]
    summary = validate(tmp_path, "-n", 500, "--taskset.store", tmp_path / "S", *rights)
    assert summary["outcomes"]["valid"] == 500


@pytest.mark.real
def test_fred_md_vintages_give_valid_tasks(real_data: Path, tmp_path: Path) -> None:
    run(
        tmp_path, "nowcast-alfred", "store", "import", "S", real_data / "fred-md",
        "--catalog", ROOT / "catalogs/fred-md.toml", "--format", "fred-md",
    )  # fmt: skip
    summary = validate(tmp_path, "-n", 500, "--taskset.store", tmp_path / "S")
    assert summary["outcomes"]["valid"] == 500
