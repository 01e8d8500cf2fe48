"""Opaque tasks: the same numbers without a name, a date or a size that a model could remember.

`OpaqueView` is an `AsOfView` that speaks in disguise, so whatever is made from a view (`served`,
`prompts`) is disguised as a whole and agrees with itself. Series get ids of their own in each draw.
A date is shown on the series' own clock: `t` counts its periods, t = 0 holds the as-of day (of a
daily series, t counts values, and 0 is the first that is not known). Release and vintage days are
shown on the same clock and no finer, because month lengths, weekdays and holidays would tell the
calendar. Levels become times x (level + shift), changes are multiplied with them, and percent
changes by a factor of their own, since a percent change is as telling as a level. The past is cut
off: from how long a history or an archive is, and where it is known to begin, follows the date.

All of it follows from a key that belongs to the draw, by SHA-256, so a group of rollouts and a
resumed one see the same, and another draw something else. The key is no secret: who could use it
has the store already. What hides the series is that the agent has neither. Not hidden: frequency,
the path's shape, which series share a release, when history was revised. And arithmetic undoes the
numbers: shown changes over shown percent changes are the level's path up to a factor, so the real
percent changes follow; and since published levels are rounded, shown changes are multiples of a
step, which is the factor times one, a tenth, .... The disguise is against recall at sight, not
against a detective.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from . import periods as p
from .answers import Elicit, Reply, parse
from .errors import QueryError
from .store.reader import AsOfView, Observations, Releases
from .store.schema import SeriesMeta

ALPHABET = "23456789BCDFGHJKLMNPQRSTVWXZ"
"""Of disguised ids: without vowels, so that none spells a word."""
TODAY = "t = 0"
UNITS = "rescaled units"

HISTORY: dict[p.Frequency, int] = {"d": 520, "w": 520, "m": 120, "q": 40, "a": 40}
"""How many periods before today have values that are shown: ten years; two of daily series."""
PUBLISHED: dict[p.Frequency, int] = {"d": 60, "w": 104, "m": 24, "q": 8, "a": 3}
"""The same for days of publication and for revisions: two years."""

_COUNT = re.compile(r"[+-]?[0-9]{1,6}", re.ASCII)


class Rescaling(NamedTuple):
    """How a number is shown: `add` + `times` x number, with `times` > 0."""

    add: float
    times: float

    def shown(self, number: float) -> float:
        """A number in the unit that the agent sees."""
        return self.add + self.times * number

    def real(self, number: float) -> float:
        """A number of the agent's in the store's unit."""
        return (number - self.add) / self.times


def key_of(task: str) -> str:
    """The key of a task's disguise, from the text that identifies the task."""
    return hashlib.sha256(f"opaque\0{task}".encode()).hexdigest()[:32]


def rescaling(view: AsOfView, key: str, series_id: str, units: p.Units) -> Rescaling:
    """How numbers of a series in some units are shown under a key.

    Parameters
    ----------
    view
        The plain view of the as-of date. The shift is 0.5 to 2 times the size of the last known
        level in it (of 1, where that is 0 or there is none).
    series_id
        The series' real id.

    Returns
    -------
    A factor in [1/8, 1/2) or [2, 8), about log-uniform, so never near 1; one for levels and
    changes, another for percent changes. Only levels have an `add`.
    """
    if units in ("pch", "pc1", "pca"):
        return Rescaling(0.0, _factor(key, series_id, "percent"))
    times = _factor(key, series_id, "level")
    if units != "lin":
        return Rescaling(0.0, times)
    last = view.observations(series_id).value[-1:]
    size = abs(float(last[0])) if len(last) and last[0] else 1.0
    return Rescaling(times * (0.5 + 1.5 * _fraction(key, series_id, "shift")) * size, times)


def real_reply(reply: Reply, rescaled: Rescaling) -> Reply:
    """A reply in shown units as one in the store's unit, malformed if that is no finite number."""
    if not reply.ok or reply.point is None:
        return reply
    real = rescaled.real
    interval, quantiles = reply.interval, reply.quantiles
    mapped = replace(
        reply,
        point=real(reply.point),
        interval=interval and (real(interval[0]), real(interval[1])),
        quantiles=quantiles and {level: real(q) for level, q in quantiles.items()},
    )
    numbers = [mapped.point, *(mapped.interval or ()), *(mapped.quantiles or {}).values()]
    if not all(number is not None and math.isfinite(number) for number in numbers):
        return Reply(False, reason="the number is not finite")
    return mapped


def read_reply(text: str, elicit: Elicit, units: str, shown: Rescaling | None) -> Reply:
    """A reply's text in the store's unit, whatever the agent was shown."""
    if shown is None:
        return parse(text, elicit, units)
    return real_reply(parse(text, elicit), shown)


def agent_view(view: AsOfView, key: str | None) -> AsOfView:
    """The view through which an agent reads: disguised by a key, plain without one."""
    return OpaqueView(view, key) if key else view


def as_shown(view: AsOfView, series_id: str, period: int) -> tuple[str, int]:
    """A series and one of its periods, known or to come, as a view's reader names them."""
    if not isinstance(view, OpaqueView):
        return series_id, period
    return view.shown_id(series_id), int(view.clock(series_id, np.array([period], np.int32))[0])


class OpaqueView(AsOfView):
    """A view in disguise: ids, periods and days that go in or come out are shown ones.

    Periods and days are counts `t` where an `AsOfView` has days since 1970; as arguments they are
    whole numbers in text.
    """

    def __init__(self, view: AsOfView, key: str) -> None:
        super().__init__(view._store, view._day)
        self._plain = view
        self._key = key
        self._shown = _ids(key, tuple(row.id for row in view.series()))
        self._real = {shown: real for real, shown in self._shown.items()}

    @property
    def as_of(self) -> str:
        """The day of the view, in words."""
        return TODAY

    def shown_id(self, series_id: str) -> str:
        """The disguised id of a series known on the day."""
        return self._shown[series_id]

    def clock(self, series_id: str, days: p.Days) -> p.Days:
        """`t` of days since 1970 on the clock of a series, given by its real id."""
        frequency = self._plain.meta(series_id).frequency
        if frequency == "d":
            known = self._plain.observations(series_id).period
            return np.asarray(np.searchsorted(known, days) - len(known), dtype=np.int32)
        if frequency == "w":
            return np.asarray(-((self._day - days) // 7), dtype=np.int32)
        today = p.ordinals(np.array([self._day], np.int32), frequency)
        return np.asarray(p.ordinals(days, frequency) - today, dtype=np.int32)

    def series(self) -> list[SeriesMeta]:
        """Disguised metadata of every series known on the day, sorted by disguised id."""
        return sorted(
            (self._disguised(row) for row in self._plain.series()), key=lambda row: row.id
        )

    def meta(self, series_id: str) -> SeriesMeta:
        """Disguised metadata of one series."""
        return self._disguised(self._plain.meta(self._find(series_id)))

    def observations(
        self,
        series_id: str,
        start: str | dt.date | None = None,
        end: str | dt.date | None = None,
        units: p.Units = "lin",
    ) -> Observations:
        """Rescaled values by `t`, between two `t` if they are given."""
        real = self._find(series_id)
        known = self._plain.observations(real, units=p.check_units(units))
        t = self.clock(real, known.period)
        since = self._since(real, HISTORY)
        low = int(np.searchsorted(t, since if start is None else max(_count(start), since)))
        high = len(t) if end is None else int(np.searchsorted(t, _count(end), "right"))
        add, times = self._rescaling(real, units)
        return Observations(t[low:high], add + times * known.value[low:high])

    def vintages(self, series_id: str) -> p.Days:
        """`t` of the vintages of the last two years, ascending; of the newest if all are older."""
        real = self._find(series_id)
        t = self.clock(real, self._plain.vintages(real))
        return t[min(int(np.searchsorted(t, self._since(real, PUBLISHED))), len(t) - 1) :]

    def revisions(self, series_id: str, period: str | dt.date) -> list[tuple[str, float | None]]:
        """How one period's level was first given and then revised: (t of the vintage, value)."""
        real, wanted = self._find(series_id), _count(period)
        if wanted < (since := self._since(real, PUBLISHED)):
            raise QueryError(f"revisions are shown of periods from t = {since} on")
        known = np.union1d(self._plain.observations(real).period, self._plain.releases(real).period)
        found = known[self.clock(real, known) == wanted]
        if not len(found):
            return []
        rows = self._plain.revisions(real, p.iso(int(found[-1])))
        vintage = self.clock(real, np.array([p.to_days(day) for day, _ in rows], np.int32))
        level = self._rescaling(real, "lin")
        return [
            (str(t), None if value is None else level.shown(value))
            for t, (_, value) in zip(vintage.tolist(), rows, strict=True)
        ]

    def releases(self, series_id: str) -> Releases:
        """`t` of periods and of their first publication, and how many periods lie between."""
        real = self._find(series_id)
        known = self._plain.releases(real)
        period, day = self.clock(real, known.period), self.clock(real, known.day)
        shown = day >= self._since(real, PUBLISHED)
        return Releases(period[shown], day[shown], (day - period)[shown])

    def _find(self, shown: str) -> str:
        if shown not in self._real:
            raise QueryError(
                f"no series {shown[:64]!r} is known on {TODAY}; search lists those known"
            )
        return self._real[shown]

    def _since(self, real: str, periods: dict[p.Frequency, int]) -> int:
        """The first `t` of a series that is shown."""
        return -periods[self._plain.meta(real).frequency]

    def _rescaling(self, real: str, units: p.Units) -> Rescaling:
        return rescaling(self._plain, self._key, real, units)

    def _disguised(self, row: SeriesMeta) -> SeriesMeta:
        release = row.release and f"R{_word(self._key, 'release', row.release)}"
        category = row.category and f"C{_word(self._key, 'category', row.category)}"
        groups = (("release", release), ("category", category))
        return replace(
            row,
            id=self._shown[row.id],
            title=", ".join(f"{kind} {name}" for kind, name in groups if name) or "no name",
            units=UNITS,
            seasonal_adjustment=_adjustment(row.seasonal_adjustment),
            release=release,
            category=category,
            copyright="",
            source="",
            licence="",
            attribution="",
            training="unknown",
            valid_from=None,
        )


def _adjustment(text: str) -> str:
    """Whether a series is seasonally adjusted, without words such as `Annual Rate`."""
    for words in ("Not Seasonally Adjusted", "Seasonally Adjusted"):
        if text.lower().startswith(words.lower()):
            return words
    return "Adjustment Not Stated"


def _count(text: str | dt.date) -> int:
    if _COUNT.fullmatch(str(text)) is None:
        raise QueryError(
            f"{str(text)[:40]!r} is not a period; dates are hidden here: write t, a whole number "
            "such as -12"
        )
    return int(str(text))


@lru_cache(maxsize=256)
def _ids(key: str, known: tuple[str, ...]) -> dict[str, str]:
    """Disguised ids of the series known on a day.

    Each depends on its own id alone, unless two of those known would be the same: then the later
    in order takes its next word.
    """
    shown: dict[str, str] = {}
    taken = set(known)
    for real in known:
        attempt = 0
        while (word := f"S{_word(key, 'series', real, str(attempt))}") in taken:
            attempt += 1
        shown[real] = word
        taken.add(word)
    return shown


def _factor(*parts: str) -> float:
    """A factor in [1/8, 1/2) or [2, 8): exact arithmetic, the same bits on any machine."""
    octave = (-3, -2, 1, 2)[int(4 * _fraction(*parts, "octave"))]
    return math.ldexp(1.0 + _fraction(*parts), octave)


def _fraction(*parts: str) -> float:
    """A number in [0, 1) from the hash of some words."""
    return (_hash(parts) >> 11) * 2.0**-53


def _word(*parts: str) -> str:
    """Five letters or digits from the hash of some words."""
    number, letters = _hash(parts), ""
    for _ in range(5):
        number, at = divmod(number, len(ALPHABET))
        letters += ALPHABET[at]
    return letters


def _hash(parts: Sequence[str]) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8], "big")
