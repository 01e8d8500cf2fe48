"""Running verifiers' own commands as a user does, and reading what they leave behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


def environment(**extra: str) -> dict[str, str]:
    """The environment of a command: this Python's commands (and uv) on PATH, a dummy key."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "CANNED_API_KEY": "none", "STUB_API_KEY": "none", **extra}


def run(folder: Path, command: str, *arguments: object, **extra: str) -> str:
    """Run a command in a folder; its output. The test fails if the status is not 0."""
    line = [str(BIN / command), *map(str, arguments)]
    done = subprocess.run(
        line, cwd=folder, env=environment(**extra), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def only_run(folder: Path) -> Path:
    """The one run directory under `outputs`."""
    (found,) = [path for path in (folder / "outputs").iterdir() if path.is_dir()]
    return found


def validate(folder: Path, *arguments: object) -> dict[str, Any]:
    """`vf-validate nowcast-alfred` on the subprocess runtime; its summary."""
    fixed = ["--runtime.type", "subprocess", "--taskset.closed-egress", "False", "--no-rich"]
    run(folder, "vf-validate", "nowcast-alfred", *fixed, *arguments)
    summary: dict[str, Any] = json.loads((only_run(folder) / "summary.json").read_text())
    return summary


def eval_config(folder: Path, url: str, store: str, **settings: str) -> Path:
    """A TOML for `vf-eval` against a canned policy. Tables are given as text by keyword."""
    taskset = settings.pop("taskset", "closed_egress = false")
    harness = settings.pop("harness", "null")
    tail = settings.pop("tables", "")
    top = "\n".join(f"{name} = {value}" for name, value in settings.items())
    path = folder / "eval.toml"
    path.write_text(
        f"""
model = "canned/policy"
push = false
{top}

[run]
name = "run"

[client]
base_url = "{url}"
api_key_var = "CANNED_API_KEY"

[env.taskset]
id = "nowcast-alfred"
store = "{store}"
{taskset}

[env.agent.harness]
id = "{harness}"

[env.agent.runtime]
type = "subprocess"

{tail}
"""
    )
    return path
