"""Is any task dated on or after its answer? Windows and outcomes, derived again from raw rows.

Each draw's task is held against `recheck`, which shares no code with the reader or the task space,
and the number that scoring would read against the same transform of the raw rows of the release
vintage.
"""

from __future__ import annotations

import datetime as dt
import math

from .. import recheck
from ..data import NowcastData
from ..errors import NowcastError
from ..rewards import outcome
from ..stream import describe
from .audit_case import Case, Finding, Step

ROUTE = "a snapshot dated on or after the release"


def check(case: Case, step: Step) -> Finding:
    """Derive every draw of a case again."""
    data_of = case.taskset.builder(case.stream)
    first, faulty = "", 0
    for draw in case.draws:
        data = data_of(draw.n)
        found = recheck.faults(case.uri, data) or outcome_faults(case.uri, data)
        if found:
            first = first or f"{describe(draw)}: {found[0]}"
            faulty += 1
        step()
    evidence = {
        "draws": case.count,
        "distinct": len(case.draws),
        "series": len({draw.series_id for draw in case.draws}),
        "faulty": faulty,
    }
    return Finding(
        ROUTE,
        "open" if faulty else "closed",
        "as-of windows, baselines, scales and outcomes derived again from the raw rows",
        {**evidence, "first": first} if faulty else evidence,
        "train and evaluate on nothing of this store until the first fault is explained: the store "
        "was written by something else, or the package was changed (nowcast-alfred store verify)"
        if faulty
        else "",
    )


def outcome_faults(uri: str, data: NowcastData) -> list[str]:
    """How the outcome that scoring reads differs from that of the raw rows, if it does."""
    rows = recheck.raw_rows(uri, data.store, data.series_id)
    period = dt.date.fromisoformat(data.reference_period)
    known = recheck.levels(rows, rows[period][0][0])
    number = recheck.change(known, period, data.transform, data.frequency)
    try:
        held = outcome(data, uri).first
    except NowcastError as error:
        return [str(error)]
    if math.isclose(held, number, rel_tol=1e-9, abs_tol=1e-12):
        return []
    return [f"the outcome is {held}, rows give {number}"]
