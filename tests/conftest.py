"""Fixtures that several test modules share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nowcast_alfred.catalog import load_catalog
from nowcast_alfred.sources.files import read_long
from nowcast_alfred.store import SeriesInput, VintageStore, open_store, publish

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real vintages, which is no part of the project; skips where it is absent."""
    default = ROOT.parent / "shared" / "data" / "real"
    folder = Path(os.environ.get("NOWCAST_ALFRED_REAL_DATA") or default)
    if not folder.is_dir():
        pytest.skip(f"no real vintages at {folder}; set NOWCAST_ALFRED_REAL_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def panel(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> VintageStore:
    """The real vintages of US series as a store."""
    catalog = load_catalog(ROOT / "catalogs/us-macro.toml")
    rows = read_long(real_data / "us_panel_2016_2025.parquet", catalog)
    folder = tmp_path_factory.mktemp("panel")
    publish(folder, [SeriesInput(meta, table) for meta, table in rows])
    return open_store(folder)
