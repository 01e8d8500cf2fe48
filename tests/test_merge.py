"""One store from several, and the rights that each series carries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import run
from nowcast_alfred import NowcastTaskset
from nowcast_alfred.cli_sources import with_rights
from nowcast_alfred.errors import ConfigError, InputError
from nowcast_alfred.locate import build_synthetic
from nowcast_alfred.store import SeriesInput, open_store, publish
from nowcast_alfred.store.merge import merge
from nowcast_alfred.store.schema import to_arrays
from nowcast_alfred.taskset import NowcastConfig
from panels import small_inputs
from rollouts import score


@pytest.fixture
def stores(tmp_path: Path) -> tuple[str, str]:
    """The synthetic store, which may be trained on, and another, which may not."""
    build_synthetic(tmp_path / "granted")
    publish(tmp_path / "closed", with_rights(small_inputs(), "prohibited"))
    return str(tmp_path / "granted"), str(tmp_path / "closed")


def changed(item: SeriesInput) -> SeriesInput:
    """The same series with one value another."""
    import pyarrow as pa

    value = to_arrays(item.table)[2].copy()
    value[0] += 1.0
    table = item.table.set_column(2, item.table.schema.field("value"), pa.array(value))
    return SeriesInput(item.meta, table)


def drawn(store: str, rights: str, count: int = 300) -> set[str]:
    config = NowcastConfig(id="nowcast-alfred", store=store, rights=rights)
    return {task.data.series_id for task in NowcastTaskset(config).take(count)}


def test_a_merged_store_holds_the_series_of_each_as_they_were(
    stores: tuple[str, str], tmp_path: Path
) -> None:
    merge(tmp_path / "both", stores)
    both = open_store(tmp_path / "both")
    for uri in stores:
        one = open_store(uri)
        for series_id in one.series_ids:
            assert both.meta(series_id) == one.meta(series_id)
            mine, theirs = both.changes(series_id).columns, one.changes(series_id).columns
            assert mine.checksum() == theirs.checksum()


def test_the_same_rows_twice_are_no_conflict(stores: tuple[str, str], tmp_path: Path) -> None:
    merge(tmp_path / "both", [stores[0], stores[0] + "/"])
    assert open_store(tmp_path / "both").fingerprint == open_store(stores[0]).fingerprint


def test_a_conflict_names_series_and_stores_and_writes_nothing(
    stores: tuple[str, str], tmp_path: Path
) -> None:
    first, *rest = small_inputs()
    publish(tmp_path / "other", [changed(first), *rest])
    uris = [stores[1], str(tmp_path / "other")]
    with pytest.raises(InputError, match=f"{first.id} in .*closed and .*other.*--prefer"):
        merge(tmp_path / "both", uris)
    assert not (tmp_path / "both").exists()
    merge(tmp_path / "both", uris, {first.id: uris[1]})
    kept = open_store(tmp_path / "both").changes(first.id).columns
    assert kept.checksum() == open_store(uris[1]).changes(first.id).columns.checksum()


def test_a_preference_for_a_store_without_the_series_is_an_error(
    stores: tuple[str, str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="SYN_PAYROLL=nowhere"):
        merge(tmp_path / "both", stores, {"SYN_PAYROLL": "nowhere"})


def test_granted_samples_only_what_may_be_trained_on(
    stores: tuple[str, str], tmp_path: Path
) -> None:
    merge(tmp_path / "both", stores)
    everything = drawn(str(tmp_path / "both"), "any")
    granted = drawn(str(tmp_path / "both"), "granted")
    assert all(series_id.startswith("SYN_") for series_id in granted)
    assert not all(series_id.startswith("SYN_") for series_id in everything)


def test_granted_on_a_closed_store_fails_before_the_first_task_and_says_what_to_do(
    stores: tuple[str, str],
) -> None:
    with pytest.raises(ConfigError, match=r'rights = "granted" removed the last.*docs/data\.md'):
        drawn(stores[1], "granted")


@pytest.mark.parametrize(
    ("stated", "granted", "research"),
    [
        ("granted", True, True),
        ("research", False, True),
        ("permission: the bank, 2026-05-04", True, True),
        ("prohibited", False, False),
        ("unknown", False, False),
    ],
)
def test_each_right_allows_what_it_says(
    stated: str, granted: bool, research: bool, tmp_path: Path
) -> None:
    publish(tmp_path / "S", with_rights(small_inputs(), stated))
    for rights, allowed in (("granted", granted), ("research", research), ("any", True)):
        if allowed:
            assert drawn(str(tmp_path / "S"), rights, 5)
        else:
            with pytest.raises(ConfigError, match="no task is left"):
                drawn(str(tmp_path / "S"), rights, 5)


def test_a_right_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="granted, research, prohibited, unknown"):
        with_rights(small_inputs(), "sure")


def test_rights_reach_the_trace_and_the_command_line(
    stores: tuple[str, str], tmp_path: Path
) -> None:
    config = NowcastConfig(id="nowcast-alfred", store=stores[1])
    (task,) = NowcastTaskset(config).take(1)
    assert score(task, "FORECAST: 1").info["nowcast"]["training"] == "prohibited"
    info = json.loads(run(tmp_path, "nowcast-alfred", "store", "info", stores[1], "--json"))
    assert {row["training"] for row in info["series"]} == {"prohibited"}
    run(tmp_path, "nowcast-alfred", "store", "merge", "both", *stores)
    assert len(open_store(tmp_path / "both").series_ids) > len(info["series"])


def test_import_states_rights_for_its_series(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parent.parent
    (tmp_path / "rows.csv").write_text(
        "series_id,date,realtime_start,value\nPAYEMS,2020-01-01,2020-02-07,1\n"
    )
    run(
        tmp_path, "nowcast-alfred", "store", "import", "S", "rows.csv",
        "--catalog", root / "catalogs/us-macro.toml", "--rights", "permission: me, today",
    )  # fmt: skip
    assert open_store(tmp_path / "S").meta("PAYEMS").training == "permission: me, today"
