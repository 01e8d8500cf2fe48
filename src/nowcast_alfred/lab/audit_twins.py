"""Twins of a store: the same up to a day, and after it either other values or no rows at all.

What is served on that day must be the same bytes from all three, or it depends on the future. A
twin has a fingerprint of its own, so that nothing kept by fingerprint is taken from its store. It
lies in memory; `placed` gives it a place, so that a task's set-up and the tool server open it the
way they open any store.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np

from .. import locate
from ..periods import iso
from ..store import VintageStore, open_store
from ..store.cache import Columns, Mapped
from ..store.schema import NO_LOWER, SeriesMeta

SENTINEL = 987654321.125
SENTINEL_WORD = "Hereafter"

_places = itertools.count()


def replaced(store: VintageStore, day: int) -> VintageStore:
    """The store with every value and every text from after a day replaced by a sentinel."""
    columns = store._mapped.columns
    later = columns.vintage > day
    changed = Columns(
        columns.period,
        columns.vintage,
        np.where(later, SENTINEL, columns.value),
        np.where(later, np.int32(NO_LOWER), columns.lower),
    )
    meta = [
        row if _known(row, day) else replace(row, title=SENTINEL_WORD, units=SENTINEL_WORD)
        for row in store._mapped.meta
    ]
    bounds = {key: (start, stop) for key, (start, stop, _) in store._mapped.index.items()}
    return _twin(store, f"replaced/{day}", changed, bounds, meta)


def deleted(store: VintageStore, day: int) -> VintageStore:
    """The store without any row from after a day, and without what was first named after it."""
    columns = store._mapped.columns
    keep = columns.vintage <= day
    kept = Columns(
        columns.period[keep], columns.vintage[keep], columns.value[keep], columns.lower[keep]
    )
    place = np.concatenate([[0], np.cumsum(keep)])
    bounds = {
        key: (int(place[start]), int(place[stop]))
        for key, (start, stop, _) in store._mapped.index.items()
        if place[stop] > place[start]
    }
    meta = [row for row in store._mapped.meta if row.id in bounds and _known(row, day)]
    return _twin(store, f"deleted/{day}", kept, bounds, meta)


def _known(row: SeriesMeta, day: int) -> bool:
    return row.valid_from is None or row.valid_from <= iso(day)


def _twin(
    store: VintageStore,
    how: str,
    columns: Columns,
    bounds: dict[str, tuple[int, int]],
    meta: list[SeriesMeta],
) -> VintageStore:
    index = {
        key: (start, stop, columns.rows(start, stop).checksum())
        for key, (start, stop) in bounds.items()
    }
    mark = hashlib.sha256(f"{store.fingerprint}/{how}".encode()).hexdigest()
    return VintageStore(store.uri, mark, Mapped("twin", columns, index, meta))


@contextmanager
def placed(store: VintageStore) -> Iterator[str]:
    """A place, for this process and for the length of the block, where a store in memory lies."""
    place, usual = f"memory://{next(_places)}", open_store

    def open_here(uri: str | os.PathLike[str], fingerprint: str | None = None) -> VintageStore:
        return store if uri == place else usual(uri, fingerprint)

    # What every reader calls is `locate.opened`, under several names; this is what it calls.
    with mock.patch.object(locate, "open_store", open_here):
        yield place
