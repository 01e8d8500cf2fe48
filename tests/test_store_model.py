"""The store against plain definitions of it: a model, a brute-force filter, SQL and formulas."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from nowcast_alfred.errors import HistoryChanged, QueryError, StoreNotFound
from nowcast_alfred.periods import iso, shift, to_date, to_days, transform
from nowcast_alfred.store import VintageStore, open_store, publish, verify_store
from nowcast_alfred.store.schema import normalise
from store_samples import (
    LEFTOVER,
    Disk,
    Point,
    answers,
    point_cache_at,
    read,
    series,
    snapshot,
    table,
)

IDS = ("A", "B", "C")
PERIODS = tuple(f"2020-{month:02d}-01" for month in range(1, 7))
START = to_days("2020-02-01")

values = st.one_of(st.none(), st.sampled_from([0.0, 1.0, 2.5, -3.0]), st.floats(-1e6, 1e6))
changes = st.dictionaries(st.sampled_from(PERIODS), values, min_size=1, max_size=4)
days = st.integers(START - 5, START + 120).map(iso)

Model = dict[tuple[str, str], list[tuple[str, float | None]]]
"""(series, period) -> change points (vintage, value), by vintage, without repeats."""


def with_point(model: Model, id: str, period: str, vintage: str, value: float | None) -> Model:
    """The model once `value` is what vintage `vintage` says of a period."""
    points = sorted({**dict(model.get((id, period), [])), vintage: value}.items())
    kept = [p for n, p in enumerate(points) if n == 0 or p[1] != points[n - 1][1]]
    return {**model, (id, period): kept}


def known_in(model: Model, id: str, day: str) -> dict[int, float]:
    """What was known on a day, by the model: period -> value."""
    found = {}
    for (other, period), points in sorted(model.items()):
        past = [value for vintage, value in points if other == id and vintage <= day]
        if past and past[-1] is not None:
            found[to_days(period)] = past[-1]
    return found


def last_vintage(model: Model, id: str) -> str | None:
    return max((v for (other, _), ps in model.items() if other == id for v, _ in ps), default=None)


class Killed(BaseException):
    """The process ends here."""


def kill(name: str) -> None:
    raise Killed(name)


class StoreMachine(RuleBasedStateMachine):
    """A store grows, is refused, crashes and is reopened; a dictionary says what it must answer."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.root = self.home / "store"
        self.patch = point_cache_at(self.home / "cache")
        self.model: Model = {}
        self.versions: dict[str, Model] = {}
        self.held: list[tuple[VintageStore, Model]] = []
        self.past: dict[tuple[str, str], dict[int, float]] = {}
        """(series, day up to its last vintage) -> what was known, as first answered."""

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.home)

    def merged(self, id: str, vintage: str, news: dict[str, float | None]) -> Model:
        model = self.model
        for period, value in news.items():
            model = with_point(model, id, period, vintage, value)
        return model

    def in_force(self, model: Model) -> None:
        """Take note that the store now holds `model`."""
        self.model = model
        self.versions[open_store(self.root).fingerprint] = model

    def publish(self, id: str, vintage: str, news: dict[str, float | None], **options: bool) -> Any:
        points = [(period, vintage, value) for period, value in news.items()]
        return publish(self.root, [series(id, points)], **options)

    def files(self) -> dict[str, bytes]:
        """The store's bytes, without what a crash left: the next writer may remove that."""
        return {name: data for name, data in snapshot(self.root).items() if ".tmp-" not in name}

    def later(self, id: str, gap: int) -> str:
        last = last_vintage(self.model, id)
        return iso((to_days(last) if last else START) + gap)

    @initialize(id=st.sampled_from(IDS), gap=st.integers(1, 20), news=changes)
    def the_first_series(self, id: str, gap: int, news: dict[str, float | None]) -> None:
        self.later_vintage(id, gap, news)

    @rule(id=st.sampled_from(IDS), gap=st.integers(1, 20), news=changes)
    def later_vintage(self, id: str, gap: int, news: dict[str, float | None]) -> None:
        vintage = self.later(id, gap)
        model = self.merged(id, vintage, news)
        self.publish(id, vintage, news)
        self.in_force(model)

    @rule(id=st.sampled_from(IDS), gap=st.integers(1, 20))
    def everything_is_withdrawn(self, id: str, gap: int) -> None:
        held = {period: None for other, period in self.model if other == id}
        if held:
            self.later_vintage(id, gap, held)

    @rule(
        id=st.sampled_from(IDS),
        vintage=days,
        news=st.dictionaries(st.sampled_from(PERIODS), values, min_size=1, max_size=2),
        accept=st.sampled_from([False, False, True]),
    )
    def past_change(
        self, id: str, vintage: str, news: dict[str, float | None], accept: bool
    ) -> None:
        last = last_vintage(self.model, id)
        if last is None or vintage > last:
            return
        model = self.merged(id, vintage, news)
        before = self.files()
        if model == self.model:
            self.publish(id, vintage, news)
            assert self.files() == before
        elif not accept:
            with pytest.raises(HistoryChanged, match=f"{id} 2020-"):
                self.publish(id, vintage, news)
            assert self.files() == before
        else:
            old = open_store(self.root).fingerprint
            manifest = self.publish(id, vintage, news, accept_history=True)
            mark = manifest.fingerprint
            assert manifest.accepted[-1] == {"replaced": old, "by": mark, "series": id}
            self.past = {key: seen for key, seen in self.past.items() if key[0] != id}
            self.in_force(model)

    @rule(id=st.sampled_from(IDS), gap=st.integers(1, 20), news=changes, at=st.integers(1, 40))
    def crash(self, id: str, gap: int, news: dict[str, float | None], at: int) -> None:
        vintage = self.later(id, gap)
        old = open_store(self.root).fingerprint
        try:
            with Disk(kill, at, onward=True):
                self.publish(id, vintage, news)
        except Killed:
            pass
        else:
            self.in_force(self.merged(id, vintage, news))
            return
        if open_store(self.root).fingerprint != old:
            self.in_force(self.merged(id, vintage, news))

    @rule()
    def hold_open(self) -> None:
        self.held = [*self.held[-2:], (open_store(self.root), self.model)]

    @rule(data=st.data(), day=days)
    def an_old_version(self, data: st.DataObject, day: str) -> None:
        version = data.draw(st.sampled_from(sorted(self.versions)))
        self.check(open_store(self.root, version), self.versions[version], day)
        assert verify_store(self.root, version)[1] == []

    @rule()
    def the_cache_is_lost(self) -> None:
        shutil.rmtree(self.home / "cache", ignore_errors=True)

    @rule(id=st.sampled_from(IDS), period=st.sampled_from(PERIODS), day=days)
    def revisions_of_one_period(self, id: str, period: str, day: str) -> None:
        view = open_store(self.root).view(day)
        if id in {row.id for row in view.series()}:
            expected = [p for p in self.model.get((id, period), []) if p[0] <= day]
            assert view.revisions(id, period) == expected

    def check(self, store: VintageStore, model: Model, day: str) -> None:
        first = {id: min(ps[0][0] for (o, _), ps in model.items() if o == id) for id, _ in model}
        assert [row.id for row in store.view(day).series()] == sorted(
            id for id, vintage in first.items() if vintage <= day
        )
        for id in IDS:
            if id in first and first[id] <= day:
                assert read(store, id, day) == known_in(model, id, day)
            else:
                with pytest.raises(QueryError, match="is known on"):
                    read(store, id, day)

    @invariant()
    def any_day_reads_as_the_model_says(self) -> None:
        if self.model:
            store = open_store(self.root)
            vintages = {vintage for points in self.model.values() for vintage, _ in points}
            ends = sorted(vintages)[-2:]
            for day in [*ends, iso(to_days(ends[-1]) - 1), iso(START + 13 * len(self.versions))]:
                self.check(store, self.model, day)
            for held, model in self.held:
                self.check(held, model, ends[-1])

    @invariant()
    def what_a_past_day_saw_stays(self) -> None:
        if self.model:
            store = open_store(self.root)
            for (id, day), seen in self.past.items():
                assert read(store, id, day) == seen
            for id in {id for id, _ in self.model}:
                for day in {v for (o, _), ps in self.model.items() if o == id for v, _ in ps}:
                    self.past.setdefault((id, day), read(store, id, day))

    @invariant()
    @precondition(lambda self: len(self.versions) % 5 == 4)
    def the_files_are_whole(self) -> None:
        assert verify_store(self.root)[1] == []


def test_a_store_does_what_its_model_does() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        StoreMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=14,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_crash_of_the_first_publication_leaves_no_store(tmp_path: Path) -> None:
    patch = point_cache_at(tmp_path / "cache")
    points = [(PERIODS[0], "2020-03-01", 1.0)]
    for at in range(1, 100):
        root = tmp_path / str(at)
        try:
            with Disk(kill, at, onward=True):
                publish(root, [series("A", points)])
            break
        except Killed:
            pass
        try:
            assert read(open_store(root), "A", "2020-03-01") == {to_days(PERIODS[0]): 1.0}
        except StoreNotFound:
            assert not (root / "manifest.json").exists()
        publish(root, [series("A", points)])
        assert not list(root.rglob(LEFTOVER))
        assert verify_store(root)[1] == []
    else:
        pytest.fail("the publication never ended")
    patch.undo()


# As-of reads

raw_points = st.dictionaries(
    st.tuples(st.sampled_from(PERIODS), days), values, min_size=1, max_size=30
).map(lambda found: [(*key, value) for key, value in found.items()])

AS_OF_SQL = """
    with known as (
        select period, value, vintage as realtime_start, coalesce(
            lead(vintage) over (partition by period order by vintage) - 1, date '9999-12-31'
        ) as realtime_end
        from read_parquet(?)
    )
    select period - date '1970-01-01', value from known
    where realtime_start <= ?::date and ?::date <= realtime_end and value is not null
    order by period
"""


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    patch = point_cache_at(tmp_path / "cache")
    yield tmp_path
    patch.undo()


def fresh(work: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=work))


oracle = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def by_brute_force(points: list[Point], day: str) -> dict[int, float]:
    """For each period, of the rows up to the day the one of the latest vintage."""
    past = [point for point in points if point[1] <= day]
    latest = {p: max(row for row in past if row[0] == p)[2] for p in {row[0] for row in past}}
    return {to_days(p): v for p, v in sorted(latest.items()) if v is not None}


@oracle
@given(points=raw_points, asked=st.lists(days, min_size=1, max_size=4))
def test_a_view_is_the_filter_over_raw_rows_and_the_sql_over_the_files(
    work: Path, points: list[Point], asked: list[str]
) -> None:
    root = fresh(work)
    manifest = publish(root, [series("A", points)])
    store = open_store(root)
    file = str(root / manifest.series["A"].file)
    for day in [*asked, points[0][1], iso(to_days(points[0][1]) - 1)]:
        if day < min(point[1] for point in points):
            with pytest.raises(QueryError):
                read(store, "A", day)
            assert duckdb.execute(AS_OF_SQL, [file, day, day]).fetchall() == []
        else:
            seen = read(store, "A", day)
            assert seen == by_brute_force(points, day)
            assert list(seen.items()) == duckdb.execute(AS_OF_SQL, [file, day, day]).fetchall()


@oracle
@given(points=raw_points, day=days)
def test_deleting_what_came_later_changes_no_answer(
    work: Path, points: list[Point], day: str
) -> None:
    def built(rows: list[Point]) -> VintageStore:
        inputs = [
            series(id, kept) for id in IDS[:2] if (kept := [r[1:] for r in rows if r[0] == id])
        ]
        return VintageStore.from_tables(
            {item.id: normalise(item.table, item.id) for item in inputs},
            [row for item in inputs for row in item.meta],
        )

    rows = [(IDS[n % 2], *point) for n, point in enumerate(points)]
    past = [row for row in rows if row[2] <= day]
    if past:
        assert answers(built(past), [day], IDS) == answers(built(rows), [day], IDS)


@oracle
@given(points=raw_points, cuts=st.lists(days, max_size=3))
def test_a_store_is_the_same_however_its_vintages_were_split(
    work: Path, points: list[Point], cuts: list[str]
) -> None:
    root = fresh(work)
    edges = ["0000", *sorted(cuts), "9999"]
    for low, high in itertools.pairwise(edges):
        if part := [point for point in points if low < point[1] <= high]:
            publish(root, [series("A", part)])
    whole = VintageStore.from_tables({"A": normalise(table(points), "A")}, series("A", points).meta)
    assert open_store(root).fingerprint == whole.fingerprint


@oracle
@given(points=raw_points)
def test_levels_on_many_days_are_the_levels_of_each_days_view(points: list[Point]) -> None:
    changes = VintageStore.from_tables(
        {"A": normalise(table(points), "A")}, series("A", points).meta
    ).changes("A")
    asked = [
        (group, to_days(vintage) + shift)
        for group in range(len(changes.periods))
        for _, vintage, _ in points
        for shift in (-1, 0)
    ]
    groups, on = np.array(asked, dtype=np.int64).T
    levels = changes.value_on(groups, on.astype(np.int32))
    for (group, day), level in zip(asked, levels.tolist(), strict=True):
        known = by_brute_force(points, iso(day)).get(int(changes.periods[group]))
        assert (None if math.isnan(level) else level) == known


# Transforms

PER_YEAR = {"d": 260, "w": 52, "m": 12, "q": 4, "a": 1}
MONTHS = {"m": 1, "q": 3, "a": 12}
FORMULAS = {
    "lin": lambda x, last, year, n: x,
    "chg": lambda x, last, year, n: x - last,
    "ch1": lambda x, last, year, n: x - year,
    "pch": lambda x, last, year, n: (x / last - 1) * 100,
    "pc1": lambda x, last, year, n: (x / year - 1) * 100,
    "pca": lambda x, last, year, n: ((x / last) ** n - 1) * 100,
}


def months_on(day: dt.date, count: int) -> dt.date:
    month = day.year * 12 + day.month - 1 + count
    return dt.date(month // 12, month % 12 + 1, 1)


def plain(levels: dict[dt.date, float], units: str, frequency: str) -> list[float]:
    """A transform of a whole series, one value at a time."""
    order = list(levels)

    def before(at: int, count: int) -> float:
        if frequency == "d":  # the observation before, as markets close
            return levels[order[at - count]] if at >= count else math.nan
        if frequency == "w":
            return levels.get(order[at] - dt.timedelta(weeks=count), math.nan)
        return levels.get(months_on(order[at], -count * MONTHS[frequency]), math.nan)

    def value(at: int) -> float:
        x, last, year = levels[order[at]], before(at, 1), before(at, PER_YEAR[frequency])
        below = {"pch": last, "pca": last, "pc1": year}.get(units, 1.0)
        if units in ("pch", "pca", "pc1") and not (x > 0 and below > 0):
            return math.nan
        try:
            found = FORMULAS[units](x, last, year, PER_YEAR[frequency])
        except OverflowError:
            return math.nan
        return found if math.isfinite(found) else math.nan

    return [value(at) for at in range(len(order))]


@pytest.mark.parametrize("frequency", ["d", "w", "m", "q", "a"])
@settings(max_examples=40, deadline=None)
@given(
    start=st.dates(dt.date(1900, 1, 1), dt.date(2050, 12, 31)),
    count=st.one_of(st.integers(0, 30), st.integers(200, 320)),
    gaps=st.sampled_from([0.0, 0.05, 0.5]),
    extremes=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_transforms_are_their_formulas(
    frequency: Any, start: dt.date, count: int, gaps: float, extremes: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    if frequency in MONTHS:
        count = min(count, 60 * 12 // MONTHS[frequency])
        step = MONTHS[frequency]
        first = dt.date(start.year, (start.month - 1) // step * step + 1, 1)
        dates = [months_on(first, step * n) for n in range(count)]
    else:
        dates = [
            start + dt.timedelta(days=n * (7 if frequency == "w" else 1)) for n in range(count)
        ]
    dates = [day for day in dates if random.random() >= gaps]
    levels = 100 + np.cumsum(random.normal(size=len(dates)))
    if extremes:
        odd = random.random(len(dates)) < 0.3
        levels[odd] = random.choice([0.0, -1.0, 1e-300, 1e300, 1e6, -1.7e308], size=odd.sum())
    periods = np.array([to_days(day) for day in dates], dtype=np.int32)
    by_day = dict(zip(dates, levels.tolist(), strict=True))
    for units in FORMULAS:
        found = transform(periods, levels.copy(), units, frequency)  # type: ignore[arg-type]
        expected = plain(by_day, units, frequency)
        if units == "pca":  # repeated multiplication is not `pow` to the last bit
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-9)
        else:
            np.testing.assert_array_equal(found, expected)


@settings(max_examples=60, deadline=None)
@given(
    start=st.dates(dt.date(1900, 1, 1), dt.date(2050, 12, 31)),
    frequency=st.sampled_from(["d", "w", "m", "q", "a"]),
    count=st.integers(-600, 600),
)
def test_a_shift_there_and_back_is_none(start: dt.date, frequency: Any, count: int) -> None:
    step = MONTHS.get(frequency, 1)
    first = dt.date(start.year, (start.month - 1) // step * step + 1, 1)
    period = to_days(first if frequency in MONTHS else start)
    if 1 < to_date(period).year + count // PER_YEAR[frequency] < 9998:
        there = shift(period, frequency, count)
        assert shift(there, frequency, -count) == period
        if frequency in MONTHS:
            assert to_date(there) == months_on(first, count * step)
