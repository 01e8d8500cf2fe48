"""Commands that show what can leak: audit, recall."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
