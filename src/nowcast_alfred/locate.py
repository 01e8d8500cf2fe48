"""Which store a process reads: the one configured, else the environment's, else the embedded one.

Stores are opened on first use and kept open for the life of the process, one per place and
fingerprint: an env worker scores thousands of rollouts on one mapping.
"""

from __future__ import annotations

import fcntl
import os
from functools import lru_cache
from pathlib import Path

from .errors import StoreError
from .logs import get_logger
from .sources import synthetic
from .store import SeriesInput, VintageStore, open_store, publish
from .store.files import Files, cache_folder
from .store.manifest import MANIFEST, VERSIONS
from .store.reader import read_manifest

STORE_VARIABLE = "NOWCAST_ALFRED_STORE"

logger = get_logger(__name__)


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


def drawn_from(uri: str, fingerprint: str | None) -> VintageStore:
    """The version that tasks are drawn from: the one named, else the one in force.

    A stream's positions mean other tasks on another version, and whoever resumes by position
    cannot tell. So where no version is named and the store has others, earlier ones or those from
    before a roll-back, a warning names the one in force and tells where a run's own stands.

    Raises
    ------
    StoreMismatch
        If the store has no version with that fingerprint.
    """
    store = opened(uri, fingerprint)
    if fingerprint is None:
        files = Files(uri)
        replaced = read_manifest(files, store.fingerprint).previous
        if replaced is not None or _has_others(files, store.fingerprint):
            logger.warning(
                "%s has more than one version: tasks are drawn from %s%s. To resume a run that "
                "began on another, set fingerprint to that one: a run's traces name it in "
                "task.data.store, and all are in %s. To be able to resume this run, set "
                'fingerprint = "%s"',
                store.shown,
                store.fingerprint,
                f", which replaced {replaced}" if replaced else "",
                files.where(VERSIONS),
                store.fingerprint,
            )
    return store


def _has_others(files: Files, fingerprint: str) -> bool:
    """Whether a store keeps other versions; not known where its folder may not be listed."""
    try:
        return any(
            name.endswith(".json") and name != f"{fingerprint}.json"
            for name in files.names(VERSIONS)
        )
    except StoreError:
        return False


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
