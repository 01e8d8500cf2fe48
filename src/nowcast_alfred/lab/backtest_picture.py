"""A backtest for the eye: tables of relative errors, and one picture of them.

The picture has two panels over one logarithmic axis, the mean absolute error relative to
`last_change`: a line per series, and a line per time before, in and after 2020, with a dot per
baseline. Its height follows the number of series, so that 40 names stay legible. matplotlib is
imported when a picture is drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .backtest import NAMES, SCALES_UNIT, Backtest

SHOWN = tuple(name for name in NAMES if name != "last_change")
MARKERS = "so^vDPX*d"
POOLED = ("category", "horizon", "period", "all")
Lines = dict[str, dict[str, float]]


def relative(found: Backtest, kind: str) -> dict[str, dict[str, dict[str, Any]]]:
    """The rows of one kind: group -> baseline -> row, in the order of the backtest."""
    groups: dict[str, dict[str, dict[str, Any]]] = {}
    for row in found.rows:
        if row["kind"] == kind:
            groups.setdefault(row["group"], {})[row["baseline"]] = row
    return groups


def tables(found: Backtest) -> list[Table]:
    """Relative errors by series, and of pooled groups.

    The lowest of a line has a star; none has where nothing is better than `last_change`.
    """
    by_series = _table("MAE relative to last_change, by series (MAE: of last_change, in its unit)")
    for key, rows in relative(found, "series").items():
        _line(by_series, key, rows)
    pooled = _table(f"The same for pooled groups, errors in {SCALES_UNIT} ({found.scale})")
    for kind in POOLED:
        for name, rows in relative(found, kind).items():
            _line(pooled, name if kind == "all" else f"{kind} {name}", rows)
        pooled.add_section()
    return [by_series, pooled]


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for name in ("n", "MAE", *SHOWN):
        table.add_column(name.replace("_", "\n"), justify="right", no_wrap=True)
    return table


def _line(table: Table, name: str, rows: dict[str, dict[str, Any]]) -> None:
    reference = rows["last_change"]
    ratios = [rows[key]["relative_mae"] for key in SHOWN]
    best = min((ratio for ratio in ratios if ratio is not None and ratio < 1.0), default=None)
    cells = [_cell(ratio, best) for ratio in ratios]
    table.add_row(Text(name), str(reference["n"]), f"{reference['mae']:.3g}", *cells)


def _cell(ratio: float | None, best: float | None) -> str:
    if ratio is None:
        return "- "
    return f"[bold]{ratio:.2f}*[/bold]" if ratio == best else f"{ratio:.2f} "


def width_of(table: Table) -> int:
    """How many columns a table takes when nothing is cut."""
    return Console(width=1000).measure(table).maximum


def draw(found: Backtest, path: Path) -> None:
    """Write the picture as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter, NullFormatter

    by_series = _lines(found, "series")
    ordered = sorted(by_series, key=lambda key: min(by_series[key].values(), default=1.0))
    by_period = _lines(found, "period") | _lines(found, "all")
    panels: list[tuple[str, Lines]] = [
        ("by series", {key: by_series[key] for key in ordered}),
        ("pooled, by reference period", by_period),
    ]
    heights = [len(lines) + 1.0 for _, lines in panels]
    figure, axes = pyplot.subplots(
        2,
        1,
        sharex=True,
        figsize=(9.0, 2.0 + 0.24 * sum(heights)),
        height_ratios=heights,
        layout="constrained",
    )
    for axis, (title, lines) in zip(axes, panels, strict=True):
        for at, name in enumerate(SHOWN):
            dots = [(row[name], place) for place, row in enumerate(lines.values()) if name in row]
            axis.plot(
                [x for x, _ in dots],
                [y for _, y in dots],
                MARKERS[at],
                color=f"C{at}",
                label=name,
                markersize=6 if name == "best_of" else 4.5,
                alpha=0.85,
                linestyle="none",
            )
        axis.axvline(1.0, color="black", linewidth=1.0)
        axis.set_yticks(range(len(lines)), list(lines), fontsize=8)
        axis.set_ylim(len(lines) - 0.5, -0.5)
        axis.grid(axis="both", color="0.9", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.set_title(title, fontsize=10, loc="left")
    axes[1].set_xscale("log")
    axes[1].xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes[1].xaxis.set_minor_formatter(NullFormatter())
    ticks = [0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0]
    low, high = axes[1].get_xlim()
    axes[1].set_xticks([x for x in ticks if low <= x <= high])
    axes[1].set_xlabel("mean absolute error relative to last_change (left of 1: better)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=5, fontsize=8)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def _lines(found: Backtest, kind: str) -> Lines:
    """Ratios that a logarithmic axis can show: those of a baseline that is never wrong are not."""
    return {
        group: {name: rows[name]["relative_mae"] for name in SHOWN if rows[name]["relative_mae"]}
        for group, rows in relative(found, kind).items()
    }
