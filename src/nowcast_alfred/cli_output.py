"""What the commands share: consoles, common options, tables, and where they may write."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .errors import ConfigError

HELP_MARKUP: Final = "markdown"
"""Of help texts. Rich's own markup would take `[taskset]` for a tag and leave it out."""
DEFAULT_STORE = "Folder or s3:// URI; default NOWCAST_ALFRED_STORE, else the embedded one."
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
StoreOption = Annotated[str | None, typer.Option("--store", help=DEFAULT_STORE)]
StoreArgument = Annotated[str | None, typer.Argument(help=DEFAULT_STORE)]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        exists=True,
        dir_okay=False,
        help="The TOML of a run: [env.taskset], [taskset] or prime-rl's.",
    ),
]
Source = Annotated[
    str | None,
    typer.Option(help="Which of prime-rl's train sources, where there are several."),
]
# What is printed holds paths, ids and messages: brackets and colons in them are no markup.
out = Console(markup=False, emoji=False, highlight=False)
err = Console(stderr=True, markup=False, emoji=False, highlight=False)


def show_table(title: str, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """Print rows as a table.

    Texts are shown as they are, brackets included, and wrap between words; a word, an id or a
    number is never cut. What does not fit is wider than the terminal instead, so that a log or a
    pipe holds every figure.
    """
    table = Table()
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    for at, column in enumerate(columns):
        words = " ".join([column, *(row[at] for row in cells)]).split()
        table.add_column(column, min_width=max(map(len, words)))
    for row in cells:
        table.add_row(*map(Text, row))
    out.print(title, style="italic", soft_wrap=True)
    out.print(table, crop=False)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def require_folder(folder: Path | None) -> None:
    """Refuse a folder for `--output` that cannot be made, before any work is done for it.

    Raises
    ------
    ConfigError
        If there is a file in its place, or what is there may not be written to.
    """
    if folder is None:
        return
    path = folder.absolute()
    there = next(place for place in (path, *path.parents) if place.exists())
    if not there.is_dir():
        raise ConfigError(f"--output {folder}: {there} is a file; name a folder")
    if not os.access(there, os.W_OK):
        raise ConfigError(f"--output {folder}: {there} may not be written to; name another folder")
