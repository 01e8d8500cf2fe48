"""Series that publish another's answer: what is found, what is let be, and what closes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nowcast_alfred.lab import audit, audit_siblings
from nowcast_alfred.lab.audit_case import Finding, case_of
from nowcast_alfred.lab.sampling import taskset_of
from nowcast_alfred.store import SeriesInput, publish
from panels import Row, after, meta, months, number, table

COUNT = 90
ARCHIVE = 45
"""Periods in the first vintage; the others come one a release."""


def walk(key: str, start: int, step: int = 400) -> list[float]:
    """A random walk in tenths."""
    shocks = [number(f"{key}/{i}", step) for i in range(COUNT)]
    return [(start + total) / 10 for total in np.cumsum(shocks).tolist()]


def published(levels: list[float], lag: int) -> list[Row]:
    """One release a month, never revised."""
    periods = months("2008-01-01", COUNT)
    days = [after(period, lag) for period in periods]
    return [
        (period, max(days[i], days[ARCHIVE]), level)
        for i, (period, level) in enumerate(zip(periods, levels, strict=True))
    ]


A, B, C = walk("A", 100_000), walk("B", 60_000), walk("C", 40_000)
TOTAL = [a + b for a, b in zip(A, B, strict=True)]
Panel = dict[str, tuple[list[float], int]]


def found_in(
    folder: Path, panel: Panel, roles: dict[str, str] | None = None, **settings: Any
) -> Finding:
    """The finding on a store of series by id: levels, and days from period end to release."""
    inputs = [
        SeriesInput(
            [meta(key, transform="chg", role=(roles or {}).get(key, "target"))],
            table(published(levels, lag), key),
        )
        for key, (levels, lag) in panel.items()
    ]
    publish(folder / "S", inputs)
    return audit_siblings.check(case_of(taskset_of(settings, "test", str(folder / "S")), 10))


def test_series_of_their_own_are_closed(tmp_path: Path) -> None:
    found = found_in(tmp_path, {"A": (A, 10), "B": (B, 5), "C": (C, 20)})
    assert (found.status, found.evidence["relations"]) == ("closed", 0)


@pytest.mark.parametrize("lag", [10, 5, 15])
def test_a_series_under_another_id_is_open_whenever_it_comes(tmp_path: Path, lag: int) -> None:
    found = found_in(tmp_path, {"A": (A, 10), "A_COPY": (A, lag), "B": (B, 10)})
    assert found.status == "open"
    assert found.evidence["one target under two ids"] == ["A equals A_COPY"]


def test_what_is_told_closes_it(tmp_path: Path) -> None:
    panel: Panel = {"A": (A, 10), "A_COPY": (A, 10), "B": (B, 10)}
    assert 'exclude_series = ["A_COPY"]' in found_in(tmp_path, panel).advice
    assert found_in(tmp_path, panel, exclude_series=["A_COPY"]).status == "closed"


def test_of_an_equal_pair_the_later_one_is_to_be_excluded(tmp_path: Path) -> None:
    panel: Panel = {"A": (A, 15), "A_COPY": (A, 5)}
    assert 'exclude_series = ["A"]' in found_in(tmp_path, panel).advice
    assert found_in(tmp_path, panel, exclude_series=["A"]).status == "closed"
    assert found_in(tmp_path, panel, exclude_series=["A_COPY"]).status == "open"


def test_a_copy_that_ended_before_a_benchmark_is_found(tmp_path: Path) -> None:
    revised = [
        (period, "2016-02-01", level * 1.05 + 7 * i)
        for i, (period, _, level) in enumerate(published(A, 10))
    ]
    rows = {"A": published(A, 10) + revised, "OLD": published(A, 10)}
    publish(tmp_path / "S", [SeriesInput([meta(key)], table(of, key)) for key, of in rows.items()])
    found = audit_siblings.check(case_of(taskset_of({}, "test", str(tmp_path / "S")), 10))
    assert found.evidence["one target under two ids"] == ["A equals OLD"]


def test_a_held_out_series_under_another_id_is_open(tmp_path: Path) -> None:
    panel: Panel = {"A": (A, 10), "A_COPY": (A, 10), "B": (B, 10)}
    assert found_in(tmp_path, panel, holdout_series=["A"]).status == "open"


def test_a_predictor_that_is_a_copy_is_open_only_if_it_comes_first(tmp_path: Path) -> None:
    roles = {"P": "predictor"}
    for lag, status in ((15, "closed"), (10, "closed"), (9, "open")):
        folder = tmp_path / str(lag)
        assert found_in(folder, {"A": (A, 10), "P": (A, lag)}, roles).status == status


RESCALED = {
    "thousandths": [round(a / 1000, 4) for a in A],
    "shifted": [round(a + 5000.0, 1) for a in A],
    "negative": [-2 * a for a in A],
    "rebased": [round(a * 0.7123, 3) for a in A],
}


@pytest.mark.parametrize("how", RESCALED)
def test_a_rescaled_predictor_is_open_if_it_comes_first(tmp_path: Path, how: str) -> None:
    roles = {"Z": "predictor"}
    early = found_in(tmp_path / "early", {"A": (A, 10), "Z": (RESCALED[how], 9)}, roles)
    (line,) = early.evidence["published earlier"]
    assert line.startswith("A rescales Z: ")
    same = found_in(tmp_path / "same", {"A": (A, 10), "Z": (RESCALED[how], 10)}, roles)
    assert same.status == "closed"
    assert same.evidence["published no earlier"] == ["A rescales Z"]


@pytest.mark.parametrize("lag", [10, 15])
@pytest.mark.parametrize("how", RESCALED)
def test_a_target_in_another_unit_is_one_target_under_two_ids(
    tmp_path: Path, how: str, lag: int
) -> None:
    panel: Panel = {"A": (A, 10), "B": (B, 10), "Z": (RESCALED[how], lag)}
    found = found_in(tmp_path / "both", panel)
    assert found.evidence["one target under two ids"] == ["A rescales Z"]
    assert found.status == "open"
    held = found_in(tmp_path / "held", panel, holdout_series=["A"])
    assert (held.status, 'exclude_series = ["Z"]' in held.advice) == ("open", True)
    done = found_in(tmp_path / "done", panel, holdout_series=["A"], exclude_series=["Z"])
    assert done.status == "closed"


def test_of_a_held_out_pair_neither_is_trained_on(tmp_path: Path) -> None:
    panel: Panel = {"A": (A, 10), "B": (B, 10), "Z": (RESCALED["negative"], 10)}
    assert found_in(tmp_path, panel, holdout_series=["A", "Z"]).status == "closed"


def test_a_rescaled_copy_with_a_break_is_found(tmp_path: Path) -> None:
    broken = [-2 * a + (900 if i in (70, 71, 72) else 0) for i, a in enumerate(A)]
    found = found_in(tmp_path, {"A": (A, 10), "Z": (broken, 10)})
    assert found.evidence["one target under two ids"] == ["A rescales Z"]


def near(levels: list[float], share: int) -> list[float]:
    """Twice some levels, give or take up to so many hundredths of their usual change."""
    return [2 * a + 40 * number(f"near/{i}", share) / 100 for i, a in enumerate(levels)]


STEP = [100.0 + i // 18 for i in range(COUNT)]
OTHERS: dict[str, Panel] = {
    "alike": {"A": (A, 10), "Z": (near(A, 60), 10)},
    "trends": {
        "A": ([100.0 + 3 * i for i in range(COUNT)], 10),
        "Z": ([50.0 + 7 * i for i in range(COUNT)], 10),
    },
    "steps": {"A": (STEP, 10), "Z": ([3 * x for x in STEP], 10)},
    "two values": {
        "A": ([float(i % 2) for i in range(COUNT)], 10),
        "Z": ([5.0 - 2 * (i % 2) for i in range(COUNT)], 10),
    },
    "changes of": {"A": (A, 10), "Z": ([0.0, *np.diff(A).tolist()], 10)},
    "short overlap": {"A": (A, 10), "Z": ([-2 * a for a in A[:20]] + C[20:], 10)},
}


@pytest.mark.parametrize("which", OTHERS)
def test_series_that_only_look_alike_are_not_one_target(tmp_path: Path, which: str) -> None:
    found = found_in(tmp_path, {**OTHERS[which], "B": (B, 10)})
    assert "one target under two ids" not in found.evidence
    assert found.status == "closed"


def test_a_rate_in_more_digits_is_a_copy(tmp_path: Path) -> None:
    fine = [5 + level / 100 for level in walk("rate", 0, 1000)]
    coarse = [round(level, 1) for level in fine]
    found = found_in(tmp_path, {"COARSE": (coarse, 10), "FINE": (fine, 9)})
    assert found.status == "open"


def test_rates_that_move_alike_are_no_copies(tmp_path: Path) -> None:
    first = [round(5 + level / 100, 1) for level in walk("rate", 0, 1000)]
    other = [round(x + number(f"gap/{i}", 3) / 10, 1) for i, x in enumerate(first)]
    assert found_in(tmp_path, {"A": (first, 10), "B": (other, 5)}).evidence["relations"] == 0


@pytest.mark.parametrize(
    ("panel", "text"),
    [
        ({"T": (TOTAL, 10), "A": (A, 8), "B": (B, 9)}, "T = A + B"),
        ({"A": (A, 10), "T": (TOTAL, 9), "B": (B, 9)}, "A = T - B"),
    ],
)
def test_parts_that_come_before_their_sum_are_open(tmp_path: Path, panel: Panel, text: str) -> None:
    found = found_in(tmp_path, panel)
    (line,) = found.evidence["published earlier"]
    assert line.startswith(f"{text}: ")
    target = text.split(" ")[0]
    assert f'exclude_series = ["{target}"]' in found.advice
    assert found_in(tmp_path, panel, exclude_series=[target]).status == "closed"


def test_a_sum_is_found_up_to_its_rounding(tmp_path: Path) -> None:
    rounded = [float(round(total)) for total in TOTAL]
    panel: Panel = {"T": (rounded, 10), "A": (A, 8), "B": (B, 8)}
    assert found_in(tmp_path, panel).status == "open"


def test_a_sum_that_comes_with_its_parts_is_let_be(tmp_path: Path) -> None:
    found = found_in(tmp_path, {"T": (TOTAL, 10), "A": (A, 10), "B": (B, 10)})
    assert found.status == "closed"
    assert "T = A + B" in found.evidence["published no earlier"]


def test_a_part_that_comes_late_gives_nothing_away(tmp_path: Path) -> None:
    assert found_in(tmp_path, {"T": (TOTAL, 10), "A": (A, 5), "B": (B, 12)}).evidence[
        "published earlier"
    ] == ["B = T - A: 44 of 44 targets, first 2011-11-01"]


@pytest.mark.parametrize(("lag", "days"), [(10, None), (9, 1), (12, 2), (3, None)])
def test_series_of_one_release_that_are_dated_apart_are_named(
    tmp_path: Path, lag: int, days: int | None
) -> None:
    """Not a week: a report gives one series for another period than the other."""
    rows = {"A": published(A, 10), "B": published(B, lag)}
    one = "Report on both"
    inputs = [SeriesInput([meta(key, release=one)], table(of, key)) for key, of in rows.items()]
    publish(tmp_path / "S", inputs)
    found = audit_siblings.check(case_of(taskset_of({}, "test", str(tmp_path / "S")), 10))
    early, late = ("B", "A") if lag < 10 else ("A", "B")
    line = f"{early} is dated {days} days before {late} ({COUNT - ARCHIVE - 1} times)"
    assert found.evidence.get("one release, other days") == ([line] if days else None)
    assert found.status == "closed"


def test_a_report_names_the_route_of_a_duplicated_series(tmp_path: Path) -> None:
    found_in(tmp_path, {"A": (A, 10), "A_COPY": (A, 10)})
    (report,) = audit.run(store=str(tmp_path / "S"), draws=10, served=1)
    assert [finding.route for finding in report.opened] == [audit_siblings.ROUTE]
