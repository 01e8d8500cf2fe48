"""Reference periods and transforms, as pure arithmetic.

A period is identified by its first day, kept as days since 1970-01-01 (`int32`, the layout of
Arrow's date32), so that a whole series is one small array. Lags are calendar lags: the previous
month of March is February whether or not February has a value, and a gap gives NaN instead of a
change over two months. Daily series are the exception: markets close, so their previous period is
the previous observation.

Transforms carry FRED's unit codes. Powers are repeated multiplications and every operation is a
single IEEE one, so that a value is the same to the last bit on any machine.
"""

from __future__ import annotations

import datetime as dt
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from .errors import QueryError

Frequency = Literal["d", "w", "m", "q", "a"]
Units = Literal["lin", "chg", "ch1", "pch", "pc1", "pca"]
Days = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

FREQUENCIES: tuple[str, ...] = get_args(Frequency)
UNITS: tuple[str, ...] = get_args(Units)
FREQUENCY_NAMES = {
    "d": "daily",
    "w": "weekly",
    "m": "monthly",
    "q": "quarterly",
    "a": "annual",
}
PERIOD_NOUNS = {"d": "day", "w": "week", "m": "month", "q": "quarter", "a": "year"}
PERIODS_PER_YEAR = {"d": 260, "w": 52, "m": 12, "q": 4, "a": 1}

_EPOCH = dt.date(1970, 1, 1)
_MONTHS_PER_PERIOD = {"m": 1, "q": 3, "a": 12}
# Not from `calendar`, whose names follow the locale.
_MONTH_NAMES = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def to_days(date: str | dt.date) -> int:
    """Days since 1970-01-01 of an ISO date (`YYYY-MM-DD`) or a date.

    Raises
    ------
    QueryError
        If the text is not a calendar date in that form.
    """
    if isinstance(date, str):
        text = date
        try:
            if len(text) != 10 or text[4] != "-" or text[7] != "-":  # not the week form
                raise ValueError(text)
            date = dt.date.fromisoformat(text)
        except ValueError:
            raise QueryError(f"{text[:40]!r} is not a date; write it as YYYY-MM-DD") from None
    elif isinstance(date, dt.datetime):  # pandas' timestamps too
        date = date.date()
    return (date - _EPOCH).days


def to_date(days: int) -> dt.date:
    """The date `days` after 1970-01-01."""
    return _EPOCH + dt.timedelta(days=int(days))


def iso(days: int) -> str:
    """`days` since 1970-01-01 as `YYYY-MM-DD`."""
    return to_date(days).isoformat()


def _month_ordinal(date: dt.date) -> int:
    return (date.year - 1970) * 12 + date.month - 1


def _month_start(ordinal: int) -> dt.date:
    return dt.date(1970 + ordinal // 12, ordinal % 12 + 1, 1)


def shift(period: int, frequency: Frequency, count: int) -> int:
    """First day of the period `count` periods after `period` (before, if negative)."""
    if frequency in ("d", "w"):
        return int(period) + count * (7 if frequency == "w" else 1)
    months = _MONTHS_PER_PERIOD[frequency] * count
    return to_days(_month_start(_month_ordinal(to_date(period)) + months))


def period_end(period: int, frequency: Frequency) -> int:
    """Last day of the period that starts on `period`."""
    return shift(period, frequency, 1) - 1


def period_ends(periods: Days, frequency: Frequency) -> Days:
    """Last day of each period, vectorised; shape and order as `periods`."""
    if frequency in ("d", "w"):
        return np.asarray(periods + (6 if frequency == "w" else 0), dtype=np.int32)
    months = periods.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    after = (months + _MONTHS_PER_PERIOD[frequency]).astype("datetime64[M]")
    return np.asarray(after.astype("datetime64[D]").astype(np.int64) - 1, dtype=np.int32)


def label(period: int, frequency: Frequency) -> str:
    """The period in words: `January 2024`, `2024 Q1`, `the week of 2024-01-07`, `2024`."""
    date = to_date(period)
    if frequency == "m":
        return f"{_MONTH_NAMES[date.month - 1]} {date.year}"
    if frequency == "q":
        return f"{date.year} Q{(date.month + 2) // 3}"
    if frequency == "a":
        return str(date.year)
    return f"the week of {date.isoformat()}" if frequency == "w" else date.isoformat()


def ordinals(periods: Days, frequency: Frequency) -> npt.NDArray[np.int64]:
    """Consecutive integers for consecutive periods; shape and order as `periods`."""
    if frequency == "d":
        return np.arange(len(periods), dtype=np.int64)
    days = periods.astype("datetime64[D]")
    if frequency == "w":
        return np.asarray(periods, dtype=np.int64) // 7
    months = days.astype("datetime64[M]").astype(np.int64)
    return months // _MONTHS_PER_PERIOD[frequency]


def lag_of(units: Units, frequency: Frequency) -> int:
    """How many periods back a transform looks: 0 for `lin`, 1, or a year's periods."""
    if units == "lin":
        return 0
    return PERIODS_PER_YEAR[frequency] if units in ("ch1", "pc1") else 1


def lagged(periods: Days, values: Floats, frequency: Frequency, lag: int) -> Floats:
    """The value `lag` periods earlier for each period, NaN where it is not known.

    Parameters
    ----------
    periods, values
        Sorted periods without repeats and their values, both of shape (n,).

    Returns
    -------
    Array of shape (n,), float64.
    """
    n = len(periods)
    out = np.full(n, np.nan)
    if n == 0:
        return out
    order = ordinals(periods, frequency)
    if order[-1] - order[0] == n - 1:  # no gap: a plain shift
        out[lag:] = values[: max(n - lag, 0)]
        return out
    at = np.searchsorted(order, order - lag)
    found = order[at] == order - lag  # at <= own index, so it never runs off the end
    out[found] = values[at[found]]
    return out


def transform(periods: Days, values: Floats, units: Units, frequency: Frequency) -> Floats:
    """Apply one of FRED's unit codes to a series of levels.

    `lin` level; `chg` change from the previous period; `ch1` change from a year ago; `pch`
    percent change; `pc1` percent change from a year ago; `pca` compounded annual rate of change,
    ((x/x_prev)^n - 1) x 100 with n periods a year.

    Parameters
    ----------
    periods, values
        Sorted periods without repeats and their levels, both of shape (n,).

    Returns
    -------
    Array of shape (n,), float64, in the level's unit (`lin`, `chg`, `ch1`) or in percent. NaN
    where an earlier value is missing, where a ratio has no meaning (a level of zero or below), or
    where the result is too large for a float.

    Source: FRED API documentation, series/observations, parameter `units`.
    """
    if units == "lin":
        return values
    before = lagged(periods, values, frequency, lag_of(units, frequency))
    with np.errstate(over="ignore"):
        if units in ("chg", "ch1"):
            out = values - before
        else:
            valid = (before > 0) & (values > 0)
            ratio = np.full(len(values), np.nan)
            np.divide(values, before, out=ratio, where=valid)
            if units == "pca":
                ratio = _power(ratio, PERIODS_PER_YEAR[frequency])
            out = (ratio - 1.0) * 100.0
    out[np.isinf(out)] = np.nan
    return out


def _power(base: Floats, exponent: int) -> Floats:
    """`base ** exponent` by squaring: the same bits everywhere, unlike `pow`."""
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        base = base * base
        exponent >>= 1
    return result


def is_percent(units: Units, level_units: str) -> bool:
    """Whether a transformed value is in percent, so that a reply may end in `%`."""
    return units in ("pch", "pc1", "pca") or "percent" in level_units.lower()


def unit_text(units: Units, level_units: str, frequency: Frequency) -> str:
    """What a transformed value measures, for prompts: `change from the previous month, ...`."""
    noun = PERIOD_NOUNS[frequency]
    lower = level_units.lower()
    return {
        "lin": f"level, in {lower}",
        "chg": f"change from the previous {noun}, in {lower}",
        "ch1": f"change from a year earlier, in {lower}",
        "pch": f"percent change from the previous {noun}",
        "pc1": "percent change from a year earlier",
        "pca": f"percent change from the previous {noun}, compounded to an annual rate",
    }[units]


def check_units(text: str) -> Units:
    """The unit code `text`, or a QueryError that lists the codes."""
    for units in get_args(Units):
        if text == units:
            return units  # type: ignore[no-any-return]
    raise QueryError(f"unknown units {text[:20]!r}; one of {', '.join(UNITS)}")


def check_frequency(text: str) -> Frequency:
    """The frequency code `text`, or a QueryError that lists the codes."""
    for frequency in get_args(Frequency):
        if text == frequency:
            return frequency  # type: ignore[no-any-return]
    raise QueryError(f"unknown frequency {text[:20]!r}; one of {', '.join(FREQUENCIES)}")
