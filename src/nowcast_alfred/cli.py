"""The command line, thin: arguments in, a table or JSON out.

Exit status: 0 ok, 1 a check failed, 2 wrong use (bad arguments, settings, input, no store).
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from . import periods as p
from . import served
from .catalog import load_catalog
from .errors import InputError, NowcastError
from .lab.policy import KINDS, PolicyServer
from .locate import build_synthetic, opened, store_uri
from .sources.files import read_long
from .store import SeriesInput, publish, verify_store
from .store.files import Files
from .store.reader import read_manifest

app = typer.Typer(
    help="Nowcasting first releases: stores, samples, demonstrations.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
store_app = typer.Typer(help="Make and check vintage stores.", no_args_is_help=True)
app.add_typer(store_app, name="store")

Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", help="Folder or s3:// URI; default NOWCAST_ALFRED_STORE, else the embedded one."
    ),
]
StoreArgument = Annotated[
    str | None,
    typer.Argument(
        help="Folder or s3:// URI; default NOWCAST_ALFRED_STORE, else the embedded one."
    ),
]
out = Console()
err = Console(stderr=True)


def main() -> None:
    """Run the command line; a known error is one message and status 2."""
    try:
        app()
    except NowcastError as error:
        err.print(f"[red]error:[/red] {type(error).__name__}: ", end="")
        err.print(str(error), markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)


@store_app.command("synth")
def store_synth(
    folder: Annotated[Path, typer.Argument(help="Where to write the store.")],
    seed: Annotated[int, typer.Option(help="Another seed, another economy.")] = 0,
) -> None:
    """Write the synthetic store: about 40 series with vintages, from a documented process."""
    _say(f"fingerprint {build_synthetic(folder, seed)}", folder)


@store_app.command("import")
def store_import(
    folder: Annotated[Path, typer.Argument(help="The store to write to.")],
    files: Annotated[list[Path], typer.Argument(help="Parquet or CSV files.")],
    catalog: Annotated[Path, typer.Option(help="Catalog TOML with the series' metadata.")],
    format: Annotated[
        str,
        typer.Option(help="long: columns series_id, date, realtime_start, value[, start_lower]."),
    ] = "long",
    accept_history: Annotated[
        bool, typer.Option(help="Let the files change what past days could see.")
    ] = False,
) -> None:
    """Import vintages from files; nothing is written if any row is bad."""
    if format != "long":
        raise InputError(f"unknown format {format!r}; one of: long")
    entries = load_catalog(catalog)
    inputs = [SeriesInput(meta, rows) for path in files for meta, rows in read_long(path, entries)]
    manifest = publish(folder, inputs, accept_history)
    _say(f"{len(inputs)} series; fingerprint {manifest.fingerprint}", folder)


def _say(text: str, folder: Path) -> None:
    out.print(f"{folder}: {text}", markup=False, highlight=False, soft_wrap=True)


@store_app.command("info")
def store_info(store: StoreArgument = None, as_json: Json = False) -> None:
    """What a store holds: series, vintages, source, rights to train."""
    held = opened(store_uri(store))
    manifest = read_manifest(Files(held.uri))
    rows = [
        {**asdict(entry), "id": key, "training": held.meta(key).training, **_rights(held, key)}
        for key, entry in manifest.series.items()
    ]
    if as_json:
        print(json.dumps({"uri": held.uri, "fingerprint": held.fingerprint, "series": rows}))
        return
    columns = ("id", "rows", "first_vintage", "last_vintage", "source", "training")
    _table(f"{held.uri}  {held.fingerprint[:16]}", columns, rows)
    for text in sorted({row["attribution"] for row in rows if row["attribution"]}):
        out.print(text, markup=False)


def _rights(held: Any, key: str) -> dict[str, str]:
    meta = held.meta(key)
    return {"licence": meta.licence, "attribution": meta.attribution}


@store_app.command("verify")
def store_verify(store: StoreArgument = None, as_json: Json = False) -> None:
    """Read and re-hash every file of a store; status 1 if any is not as it should be."""
    manifest, faults = verify_store(store_uri(store))
    if as_json:
        print(json.dumps({"fingerprint": manifest.fingerprint, "faults": faults}))
    else:
        for fault in faults:
            out.print(fault, markup=False, soft_wrap=True)
        out.print(f"{len(manifest.series)} series, {len(faults)} faults, {manifest.fingerprint}")
    if faults:
        raise typer.Exit(1)


@app.command("view")
def view(
    as_of: Annotated[str, typer.Argument(help="The day, YYYY-MM-DD.")],
    series: Annotated[list[str] | None, typer.Argument(help="Series ids; none: search.")] = None,
    units: Annotated[str, typer.Option(help=f"One of {', '.join(p.UNITS)}.")] = "lin",
    last: Annotated[int, typer.Option(help="How many of the newest values.")] = 12,
    search: Annotated[str, typer.Option(help="Words to search for.")] = "",
    store: StoreOption = None,
) -> None:
    """What an agent on that day would be told."""
    day = opened(store_uri(store)).view(as_of)
    if series:
        print(served.observations(day, series, units, last=last))
    else:
        print(served.search(day, search, limit=served.MAX_MATCHES))


@app.command("sample")
def sample(
    count: Annotated[int, typer.Option("-n", help="How many draws.")] = 10,
    start: Annotated[int, typer.Option(help="First position of the stream.")] = 0,
    config: Annotated[
        Path | None, typer.Option(help="TOML with [env.taskset] or [taskset].")
    ] = None,
    store: StoreOption = None,
    prompts: Annotated[bool, typer.Option(help="Print the prompts.")] = False,
    as_json: Json = False,
) -> None:
    """Draws of the task stream, with their first releases, and the size of the task space."""
    from .lab.sampling import read_settings, take

    taskset = read_settings(config, store)
    rows, size = take(taskset, start, count)
    if as_json:
        print(json.dumps({"targets": size, "draws": rows}))
        return
    columns = ("draw", "series_id", "reference_period", "as_of", "transform", "baseline", "first")
    _table(f"{size} targets", columns, rows)
    if prompts:
        for row in rows:
            out.rule(row["id"])
            print(row["prompt"])


@app.command("policy")
def policy(
    kind: Annotated[str, typer.Option(help=f"One of {', '.join(KINDS)}.")] = "last-change",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8765,
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
    tasks: Annotated[int, typer.Option(help="Tasks of the stream.")] = 8,
    rollouts: Annotated[int, typer.Option(help="Rollouts a task.")] = 4,
    kind: Annotated[list[str] | None, typer.Option(help=f"Policies: {', '.join(KINDS)}.")] = None,
    output: Annotated[Path, typer.Option(help="Folder for runs.")] = Path("outputs"),
    store: StoreOption = None,
) -> None:
    """Evaluate canned policies through vf-eval; fails if any rollout failed."""
    from .lab.demo import run_demo

    kinds = tuple(kind or ("last-change", "mean-12"))
    try:
        rows = run_demo(output, kinds, tasks, rollouts, store and store_uri(store))
    except NowcastError as error:
        err.print(str(error), markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    shown = [
        {
            "policy": row.policy,
            "rollouts": row.rollouts,
            "mean reward": f"{round(row.reward, 3) + 0.0:+.3f}",
            "mean |error| / scale": f"{row.error:.3f}",
            "parsed": f"{row.parsed:.0%}",
            "lookups": f"{row.lookups:.1f}",
        }
        for row in rows
    ]
    _table(f"{tasks} tasks x {rollouts} rollouts", tuple(shown[0]), shown)
    for row in rows:
        out.print(f"traces: {row.run}/traces.jsonl", soft_wrap=True, highlight=False)


def _table(title: str, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*(_cell(row[column]) for column in columns))
    out.print(table)


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
