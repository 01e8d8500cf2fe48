"""The command line, thin: arguments in, a table or JSON out.

Exit status: 0 ok, 1 a check failed, 2 wrong use (bad arguments, settings, input, no store).
"""

from __future__ import annotations

import json
import math
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from . import cli_audit, cli_lab, cli_runs, served
from . import periods as p
from .cli_output import (
    HELP_MARKUP,
    Config,
    Json,
    Source,
    StoreOption,
    err,
    out,
    require_folder,
    show_table,
)
from .cli_store import store_app
from .errors import ConfigError, NowcastError, QueryError
from .lab.policy import KINDS, PolicyServer, rule
from .locate import opened, store_uri

app = typer.Typer(
    help="Nowcasting first releases: stores, tasks, rewards, runs.",
    rich_markup_mode=HELP_MARKUP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
REFUSED = "error: "
"""How an answer begins, for an agent, that is none."""

app.add_typer(store_app, name="store")
for module in (cli_lab, cli_runs, cli_audit):
    module.register(app)


def main() -> None:
    """Run the command line; a known error is one message and status 2."""
    try:
        app()
    except NowcastError as error:
        err.print("error: ", style="red", end="")
        err.print(f"{type(error).__name__}: {error}", soft_wrap=True)
        sys.exit(2)
    except OSError as error:  # a disk that is full, a file that may not be read or written
        err.print("error: ", style="red", end="")
        err.print(str(error), soft_wrap=True)
        sys.exit(2)


def _version(wanted: bool) -> None:
    if wanted:
        print(version("nowcast-alfred"))
        raise typer.Exit


@app.callback()
def options(
    wanted: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


@app.command("view")
def view(
    as_of: Annotated[str, typer.Argument(help="The day, YYYY-MM-DD.")],
    series: Annotated[list[str] | None, typer.Argument(help="Series ids; none: search.")] = None,
    units: Annotated[str, typer.Option(help=f"One of {', '.join(p.UNITS)}.")] = "lin",
    last: Annotated[int, typer.Option(min=1, help="How many of the newest values.")] = 12,
    search: Annotated[str, typer.Option(help="Words to search for, without series ids.")] = "",
    store: StoreOption = None,
) -> None:
    """What an agent on that day would be told."""
    if series and search:
        raise ConfigError("give series ids or --search, not both")
    day = opened(store_uri(store)).view(as_of)
    if series:
        text = served.observations(day, series, units, last=last)
    else:
        text = served.search(day, search, limit=served.MAX_MATCHES)
    if text.startswith(REFUSED):
        raise QueryError(text.removeprefix(REFUSED))
    print(text)


@app.command("sample")
def sample(
    count: Annotated[int, typer.Option("-n", min=1, help="How many draws.")] = 10,
    start: Annotated[int, typer.Option(min=0, help="First position of the stream.")] = 0,
    config: Config = None,
    source: Source = None,
    store: StoreOption = None,
    prompts: Annotated[bool, typer.Option("--prompts", help="Print the prompts.")] = False,
    as_json: Json = False,
) -> None:
    """Draws of the task stream, with their first releases, and the size of the task space."""
    from .lab.sampling import read_settings, take

    taskset = read_settings(config, store, source)
    rows, size = take(taskset, start, count)
    if as_json:
        print(json.dumps({"targets": size, "draws": rows}))
        return
    columns = ("draw", "series_id", "reference_period", "as_of", "transform", "baseline", "first")
    show_table(f"{size} targets", columns, rows)
    if prompts:
        for row in rows:
            out.rule(row["id"])
            print(row["prompt"])


@app.command("policy")
def policy(
    kind: Annotated[str, typer.Option(help=f"One of {', '.join(KINDS)}.")] = "last-change",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8765,
) -> None:
    """Serve a canned policy as an OpenAI-compatible model, until interrupted."""
    server = PolicyServer(kind, host, port)
    print(f"{kind} at {server.base_url}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("stopped")


@app.command("demo")
def demo(
    tasks: Annotated[int, typer.Option(min=1, help="Tasks of the stream.")] = 8,
    rollouts: Annotated[int, typer.Option(min=1, help="Rollouts a task.")] = 4,
    kind: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(KINDS)}; may be repeated."),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="Folder for runs, replaced if there, and report.html.")
    ] = Path("outputs"),
    store: StoreOption = None,
) -> None:
    """Evaluate canned policies through vf-eval and report; fails if any rollout failed."""
    from rich.progress import track

    from .lab.demo import run_demo
    from .lab.report import write_report

    kinds = tuple(kind or ("last-change", "mean-12"))
    for one in kinds:
        rule(one)
    require_folder(output)
    place = store_uri(store)
    opened(place)
    shown_kinds = track(kinds, "policies", console=err, disable=not err.is_terminal)
    try:
        rows = [
            row for one in shown_kinds for row in run_demo(output, (one,), tasks, rollouts, place)
        ]
    except NowcastError as error:
        err.print(str(error), soft_wrap=True)
        raise typer.Exit(1) from None
    shown = [
        {
            "policy": row.policy,
            "rollouts": row.rollouts,
            "mean reward": f"{round(row.reward, 3) + 0.0:+.3f}",
            "mean |error| / scale": "-" if math.isnan(row.error) else f"{row.error:.3f}",
            "parsed": f"{row.parsed:.0%}",
            "lookups": f"{row.lookups:.1f}",
        }
        for row in rows
    ]
    show_table(f"{tasks} tasks x {rollouts} rollouts", tuple(shown[0]), shown)
    for row in rows:
        out.print(f"traces: {row.run}/traces.jsonl", soft_wrap=True)
    file = write_report([str(row.run) for row in rows], output / "report.html")
    out.print(f"report: {file}", soft_wrap=True)


if __name__ == "__main__":
    main()
