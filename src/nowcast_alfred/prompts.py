"""The prompt: what is asked, what may be read, how to reply.

It states the target by series, period and unit, never by its coming release day: only the usual
lag can be known on the as-of date, and the agent can look that up. With `context = "prompt"` the
data come along, for agents without tools.
"""

from __future__ import annotations

from typing import Literal

from . import periods as p
from . import served
from .answers import INTERVAL, MARKER, NAMES, QUANTILES, Elicit
from .opaque import OpaqueView
from .store.reader import AsOfView, Observations

Context = Literal["tools", "files", "prompt", "none"]

HISTORY = 36
RELATED = 5
RELATED_HISTORY = 6

TASK = """\
Today is {as_of}. You know what had been published by the end of this day, and nothing later.

Forecast the first release of this number:
Series: {series_id} ({title})
Period: {label} ({frequency}{starting})
Value: {what} (units code {units}), from levels in {level_units}, {adjustment}

You are scored by your distance to the number as it is first published, computed within that \
publication; later revisions do not matter.

{context}

{reply}"""

REPLIES: dict[Elicit, str] = {
    "point": """\
Think it through, then end your reply with one line that holds your forecast and nothing else:
FORECAST: <number{example}>
{rule}A reply without such a line scores lowest.""",
    "interval": """\
Think it through, then end your reply with two lines that hold your forecast and the interval that \
you expect to hold the number in 8 of 10 such cases, and nothing else:
FORECAST: <number{example}>
INTERVAL80: <lower>, <upper>
{rule}The forecast lies within its interval. A reply without such lines scores lowest.""",
    "quantiles": """\
Think it through, then end your reply with one line that holds five quantiles of what you expect \
(the number falls below p10 in 1 of 10 such cases, below p50 in half of them), and nothing else:
QUANTILES: p10=<number{example}>, p25=<number>, p50=<number>, p75=<number>, p90=<number>
{rule}The quantiles ascend. A reply without such a line scores lowest.""",
}

TOOLS = """\
The catalog_* tools answer as of {as_of}. catalog_observations gives values of one series or of \
several in one call (units code {units} gives them in the unit asked for); catalog_search finds \
related series; catalog_series describes one; catalog_revisions shows how a published value was \
revised; catalog_releases shows when past periods were published."""

FILES = """\
The folder catalog/ in your working directory holds one file a series, <SERIES>.csv with \
{columns}, and README.md, which lists them. Reply in text; files you write are not read."""

NONE = "No data are given: answer from what you know."

HIDDEN = """\
Names, dates and sizes are hidden. t counts the periods of a series' own frequency: t = 0 holds \
today, t = -1 is the period before (a daily series counts values, and t = -1 is the newest known). \
Days of publication are given as the t they fall in; where a date is asked for, write t. Levels \
are shifted and rescaled, changes rescaled with them, percent changes by a factor of their own. \
All that you are shown of a series is in the same scale, and your reply is read in it. Values go \
back ten years (two of a daily series), publications and revisions two."""


def build(
    view: AsOfView,
    series_id: str,
    period: int,
    units: p.Units,
    context: Context,
    elicit: Elicit = "point",
) -> str:
    """The prompt of one task, from the view of its as-of date.

    Parameters
    ----------
    view
        The view of the as-of date.
    series_id, period, units
        The target: series, first day of the reference period, transform. Of an opaque view, id
        and period as shown.
    context
        Where the agent finds the data.
    elicit
        What the reply is to hold.
    """
    meta = view.meta(series_id)
    hidden = isinstance(view, OpaqueView)
    percent = not hidden and p.is_percent(units, meta.units)
    data = _context(view, series_id, units, context)
    return TASK.format(
        as_of=view.as_of,
        series_id=series_id,
        title=meta.title,
        label=served.label(view, period, meta.frequency),
        frequency=p.FREQUENCY_NAMES[meta.frequency],
        starting="" if hidden else f", starting {p.iso(period)}",
        what=served.unit_text(view, units, meta),
        units=units,
        level_units=meta.units.lower(),
        adjustment=meta.seasonal_adjustment.lower(),
        context=f"{HIDDEN}\n\n{data}" if hidden else data,
        reply=REPLIES[elicit].format(
            example=", such as 0.3 or -1.2" if percent else ", such as 12.5 or -3",
            rule="Write numbers without a unit" + (" (a % is allowed). " if percent else ". "),
        ),
    )


def oracle(y: float, elicit: Elicit) -> str:
    """The reply of one who knows the outcome, in the grammar asked for."""
    if elicit == "quantiles":
        return f"{QUANTILES} " + ", ".join(f"{name}={y!r}" for name in NAMES)
    interval = f"\n{INTERVAL} {y!r}, {y!r}" if elicit == "interval" else ""
    return f"{MARKER} {y!r}{interval}"


def unit_of(units: p.Units, level_units: str) -> str:
    """The unit of a target's number: the level's, or percent."""
    return "Percent" if units in ("pch", "pc1", "pca") else level_units


def _context(view: AsOfView, series_id: str, units: p.Units, context: Context) -> str:
    if context == "tools":
        return TOOLS.format(as_of=view.as_of, units=units)
    if context == "files":
        if not isinstance(view, OpaqueView):
            return FILES.format(columns="date,value (levels as known today)")
        more = "" if units == "lin" else f"; then a column {units}"
        return FILES.format(columns=f"t,value (levels as known today{more})")
    if context == "none":
        return NONE
    level = view.observations(series_id)
    shown = Observations(level.period[-HISTORY:], level.value[-HISTORY:])
    start = served.date(view, int(shown.period[0]))
    own = view.observations(series_id, start=start, units=units)
    parts = [f"What is known of {series_id}, levels:\n{served.table(view, shown)}"]
    if units != "lin":
        parts.append(f"The same as {units}:\n{served.table(view, own)}")
    for key in _related(view, series_id):
        other = view.meta(key)
        known = view.observations(key, units=other.transform)
        tail = Observations(known.period[-RELATED_HISTORY:], known.value[-RELATED_HISTORY:])
        if len(tail):
            what = served.unit_text(view, other.transform, other)
            parts.append(f"{key} ({other.title}), {what}:\n{served.table(view, tail)}")
    return "\n\n".join(parts)


def _related(view: AsOfView, series_id: str) -> list[str]:
    """A few other series of the same category or release, those of its release first."""
    meta = view.meta(series_id)
    near = [
        (other.release != meta.release, other.id)
        for other in view.series()
        if other.id != series_id
        and (other.release == meta.release or other.category == meta.category)
    ]
    return [key for _, key in sorted(near)[:RELATED]]
