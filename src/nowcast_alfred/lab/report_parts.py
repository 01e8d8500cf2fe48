"""What the parts of a run's report share: runs that were read, and how their numbers are said.

The rollouts of a task are no independent observations: errors of means come from the groups, and
the interval of a share counts a task as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .groups import gather, share_interval, standard_error
from .readiness import Facts, facts_of
from .report_page import figures, shown
from .traces import Rollout, read_run

MOST = 1e6
"""Errors beyond so many scales count as that, so that a mean of them can be said."""


@dataclass(frozen=True)
class Run:
    """A run with its name, its facts, and those of its rollouts that were scored."""

    name: str
    folder: Path
    rollouts: list[Rollout]
    scored: list[Rollout]
    facts: Facts


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Runs with names that tell them apart.

    Raises
    ------
    InputError
        If a folder is no run of this taskset, or nothing in it was scored.
    """
    return [_read(folder, name) for folder, name in zip(folders, _names(folders), strict=True)]


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' names, with as much of their paths as tells them apart."""
    parts = [folder.absolute().parts for folder in folders]
    size = 1
    while len({part[-size:] for part in parts}) < len(set(parts)):
        size += 1
    return ["/".join(part[-size:]) for part in parts]


def _read(folder: Path, name: str) -> Run:
    rollouts = read_run(folder)
    try:
        facts = facts_of(rollouts)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    scored = [rollout for rollout in rollouts if rollout.ok]
    if not scored:
        raise InputError(
            f"{folder}: none of its {len(rollouts)} rollouts was scored; the first error is "
            f"{facts.first_error}"
        )
    if any("first" not in rollout.nowcast for rollout in scored):
        raise InputError(f"{folder}: a rollout has no outcome: is this a run of nowcast-alfred?")
    return Run(name, folder, rollouts, scored, facts)


def each(runs: Sequence[Run], draw: Callable[[int, Run], str]) -> str:
    """One figure a run, beside each other."""
    return figures(draw(i, run) for i, run in enumerate(runs))


def of(run: Run, runs: Sequence[Run]) -> str:
    """Whose something is, where there are several runs."""
    return f" of {run.name}" if len(runs) > 1 else ""


def error_of(rollout: Rollout) -> float:
    """|forecast - first release| in scales; infinite without a forecast."""
    forecast = rollout.nowcast["forecast"]
    return math.inf if forecast is None else distance(rollout, forecast)


def distance(rollout: Rollout, value: float) -> float:
    """|value - first release| in scales, at most `MOST`, which is also what no number is."""
    error = abs(value - rollout.nowcast["first"]) / rollout.nowcast["scale"]
    return min(error, MOST) if error == error else MOST


def errors_of(rollouts: Sequence[Rollout]) -> list[float]:
    """The errors of the replies with a forecast."""
    return [error_of(rollout) for rollout in rollouts if rollout.nowcast["forecast"] is not None]


def reward_error(rollouts: Sequence[Rollout]) -> float | None:
    """Standard error of the mean reward; None of one task."""
    return standard_error(gather((r.group for r in rollouts), (r.reward for r in rollouts)))


def percent(share: float | None, tasks: int = 0) -> str:
    """A share; of so many independent tasks, with its 95 % interval."""
    if share is None:
        return "-"
    if not tasks:
        return f"{share:.1%}"
    low, high = share_interval(share, tasks)
    return f"{share:.0%} ({low:.0%} to {high:.0%})"


def plus_minus(value: float | None, error: float | None) -> str:
    """A mean reward with its standard error, in words."""
    said = shown(rounded(value))
    return said if error is None else f"{said} (standard error {shown(rounded(error))})"


def rounded(reward: float | None) -> float | None:
    """Without the digits by which a reply's rounding moves a reward."""
    return None if reward is None else round(reward, 4)
