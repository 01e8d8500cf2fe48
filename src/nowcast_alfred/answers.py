"""The reply's grammar: lines that start with a marker and hold numbers.

`FORECAST: x` is what every point reply holds; `INTERVAL80: lo, hi` comes beside it where an
interval is elicited; `QUANTILES: p10=a, p25=b, p50=c, p75=d, p90=e` stands alone where quantiles
are. The last line with a marker counts, and counts alone: if it is malformed, an earlier good one
does not save it. Markdown around it is ignored (emphasis, inline code, a list mark, `>`; a fence is
only another line). A number is an optional sign (ASCII or U+2212), digits with thousands separators
in the right places or without, decimals, an exponent; `%` only where the unit is percent. All work
is linear in the text: a line longer than any answer is refused before a pattern sees it.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import Literal

Elicit = Literal["point", "interval", "quantiles"]

MARKER, INTERVAL, QUANTILES = "FORECAST:", "INTERVAL80:", "QUANTILES:"
LEVELS = (0.10, 0.25, 0.50, 0.75, 0.90)
NAMES = tuple(f"p{round(100 * level)}" for level in LEVELS)
LONGEST_LINE = 400

_NUMBER = re.compile(
    r"(?P<sign>[+\-\u2212]?)"
    r"(?P<whole>[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]*)"  # 0,123 may well mean 0.123
    r"(?P<decimals>\.[0-9]+)?"
    r"(?P<exponent>[eE][+-]?[0-9]+)?"
    r"(?P<percent>\s?%)?"
)
_NAMED = re.compile(r"(p[0-9]{2})\s*=\s*(.*)", re.IGNORECASE | re.ASCII)
_NEXT_NAME = re.compile(r"[,;]\s*(?=p[0-9]{2}\s*=)", re.IGNORECASE | re.ASCII)


def _head(marker: str) -> re.Pattern[str]:
    """A line's start up to the marker; ASCII, so that look-alike letters are none."""
    word = marker.rstrip(":").lower()
    return re.compile(
        rf"[\s>]*(?:(?:[-*+]|[0-9]{{1,3}}[.)])\s+)?[*_`]{{0,4}}{word}[*_`]{{0,4}}:[*_`]{{0,4}}",
        re.IGNORECASE | re.ASCII,
    )


_HEADS = {marker: _head(marker) for marker in (MARKER, INTERVAL, QUANTILES)}


@dataclass(frozen=True)
class Reply:
    """A parsed reply: what was elicited where `ok`, else the `reason` it was refused.

    `point` is the forecast (the median, where quantiles are elicited), `interval` the central 80 %
    interval, `quantiles` level -> value.
    """

    ok: bool
    point: float | None = None
    interval: tuple[float, float] | None = None
    quantiles: dict[float, float] | None = None
    reason: str = ""


class _Malformed(Exception):
    """Why a reply is refused."""


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
    A `Reply`; never raises. A reply that lacks a part of what was asked for is malformed.

    Examples
    --------
    >>> parse("So the answer is\\n**FORECAST:** 1,234").point
    1234.0
    >>> parse("FORECAST: 353K").reason
    'not a number: 353K'
    >>> parse("FORECAST: 1\\nINTERVAL80: -0.5, 2", "interval").interval
    (-0.5, 2.0)
    >>> parse("QUANTILES: p10=1, p25=2, p50=3, p75=4, p90=5", "quantiles").point
    3.0
    """
    percent = "percent" in units.lower()
    try:
        if elicit == "quantiles":
            quantiles = _quantiles(_last_line(text, QUANTILES), percent)
            return Reply(True, point=quantiles[0.50], quantiles=quantiles)
        point = _number(_last_line(text, MARKER), percent)
        if elicit == "point":
            return Reply(True, point=point)
        low, high = _interval(_last_line(text, INTERVAL), percent)
        if not low <= point <= high:
            raise _Malformed("the forecast lies outside its interval")
        return Reply(True, point=point, interval=(low, high))
    except _Malformed as error:
        return Reply(False, reason=str(error))


def _last_line(text: str, marker: str) -> str:
    """What follows the marker on the last line that starts with it, markdown aside."""
    for line in reversed(text.splitlines()):
        head = _HEADS[marker].match(line[:LONGEST_LINE])
        if head is not None:
            if len(line) > LONGEST_LINE:
                raise _Malformed("the line is too long for an answer")
            return line[head.end() :].strip().strip("*_`").strip()
    raise _Malformed(f"no line starts with {marker}")


def _number(body: str, percent: bool) -> float:
    match = _NUMBER.fullmatch(body)
    if match is None or not (match["whole"] or match["decimals"]):
        raise _Malformed(f"not a number: {body[:40]}" if body else "no number")
    if match["percent"] and not percent:
        raise _Malformed("a % where the unit is not percent")
    sign = "-" if match["sign"] in ("-", "\u2212") else ""
    digits = match["whole"].replace(",", "") + (match["decimals"] or "")
    value = float(sign + digits + (match["exponent"] or ""))
    if not math.isfinite(value):
        raise _Malformed("the number is not finite")
    return value


def _interval(body: str, percent: bool) -> tuple[float, float]:
    """Two numbers; a comma without a space separates them only if it cannot group thousands."""
    parts = re.split(r";|,\s+", body)
    if len(parts) == 1 and body.count(",") == 1 and _NUMBER.fullmatch(body) is None:
        parts = body.split(",")
    if len(parts) != 2:
        raise _Malformed(f"not two numbers: {body[:40]}")
    low, high = (_number(part.strip(), percent) for part in parts)
    if low > high:
        raise _Malformed("the interval is inverted")
    return low, high


def _quantiles(body: str, percent: bool) -> dict[float, float]:
    found = {}
    for part in _NEXT_NAME.split(body):
        match = _NAMED.fullmatch(part.strip())
        if match is None or match[1].lower() in found:
            raise _Malformed(f"not a quantile: {part.strip()[:40]}")
        found[match[1].lower()] = _number(match[2].strip(), percent)
    if set(found) != set(NAMES):
        raise _Malformed(f"quantiles {', '.join(found)}; asked for {', '.join(NAMES)}")
    values = [found[name] for name in NAMES]
    if any(a > b for a, b in itertools.pairwise(values)):
        raise _Malformed("the quantiles cross")
    return dict(zip(LEVELS, values, strict=True))
