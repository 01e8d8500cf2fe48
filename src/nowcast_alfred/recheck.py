"""A second, plain derivation of a task from the raw Parquet rows.

Dates and lists, one loop a rule, no code shared with the reader, the task space or the baselines:
`validate` holds a task against it, so that a fault on one side shows as a difference.

Not derived again: the forecasts of `ar_bic` and `best_of`, which would be the same code twice. Of
`ar_bic` only its band is checked, the range of the known values; of `best_of`, that it is one of
the plain baselines' forecasts or within that band. That `best_of` is right is left to the tests.
"""

from __future__ import annotations

import calendar
import datetime as dt
import math
import statistics
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache, reduce

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
    dated = {day: change(known, day, task.transform, task.frequency) for day in sorted(known)}
    dated = {day: number for day, number in dated.items() if not math.isnan(number)}
    series = list(dated.values())
    if not series:
        return [*found, f"no {task.transform} value is known on {as_of}"]
    expected = {
        "baseline": _baseline(task, dated, known),
        "scale": _scale(task, series, [known[day] for day in sorted(known)]),
    }
    for name, number in expected.items():
        held = getattr(task, name)
        if not math.isclose(held, number, rel_tol=1e-9, abs_tol=1e-12):
            found.append(f"{name} is {held}, rows give {number}")
    return found


def _baseline(
    task: NowcastData, dated: Mapping[dt.date, float], known: Mapping[dt.date, float]
) -> float:
    """The forecast of a task's baseline; for the two not derived, its own where it may be right."""
    series = [dated[day] for day in sorted(dated)]
    plain = {
        "last_change": series[-1],
        "last_value": _unchanged(task, series[-1], known),
        "mean_3": statistics.fmean(series[-3:]),
        "mean_12": statistics.fmean(series[-12:]),
        "median_12": statistics.median(series[-12:]),
        "mean_all": statistics.fmean(series),
        "ewma": reduce(lambda held, new: held + 0.3 * (new - held), series[-60:]),
        "seasonal_naive": dated.get(_year_before(task, dated), series[-1]),
    }
    if task.baseline_name in plain:
        return plain[task.baseline_name]
    held = min(max(task.baseline, min(series)), max(series))
    if task.baseline_name == "best_of":
        return min([held, *plain.values()], key=lambda number: abs(number - task.baseline))
    return held


def _unchanged(task: NowcastData, newest: float, known: Mapping[dt.date, float]) -> float:
    """The transform of the task's period if its level is the last one again."""
    last, then = known[max(known)], _year_before(task, known)
    if task.transform == "lin":
        return last
    if task.transform in STEPS:
        return 0.0
    if then not in known:
        return newest
    before = known[then]
    if task.transform == "ch1":
        return last - before
    return 100.0 * (last - before) / before if min(before, last) > 0 else newest


def _year_before(task: NowcastData, known: Mapping[dt.date, float]) -> dt.date:
    """The period a year before the task's; of daily series, the observation 260 before."""
    period = dt.date.fromisoformat(task.reference_period)
    with_it = {**known, period: math.nan}  # daily series count their observations
    return _earlier(with_it, period, task.frequency, A_YEAR[task.frequency])


def _scale(task: NowcastData, series: list[float], level: list[float]) -> float:
    """The scale of a task, no less than one unit of the levels' last printed digit."""
    recent, middle = series[-24:], statistics.median(series[-24:])
    spread = {
        "std_24": statistics.pstdev(recent),
        "mad_24": statistics.median(abs(number - middle) for number in recent),
        "mean_abs_change_60": statistics.fmean(
            [abs(series[i] - series[i - 1]) for i in range(1, len(series))][-60:] or [0.0]
        ),
    }[task.scale_name]
    digits = [Decimal(repr(number)).normalize().as_tuple().exponent for number in level[-60:]]
    places = [int(place) for place, number in zip(digits, level[-60:], strict=True) if number]
    if spread == 0 or not places or min(places) < -15:
        return spread
    unit = float(Decimal(10) ** min(*places, 15))
    percent = task.transform in ("pch", "pc1", "pca")
    if percent and level[-1] == 0:
        return spread
    return max(spread, 100.0 * unit / abs(level[-1]) if percent else unit)


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
