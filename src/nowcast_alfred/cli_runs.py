"""Commands around a run of a model: readiness, price, sft, report."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .cli_output import (
    DEFAULT_STORE,
    Config,
    Json,
    Source,
    StoreOption,
    err,
    out,
    require_folder,
    show_table,
)
from .errors import ConfigError, InputError

if TYPE_CHECKING:
    from .lab.price import Cost
    from .lab.readiness import Facts
    from .lab.traces import Rollout


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("readiness")(readiness)
    app.command("price")(price)
    app.command("sft")(sft)
    app.command("report")(report)


def readiness(
    run: Annotated[Path, typer.Argument(help="Folder of a vf-eval run.")],
    as_json: Json = False,
) -> None:
    """Whether a model may start with RL, read off a baseline run. Status 0 if training can begin
    (with RL, or with SFT on the format), 1 if the setup or more groups come first."""
    from .lab.readiness import facts_of, judge

    facts = facts_of(_rollouts(run))
    verdict = judge(facts)
    if as_json:
        said = {
            "verdict": asdict(verdict),
            "facts": {**asdict(facts), "tied_share": facts.tied_share},
        }
        print(json.dumps(said))
    else:
        rows = [{"what": what, "value": value} for what, value in _shown(facts)]
        show_table(run.name, ("what", "value"), rows)
        out.print(f"verdict: {verdict.outcome}", style="bold")
        for reason in verdict.reasons:
            out.print(f"- {reason}", soft_wrap=True)
    if verdict.outcome in ("fix the setup", "no verdict yet"):
        raise typer.Exit(1)


def _rollouts(run: Path) -> list[Rollout]:
    from .lab.traces import TRACES, read_run

    found = read_run(run)
    if not found:
        raise InputError(f"{run} has no rollouts: its {TRACES} is empty; see its logs")
    return found


def _shown(facts: Facts) -> list[tuple[str, str]]:
    """The facts of a run as people read them."""
    smallest, largest = facts.group_size
    size = f"{largest}" if smallest == largest else f"{smallest} to {largest}"
    variance = facts.variance
    return [
        ("rollouts", f"{facts.rollouts}, {facts.failed} failed"),
        ("groups", f"{facts.groups}, of {size} rollouts"),
        ("well-formed replies", _percent(facts.parsed)),
        ("refused", _counts(facts.refusals)),
        ("trained on", ", ".join(f"{w:g} x {name}" for name, w in facts.weights.items()) or "-"),
        ("mean reward", _number(facts.reward)),
        ("variance within groups", _number(variance.within)),
        ("variance between groups", _number(variance.between)),
        ("intraclass correlation", _number(variance.icc)),
        ("variance within that is format", _percent(facts.format_variance)),
        ("tied groups", f"{_percent(facts.tied_share)} of {facts.compared}"),
        ("why tied", _counts(facts.tied)),
        ("rollouts with zero advantage", _percent(facts.zero_advantage)),
        ("mean reward on [0, 1]", _number(facts.unit_reward)),
        (f"against the band: {facts.band_reward or 'nothing'}", _number(facts.band_mean)),
        ("clipped (beats_baseline)", _percent(facts.clipped)),
        ("beyond 10 scales", _percent(facts.beyond)),
        ("lookups a rollout", _number(facts.lookups)),
        ("tool calls", f"{facts.tool_calls}, {facts.tool_errors} in error"),
        ("truncated", _percent(facts.truncated)),
        ("cut short before a forecast", _percent(facts.cut_short)),
        ("stops", _counts(facts.stops)),
        ("errors", _counts(facts.errors)),
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in counts.items()) or "-"


def price(
    run: Annotated[Path | None, typer.Argument(help="Folder of a vf-eval run to measure.")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Minutes a box lives, instead of the run's own times.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Training steps.")] = None,
    batch: Annotated[int | None, typer.Option(help="Rollouts a step.")] = None,
    months: Annotated[float, typer.Option(help="For how long the traces are kept.")] = 1.0,
    prices: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="TOML of prices; default the shipped, dated one."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """What a rollout costs in boxes and traces, and a run of --steps times --batch rollouts."""
    from .lab.price import estimate, read_prices

    listed = read_prices(prices)
    rollouts = _rollouts(run) if run is not None else []
    found = estimate(listed, rollouts, minutes=minutes, steps=steps, batch=batch, months=months)
    if as_json:
        print(json.dumps({**asdict(found), "prices": listed.model_dump(mode="json")}))
        return
    title = f"{listed.currency}, {found.measured} rollouts measured"
    if found.rollouts is not None:
        title += f", {found.rollouts} in the run"
    rows = [_cost_row(cost, found.rollouts is not None) for cost in found.costs]
    show_table(title, tuple(rows[0]), rows)
    if found.stages:
        times = ", ".join(f"{name} {seconds:.1f}" for name, seconds in found.stages.items())
        out.print(f"mean seconds: {times}", soft_wrap=True)
    for part in (listed.sandbox, listed.traces):
        out.print(f"prices of {part.date}: {part.source}", soft_wrap=True)
    for note in found.notes:
        out.print(f"- {note}", soft_wrap=True)


def _cost_row(cost: Cost, has_run: bool) -> dict[str, str]:
    row = {
        "item": cost.item,
        "a rollout uses": f"{cost.amount:.4g} {cost.unit}",
        "a rollout": f"{cost.rollout:.6f}",
        "10 % to 90 %": _range(cost.p10, cost.p90, 6),
    }
    if has_run and cost.run is not None:
        row |= {"the run": f"{cost.run:,.2f}", "+- 2 se": _range(cost.low, cost.high, 2)}
    return row


def _range(low: float | None, high: float | None, decimals: int) -> str:
    if low is None or high is None:
        return "-"
    return f"{low:,.{decimals}f} to {high:,.{decimals}f}"


def sft(
    output: Annotated[Path, typer.Option(help="Folder for train.parquet and manifest.json.")],
    config: Config = None,
    source: Source = None,
    count: Annotated[
        int | None, typer.Option("-n", min=1, help="Rows: 2,000 of the stream, all of a run.")
    ] = None,
    start: Annotated[int, typer.Option(min=0, help="First position of the stream.")] = 0,
    run: Annotated[
        Path | None, typer.Option("--from-run", help="Rows from the traces of a vf-eval run.")
    ] = None,
    min_reward: Annotated[
        float | None, typer.Option(help="Keep rows with at least this reward. Favours luck.")
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> None:
    """Warm-start data for prime-rl's SFT: conversations about training draws, through the tools."""
    from rich.progress import Progress

    from .lab.sampling import read_settings
    from .lab.sft import generate
    from .lab.sft_rows import write
    from .lab.sft_run import from_run

    require_folder(output)
    taskset = read_settings(config, store, source)
    if run is not None:
        if start:
            raise ConfigError("--start is a position of the stream; --from-run has no use for it")
        export = from_run(run, taskset, count, min_reward)
    else:
        rows = count or 2000
        with Progress(console=err, disable=not err.is_terminal, transient=True) as progress:
            bar = progress.add_task("rows", total=rows)
            export = generate(taskset, rows, start, min_reward, lambda: progress.advance(bar))
    write(export, output)
    about = export.about
    if as_json:
        print(json.dumps(about))
        return
    methods = [{"method": name, "rows": number} for name, number in about["method"].items()]
    show_table(f"{about['rows']} rows in {output}", ("method", "rows"), methods)
    for note in export.notes():
        out.print(f"- {note}", soft_wrap=True)


def report(
    places: Annotated[
        list[str] | None,
        typer.Argument(help=f"Folders of vf-eval runs, or one store. A store: {DEFAULT_STORE}"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="The file; default RUN-report.html or, of several, report.html beside the (first) "
            "run, outputs/STORE-report.html for a store."
        ),
    ] = None,
    series: Annotated[
        str | None,
        typer.Option(help="Whose revision triangle is shown; default the most revised series."),
    ] = None,
) -> None:
    """One HTML file about a run, several runs beside each other, or a store; opens anywhere."""
    from rich.progress import Progress

    from .lab.report import write_report
    from .locate import store_uri

    if output is not None:
        if output.is_dir():
            raise ConfigError(f"--output {output} is a folder; name the file to write")
        require_folder(output.parent)
    with Progress(console=err, disable=not err.is_terminal, transient=True) as progress:
        bar = progress.add_task("series", total=None)
        file = write_report(
            places or [store_uri()],
            output,
            series,
            lambda done, total: progress.update(bar, completed=done, total=total),
        )
    out.print(f"report: {file}", soft_wrap=True)
