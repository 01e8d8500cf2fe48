"""The demonstration: two canned policies on the embedded store, through `vf-eval` itself.

It takes the route a real run takes (taskset, shared tool server, harness, scoring, traces) and
fails if any rollout failed, which `vf-eval` by itself does not.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ..errors import NowcastError
from ..locate import embedded_store
from .policy import PolicyServer
from .traces import Rollout, read_run

CONFIG = """\
# Written by `nowcast-alfred demo`. To run it again, in two shells:
#   nowcast-alfred policy --kind {kind} --port {port}
#   CANNED_API_KEY=none vf-eval @ {file} --run.name again --no-rich
model = "canned/{kind}"
num_rollouts = {rollouts}
push = false
output_dir = "{output}"

[run]
name = "{name}"

[select]
limit = {tasks}

[client]
base_url = "{url}"
api_key_var = "CANNED_API_KEY"

[env.taskset]
id = "nowcast-alfred"
store = "{store}"
closed_egress = false

[env.agent.harness]
id = "null"

[env.agent.runtime]
type = "subprocess"
"""


@dataclass(frozen=True)
class Row:
    """One line of the demonstration's table."""

    policy: str
    rollouts: int
    reward: float
    error: float
    parsed: float
    lookups: float
    run: Path


def run_demo(
    output: Path, kinds: tuple[str, ...], tasks: int, rollouts: int, store: str | None = None
) -> list[Row]:
    """Evaluate canned policies and read their runs.

    Parameters
    ----------
    output
        Folder for configs and runs; runs of an earlier demonstration in it are replaced.
    kinds
        Policies, as `lab.policy` names them.
    tasks, rollouts
        How many tasks of the stream, and how many rollouts of each.
    store
        A store; None for the embedded one.

    Raises
    ------
    NowcastError
        If a command, or any rollout, failed.
    """
    place = store or embedded_store()
    return [_evaluate(output, kind, tasks, rollouts, place) for kind in kinds]


def _evaluate(output: Path, kind: str, tasks: int, rollouts: int, store: str) -> Row:
    name = "demo-" + kind.replace(":", "-")
    run, config = output / name, output / f"{name}.toml"
    shutil.rmtree(run, ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)
    with PolicyServer(kind) as server:
        text = CONFIG.format(
            kind=kind,
            port=server.base_url.rsplit(":", 1)[1].split("/")[0],
            file=config,
            rollouts=rollouts,
            output=output,
            name=name,
            tasks=tasks,
            url=server.base_url,
            store=store,
        )
        config.write_text(text)
        _vf_eval(config)
    return summarise(kind, run, tasks * rollouts)


def _vf_eval(config: Path) -> None:
    """Run `vf-eval` of this Python's environment, with its tools (uv) on PATH."""
    bin_folder = Path(sys.executable).parent
    env = {
        **os.environ,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}",
        "CANNED_API_KEY": "none",
    }
    command = [str(bin_folder / "vf-eval"), "@", str(config), "--no-rich"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise NowcastError(f"{' '.join(command)} ended with status {done.returncode}:\n{tail}")


def summarise(kind: str, run: Path, expected: int) -> Row:
    """The means of a run.

    Raises
    ------
    NowcastError
        If a rollout failed or is missing; the message gives the first error.
    """
    found = read_run(run)
    failed = [rollout for rollout in found if not rollout.ok or rollout.errors]
    if failed or len(found) != expected:
        first = "; ".join(failed[0].errors[:1]) if failed else "none"
        raise NowcastError(
            f"{kind}: {len(found)} of {expected} rollouts, {len(failed)} failed; first error: "
            f"{first}. Log and traces are in {run}"
        )
    return Row(
        policy=kind,
        rollouts=len(found),
        reward=_mean([rollout.reward for rollout in found]),
        error=_mean(_metric(found, "abs_error_scaled")),
        parsed=_mean(_metric(found, "parsed")),
        lookups=_mean(_metric(found, "lookups")),
        run=run,
    )


def _metric(rollouts: list[Rollout], name: str) -> list[float]:
    return [rollout.metrics[name] for rollout in rollouts if name in rollout.metrics]


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
