"""Everything an agent can read of the data, as text made from one view.

Tool answers, staged files and the tables of a prompt all come from here and take an `AsOfView`
and nothing else, so that what holds for the view (no fact from after its date) holds for every
byte served. An `OpaqueView` makes all of it opaque; here that only changes how a date is written.
Answers are bounded, and a longer one says how to ask for the rest. Arguments come as an agent
wrote them, of any type: a question that cannot be answered gets a line that starts with `error:`
and names only what was asked.
"""

from __future__ import annotations

import io
import re
import statistics
import tarfile
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import numpy as np

from . import periods as p
from .errors import QueryError
from .opaque import OpaqueView
from .store.reader import AsOfView, Observations
from .store.schema import SeriesMeta

MAX_SERIES = 12
MAX_ROWS = 240
MAX_MATCHES = 40
MAX_BYTES = 65_536
"""Of one answer in UTF-8. The limits above stay far below it unless metadata are very long."""
FOLDER = "catalog"
HIDDEN_NAMES = "(names are hidden: words match ids, releases and categories as shown here)"

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}(\.0+)?", re.ASCII)
_P = ParamSpec("_P")


def _told(read: Callable[_P, str]) -> Callable[_P, str]:
    """The answer of a function, or its `QueryError` as a line."""

    @wraps(read)
    def answer(*args: _P.args, **kwargs: _P.kwargs) -> str:
        try:
            return read(*args, **kwargs)
        except QueryError as error:
            return f"error: {error}"

    return answer


def bounded(answer: str) -> str:
    """An answer of at most `MAX_BYTES`: of a longer one the first whole lines, and a remark."""
    data = answer.encode(errors="replace")
    if len(data) <= MAX_BYTES:
        return answer
    remark = f"\n(cut: an answer holds {MAX_BYTES} bytes; ask for fewer rows or series)"
    kept = data[: MAX_BYTES - len(remark)].decode(errors="ignore")
    return (kept.rpartition("\n")[0] or kept) + remark


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise QueryError(f"{name} must be text, not {type(value).__name__}")
    return value


def _bound(name: str, value: object) -> str | None:
    """A period as text, or None where none is asked for."""
    return None if value is None else _text(name, value) or None


def _whole(name: str, value: object, least: int) -> int:
    """A whole number, also written as `12.0` or in quotes; those above a limit are cut later."""
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        value = int(value.partition(".")[0])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise QueryError(f"{name} must be a whole number, {least} or more")
    return value


def _ids(value: object) -> list[str]:
    """The ids asked for, each once."""
    ids = [value] if isinstance(value, str) else value
    if not isinstance(ids, list | tuple) or not all(isinstance(key, str) for key in ids):
        raise QueryError("series_ids must be an id or a list of ids, as text")
    found = list(dict.fromkeys(ids))
    if not found:
        raise QueryError("series_ids is empty")
    if len(found) > MAX_SERIES:
        raise QueryError(f"{len(found)} series asked for; at most {MAX_SERIES} a call")
    return found


def number(value: float) -> str:
    """A value as agents see it: eight significant digits, no exponent for ordinary sizes.

    >>> number(157232.0), number(0.1 + 0.2)
    ('157232', '0.3')
    """
    return f"{value:.8g}"


def date(view: AsOfView, day: int) -> str:
    """A period's first day, or a day, as the view's reader writes it."""
    return str(day) if isinstance(view, OpaqueView) else p.iso(day)


def label(view: AsOfView, period: int, frequency: p.Frequency) -> str:
    """A period in words."""
    return f"t = {period}" if isinstance(view, OpaqueView) else p.label(period, frequency)


def unit_text(view: AsOfView, units: p.Units, meta: SeriesMeta) -> str:
    """What a series' value in some units measures."""
    text = p.unit_text(units, meta.units, meta.frequency)
    hidden = isinstance(view, OpaqueView) and p.is_percent(units, meta.units)
    return f"{text}, rescaled" if hidden else text


@_told
def observations(
    view: AsOfView,
    series_ids: list[str] | str,
    units: str = "lin",
    start: str | None = None,
    end: str | None = None,
    last: int = 36,
) -> str:
    """Values of one series or several, newest last, as CSV blocks."""
    ids, units = _ids(series_ids), _text("units", units)
    start, end = _bound("start", start), _bound("end", end)
    rows = min(_whole("last", last, 1), MAX_ROWS // len(ids))
    return "\n\n".join(_block(view, key, units, start, end, rows) for key in ids)


@_told
def _block(
    view: AsOfView, key: str, units: str, start: str | None, end: str | None, rows: int
) -> str:
    code = p.check_units(units)
    meta = view.meta(key)
    known = view.observations(key, start, end, code)
    shown = Observations(known.period[-rows:], known.value[-rows:])
    head = f"{key} | {code}: {unit_text(view, code, meta)} | {len(shown)} of {len(known)} values"
    if len(shown) < len(known):
        older = date(view, int(known.period[len(known) - len(shown) - 1]))
        head += f" (for older ones ask with end={older})"
    return f"{head}\n{table(view, shown)}" if len(shown) else head


def table(view: AsOfView, known: Observations) -> str:
    """`date,value` lines; `t,value` of an opaque view."""
    hidden = isinstance(view, OpaqueView)
    dates = np.datetime_as_string(known.period.astype("datetime64[D]"))
    days = known.period.tolist() if hidden else dates
    values = known.value.tolist()
    lines = [f"{day},{number(value)}" for day, value in zip(days, values, strict=True)]
    return "\n".join([f"{'t' if hidden else 'date'},value", *lines])


@_told
def search(view: AsOfView, text: str = "", limit: int = 20, skip: int = 0) -> str:
    """Series that match some words, best first; all series for no words."""
    found = view.search(_text("text", text)[:200])
    limit, skip = min(_whole("limit", limit, 1), MAX_MATCHES), _whole("skip", skip, 0)
    shown = found[skip : skip + limit]
    lines = [f"{len(found)} series match"] + [line(row) for row in shown]
    if isinstance(view, OpaqueView):
        lines.insert(1, HIDDEN_NAMES)
    if skip + limit < len(found):
        lines.append(f"(for more ask with skip={skip + limit})")
    return "\n".join(lines)


def line(meta: SeriesMeta) -> str:
    """One series in one line."""
    frequency = p.FREQUENCY_NAMES[meta.frequency]
    return f"{meta.id} | {frequency} | {meta.units}, {meta.seasonal_adjustment} | {meta.title}"


@_told
def series(view: AsOfView, series_id: str) -> str:
    """What is known about one series."""
    meta, known = view.meta(_text("series_id", series_id)), view.observations(series_id)
    vintages = view.vintages(series_id)
    facts = {
        "id": meta.id,
        "title": meta.title,
        "frequency": p.FREQUENCY_NAMES[meta.frequency],
        "units": meta.units,
        "seasonal adjustment": meta.seasonal_adjustment,
        "release": meta.release,
        "category": meta.category,
        "values": f"{len(known)}",
        "vintages": f"{len(vintages)}, {_span(view, vintages)}",
    }
    if len(known):
        facts["values"] += f", {_span(view, known.period)}"
    return "\n".join(f"{name}: {value}" for name, value in facts.items() if value)


def _span(view: AsOfView, days: p.Days) -> str:
    return f"{date(view, int(days[0]))} to {date(view, int(days[-1]))}"


@_told
def revisions(view: AsOfView, series_id: str, period: str | None = None) -> str:
    """How the level of one period (the newest, if none is named) was published and revised."""
    frequency = view.meta(_text("series_id", series_id)).frequency
    period = _bound("period", period)
    if period is None:
        known = view.observations(series_id)
        if not len(known):
            raise QueryError(f"{series_id} has no value on {view.as_of}")
        period = date(view, int(known.period[-1]))
    rows = view.revisions(series_id, period)
    if not rows:
        raise QueryError(f"{series_id} has no value of {period} on {view.as_of}")
    hidden = isinstance(view, OpaqueView)
    shown = label(view, int(period) if hidden else p.to_days(period), frequency)
    head = f"{series_id} {shown} | {len(rows)} vintages with a change"
    if len(rows) > MAX_ROWS:
        head += f", the newest {MAX_ROWS}"
    lines = [
        f"{vintage},{'withdrawn' if value is None else number(value)}"
        for vintage, value in rows[-MAX_ROWS:]
    ]
    return "\n".join([head, "vintage,value", *lines])


@_told
def releases(view: AsOfView, series_id: str, last: int = 12) -> str:
    """When the newest periods were first published, and the usual lag after period end."""
    known = view.releases(_text("series_id", series_id))
    rows = min(_whole("last", last, 1), MAX_ROWS)
    if not len(known.period):
        return f"{series_id} | no first release is on record by {view.as_of}"
    lag = known.lag[-rows:].tolist()
    hidden = isinstance(view, OpaqueView)
    unit = "periods later" if hidden else "days after the period ends"
    head = (
        f"{series_id} | the last {len(lag)} first releases | usually {statistics.median(lag):g} "
        f"{unit} (from {min(lag)} to {max(lag)})"
    )
    columns = "period,released," + ("periods_later" if hidden else "days_after_period_end")
    period, day = known.period[-rows:].tolist(), known.day[-rows:].tolist()
    rows_shown = zip(period, day, lag, strict=True)
    lines = [f"{date(view, a)},{date(view, b)},{c}" for a, b, c in rows_shown]
    return "\n".join([head, columns, *lines])


def staged_files(view: AsOfView, target: str = "", units: p.Units = "lin") -> dict[str, str]:
    """The files of `context = "files"`: `catalog/<SERIES>.csv` with levels, and a README.

    From disguised levels a percent change cannot be computed, so an opaque file has a column of the
    series' transform too, of the target's in the target's file.
    """
    known = view.series()
    hidden = isinstance(view, OpaqueView)
    files = {}
    for meta in known:
        text = table(view, view.observations(meta.id))
        code = units if meta.id == target else meta.transform
        if hidden and code != "lin":
            text = _with_column(text, code, view.observations(meta.id, units=code))
        files[f"{FOLDER}/{meta.id}.csv"] = f"{text}\n"
    if hidden:
        what = (
            "`t,value` and, where the series has a transform, a column of its units code: a period "
            "on the series' own clock (t = 0 holds today)"
        )
    else:
        what = "`date,value`: the first day of a period"
    listing = "\n".join(f"- `{meta.id}.csv`: {line(meta)}; {meta.release}" for meta in known)
    files[f"{FOLDER}/README.md"] = (
        f"# Series as known on {view.as_of}\n\nEach file holds {what} and its level as published "
        f"by that day.\n\n{listing}\n"
    )
    return files


def _with_column(text: str, code: str, changed: Observations) -> str:
    """A table of an opaque view with one more column, empty where there is no value."""
    head, *rows = text.split("\n")
    pairs = zip(changed.period.tolist(), changed.value.tolist(), strict=True)
    held = {str(t): number(value) for t, value in pairs}
    return "\n".join(
        [f"{head},{code}", *(f"{row},{held.get(row.partition(',')[0], '')}" for row in rows)]
    )


def as_tar(files: dict[str, str]) -> bytes:
    """Files as one tar archive, the same bytes for the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in sorted(files.items()):
            data = text.encode()
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()
