"""Whether a model may go straight into RL, read off a baseline run.

Group-mean RL learns from differences within groups, so three questions decide, in this order. Did
the rollouts work at all (else the setup is at fault, and nothing else can be judged)? Do the
replies hold a forecast (else a short SFT on the format is cheaper than RL, and RL alone learns
nothing where every reply is at the floor)? Do the rewards within a group differ, and does their
mean lie where there is something to gain (else sampling, reward or tasks must change; SFT would
not help)?

A share decides when its 95 % interval, with each *group* as one observation, lies on one side of
its line, or is known to within `MARGIN`; before that there is no verdict, and the run says how many
groups it lacks. A fault of the setup needs no such care: it is named on `LEAST_GROUPS`, and where
nothing worked at all on one. The lines are conventions, so every reason carries its figures.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import InputError
from .groups import (
    TIE,
    Components,
    components,
    gather,
    is_tied,
    mean,
    share_interval,
    standard_error,
)
from .traces import Rollout

Outcome = Literal["start with RL", "warm-start on format first", "fix the setup", "no verdict yet"]

MOST_FAILED = 0.1
"""More rollouts failing than this: fix the setup."""
MOST_CUT = 0.5
"""At least this share cut short before a forecast, or of tool calls in error: fix the setup."""
LEAST_PARSED = 0.8
"""Fewer well-formed replies than this: warm-start on the format."""
MOST_TIED = 0.5
"""More tied groups than this: most of a batch would be generated in vain."""
BAND = (0.1, 0.8)
"""Where Prime's guide wants the mean reward of a base model, on [0, 1]."""
LEAST_GROUPS = 8
"""No verdict on fewer: prime-rl's smallest step is as large."""
MARGIN = 0.1
"""A share known to plus or minus this is judged as it stands, however near the line."""

RANGES: dict[str, tuple[float, float]] = {
    "beats_baseline": (-1.0, 1.0),
    "direction": (-1.0, 1.0),
    "hit": (-1.0, 1.0),
    "format": (0.0, 1.0),
    "unit_error": (0.0, 1.0),
    "scaled_error": (-11.0, 0.0),
    "squared_error": (-101.0, 0.0),
    "interval_score": (-101.0, 0.0),
    "pinball": (-11.0, 0.0),
    "crps_normal": (-11.0, 0.0),
    "log_score": (-51.0, 2.08),
}
"""Floor (what a malformed reply earns) and best of each reward; `rewards` documents them."""
NEAR_ENDS = {"beats_baseline", "direction", "hit", "format"}
"""Rewards whose ends a model may reach. The others put their floor 10 scales away, so that even a
poor forecaster is above 80 % of the range."""

NO_FORECAST, SAME_FORECAST, SAME_REWARD = "no forecast", "same forecast", "same reward"


@dataclass(frozen=True)
class Facts:
    """What a run shows. Shares are in [0, 1], of scored rollouts unless said; None: not known.

    Rewards are weighted sums as trained on, over scored rollouts. `groups` counts groups with a
    scored rollout, `compared` those with two or more, in which ties can be seen.
    """

    rollouts: int
    failed: int
    errors: dict[str, int]
    first_error: str
    groups: int
    group_size: tuple[int, int]
    parsed: float | None
    refusals: dict[str, int]
    weights: dict[str, float]
    reward: float | None
    variance: Components
    format_variance: float | None
    compared: int
    tied: dict[str, int]
    zero_advantage: float | None
    unit_reward: float | None
    band_reward: str
    band_mean: float | None
    band_error: float | None
    lookups: float | None
    tool_calls: int
    tool_errors: int
    tool_refusals: dict[str, int]
    cut_short: float | None
    truncated: float | None
    stops: dict[str, int]
    clipped: float | None
    beyond: float | None

    @property
    def tied_share(self) -> float | None:
        """Share of the compared groups whose rewards are all equal."""
        return sum(self.tied.values()) / self.compared if self.compared else None


@dataclass(frozen=True)
class Verdict:
    """What to do next, why, and how many more groups a verdict needs (0: none)."""

    outcome: Outcome
    reasons: tuple[str, ...]
    more_groups: int = 0


def facts_of(rollouts: Sequence[Rollout]) -> Facts:
    """Count and measure a run.

    Raises
    ------
    InputError
        If there are no rollouts, or a scored one has no metric `parsed`.
    """
    if not rollouts:
        raise InputError("the run has no rollouts")
    scored = [rollout for rollout in rollouts if rollout.ok]
    if any("parsed" not in rollout.metrics for rollout in scored):
        raise InputError("a rollout has no metric 'parsed': is this a run of nowcast-alfred?")
    failures = [r.errors[-1] if r.errors else "not ok" for r in rollouts if not r.ok]
    groups = _grouped(scored)
    compared = [group for group in groups.values() if len(group) > 1]
    sizes = [len(group) for group in _grouped(rollouts).values()]
    weights = {name: w for r in scored for name, w in sorted(r.weights.items()) if w != 0}
    band_reward, band = _for_band(scored, weights)
    mapped = (
        {name: [unit(band, r) for r in group] for name, group in groups.items()} if band else {}
    )
    return Facts(
        rollouts=len(rollouts),
        failed=len(rollouts) - len(scored),
        errors=_counted(error.partition(":")[0] for error in failures),
        first_error=failures[0] if failures else "",
        groups=len(groups),
        group_size=(min(sizes), max(sizes)),
        parsed=_share(_parsed(r) for r in scored),
        refusals=_counted(_reason(r) for r in scored if not _parsed(r)),
        weights=weights,
        reward=mean([r.reward for r in scored]),
        variance=components({name: [r.reward for r in g] for name, g in groups.items()}),
        format_variance=_format_variance(compared),
        compared=len(compared),
        tied=_counted(_why_tied(group) for group in compared if is_tied([r.reward for r in group])),
        zero_advantage=_share(abs(r.reward - _centre(g)) <= TIE for g in compared for r in g),
        unit_reward=mean([unit(weights, r) for r in scored]) if _known(weights) else None,
        band_reward=band_reward,
        band_mean=mean([x for group in mapped.values() for x in group]),
        band_error=standard_error(mapped),
        lookups=_average(scored, "lookups"),
        tool_calls=sum(r.tool_calls for r in rollouts),
        tool_errors=sum(len(r.tool_errors) for r in rollouts),
        tool_refusals=_counted(text for r in rollouts for text in r.tool_errors),
        cut_short=_share(_cut(r) and not _parsed(r) for r in scored),
        truncated=_share(r.truncated for r in scored),
        stops=_counted(r.stop or "none recorded" for r in rollouts),
        clipped=_average(scored, "clipped"),
        beyond=_average(scored, "beyond"),
    )


def unit(weights: dict[str, float], rollout: Rollout) -> float:
    """The weighted reward of a rollout, mapped to [0, 1]: (r - floor) / (best - floor).

    Floor and best are those of `RANGES`, weighted alike; a negative weight swaps the two.
    `beats_baseline` alone becomes (r + 1) / 2, and `unit_error` alone stays what it is.
    """
    ends = [sorted((w * RANGES[name][0], w * RANGES[name][1])) for name, w in weights.items()]
    floor, best = math.fsum(low for low, _ in ends), math.fsum(high for _, high in ends)
    earned = math.fsum(w * rollout.rewards.get(name, 0.0) for name, w in weights.items())
    return (earned - floor) / (best - floor)


def groups_needed(share: float, line: float) -> int:
    """How many groups decide on which side of a line a share lies, if it stays what it is."""
    n = LEAST_GROUPS
    while not _decided(share, n, line):
        n += 1
    return n


def judge(facts: Facts) -> Verdict:
    """The verdict on a run, with its reasons."""
    faults = _faults(facts)
    if faults or facts.parsed is None:
        texts = [text for text, _ in faults]
        some = all(share < 1.0 for _, share in faults)
        if some and (more := LEAST_GROUPS - facts.groups) > 0:
            return _too_few(facts, more, texts)
        return Verdict("fix the setup", tuple(texts))
    said = _what_replies_hold(facts)
    if (more := groups_needed(facts.parsed, LEAST_PARSED) - facts.groups) > 0:
        return _too_few(facts, more, said)
    if facts.parsed < LEAST_PARSED:
        return Verdict("warm-start on format first", (*said, _why_format(facts)))
    if facts.tied_share is None:
        return _too_few(facts, LEAST_GROUPS, (*said, ONE_EACH))
    if (more := groups_needed(facts.tied_share, MOST_TIED) - facts.compared) > 0:
        return _too_few(facts, more, said)
    spread = _what_spreads(facts)
    if facts.tied_share > MOST_TIED:
        return Verdict("fix the setup", (*said, *spread, *_why_tied_so_often(facts)))
    level, inside = _where_in_band(facts)
    outcome: Outcome = "start with RL" if inside else "fix the setup"
    return Verdict(outcome, (*said, *spread, level))


ONE_EACH = (
    "groups of one rollout show no spread: run again with num_rollouts = the group size of the "
    "training run, 8 or more"
)


def _too_few(facts: Facts, more: int, said: Sequence[str]) -> Verdict:
    text = f"{facts.groups} groups are too few to judge: run at least {more} more"
    return Verdict("no verdict yet", (*said, text), more)


def _faults(facts: Facts) -> list[tuple[str, float]]:
    """What is wrong with the rollouts as such: sentences, each with the share that is wrong."""
    found = []
    if facts.failed > MOST_FAILED * facts.rollouts:
        text = (
            f"{facts.failed} of {facts.rollouts} rollouts failed ({_listed(facts.errors)}); the "
            f"first: {facts.first_error.splitlines()[0]}"
        )
        found.append((text, facts.failed / facts.rollouts))
    if facts.tool_errors and facts.tool_errors >= MOST_CUT * facts.tool_calls:
        often, count = next(iter(facts.tool_refusals.items()))
        text = (
            f"{facts.tool_errors} of {facts.tool_calls} tool calls answered with an error, "
            f"{count} of them with: {often}"
        )
        found.append((text, facts.tool_errors / facts.tool_calls))
    if facts.cut_short and facts.parsed is not None:
        whole = facts.parsed / (1.0 - facts.cut_short) if facts.cut_short < 1 else 0.0
        if facts.cut_short >= MOST_CUT or facts.parsed < LEAST_PARSED <= whole:
            text = (
                f"{facts.cut_short:.0%} of the rollouts were cut short before a forecast (stops: "
                f"{_listed(facts.stops)}), and {whole:.0%} of the others hold a well-formed one: "
                "raise max_turns, max_tokens or the time limits"
            )
            found.append((text, facts.cut_short))
    return found


def _what_replies_hold(facts: Facts) -> tuple[str, ...]:
    text = f"{facts.parsed:.0%} of the replies hold a well-formed forecast"
    if facts.refusals:
        text += f"; refused: {_listed(facts.refusals)}"
    return (text,)


def _why_format(facts: Facts) -> str:
    line = f"below {LEAST_PARSED:.0%}, a short SFT on the format is cheaper than RL"
    if not facts.compared:
        return line
    if facts.format_variance is None:
        return f"{line}; RL alone has nothing to learn from: no group holds a difference"
    return (
        f"{line}; {facts.format_variance:.0%} of the variance within groups is that of having a "
        "forecast or none, which RL would learn first"
    )


def _what_spreads(facts: Facts) -> tuple[str, ...]:
    tied = sum(facts.tied.values())
    text = f"{tied} of {facts.compared} groups are tied"
    if facts.tied_share and facts.tied_share < 1:
        text += f": a step generates {1 / (1 - facts.tied_share):.1f} x its batch"
    if facts.variance.icc is not None:
        text += f"; {1 - facts.variance.icc:.0%} of the reward's variance is within groups"
    return (text,)


def _why_tied_so_often(facts: Facts) -> list[str]:
    advice = {
        SAME_FORECAST: "the rollouts of a task give the same forecast; the format is fine, so not "
        "SFT but sampling: raise the temperature, and check that nothing caches or seeds it",
        SAME_REWARD: "different replies earn the same: the reward is cut or coarse there; weigh "
        "scaled_error or unit_error instead (docs/rewards.md)",
        NO_FORECAST: "none of the group's replies holds a forecast",
    }
    return [f"{count} groups: {advice[why]}" for why, count in facts.tied.items()]


def _where_in_band(facts: Facts) -> tuple[str, bool]:
    """What to say of the mean reward, and whether it may lie inside the band."""
    if facts.band_mean is None:
        return "the mean reward cannot be mapped to [0, 1]: the range of a plug-in is unknown", True
    low, high = BAND
    slack = 2 * (facts.band_error or 0.0)
    text = f"mean {facts.band_reward} on [0, 1]: {facts.band_mean:.2f} +- {slack:.2f}"
    band = f"the guide's {low:.0%} to {high:.0%}"
    if facts.band_mean + slack < low:
        return f"{text}, below {band}: too hard; nearer releases (max_horizon), other series", False
    if facts.band_mean - slack > high:
        return f"{text}, above {band}: little to gain; harder series, or a better baseline", False
    where = "in" if low <= facts.band_mean <= high else "at the edge of"
    return f"{text}, {where} {band}", True


def _for_band(scored: Sequence[Rollout], weights: dict[str, float]) -> tuple[str, dict[str, float]]:
    """What is held against the band: what is trained on, or `beats_baseline` recorded beside it
    where that has far ends or a plug-in's unknown ones."""
    if weights and weights.keys() <= NEAR_ENDS:
        return " + ".join(weights), weights
    if scored and all("beats_baseline" in r.rewards for r in scored):
        return "beats_baseline", {"beats_baseline": 1.0}
    return "", {}


def _known(weights: dict[str, float]) -> bool:
    return bool(weights) and weights.keys() <= RANGES.keys()


def _decided(share: float, n: int, line: float) -> bool:
    low, high = share_interval(share, n)
    return not low <= line <= high or high - low <= 2 * MARGIN


def _grouped(rollouts: Sequence[Rollout]) -> dict[str, list[Rollout]]:
    return gather((rollout.group for rollout in rollouts), rollouts)


def _centre(group: Sequence[Rollout]) -> float:
    return math.fsum(r.reward for r in group) / len(group)


def _why_tied(group: Sequence[Rollout]) -> str:
    if not any(_parsed(r) for r in group):
        return NO_FORECAST
    answers = [
        [r.nowcast.get(part) for part in ("forecast", "interval", "quantiles")] for r in group
    ]
    return SAME_FORECAST if all(answer == answers[0] for answer in answers) else SAME_REWARD


def _format_variance(compared: Sequence[Sequence[Rollout]]) -> float | None:
    """Share of the squares within groups that lie between replies with and without a forecast."""
    total = explained = 0.0
    for group in compared:
        centre = _centre(group)
        total += math.fsum((r.reward - centre) ** 2 for r in group)
        for kind in (True, False):
            part = [r for r in group if _parsed(r) is kind]
            explained += len(part) * (_centre(part) - centre) ** 2 if part else 0.0
    return explained / total if total > TIE else None


def _parsed(rollout: Rollout) -> bool:
    return rollout.metrics["parsed"] == 1.0


def _reason(rollout: Rollout) -> str:
    """Why the reply was refused, without the text it quotes."""
    return str(rollout.nowcast.get("reason") or "no reason recorded").partition(": ")[0]


def _cut(rollout: Rollout) -> bool:
    return rollout.truncated or rollout.stop.endswith("_timeout")


def _share(flags: Iterable[bool]) -> float | None:
    return mean([float(flag) for flag in flags])


def _average(rollouts: Sequence[Rollout], metric: str) -> float | None:
    return mean([r.metrics[metric] for r in rollouts if metric in r.metrics])


def _counted(names: Iterable[str]) -> dict[str, int]:
    """Counts, most frequent first, then by name."""
    return dict(sorted(Counter(names).items(), key=lambda held: (-held[1], held[0])))


def _listed(counts: dict[str, int]) -> str:
    """The three most frequent, for a sentence."""
    shown = [f"{count} x {name}" for name, count in counts.items()]
    return ", ".join(shown[:3] + ["..."] * (len(shown) > 3))
