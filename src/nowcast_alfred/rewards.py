"""What a rollout is scored by: rewards of which TOML chooses, and metrics recorded beside them.

`Scored` carries the decorated methods of the task. `beats_baseline` weighs 1, the other rewards 0:
computed and recorded, not trained on, until `[env.taskset.task.rewards]` gives them a weight. Each
is an affine map of a score that is proper for what it elicits, with one wide clip on the bad side
(a seat belt, at `MOST` scales) and a floor for replies without an answer that lies below every
answer's reward. `direction`, `hit` and `format` are diagnostics. Under group-mean advantages (GRPO)
anything that is the same for a whole group cancels, so what trains is the loss's shape in the
forecast, the scale, and the clips.

A metric is only recorded, because the policy must not be pushed toward it (the latest vintage,
which nobody could know, or the way it worked). Every number comes from the reply and from the
record that `finalize` wrote to `trace.info["nowcast"]` when the agent had ended, so that a saved
trace can be scored again without a store. Nothing here returns NaN, infinity or None: where an
outcome, a baseline or a scale is no finite number, or a scale is not above 0 (`scoring.usable`), a
reward that uses it is at its floor, and `beyond` is 1.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import verifiers.v1 as vf

from . import answers, attempts, scoring
from .data import NowcastData, NowcastTaskConfig, NowcastTrace
from .locate import opened, store_uri
from .opaque import read_reply
from .store import Outcome

INFO = "nowcast"
MOST = 10.0
"""Losses beyond so many scales are not told apart."""
BAND = 0.05
"""Dead band of `direction`, in scales."""
LEAST_SPREAD = 0.05
"""Smallest standard deviation that `log_score` believes, in scales."""
HIT = 0.5
"""What counts as a hit, in scales."""

NEEDS: dict[str, tuple[answers.Elicit, ...]] = {
    "interval_score": ("interval", "quantiles"),
    "crps_normal": ("interval",),
    "log_score": ("interval",),
    "pinball": ("quantiles",),
}
"""Rewards that a point cannot feed, and the elicitations that can."""


def outcome(task: NowcastData, store: str | None = None) -> Outcome:
    """The outcome of a task, read from the version of the store it was drawn from.

    For plug-ins: `outcome(task).first` is the first release. Inside a reward,
    `trace.info["nowcast"]["first"]` is the same without a store.

    Parameters
    ----------
    task
        The task's data.
    store
        Where the store is; None for the default one.

    Raises
    ------
    StoreMismatch
        If that store has no version with the task's fingerprint.
    """
    held = opened(store_uri(store), task.store)
    return held.outcome(task.series_id, task.reference_period, task.transform)


class Scored:
    """The rewards and the metrics of a nowcast."""

    config: NowcastTaskConfig

    @vf.reward(weight=1.0)
    async def beats_baseline(self, task: NowcastData, trace: NowcastTrace) -> float:
        """(|baseline - y| - |forecast - y|) / scale, clipped to [-1, 1]; -1 without a forecast.

        y is the first release. Elicits the median while nothing is clipped; flat around an outcome
        that the baseline missed by more than a scale, and -1 is also what a far answer earns. Best
        at forecast = y, where it is min(1, |baseline - y| / scale); copying the baseline earns 0.
        """
        reply = self._reply(task, trace)
        if reply.point is None:
            return scoring.FLOOR
        y = self._result(task, trace)["first"]
        return scoring.beats_baseline(y, reply.point, task.baseline, task.scale)

    @vf.reward(weight=0.0)
    async def scaled_error(self, task: NowcastData, trace: NowcastTrace) -> float:
        """-|forecast - y| / scale, at least -10; -11 without a forecast.

        Elicits the median. Range [-10, 0], best at forecast = y. No baseline in it, so a group's
        advantages are those of the errors themselves.
        """
        return self._negative(self._error(task, trace), MOST)

    @vf.reward(weight=0.0)
    async def unit_error(self, task: NowcastData, trace: NowcastTrace) -> float:
        """`scaled_error` mapped to [0.05, 1]; 0 without a forecast.

        Elicits the median. For algorithms that want rewards in [0, 1] (MaxRL divides by the group
        mean).
        """
        loss = self._error(task, trace)
        return 0.0 if loss is None else 1.0 - 0.95 * min(loss, MOST) / MOST

    @vf.reward(weight=0.0)
    async def squared_error(self, task: NowcastData, trace: NowcastTrace) -> float:
        """-((forecast - y) / scale)^2, at least -100; -101 without a forecast.

        Elicits the mean. Range [-100, 0]; large misses dominate a group's advantages.
        """
        loss = self._error(task, trace)
        return self._negative(None if loss is None else min(loss, MOST) ** 2, MOST**2)

    @vf.reward(weight=0.0)
    async def interval_score(self, task: NowcastData, trace: NowcastTrace) -> dict[str, float]:
        """-(width + 10 x miss) / scale of the 80 % interval, at least -100; -101 without one.

        Elicits the 10 % and 90 % quantiles. Range [-100, 0]. Needs `elicit = "interval"` or
        `"quantiles"`; left out otherwise.
        """
        if self.config.elicit == "point":
            return {}
        low, high = _central(self._reply(task, trace))
        y, loss = self._outcome(task, trace), None
        if y is not None and low is not None and high is not None:
            loss = scoring.interval_score(y, low, high, 0.2) / task.scale
        return {"interval_score": self._negative(loss, 10 * MOST)}

    @vf.reward(weight=0.0)
    async def pinball(self, task: NowcastData, trace: NowcastTrace) -> dict[str, float]:
        """-(weighted interval score) / scale of the five quantiles, at least -10; -11 without.

        Elicits the 10, 25, 50, 75 and 90 % quantiles. Range [-10, 0]. Needs
        `elicit = "quantiles"`; left out otherwise.
        """
        if self.config.elicit != "quantiles":
            return {}
        quantiles = self._reply(task, trace).quantiles
        y, loss = self._outcome(task, trace), None
        if y is not None and quantiles is not None:
            loss = scoring.weighted_interval_score(y, quantiles) / task.scale
        return {"pinball": self._negative(loss, MOST)}

    @vf.reward(weight=0.0)
    async def crps_normal(self, task: NowcastData, trace: NowcastTrace) -> dict[str, float]:
        """-CRPS / scale of the normal around the forecast whose 80 % interval is as wide as the
        reply's, at least -10; -11 without one.

        Elicits centre and spread: those of the outcome's law where it is normal. Range [-10, 0].
        Needs `elicit = "interval"`; left out otherwise.
        """
        if self.config.elicit != "interval":
            return {}
        normal = self._normal(task, trace)
        loss = None if normal is None else scoring.crps_normal(*normal) / task.scale
        return {"crps_normal": self._negative(loss, MOST)}

    @vf.reward(weight=0.0)
    async def log_score(self, task: NowcastData, trace: NowcastTrace) -> dict[str, float]:
        """ln of the density, in units of the scale, of the normal of `crps_normal`, at least -50;
        -51 without one.

        Elicits the mean and the standard deviation; punishes false confidence hard. A spread below
        0.05 scales counts as that: published numbers are rounded, and a spike on a likely one would
        earn without bound. At most 2.08. Needs `elicit = "interval"`; left out otherwise.
        """
        if self.config.elicit != "interval":
            return {}
        normal, loss = self._normal(task, trace), None
        if normal is not None:
            y, mu, sigma = normal
            spread = max(sigma / task.scale, LEAST_SPREAD)
            loss = scoring.log_score((y - mu) / task.scale, 0.0, spread)
        return {"log_score": self._negative(loss, 5 * MOST)}

    @vf.reward(weight=0.0)
    async def direction(self, task: NowcastData, trace: NowcastTrace) -> float:
        """1 on the outcome's side of the baseline, 0 on the other, 0.5 if either is within 0.05
        scales of it; -1 without a forecast.

        Elicits the likelier side, not a number. Ties most of a group.
        """
        point, y = self._reply(task, trace).point, self._outcome(task, trace)
        if point is None or y is None or not math.isfinite(task.baseline):
            return -1.0
        return scoring.direction(y, point, task.baseline, BAND * task.scale)

    @vf.reward(weight=0.0)
    async def hit(self, task: NowcastData, trace: NowcastTrace) -> float:
        """1 within half a scale of the outcome, else 0; -1 without a forecast. A diagnostic.

        Its optimum is the densest interval, not the median; it ties most groups. Not for training.
        """
        loss = self._error(task, trace)
        return -1.0 if loss is None else float(loss <= HIT)

    @vf.reward(weight=0.0)
    async def format(self, task: NowcastData, trace: NowcastTrace) -> float:
        """1 for a well-formed reply, else 0. For a mixture while a model learns the grammar."""
        return float(self._reply(task, trace).ok)

    @vf.metric
    async def parsed(self, task: NowcastData, trace: NowcastTrace) -> float:
        """1 if the reply held a well-formed forecast, else 0."""
        return float(self._reply(task, trace).ok)

    @vf.metric
    async def clipped(self, task: NowcastData, trace: NowcastTrace) -> float:
        """1 if `beats_baseline` was cut at -1 or 1, so that nearby forecasts earn the same."""
        reply, y = self._reply(task, trace), self._result(task, trace)["first"]
        if reply.point is None:
            return 0.0
        return float(scoring.is_clipped(y, reply.point, task.baseline, task.scale))

    @vf.metric
    async def beyond(self, task: NowcastData, trace: NowcastTrace) -> float:
        """1 if the error is beyond 10 scales, where the losses are not told apart any more, or is
        no number."""
        loss = self._error(task, trace)
        near = loss is not None and loss <= MOST and math.isfinite(task.baseline)
        return float(self._reply(task, trace).ok and not near)

    @vf.metric
    async def covered(self, task: NowcastData, trace: NowcastTrace) -> dict[str, float]:
        """1 if the 80 % interval held the outcome, and its width in scales; where elicited."""
        low, high = _central(self._reply(task, trace))
        if low is None or high is None:
            return {}
        y = self._result(task, trace)["first"]
        width = _in_scales(high - low, task.scale)
        return {"covered": float(low <= y <= high), "interval_width": width}

    @vf.metric
    async def abs_error_first(self, task: NowcastData, trace: NowcastTrace) -> dict[str, float]:
        """Distance to the first release, in the target's unit and in scales."""
        reply, y = self._reply(task, trace), self._result(task, trace)["first"]
        if reply.point is None:
            return {}
        error = abs(reply.point - y)
        scaled = _in_scales(error, task.scale)
        return {"abs_error_first": _finite(error), "abs_error_scaled": scaled}

    @vf.metric
    async def abs_error_latest(self, task: NowcastData, trace: NowcastTrace) -> dict[str, float]:
        """Distance to the latest vintage the store knows, in the target's unit."""
        reply, y = self._reply(task, trace), self._result(task, trace)["latest"]
        if reply.point is None or y is None:
            return {}
        return {"abs_error_latest": _finite(abs(reply.point - y))}

    @vf.metric
    async def baseline_error(self, task: NowcastData, trace: NowcastTrace) -> float:
        """Distance of the baseline to the first release, in the target's unit."""
        return _finite(abs(task.baseline - self._result(task, trace)["first"]))

    @vf.metric
    async def lookups(self, task: NowcastData, trace: NowcastTrace) -> float:
        """How many catalog calls the agent made."""
        return float(self._result(task, trace)["lookups"])

    @vf.metric
    async def leak_attempts(self, trace: NowcastTrace) -> float:
        """How many tool calls look like reaching for the answer: the network, the store, the task
        channel, by the rules of `nowcast_alfred.attempts`, which says what they miss."""
        return float(len(attempts.found(trace.assistant_messages)))

    def _reply(self, task: NowcastData, trace: NowcastTrace) -> answers.Reply:
        """The reply in the store's unit, whatever the agent was shown."""
        return read_reply(trace.last_reply, self.config.elicit, task.units, task.shown)

    def _error(self, task: NowcastData, trace: NowcastTrace) -> float | None:
        """The error in scales; None without a forecast or without a usable outcome."""
        point, y = self._reply(task, trace).point, self._outcome(task, trace)
        return None if point is None or y is None else scoring.absolute_error(y, point) / task.scale

    def _outcome(self, task: NowcastData, trace: NowcastTrace) -> float | None:
        """The first release; None where it, or the task's scale, is not `scoring.usable`."""
        y: float = self._result(task, trace)["first"]
        return y if scoring.usable(task.scale, y) else None

    def _normal(self, task: NowcastData, trace: NowcastTrace) -> tuple[float, float, float] | None:
        """Outcome, centre and spread of the reply's normal; None without an interval or a usable
        outcome."""
        reply, y = self._reply(task, trace), self._outcome(task, trace)
        if y is None or reply.point is None or reply.interval is None:
            return None
        low, high = reply.interval
        return y, reply.point, (high - low) / (2.0 * scoring.Z90)

    @staticmethod
    def _negative(loss: float | None, most: float) -> float:
        """-loss, clipped at -most; one less without a loss, or where it is NaN."""
        if loss is None or math.isnan(loss):
            return -most - 1.0
        return -min(loss, most)

    def _result(self, task: NowcastData, trace: NowcastTrace) -> dict[str, Any]:
        """What `finalize` recorded, or the same from the store where it did not run."""
        held: dict[str, Any] | None = trace.info.get(INFO)
        return self.result(task, trace) if held is None else held

    def result(self, task: NowcastData, trace: NowcastTrace) -> dict[str, Any]:
        """Reply, outcome, lookups and rights as JSON values, for `trace.info["nowcast"]`."""
        reply = self._reply(task, trace)
        truth = outcome(task, self.config.store)
        meta = opened(store_uri(self.config.store), task.store).meta(task.series_id)
        quantiles = reply.quantiles or {}
        return {
            "series_id": task.series_id,
            "as_of": task.as_of,
            "reference_period": task.reference_period,
            "transform": task.transform,
            "forecast": reply.point,
            "interval": list(reply.interval) if reply.interval else None,
            "quantiles": {f"p{round(100 * level)}": q for level, q in quantiles.items()} or None,
            "reason": reply.reason,
            "first": truth.first,
            "first_vintage": truth.first_vintage,
            "latest": truth.latest,
            "latest_vintage": truth.latest_vintage,
            "baseline": task.baseline,
            "scale": task.scale,
            "lookups": getattr(trace.state, "lookups", 0),
            "source": meta.source,
            "training": meta.training,
        }


def _finite(x: float) -> float:
    """The number, or the largest there is where it overflows or is none: traces are JSON."""
    return min(x, sys.float_info.max) if not math.isnan(x) else sys.float_info.max


def _in_scales(distance: float, scale: float) -> float:
    """A distance in scales, or the largest number there is where the scale is none."""
    return _finite(distance / scale if scoring.usable(scale) else math.nan)


def _central(reply: answers.Reply) -> tuple[float | None, float | None]:
    """The central 80 % interval of a reply, from an interval or from quantiles."""
    if reply.interval is not None:
        return reply.interval
    if reply.quantiles is not None:
        return reply.quantiles[0.10], reply.quantiles[0.90]
    return None, None
