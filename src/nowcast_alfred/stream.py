"""The stream: `draw(n)` as a pure function of (stream version, fingerprint, settings, n).

Nothing runs along: any position is computed by itself, so a resume is a jump and two processes
cannot disagree. A *deck* deals the series. It comes in blocks in which every series has its share
of cards by weight (largest remainder), spread out evenly and shuffled by a keyed counter, so that
any 64 neighbours are well mixed. A series' k-th card asks for the k-th target of a keyed
permutation, a new permutation each time all were dealt, so none comes twice before all came once.
The as-of day is a hash of n.

Keys are SHA-256; long random columns are raw Philox words, whose stream NumPy keeps. There is no
running generator, no `hash()`, no distribution. Whoever changes what a draw is bumps
`STREAM_VERSION` and says so in the CHANGELOG's "Task stream" section.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .catalog import Catalog
from .errors import ConfigError
from .periods import iso
from .store.reader import VintageStore
from .targets import SpaceConfig, TaskSpace, build_space, weight_of

STREAM_VERSION = 1
MIN_BLOCK = 64
MAX_BLOCK = 8192
AS_OF_TRIES = 4


@dataclass(frozen=True)
class Draw:
    """One position of the stream: a target and the day it is asked on (days since 1970)."""

    n: int
    series_id: str
    period: int
    as_of: int
    release: int


class Stream:
    """All draws of one task space.

    Raises
    ------
    ConfigError
        If the space is empty or the weights cannot be dealt.
    """

    def __init__(
        self, store: VintageStore, config: SpaceConfig, catalog: Catalog | None = None
    ) -> None:
        self.space: TaskSpace = build_space(store, config, catalog)
        settings = {
            name: sorted(set(value)) if isinstance(value, list) else value
            for name, value in config.model_dump(
                mode="json", include=set(SpaceConfig.model_fields)
            ).items()
        }
        roles = {
            key: [t.role.transform, t.role.max_lag_days, t.role.category]
            for key, t in self.space.series.items()
        }
        self.key = stream_key(store.fingerprint, settings, roles if catalog else {})
        self._ids = list(self.space.series)
        weights = [weight_of(config, key, self.space.series[key].role) for key in self._ids]
        self.cards = deal(weights)
        self._block = sum(self.cards)
        self._deck = lru_cache(maxsize=16)(self._shuffle_block)
        self._order = lru_cache(maxsize=4 * len(self._ids))(self._permute)

    @property
    def name(self) -> str:
        """A short name of the stream for task ids: version and the start of its key."""
        return f"v{STREAM_VERSION}-{self.key[:10]}"

    def draw(self, n: int) -> Draw:
        """The n-th draw, n >= 0; needs no earlier one."""
        if n < 0:
            raise ConfigError(f"draw {n}: positions start at 0")
        block, at = divmod(n, self._block)
        which, card = self._deck(block)
        series = int(which[at])
        series_id = self._ids[series]
        targets = self.space.series[series_id]
        count = len(targets.period)
        epoch, place = divmod(block * self.cards[series] + int(card[at]), count)
        target = int(self._order(series, epoch)[place])
        low, high = int(targets.low[target]), int(targets.high[target])
        as_of = self._as_of(n, series_id, low, high)
        return Draw(n, series_id, int(targets.period[target]), as_of, int(targets.release[target]))

    def _as_of(self, n: int, series_id: str, low: int, high: int) -> int:
        """A day of the window, by hash; its last day (which is usable) if those tried are not.

        Revisions inside a window may leave an earlier day with a scale of zero.
        """
        for attempt in range(AS_OF_TRIES):
            day = low + _word(f"{self.key}/as-of/{n}/{attempt}") % (high - low + 1)
            if day == high or self.space.usable(series_id, day):
                return day
        return high

    def _shuffle_block(self, block: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Series and card number at each place of a block."""
        which = np.repeat(np.arange(len(self.cards), dtype=np.int32), self.cards)
        card = np.concatenate([np.arange(c, dtype=np.int32) for c in self.cards])
        jitter = (_words(f"{self.key}/deck/{block}", self._block) >> np.uint64(11)) * 2.0**-53
        order = np.argsort((card + jitter) / np.array(self.cards)[which], kind="stable")
        return which[order], card[order]

    def _permute(self, series: int, epoch: int) -> npt.NDArray[np.int64]:
        """The order in which a series' targets come in one epoch."""
        series_id = self._ids[series]
        count = len(self.space.series[series_id].period)
        words = _words(f"{self.key}/targets/{series_id}/{epoch}", count)
        return np.argsort(words, kind="stable")


def stream_key(fingerprint: str, settings: dict[str, Any], roles: dict[str, Any]) -> str:
    """The key of a stream: everything that decides its draws, hashed."""
    text = json.dumps([STREAM_VERSION, fingerprint, settings, roles], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def deal(weights: list[float]) -> list[int]:
    """How many cards each series has in a block, by largest remainder and at least one.

    The block is long enough for the rarest series to have a card, and a multiple of the shortest
    fair block, so that equal weights are dealt exactly equally.

    >>> deal([1.0, 1.0, 2.0])
    [16, 16, 32]
    """
    total, least = math.fsum(weights), min(weights)
    shortest = math.ceil(total / least - 1e-9)
    if shortest > MAX_BLOCK:
        raise ConfigError(
            f"weights: the smallest ({least:g}) is less than 1/{MAX_BLOCK} of their sum "
            f"({total:g}); use 0 to leave a series out"
        )
    block = shortest * math.ceil(MIN_BLOCK / shortest)
    quotas = [block * weight / total for weight in weights]
    cards = [max(1, math.floor(quota + 1e-9)) for quota in quotas]
    by_remainder = sorted(range(len(weights)), key=lambda i: (cards[i] - quotas[i], i))
    for i in by_remainder[: max(0, block - sum(cards))]:
        cards[i] += 1
    return cards


def _word(text: str) -> int:
    """64 bits of SHA-256."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _words(text: str, count: int) -> npt.NDArray[np.uint64]:
    """`count` raw 64-bit words of a Philox counter keyed by a text."""
    key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
    return np.random.Philox(key=key).random_raw(count)


def describe(draw: Draw) -> str:
    """A draw for people: `PAYEMS 2024-01-01 @ 2024-01-31`."""
    return f"{draw.series_id} {iso(draw.period)} @ {iso(draw.as_of)}"
