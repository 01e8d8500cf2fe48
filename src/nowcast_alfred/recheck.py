"""A second, plain derivation of a task from the raw Parquet rows.

Dates and lists, one loop a rule, no code shared with the reader, the task space or the baselines:
`validate` holds a task against it, so that a fault on one side shows as a difference.
"""

from __future__ import annotations

import calendar
import datetime as dt
import math
import statistics
from collections.abc import Mapping
from functools import lru_cache

from .data import NowcastData
from .errors import StoreMismatch
from .store.files import Files
from .store.manifest import MANIFEST, VERSIONS, parse_manifest
from .store.parquet import read_rows

Rows = Mapping[dt.date, list[tuple[dt.date, float | None, dt.date | None]]]
"""Period -> its change points in order of vintage: (vintage, value, vintage_lower)."""

STEPS = {"chg": 1, "pch": 1, "pca": 1, "lin": 0}
A_YEAR = {"d": 260, "w": 52, "m": 12, "q": 4, "a": 1}


def faults(uri: str, task: NowcastData) -> list[str]:
    """What of a task does not follow from the raw rows; empty if all of it does."""
    rows = raw_rows(uri, task.store, task.series_id)
    period = dt.date.fromisoformat(task.reference_period)
    as_of = dt.date.fromisoformat(task.as_of)
    if period not in rows:
        return [f"{task.series_id} has no rows of {period}"]
    found = []
    release, value, lower = rows[period][0]
    if value is None:
        found.append("the first vintage has no value")
    if release == min(changes[0][0] for changes in rows.values()):
        found.append(f"{release} is the series' first vintage: no release")
    for other, changes in rows.items():
        if other > period and changes[0][0] < release:
            found.append(f"{other} was known before {period} was released: a backfill")
    if any(vintage <= as_of for vintage, _, _ in rows[period]):
        found.append(f"the period is already known on {as_of}")
    if lower is not None and as_of > lower:
        found.append(f"{as_of} is inside the bracket ({lower}, {release}] of the release day")
    before = max((other for other in rows if other < period), default=None)
    if before is None or rows[before][0][0] > as_of:
        found.append(f"on {as_of} the period before is not published either")
    if (release - as_of).days != task.horizon_days:
        found.append(f"horizon_days is {task.horizon_days}, rows give {(release - as_of).days}")
    if math.isnan(change(levels(rows, release), period, task.transform, task.frequency)):
        found.append("the outcome has no value inside its first vintage")
    known = levels(rows, as_of)
    series = [change(known, day, task.transform, task.frequency) for day in sorted(known)]
    series = [number for number in series if not math.isnan(number)]
    if not series:
        return [*found, f"no {task.transform} value is known on {as_of}"]
    expected = {
        "baseline": series[-1] if task.baseline_name == "last_change" else _mean(series[-12:]),
        "scale": statistics.pstdev(series[-24:]),
    }
    for name, number in expected.items():
        held = getattr(task, name)
        if not math.isclose(held, number, rel_tol=1e-9, abs_tol=1e-12):
            found.append(f"{name} is {held}, rows give {number}")
    return found


@lru_cache(maxsize=256)
def raw_rows(uri: str, fingerprint: str, series_id: str) -> Rows:
    """The rows of a series' Parquet file, by period; none of a series that is not there."""
    files = Files(uri)
    manifest = parse_manifest(files.read(MANIFEST), files.where(MANIFEST))
    if manifest.fingerprint != fingerprint:
        name = f"{VERSIONS}/{fingerprint}.json"
        try:
            manifest = parse_manifest(files.read(name), files.where(name))
        except FileNotFoundError:
            raise StoreMismatch(f"{uri} has no version {fingerprint[:12]}") from None
    if series_id not in manifest.series:
        return {}
    table: dict[dt.date, list[tuple[dt.date, float | None, dt.date | None]]] = {}
    for row in read_rows(files, manifest.series[series_id]).to_pylist():
        table.setdefault(row["period"], []).append(
            (row["vintage"], row["value"], row["vintage_lower"])
        )
    return {period: sorted(changes, key=lambda c: c[0]) for period, changes in table.items()}


def levels(rows: Rows, day: dt.date) -> dict[dt.date, float]:
    """Period -> level as known at the end of a day."""
    known = {}
    for period, changes in rows.items():
        value = None
        for vintage, level, _ in changes:
            if vintage <= day:
                value = level
        if value is not None:
            known[period] = value
    return known


def change(known: Mapping[dt.date, float], period: dt.date, units: str, frequency: str) -> float:
    """The transform of one period within one set of levels; NaN where it has none."""
    steps = STEPS.get(units, A_YEAR[frequency])
    earlier = _earlier(known, period, frequency, steps)
    if period not in known or earlier not in known:
        return math.nan
    now, then = known[period], known[earlier]
    if units == "lin":
        return now
    if units in ("chg", "ch1"):
        return now - then
    if now <= 0 or then <= 0:
        return math.nan
    power = A_YEAR[frequency] if units == "pca" else 1
    return 100.0 * ((now / then) ** power - 1.0)


def _earlier(
    known: Mapping[dt.date, float], period: dt.date, frequency: str, steps: int
) -> dt.date:
    if frequency == "d":  # markets close: the observation before, not the day before
        days = sorted(day for day in known if day <= period)
        return days[-1 - steps] if len(days) > steps else dt.date.min
    if frequency == "w":
        return period - dt.timedelta(weeks=steps)
    months = period.year * 12 + period.month - 1 - steps * {"m": 1, "q": 3, "a": 12}[frequency]
    year, month = divmod(months, 12)
    return dt.date(year, month + 1, min(period.day, calendar.monthrange(year, month + 1)[1]))


def _mean(numbers: list[float]) -> float:
    return statistics.fmean(numbers)
