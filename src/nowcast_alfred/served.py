"""Everything an agent can read of the data, as text made from one view.

Tool answers, staged files and the tables of a prompt all come from here and take an `AsOfView`
and nothing else, so that what holds for the view (no fact from after its date) holds for every
byte served. Answers are bounded, and a longer one says how to ask for the rest. A question that
cannot be answered gets a line that starts with `error:` and names only what was asked.
"""

from __future__ import annotations

import io
import statistics
import tarfile

import numpy as np

from . import periods as p
from .errors import QueryError
from .store.reader import AsOfView, Observations
from .store.schema import SeriesMeta

MAX_SERIES = 12
MAX_ROWS = 240
MAX_MATCHES = 40
FOLDER = "catalog"


def number(value: float) -> str:
    """A value as agents see it: eight significant digits, no exponent for ordinary sizes.

    >>> number(157232.0), number(0.1 + 0.2)
    ('157232', '0.3')
    """
    return f"{value:.8g}"


def observations(
    view: AsOfView,
    series_ids: list[str] | str,
    units: str = "lin",
    start: str | None = None,
    end: str | None = None,
    last: int = 36,
) -> str:
    """Values of one series or several, newest last, as CSV blocks."""
    ids = [series_ids] if isinstance(series_ids, str) else list(dict.fromkeys(series_ids))
    if not ids:
        return "error: series_ids is empty"
    if len(ids) > MAX_SERIES:
        return f"error: {len(ids)} series asked for; at most {MAX_SERIES} a call"
    rows = max(1, min(int(last), MAX_ROWS // len(ids)))
    return "\n\n".join(_block(view, key, units, start, end, rows) for key in ids)


def _block(
    view: AsOfView, key: str, units: str, start: str | None, end: str | None, rows: int
) -> str:
    try:
        code = p.check_units(units)
        meta = view.meta(key)
        known = view.observations(key, start or None, end or None, code)
    except QueryError as error:
        return f"error: {error}"
    shown = Observations(known.period[-rows:], known.value[-rows:])
    what = p.unit_text(code, meta.units, meta.frequency)
    head = f"{key} | {code}: {what} | {len(shown)} of {len(known)} values"
    if len(shown) < len(known):
        older = p.iso(int(known.period[len(known) - len(shown) - 1]))
        head += f" (for older ones ask with end={older})"
    return f"{head}\n{table(shown)}" if len(shown) else head


def table(known: Observations) -> str:
    """`date,value` lines."""
    days = np.datetime_as_string(known.period.astype("datetime64[D]"))
    values = known.value.tolist()
    lines = [f"{day},{number(value)}" for day, value in zip(days, values, strict=True)]
    return "\n".join(["date,value", *lines])


def search(view: AsOfView, text: str = "", limit: int = 20, skip: int = 0) -> str:
    """Series that match some words, best first; all series for no words."""
    found = view.search(text[:200])
    limit, skip = max(1, min(int(limit), MAX_MATCHES)), max(0, int(skip))
    shown = found[skip : skip + limit]
    lines = [f"{len(found)} series match"] + [line(row) for row in shown]
    if skip + limit < len(found):
        lines.append(f"(for more ask with skip={skip + limit})")
    return "\n".join(lines)


def line(meta: SeriesMeta) -> str:
    """One series in one line."""
    frequency = p.FREQUENCY_NAMES[meta.frequency]
    return f"{meta.id} | {frequency} | {meta.units}, {meta.seasonal_adjustment} | {meta.title}"


def series(view: AsOfView, series_id: str) -> str:
    """What is known about one series."""
    try:
        meta, known = view.meta(series_id), view.observations(series_id)
        vintages = view.vintages(series_id)
    except QueryError as error:
        return f"error: {error}"
    facts = {
        "id": meta.id,
        "title": meta.title,
        "frequency": p.FREQUENCY_NAMES[meta.frequency],
        "units": meta.units,
        "seasonal adjustment": meta.seasonal_adjustment,
        "release": meta.release,
        "category": meta.category,
        "values": f"{len(known)}",
        "vintages": f"{len(vintages)}, {p.iso(int(vintages[0]))} to {p.iso(int(vintages[-1]))}",
    }
    if len(known):
        span = f", {p.iso(int(known.period[0]))} to {p.iso(int(known.period[-1]))}"
        facts["values"] += span
    return "\n".join(f"{name}: {value}" for name, value in facts.items() if value)


def revisions(view: AsOfView, series_id: str, period: str | None = None) -> str:
    """How the level of one period (the newest, if none is named) was published and revised."""
    try:
        if not period:
            known = view.observations(series_id)
            if not len(known):
                return f"error: {series_id} has no value on {view.as_of}"
            period = p.iso(int(known.period[-1]))
        rows = view.revisions(series_id, period)
        frequency = view.meta(series_id).frequency
    except QueryError as error:
        return f"error: {error}"
    if not rows:
        return f"error: {series_id} has no value of {period} on {view.as_of}"
    head = (
        f"{series_id} {p.label(p.to_days(period), frequency)} | {len(rows)} vintages with a change"
    )
    if len(rows) > MAX_ROWS:
        head += f", the newest {MAX_ROWS}"
    lines = [
        f"{vintage},{'withdrawn' if value is None else number(value)}"
        for vintage, value in rows[-MAX_ROWS:]
    ]
    return "\n".join([head, "vintage,value", *lines])


def releases(view: AsOfView, series_id: str, last: int = 12) -> str:
    """When the newest periods were first published, and the usual lag after period end."""
    try:
        known = view.releases(series_id)
    except QueryError as error:
        return f"error: {error}"
    rows = max(1, min(int(last), MAX_ROWS))
    if not len(known.period):
        return f"{series_id} | no first release is on record by {view.as_of}"
    lag = known.lag[-rows:].tolist()
    head = (
        f"{series_id} | the last {len(lag)} first releases | usually {statistics.median(lag):g} "
        f"days after the period ends (from {min(lag)} to {max(lag)})"
    )
    period, day = known.period[-rows:].tolist(), known.day[-rows:].tolist()
    lines = [f"{p.iso(a)},{p.iso(b)},{c}" for a, b, c in zip(period, day, lag, strict=True)]
    return "\n".join([head, "period,released,days_after_period_end", *lines])


def staged_files(view: AsOfView) -> dict[str, str]:
    """The files of `context = "files"`: `catalog/<SERIES>.csv` with levels, and a README."""
    known = view.series()
    files = {f"{FOLDER}/{meta.id}.csv": table(view.observations(meta.id)) + "\n" for meta in known}
    listing = "\n".join(f"- `{meta.id}.csv`: {line(meta)}; {meta.release}" for meta in known)
    files[f"{FOLDER}/README.md"] = (
        f"# Series as known on {view.as_of}\n\nEach file holds `date,value`: the first day of a "
        f"period and its level as published by that day.\n\n{listing}\n"
    )
    return files


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
