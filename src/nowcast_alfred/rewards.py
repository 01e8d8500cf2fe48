"""What a rollout is scored by: the reward, and the metrics recorded beside it.

`Scored` carries the decorated methods of the task. The policy is trained on the reward; a metric
is only recorded, because the policy must not be pushed toward it (the latest vintage, which nobody
could know, or the way it worked). Every number comes from the reply and from the record that
`finalize` wrote to `trace.info["nowcast"]` when the agent had ended, so that a saved trace can be
scored again without a store; where it is missing, the store is read. Nothing here returns NaN or
None: a metric that has no value is left out.
"""

from __future__ import annotations

from typing import Any

import verifiers.v1 as vf

from . import answers, scoring
from .data import NowcastData, NowcastTaskConfig, NowcastTrace
from .locate import opened, store_uri
from .store import Outcome

INFO = "nowcast"


def outcome(task: NowcastData, store: str | None = None) -> Outcome:
    """The outcome of a task, read from the version of the store it was drawn from.

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
    """The reward and the metrics of a nowcast."""

    config: NowcastTaskConfig

    @vf.reward(weight=1.0)
    async def beats_baseline(self, task: NowcastData, trace: NowcastTrace) -> float:
        """(|baseline - y| - |forecast - y|) / scale, clipped to [-1, 1]; -1 without a forecast.

        y is the first release. Elicits the median. Range [-1, 1], best at forecast = y, where it
        is min(1, |baseline - y| / scale); copying the baseline earns 0.
        """
        forecast = self._forecast(task, trace)
        if forecast is None:
            return scoring.FLOOR
        return scoring.beats_baseline(
            self._result(task, trace)["first"], forecast, task.baseline, task.scale
        )

    @vf.metric
    async def parsed(self, task: NowcastData, trace: NowcastTrace) -> float:
        """1 if the reply held a well-formed forecast, else 0."""
        return float(self._forecast(task, trace) is not None)

    @vf.metric
    async def clipped(self, task: NowcastData, trace: NowcastTrace) -> float:
        """1 if `beats_baseline` was cut at -1 or 1, so that nearby forecasts earn the same."""
        forecast, y = self._forecast(task, trace), self._result(task, trace)["first"]
        if forecast is None:
            return 0.0
        return float(scoring.is_clipped(y, forecast, task.baseline, task.scale))

    @vf.metric
    async def abs_error_first(self, task: NowcastData, trace: NowcastTrace) -> dict[str, float]:
        """Distance to the first release, in the target's unit and in scales."""
        forecast, y = self._forecast(task, trace), self._result(task, trace)["first"]
        if forecast is None:
            return {}
        error = abs(forecast - y)
        return {"abs_error_first": error, "abs_error_scaled": error / task.scale}

    @vf.metric
    async def abs_error_latest(self, task: NowcastData, trace: NowcastTrace) -> dict[str, float]:
        """Distance to the latest vintage the store knows, in the target's unit."""
        forecast, y = self._forecast(task, trace), self._result(task, trace)["latest"]
        return {} if forecast is None or y is None else {"abs_error_latest": abs(forecast - y)}

    @vf.metric
    async def baseline_error(self, task: NowcastData, trace: NowcastTrace) -> float:
        """Distance of the baseline to the first release, in the target's unit."""
        return float(abs(task.baseline - self._result(task, trace)["first"]))

    @vf.metric
    async def lookups(self, task: NowcastData, trace: NowcastTrace) -> float:
        """How many catalog calls the agent made."""
        return float(self._result(task, trace)["lookups"])

    def _forecast(self, task: NowcastData, trace: NowcastTrace) -> float | None:
        return answers.parse(trace.last_reply, self.config.elicit, task.units).point

    def _result(self, task: NowcastData, trace: NowcastTrace) -> dict[str, Any]:
        """What `finalize` recorded, or the same from the store where it did not run."""
        held: dict[str, Any] | None = trace.info.get(INFO)
        if held is None:
            held = self.result(task, trace)
        return held

    def result(self, task: NowcastData, trace: NowcastTrace) -> dict[str, Any]:
        """Reply, outcome and lookups as JSON values, for `trace.info["nowcast"]`."""
        reply = answers.parse(trace.last_reply, self.config.elicit, task.units)
        truth = outcome(task, self.config.store)
        meta = opened(store_uri(self.config.store), task.store).meta(task.series_id)
        return {
            "series_id": task.series_id,
            "as_of": task.as_of,
            "reference_period": task.reference_period,
            "transform": task.transform,
            "forecast": reply.point,
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
