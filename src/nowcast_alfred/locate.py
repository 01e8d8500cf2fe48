"""Which store a process reads: the one configured, else the environment's, else the embedded one.

Stores are opened on first use and kept open for the life of the process, one per place and
fingerprint: an env worker scores thousands of rollouts on one mapping.
"""

from __future__ import annotations

import fcntl
import logging
import os
from functools import lru_cache
from pathlib import Path

from .sources import synthetic
from .store import SeriesInput, VintageStore, open_store, publish
from .store.files import cache_folder
from .store.manifest import MANIFEST

STORE_VARIABLE = "NOWCAST_ALFRED_STORE"

logger = logging.getLogger(__name__)


def store_uri(configured: str | None = None) -> str:
    """The place of the store, absolute: tool servers run in another working directory."""
    chosen = configured or os.environ.get(STORE_VARIABLE)
    if not chosen:
        return embedded_store()
    return chosen if "://" in chosen else str(Path(chosen).expanduser().absolute())


@lru_cache(maxsize=8)
def opened(uri: str, fingerprint: str | None = None) -> VintageStore:
    """The store at a place, opened once per process.

    Without a fingerprint, the version in force when it was first asked for.
    """
    return open_store(uri, fingerprint)


@lru_cache(maxsize=1)
def embedded_store() -> str:
    """The embedded synthetic store, built into the cache folder when it is not there yet."""
    root = cache_folder() / f"synthetic-{synthetic.SYNTHETIC_VERSION}"
    logger.warning(
        "no store is configured (store, %s): using the embedded synthetic store in %s",
        STORE_VARIABLE,
        root,
    )
    with (root.parent / f"{root.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / MANIFEST).exists():
            build_synthetic(root)
    return str(root)


def build_synthetic(root: str | Path, seed: int = 0) -> str:
    """Write the synthetic store of a seed; returns its fingerprint."""
    series = synthetic.generate(seed)
    manifest = publish(root, [SeriesInput(item.meta, item.table) for item in series])
    return manifest.fingerprint
