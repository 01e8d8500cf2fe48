"""Commands that compare forecasts and rewards before a model is run: backtest, ablate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .cli_output import Config, Json, Source, StoreOption, err, out, require_folder, show_table


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("backtest")(backtest)
    app.command("ablate")(ablate)


def backtest(
    config: Config = None,
    source: Source = None,
    store: StoreOption = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Only so many targets; each series keeps its share."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="Processes; default one per processor (of the cluster with Ray)."),
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Run on a Ray cluster (RAY_ADDRESS, else this machine).")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for backtest.csv, backtest.json and backtest.png."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Every baseline over all targets of a store, relative to last_change."""
    from rich.console import Console
    from rich.progress import Progress

    from .lab import backtest_picture
    from .lab.backtest import run
    from .lab.sampling import read_settings

    require_folder(output)
    space = read_settings(config, store, source).stream().space
    with Progress(console=err, disable=not err.is_terminal) as bar:
        task = bar.add_task("series", total=None)

        def step(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        found = run(space, sample, processes, ray, step)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / "backtest.csv").write_text(found.as_csv())
        (output / "backtest.json").write_text(found.as_json())
        backtest_picture.draw(found, output / "backtest.png")
    if as_json:
        print(found.as_json(), end="")
        return
    tables = backtest_picture.tables(found)
    # Wider than a narrow terminal rather than cut: every figure must be readable in a log.
    wide = Console(width=max(out.width, *map(backtest_picture.width_of, tables)))
    about = f"{found.targets} of {found.space} targets, last as-of day of each"
    wide.print(f"{about}; *: lowest of a line, if below 1", highlight=False)
    for table in tables:
        wide.print()
        wide.print(table)
    if output is not None:
        _say_where(output, "backtest.csv, backtest.json, backtest.png")


def ablate(
    overlays: Annotated[
        list[Path],
        typer.Argument(exists=True, dir_okay=False, help="TOMLs, one a reward configuration."),
    ],
    base: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="What they are merged over; default base.toml beside each.",
        ),
    ] = None,
    store: StoreOption = None,
    tasks: Annotated[int, typer.Option(min=2, help="Tasks of the stream.")] = 400,
    group: Annotated[int, typer.Option(min=2, help="Rollouts a task.")] = 8,
    seed: Annotated[int, typer.Option(help="Another seed, other noise.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for ablate.csv, ablate.json and one PNG a configuration."),
    ] = None,
    as_json: Json = False,
) -> None:
    """What each reward configuration would teach, from policies of known quality."""
    from rich.progress import track

    from .lab import ablate_report as report
    from .lab.ablate import study
    from .lab.ablate_picture import draw
    from .lab.variants import read_variants

    require_folder(output)
    variants = read_variants(overlays, base, store)
    shown = track(variants, "configurations", console=err, disable=not err.is_terminal)
    found = [study(variant, tasks, group, seed) for variant in shown]
    advised = report.advise(found)
    document = report.as_json(found, advised, group, seed)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / "ablate.json").write_text(document)
        (output / "ablate.csv").write_text(report.as_csv(found))
        for one in found:
            draw(one, output / f"{one.name}.png")
    if as_json:
        print(document, end="")
        return
    for title, columns, rows in report.tables(found):
        show_table(title, columns, rows)
    for advice in advised:
        print(report.as_text(advice))
    if output is not None:
        _say_where(
            output, f"ablate.csv, ablate.json, {', '.join(f'{one.name}.png' for one in found)}"
        )


def _say_where(folder: Path, names: str) -> None:
    out.print(f"in {folder}: {names}", soft_wrap=True)
