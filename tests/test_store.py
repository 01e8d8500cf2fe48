"""The vintage store: what is published is what is read, and nothing that was known changes."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nowcast_alfred.errors import (
    HistoryChanged,
    InputError,
    QueryError,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreMismatch,
    StoreNotFound,
)
from nowcast_alfred.store import (
    VINTAGE_SCHEMA,
    AsOfView,
    SeriesInput,
    VintageStore,
    open_store,
    publish,
    verify_store,
)
from nowcast_alfred.store import parquet as store_parquet
from nowcast_alfred.store.files import without_secrets
from nowcast_alfred.store.manifest import Manifest
from nowcast_alfred.store.schema import content_hash, normalise, to_arrays
from store_samples import (
    DAYS,
    GDP,
    LATE,
    LATER_DAYS,
    LEFTOVER,
    PAY,
    PAY_LATER,
    Point,
    answers,
    answers_of,
    digest,
    first_inputs,
    known,
    later_inputs,
    meta,
    output,
    point_cache_at,
    python,
    read,
    series,
    snapshot,
    table,
)

GOLDEN = "25d364aa24a0a37373fd08c44e762444d3aec3eaa22831273782196feb0d029f"
"""Stores in use keep their fingerprint: whoever changes this one raises `manifest.FORMAT`."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path) -> Iterator[Path]:
    patch = point_cache_at(tmp_path / "cache")
    yield tmp_path / "cache"
    patch.undo()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of three series."""
    publish(tmp_path / "store", first_inputs())
    return tmp_path / "store"


def rows_of(found: pa.Table) -> list[tuple[str, str, float | None, str | None]]:
    return [
        (
            str(r["period"]),
            str(r["vintage"]),
            r["value"],
            r["vintage_lower"] and str(r["vintage_lower"]),
        )
        for r in found.to_pylist()
    ]


def refusal(kind: type[Exception], act: Callable[[], Any]) -> str:
    with pytest.raises(kind) as caught:
        act()
    assert type(caught.value) is kind
    return str(caught.value)


# Publishing and opening


def test_what_is_published_is_what_is_read(folder: Path) -> None:
    store = open_store(folder)
    assert store.series_ids == ("GDP", "LATE", "PAY")
    for id, points in (("PAY", PAY), ("GDP", GDP), ("LATE", LATE)):
        for day in (*DAYS, *(point[1] for point in points), "2024-12-31"):
            if day >= min(point[1] for point in points):
                assert read(store, id, day) == known(points, day)
    assert store.meta("GDP") == meta("GDP", frequency="q")


def test_a_store_opens_by_text_by_path_and_by_relative_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    places = (folder, str(folder), folder.name, f"{folder}/")
    assert len({digest(open_store(place), DAYS) for place in places}) == 1


def test_a_day_may_be_a_text_a_date_or_a_timestamp(folder: Path) -> None:
    store = open_store(folder)
    days = (
        "2020-02-07",
        dt.date(2020, 2, 7),
        dt.datetime(2020, 2, 7, 8, 30),
        pd.Timestamp("2020-02-07"),
    )
    assert {store.view(day).as_of for day in days} == {"2020-02-07"}


def test_the_store_has_the_layout_it_documents(folder: Path) -> None:
    manifest, faults = verify_store(folder)
    assert faults == []
    files = {entry.file for entry in manifest.series.values()}
    old = f"manifests/{manifest.fingerprint}.json"
    assert set(snapshot(folder)) == {*files, manifest.meta_file, "manifest.json", old}
    for id, entry in manifest.series.items():
        assert entry.file == f"vintages/{id}-{entry.sha256[:12]}.parquet"
        rows = pq.read_table(folder / entry.file)
        assert rows.schema.names == VINTAGE_SCHEMA.names
        assert rows.schema.types == VINTAGE_SCHEMA.types
        assert rows.num_rows == entry.rows
        dates = [str(day) for day in rows["vintage"].to_pylist()]
        assert (min(dates), max(dates)) == (entry.first_vintage, entry.last_vintage)


def test_a_vintage_bracket_is_kept(tmp_path: Path) -> None:
    publish(tmp_path / "store", [series("PAY", PAY + PAY_LATER)])
    lower = open_store(tmp_path / "store").changes("PAY").columns.lower
    assert sorted(set(lower.tolist())) == [
        np.iinfo(np.int32).min,
        (dt.date(2020, 5, 1) - dt.date(1970, 1, 1)).days,
    ]


def test_a_store_in_memory_answers_like_one_on_disk(folder: Path) -> None:
    tables = {item.id: normalise(item.table, item.id) for item in first_inputs()}
    metas = [row for item in first_inputs() for row in item.meta]
    store, memory = open_store(folder), VintageStore.from_tables(tables, metas)
    assert memory.fingerprint == store.fingerprint
    assert answers(memory, LATER_DAYS) == answers(store, LATER_DAYS)


def test_metadata_rows_come_in_any_order(folder: Path) -> None:
    tables = {"PAY": normalise(table(PAY), "PAY")}
    metas = [meta("PAY", valid_from=day) for day in (None, "2020-02-07", "2020-03-06")]
    forward, backward = (VintageStore.from_tables(tables, rows) for rows in (metas, metas[::-1]))
    assert forward.fingerprint == backward.fingerprint
    assert answers(forward, DAYS, ["PAY"]) == answers(backward, DAYS, ["PAY"])
    assert backward.meta("PAY").valid_from == "2020-03-06"


def test_changing_an_answer_does_not_change_the_next(folder: Path) -> None:
    view = open_store(folder).view("2020-04-03")
    before = answers_of(view, ["PAY"])
    for array in (view.observations("PAY").value, view.observations("PAY").period):
        try:
            array[:] = 0
        except ValueError:  # read-only, which is as good as a copy
            assert not array.flags.writeable
    assert answers_of(view, ["PAY"]) == before


def test_bounds_and_units_select_what_they_say(folder: Path) -> None:
    view = open_store(folder).view("2020-04-03")
    seen = view.observations("PAY", start="2020-01-01", end=dt.date(2020, 1, 31))
    assert seen.to_pandas().to_dict() == {pd.Timestamp("2020-01-01"): 102.5}
    changes = view.observations("PAY", start="2020-01-02", units="chg")
    assert changes.to_pandas().to_dict() == {pd.Timestamp("2020-02-01"): 2.0}
    assert "one of lin, chg" in refusal(QueryError, lambda: view.observations("PAY", units="log"))  # type: ignore[arg-type]
    assert "YYYY-MM-DD" in refusal(QueryError, lambda: view.observations("PAY", start="2020"))


# The fingerprint


def fingerprint(root: Path, inputs: list[SeriesInput]) -> str:
    return publish(root, inputs).fingerprint


def test_the_fingerprint_of_a_fixed_store_is_pinned(folder: Path) -> None:
    assert open_store(folder).fingerprint == GOLDEN


def test_the_fingerprint_ignores_when_the_data_was_fetched(tmp_path: Path) -> None:
    stamped = [SeriesInput(i.meta, i.table, "2026-11-30T10:00:00Z") for i in first_inputs()]
    assert fingerprint(tmp_path / "a", stamped) == fingerprint(tmp_path / "b", first_inputs())
    manifest, _ = verify_store(tmp_path / "a")
    assert {entry.retrieved_at for entry in manifest.series.values()} == {"2026-11-30T10:00:00Z"}


def test_the_fingerprint_ignores_how_parquet_is_encoded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(rows: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="none", use_dictionary=False, row_group_size=2)
        return sink.getvalue().to_pybytes()

    monkeypatch.setattr(store_parquet, "_encode", other)
    publish(tmp_path / "other", first_inputs())
    assert not set(snapshot(folder)) & {
        f for f in snapshot(tmp_path / "other") if f.endswith("parquet")
    }
    assert open_store(tmp_path / "other").fingerprint == open_store(folder).fingerprint
    assert verify_store(tmp_path / "other")[1] == []


@pytest.mark.parametrize("seed", range(5))
def test_the_fingerprint_ignores_the_order_and_repetition_of_rows(
    folder: Path, tmp_path: Path, seed: int
) -> None:
    random = np.random.default_rng(seed)

    def shuffled(item: SeriesInput) -> SeriesInput:
        rows = random.permutation(np.repeat(np.arange(item.table.num_rows), 2))
        columns = random.permutation(item.table.column_names).tolist()
        return SeriesInput(item.meta, item.table.take(rows).select(columns))

    inputs = [shuffled(item) for item in random.permutation(np.array(first_inputs(), dtype=object))]
    assert fingerprint(tmp_path / "other", inputs) == open_store(folder).fingerprint


def test_the_fingerprint_ignores_in_how_many_steps_the_store_grew(
    folder: Path, tmp_path: Path
) -> None:
    publish(folder, later_inputs())
    rebased = meta("PAY", units="Units of 2020", valid_from="2020-05-08")
    whole = [series("PAY", PAY + PAY_LATER, rebased), *first_inputs()[1:], series("NEW", LATE)]
    assert fingerprint(tmp_path / "whole", whole) == open_store(folder).fingerprint
    assert digest(open_store(tmp_path / "whole"), LATER_DAYS) == digest(
        open_store(folder), LATER_DAYS
    )


@pytest.mark.parametrize(
    "other",
    [
        series("PAY", [*PAY[:-1], ("2020-01-01", "2020-04-03", np.nextafter(102.5, 103))]),
        series("PAY", [*PAY[:-1], ("2020-01-01", "2020-04-04", 102.5)]),
        series("PAY", [*PAY[:-1], ("2020-01-01", "2020-04-03", 102.5, "2020-04-01")]),
        series("PAY", [*PAY[:-1], ("2020-01-02", "2020-04-03", 102.5)]),
        series("PAY", PAY[:-1]),
        series("PAY", PAY, title="Another"),
        series("PAY", PAY, training="granted"),
        series("PAX", PAY),
    ],
    ids=["value", "vintage", "bracket", "period", "row", "title", "rights", "id"],
)
def test_the_fingerprint_covers_content(folder: Path, tmp_path: Path, other: SeriesInput) -> None:
    changed = fingerprint(tmp_path / "other", [other, *first_inputs()[1:]])
    assert changed != open_store(folder).fingerprint


READ = """
import sys
from store_samples import LATER_DAYS, digest, first_inputs
from nowcast_alfred.store import open_store, publish
store = open_store(sys.argv[1])
built = publish(sys.argv[2], first_inputs())
print(built.fingerprint, store.fingerprint, digest(store, LATER_DAYS))
"""


def test_answers_are_the_same_in_any_process(folder: Path, tmp_path: Path) -> None:
    environments = [
        {"TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "0", "LC_ALL": "C"},
        {"TZ": "America/Los_Angeles", "PYTHONHASHSEED": "1", "LC_ALL": "tr_TR.UTF-8"},
        {"TZ": "UTC", "PYTHONHASHSEED": "random", "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1"},
    ]
    processes = [
        python(
            READ,
            str(folder),
            str(tmp_path / f"built-{n}"),
            NOWCAST_ALFRED_CACHE=str(tmp_path / f"c{n % 2}"),
            **env,
        )
        for n, env in enumerate(environments)
    ]
    store = open_store(folder)
    expected = f"{store.fingerprint} {store.fingerprint} {digest(store, LATER_DAYS)}"
    assert [output(process) for process in processes] == [expected] * 3


# Versions


def test_an_update_keeps_every_earlier_view_to_the_byte(folder: Path) -> None:
    days = [day for day in LATER_DAYS if day < "2020-05-08"]
    before = open_store(folder)
    earlier = answers(before, days)
    publish(folder, [series("PAY", PAY_LATER, meta("PAY", title="New", valid_from="2020-05-08"))])
    after = open_store(folder)
    assert after.fingerprint != before.fingerprint
    assert answers(after, days) == earlier
    assert answers(after, ["2020-05-08"]) != answers(before, ["2020-05-08"])
    assert read(after, "PAY", "2020-05-08") == known(PAY + PAY_LATER, "2020-05-08")


def test_a_new_series_changes_no_answer_about_the_others(folder: Path) -> None:
    before = open_store(folder)
    ids = before.series_ids
    publish(folder, [series("NEW", LATE)])
    after = open_store(folder)
    for day in LATER_DAYS:
        old, new = answers_of(before.view(day), ids), answers_of(after.view(day), ids)
        assert {id: old[id] for id in ids} == {id: new[id] for id in ids}
        assert [row for row in new["series"] if row["id"] != "NEW"] == old["series"]


def test_content_addressed_files_are_never_rewritten(folder: Path) -> None:
    def identity(name: str) -> tuple[int, int, bytes]:
        status = (folder / name).stat()
        return status.st_ino, status.st_mtime_ns, (folder / name).read_bytes()

    held = {name: identity(name) for name in snapshot(folder) if name != "manifest.json"}
    publish(folder, [series("LATE", [("2020-04-01", "2020-06-01", 1.0)])])  # same metadata
    publish(folder, later_inputs())
    assert {name: identity(name) for name in held} == held
    assert verify_store(folder)[1] == []


def test_old_versions_open_by_their_fingerprint(folder: Path) -> None:
    first = open_store(folder)
    before = answers(first, LATER_DAYS)
    second = publish(folder, later_inputs())
    third = publish(folder, [series("LATE", [("2020-04-01", "2020-06-01", 1.0)])])
    assert answers(open_store(folder, first.fingerprint), LATER_DAYS) == before
    assert open_store(folder, second.fingerprint).fingerprint == second.fingerprint
    assert open_store(folder).fingerprint == third.fingerprint
    for version in (first.fingerprint, second.fingerprint, third.fingerprint):
        manifest, faults = verify_store(folder, version)
        assert (manifest.fingerprint, faults) == (version, [])


def test_a_store_held_open_does_not_see_an_update(folder: Path) -> None:
    held = open_store(folder)
    before = answers(held, LATER_DAYS)
    publish(folder, later_inputs())
    assert answers(held, LATER_DAYS) == before


@pytest.mark.parametrize(
    "inputs",
    [
        first_inputs(),
        [SeriesInput(item.meta, item.table, "2030-01-01") for item in first_inputs()],
        [series("PAY", PAY[:3])],
        [series("PAY", [("2020-01-01", "2021-01-01", 102.5)])],
    ],
    ids=["all again", "fetched later", "a part again", "a value that did not change"],
)
def test_a_publication_with_nothing_new_keeps_the_manifest(
    folder: Path, inputs: list[SeriesInput]
) -> None:
    before, manifest = snapshot(folder), verify_store(folder)[0]
    assert publish(folder, inputs) == manifest
    assert snapshot(folder) == before


def test_a_series_left_out_of_an_update_stays(folder: Path) -> None:
    publish(folder, [series("NEW", LATE)])
    assert open_store(folder).series_ids == ("GDP", "LATE", "NEW", "PAY")


# History


@pytest.mark.parametrize(
    ("point", "line"),
    [
        (
            ("2020-01-01", "2020-02-07", 103.5),
            "2020-01-01 in vintage 2020-02-07: 103.0 would become 103.5",
        ),
        (
            ("2020-01-01", "2020-02-07", None),
            "2020-01-01 in vintage 2020-02-07: 103.0 would become withdrawn",
        ),
        (
            ("2020-01-01", "2020-03-13", 9.0),
            "2020-01-01 in vintage 2020-03-13: withdrawn would become 9.0",
        ),
        (
            ("2020-03-01", "2020-04-02", 9.0),
            "2020-03-01 in vintage 2020-04-02: no change would become 9.0",
        ),
        (
            ("2020-03-01", "2020-04-03", 9.0),
            "2020-03-01 in vintage 2020-04-03: no change would become 9.0",
        ),
        (
            ("2020-01-01", "2020-02-07", 103.0, "2020-02-01"),
            "2020-01-01 in vintage 2020-02-07: 103.0 would become 103.0 (after 2020-02-01)",
        ),
        (
            ("2019-12-01", "2020-01-09", 100.0),
            "2019-12-01 in vintage 2020-01-10: 100.0 would become no change",
        ),
    ],
    ids=["value", "withdrawn", "given", "new row", "new row on the last day", "bracket", "earlier"],
)
def test_a_change_of_history_names_the_rows_and_writes_nothing(
    folder: Path, point: Any, line: str
) -> None:
    before = snapshot(folder)
    message = refusal(
        HistoryChanged, lambda: publish(folder, [series("PAY", [point]), series("NEW", LATE)])
    )
    assert f"PAY {line}" in message
    assert str(folder) in message
    assert "nothing was written" in message
    assert "--accept-history" in message
    assert snapshot(folder) == before


def test_many_changes_of_history_are_counted_and_not_all_listed(tmp_path: Path) -> None:
    months = [f"{year}-{month:02d}-01" for year in (2000, 2001, 2002) for month in range(1, 13)]
    publish(tmp_path / "store", [series("PAY", [(month, "2003-01-01", 1.0) for month in months])])
    other = [series("PAY", [(month, "2003-01-01", 2.0) for month in months])]
    message = refusal(HistoryChanged, lambda: publish(tmp_path / "store", other))
    assert "36 row(s)" in message
    assert message.count("would become") == 20
    assert "and 16 more" in message


def test_an_accepted_change_is_recorded_and_the_version_before_stays(folder: Path) -> None:
    first = open_store(folder)
    before = answers(first, LATER_DAYS)
    change = [series("PAY", [("2020-01-01", "2020-02-07", 103.5)])]
    manifest = publish(folder, change, accept_history=True)
    note = {"replaced": first.fingerprint, "by": manifest.fingerprint, "series": "PAY"}
    assert manifest.accepted == [note]
    assert verify_store(folder) == (manifest, [])
    assert read(open_store(folder), "PAY", "2020-02-07") == known(
        [*PAY[:1], PAY[2], ("2020-01-01", "2020-02-07", 103.5)], "2020-02-07"
    )
    assert answers(open_store(folder, first.fingerprint), LATER_DAYS) == before
    assert publish(folder, later_inputs()).accepted == [note]


def test_accepting_when_no_history_changes_records_nothing(folder: Path) -> None:
    assert publish(folder, later_inputs(), accept_history=True).accepted == []


def test_a_row_that_a_whole_archive_lacks_is_a_change_of_history(folder: Path) -> None:
    before = snapshot(folder)
    part = SeriesInput([meta("PAY")], table(PAY[:-1] + PAY_LATER))
    archive = replace(part, complete=True)
    message = refusal(HistoryChanged, lambda: publish(folder, [archive]))
    assert "PAY 2020-01-01 in vintage 2020-04-03: 102.5 would become no change" in message
    assert snapshot(folder) == before
    publish(folder, [part])
    assert read(open_store(folder), "PAY", "2020-04-03") == known(PAY, "2020-04-03")
    publish(folder, [archive], accept_history=True)
    assert read(open_store(folder), "PAY", "2020-04-03") == known(PAY[:-1], "2020-04-03")


def test_a_whole_archive_that_grew_is_an_update(folder: Path) -> None:
    archive = SeriesInput([meta("PAY")], table(PAY + PAY_LATER), complete=True)
    whole = publish(folder, [archive]).fingerprint
    assert publish(folder, [series("PAY", PAY_LATER)]).fingerprint == whole


@pytest.mark.parametrize("field", ["title", "units", "seasonal_adjustment", "frequency"])
def test_metadata_of_past_days_is_history_too(folder: Path, field: str) -> None:
    before = snapshot(folder)
    other = {field: "w" if field == "frequency" else "Other"}
    message = refusal(HistoryChanged, lambda: publish(folder, [series("PAY", PAY, **other)]))
    assert f"PAY {field} from the beginning on: " in message
    assert f"would become {other[field]!r}" in message
    too_early = meta("PAY", valid_from="2020-04-03", **other)
    message = refusal(HistoryChanged, lambda: publish(folder, [series("PAY", PAY, too_early)]))
    assert f"PAY {field} from 2020-04-03 on: " in message
    assert snapshot(folder) == before
    in_time = meta("PAY", valid_from="2020-04-04", **other)
    publish(folder, [series("PAY", PAY, in_time)])
    store = open_store(folder)
    assert store.view("2020-04-03").meta("PAY") == meta("PAY")
    assert store.view("2020-04-04").meta("PAY") == in_time


def test_what_the_catalog_decides_is_no_history(folder: Path) -> None:
    publish(folder, [series("PAY", PAY, category="labour", training="granted", max_lag_days=60)])
    assert open_store(folder).meta("PAY").category == "labour"


# What is refused


@pytest.mark.parametrize("id", ["PAYEMS", "a", "0", "A.B-c_D", "x" * 64])
def test_an_id_of_letters_digits_and_three_signs_is_taken(tmp_path: Path, id: str) -> None:
    publish(tmp_path / "store", [series(id, PAY)])
    assert open_store(tmp_path / "store").series_ids == (id,)


@pytest.mark.parametrize(
    "id", ["", ".", "..", "-A", "_A", "A B", "A/B", "../A", "A\n", "Ä", "x" * 65, "A\0"]
)
def test_any_other_id_is_refused(id: str) -> None:
    assert "up to 64" in refusal(InputError, lambda: meta(id))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("frequency", "monthly"),
        ("transform", "log"),
        ("role", "goal"),
        ("training", "yes"),
        ("valid_from", "2020-1-1"),
        ("valid_from", "2020-W01-1"),
    ],
)
def test_bad_metadata_is_refused_and_named(field: str, value: str) -> None:
    message = refusal(InputError, lambda: meta("PAY", **{field: value}))
    assert "series PAY" in message
    assert field in message
    assert repr(value) in message


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ([], "no series"),
        ([series("PAY", [])], "PAY has no rows"),
        ([series("PAY", PAY), series("PAY", PAY_LATER)], "PAY comes twice"),
        ([SeriesInput([], table(PAY))], "needs metadata"),
        ([series("PAY", PAY, meta("GDP", valid_from="2020-01-01"))], "with its own id"),
        ([SeriesInput([meta("PAY", valid_from="2020-01-01")], table(PAY))], "no valid_from"),
        ([series("PAY", PAY, meta("PAY"))], "no valid_from"),
        ([series("PAY", PAY, *[meta("PAY", valid_from="2020-01-01")] * 2)], "same valid_from"),
        (
            [series("NEW", LATE), series("PAY", [*PAY, (*PAY[0][:2], 5.0)])],
            "PAY: 2019-12-01 has two values",
        ),
    ],
)
def test_a_bad_input_is_refused_and_nothing_is_written(
    folder: Path, inputs: list[SeriesInput], reason: str
) -> None:
    before = snapshot(folder)
    assert reason in refusal(InputError, lambda: publish(folder, inputs))
    assert snapshot(folder) == before


def test_publishing_to_a_uri_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    message = refusal(StoreError, lambda: publish("s3://KEY:SECRET@bucket/prefix", first_inputs()))
    assert "s3://bucket/prefix" in message
    assert "SECRET" not in message
    assert snapshot(tmp_path) == {}


WRITER = """
import os, sys
from store_samples import later_inputs
from nowcast_alfred.store import publish
real = os.replace
def wait(*args):
    print("writing", flush=True)
    sys.stdin.readline()
    real(*args)
os.replace = wait
print(publish(sys.argv[1], later_inputs()).fingerprint)
"""


def test_a_second_writer_is_told_so_and_readers_read_on(folder: Path) -> None:
    before, first = snapshot(folder), open_store(folder).fingerprint
    writer = python(WRITER, str(folder))
    assert writer.stdout is not None
    assert writer.stdout.readline() == "writing\n"
    message = refusal(StoreLocked, lambda: publish(folder, later_inputs()))
    assert f"another process is writing to {folder}" in message
    assert open_store(folder).fingerprint == first
    assert before.items() <= snapshot(folder).items()
    second = output_after(writer, "\n" * 20)
    assert open_store(folder).fingerprint == second
    assert publish(folder, later_inputs()).fingerprint == second
    assert not list(folder.rglob(LEFTOVER))


def output_after(process: Any, text: str) -> str:
    out, err = process.communicate(text)
    assert process.returncode == 0, err
    return str(out.split()[-1])


def test_where_there_is_no_store_the_message_says_how_to_make_one(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent"):
        for act in (open_store, verify_store):
            message = refusal(StoreNotFound, lambda act=act, place=place: act(place))
            assert f"no store at {place} " in message
            assert "nowcast-alfred store" in message


@pytest.mark.parametrize("version", ["0" * 64, "", "../manifest", "../../x"])
def test_a_version_the_store_does_not_have_is_a_mismatch(folder: Path, version: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_store(folder, version)
    if version != "../manifest":  # there is such a file, but it is not that version's
        assert type(caught.value) is StoreMismatch
        assert open_store(folder).fingerprint[:12] in str(caught.value)
        assert f"has no version {version[:12]}" in str(caught.value)


def test_a_manifest_of_a_newer_format_asks_for_an_upgrade(folder: Path) -> None:
    manifest, _ = verify_store(folder)
    newer = Manifest(**{**vars(manifest), "format": 2}).to_json()
    (folder / "manifest.json").write_text(newer)
    for act in (open_store, verify_store, lambda place: publish(place, first_inputs())):
        message = refusal(StoreError, lambda act=act: act(folder))
        assert "manifest.json has format 2" in message
        assert "upgrade nowcast-alfred" in message


def test_verify_finds_a_manifest_that_was_made_for_other_content(folder: Path) -> None:
    manifest, _ = verify_store(folder)
    changed = Manifest(**{**vars(manifest), "fingerprint": "0" * 64})
    (folder / "manifest.json").write_text(changed.to_json())
    assert verify_store(folder)[1] == [
        f"{folder}/manifest.json: the fingerprint is not that of the content"
    ]


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("s3://KEY:SECRET@bucket/prefix?region=x", "s3://bucket/prefix"),
        ("s3://KEY:SEC/RET@bucket/prefix", "s3://bucket/prefix"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("/home/me@host/a?b", "/home/me@host/a?b"),
    ],
)
def test_messages_show_a_place_without_its_credentials(uri: str, shown: str) -> None:
    assert without_secrets(uri) == shown


@pytest.mark.parametrize(
    "uri", ["s3://KEY:SECRET@bucket/p?no=1", "s3://KEY:SEC/RET@b", "ftp://KEY:SECRET@b/p"]
)
def test_a_uri_that_cannot_be_used_is_named_without_its_credentials(uri: str) -> None:
    message = refusal(StoreNotFound, lambda: open_store(uri))
    assert f"cannot open {without_secrets(uri)}: " in message
    assert "SEC" not in message


# Canonical rows


def canonical(*points: Point) -> list[Any]:
    return rows_of(normalise(table(points), "PAY"))


def test_rows_are_sorted_by_period_and_vintage() -> None:
    assert canonical(
        ("2020-02-01", "2020-03-01", 2.0),
        ("2020-01-01", "2020-04-01", 3.0),
        ("2020-01-01", "2020-02-01", 1.0),
    ) == [
        ("2020-01-01", "2020-02-01", 1.0, None),
        ("2020-01-01", "2020-04-01", 3.0, None),
        ("2020-02-01", "2020-03-01", 2.0, None),
    ]


def test_a_value_that_did_not_change_is_left_out() -> None:
    a, b, c = "2020-02-01", "2020-03-01", "2020-04-01"
    period = "2020-01-01"
    assert canonical((period, a, 1.0), (period, b, 1.0), (period, c, 2.0)) == [
        (period, a, 1.0, None),
        (period, c, 2.0, None),
    ]
    assert canonical((period, a, 1.0), (period, b, 2.0), (period, c, 1.0)) == [
        (period, a, 1.0, None),
        (period, b, 2.0, None),
        (period, c, 1.0, None),
    ]
    assert canonical((period, a, None), (period, b, None), (period, c, 1.0)) == [
        (period, a, None, None),
        (period, c, 1.0, None),
    ]
    assert canonical((period, a, 1.0), ("2020-02-01", b, 1.0)) == [
        (period, a, 1.0, None),
        ("2020-02-01", b, 1.0, None),
    ]


def test_not_a_number_is_a_withdrawal_and_zero_has_one_sign() -> None:
    point = ("2020-01-01", "2020-02-01")
    (row,) = canonical((*point, float("nan")))
    assert row == (*point, None, None)
    (row,) = canonical((*point, -0.0))
    assert str(row[2]) == "0.0"
    assert canonical((*point, 0.0), (*point, -0.0)) == [(*point, 0.0, None)]


def test_of_rows_that_differ_in_their_bracket_alone_the_widest_stays() -> None:
    point = ("2020-01-01", "2020-02-20", 1.0)
    rows = [(*point, None), (*point, "2020-02-10"), (*point, "2020-02-01")]
    assert canonical(*rows) == canonical(*rows[::-1]) == [rows[2]]


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        (
            [("2020-01-01", "2020-02-01", 1.0), ("2020-01-01", "2020-02-01", 2.0)],
            "2020-01-01 has two values in vintage 2020-02-01: 1 and 2",
        ),
        ([("2020-01-01", "2020-02-01", 1.0), ("2020-01-01", "2020-02-01", None)], "two values"),
        (
            [("2020-01-01", "2020-02-01", float("inf"))],
            "2020-01-01 in vintage 2020-02-01 is infinite",
        ),
        ([("2020-01-01", "2020-02-01", float("-inf"))], "infinite"),
        (
            [("2020-01-01", "2020-02-01", 1.0, "2020-02-01")],
            "vintage_lower 2020-02-01 is not before vintage 2020-02-01",
        ),
        ([(None, "2020-02-01", 1.0)], "not vintage rows"),
        ([("2020-01-01", None, 1.0)], "not vintage rows"),
    ],
)
def test_rows_that_make_no_sense_are_refused_and_named(points: list[Any], reason: str) -> None:
    message = refusal(InputError, lambda: normalise(table(points), "PAY"))
    assert message.startswith("PAY: ")
    assert reason in message


def test_a_table_of_other_columns_is_refused() -> None:
    rows = table(PAY)
    for bad in (
        rows.drop_columns(["vintage_lower"]),
        rows.set_column(2, "value", pa.array(["x"] * len(PAY))),
    ):
        assert "PAY: these are not vintage rows" in refusal(
            InputError, lambda bad=bad: normalise(bad, "PAY")
        )


def test_canonical_rows_are_a_fixed_point() -> None:
    once = normalise(table(PAY + PAY_LATER), "PAY")
    assert normalise(once, "PAY").equals(once)
    assert content_hash(normalise(once, "PAY")) == content_hash(once)
    assert [len(array) for array in to_arrays(once)] == [once.num_rows] * 4


# What a view shows


def test_a_withdrawn_value_is_absent(folder: Path) -> None:
    store = open_store(folder)
    january = (dt.date(2020, 1, 1) - dt.date(1970, 1, 1)).days
    present = [
        january in read(store, "PAY", day)
        for day in ("2020-03-12", "2020-03-13", "2020-04-02", "2020-04-03")
    ]
    assert present == [True, False, False, True]
    assert store.view("2020-04-03").revisions("PAY", "2020-01-01") == [
        ("2020-02-07", 103.0),
        ("2020-03-13", None),
        ("2020-04-03", 102.5),
    ]
    assert store.view("2020-04-02").revisions("PAY", "2020-01-01")[-1] == ("2020-03-13", None)


def test_a_value_missing_on_its_first_day_is_absent_until_it_is_given(folder: Path) -> None:
    view = open_store(folder).view
    assert view("2020-03-06").revisions("PAY", "2020-02-01") == [("2020-03-06", None)]
    assert "2020-02-01" not in view("2020-03-12").observations("PAY").to_pandas().index
    assert view("2020-03-13").observations("PAY").to_pandas()["2020-02-01"] == 104.5


def test_a_transform_that_needs_a_withdrawn_value_is_absent(folder: Path) -> None:
    changes = open_store(folder).view("2020-03-13").observations("PAY", units="chg")
    assert len(changes) == 0


def test_a_new_base_year_shows_from_its_day(folder: Path) -> None:
    publish(folder, later_inputs())
    store = open_store(folder)
    for day, units in (
        ("2020-02-07", "Units"),
        ("2020-05-07", "Units"),
        ("2020-05-08", "Units of 2020"),
    ):
        view = store.view(day)
        assert view.meta("PAY").units == units
        assert [row.units for row in view.series() if row.id == "PAY"] == [units]
        assert [row.units for row in view.search("pay") if row.id == "PAY"] == [units]
        if units == "Units":
            assert "2020-05-08" not in str(answers_of(view, store.series_ids))
    assert store.meta("PAY").units == "Units of 2020"


ASKS: dict[str, Callable[[AsOfView, str], Any]] = {
    "meta": lambda view, id: view.meta(id),
    "observations": lambda view, id: view.observations(id),
    "vintages": lambda view, id: view.vintages(id),
    "revisions": lambda view, id: view.revisions(id, "2020-02-01"),
    "releases": lambda view, id: view.releases(id),
}


def test_every_method_of_a_view_is_tested_here() -> None:
    public = {name for name in dir(AsOfView) if not name.startswith("_")}
    assert public == {*ASKS, "as_of", "series", "search"}


def refusals(view: AsOfView, ask: Callable[[AsOfView, str], Any]) -> tuple[str, str]:
    """What is said of a series that starts later, and of one that is nowhere."""
    late, none = (refusal(QueryError, lambda id=id: ask(view, id)) for id in ("LATE", "NONE"))
    return late.replace("LATE", "NONE"), none


@pytest.mark.parametrize("method", ASKS)
def test_a_series_that_starts_later_is_refused_like_one_that_never_was(
    folder: Path, method: str
) -> None:
    store = open_store(folder)
    assert ASKS[method](store.view("2020-03-20"), "LATE") is not None
    late, none = refusals(store.view("2020-03-19"), ASKS[method])
    assert late == none
    assert "2020-03-20" not in late


@pytest.mark.parametrize(
    "ask",
    [
        lambda view, id: view.observations(id, units="log"),
        lambda view, id: view.observations(id, start="x"),
        lambda view, id: view.observations(id, end="2020-13-01"),
        lambda view, id: view.revisions(id, "x"),
    ],
    ids=["units", "start", "end", "period"],
)
def test_malformed_requests_do_not_tell_a_later_series_from_none(folder: Path, ask: Any) -> None:
    late, none = refusals(open_store(folder).view("2020-03-19"), ask)
    assert late == none


def test_a_series_that_starts_later_leaves_no_trace_in_a_view(folder: Path, tmp_path: Path) -> None:
    publish(tmp_path / "without", first_inputs()[:2])
    ids = ["GDP", "PAY", "LATE", "NONE"]
    days = [day for day in DAYS if day < "2020-03-20"]
    assert answers(open_store(tmp_path / "without"), days, ids) == answers(
        open_store(folder), days, ids
    )
    assert open_store(folder).view("2020-03-19").search("late") == []
    assert [row.id for row in open_store(folder).view("2020-03-20").search("late")] == ["LATE"]


def test_search_ranks_ids_over_titles_and_ignores_case(tmp_path: Path) -> None:
    inputs = [
        series("AAA", LATE, title="Gross output of pay"),
        series("PAY", LATE, title="Output", category="labour"),
        series("ZZZ", LATE, title="Nothing", release="Pay release"),
    ]
    publish(tmp_path / "store", inputs)
    view = open_store(tmp_path / "store").view("2024-01-01")
    assert [row.id for row in view.search("pay OUTPUT")] == ["PAY", "AAA", "ZZZ"]
    assert [row.id for row in view.search("LABOUR")] == ["PAY"]
    assert [row.id for row in view.search("")] == ["AAA", "PAY", "ZZZ"]
    assert view.search("absent") == []


def test_releases_leave_out_the_first_vintage_and_the_future(folder: Path) -> None:
    found = open_store(folder).view("2020-03-06").releases("PAY")
    assert found.period.astype("datetime64[D]").astype(str).tolist() == ["2020-01-01", "2020-02-01"]
    assert found.day.astype("datetime64[D]").astype(str).tolist() == ["2020-02-07", "2020-03-06"]
    assert found.lag.tolist() == [7, 6]


# Outcomes


def yearly() -> list[Point]:
    """Fourteen months, released together twice: the second time in another base year."""
    months = [f"2020-{month:02d}-01" for month in range(1, 13)] + ["2021-01-01", "2021-02-01"]
    first = [(month, "2021-02-10", 100.0 + n) for n, month in enumerate(months[:-1])]
    release = [(months[-1], "2021-03-10", 120.0), (months[-2], "2021-03-10", 115.0)]
    rebased = [(month, "2022-01-10", 200.0 + n) for n, month in enumerate(months)]
    return first + release + rebased


@pytest.mark.parametrize(
    ("units", "first", "latest"),
    [
        ("lin", 120.0, 213.0),
        ("chg", 120.0 - 115.0, 213.0 - 212.0),
        ("ch1", 120.0 - 101.0, 213.0 - 201.0),
        ("pch", (120.0 / 115.0 - 1) * 100, (213.0 / 212.0 - 1) * 100),
        ("pc1", (120.0 / 101.0 - 1) * 100, (213.0 / 201.0 - 1) * 100),
        ("pca", ((120.0 / 115.0) ** 12 - 1) * 100, ((213.0 / 212.0) ** 12 - 1) * 100),
    ],
)
def test_an_outcome_is_the_transform_inside_one_vintage(
    tmp_path: Path, units: Any, first: float, latest: float
) -> None:
    publish(tmp_path / "store", [series("PAY", yearly())])
    outcome = open_store(tmp_path / "store").outcome("PAY", "2021-02-01", units)
    assert outcome.first == pytest.approx(first, rel=1e-12)
    assert outcome.latest == pytest.approx(latest, rel=1e-12)
    assert (outcome.first_vintage, outcome.latest_vintage) == ("2021-03-10", "2022-01-10")


def test_an_outcome_may_be_asked_by_day_number_and_has_no_latest_once_withdrawn(
    tmp_path: Path,
) -> None:
    publish(tmp_path / "store", [series("PAY", [*PAY, ("2020-01-01", "2020-06-01", None)])])
    store = open_store(tmp_path / "store")
    january = (dt.date(2020, 1, 1) - dt.date(1970, 1, 1)).days
    assert store.outcome("PAY", january, "chg") == store.outcome("PAY", "2020-01-01", "chg")
    assert store.outcome("PAY", january, "chg").first == 2.0
    assert store.outcome("PAY", january, "chg").latest is None


@pytest.mark.parametrize(
    ("id", "period", "reason"),
    [
        ("NONE", "2020-01-01", "no series 'NONE' in {folder}; it has 3: GDP, LATE, PAY"),
        ("PAY", "2031-01-01", "PAY has no vintage of 2031-01-01 in {folder}"),
        ("PAY", "2019-12-01", "2019-12-01 has no chg value in vintage 2020-01-10"),
        ("PAY", "2020-02-01", "2020-02-01 has no chg value in vintage 2020-03-06"),
    ],
)
def test_an_outcome_that_is_not_there_says_why(
    folder: Path, id: str, period: str, reason: str
) -> None:
    message = refusal(QueryError, lambda: open_store(folder).outcome(id, period, "chg"))
    assert reason.format(folder=folder) in message


def test_an_earlier_manifest_under_a_wrong_name_is_not_taken(folder: Path) -> None:
    first = open_store(folder).fingerprint
    publish(folder, later_inputs())
    os.rename(folder / "manifests" / f"{first}.json", folder / "manifests" / f"{'0' * 64}.json")
    message = refusal(StoreCorrupt, lambda: open_store(folder, "0" * 64))
    assert "manifest of another version" in message
