"""Answers in other clothes: in a target's transform, grouped, or rounded as people round."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nowcast_alfred import task, taskset
from nowcast_alfred.lab import audit, audit_channel, audit_files
from nowcast_alfred.lab.audit_case import Case, Finding, case_of
from nowcast_alfred.lab.audit_numbers import printed_in
from nowcast_alfred.lab.sampling import taskset_of
from nowcast_alfred.locate import opened
from nowcast_alfred.rewards import outcome
from nowcast_alfred.store import SeriesInput, publish
from panels import Row, after, meta, months, number, table
from test_audit import nothing
from test_tool_hardening import published

COUNT, ARCHIVE = 100, 45


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    return published(tmp_path_factory.mktemp("audited"))


def case_for(place: str, draws: int = 200, **settings: Any) -> Case:
    return case_of(taskset_of(settings, "test", place), draws)


# --- In a file


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store of one index with two decimals, asked for in percent, and of one count, in changes.

    Every release revises the period before, so that no change of first or latest levels is an
    outcome.
    """
    inputs = []
    for key, unit, start, transform in (("INDEX", 0.01, 9000, "pch"), ("JOBS", 1.0, 15e5, "chg")):
        periods, rows, level = months("2008-01-01", COUNT), list[Row](), start
        levels = [level := level + 20 + number(f"{key}/{i}", 300) for i in range(COUNT)]
        for j in range(ARCHIVE, COUNT):
            given = range(j + 1) if j == ARCHIVE else (j - 1, j)
            day = after(periods[j], 10)
            rows += [(periods[i], day, round((levels[i] + 7 * (j - i)) * unit, 2)) for i in given]
        inputs.append(SeriesInput([meta(key, transform=transform)], table(rows, key)))
    folder = tmp_path_factory.mktemp("jobs") / "S"
    publish(folder, inputs)
    return str(folder)


def told(place: str, key: str) -> list[float]:
    """The first releases that tasks on a series ask for, in order of period."""
    case = case_for(place, split="all")
    targets = case.stream.space.series[key]
    return [
        case.store.outcome(key, period, targets.role.transform).first
        for period in targets.period.tolist()
    ]


def searched(place: str, tmp_path: Path, text: str, name: str = "notes.md") -> list[str]:
    wheel = tmp_path / "some.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"nowcast_alfred/{name}", text)
    return audit_files.check(opened(place), [wheel]).evidence.get("found", [])


FORMS: dict[str, Callable[[list[float]], str]] = {
    "eight digits": lambda values: "\n".join(f"{y:.8g}" for y in values),
    "in full": lambda values: json.dumps(values),
    "as the levels": lambda values: ", ".join(f"{y:.2f}" for y in values),
    "dated rows": lambda values: "\n".join(
        f"JOBS {day} {y:.8g}" for day, y in zip(months("2012-01-01", 99), values, strict=False)
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("key", ["INDEX", "JOBS"])
def test_outcomes_in_the_transform_of_the_target_are_found(
    jobs: str, tmp_path: Path, key: str, form: str
) -> None:
    values = told(jobs, key)
    (found,) = searched(jobs, tmp_path, FORMS[form](values[5:25]))
    assert f"values of {key}" in found
    assert searched(jobs, tmp_path, FORMS[form](values[24:4:-1])) == []


def test_what_a_catalog_asks_for_is_looked_for(jobs: str, tmp_path: Path) -> None:
    """The store's own transform of JOBS is another one."""
    store = opened(jobs)
    values = audit_files.outcomes(store, "JOBS", "pch")
    wheel = tmp_path / "some.whl"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", " ".join(f"{y:.8g}" for y in values[3:12]))
    wheel.write_bytes(buffer.getvalue())
    assert audit_files.check(store, [wheel]).status == "closed"
    assert audit_files.check(store, [wheel], {"JOBS": "pch"}).status == "open"


def test_the_outcomes_looked_for_are_those_that_scoring_reads(place: str) -> None:
    case = case_for(place, split="all", min_history=1)
    for key, targets in case.stream.space.series.items():
        units = targets.role.transform
        found = audit_files.outcomes(case.store, key, units).tolist()
        read = [case.store.outcome(key, day, units).first for day in targets.period.tolist()]
        assert set(read) <= set(found), key


def test_a_report_looks_for_the_outcomes_of_its_tasks(jobs: str, tmp_path: Path) -> None:
    wheel = tmp_path / "some.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a.py", f"A = {told(jobs, 'INDEX')}")
    (report,) = audit.run(store=jobs, draws=20, dists=[wheel], served=1)
    assert [finding.route for finding in report.opened] == [audit_files.ROUTE]


@pytest.mark.parametrize("form", ["{:,.0f}", "{:,.1f}", "${:,.0f}"])
@pytest.mark.parametrize("between", [" ", ", ", "; ", "\n"])
def test_levels_with_grouped_digits_are_found(
    jobs: str, tmp_path: Path, form: str, between: str
) -> None:
    levels = opened(jobs).view("2099-12-31").observations("JOBS").value[-12:].tolist()
    (found,) = searched(jobs, tmp_path, between.join(form.format(x) for x in levels))
    assert "values of JOBS" in found


def test_a_list_without_blanks_is_read_number_by_number(place: str, tmp_path: Path) -> None:
    known = opened(place).view("2099-12-31").observations("EMP").value[-12:]
    (found,) = searched(place, tmp_path, ",".join(f"{x:.8g}" for x in known.tolist()))
    assert "values of EMP" in found


# --- In the task channel


def leaking(
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    change: Callable[[Any, float], Any],
    **settings: Any,
) -> Finding:
    """The finding where every task's data are changed by one who knows the first release."""
    honest = task.make_data

    def make_data(*given: Any, **named: Any) -> Any:
        data = honest(*given, **named)
        return change(data, outcome(data, place).first)

    monkeypatch.setattr(taskset, "make_data", make_data)
    return audit_channel.check(case_for(place, **settings), nothing)


def described(spec: str) -> Callable[[Any, float], Any]:
    return lambda d, y: d.model_copy(update={"description": f"it will be {y:{spec}}"})


SPECS = [".8g", ".6g", ".4g", ".3g", ".2g", ".3f", ".2f", ".1f", ".0f", ",.1f", ".3e"]


@pytest.mark.parametrize("spec", SPECS)
def test_an_outcome_in_ordinary_rounding_is_open(
    place: str, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = leaking(monkeypatch, place, described(spec))
    assert (found.status, found.evidence["fields"]) == ("open", ["task.data.description"])
    assert "is the first release" in found.evidence["first"]


@pytest.mark.parametrize(
    ("field", "rounded"),
    [
        ("baseline", lambda y: float(f"{y:.4g}")),
        ("scale", lambda y: round(y, 1)),
        ("horizon_days", round),
        ("period_label", lambda y: f"{y:.3g}"),
    ],
)
def test_a_field_with_the_rounded_outcome_is_open(
    place: str, field: str, rounded: Callable[[float], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = leaking(monkeypatch, place, lambda d, y: d.model_copy(update={field: rounded(y)}))
    assert (found.status, found.evidence["fields"]) == ("open", [f"task.data.{field}"])


def test_an_opaque_outcome_is_open_as_it_is_shown(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = leaking(
        monkeypatch,
        place,
        lambda d, y: d.model_copy(update={"description": f"{d.shown.shown(y):.3g}"}),
        opaque=True,
    )
    assert found.evidence["fields"] == ["task.data.description"]


def test_what_is_told_in_every_third_task_is_not_told_apart_from_chance(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest: Callable[[Any, float], Any] = lambda d, y: d  # noqa: E731
    found = leaking(
        monkeypatch,
        place,
        lambda d, y: (honest if d.draw % 3 else described(".4g"))(d, y),
    )
    assert found.status == "closed"
    assert found.evidence["largest share of any field"] > 0.1


@pytest.mark.parametrize("spec", [".1f", ".2g", ".0f"])
def test_a_value_of_the_view_is_no_answer(
    place: str, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest value known, rounded, may well be the outcome, rounded."""

    def newest(d: Any, _: float) -> Any:
        known = opened(place).view(d.as_of).observations(d.series_id, units=d.transform)
        return d.model_copy(update={"description": f"last was {known.value[-1]:{spec}}"})

    assert leaking(monkeypatch, place, newest).status == "closed"


@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize("context", ["tools", "files", "prompt", "none"])
def test_honest_tasks_are_closed_in_every_context(place: str, context: str, opaque: bool) -> None:
    case = case_for(place, context=context, opaque=opaque)
    found = audit_channel.check(case, nothing)
    assert found.status == "closed", found.evidence
    assert found.evidence["largest share of any field"] < 0.4


@pytest.mark.parametrize("context", ["tools", "prompt"])
def test_honest_tasks_of_the_embedded_store_are_closed(context: str) -> None:
    case = case_of(taskset_of({"context": context}, "test", None), 400)
    found = audit_channel.check(case, nothing)
    assert found.status == "closed"
    assert found.evidence["largest share of any field"] < 0.1


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("353.1", [(353.1, 0.1, 4)]),
        ("-0.30", [(-0.3, 0.01, 2)]),
        ("\u22120.3%", [(-0.3, 0.1, 1)]),
        ("1.479e+05", [(147900.0, 100.0, 4)]),
        ("1,353", [(1.0, 1.0, 1), (353.0, 1.0, 3), (1353.0, 1.0, 4)]),
        ("0", [(0.0, 1.0, 0)]),
        ("7e4953 and 1e-4953", []),
        ("9" * 400, []),
        ("2e" + "1" * 5000, []),
    ],
)
def test_numbers_are_read_with_their_precision(
    text: str, numbers: list[tuple[float, float, int]]
) -> None:
    found = [(one.value, one.unit, one.digits) for one in printed_in(text)]
    for one, other in zip(found, numbers, strict=True):
        assert one == pytest.approx(other)
