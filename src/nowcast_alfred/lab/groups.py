"""Statistics of values that come in groups: rollouts by their task, tasks by month of release.

What shares a group is no independent observation. An error of a mean therefore comes from the
groups, and a share is judged as if a group were one observation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Groups = Mapping[str, Sequence[float]]
"""The values of each group, by the group's name."""

Z95 = 1.959963984540054
"""The 97.5 % quantile of the standard normal."""
TIE = 1e-9
"""Rewards nearer than this are equal."""


@dataclass(frozen=True)
class Components:
    """Variance within and between groups; None where the groups cannot show it."""

    within: float | None
    between: float | None
    icc: float | None


def gather(names: Iterable[str], values: Iterable[T]) -> dict[str, list[T]]:
    """The values of each group, from the group's name beside each value.

    >>> gather(["a", "b", "a"], [1.0, 2.0, 3.0])
    {'a': [1.0, 3.0], 'b': [2.0]}
    """
    groups: dict[str, list[T]] = {}
    for name, value in zip(names, values, strict=True):
        groups.setdefault(name, []).append(value)
    return groups


def is_tied(rewards: Sequence[float]) -> bool:
    """Whether the rewards of a group are all equal, so that it holds nothing to learn.

    >>> is_tied([0.3, 0.3, 0.3])
    True
    """
    return max(rewards) - min(rewards) <= TIE


def mean(values: Sequence[float]) -> float | None:
    """The mean; None of nothing.

    >>> mean([1.0, 2.0])
    1.5
    """
    return math.fsum(values) / len(values) if values else None


def components(groups: Groups) -> Components:
    """One-way ANOVA with random effects, for groups of any sizes.

    `within` is the mean square inside groups; `between` is (mean square of group means - within) /
    n0, at least 0, with n0 = (N - sum n_i^2 / N) / (k - 1), the groups' effective size; `icc` is
    between / (between + within), and None where nothing varies.

    >>> components({"a": [1.0, 3.0], "b": [5.0, 7.0]})
    Components(within=2.0, between=7.0, icc=0.7777777777777778)
    """
    held = [group for group in groups.values() if group]
    k, n = len(held), sum(map(len, held))
    if n <= k:
        return Components(None, None, None)
    centres = [math.fsum(group) / len(group) for group in held]
    inside = math.fsum((x - c) ** 2 for group, c in zip(held, centres, strict=True) for x in group)
    within = inside / (n - k)
    if k < 2:
        return Components(within, None, None)
    grand = math.fsum(x for group in held for x in group) / n
    spread = math.fsum(
        len(group) * (c - grand) ** 2 for group, c in zip(held, centres, strict=True)
    )
    size = (n - math.fsum(len(group) ** 2 for group in held) / n) / (k - 1)
    between = max(0.0, (spread / (k - 1) - within) / size)
    total = between + within
    return Components(within, between, between / total if total > 0 else None)


def standard_error(groups: Groups) -> float | None:
    """Standard error of the mean over all values, from the sums of the groups' deviations; None
    with fewer than two groups. With groups of one it is the usual s / sqrt(n).

    >>> standard_error({"a": [1.0], "b": [3.0]})
    1.0
    """
    held = [group for group in groups.values() if group]
    if len(held) < 2:
        return None
    n = sum(map(len, held))
    grand = math.fsum(x for group in held for x in group) / n
    sums = [math.fsum(x - grand for x in group) for group in held]
    return math.sqrt(len(held) / (len(held) - 1) * math.fsum(s * s for s in sums)) / n


def share_interval(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share seen in n observations; not empty at 0 and at 1.

    >>> [round(end, 3) for end in share_interval(1.0, 16)]
    [0.806, 1.0]
    """
    z = Z95 * Z95 / n
    centre = (share + z / 2) / (1 + z)
    half = math.sqrt(z * share * (1 - share) + z * z / 4) / (1 + z)
    return max(0.0, centre - half), min(1.0, centre + half)
