"""What the commands share: consoles, common options, tables."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

DEFAULT_STORE = "Folder or s3:// URI; default NOWCAST_ALFRED_STORE, else the embedded one."
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
StoreOption = Annotated[str | None, typer.Option("--store", help=DEFAULT_STORE)]
StoreArgument = Annotated[str | None, typer.Argument(help=DEFAULT_STORE)]
out = Console()
err = Console(stderr=True)


def show_table(title: str, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """Print rows as a table."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*(_cell(row[column]) for column in columns))
    out.print(table)


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
