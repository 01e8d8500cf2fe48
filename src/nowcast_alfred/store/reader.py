"""Reading: `open_store`, the store, and the view of one day.

`AsOfView` is the only way to vintages on the agent's side. It is bound to its date when it is made
and has no method and no argument that reaches past it: not for values, not for metadata, not for
counts, not in the text of an error. A series that starts later does not exist for it. Truth is
apart, on the store: `outcome` for scoring and `changes` for building the task space.

A read is two array passes: how many change points of each period lie at or before the day, and the
value at that place.
"""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import periods as p
from ..errors import QueryError, StoreCorrupt, StoreMismatch, StoreNotFound
from .cache import Columns, Mapped, columns_of, open_cache
from .files import Files, without_secrets
from .manifest import MANIFEST, VERSIONS, Manifest, fingerprint, parse_manifest
from .schema import SeriesMeta, content_hash, meta_hash

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Observations:
    """Values known on one day: `period` (int32, first days) and `value`, both of shape (n,)."""

    period: p.Days
    value: p.Floats

    def __len__(self) -> int:
        return len(self.period)

    def to_pandas(self) -> pd.Series:
        """The same as a pandas Series with a DatetimeIndex."""
        import pandas as pd

        index = pd.DatetimeIndex(self.period.astype("datetime64[D]"), name="date")
        return pd.Series(self.value, index=index, name="value")


@dataclass(frozen=True)
class Outcome:
    """What scoring reads: the first release, and the value as the store last knew it."""

    first: float
    first_vintage: str
    latest: float | None
    latest_vintage: str


@dataclass(frozen=True)
class Releases:
    """First releases seen so far, each of shape (n,): period, day, and days after period end."""

    period: p.Days
    day: p.Days
    lag: p.Days


@dataclass(frozen=True)
class Changes:
    """Every change point of one series, and the periods as groups of rows."""

    columns: Columns
    starts: p.Days = field(repr=False)
    periods: p.Days = field(repr=False)

    @classmethod
    def of(cls, columns: Columns) -> Changes:
        """Find the groups in rows sorted by period and vintage."""
        new = np.ones(len(columns.period), dtype=bool)
        new[1:] = columns.period[1:] != columns.period[:-1]
        starts = np.flatnonzero(new).astype(np.int32)
        return cls(columns, starts, columns.period[starts])

    @cached_property
    def first_vintage(self) -> int:
        """The series' first vintage: no release before it is known, so it is none itself."""
        return int(self.columns.vintage.min())

    def known(self, day: int) -> tuple[p.Days, p.Floats, p.Days]:
        """Periods, values and row numbers known on `day` (withdrawn ones left out)."""
        counts = np.add.reduceat(self.columns.vintage <= day, self.starts, dtype=np.int32)
        rows = self.starts + counts - 1
        value = self.columns.value[rows]
        keep = (counts > 0) & (value == value)
        return self.periods[keep], value[keep], rows[keep]

    def value_on(self, groups: npt.NDArray[np.int64], days: p.Days) -> p.Floats:
        """The level of the `groups[i]`-th period as known on `days[i]`, NaN where not known."""
        group_of_row = np.repeat(np.arange(len(self.starts)), np.diff([*self.starts, self._n]))
        keys = (group_of_row << 32) + self.columns.vintage
        rows = np.searchsorted(keys, (groups << 32) + days, side="right") - 1
        known = rows >= self.starts[groups]
        return np.where(known, self.columns.value[np.maximum(rows, 0)], np.nan)

    @property
    def _n(self) -> int:
        return len(self.columns.period)

    def rows_of(self, period: int) -> tuple[int, int]:
        """Start and stop of the rows of one period; an empty range where there is none."""
        at = int(np.searchsorted(self.periods, period))
        if at == len(self.periods) or self.periods[at] != period:
            return 0, 0
        stop = self.starts[at + 1] if at + 1 < len(self.starts) else self._n
        return int(self.starts[at]), int(stop)


class VintageStore:
    """One version of a store, open for reading. Make one with `open_store`."""

    def __init__(self, uri: str, fingerprint: str, mapped: Mapped) -> None:
        self.uri = uri
        self.fingerprint = fingerprint
        self._mapped = mapped
        self._changes: dict[str, Changes] = {}
        self._meta: dict[str, list[SeriesMeta]] = {}
        for row in sorted(mapped.meta, key=lambda row: row.valid_from or ""):
            self._meta.setdefault(row.id, []).append(row)

    @classmethod
    def from_tables(cls, tables: dict[str, pa.Table], meta: list[SeriesMeta]) -> VintageStore:
        """A store in memory, from rows in canonical form."""
        columns, index = columns_of(tables)
        contents = {key: content_hash(table) for key, table in tables.items()}
        mark = fingerprint(contents, meta_hash(meta))
        return cls("memory:", mark, Mapped("memory", columns, index, meta))

    @property
    def series_ids(self) -> tuple[str, ...]:
        """The ids of all series, sorted."""
        return tuple(sorted(self._mapped.index))

    @property
    def shown(self) -> str:
        """The place of the store without credentials, for messages."""
        return without_secrets(self.uri)

    def meta(self, series_id: str) -> SeriesMeta:
        """The newest metadata of a series."""
        return self._metadata(series_id)[-1]

    def meta_on(self, series_id: str, day: int) -> SeriesMeta:
        """The metadata in force on a day."""
        rows = self._metadata(series_id)
        held = [r for r in rows if r.valid_from is None or p.to_days(r.valid_from) <= day]
        return held[-1]

    def _metadata(self, series_id: str) -> list[SeriesMeta]:
        if series_id not in self._mapped.index:
            raise QueryError(
                f"no series {series_id[:64]!r} in {self.shown}; it has {len(self._mapped.index)}: "
                f"{', '.join(self.series_ids[:12])}{', ...' if len(self.series_ids) > 12 else ''}"
            )
        return self._meta[series_id]

    def changes(self, series_id: str) -> Changes:
        """Every change point of a series: for building tasks and for scoring, never for agents.

        Raises
        ------
        StoreCorrupt
            If the mapped rows do not match their checksum.
        """
        found = self._changes.get(series_id)
        if found is None:
            self._metadata(series_id)
            start, stop, crc = self._mapped.index[series_id]
            columns = self._mapped.columns.rows(start, stop)
            if columns.checksum() != crc:
                raise StoreCorrupt(
                    f"the cache {self._mapped.path} is damaged at series {series_id}; delete it, "
                    "it is built again when needed"
                )
            found = self._changes[series_id] = Changes.of(columns)
        return found

    def view(self, as_of: str | dt.date) -> AsOfView:
        """What was known at the end of a day."""
        return AsOfView(self, p.to_days(as_of))

    def outcome(self, series_id: str, period: str | int, transform: p.Units) -> Outcome:
        """The first release of a period, and its latest value, for scoring.

        Both are the transform computed inside one vintage, which is what survives a change of
        base year.

        Raises
        ------
        QueryError
            If the period has no vintage, or no value in its first one.
        """
        day = p.to_days(period) if isinstance(period, str) else int(period)
        changes = self.changes(series_id)
        start, stop = changes.rows_of(day)
        if start == stop:
            raise QueryError(f"{series_id} has no vintage of {p.iso(day)} in {self.shown}")
        first_vintage = int(changes.columns.vintage[start])
        first = self._value(series_id, day, transform, first_vintage)
        if first is None:
            raise QueryError(
                f"{series_id}: {p.iso(day)} has no {transform} value in vintage "
                f"{p.iso(first_vintage)}"
            )
        newest = int(changes.columns.vintage.max())
        latest = self._value(series_id, day, transform, newest)
        return Outcome(first, p.iso(first_vintage), latest, p.iso(newest))

    def _value(self, series_id: str, period: int, units: p.Units, day: int) -> float | None:
        known = AsOfView(self, day).observations(series_id, units=units)
        at = int(np.searchsorted(known.period, period))
        found = at < len(known) and known.period[at] == period
        return float(known.value[at]) if found else None


class AsOfView:
    """What was known at the end of one day, and nothing else."""

    def __init__(self, store: VintageStore, day: int) -> None:
        self._store = store
        self._day = day
        self._levels: dict[str, tuple[p.Days, p.Floats]] = {}

    @property
    def as_of(self) -> str:
        """The date of the view, `YYYY-MM-DD`."""
        return p.iso(self._day)

    def series(self) -> list[SeriesMeta]:
        """Metadata, as of the date, of every series with a vintage by then; sorted by id."""
        ids = self._store.series_ids
        return [self._store.meta_on(key, self._day) for key in ids if self._knows(key)]

    def meta(self, series_id: str) -> SeriesMeta:
        """Metadata, as of the date, of one series."""
        self._require(series_id)
        return self._store.meta_on(series_id, self._day)

    def search(self, text: str) -> list[SeriesMeta]:
        """Series whose id, title, category or release has the most words of `text`; best first."""
        words = text.lower().split()
        scored = []
        for row in self.series():
            where = f"{row.title} {row.category} {row.release}".lower()
            hits = sum((word in where) + 2 * (word in row.id.lower()) for word in words)
            if hits or not words:
                scored.append((-hits, row.id, row))
        return [row for _, _, row in sorted(scored, key=lambda item: item[:2])]

    def observations(
        self,
        series_id: str,
        start: str | dt.date | None = None,
        end: str | dt.date | None = None,
        units: p.Units = "lin",
    ) -> Observations:
        """Values known on the date, transformed inside that vintage.

        Parameters
        ----------
        series_id
            A series known on the date.
        start, end
            First and last period wanted; None for no bound.
        units
            One of FRED's codes; see `periods.transform`.

        Raises
        ------
        QueryError
            If the series is not known on the date, or a date or the units are malformed.
        """
        period, level = self._level(series_id)
        frequency = self._store.meta_on(series_id, self._day).frequency
        value = p.transform(period, level, p.check_units(units), frequency)
        if units != "lin":
            keep = value == value
            period, value = period[keep], value[keep]
        low = 0 if start is None else int(np.searchsorted(period, p.to_days(start)))
        high = len(period) if end is None else int(np.searchsorted(period, p.to_days(end), "right"))
        return Observations(period[low:high], value[low:high])

    def vintages(self, series_id: str) -> p.Days:
        """The vintage dates of a series up to the date, ascending."""
        self._require(series_id)
        days = np.unique(self._store.changes(series_id).columns.vintage)
        return days[days <= self._day]

    def revisions(self, series_id: str, period: str | dt.date) -> list[tuple[str, float | None]]:
        """How one period's level was first given and then revised: (vintage date, value)."""
        self._require(series_id)
        changes = self._store.changes(series_id)
        start, stop = changes.rows_of(p.to_days(period))
        rows = changes.columns.rows(start, stop)
        return [
            (p.iso(vintage), None if value != value else value)
            for vintage, value in zip(rows.vintage.tolist(), rows.value.tolist(), strict=True)
            if vintage <= self._day
        ]

    def releases(self, series_id: str) -> Releases:
        """When periods were first published, up to the date; not those of the first vintage."""
        self._require(series_id)
        changes = self._store.changes(series_id)
        day = changes.columns.vintage[changes.starts]
        keep = (day <= self._day) & (day > changes.first_vintage)
        period, day = changes.periods[keep], day[keep]
        ends = p.period_ends(period, self._store.meta_on(series_id, self._day).frequency)
        return Releases(period, day, day - ends)

    def _level(self, series_id: str) -> tuple[p.Days, p.Floats]:
        held = self._levels.get(series_id)
        if held is None:
            self._require(series_id)
            period, value, _ = self._store.changes(series_id).known(self._day)
            # Answers share these arrays: a caller's change must not reach the next answer.
            period.flags.writeable = value.flags.writeable = False
            held = self._levels[series_id] = (period, value)
        return held

    def _knows(self, series_id: str) -> bool:
        return self._store.changes(series_id).first_vintage <= self._day

    def _require(self, series_id: str) -> None:
        if series_id not in self._store._mapped.index or not self._knows(series_id):
            raise QueryError(
                f"no series {series_id[:64]!r} is known on {self.as_of}; search lists those known"
            )


def read_manifest(files: Files, version: str | None = None) -> Manifest:
    """The manifest in force, or that of an earlier version by its fingerprint.

    Raises
    ------
    StoreNotFound
        If there is no store at that place.
    StoreMismatch
        If the store has no version with that fingerprint.
    """
    try:
        manifest = parse_manifest(files.read(MANIFEST), files.where(MANIFEST))
    except FileNotFoundError:
        raise StoreNotFound(
            f"no store at {files.shown} (no {MANIFEST}); make one with "
            "`nowcast-alfred store synth` or `nowcast-alfred store import`"
        ) from None
    if version is None or manifest.fingerprint == version:
        return manifest
    name = f"{VERSIONS}/{version}.json"
    try:
        earlier = parse_manifest(files.read(name), files.where(name))
    except FileNotFoundError:
        raise StoreMismatch(
            f"{files.shown} is at version {manifest.fingerprint} and has no version {version}; "
            "tasks must be drawn and scored on one version: name a store that has it"
        ) from None
    if earlier.fingerprint != version:
        raise StoreCorrupt(f"{files.where(name)} is the manifest of another version")
    return earlier


def open_store(uri: str | os.PathLike[str], fingerprint: str | None = None) -> VintageStore:
    """Open a store for reading.

    Parameters
    ----------
    uri
        A folder, or an object-store URI such as `s3://bucket/prefix`.
    fingerprint
        Open this earlier version instead of the one in force.

    Raises
    ------
    StoreNotFound, StoreMismatch
        If there is no store there, or no such version of it.
    StoreCorrupt
        If a file is missing or damaged; the message names it.
    """
    files = Files(uri)
    manifest = read_manifest(files, fingerprint)
    return VintageStore(files.uri, manifest.fingerprint, open_cache(files, manifest))
