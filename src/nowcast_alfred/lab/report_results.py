"""What runs earned and how near they came: rewards, errors against the baseline, calibration.

Everything is of the scored rollouts.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from .. import answers
from . import report_svg as svg
from .backtest import HORIZON_ENDS, HORIZONS
from .groups import mean
from .report_page import Cell, details, figure, figures, paragraph, table
from .report_parts import (
    MOST,
    Run,
    distance,
    each,
    error_of,
    errors_of,
    of,
    percent,
    plus_minus,
    reward_error,
    rounded,
)
from .traces import Rollout

MOST_GROUPS = 40
"""Most series, or years, in a picture."""
POINTS = 2000
"""Most points of a scatter; of more, every n-th is drawn."""
FARTHEST = 5.0
"""Where the axes of the scatter end, in scales, at the latest."""
BINS = 20
CLOSE = 1e-5
"""Errors that differ by less, in scales, are as near."""
ENDS = (0.1, 0.9)
"""The quantiles that an 80 % interval states."""
WIDEST = 100.0
"""Rewards beyond are at the edge of a picture."""


# --- Rewards


def rewards(runs: Sequence[Run]) -> str:
    """The distribution of the rewards of each run, over one axis."""
    low, high = svg.limits_of([r.reward for run in runs for r in run.scored], WIDEST)

    def draw(i: int, run: Run) -> str:
        drawn = svg.columns(
            f"Distribution of rewards{of(run, runs)}",
            svg.histogram([rollout.reward for rollout in run.scored], low, high, BINS),
            svg.bin_names(low, high, BINS),
            "reward",
            colour=i,
        )
        said = plus_minus(run.facts.reward, reward_error(run.scored))
        return figure(drawn, f"{run.name}: {len(run.scored):,} rollouts, mean {said}.")

    return each(runs, draw)


Groups = dict[str, list[Rollout]]
"""The scored rollouts of a run, by the name of a group."""


def by_group(runs: Sequence[Run]) -> str:
    """The rewards by series, by horizon and by year, as pictures and as tables to open."""
    ways: list[tuple[str, str, Callable[[Rollout], str]]] = [
        ("series", "series", lambda r: str(r.nowcast["series_id"])),
        ("horizon", "horizon, days from as-of to release", _horizon),
        ("year", "year of the reference period", lambda r: str(r.nowcast["reference_period"])[:4]),
    ]
    pictures, tables = [], []
    for kind, title, key_of in ways:
        found = [_grouped(run, key_of) for run in runs]
        names = sorted({name for groups in found for name in groups}, key=_in_order)
        pictures.append(_picture(title, names, found))
        tables.append(details(f"Table by {kind}", _table(kind, names, runs, found)))
    said = "Dots are means, lines reach from the 10 to the 90 % quantile of the rollouts' rewards."
    return paragraph(said) + figures(pictures) + "".join(tables)


def _horizon(rollout: Rollout) -> str:
    return HORIZONS[bisect.bisect_left(HORIZON_ENDS, rollout.task["data"]["horizon_days"])]


def _in_order(name: str) -> tuple[int, str]:
    """Horizons from short to long, all else by name."""
    return HORIZONS.index(name) if name in HORIZONS else 0, name


def _grouped(run: Run, key_of: Callable[[Rollout], str]) -> Groups:
    groups: Groups = {}
    for rollout in run.scored:
        groups.setdefault(key_of(rollout), []).append(rollout)
    return groups


def _picture(title: str, names: Sequence[str], found: Sequence[Groups]) -> str:
    """Means and ranges of the groups with the most rollouts, a colour for each run."""
    sizes = {name: sum(len(groups.get(name, ())) for groups in found) for name in names}
    kept = set(sorted(names, key=lambda name: -sizes[name])[:MOST_GROUPS])
    rows = [
        (name, [_range(groups.get(name)) for groups in found]) for name in names if name in kept
    ]
    ends = [end for _, marks in rows for one in marks for end in one or ()]
    low, high = svg.limits_of(ends, WIDEST)
    drawn = svg.ranges(f"Rewards by {title}", rows, "reward", 0.0, (min(low, 0.0), max(high, 0.0)))
    left = len(names) - len(rows)
    return figure(
        drawn, f"By {title}." + (f" {left} with fewer rollouts are left out." if left else "")
    )


def _table(kind: str, names: Sequence[str], runs: Sequence[Run], found: Sequence[Groups]) -> str:
    columns = (kind, "run", "rollouts", "tasks", "mean reward", "standard error", "mean |error|")
    rows = [
        (
            name,
            run.name,
            len(group),
            len({rollout.group for rollout in group}),
            rounded(mean([rollout.reward for rollout in group])),
            rounded(reward_error(group)),
            mean(errors_of(group)),
        )
        for name in names
        for run, groups in zip(runs, found, strict=True)
        if (group := groups.get(name))
    ]
    return table(columns, rows)


def _range(group: Sequence[Rollout] | None) -> svg.Range | None:
    if not group:
        return None
    rewards = [rollout.reward for rollout in group]
    low, high = np.quantile(rewards, (0.1, 0.9)).tolist()
    return low, math.fsum(rewards) / len(rewards), high


# --- Errors


def errors(runs: Sequence[Run]) -> str:
    """Errors of forecasts against those of the baseline: a table, and a picture for each run."""
    pairs = [_pairs(run) for run in runs]
    if not any(pairs):
        return paragraph("No reply held a forecast.")
    ends = [x for held in pairs for pair in held for x in pair]
    limit = min(max(1.0, math.ceil(2 * np.quantile(ends, 0.95)) / 2), FARTHEST)

    def draw(i: int, run: Run) -> str:
        every = math.ceil(len(pairs[i]) / POINTS) or 1
        points = pairs[i][::every]
        drawn = svg.scatter(
            f"Error of the forecast against error of the baseline{of(run, runs)}",
            points,
            limit,
            ("|baseline - first release|, scales", "|forecast - first release|, scales"),
            i,
        )
        beyond = sum(max(pair) > limit for pair in points)
        parts = [f"{run.name}: below the line the forecast is nearer than the baseline."]
        if every > 1:
            parts.append(f"One rollout in {every} is drawn.")
        if beyond:
            parts.append(f"{beyond} beyond {limit:g} scales are at the edge.")
        return figure(drawn, " ".join(parts))

    columns = (
        "run", "forecasts", "mean |forecast error|", "mean |baseline error|", "ratio",
        "nearer than the baseline", "as near", "farther",
    )  # fmt: skip
    rows = [_against(run, held) for run, held in zip(runs, pairs, strict=True)]
    note = "Rollouts with a forecast. The ratio of the means is below 1 where forecasts are better."
    return table(columns, rows, note) + each(runs, draw)


def _pairs(run: Run) -> list[tuple[float, float]]:
    """Errors of baseline and forecast, of every reply with a forecast."""
    answered = [rollout for rollout in run.scored if rollout.nowcast["forecast"] is not None]
    return [(distance(r, r.nowcast["baseline"]), error_of(r)) for r in answered]


def _against(run: Run, pairs: Sequence[tuple[float, float]]) -> tuple[Cell, ...]:
    tasks = len({r.group for r in run.scored if r.nowcast["forecast"] is not None})
    forecast, naive = mean([b for _, b in pairs]), mean([a for a, _ in pairs])
    ratio = forecast / naive if forecast is not None and naive else None
    # Replies round: a copy of the baseline is not the baseline to the last digit.
    nearer = mean([float(b < a - CLOSE) for a, b in pairs])
    near = mean([float(abs(b - a) <= CLOSE) for a, b in pairs])
    farther = mean([float(b > a + CLOSE) for a, b in pairs])
    return (
        run.name, len(pairs), forecast, naive, ratio,
        percent(nearer, tasks), percent(near), percent(farther),
    )  # fmt: skip


# --- Calibration


def calibration(runs: Sequence[Run]) -> str:
    """The section, empty where no run elicited more than a point."""
    found = [(i, run, _quantiles(run)) for i, run in enumerate(runs)]
    found = [held for held in found if held[2]]
    if not found:
        return ""
    rows, pictures = [], []
    for i, run, held in found:
        inside = [float(q[0] <= y <= q[-1]) for y, _, q, _ in held]
        tasks = len({group for *_, group in held})
        widths = [min((q[-1] - q[0]) / scale, MOST) for _, scale, q, _ in held]
        rows.append((run.name, len(held), percent(mean(inside), tasks), mean(widths)))
        levels = answers.LEVELS if len(held[0][2]) == len(answers.LEVELS) else ENDS
        expected = [b - a for a, b in pairwise((0.0, *levels, 1.0))]
        names = [f"{100 * level:g}" for level in (0.0, *levels, 1.0)]
        drawn = svg.columns(
            f"Where the outcomes fall between the quantiles{of(run, runs)}",
            pit([(y, q) for y, _, q, _ in held], len(levels)),
            [(k + 0.5, f"{a}-{b}") for k, (a, b) in enumerate(pairwise(names))],
            "where the first release fell, %",
            expected,
            i,
        )
        text = f"{run.name}: shares of the first releases; the lines are a calibrated forecast's."
        pictures.append(figure(drawn, text))
    columns = ("run", "replies", "80 % interval holds the outcome", "mean width, scales")
    return table(columns, rows, "The interval is calibrated at 80 %.") + figures(pictures)


Held = tuple[float, float, list[float], str]
"""First release, scale, quantiles (of an interval its ends), and the task."""


def _quantiles(run: Run) -> list[Held]:
    found = []
    for rollout in run.scored:
        held = rollout.nowcast
        if held["quantiles"]:
            values = [float(held["quantiles"][name]) for name in answers.NAMES]
        elif held["interval"]:
            values = [float(end) for end in held["interval"]]
        else:
            continue
        found.append((float(held["first"]), float(held["scale"]), values, rollout.group))
    return found


def pit(held: Sequence[tuple[float, Sequence[float]]], count: int) -> list[float]:
    """Shares of outcomes in the `count + 1` bins between ordered quantiles.

    An outcome on a quantile, as rounded numbers often are, is shared by the bins it touches.

    >>> pit([(0.5, [1.0, 2.0]), (2.0, [1.0, 2.0])], 2)
    [0.5, 0.25, 0.25]
    """
    found = [0.0] * (count + 1)
    for y, values in held:
        first, last = bisect.bisect_left(values, y), bisect.bisect_right(values, y)
        for at in range(first, last + 1):
            found[at] += 1.0 / (last + 1 - first)
    return [share / len(held) for share in found]
