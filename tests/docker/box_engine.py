"""A Docker engine for the tests: the one that answers, else one started here and stopped again.

Never a second one beside another: two daemons fight over the same bridge, and the rollouts of both
lose their network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PID_FILE = Path("/var/run/docker.pid")
PATIENCE = 60.0
"""Seconds within which a daemon must answer."""


class NoEngine(Exception):
    """Why there is no engine, in words for the one who runs the tests."""


def docker(*arguments: str, stdin: bytes | None = None) -> str:
    """Run the Docker client; its output. What it says on failure is in the error."""
    done = subprocess.run(["docker", *arguments], input=stdin, capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise RuntimeError(f"docker {' '.join(arguments)}: {said}")
    return done.stdout.decode(errors="replace").strip()


def answers() -> bool:
    """Whether an engine answers the client."""
    if shutil.which("docker") is None:
        return False
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def engine(folder: Path) -> Iterator[None]:
    """An engine that answers, for the time of the context.

    Parameters
    ----------
    folder
        Where the log of a daemon started here goes.

    Raises
    ------
    NoEngine
        If none answers and none can be started.
    """
    if answers():
        yield
        return
    log = folder / "dockerd.log"
    daemon = _start(log)
    try:
        deadline = time.monotonic() + PATIENCE
        while not answers():
            if daemon.poll() is not None or time.monotonic() > deadline:
                last = log.read_text(errors="replace").strip().splitlines()[-1:]
                raise NoEngine(f"dockerd did not come up: {''.join(last)[:300]}")
            time.sleep(0.2)
        yield
    finally:
        daemon.terminate()
        daemon.wait(timeout=PATIENCE)


def _start(log: Path) -> subprocess.Popen[bytes]:
    if shutil.which("docker") is None or shutil.which("dockerd") is None:
        raise NoEngine("Docker is not installed (tests/docker/install_engine.sh installs it)")
    if os.geteuid() != 0:
        raise NoEngine("no Docker engine answers, and only root can start one")
    if _runs(PID_FILE):
        raise NoEngine("a dockerd runs but does not answer this user")
    with log.open("wb") as out:
        return subprocess.Popen(["dockerd"], stdout=out, stderr=out)


def _runs(pid_file: Path) -> bool:
    try:
        os.kill(int(pid_file.read_text()), 0)
    except (OSError, ValueError):
        return False
    return True
