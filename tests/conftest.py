"""Fixtures that several test modules share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real vintages, which is no part of the project; skips where it is absent."""
    default = ROOT.parent / "shared" / "data" / "real"
    folder = Path(os.environ.get("NOWCAST_ALFRED_REAL_DATA") or default)
    if not folder.is_dir():
        pytest.skip(f"no real vintages at {folder}; set NOWCAST_ALFRED_REAL_DATA to their folder")
    return folder
