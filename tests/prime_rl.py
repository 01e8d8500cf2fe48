"""How prime-rl reads tasksets and resumes, in few lines, for tests.

From its orchestrator (`envs.py`, `train_source.py`, `curriculum/samplers/standard.py`): sources
are mixed by `random.Random(42).choices(weights=ratio)`; an infinite taskset is iterated and its
pulls are counted; a checkpoint holds the generator's state and the counts; a resume calls `next`
as often again, from zero. A dispatched task is its `model_dump(mode="json")` over msgpack; the env
server validates it into the taskset's data type, and key and hash of its trace must be those sent.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import random
import sys
from pathlib import Path
from typing import Any

import msgpack
import verifiers.v1 as vf

Settings = dict[str, dict[str, Any]]
"""Source name -> `ratio` and the taskset's settings."""


class TrainSource:
    """Several sources of tasks, with a position that can be saved and found again."""

    def __init__(self, sources: Settings) -> None:
        self.rng = random.Random(42)
        self.ratio = {name: one["ratio"] for name, one in sources.items()}
        self.tasksets, self.cursors = {}, dict.fromkeys(sources, 0)
        for name, one in sources.items():
            config = vf.resolve_env_config({"taskset": {"id": "nowcast-alfred", **one["taskset"]}})
            self.tasksets[name] = vf.load_taskset(config.taskset)
        self.iterators = {name: iter(taskset) for name, taskset in self.tasksets.items()}

    def next_task(self) -> tuple[str, vf.Task]:
        (name,) = self.rng.choices(list(self.ratio), weights=list(self.ratio.values()))
        task = next(self.iterators[name])
        self.cursors[name] += 1
        return name, task

    def state_dict(self) -> dict[str, Any]:
        return {"rng": self.rng.getstate(), "cursors": dict(self.cursors)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rng.setstate(state["rng"])
        for name, cursor in state["cursors"].items():
            for _ in range(cursor):
                next(self.iterators[name])
            self.cursors[name] = cursor

    def dispatch(self) -> str:
        """Source, key and hash of the next task, as they come back over the wire."""
        name, task = self.next_task()
        back = over_the_wire(self.tasksets[name], task)
        assert (back.key, back.hash) == (task.key, task.hash)
        return f"{name} {back.key} {back.hash}"


def over_the_wire(taskset: vf.Taskset, task: vf.Task) -> vf.Task:
    """The task that an env server builds from what the dispatcher sends."""
    sent = msgpack.packb(task.data.model_dump(mode="json"), use_bin_type=True)
    kind = type(taskset).task_type()
    data = kind.data_type().model_validate(msgpack.unpackb(sent, raw=False))
    return kind(data, taskset.config.task)


def resident() -> int:
    """Resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def begin(sources: Settings, folder: str, marks: list[int], count: int) -> None:
    """Run until killed: save the position after `marks` pulls (ascending) and print, as JSON, the
    `count` tasks dispatched from there on."""
    source, shown = TrainSource(sources), {mark: [] for mark in marks}
    for pulled in itertools.count():
        if pulled in shown:
            Path(folder, str(pulled)).write_bytes(pickle.dumps(source.state_dict()))
        wanted = [lines for mark, lines in shown.items() if mark <= pulled < mark + count]
        if wanted:
            line = source.dispatch()
            for lines in wanted:
                lines.append(line)
        else:
            source.next_task()
        if pulled == max(marks) + count:
            print(json.dumps(shown), flush=True)


def resume(sources: Settings, folder: str, marks: list[int], count: int) -> None:
    """Print, as JSON, the next `count` tasks from each saved position, found again from zero, and
    the most memory that finding one took."""
    shown, grown = {}, 0
    for mark in marks:
        source = TrainSource(sources)
        before = resident()
        source.load_state_dict(pickle.loads(Path(folder, str(mark)).read_bytes()))
        grown = max(grown, resident() - before)
        shown[mark] = [source.dispatch() for _ in range(count)]
    print(json.dumps({"tasks": shown, "grown": grown}))


if __name__ == "__main__":
    {"begin": begin, "resume": resume}[sys.argv[1]](*map(json.loads, sys.argv[2:]))
