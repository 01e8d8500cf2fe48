"""Naive forecasts and scales, computed from what a view knows.

Both take the transformed series as known on the as-of date, oldest first. Sums are exact
(`math.fsum`), so that a task's numbers, and with them its hash, are the same on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

from .periods import Floats

BaselineName = Literal["last_change", "mean_12"]
ScaleName = Literal["std_24"]


def last_change(known: Floats) -> float:
    """The last known value of the target's transform: for `chg`, the last known change.

    >>> import numpy as np
    >>> last_change(np.array([182.0, 216.0]))
    216.0
    """
    return float(known[-1])


def mean_12(known: Floats) -> float:
    """The mean of the last twelve known values (of all, where there are fewer).

    >>> import numpy as np
    >>> mean_12(np.arange(24.0))
    17.5
    """
    recent = known[-12:].tolist()
    return math.fsum(recent) / len(recent)


def std_24(known: Floats) -> float:
    """Population standard deviation (ddof 0) of the last 24 known values; 0 for fewer than two.

    A spread that is rounding and nothing else, below 1e-9 of the largest value, is 0 too.

    >>> import numpy as np
    >>> std_24(np.array([1.0, -1.0]))
    1.0
    """
    recent = known[-24:].tolist()
    if len(recent) < 2:
        return 0.0
    mean = math.fsum(recent) / len(recent)
    spread = math.sqrt(math.fsum((x - mean) * (x - mean) for x in recent) / len(recent))
    return spread if spread > 1e-9 * max(map(abs, recent)) else 0.0


BASELINES: dict[str, Callable[[Floats], float]] = {"last_change": last_change, "mean_12": mean_12}
SCALES: dict[str, Callable[[Floats], float]] = {"std_24": std_24}

assert set(BASELINES) == set(get_args(BaselineName))
assert set(SCALES) == set(get_args(ScaleName))
