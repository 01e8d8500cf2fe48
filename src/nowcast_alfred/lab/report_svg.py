"""Pictures of a report, as SVG made by hand.

Not by matplotlib, whose SVG is a picture of text at one size and in one colour scheme: here text is
text in the page's font, colours are the page's (`report_page.STYLE`), and a picture is drawn 360
wide, the width of a phone, so that its names stay legible there. The same input is the same bytes
on any machine. Everything is a pure function from numbers to markup; `label` is what a reader who
does not see the picture is told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .report_page import COLOURS, escaped

WIDTH = 360.0
NAMES = 112.0
"""Width of the column of names at the left of `ranges`."""
LONGEST_NAME = 16
ROW = 14.0

Range = tuple[float, float, float]
"""Low end, middle and high end."""


@dataclass(frozen=True)
class Axis:
    """A linear scale from values to coordinates; values outside are put at its ends."""

    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        """The coordinate of a value."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers in [low, high], at most `most + 1` of them.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    >>> ticks(-3.0, 170.0)
    [0.0, 50.0, 100.0, 150.0]
    """
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 12) + 0.0 for i in range(first, last + 1)]


def ranges(
    label: str,
    rows: Sequence[tuple[str, Sequence[Range | None]]],
    axis: str,
    reference: float | None = None,
    limits: tuple[float, float] | None = None,
) -> str:
    """Rows of a name and ranges, one of each colour, a dot at the middle; names over one axis.

    `reference` is a value to mark. Without `limits` the axis holds every range, 0 and `reference`.
    """
    held = [one for _, marks in rows for one in marks if one is not None]
    if limits is None:
        ends = [end for one in held for end in one] + [0.0, reference or 0.0]
        limits = _widened(min(ends), max(ends))
    x = Axis(*limits, NAMES + 10, WIDTH - 14)
    heights = [max(ROW, 7.0 * len(marks) + 3) for _, marks in rows]
    bottom = 6 + math.fsum(heights)
    drawn = _x_axis(x, 6, bottom, axis)
    if reference is not None:
        at = _n(x.at(reference))
        drawn.append(f'<path class="mark" stroke-dasharray="3 3" d="M{at} 6V{_n(bottom)}"/>')
    top = 6.0
    for (name, marks), height in zip(rows, heights, strict=True):
        y = top + height / 2
        drawn.append(_name(name, NAMES, y + 3.5))
        for i, one in enumerate(marks):
            if one is None:
                continue
            low, middle, high = (_n(x.at(end)) for end in one)
            place = _n(y + 7.0 * (i - (len(marks) - 1) / 2))
            colour = i % COLOURS
            told = f"<title>{escaped(name)}: {one[1]:.3g} ({one[0]:.3g} to {one[2]:.3g})</title>"
            drawn.append(
                f'<g>{told}<path class="s{colour}" stroke-width="2" d="M{low} {place}H{high}"/>'
                f'<circle class="f{colour}" cx="{middle}" cy="{place}" r="3"/></g>'
            )
        top += height
    return _svg(label, WIDTH, bottom + 32, drawn)


def columns(
    label: str,
    shares: Sequence[float],
    names: Sequence[tuple[float, str]],
    axis: str,
    expected: Sequence[float] = (),
    colour: int = 0,
) -> str:
    """Columns of shares (0 to 1) side by side; `names` are (place in columns, text) below them.

    `expected` are shares to mark across the columns.
    """
    left, right, top, bottom = 40.0, WIDTH - 8, 8.0, 168.0
    x = Axis(0, len(shares), left, right)
    y = Axis(0, max(*shares, *expected, 0.0, 0.01) * 1.05, bottom, top)
    drawn = []
    for tick in ticks(0, y.high, 4):
        at = _n(y.at(tick))
        drawn.append(f'<path class="line" d="M{_n(left)} {at}H{_n(right)}"/>')
        drawn.append(_text(left - 4, y.at(tick) + 4, f"{100 * tick:g}%", "axis end"))
    for i, share in enumerate(shares):
        start, stop, height = x.at(i), x.at(i + 1), bottom - y.at(share)
        drawn.append(
            f'<rect class="f{colour % COLOURS}" x="{_n(start + 0.75)}" y="{_n(bottom - height)}" '
            f'width="{_n(stop - start - 1.5)}" height="{_n(height)}">'
            f"<title>{share:.1%}</title></rect>"
        )
    for i, share in enumerate(expected):
        drawn.append(
            f'<path class="mark" stroke-width="2" '
            f'd="M{_n(x.at(i))} {_n(y.at(share))}H{_n(x.at(i + 1))}"/>'
        )
    drawn += [_text(x.at(at), bottom + 14, text, "axis middle") for at, text in names]
    drawn.append(_text((left + right) / 2, bottom + 30, axis, "axis middle"))
    return _svg(label, WIDTH, bottom + 36, drawn)


def scatter(
    label: str,
    points: Sequence[tuple[float, float]],
    limit: float,
    axes: tuple[str, str],
    colour: int = 0,
) -> str:
    """Points on [0, limit] squared with the diagonal; those outside lie on the edge."""
    left, right, top, bottom = 40.0, WIDTH - 10, 20.0, 320.0
    x, y = Axis(0, limit, left, right), Axis(0, limit, bottom, top)
    drawn = _x_axis(x, top, bottom, axes[0])
    for tick in ticks(0, limit):
        drawn.append(
            f'<path class="line" d="M{_n(left)} {_n(y.at(tick))}H{_n(right)}"/>'
            + _text(left - 4, y.at(tick) + 4, f"{tick:g}", "axis end")
        )
    drawn.append(_text(4, 11, axes[1], "axis"))
    # Round ends of strokes without length: a dot in ten bytes.
    dots = "".join(f"M{_n(x.at(a))} {_n(y.at(b))}h0" for a, b in points)
    drawn.append(
        f'<path class="s{colour % COLOURS}" stroke-width="5" stroke-linecap="round" '
        f'stroke-opacity=".55" d="{dots}"/>'
    )
    drawn.append(f'<path class="mark" d="M{_n(left)} {_n(bottom)}L{_n(right)} {_n(top)}"/>')
    return _svg(label, WIDTH, bottom + 34, drawn)


@dataclass(frozen=True)
class Square:
    """A cell of a grid: its colour's strength from -1 to 1, and its text and what it tells."""

    strength: float
    told: str
    text: str = ""
    framed: bool = False


def grid(
    label: str,
    rows: Sequence[tuple[str, Sequence[Square | None]]],
    names: Sequence[str],
    side: float,
) -> str:
    """Cells in rows and columns, `side` wide; every cell is shaded, a missing one left blank.

    It keeps its size and is for a wide figure.
    """
    left, top = NAMES + 6, 18.0
    every = max(1, math.ceil(34 / side))  # a year, or a date, needs so much room
    drawn = [
        _text(left + side * (i + 0.5), 12, name, "name axis middle")
        for i, name in enumerate(names)
        if i % every == 0
    ]
    for row, (name, squares) in enumerate(rows):
        y = top + ROW * row
        drawn.append(_name(name, NAMES, y + ROW / 2 + 3.5))
        for column, one in enumerate(squares):
            if one is None:
                continue
            x, colour = left + side * column, 0 if one.strength >= 0 else 1
            box = f'x="{_n(x + 0.5)}" y="{_n(y + 0.5)}" width="{_n(side - 1)}" height="{ROW - 1}"'
            drawn.append(
                f'<g><title>{escaped(one.told)}</title><rect class="f{colour}" '
                f'fill-opacity="{_n(abs(one.strength), 2)}" {box}/>'
                + (f'<rect class="mark" {box}/>' if one.framed else "")
                + (_text(x + side / 2, y + 10.5, one.text, "name middle") if one.text else "")
                + "</g>"
            )
    width = left + side * len(names) + 2
    return _svg(label, width, top + ROW * len(rows) + 4, drawn, fixed=True)


def histogram(values: Sequence[float], low: float, high: float, count: int) -> list[float]:
    """Shares of the values in `count` equal bins; those outside are in the bins at the ends.

    >>> histogram([0.1, 0.6, 0.7, 9.0], 0.0, 1.0, 2)
    [0.25, 0.75]
    """
    found = [0] * count
    for value in values:
        share = (min(max(value, low), high) - low) / (high - low)
        found[min(int(share * count), count - 1)] += 1
    return [n / len(values) for n in found]


def bin_names(low: float, high: float, count: int) -> list[tuple[float, str]]:
    """Round numbers at their places below `count` columns over [low, high]."""
    return [(count * (t - low) / (high - low), f"{t:g}") for t in ticks(low, high)]


def limits_of(values: Sequence[float], most: float) -> tuple[float, float]:
    """Round limits around the values that lie within +-most; never empty."""
    inside = [min(max(value, -most), most) for value in values]
    low, high = min(inside, default=0.0), max(inside, default=1.0)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    first, second = ticks(low, high)[:2]
    step = second - first
    return step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)


def _x_axis(x: Axis, top: float, bottom: float, title: str) -> list[str]:
    drawn = []
    for tick in ticks(x.low, x.high):
        drawn.append(f'<path class="line" d="M{_n(x.at(tick))} {_n(top)}V{_n(bottom)}"/>')
        drawn.append(_text(x.at(tick), bottom + 14, f"{tick:g}", "axis middle"))
    drawn.append(_text((x.start + x.stop) / 2, bottom + 29, title, "axis middle"))
    return drawn


def _widened(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high - low > 1e-12 else (low - 0.5, high + 0.5)


def _name(name: str, right: float, y: float) -> str:
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "\u2026"
    told = f"<title>{escaped(name)}</title>" if short != name else ""
    return f'<text class="name end" x="{_n(right)}" y="{_n(y)}">{told}{escaped(short)}</text>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}">{escaped(text)}</text>'


def _n(value: float, decimals: int = 1) -> str:
    """A coordinate, short."""
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".") if value else "0"


def _svg(label: str, width: float, height: float, drawn: list[str], fixed: bool = False) -> str:
    size = f' style="min-width:{_n(0.9 * width)}px;max-width:{_n(1.2 * width)}px"' if fixed else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escaped(label)}"{size} '
        f'viewBox="0 0 {_n(width)} {_n(height)}" fill="none">\n' + "\n".join(drawn) + "\n</svg>"
    )
