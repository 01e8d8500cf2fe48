"""`nowcast-alfred store ...`: make, update, compare and check vintage stores."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from .catalog import load_catalog
from .cli_output import HELP_MARKUP, Json, StoreArgument, err, out, show_table
from .cli_sources import build_bls, build_rtdsm, import_files
from .errors import ConfigError, PermissionMissing
from .locate import build_synthetic, opened, store_uri
from .sources import fred_build
from .sources.fred import RATE, Fred
from .sources.fred_terms import NOTICE, training_right
from .store import open_store, verify_store
from .store.diff import Row, difference
from .store.files import Files
from .store.manifest import MANIFEST, full_fingerprint
from .store.merge import merge
from .store.reader import read_manifest

store_app = typer.Typer(
    help="Make and check vintage stores.", no_args_is_help=True, rich_markup_mode=HELP_MARKUP
)

AcceptHistory = Annotated[
    bool,
    typer.Option(
        "--accept-history", help="Let new data change what past days could see, and record it."
    ),
]
Rate = Annotated[float, typer.Option(help="Requests a second, over everything.")]
BaseUrl = Annotated[
    str | None, typer.Option(help="Another server than FRED; default FRED_BASE_URL, else FRED.")
]


@store_app.command("synth")
def store_synth(
    folder: Annotated[Path, typer.Argument(help="Where to write the store.")],
    seed: Annotated[int, typer.Option(help="Another seed, another economy.")] = 0,
) -> None:
    """Write the synthetic store: about 40 series with vintages, from a documented process."""
    if (folder / MANIFEST).exists():
        raise ConfigError(
            f"{folder} holds a store already: name a new folder (`nowcast-alfred store merge` "
            "makes one store from several)"
        )
    _say(f"fingerprint {build_synthetic(folder, seed)}", folder)


@store_app.command("import")
def store_import(
    folder: Annotated[Path, typer.Argument(help="The store to write to.")],
    files: Annotated[list[Path], typer.Argument(help="Files; for fred-md, a folder of them.")],
    catalog: Annotated[Path, typer.Option(help="Catalog TOML with the series' metadata.")],
    format: Annotated[
        str,
        typer.Option(
            help="long (series_id, date, realtime_start, value[, start_lower]), alfred-wide "
            "(PAYEMS_20240105 columns, CSV or XLSX), fred-md (a folder of monthly vintages)."
        ),
    ] = "long",
    rights: Annotated[
        str | None,
        typer.Option(help="Rights to train on these series, instead of the catalog's."),
    ] = None,
    accept_history: AcceptHistory = False,
) -> None:
    """Import vintages from files; nothing is written if any row is bad."""
    manifest = import_files(folder, files, catalog, format, rights, accept_history)
    _say(f"{len(manifest.series)} series; fingerprint {manifest.fingerprint}", folder)


@store_app.command("merge")
def store_merge(
    folder: Annotated[Path, typer.Argument(help="The store to write to.")],
    stores: Annotated[list[str], typer.Argument(help="Stores to take series from.")],
    prefer: Annotated[
        list[str] | None,
        typer.Option(help="SERIES=STORE: whose rows to take where several have the series."),
    ] = None,
) -> None:
    """One store from several; the same id with different rows is an error unless preferred."""
    for text in prefer or []:
        if "=" not in text:
            raise ConfigError(f"--prefer {text}: write SERIES=STORE, the store whose rows to take")
    choices = {key: uri for key, _, uri in (text.partition("=") for text in prefer or [])}
    manifest = merge(folder, stores, choices)
    _say(f"{len(manifest.series)} series; fingerprint {manifest.fingerprint}", folder)


def _say(text: str, folder: Path) -> None:
    out.print(f"{folder}: {text}", soft_wrap=True)


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
    show_table(f"{held.uri}  {held.fingerprint[:16]}", columns, rows)
    for text in sorted({row["attribution"] for row in rows if row["attribution"]}):
        out.print(text, soft_wrap=True)


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
            out.print(fault, soft_wrap=True)
        out.print(f"{len(manifest.series)} series, {len(faults)} faults, {manifest.fingerprint}")
    if faults:
        raise typer.Exit(1)


@store_app.command("build")
def store_build(
    folder: Annotated[Path, typer.Argument(help="The store to write to.")],
    catalog: Annotated[Path, typer.Option(help="Catalog TOML with the series to read.")],
    source: Annotated[str, typer.Option(help="fred, bls-ces or rtdsm.")] = "fred",
    contact: Annotated[
        str | None, typer.Option(help="Your mail address, for BLS and the Philadelphia Fed.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="A copy on disk: BLS' archive, or a folder of workbooks."),
    ] = None,
    calendar: Annotated[
        Path | None,
        typer.Option(help="CSV of release, reference_month, day, for exact BLS days."),
    ] = None,
    unadjusted: Annotated[
        bool, typer.Option("--unadjusted", help="BLS' unadjusted series too.")
    ] = False,
    fred_permission: Annotated[
        str | None, typer.Option(help="Who permitted storing and training on FRED content, what.")
    ] = None,
    include_restricted: Annotated[
        bool,
        typer.Option("--include-restricted", help="Take series that FRED tags as copyrighted too."),
    ] = False,
    accept_history: AcceptHistory = False,
    rate: Rate = RATE,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Read whole archives: of ALFRED (needs FRED_API_KEY; resumes where it was stopped), of BLS'
    payroll vintages, or of the Philadelphia Fed's real-time data."""
    if source != "fred":
        builders = {
            "bls-ces": lambda: build_bls(
                folder, catalog, contact, file, calendar, unadjusted, accept_history
            ),
            "rtdsm": lambda: build_rtdsm(folder, catalog, contact, file, accept_history),
        }
        if source not in builders:
            raise ConfigError(f"unknown source {source!r}; one of: fred, {', '.join(builders)}")
        manifest = builders[source]()
        if as_json:
            done = sorted(manifest.series)
            print(json.dumps({"done": done, "fingerprint": manifest.fingerprint}))
            return
        _say(f"{len(manifest.series)} series; fingerprint {manifest.fingerprint}", folder)
        return
    entries = load_catalog(catalog)
    try:
        training_right(fred_permission)
    except PermissionMissing as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    fred = Fred(base_url=base_url, rate=rate)
    with _progress(len(entries.series), fred) as step:
        report = fred_build.build(
            folder,
            entries,
            fred,
            fred_permission,
            include_restricted=include_restricted,
            accept_history=accept_history,
            progress=step,
        )
    _report(report, fred, as_json)


@store_app.command("update")
def store_update(
    folder: Annotated[Path, typer.Argument(help="The store to update.")],
    accept_history: AcceptHistory = False,
    rate: Rate = RATE,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Add the vintages that came since, from ALFRED. Needs FRED_API_KEY."""
    fred = Fred(base_url=base_url, rate=rate)
    with _progress(len(fred_build.updatable(open_store(folder))), fred) as step:
        report = fred_build.update(folder, fred, accept_history=accept_history, progress=step)
    _report(report, fred, as_json)


class _Requests(ProgressColumn):
    """Requests so far, and how many a second."""

    def __init__(self, fred: Fred) -> None:
        super().__init__()
        self._fred = fred

    def render(self, task: Task) -> Text:
        """The column as it is now."""
        sent = self._fred.counts.requests
        return Text(f"{sent} requests, {sent / max(task.elapsed or 0.0, 0.1):.1f}/s")


@contextmanager
def _progress(total: int, fred: Fred) -> Iterator[fred_build.Progress]:
    """A bar with series, requests, their rate and the time left."""
    columns = (
        TextColumn("{task.description:<20}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Requests(fred),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err) as bar:
        task = bar.add_task("series", total=total)
        yield lambda series_id: bar.update(task, advance=1, description=series_id)


def _report(report: fred_build.Report, fred: Fred, as_json: bool) -> None:
    """What happened, and status 1 if a series failed."""
    mark = report.manifest.fingerprint if report.manifest else None
    if as_json:
        fields = {
            "done": report.done,
            "failed": report.failed,
            "left_out": report.left_out,
            "mismatches": report.mismatches,
            "fingerprint": mark,
            "requests": fred.counts.requests,
            "retries": fred.counts.retries,
            "reused": report.reused,
        }
        print(json.dumps(fields))
    else:
        for title, reasons in (("failed", report.failed), ("left out", report.left_out)):
            for series_id, reason in sorted(reasons.items()):
                err.print(f"{title}: {series_id}: {reason}", soft_wrap=True)
        for text in sorted(report.mismatches):
            err.print(f"catalog: {text}", soft_wrap=True)
        out.print(
            f"{len(report.done)} series read, {len(report.failed)} failed, "
            f"{len(report.left_out)} left out; {fred.counts.requests} requests, "
            f"{fred.counts.retries} of them again, {report.reused} answers were staged before; "
            + (f"fingerprint {mark}" if mark else "nothing new"),
            soft_wrap=True,
        )
        if report.done:
            out.print(NOTICE, soft_wrap=True)
    if report.failed:
        raise typer.Exit(1)


@store_app.command("diff")
def store_diff(
    before: Annotated[str, typer.Argument(help="A store, or STORE@FINGERPRINT.")],
    after: Annotated[str, typer.Argument(help="A store, or STORE@FINGERPRINT.")],
    largest: Annotated[int, typer.Option(min=0, help="How many rows of each kind to show.")] = 20,
    as_json: Json = False,
) -> None:
    """What an update brought: new releases, revisions (largest first), changed history."""
    found = difference(_version(before), _version(after))
    if as_json:
        print(json.dumps(asdict(found)))
        return
    for title, ids in (("added", found.added), ("dropped", found.dropped)):
        if ids:
            out.print(f"{title}: {', '.join(ids)}", soft_wrap=True)
    for title, rows in (
        ("new releases", found.releases),
        ("revisions, largest first", found.revisions),
        ("CHANGED HISTORY", found.changed),
    ):
        _show_rows(f"{title}: {len(rows)}", rows[:largest])


def _version(text: str) -> Any:
    """A store, at the version that a text names by the start of its fingerprint."""
    marked = re.fullmatch(r"(.+)@([0-9a-f]{1,64})", text)
    place = store_uri(marked[1] if marked else text)
    return open_store(place, full_fingerprint(Files(place), marked[2]) if marked else None)


def _show_rows(title: str, rows: list[Row]) -> None:
    shown = [{**asdict(row), "size": f"{row.size:.2f}" if row.size else ""} for row in rows]
    if not shown:
        out.print(title)
        return
    show_table(title, ("series_id", "period", "vintage", "before", "after", "size"), shown)
