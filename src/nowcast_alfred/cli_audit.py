"""Commands that show what can leak: audit, recall."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .cli_output import Config, Json, StoreOption, err, out, show_table


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("audit")(audit)
    app.command("recall")(recall)


def audit(
    store: StoreOption = None,
    config: Config = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws to derive again.")] = 2000,
    dist: Annotated[
        list[Path] | None, typer.Option(help="A wheel or sdist to search; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Every route to the answer as a check with evidence; status 1 when one is open."""
    from rich.progress import Progress

    from .lab.audit import run

    with Progress(console=err, disable=not err.is_terminal, transient=True) as bar:
        task = bar.add_task("audit", total=None)

        def progress(what: str, steps: int) -> None:
            if what:
                bar.reset(task, description=what, total=steps)
            else:
                bar.advance(task)

        reports = run(config, store, draws, dist, progress)
    if as_json:
        print(json.dumps({"audits": [report.as_dict() for report in reports]}))
    else:
        for report in reports:
            rows = [{**vars(one), "evidence": _told(one.evidence)} for one in report.findings]
            title = f"{report.source or 'default settings'} on {report.store}"
            show_table(title, ("route", "checked", "status", "evidence"), rows)
            for one in report.findings:
                if one.advice:
                    line = f"{one.status}: {one.route}: {one.advice}"
                    out.print(line, soft_wrap=True)
    if any(report.opened for report in reports):
        raise typer.Exit(1)


def _told(evidence: Any) -> str:
    """Evidence for people: a line a name, lists and tables within in one line."""
    lines = []
    for name, value in evidence.items():
        if isinstance(value, dict):
            value = [f"{key} {count}" for key, count in value.items()]
        lines.append(f"{name}: {', '.join(map(str, value)) if isinstance(value, list) else value}")
    return "\n".join(lines)


def recall(
    run_with: Annotated[Path, typer.Argument(help="Folder of a vf-eval run with data.")],
    run_without: Annotated[
        Path, typer.Argument(help='Folder of a run of the same tasks with context = "none".')
    ],
    as_json: Json = False,
) -> None:
    """The share of a model's skill that survives without data, net of misses, which cancel hits;
    and the hits, which tell recalled numbers."""
    from .lab.long_run import LEAST
    from .lab.recall import NEAR
    from .lab.recall import recall as compare

    found = compare(run_with, run_without)
    if as_json:
        print(json.dumps(found.as_dict()))
        return
    rows = [
        {
            "tasks of": f"{row.kind} {row.name}".strip(),
            "tasks": row.tasks,
            "skill with data": _with_interval(row.with_data, row.with_interval),
            "without": _with_interval(row.without_data, row.without_interval),
            "share that survives": _with_interval(row.share, row.share_interval),
            "hits %: without/ baseline/ with": "/".join(
                map(_percent, (row.hits.without_data, row.hits.baseline, row.hits.with_data))
            ),
        }
        for row in found.rows
    ]
    show_table(f"{found.tasks} tasks in both runs, 95 % intervals", tuple(rows[0]), rows)
    for what, (full, bare) in (
        ("tasks only in one run", found.unpaired),
        ("replies without a forecast, counted as the baseline", found.unparsed),
        ("rollouts that failed, left out", found.failed),
    ):
        out.print(f"{what}: {full} with data, {bare} without")
    hits = found.rows[0].hits
    lines = [
        f"-: fewer than {LEAST} months of release, or no share since the skill with data is not "
        "surely above zero",
        "share that survives: net, misses cancel hits; recalled numbers show in the hits",
        f"hits: forecasts within {NEAR} scales of the outcome, of the replies with a forecast; the "
        "baseline's on the tasks with one without data",
    ]
    lines += [
        f"no reply {which} data gave a forecast: the share that survives says nothing"
        for which, share in (("with", hits.with_data), ("without", hits.without_data))
        if share is None
    ]
    if hits.recalled:
        lines.append(
            f"numbers are recalled: {_percent(hits.without_data)} % hits without data, surely more "
            f"than the baseline's {_percent(hits.baseline)} % and the "
            f"{_percent(hits.other_periods)} % of the same forecasts in other periods"
        )
    for line in lines:
        out.print(line, soft_wrap=True)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}"


def _with_interval(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None:
        return "-"
    return f"{value:+.2f}" + (f" ({interval[0]:+.2f} to {interval[1]:+.2f})" if interval else "")
