"""What rollouts cost in boxes and traces, from a run's own timings or from an assumed duration.

A box is taken to live from the start of `boot` to the end of `scoring`: verifiers starts it in the
first stage and tears it down after the last. Neither the tear-down nor the earlier boxes of a
retried rollout are in a trace, so both are left out; waiting for a box counts, except while a
platform builds the image (`image_cached = false`), when no box runs yet. Failed rollouts had boxes
too and count. A trace is as large as its record in `traces.jsonl`.

GPU hours and tokens are not priced.
"""

from __future__ import annotations

import datetime as dt
import math
import statistics
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import ConfigError, InputError
from .groups import gather, is_tied, standard_error
from .traces import STAGES, Rollout

DEFAULT_PRICES = Path(__file__).with_name("prices.toml")
KIB, GIB = 2**10, 2**30

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sandbox(_Strict):
    """A box's price an hour, and the size of the box it is for (cores, GB, GB)."""

    per_hour: Amount
    cpu: Amount
    memory: Amount
    disk: Amount
    source: str
    date: dt.date


class Traces(_Strict):
    """The price of taking in a GiB of traces, and of keeping one for a month."""

    ingestion_per_gib: Amount
    storage_per_gib_month: Amount
    source: str
    date: dt.date


class Prices(_Strict):
    """A price list."""

    currency: str
    sandbox: Sandbox
    traces: Traces


@dataclass(frozen=True)
class Cost:
    """One thing that is paid for, in the price list's currency.

    `amount` of `unit` is what a rollout uses and `rollout` what that costs, both on average; `p10`
    and `p90` are what single rollouts cost. `run` is `rollout` times the run's rollouts, `low` and
    `high` the same at two standard errors of the mean (by group) below and above. None: not known.
    """

    item: str
    amount: float
    unit: str
    rollout: float
    p10: float | None
    p90: float | None
    run: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Estimate:
    """The costs (their sum last, where there are several), and what has to be known about them.

    `measured` is how many rollouts were measured, `rollouts` how many the priced run has, `stages`
    the mean seconds of each stage.
    """

    costs: list[Cost]
    measured: int
    rollouts: int | None
    stages: dict[str, float]
    notes: list[str]


def read_prices(path: Path | None = None) -> Prices:
    """A price list; the shipped one by default.

    Raises
    ------
    ConfigError
        If the file cannot be read, or a key is missing, unknown, negative or no number.
    """
    place = path or DEFAULT_PRICES
    try:
        return Prices.model_validate(tomllib.loads(place.read_text()))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
        )
        raise ConfigError(f"{place}: {faults}. {DEFAULT_PRICES} is an example") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{place}: {error}") from None


def box_minutes(rollout: Rollout) -> float:
    """Minutes that the rollout's box lived, by its stages."""
    building = rollout.runtime.get("image_cached") is False
    left_out = "boot" if building else ""
    return math.fsum(s for name, s in rollout.stages.items() if name != left_out) / 60


def estimate(
    prices: Prices,
    rollouts: Sequence[Rollout] = (),
    *,
    minutes: float | None = None,
    steps: int | None = None,
    batch: int | None = None,
    months: float = 1.0,
) -> Estimate:
    """What a rollout costs, and a run of `steps` times `batch` rollouts.

    Parameters
    ----------
    prices
        The price list.
    rollouts
        Those of a run, to measure; without any, `minutes` is needed and traces are not priced.
    minutes
        How long a box lives, instead of the measured times.
    steps, batch
        Training steps, and rollouts a step; both or neither.
    months
        For how long the traces are kept.

    Raises
    ------
    ConfigError
        If there is neither a run nor `minutes`, one of `steps` and `batch` without the other, or a
        number out of range.
    InputError
        If `minutes` is not given and no rollout has timings.
    """
    _check(minutes=minutes, steps=steps, batch=batch, months=months)
    if (steps is None) != (batch is None):
        raise ConfigError("a run is --steps times --batch rollouts: give both, or neither")
    if minutes is None and not rollouts:
        raise ConfigError("nothing to price: give a run, or --minutes, how long a box lives")
    total = steps * batch if steps is not None and batch is not None else None
    timed = [rollout for rollout in rollouts if rollout.stages]
    if minutes is None and not timed:
        raise InputError("no rollout of the run has stage timings; give --minutes")
    held = timed if minutes is None else list(rollouts)
    groups = [r.group for r in held]
    box, paid = prices.sandbox.per_hour / 60, prices.traces
    taken = paid.ingestion_per_gib * KIB / GIB
    kept = paid.storage_per_gib_month * months * KIB / GIB
    kib = [r.size / KIB for r in held]
    if minutes is None:
        lived = [box_minutes(r) for r in held]
        costs = [_cost("sandbox", "box-minutes", lived, box, groups, total)]
    else:
        lived = [minutes] * len(held)
        costs = [_cost("sandbox", "box-minutes", [minutes], box, [""], total)]
    if held:
        costs.append(_cost("trace ingestion", "KiB", kib, taken, groups, total))
        costs.append(_cost("trace storage", "KiB", kib, kept, groups, total))
        sums = [m * box + k * (taken + kept) for m, k in zip(lived, kib, strict=True)]
        costs.append(_cost("sum", prices.currency, sums, 1.0, groups, total))
    return Estimate(
        costs=costs,
        measured=len(held),
        rollouts=total,
        stages=_mean_stages(timed),
        notes=_notes(prices, rollouts, timed, minutes),
    )


def _check(**numbers: float | None) -> None:
    for name, value in numbers.items():
        if value is not None and not (0 < value < math.inf):
            raise ConfigError(f"--{name} {value:g}: it must be above 0, and finite")


def _cost(
    item: str, unit: str, amounts: list[float], rate: float, groups: list[str], total: int | None
) -> Cost:
    """A cost from what each measured rollout used, and the price of a unit."""
    paid = [amount * rate for amount in amounts]
    rollout, error = statistics.fmean(paid), standard_error(gather(groups, paid))
    deciles = statistics.quantiles(paid, n=10, method="inclusive") if len(paid) > 1 else None
    slack = None if error is None else 2 * error
    return Cost(
        item=item,
        amount=statistics.fmean(amounts),
        unit=unit,
        rollout=rollout,
        p10=deciles[0] if deciles else None,
        p90=deciles[-1] if deciles else None,
        run=None if total is None else rollout * total,
        low=None if total is None or slack is None else max(0.0, rollout - slack) * total,
        high=None if total is None or slack is None else (rollout + slack) * total,
    )


def _mean_stages(timed: Sequence[Rollout]) -> dict[str, float]:
    held = {name: [r.stages[name] for r in timed if name in r.stages] for name in STAGES}
    return {name: statistics.fmean(found) for name, found in held.items() if found}


def _notes(
    prices: Prices, rollouts: Sequence[Rollout], timed: Sequence[Rollout], minutes: float | None
) -> list[str]:
    """What a reader has to know to use the figures."""
    notes = []
    if minutes is not None:
        notes.append(f"{minutes:g} minutes a box are assumed, not measured")
    else:
        notes += _about_boxes(prices.sandbox, timed)
        if len(timed) < len(rollouts):
            missing = len(rollouts) - len(timed)
            notes.append(f"{missing} of {len(rollouts)} rollouts have no timings and are left out")
    if not rollouts:
        notes.append("traces are not priced: their size is not known without a run")
    elif len({r.group for r in rollouts}) < 2:
        notes.append("one group shows no spread, so there is no range for a run")
    return [*notes, *_about_ties(rollouts), "GPU hours and tokens are not priced"]


def _about_ties(rollouts: Sequence[Rollout]) -> list[str]:
    """What a trainer that replaces groups without a difference generates beside its batch."""
    scored = [r for r in rollouts if r.ok]
    groups = gather((r.group for r in scored), (r.reward for r in scored)).values()
    compared = [rewards for rewards in groups if len(rewards) > 1]
    tied = sum(map(is_tied, compared))
    if not tied:
        return []
    text = f"{tied} of {len(compared)} groups of the run are tied: a trainer that replaces them "
    if tied == len(compared):
        return [text + "never fills a batch"]
    return [text + f"pays {len(compared) / (len(compared) - tied):.1f} x the sums for the run"]


def _about_boxes(sandbox: Sandbox, timed: Sequence[Rollout]) -> list[str]:
    """Where the measured boxes are not the one whose price is counted with."""
    notes = []
    kinds = sorted({str(r.runtime.get("type") or "unknown") for r in timed})
    if kinds != ["prime"]:
        notes.append(
            f"the run's runtime is {', '.join(kinds)}: its times stand in for those of a box that "
            "is paid for"
        )
    size = {"cpu": sandbox.cpu, "memory": sandbox.memory, "disk": sandbox.disk}
    other = [r for r in timed if any(r.runtime.get(k) not in (None, v) for k, v in size.items())]
    if other:
        shown = ", ".join(f"{name} {other[0].runtime.get(name)}" for name in size)
        notes.append(
            f"{len(other)} boxes have another size ({shown}) than the priced one (cpu "
            f"{sandbox.cpu:g}, memory {sandbox.memory:g}, disk {sandbox.disk:g})"
        )
    building = sum(r.runtime.get("image_cached") is False for r in timed)
    if building:
        notes.append(
            f"{building} boxes waited for their image to be built; that boot is not counted"
        )
    return notes
