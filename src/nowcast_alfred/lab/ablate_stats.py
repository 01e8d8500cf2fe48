"""The statistics of the reward lab, as functions of arrays.

`rewards` and `losses` have one row a policy (or a rollout of a group) and one column a task. A loss
is in scales, lower is better, infinite for silence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..periods import Floats
from .groups import gather, standard_error

Bools = npt.NDArray[np.bool_]

MATERIAL = 2.0
"""Standard errors by which one policy must be better than another to be called so."""
TARGET_Z = 2.0
"""How far from zero, in standard errors, the mean advantage is to be."""


def ranks(values: Floats) -> Floats:
    """Ranks from 0, lowest first; equal values share the mean of theirs.

    >>> ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [1.5, 0.0, 1.5]
    """
    less = (values[None, :] < values[:, None]).sum(axis=1)
    same = (values[None, :] == values[:, None]).sum(axis=1)
    found: Floats = less + (same - 1) / 2.0
    return found


def spearman(a: Floats, b: Floats) -> float:
    """Rank correlation; 0 where one side is all equal, and so ranks nothing.

    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 15.0]))
    0.5
    """
    ra, rb = ranks(a) - (len(a) - 1) / 2.0, ranks(b) - (len(b) - 1) / 2.0
    size = math.sqrt(float(ra @ ra) * float(rb @ rb))
    return float(ra @ rb) / size if size else 0.0


def within_task(rewards: Floats, losses: Floats) -> float:
    """Mean over tasks of the rank agreement between reward and -loss inside the group."""
    return float(np.mean([spearman(r, -x) for r, x in zip(rewards.T, losses.T, strict=True)]))


def ties(rewards: Floats, said: npt.NDArray[Any]) -> tuple[float, float]:
    """Share of groups in which replies that differ earn exactly the same: all of them (no
    advantage is left), and at least two of them.

    Parameters
    ----------
    said
        The replies, shape of `rewards`: equal ones earn the same under any reward.
    """
    different = said[:, None, :] != said[None, :, :]
    equal = rewards[:, None, :] == rewards[None, :, :]
    some = (equal & different).any(axis=(0, 1))
    every = equal.all(axis=(0, 1)) & different.any(axis=(0, 1))
    return float(every.mean()), float(some.mean())


def same(rewards: Floats, *others: Floats) -> Bools:
    """Where all the others equal the first, rounding aside."""
    found = np.ones(rewards.shape, dtype=np.bool_)
    for other in others:
        found &= np.isclose(other, rewards, rtol=1e-12, atol=1e-12)
    return found


def signal(better: Floats, worse: Floats) -> tuple[float, int | None]:
    """How clearly groups of two halves tell the better from the worse.

    Returns
    -------
    Mean over tasks of the better half's mean advantage, divided by its standard deviation over
    tasks; and how many groups make their mean two standard errors, None if none ever do.

    >>> signal(np.array([[2.0, 4.0, 6.0]]), np.array([[0.0, 0.0, 0.0]]))
    (2.0, 1)
    """
    advantage = (better.mean(axis=0) - worse.mean(axis=0)) / 2.0
    spread = float(advantage.std(ddof=1)) if len(advantage) > 1 else 0.0
    ratio = float(advantage.mean()) / spread if spread > 0.0 else 0.0
    return ratio, math.ceil((TARGET_Z / ratio) ** 2) if ratio > 0.0 else None


def heavy_share(rewards: Floats, heaviest: float = 0.05) -> float:
    """Share of the absolute advantages of all groups that the heaviest of them hold.

    Parameters
    ----------
    heaviest
        How many groups, as a share; at least one. The same share comes back if all weigh the same,
        and 0 if none weighs anything.
    """
    weights = np.sort(np.abs(rewards - rewards.mean(axis=0)).sum(axis=0))
    count, total = max(1, round(heaviest * len(weights))), float(weights.sum())
    return float(weights[-count:].sum()) / total if total else 0.0


@dataclass(frozen=True)
class Exploit:
    """A policy that earns more than an honest one that is materially better.

    `z` is how much more, in standard errors of the paired difference (`z_of`).
    """

    policy: str
    reward: float
    honest: str
    honest_reward: float
    z: float


def exploits(
    names: Sequence[str],
    honest: Sequence[bool],
    rewards: Floats,
    losses: Floats,
    months: Sequence[str],
) -> list[Exploit]:
    """Every exploit policy that pays, each with the best honest policy that it out-earns.

    An honest policy is materially better if its mean loss is lower by more than two standard
    errors of the paired difference.

    Parameters
    ----------
    months
        When each task's outcome was released.
    """
    found = []
    earned = rewards.mean(axis=1)
    by_quality = sorted(np.flatnonzero(honest).tolist(), key=lambda h: float(losses[h].mean()))
    for e in np.flatnonzero(~np.array(honest)).tolist():
        for h in by_quality:
            if earned[e] > earned[h] and z_of(losses[e], losses[h], months) > MATERIAL:
                pay = float(earned[e]), float(earned[h])
                z = z_of(rewards[e], rewards[h], months)
                found.append(Exploit(names[e], pay[0], names[h], pay[1], z))
                break
    return found


def z_of(a: Floats, b: Floats, months: Sequence[str]) -> float:
    """Mean of a - b in standard errors, paired by task; infinite where it is the same everywhere,
    and 0 of one month.

    The tasks of a month are one observation: outcomes that are released together surprise together,
    and a task may come again on another day.

    >>> z_of(np.array([1.0, 3.0]), np.zeros(2), ["2024-01", "2024-02"])
    2.0
    """
    if np.isinf(a).any():
        return 0.0 if np.isinf(b).any() else math.inf
    gap = a - b
    mean, error = float(gap.mean()), standard_error(gather(months, gap.tolist()))
    if error is None or not mean:
        return 0.0
    return mean / error if error else math.copysign(math.inf, mean)


# --- Best reply

SHIFTS = (-1.0, -0.5, 0.0, 0.5, 1.0)
TOWARD = (-0.5, 0.0, 0.5, 1.0, 1.5)
WIDTHS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
FARTHEST = 3.0
"""Bound of the search, for shift and toward, and for the width as a power of two."""
FIRST_STEP, LAST_STEP = 0.25, 0.01
AROUND = [(a, b, 0) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
WIDER = [(0, 0, -1), (0, 0, 1)]


@dataclass(frozen=True)
class Best:
    """The reply m + shift x scale + toward x (naive - m), as wide as `width` times the honest
    spread."""

    shift: float
    toward: float
    width: float


def best_reply(value: Callable[[Best], float], wide: bool) -> Best:
    """The reply of that family with the highest value: a grid, then steps that halve.

    Of equal ones the nearest to m, as honest as it is: a flat reward moves nobody.

    Parameters
    ----------
    value
        What a reply is worth on average.
    wide
        Whether the width is searched as well; 1 otherwise.
    """
    worth = cache(value)
    grid = [Best(a, b, 1.0) for a in SHIFTS for b in TOWARD]
    best = max([Best(0.0, 0.0, 1.0), *grid], key=worth)
    if wide:
        best = max([best, *(Best(best.shift, best.toward, c) for c in WIDTHS)], key=worth)
    step = FIRST_STEP
    while step >= LAST_STEP:
        near = [
            Best(best.shift + step * a, best.toward + step * b, best.width * 2.0 ** (step * c))
            for a, b, c in (AROUND + WIDER if wide else AROUND)
        ]
        better = max([best, *filter(_within, near)], key=worth)
        if better == best:
            step /= 2.0
        best = better
    return best


def _within(reply: Best) -> bool:
    return max(abs(reply.shift), abs(reply.toward), abs(math.log2(reply.width))) <= FARTHEST
