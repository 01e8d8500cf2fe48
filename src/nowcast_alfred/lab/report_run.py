"""The report of one or several runs: rewards, errors, calibration, lookups, rollouts to read.

Several runs stand beside each other, one colour each.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ..errors import InputError
from . import report_svg as svg
from .groups import mean
from .report_examples import SHOWN, Message, best_and_worst, conversations, example
from .report_page import COLOURS, Cell, Section, escaped, figure, page, paragraph, shown, table
from .report_parts import (
    Run,
    each,
    errors_of,
    of,
    percent,
    plus_minus,
    read_runs,
    reward_error,
    rounded,
)
from .report_results import by_group, calibration, errors, rewards
from .traces import Rollout

MOST_LOOKUPS = 10
"""So many lookups and more are one column."""


def run_report(folders: Sequence[Path]) -> str:
    """The page of one run, or of several to compare.

    Raises
    ------
    InputError
        If a folder is no run of this taskset, holds nothing that was scored, or there are more
        runs than colours.
    """
    if len(folders) > COLOURS:
        raise InputError(f"{len(folders)} runs; a report compares up to {COLOURS}")
    runs = read_runs(folders)
    read = [conversations(run.folder, _to_read(run)) for run in runs]
    sections = [
        Section("Summary", _summary(runs)),
        Section("Rewards", rewards(runs)),
        Section("Rewards by series, horizon and year", by_group(runs)),
        Section("Error against the baseline", errors(runs)),
        *([Section("Calibration", text)] if (text := calibration(runs)) else []),
        Section("Lookups", _lookups(runs)),
        Section("Refused replies", _refused(runs, read)),
        Section("Best and worst", _examples(runs, read)),
    ]
    lead = _legend(runs) + paragraph(
        "Rewards are as the run weighed them. Errors are distances to the first release in scales, "
        "the unit each task is scored in. This page holds outcomes: keep it from what is trained."
    )
    return page(f"Run {', '.join(run.name for run in runs)}", lead, sections)


def _legend(runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return ""
    names = " ".join(
        f'<span class="t{i}">\u25cf</span> {escaped(run.name)}' for i, run in enumerate(runs)
    )
    return f"<p>{names}</p>\n"


# --- Summary


def _summary(runs: Sequence[Run]) -> str:
    rows: list[tuple[Cell, ...]] = []

    def row(name: str, value: Callable[[Run], Cell]) -> None:
        rows.append((name, *(shown(value(run)) for run in runs)))

    row("model", lambda run: _listed({rollout.model for rollout in run.rollouts}))
    row("store", lambda run: _listed({str(r.task["data"].get("store"))[:12] for r in run.scored}))
    row(
        "rights of its series", lambda run: _listed({r.nowcast.get("training") for r in run.scored})
    )
    row("rollouts", lambda run: run.facts.rollouts)
    row("tasks", lambda run: run.facts.groups)
    row("rollouts a task", lambda run: " to ".join(map(str, sorted(set(run.facts.group_size)))))
    row("weights", lambda run: _listed(f"{w:g} x {n}" for n, w in run.facts.weights.items()))
    row("mean reward", lambda run: plus_minus(run.facts.reward, reward_error(run.scored)))
    row("replies with a forecast", lambda run: percent(run.facts.parsed))
    row("mean |error|, scales", lambda run: mean(errors_of(run.scored)))
    row("median |error|, scales", lambda run: _middle(errors_of(run.scored)))
    row("lookups a rollout", lambda run: run.facts.lookups)
    row("tool calls", lambda run: f"{run.facts.tool_calls:,} ({run.facts.tool_errors:,} in error)")
    row("calls that look like reaching for the answer", _attempts)
    row("tokens a rollout, in", lambda run: mean([float(r.tokens[0]) for r in run.scored]))
    row("tokens a rollout, out", lambda run: mean([float(r.tokens[1]) for r in run.scored]))
    row("truncated", lambda run: percent(run.facts.truncated))
    row("groups with equal rewards", lambda run: percent(run.facts.tied_share))
    row("beats_baseline clipped", lambda run: percent(run.facts.clipped))
    row("stops", lambda run: _counts(run.facts.stops))
    row("failed", lambda run: run.facts.failed)
    row("errors", lambda run: _counts(run.facts.errors))
    said = [
        f"First error{of(run, runs)}: {run.facts.first_error[:400]}"
        for run in runs
        if run.facts.first_error
    ]
    return table(("", *(run.name for run in runs)), rows) + "".join(map(paragraph, said))


def _attempts(run: Run) -> Cell:
    counts = [r.metrics["leak_attempts"] for r in run.scored if "leak_attempts" in r.metrics]
    return int(math.fsum(counts)) if counts else None


def _listed(texts: Iterable[object]) -> str:
    return ", ".join(sorted(str(text) for text in texts if text)) or "-"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in counts.items()) or "-"


def _middle(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


# --- Lookups, refusals, examples


def _lookups(runs: Sequence[Run]) -> str:
    rows: list[tuple[Cell, ...]] = []
    names = [*map(str, range(MOST_LOOKUPS)), f"{MOST_LOOKUPS}+"]

    def draw(i: int, run: Run) -> str:
        groups: list[list[Rollout]] = [[] for _ in names]
        for rollout in run.scored:
            groups[min(int(rollout.metrics.get("lookups", 0)), MOST_LOOKUPS)].append(rollout)
        for name, group in zip(names, groups, strict=True):
            if group:
                reward = rounded(mean([rollout.reward for rollout in group]))
                error = rounded(reward_error(group))
                rows.append((run.name, name, len(group), reward, error))
        drawn = svg.columns(
            f"Lookups a rollout{of(run, runs)}",
            [len(group) / len(run.scored) for group in groups],
            [(at + 0.5, name) for at, name in enumerate(names)],
            "catalog calls of a rollout",
            colour=i,
        )
        return figure(drawn, f"{run.name}: how many calls to the catalog a rollout made.")

    pictures = each(runs, draw)
    columns = ("run", "lookups", "rollouts", "mean reward", "standard error")
    return pictures + table(columns, rows)


Read = Sequence[dict[int, list[Message]]]
"""For each run, the conversations of the rollouts that are shown."""


def _to_read(run: Run) -> set[int]:
    return {place for places in best_and_worst(run.rollouts) for place in places} | set(
        _of_each_reason(run)
    )


def _of_each_reason(run: Run) -> list[int]:
    """The place of the first reply that was refused for each of the commonest reasons."""
    found = []
    for reason in list(run.facts.refusals)[:SHOWN]:
        found += [
            i
            for i, rollout in enumerate(run.rollouts)
            if rollout.ok and str(rollout.nowcast["reason"]).startswith(reason)
        ][:1]
    return found


def _refused(runs: Sequence[Run], read: Read) -> str:
    rows = [
        (run.name, reason, count) for run in runs for reason, count in run.facts.refusals.items()
    ]
    if not rows:
        return paragraph("Every scored reply held a well-formed forecast.")
    blocks = [
        _blocks(f"One for each reason{of(run, runs)}", run, _of_each_reason(run), held)
        for run, held in zip(runs, read, strict=True)
        if run.facts.refusals
    ]
    return table(("run", "why", "replies"), rows) + "".join(blocks)


def _examples(runs: Sequence[Run], read: Read) -> str:
    parts = [paragraph("By reward, then by error; each of another task, replies with a forecast.")]
    for run, held in zip(runs, read, strict=True):
        for name, places in zip(("Best", "Worst"), best_and_worst(run.rollouts), strict=True):
            parts.append(_blocks(name + of(run, runs), run, places, held))
    return "".join(parts)


def _blocks(title: str, run: Run, places: Sequence[int], read: dict[int, list[Message]]) -> str:
    shown_ = "".join(example(run.rollouts[i], read[i]) for i in places)
    return f"<h3>{escaped(title)}</h3>\n{shown_ or paragraph('None.')}"
