"""The records of a nowcast: what is asked, what a tool call knows, what a task is configured with.

`NowcastData` rides on the wire and in traces and holds no outcome: neither the tool channel, nor
an env worker's queue, nor the agent's box ever has it. `NowcastState` is all that the shared tool
server sees of a rollout.
"""

from __future__ import annotations

from typing import TypeAlias

import verifiers.v1 as vf
from pydantic import ConfigDict

from . import answers, prompts
from .baselines import BaselineName, ScaleName
from .opaque import Rescaling
from .periods import Frequency, Units


class NowcastData(vf.TaskData):
    """What is asked. No outcome: scoring reads it from the store."""

    series_id: str
    title: str
    as_of: str
    reference_period: str
    period_label: str
    frequency: Frequency
    transform: Units
    units: str
    horizon_days: int
    baseline: float
    baseline_name: BaselineName
    scale: float
    scale_name: ScaleName = "std_24"
    store: str
    """Fingerprint of the store the task was drawn from."""
    stream: str
    draw: int
    opaque: str | None = None
    """Key of the disguise in which the agent reads; None for none. But for
    the prompt, all else here is real."""
    shown: Rescaling | None = None
    """How the target's numbers are shown under it, and replies are to be read."""


class NowcastState(vf.State):
    """What the shared tool server knows of a rollout. Unset, every call is refused."""

    as_of: str = ""
    series_id: str = ""
    store: str = ""
    opaque: str = ""
    """Key of the disguise; empty for none."""
    lookups: int = 0


class NowcastTaskConfig(vf.TaskConfig):
    """Set by the taskset from its own fields; here so that env workers, which build tasks from
    the wire, have them."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    store: str | None = None
    """Where the store is; follows the taskset's `store`."""
    context: prompts.Context = "tools"
    """Where the agent finds the data; follows the taskset's `context`."""
    elicit: answers.Elicit = "point"
    """What a reply holds; follows the taskset's `elicit`."""


NowcastTrace: TypeAlias = vf.Trace[NowcastData, NowcastState, vf.AgentConfig]
