"""The reply's grammar: one line that starts with `FORECAST:` and holds one number.

The last such line of the reply counts, and counts alone: if it is malformed, an earlier good one
does not save it. Markdown around it is ignored (emphasis, inline code, a list mark, `>`; a fence is
only another line). A number is an optional sign (ASCII or U+2212), digits with thousands
separators in the right places or without, decimals, an exponent; `%` only where the unit is
percent. All work is linear in the text: lines are found from the end, and a line longer than any
number is refused before the pattern sees it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

Elicit = Literal["point"]

MARKER = "FORECAST:"
LONGEST_LINE = 200

_HEAD = re.compile(
    r"[\s>]*(?:(?:[-*+]|[0-9]{1,3}[.)])\s+)?[*_`]{0,4}forecast[*_`]{0,4}:[*_`]{0,4}",
    re.IGNORECASE | re.ASCII,  # the letters of FORECAST and no look-alikes
)
_NUMBER = re.compile(
    r"(?P<sign>[+\-\u2212]?)"
    r"(?P<whole>[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]*)"  # 0,123 may well mean 0.123
    r"(?P<decimals>\.[0-9]+)?"
    r"(?P<exponent>[eE][+-]?[0-9]+)?"
    r"(?P<percent>\s?%)?"
)


@dataclass(frozen=True)
class Reply:
    """A parsed reply: `point` where `ok`, else the `reason` it was refused."""

    ok: bool
    point: float | None = None
    reason: str = ""


def parse(text: str, elicit: Elicit = "point", units: str = "") -> Reply:
    """Read the forecast out of a reply.

    Parameters
    ----------
    text
        The last reply, of any length.
    elicit
        What was asked for.
    units
        The target's unit; a `%` is allowed if it contains "percent".

    Returns
    -------
    A `Reply`; never raises.

    Examples
    --------
    >>> parse("So the answer is\\n**FORECAST:** 1,234").point
    1234.0
    >>> parse("FORECAST: 353K").reason
    'not a number: 353K'
    """
    line = _last_line(text)
    if line is None:
        return Reply(False, reason=f"no line starts with {MARKER}")
    if len(line) > LONGEST_LINE:
        return Reply(False, reason="the line is too long for a number")
    head = _HEAD.match(line)
    assert head is not None
    body = line[head.end() :].strip().strip("*_`").strip()
    match = _NUMBER.fullmatch(body)
    if match is None or not (match["whole"] or match["decimals"]):
        return Reply(False, reason=f"not a number: {body[:40]}" if body else "no number")
    if match["percent"] and "percent" not in units.lower():
        return Reply(False, reason="a % where the unit is not percent")
    sign = "-" if match["sign"] in ("-", "\u2212") else ""
    digits = match["whole"].replace(",", "") + (match["decimals"] or "")
    value = float(sign + digits + (match["exponent"] or ""))
    if not math.isfinite(value):
        return Reply(False, reason="the number is not finite")
    return Reply(True, point=value)


def _last_line(text: str) -> str | None:
    """The last line that starts with the marker, markdown aside."""
    for line in reversed(text.splitlines()):
        if _HEAD.match(line[:LONGEST_LINE]):
            return line
    return None
