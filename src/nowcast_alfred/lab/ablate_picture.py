"""One picture a configuration: who earns what, and what the reward looks like from a forecast."""

from __future__ import annotations

import math
from pathlib import Path

from .ablate import CURVE, Report


def draw(report: Report, path: Path) -> None:
    """Write a PNG: mean reward against mean error, and reward over the forecast of three tasks.

    Parameters
    ----------
    report
        What the lab found.
    path
        The file to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 5), layout="constrained")
    FigureCanvasAgg(figure)
    weights = " + ".join(f"{weight:g} x {name}" for name, weight in report.rewards.items())
    figure.suptitle(f"{report.name}: {weights} ({report.elicit}, {report.tasks} tasks)")
    who, shape = figure.subplots(1, 2)

    known = [p for p in report.policies if math.isfinite(p.error)]
    for honest, marker, colour in ((True, "o", "tab:blue"), (False, "X", "tab:red")):
        shown = [p for p in known if p.honest == honest]
        errors, rewards = [p.error for p in shown], [p.reward for p in shown]
        label = "honest" if honest else "exploit"
        who.scatter(errors, rewards, marker=marker, color=colour, label=label, zorder=3)
    for p in report.policies:
        if p not in known:
            # No error to place it by, and a floor far below would press the others together.
            who.plot([], [], " ", label=f"{p.policy}: {p.reward:.2f}")
    # Names in a column of their own: baselines that do equally well lie on one another.
    for i, p in enumerate(sorted(known, key=lambda p: p.reward)):
        who.annotate(
            p.policy,
            (p.error, p.reward),
            (1.03, (i + 0.5) / len(known)),
            textcoords="axes fraction",
            fontsize=8,
            va="center",
            color="black" if p.honest else "tab:red",
            arrowprops={"arrowstyle": "-", "color": "0.75", "lw": 0.6, "relpos": (0.0, 0.5)},
        )
    who.set_xscale("log", base=2)
    who.xaxis.set_major_formatter("{x:g}")
    who.set(xlabel="mean |error|, scales", ylabel="mean reward", title="Policies")
    who.legend(fontsize=8, loc="lower left")

    for i, curve in enumerate(report.curves):
        shape.plot(CURVE, curve.rewards, color=f"C{i}", label=curve.series_id)
        shape.axvline(curve.naive, color=f"C{i}", linestyle="--", linewidth=0.8)
    shape.axvline(0.0, color="black", linewidth=0.8)
    shape.set(
        xlim=(CURVE[0], CURVE[-1]),
        xlabel="(forecast - outcome), scales; dashed: the naive forecast",
        ylabel="reward",
        title="Where the naive forecast missed little, some, much",
    )
    shape.legend(fontsize=8)
    figure.savefig(path, dpi=110, metadata={"Software": None})
