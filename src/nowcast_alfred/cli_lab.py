"""Commands that compare forecasts and rewards before a model is run: backtest, ablate."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
