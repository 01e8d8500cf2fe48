"""What the reward lab says: tables for people, CSV and JSON for machines, and an advice.

The advice follows rules that a reader can check against the table. A configuration is *sound* if
no exploit pays, its best reply is the one its loss asks for, and it ranks policies as that loss
does, over all tasks and inside a group. Of the sound ones with the same elicitation come first
those with the fewest groups without advantage, then the highest signal to noise, then those whose
advantages hang least on a few tasks; of equal ones the simplest is picked. Numbers in files have
six digits, so that the same input gives the same bytes.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

from ..answers import Elicit
from .ablate import Report
from .ablate_stats import Best

FAR = 0.1
"""How far the best reply may be from the documented one, in scales."""
WIDE = 1.25
"""How many times wider or narrower its spread may be."""
RANKS = 0.9
"""Least rank agreement with the documented loss."""
CLOSE = 0.9
"""A signal to noise within this share of the best counts as equal."""
SHARE = 0.01
"""Two shares nearer than this count as equal."""
NAMED = 0.05
"""A clip or a flat top in more of the cases than this is named."""


@dataclass(frozen=True)
class Advice:
    """Which configuration to train on, of one elicitation or of all.

    Parameters
    ----------
    scope
        `point`, `interval`, `quantiles` or `overall`.
    pick
        The configuration; None if none is sound.
    as_good
        Others that the rules do not tell from it.
    reasons
        One sentence each, the pick's first, then one on each that was not picked.
    """

    scope: str
    pick: str | None
    as_good: list[str]
    reasons: list[str]


def faults(report: Report) -> list[str]:
    """Why a configuration is not sound; empty if it is."""
    found = [
        f"{one.policy} earns {one.reward:.3f}, {one.honest} only {one.honest_reward:.3f} (z = "
        f"{one.z:.1f}) though its {report.loss} is lower"
        for one in report.exploits
    ]
    if report.distance > FAR:
        found.append(
            f"its best reply is {report.distance:.2f} scales from what {report.loss} asks for "
            f"({report.best.toward:+.2f} of the way to the naive forecast, not "
            f"{report.best_documented.toward:+.2f})"
        )
    if not 1.0 / WIDE <= report.width <= WIDE:
        found.append(f"its best spread is {report.width:.2f} times what {report.loss} asks for")
    if min(report.rank_loss, report.within) < RANKS:
        found.append(
            f"it does not rank policies as their {report.loss} does (rank agreement "
            f"{report.rank_loss:.2f}, inside a group {report.within:.2f})"
        )
    return found


def advise(reports: Sequence[Report]) -> list[Advice]:
    """A pick for each elicitation there is, and one overall: of the picks with about the highest
    signal to noise, the one with the shortest reply."""
    found, picks = [], []
    for elicit in get_args(Elicit):
        of_kind = [report for report in reports if report.elicit == elicit]
        if of_kind:
            advice, pick = _of_elicit(elicit, of_kind)
            found.append(advice)
            picks += [pick] if pick else []
    if len(found) > 1:
        found.append(_overall(picks))
    return found


def _of_elicit(elicit: str, reports: list[Report]) -> tuple[Advice, Report | None]:
    lost = {report.name: "; ".join(found) for report in reports if (found := faults(report))}
    left = [report for report in reports if report.name not in lost]
    left.sort(key=lambda report: (len(report.rewards), report.name))
    for why, worth, margin in STEPS:
        best = max(left, key=lambda report: round(worth(report), 6), default=None)
        for report in left:
            if best is not None and worth(report) < worth(best) - margin(best):
                lost[report.name] = f"sound, but {why} than {best.name}"
        left = [report for report in left if report.name not in lost]
    reasons = [_lost(report, lost[report.name]) for report in reports if report.name in lost]
    if not left:
        return Advice(elicit, None, [], reasons), None
    pick = left[0]
    sound = (
        f"{pick.name}: no exploit pays, the best reply is {pick.distance:.2f} scales from what "
        f"{pick.loss} asks for, and policies are ranked as it does (rank agreement "
        f"{pick.rank_loss:.2f}, inside a group {pick.within:.2f}); {_figures(pick)}"
    )
    return Advice(elicit, pick.name, [one.name for one in left[1:]], [sound, *reasons]), pick


Worth = Callable[[Report], float]
STEPS: tuple[tuple[str, Worth, Worth], ...] = (
    ("more groups without advantage", lambda report: -report.zero, lambda best: SHARE),
    (
        "less signal to noise",
        lambda report: report.signal,
        lambda best: (1.0 - CLOSE) * abs(best.signal),
    ),
    ("hangs more on a few tasks", lambda report: -report.heavy, lambda best: SHARE),
)
"""What sound configurations are told apart by, in order: what to say of the worse ones, what is
more, and by how much a worse one must be behind."""


def _lost(report: Report, why: str) -> str:
    """Why a configuration was not picked, with its figures."""
    return f"not {report.name}: {why}; {_figures(report)}"


def _figures(report: Report) -> str:
    text = (
        f"{report.zero:.1%} of the groups without advantage, signal to noise {report.signal:.2f}, "
        f"{report.heavy:.0%} of the advantage in 5 % of the tasks"
    )
    if report.clip > NAMED:
        text += f", {report.clip:.0%} of plausible replies on a clip"
    if report.flat > NAMED:
        text += f", flat around the truth in {report.flat:.0%} of the tasks"
    return text


def _overall(picks: list[Report]) -> Advice:
    """Among the picks, which come in the order of the length of their replies."""
    if not picks:
        return Advice("overall", None, [], ["no configuration is sound"])
    best = max(picks, key=lambda report: report.signal)
    pick = next(report for report in picks if report.signal >= CLOSE * best.signal)
    others = ", ".join(f"{one.name} {one.signal:.2f}" for one in picks if one is not pick)
    reason = f"{pick.name}: signal to noise {pick.signal:.2f}"
    if others:
        reason += f" from the shortest reply that comes near the best of these ({others})"
    return Advice("overall", pick.name, [], [reason])


def reply_text(best: Best, elicit: str) -> str:
    """A reply of the searched family, for people: a, b and the factor of the spread.

    >>> reply_text(Best(0.0, 1.0, 0.94), "interval")
    '+0.00 +1.00 x0.94'
    """
    text = f"{best.shift:+.2f} {best.toward:+.2f}"
    return text if elicit == "point" else f"{text} x{best.width:.2f}"


def weights_text(rewards: Mapping[str, float]) -> str:
    """Rewards with their weights.

    >>> weights_text({"scaled_error": 1.0, "format": 0.1})
    'scaled_error=1 format=0.1'
    """
    return " ".join(f"{name}={weight:g}" for name, weight in rewards.items())


def as_text(advice: Advice) -> str:
    """An advice for people, a line a reason."""
    also = f" (as good: {', '.join(advice.as_good)})" if advice.as_good else ""
    return "\n  ".join([f"{advice.scope}: {advice.pick or 'none'}{also}", *advice.reasons])


SCORING = ("config", "elicits", "loss", "rewards")
RANKING = ("config", "rank |e|", "rank loss", "in groups", "signal", "groups")
LEARNING = ("config", "no advantage", "tied", "mixed: none", "tied ", "clip", "flat at y", "heavy")
PAYING = ("config", "pays best", "loss asks", "apart", "exploits")


def tables(reports: Sequence[Report]) -> list[tuple[str, tuple[str, ...], list[dict[str, str]]]]:
    """Title, columns and rows of each table."""
    rows = [_row(report) for report in reports]
    return [
        ("Which rewards, with which weights?", SCORING, rows),
        ("Does it rank policies, and how many groups does it take to see it?", RANKING, rows),
        ("Is there an advantage to learn from?", LEARNING, rows),
        ("What does it pay for? a, b of the best m + a scales + b (naive - m)", PAYING, rows),
    ]


def _row(report: Report) -> dict[str, str]:
    return {
        "config": report.name,
        "elicits": report.elicit,
        "loss": report.loss,
        "rewards": weights_text(report.rewards),
        "rank |e|": f"{report.rank:.2f}",
        "rank loss": f"{report.rank_loss:.2f}",
        "in groups": f"{report.within:.2f}",
        "signal": f"{report.signal:.2f}",
        "groups": "never" if report.groups is None else str(report.groups),
        "no advantage": f"{report.zero:.1%}",
        "tied": f"{report.tied:.1%}",
        "mixed: none": f"{report.mixed_zero:.1%}",
        "tied ": f"{report.mixed_tied:.1%}",
        "clip": f"{report.clip:.1%}",
        "flat at y": f"{report.flat:.1%}",
        "heavy": f"{report.heavy:.0%}",
        "pays best": reply_text(report.best, report.elicit),
        "loss asks": reply_text(report.best_documented, report.elicit),
        "apart": f"{report.distance:.2f}",
        "exploits": "; ".join(
            f"{one.policy} {one.reward:.2f} > {one.honest} {one.honest_reward:.2f}"
            for one in report.exploits
        )
        or "none pays",
    }


def as_json(reports: Sequence[Report], advice: Sequence[Advice], group: int, seed: int) -> str:
    """Everything but the curves of the pictures, as one JSON document."""
    variants = []
    for report in reports:
        values = asdict(report)
        del values["curves"]
        variants.append(values)
    document = {
        "group": group,
        "seed": seed,
        "variants": variants,
        "advice": [asdict(one) for one in advice],
    }
    return json.dumps(_rounded(document), indent=1, allow_nan=False) + "\n"


def as_csv(reports: Sequence[Report]) -> str:
    """One row a configuration."""
    out = io.StringIO()
    rows = [_flat(report) for report in reports]
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _flat(report: Report) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in _rounded(asdict(report)).items():
        if name == "rewards":
            row[name] = weights_text(value)
        elif name in ("best", "best_documented"):
            row |= {f"{name}_{key}": one for key, one in value.items()}
        elif name == "exploits":
            row[name] = "; ".join(f"{one['policy']} > {one['honest']}" for one in value)
        elif name not in ("policies", "curves", "flat_by_series"):
            row[name] = value
    return row


def _rounded(value: Any) -> Any:
    """Six significant digits; null for what is infinite (silence has no error)."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value
