"""An agent in a closed box tries to see the outcome; each attempt fails, and its control succeeds.

`vf-eval` runs with the bash harness on the docker runtime, with closed egress and the shared tool
server on the host. The agent (`box_attempts`, `reach.py`) knows what it is after and where the
doors are. The same agent runs in an open box and on the subprocess runtime, where what it tries
does work: that is what makes the failures in the closed box evidence, and the warning of the docs
about subprocess a fact. A table of all attempts is printed at the end and kept as JSON.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier

import pytest
from box_attempts import BY_HAND, DONE, MOVED, PYTHON, SCRIPT, Attempt, Prey, listing
from box_engine import docker

import panels
from agents import scripted
from commands import eval_config, only_run, run
from nowcast_alfred import NowcastTaskset
from nowcast_alfred.data import NowcastData
from nowcast_alfred.lab.policy import Agent, PolicyServer
from nowcast_alfred.lab.traces import Rollout, read_run
from nowcast_alfred.locate import opened
from nowcast_alfred.rewards import outcome
from nowcast_alfred.served import number
from nowcast_alfred.store import SeriesInput, publish
from nowcast_alfred.taskset import NowcastConfig
from nowcast_alfred.tools import REFUSED

pytestmark = pytest.mark.docker

FIT = (Path(__file__).parent / "fit.py").read_text()
DECOY = "decoy-5c1d"
KEY = "canary-of-the-hosts-api-key"


@dataclass(frozen=True)
class World:
    """What all runs share: a store, its first two tasks, and doors to knock at."""

    folder: Path
    image: str
    store: str
    tasks: list[NowcastData]
    """The earlier of the two as-of dates first."""
    attempts: list[Attempt]
    prey: Prey

    @property
    def truth(self) -> float:
        """The first release that the earlier task asks for."""
        return outcome(self.tasks[0], self.store).first


@dataclass(frozen=True)
class Run:
    """One run: its rollouts by as-of date, and what each command of each printed."""

    rollouts: dict[str, Rollout]
    outputs: dict[str, list[str]]


# --- The world


def widgets(folder: Path) -> str:
    """A store whose every value has eight digits, so that a number found is a number leaked."""
    months = panels.months("2005-01-01", 130)
    level, values = 0.0, []
    for i in range(len(months)):
        level = 0.8 * level + panels.number(f"widgets/{i}", 400_000) / 100
        values.append(round(250_000 + level, 2))
    old = [(p, "2010-02-01", x) for p, x in zip(months[:60], values, strict=False)]
    new = [(p, panels.after(p, 12), x) for p, x in zip(months[60:], values[60:], strict=True)]
    rows = {
        "WIDGETS": [*old, *new],
        "ORDERS": panels.history("orders", "m", "2005-01-01", 130, 9, span=300),
    }
    publish(
        folder,
        [
            SeriesInput([panels.meta(key, transform="lin", role=role)], panels.table(found, key))
            for (key, found), role in zip(rows.items(), ("target", "predictor"), strict=True)
        ],
    )
    return str(folder)


@pytest.fixture(scope="module")
def world(box: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("boxed")
    store = widgets(folder / "store")
    taskset = NowcastTaskset(NowcastConfig(id="nowcast-alfred", store=store))
    tasks = sorted((task.data for task in taskset.take(2)), key=lambda data: data.as_of)
    first = outcome(tasks[0], store)
    assert tasks[1].as_of >= first.first_vintage, "the later rollout knows the earlier's outcome"
    server = decoy_server()
    sleeper = "cd /tmp && echo $0 >decoy && exec python3 -m http.server 8000"
    peer = docker("run", "-d", "--rm", "--entrypoint", "sh", box, "-c", sleeper, DECOY)
    try:
        prey = Prey(
            series=tasks[0].series_id,
            period=tasks[0].reference_period,
            outcome=number(first.first),
            store=store,
            key=KEY,
            host=bridge("(index .IPAM.Config 0).Gateway"),
            port=server.server_port,
            peer=docker("inspect", "-f", "{{.NetworkSettings.IPAddress}}", peer),
            decoy=DECOY,
        )
        yield World(folder, box, store, tasks, listing(prey), prey)
    finally:
        docker("rm", "--force", peer)
        server.shutdown()
        server.server_close()


def bridge(field: str) -> str:
    """A fact about the bridge that the boxes are on."""
    return docker("network", "inspect", "bridge", "-f", "{{" + field + "}}")


def decoy_server() -> ThreadingHTTPServer:
    """A service of the host that is no business of a box, on every address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(DECOY.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


# --- Runs


def climber(world: World, rollouts: int) -> Agent:
    """The agent that tries everything, in so many rollouts that live at the same time."""
    lines = [f"cat >reach.py <<'SCRIPT'\n{SCRIPT}SCRIPT", *(a.command for a in world.attempts)]
    return scripted(lambda prompt: lines, lambda prompt, outputs: "FORECAST: 1", Barrier(rollouts))


def evaluated(
    world: World, name: str, agent: Agent, taskset: str, *runtime: str, tasks: int = 2
) -> Run:
    """Run `vf-eval` with an agent on the first tasks, and read what came of it."""
    folder = world.folder / name
    folder.mkdir()
    with PolicyServer(agent) as server:
        config = eval_config(
            folder, server.base_url, world.store,
            num_rollouts="1", max_concurrent="4", harness="bash", taskset=taskset,
        )  # fmt: skip
        run(
            folder, "vf-eval", "@", config, "-n", tasks, "--no-rich", *runtime,
            NOWCAST_ALFRED_STORE=world.store, CANNED_API_KEY=KEY,
        )  # fmt: skip
    rollouts = {rollout.task["data"]["as_of"]: rollout for rollout in read_run(only_run(folder))}
    assert [rollout.errors for rollout in rollouts.values() if not rollout.ok] == []
    assert len(rollouts) == tasks
    return Run(rollouts, printed_by(only_run(folder)))


def printed_by(folder: Path) -> dict[str, list[str]]:
    """What the commands of each rollout printed, in order, by as-of date."""
    found = {}
    for line in (folder / "traces.jsonl").read_text().splitlines():
        for trace in json.loads(line)["traces"]:
            messages = [node["message"] for node in trace["nodes"]]
            said = [message["content"] for message in messages if message["role"] == "tool"]
            found[trace["task"]["data"]["as_of"]] = said
    return found


def boxed(world: World) -> list[str]:
    return ["--env.agent.runtime.type", "docker", "--env.agent.runtime.image", world.image]


@pytest.fixture(scope="module")
def closed(world: World) -> Run:
    """Two rollouts in closed boxes."""
    return evaluated(world, "closed", climber(world, 2), "closed_egress = true", *boxed(world))


@pytest.fixture(scope="module")
def opened_box(world: World) -> Run:
    """Two rollouts in the same image, with egress open."""
    return evaluated(world, "open", climber(world, 2), "closed_egress = false", *boxed(world))


@pytest.fixture(scope="module")
def on_host(world: World) -> Run:
    """Two rollouts on the subprocess runtime; what searches a whole disk is left out."""
    small = [a for a in world.attempts if a.control != "planted"]
    host = World(world.folder, world.image, world.store, world.tasks, small, world.prey)
    found = evaluated(host, "host", climber(host, 2), "closed_egress = false")
    at = [0, *(1 + world.attempts.index(attempt) for attempt in small)]
    spread = {
        as_of: [said[at.index(i)] if i in at else "" for i in range(1 + len(world.attempts))]
        for as_of, said in found.outputs.items()
    }
    return Run(found.rollouts, spread)


def output(world: World, run: Run, attempt: Attempt, rollout: int = 0) -> str:
    """What an attempt printed in the rollout of the earlier (0) or the later (1) as-of date."""
    return run.outputs[world.tasks[rollout].as_of][1 + world.attempts.index(attempt)]


def named(world: World, name: str) -> Attempt:
    (found,) = [attempt for attempt in world.attempts if attempt.name == name]
    return found


def control(world: World, closed: Run, opened_box: Run, on_host: Run, attempt: Attempt) -> str:
    """What the control of an attempt printed; nothing where it has none."""
    if attempt.control == "planted":
        place = f"echo {world.prey.outcome} >/tmp/planted; {attempt.command}"
        planted = f"PLANTED={world.prey.outcome}"
        line = ["run", "--rm", "--env", planted, "--entrypoint", "bash", world.image, "-c", place]
        return docker(*line)
    if attempt.control == "none":
        return ""
    place, asked = {
        "open": (opened_box, attempt),
        "subprocess": (on_host, attempt),
        "moved": (on_host, named(world, MOVED)),
        "by hand": (closed, named(world, BY_HAND)),
    }[attempt.control]
    return output(world, place, asked)


@dataclass(frozen=True)
class Result:
    """An attempt in the closed box, and its control."""

    attempt: Attempt
    said: str
    won: bool
    control_said: str
    control_won: bool

    @property
    def counts(self) -> bool:
        """Whether the failure proves something."""
        return not self.won and self.control_won


@pytest.fixture(scope="module")
def results(
    world: World, closed: Run, opened_box: Run, on_host: Run, printed: list[str]
) -> list[Result]:
    """Every attempt with its control, kept as JSON and printed when the tests have ended."""
    found = []
    for attempt in world.attempts:
        if attempt.name == BY_HAND:
            continue
        said = output(world, closed, attempt)
        shown = control(world, closed, opened_box, on_host, attempt)
        worked = attempt.control != "none" and attempt.works(shown)
        found.append(Result(attempt, said, attempt.works(said), shown, worked))
    log = world.folder / "attempts.json"
    log.write_text(json.dumps([record(result) for result in found], indent=1) + "\n")
    printed += ["", f"What the boxed agent tried (all outputs: {log}):", *map(line, found)]
    return found


def record(result: Result) -> dict[str, object]:
    return {
        "attempt": result.attempt.name,
        "command": result.attempt.command,
        "closed box": "SUCCEEDED" if result.won else "failed",
        "control": result.attempt.control,
        "control succeeded": result.control_won,
        "counts as proof": result.counts,
        "said": result.said[:2000],
        "control said": result.control_said[:2000],
    }


def line(result: Result) -> str:
    verdict = "SUCCEEDED" if result.won else "failed"
    worked = "succeeded" if result.control_won else "no control"
    return f"  {verdict:9} | {result.attempt.control:10} {worked:10} | {result.attempt.name}"


# --- What holds


def test_every_attempt_fails_in_the_closed_box(
    world: World, closed: Run, results: list[Result]
) -> None:
    assert [result.attempt.name for result in results if result.won] == []
    # What the earlier rollout asks for is known to the later one: its tools may tell it.
    late = [
        attempt.name
        for attempt in world.attempts
        if attempt.name not in (BY_HAND, MOVED)
        and attempt.control != "moved"
        and attempt.works(output(world, closed, attempt, 1))
    ]
    assert late == []


def test_every_script_came_to_its_end(world: World, closed: Run) -> None:
    """One that broke off would look like one that was kept out."""
    for attempt in world.attempts:
        if attempt.command.startswith(PYTHON):
            for rollout in (0, 1):
                said = output(world, closed, attempt, rollout)
                assert said.splitlines()[-1] == DONE, (attempt.name, said[-500:])


def test_every_attempt_has_a_control_that_succeeds(results: list[Result]) -> None:
    excused = [r for r in results if r.attempt.internet or r.attempt.control == "none"]
    missing = [r for r in results if not r.control_won and r not in excused]
    assert [(r.attempt.name, r.attempt.control, r.control_said[-300:]) for r in missing] == []


def test_the_host_is_open_on_the_subprocess_runtime(world: World, on_host: Run) -> None:
    """So a harness that runs code must not be trained on it."""
    works = [a.name for a in world.attempts if a.works(output(world, on_host, a))]
    assert set(works) >= {a.name for a in world.attempts if a.control == "subprocess"}
    assert world.prey.outcome in output(world, on_host, named(world, MOVED))


def test_a_tool_called_by_hand_answers_for_the_day_of_its_rollout(
    world: World, closed: Run
) -> None:
    for rollout, task in enumerate(world.tasks):
        view = opened(world.store, task.store).view(task.as_of)
        newest = number(float(view.observations(task.series_id).value[-1]))
        said = output(world, closed, named(world, BY_HAND), rollout)
        assert said.splitlines()[-2].endswith(f",{newest}")


def test_a_call_without_state_coordinates_is_refused_wherever_it_comes_from(
    world: World, closed: Run, opened_box: Run, on_host: Run
) -> None:
    for place in (closed, opened_box, on_host):
        said = output(world, place, named(world, "tools: no state coordinates"))
        assert said.splitlines() == [REFUSED, DONE]


def test_all_rollouts_score(closed: Run, opened_box: Run, on_host: Run) -> None:
    for place in (closed, opened_box, on_host):
        for rollout in place.rollouts.values():
            assert rollout.rewards["beats_baseline"] == -1.0
            assert rollout.metrics["parsed"] == 1.0
            assert rollout.metrics["leak_attempts"] >= 15.0


# --- Staged files


@pytest.fixture(scope="module")
def staged(world: World) -> Run:
    """In closed boxes with staged files: the earlier task is fitted, the later tampered with."""

    def commands(prompt: str) -> list[str]:
        if world.tasks[0].as_of in prompt:
            return [f"cat >fit.py <<'FIT'\n{FIT}FIT\npython3 fit.py {world.prey.series}"]
        tamper = "for f in catalog/*; do printf 'date,value\\n2001-01-01,1\\n' >$f; done; cat $f"
        return [f"{tamper}; rm -r catalog; ls"]

    def closing(prompt: str, outputs: list[str]) -> str:
        fitted = outputs[-1].partition("FITTED")[2].split()
        return f"FORECAST: {float(fitted[0]):.2f}" if fitted else "FORECAST: 250000"

    context = 'closed_egress = true\ncontext = "files"'
    return evaluated(world, "staged", scripted(commands, closing), context, *boxed(world))


def test_an_honest_agent_fits_a_model_in_the_box_and_earns_by_it(world: World, staged: Run) -> None:
    task, y = world.tasks[0], world.truth
    rollout = staged.rollouts[task.as_of]
    forecast = rollout.nowcast["forecast"]
    known = opened(world.store, task.store).view(task.as_of).observations(task.series_id).value
    assert forecast == pytest.approx(least_squares(known.tolist()), abs=0.006)
    gain = (abs(task.baseline - y) - abs(forecast - y)) / task.scale
    assert rollout.reward == pytest.approx(min(max(gain, -1.0), 1.0), abs=1e-12)
    assert math.isfinite(rollout.reward)
    assert rollout.metrics["leak_attempts"] == 0.0


def least_squares(y: list[float]) -> float:
    """The forecast of a regression on two lags."""
    import numpy as np

    lags = np.column_stack([np.ones(len(y) - 2), y[1:-1], y[:-2]])
    beta = np.linalg.lstsq(lags, np.array(y[2:]), rcond=None)[0]
    return float(beta @ [1.0, y[-1], y[-2]])


def test_what_an_agent_does_to_its_files_changes_no_score(world: World, staged: Run) -> None:
    task = world.tasks[1]
    rollout = staged.rollouts[task.as_of]
    (said,) = staged.outputs[task.as_of]
    assert "2001-01-01,1" in said
    y = outcome(task, world.store).first
    gain = (abs(task.baseline - y) - abs(250_000 - y)) / task.scale
    assert rollout.nowcast["first"] == y
    assert rollout.reward == pytest.approx(min(max(gain, -1.0), 1.0), abs=1e-12)


def test_no_box_is_left_behind(closed: Run, opened_box: Run, staged: Run) -> None:
    assert docker("ps", "--all", "--quiet", "--filter", "name=^vf-") == ""
