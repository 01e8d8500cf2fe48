"""`update`: what came since is added, what was is as it was, and `store diff` shows the news."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fake_fred as ff
from fake_fred import FakeFred, growing_series
from fred_builds import FAST, Command, archive, build, built, client, iso, points
from nowcast_alfred.errors import HistoryChanged, InputError, PermissionMissing, StoreNotFound
from nowcast_alfred.sources import fred_build
from nowcast_alfred.store import VintageStore, open_store, publish
from nowcast_alfred.store.diff import difference
from store_samples import series as imported
from store_samples import snapshot

BUILT, NEXT = "2024-07-31", "2024-08-15"
IDS = ("PAY", "CPI", "GDP", "ICSA", "DFF")


@pytest.fixture
def fake() -> Iterator[FakeFred]:
    series = [
        growing_series("PAY", "2019-01-01", 60, benchmark_every=12),
        growing_series("CPI", "2019-01-01", 60, history=12),
        growing_series("GDP", "2019-01-01", 20, "q"),
        growing_series("ICSA", "2023-01-07", 60, "w"),
        growing_series("DFF", "2024-01-02", 120, "d", revisions=0),
    ]
    with FakeFred(series, BUILT) as server:
        yield server


@pytest.fixture
def root(fake: FakeFred, tmp_path: Path) -> Path:
    built(tmp_path / "S", fake)
    fake.clear_log()
    return tmp_path / "S"


def update(root: Path, fake: FakeFred, **more: Any) -> fred_build.Report:
    return fred_build.update(root, client(fake), **more)


def new_vintages(fake: FakeFred) -> None:
    """One more vintage of every series: a new observation, and the one before it revised."""
    for id, series in fake.series.items():
        last, before = sorted(series.periods(fake.today), reverse=True)[:2]
        fake.add_vintage(id, NEXT, {before: "90.25", last: ".", f"2024-08-0{len(id)}": "91.5"})


def seen(store: VintageStore) -> dict[str, tuple[bytes, ...]]:
    """All that views of many days show, as bytes."""
    found: dict[str, tuple[bytes, ...]] = {}
    for day in [*range(17_897, 19_936, 31), 19_935, 19_936]:
        view = store.view(iso(day))
        for id in [meta.id for meta in view.series()]:
            for units in ("lin", "chg"):
                got = view.observations(id, units=units)
                found[f"{day} {id} {units}"] = (got.period.tobytes(), got.value.tobytes())
            found[f"{day} {id}"] = (repr((view.meta(id), view.vintages(id))).encode(),)
    return found


def written(root: Path) -> dict[str, bytes]:
    """The files of the store itself."""
    return {name: data for name, data in snapshot(root).items() if not name.startswith(".")}


def test_after_an_update_every_earlier_view_is_the_same_to_the_byte(
    fake: FakeFred, root: Path
) -> None:
    before = open_store(root)
    past = seen(before)
    new_vintages(fake)
    report = update(root, fake)
    assert report.done == sorted(IDS)
    assert report.failed == {}
    after = open_store(root)
    assert after.fingerprint != before.fingerprint
    assert len(past) > 500
    assert seen(after) == past
    assert seen(open_store(root, before.fingerprint)) == past
    for id in ("PAY", "CPI", "GDP", "DFF"):
        assert points(after, id) == archive(fake.series[id], NEXT)
        assert after.view(NEXT).observations(id).value[-1] == 91.5


def test_an_update_gives_the_store_that_a_build_would_give(
    fake: FakeFred, root: Path, tmp_path: Path
) -> None:
    new_vintages(fake)
    updated = update(root, fake).manifest
    assert updated is not None
    assert built(tmp_path / "again", fake).fingerprint == updated.fingerprint


def test_an_update_asks_only_for_what_came_since(fake: FakeFred, root: Path) -> None:
    new_vintages(fake)
    update(root, fake)
    assert len(fake.log) == 4 * len(IDS)
    asked = fake.requests("series/observations", output_type=3)
    assert {request.params["realtime_start"] for request in asked} == {NEXT}


def test_nothing_new_makes_no_version(fake: FakeFred, root: Path) -> None:
    before = written(root)
    report = update(root, fake)
    assert (report.done, report.failed, report.manifest) == ([], {}, None)
    assert len(fake.log) == 2 * len(IDS) + 1  # a weekly series needs its metadata
    assert written(root) == before
    assert not (root / ".staging-update").exists()


def test_the_week_of_an_update_starts_on_sunday_too(fake: FakeFred, root: Path) -> None:
    fake.add_vintage("ICSA", NEXT, {"2024-08-10": "230000"})
    update(root, fake)
    known = open_store(root).view(NEXT).observations("ICSA").period
    assert iso(int(known[-1])) == "2024-08-04"
    assert set((np.diff(known) % 7).tolist()) == {0}


def test_units_that_change_with_an_update_show_from_their_day_on(
    fake: FakeFred, root: Path
) -> None:
    fake.series["CPI"].metadata += [{"units": "Index 2017=100", "realtime_start": NEXT}]
    new_vintages(fake)
    update(root, fake)
    store = open_store(root)
    assert store.view("2024-08-14").meta("CPI").units == "Index"
    assert store.view(NEXT).meta("CPI").units == "Index 2017=100"


# ------------------------------------------------------------------------------ changed history


def altered_value(fake: FakeFred) -> str:
    last = max(fake.series["CPI"].periods(BUILT))
    day = fake.series["CPI"].points[last][-1][0]
    fake.change_past("CPI", day, {last: "77.5"})
    return f"CPI {last} in vintage {day}: .* would become 77.5"


def backfilled(fake: FakeFred) -> str:
    fake.change_past("CPI", "2022-03-31", {"2019-01-01": "55.5"})
    return "CPI 2019-01-01 in vintage 2022-03-31: no change would become 55.5"


def removed(fake: FakeFred) -> str:
    first = fake.series["DFF"].vintages(BUILT)[0]
    for date, rows in fake.series["DFF"].points.items():
        if rows[0][0] == first:
            fake.change_past("DFF", first, {date: None})
    return f"DFF .* in vintage {first}: .* would become no change"


def other_units(fake: FakeFred) -> str:
    fake.series["CPI"].metadata[0]["units"] = "Percent"
    fake.add_vintage("CPI", NEXT, {"2024-08-01": "1.0"})
    return "CPI units from the beginning on: 'Index' would become 'Percent'"


@pytest.mark.parametrize("alter", [altered_value, backfilled, removed, other_units])
@pytest.mark.parametrize("and_news", [False, True])
def test_an_altered_past_is_told_and_not_written_until_it_is_accepted(
    fake: FakeFred, root: Path, alter: Callable[[FakeFred], str], and_news: bool
) -> None:
    first, before = open_store(root), written(root)
    past = seen(first)
    told = alter(fake)
    if and_news:
        fake.add_vintage("PAY", "2024-08-20", {"2024-07-01": "5.0"})
    with pytest.raises(HistoryChanged, match=told):
        update(root, fake)
    assert written(root) == before
    assert not (root / ".staging-update").exists()  # what is accepted is what FRED says then
    manifest = update(root, fake, accept_history=True).manifest
    assert manifest is not None
    [note] = manifest.accepted
    assert (note["replaced"], note["by"]) == (first.fingerprint, manifest.fingerprint)
    assert note["series"] == told[:3]
    assert note["by"] != note["replaced"]
    assert seen(open_store(root, first.fingerprint)) == past
    assert difference(first, open_store(root)).changed != [] or alter is other_units


def test_a_build_over_a_store_finds_what_later_vintages_hide(fake: FakeFred, root: Path) -> None:
    date, rows = next((d, rows) for d, rows in fake.series["CPI"].points.items() if len(rows) == 3)
    fake.change_past("CPI", rows[1][0], {date: "66.5"})  # revised again since
    assert update(root, fake).manifest is None  # the vintages and the last values are the same
    with pytest.raises(HistoryChanged, match=f"CPI {date} in vintage {rows[1][0]}"):
        build(root, fake)


# ----------------------------------------------------------------------------------- failures


def test_a_series_that_fails_keeps_what_it_had_and_costs_the_others_nothing(
    fake: FakeFred, root: Path
) -> None:
    held = points(open_store(root), "CPI")
    new_vintages(fake)
    fake.script(ff.gateway_error(), series="CPI", path="series/vintagedates", times=3)
    report = update(root, fake)
    assert list(report.failed) == ["CPI"]
    assert len(report.done) == len(IDS) - 1
    assert points(open_store(root), "CPI") == held
    fake.clear_log()
    again = update(root, fake)
    assert again.done == ["CPI"]
    assert again.reused == len(IDS)  # four vintage lists, and the metadata of the weekly series
    assert points(open_store(root), "CPI") == archive(fake.series["CPI"], NEXT)


def test_an_update_of_what_is_no_alfred_store_is_refused(fake: FakeFred, tmp_path: Path) -> None:
    with pytest.raises(StoreNotFound):
        update(tmp_path, fake)
    publish(tmp_path, [imported("PAY", [("2020-01-01", "2020-02-07", 1.0)], source="BLS")])
    with pytest.raises(InputError, match="no series whose source is ALFRED"):
        update(tmp_path, fake)
    assert fake.log == []


def test_an_imported_series_without_permission_is_not_read_from_fred(
    fake: FakeFred, root: Path, tmp_path: Path
) -> None:
    more = imported("M", [("2020-01-01", "2020-02-07", 1.0)], source="ALFRED", training="unknown")
    publish(root, [more])
    report = update(root, fake)
    assert list(report.left_out) == ["M"]
    assert fake.count(series="M") == 0
    fake.clear_log()
    publish(tmp_path / "only", [more])
    with pytest.raises(PermissionMissing, match="--fred-permission"):
        update(tmp_path / "only", fake)
    assert fake.log == []


# --------------------------------------------------------------------------------- store diff


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


def test_update_and_diff_on_the_command_line(fake: FakeFred, root: Path, command: Command) -> None:
    first = open_store(root).fingerprint
    line = ("store", "update", root, "--rate", FAST)
    done = command(fake, *line)
    assert (done.status, "nothing new" in done.out) == (0, True)
    fake.add_vintage("CPI", NEXT, {"2024-07-01": "120.0", "2024-08-01": "121.0"})
    fake.change_past("DFF", fake.series["DFF"].vintages(BUILT)[-1], {"2024-01-02": "55.0"})
    done = command(fake, *line)
    assert done.status == 2
    assert "HistoryChanged" in done.err
    assert "would become 55.0" in done.err
    done = command(fake, *line, "--accept-history", "--json")
    assert (done.status, json.loads(done.out)["done"]) == (0, ["CPI", "DFF"])
    for old in (f"{root}@{first[:6]}", f"{root}@{first}"):
        news = json.loads(command(fake, "store", "diff", old, root, "--json").out)
        assert [row["period"] for row in news["releases"]] == ["2024-07-01", "2024-08-01"]
        assert [(row["series_id"], row["after"]) for row in news["changed"]] == [("DFF", 55.0)]
        assert (news["added"], news["dropped"], news["revisions"]) == ([], [], [])
    done = command(fake, "store", "diff", f"{root}@{first[:6]}", root)
    assert done.status == 0
    assert "new releases: 2" in done.out
    assert "CHANGED HISTORY: 1" in done.out
    done = command(fake, "store", "diff", f"{root}@abcdef0", root)
    assert (done.status, "0 versions start with" in done.err) == (2, True)


def test_a_diff_ranks_revisions_by_size_and_names_series(tmp_path: Path) -> None:
    def store(name: str, *series: Any) -> VintageStore:
        publish(tmp_path / name, series)
        return open_store(tmp_path / name)

    months = [f"2020-{month:02d}-01" for month in range(1, 9)]
    rows = [(month, "2020-09-10", 10.0 * at) for at, month in enumerate(months)]
    news = [
        (months[0], "2020-10-10", 3.0),
        (months[1], "2020-10-10", 60.0),
        (months[2], "2020-10-10", None),
        ("2020-09-01", "2020-10-10", 85.0),
        (months[0], "2020-11-10", 1.0),
    ]
    old = store("old", imported("PAY", rows), imported("GONE", rows))
    new = store("new", imported("PAY", [*rows, *news]), imported("NEW", rows))
    found = difference(old, new)
    assert (found.added, found.dropped) == (["NEW"], ["GONE"])
    assert [(row.period, row.after) for row in found.releases] == [("2020-09-01", 85.0)]
    shown = [(row.period, row.vintage, row.before, row.after) for row in found.revisions]
    assert shown == [
        (months[1], "2020-10-10", 10.0, 60.0),
        (months[0], "2020-10-10", 0.0, 3.0),
        (months[0], "2020-11-10", 3.0, 1.0),
        (months[2], "2020-10-10", 20.0, None),
    ]
    assert found.revisions[0].size > found.revisions[1].size > found.revisions[2].size > 0
    assert found.changed == []
    back = difference(new, old)
    assert len(back.changed) == len(news)
    assert (back.releases, back.revisions) == ([], [])
