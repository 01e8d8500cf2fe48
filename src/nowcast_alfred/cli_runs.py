"""Commands around a run of a model: readiness, price, sft, report."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
