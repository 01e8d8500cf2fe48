"""Many rollouts of different days on one tool server: their states, calls, and right answers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from nowcast_alfred import served
from nowcast_alfred.data import NowcastState
from nowcast_alfred.opaque import agent_view, key_of
from nowcast_alfred.periods import UNITS, iso
from nowcast_alfred.store import AsOfView, VintageStore
from nowcast_alfred.stream import Stream
from nowcast_alfred.targets import SpaceConfig

Call = tuple[str, dict[str, Any]]
OWN, OTHER = "<own>", "<other>"
"""In a call's arguments: the rollout's own series, and another one known on its day."""


@dataclass(frozen=True)
class Rollout:
    """One rollout as the tool server meets it."""

    route: str
    state: NowcastState
    view: AsOfView
    own: str
    other: str

    def asks(self, call: Call) -> Call:
        """A call with the ids that this rollout's agent knows."""
        names = {OWN: self.own, OTHER: self.other}

        def named(value: Any) -> Any:
            if isinstance(value, list):
                return [named(each) for each in value]
            return names.get(value, value) if isinstance(value, str) else value

        return call[0], {key: named(value) for key, value in call[1].items()}

    def right(self, call: Call) -> str:
        """What this rollout must be told, from its own view."""
        name, arguments = self.asks(call)
        answer: str = getattr(served, name)(self.view, **arguments)
        return answer


def rollouts(store: VintageStore, count: int) -> list[Rollout]:
    """Rollouts of a stream's draws, every third in a disguise of its own.

    The second half is put on the days of the first, so that days alone do not tell them apart.
    """
    stream = Stream(store, SpaceConfig(split="all"))
    found = []
    for n in range(count):
        day = iso(stream.draw(n % (count // 2)).as_of)
        key = key_of(f"rollout {n}") if n % 3 == 0 else ""
        view = agent_view(store.view(day), key)
        ids = [row.id for row in view.series()]
        state = NowcastState(as_of=day, store=store.fingerprint, opaque=key)
        own, other = ids[n % len(ids)], ids[(n + 3) % len(ids)]
        found.append(Rollout(f"r{n}", state, view, own, other))
    return found


def call_number(n: int) -> Call:
    """A call that agents make, chosen by a hash of its number."""
    words = hashlib.sha256(f"call {n}".encode()).digest()
    units, last = UNITS[words[0] % len(UNITS)], 1 + words[1] % 24
    choices: list[Call] = [
        ("observations", {"series_ids": OWN, "units": units, "last": last}),
        ("observations", {"series_ids": [OWN, OTHER], "last": last}),
        ("observations", {"series_ids": [OTHER, "NOPE"], "units": units}),
        ("revisions", {"series_id": OWN}),
        ("releases", {"series_id": OWN, "last": last}),
        ("series", {"series_id": OTHER}),
        ("search", {"text": "", "skip": words[2] % 4}),
    ]
    return choices[words[3] % len(choices)]
