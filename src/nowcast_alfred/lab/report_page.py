"""The page of a report: one HTML file that loads nothing and runs nothing.

Every text from data goes through `escaped`, and a content security policy forbids whatever might
slip past it. Only tables and wide pictures scroll sideways, each in a box of its own, so a phone
shows the page at its own width; colours follow the reader's light or dark scheme.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Cell = str | int | float | None

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

COLOURS = 6
"""How many things a picture tells apart: classes f0 to f5 fill, s0 to s5 draw, t0 to t5 write."""
STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1b1f24; --faint: #5b6470;
  --line: #d5dae0; --box: #f5f7f9; --c0: #1f6fb2; --c1: #c2571a; --c2: #2e8b57; --c3: #8a4fbf;
  --c4: #b0891a; --c5: #c23a6b; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --ink: #e4e7eb; --faint: #9aa4b0;
  --line: #39414b; --box: #1d2228; --c0: #6bb1ec; --c1: #ef9a5f; --c2: #6cc796; --c3: #bd95e6;
  --c4: #dcbb57; --c5: #ee82a8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 66rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p, li { max-width: 46rem; } a { color: var(--c0); }
nav ul { padding-left: 1.2rem; columns: 17rem; } nav li { break-inside: avoid; }
.scroll { overflow-x: auto; margin-bottom: .8rem; }
.scroll.tall { max-height: 34rem; overflow-y: auto; }
table { border-collapse: collapse; font-size: .87rem; }
caption { text-align: left; color: var(--faint); padding-bottom: .3rem; }
th, td { padding: .2rem 1rem .2rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); white-space: nowrap; }
td.text { white-space: normal; min-width: 11rem; }
td.long { white-space: normal; min-width: min(26rem, 75vw); }
td.number, th.number { text-align: right;
  font-variant-numeric: tabular-nums; }
.figures { columns: 21rem; column-gap: 2rem; } .figures figure { break-inside: avoid; }
figure { margin: 0 0 1rem; max-width: 29rem; min-width: 0; } figure.wide { max-width: none; }
figure svg { display: block; width: 100%; height: auto; }
figcaption { font-size: .87rem; color: var(--faint); }
details { margin: .4rem 0; border: 1px solid var(--line); border-radius: 4px; }
summary { padding: .4rem .6rem; cursor: pointer; } details > div { padding: 0 .6rem .4rem; }
pre { background: var(--box); padding: .6rem; margin: .2rem 0 .8rem; font-size: .8rem;
  white-space: pre-wrap; max-height: 24rem; overflow-y: auto; }
svg text { font: 11px system-ui, -apple-system, "Segoe UI", sans-serif; fill: var(--ink); }
svg .name { font-size: 10px; } svg .axis { fill: var(--faint); }
svg .line { stroke: var(--line); } svg .mark { stroke: var(--ink); }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
""" + "".join(
    f".f{i} {{ fill: var(--c{i}); }} .s{i} {{ stroke: var(--c{i}); }} "
    f".t{i} {{ color: var(--c{i}); }}\n"
    for i in range(COLOURS)
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Section:
    """A part of a page: its heading, and its HTML."""

    title: str
    body: str


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """A whole document. `lead` is HTML that stands above the contents list."""
    contents = "".join(
        f'<li><a href="#part-{i}">{escaped(section.title)}</a></li>'
        for i, section in enumerate(sections, 1)
    )
    parts = "".join(
        f'<section id="part-{i}"><h2>{escaped(section.title)}</h2>\n{section.body}</section>\n'
        for i, section in enumerate(sections, 1)
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<link rel="icon" href="data:,">
<title>{escaped(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escaped(title)}</h1>
{lead}
<nav aria-label="Contents"><ul>{contents}</ul></nav>
<main>
{parts}</main>
</body>
</html>
"""


def escaped(text: object) -> str:
    """A text for HTML, in element or attribute: markup, control characters and lone surrogates
    lose their effect.

    >>> escaped('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    whole = str(text).encode("utf-8", "replace").decode()
    return html.escape(_UNPRINTABLE.sub("\ufffd", whole))


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{escaped(text)}</p>\n"


def pre(text: str, most: int) -> str:
    """A text as it stands, cut after `most` characters with a word on how much is left out."""
    left = len(text) - most
    if left > 0:
        text = f"{text[:most]}\n[{left:,} more characters]"
    return f'<pre tabindex="0">{escaped(text)}</pre>\n'


def details(summary: str, body: str) -> str:
    """A block of HTML that opens on a click on its plain summary."""
    return f"<details><summary>{escaped(summary)}</summary><div>{body}</div></details>\n"


def figure(svg: str, caption: str, wide: bool = False) -> str:
    """A picture with its caption. A wide one scrolls in its own box where it does not fit."""
    kind = ' class="wide"' if wide else ""
    shown = f'<div class="scroll" tabindex="0">{svg}</div>' if wide else svg
    return f"<figure{kind}>{shown}<figcaption>{escaped(caption)}</figcaption></figure>\n"


def figures(shown: Iterable[str]) -> str:
    """Figures beside each other where there is room."""
    return f'<div class="figures">{"".join(shown)}</div>\n'


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], caption: str = "") -> str:
    """A table that scrolls in its own box; numbers stand to the right, None is a dash."""
    numeric = [
        any(isinstance(row[at], int | float) for row in rows)
        and not any(isinstance(row[at], str) for row in rows)
        for at in range(len(columns))
    ]
    kinds = [' class="number"' if right else "" for right in numeric]
    head = "".join(
        f'<th scope="col"{kind}>{escaped(name)}</th>'
        for name, kind in zip(columns, kinds, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(_cell(value, kind) for value, kind in zip(row, kinds, strict=True))}</tr>\n"
        for row in rows
    )
    above = f"<caption>{escaped(caption)}</caption>" if caption else ""
    tall = " tall" if len(rows) > 30 else ""
    return (
        f'<div class="scroll{tall}" tabindex="0"><table>{above}<thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>\n"
    )


def _cell(value: Cell, kind: str) -> str:
    text = shown(value)
    if not kind and len(text) > 32:
        kind = ' class="long"' if len(text) > 100 else ' class="text"'
    return f"<td{kind}>{escaped(text)}</td>"


def shown(value: Cell) -> str:
    """A value of a table as text.

    >>> shown(12345), shown(0.123456), shown(None)
    ('12,345', '0.123', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value + 0.0:.3g}" if abs(value) < 1000 else f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else value
