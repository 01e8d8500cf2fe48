"""Crashes, full disks and damaged bytes: the old version or the new one, never something else."""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nowcast_alfred.errors import StoreCorrupt, StoreError, StoreNotFound
from nowcast_alfred.store import VintageStore, open_store, publish, verify_store
from store_samples import (
    LATER_DAYS,
    LEFTOVER,
    Disk,
    answers,
    first_inputs,
    flip,
    later_inputs,
    output,
    point_cache_at,
    python,
    snapshot,
)

KILL = "import sys, store_samples; store_samples.kill_at_every_step(*sys.argv[1:])"


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


@pytest.fixture
def updated(tmp_path: Path) -> Path:
    """The same store after its update."""
    publish(tmp_path / "updated", first_inputs())
    publish(tmp_path / "updated", later_inputs())
    return tmp_path / "updated"


def without_leftovers(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in snapshot(folder).items() if ".tmp-" not in name}


def error_of(act: Callable[[], Any]) -> StoreError | None:
    """The error of the store that `act` ends with, if it does; any other error is a failure."""
    try:
        act()
    except StoreError as error:
        return error
    return None


def every_row(store: VintageStore) -> dict[str, Any]:
    """All there is to read, which is what the checksums cover."""
    columns = {id: store.changes(id).columns for id in store.series_ids}
    arrays = {id: (c.period, c.vintage, c.value, c.lower) for id, c in columns.items()}
    rows = {id: [(a.dtype.str, a.tobytes()) for a in four] for id, four in arrays.items()}
    return {"rows": rows, "meta": {id: store._metadata(id) for id in rows}}


# Kill -9


def test_a_kill_at_any_step_of_an_update_leaves_the_old_version_or_the_new(
    folder: Path, updated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (folder, folder / "vintages", folder / "manifests"):
        (place / ".tmp-crashed").write_bytes(b"half")
    before = without_leftovers(folder)
    old, new = open_store(folder), open_store(updated)
    truth = {store.fingerprint: every_row(store) for store in (old, new)}
    steps = int(output(python(KILL, str(folder), str(tmp_path / "work"), "update")))
    found, left = [], 0
    for step in range(1, steps + 1):
        root = tmp_path / "work" / str(step)
        monkeypatch.setenv("NOWCAST_ALFRED_CACHE", str(tmp_path / f"cache-{step}"))
        found.append(open_store(root).fingerprint)
        for store in (open_store(root), open_store(root, old.fingerprint)):
            assert every_row(store) == truth[store.fingerprint]
            assert verify_store(root, store.fingerprint)[1] == []
        files = without_leftovers(root)
        assert files.items() >= {k: v for k, v in before.items() if k != "manifest.json"}.items()
        left += any(path.name != ".tmp-crashed" for path in root.rglob(LEFTOVER))
        assert publish(root, later_inputs()).fingerprint == new.fingerprint
        assert not list(root.rglob(LEFTOVER))
        assert snapshot(root) == snapshot(updated)
    commit = found.index(new.fingerprint)
    assert set(found[:commit]) == {old.fingerprint}
    assert set(found[commit:]) == {new.fingerprint}
    assert left > 10  # the kills did hit half-written files
    assert steps > 40


def test_a_kill_at_any_step_of_the_first_publication_leaves_no_store_or_the_whole(
    folder: Path, tmp_path: Path
) -> None:
    whole = open_store(folder).fingerprint
    steps = int(
        output(python(KILL, str(tmp_path / "none"), str(tmp_path / "work"), "first publish"))
    )
    found = []
    for step in range(1, steps + 1):
        root = tmp_path / "work" / str(step)
        try:
            found.append(open_store(root).fingerprint)
        except StoreNotFound:
            found.append("")
        assert publish(root, first_inputs()).fingerprint == whole
        assert snapshot(root) == snapshot(folder)
    assert found == sorted(found)
    assert set(found) == {"", whole}
    assert steps > 40


def test_a_kill_at_any_step_of_building_a_cache_harms_no_later_reader(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth, before = answers(open_store(folder), LATER_DAYS), snapshot(folder)
    steps = int(output(python(KILL, str(folder), str(tmp_path / "work"), "open")))
    left = 0
    for step in range(1, steps + 1):
        root = tmp_path / "work" / str(step)
        left += bool(list(root.rglob(LEFTOVER)))
        monkeypatch.setenv("NOWCAST_ALFRED_CACHE", str(root / "cache"))
        assert answers(open_store(root), LATER_DAYS) == truth
        assert not list(root.rglob(LEFTOVER))
        shutil.rmtree(root / "cache")
        assert snapshot(root) == before
    assert left > 3
    assert steps > 8


Event = tuple[str, int, str]
"""("sync", inode, "") or ("rename", inode, target)."""


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """What is synced and renamed, in order: a power loss keeps what was synced before it."""
    seen: list[Event] = []
    sync, replace = os.fsync, os.replace

    def seen_sync(descriptor: int) -> None:
        sync(descriptor)
        seen.append(("sync", os.fstat(descriptor).st_ino, ""))

    def seen_replace(source: Any, target: Any) -> None:
        seen.append(("rename", os.stat(source).st_ino, str(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", seen_sync)
    monkeypatch.setattr(os, "replace", seen_replace)
    return seen


def test_every_file_is_on_the_disk_before_the_manifest_names_it(
    tmp_path: Path, events: list[Event]
) -> None:
    for inputs in (first_inputs(), later_inputs()):
        events.clear()
        publish(tmp_path / "store", inputs)
        renames = [n for n, event in enumerate(events) if event[0] == "rename"]
        names = [Path(events[n][2]).name for n in renames]
        assert names.index("manifest.json") == len(names) - 1
        for n in renames:
            _, inode, target = events[n]
            assert ("sync", inode, "") in events[:n]
            folder = ("sync", Path(target).parent.stat().st_ino, "")
            until = len(events) if n == renames[-1] else renames[-1]
            assert folder in events[n + 1 : until]


def test_a_cache_is_on_the_disk_before_it_has_its_name(folder: Path, events: list[Event]) -> None:
    events.clear()
    open_store(folder)
    ((at, inode),) = [(n, e[1]) for n, e in enumerate(events) if e[0] == "rename"]
    assert ("sync", inode, "") in events[:at]


# Errors of the system


def failing(code: int) -> Callable[[str], None]:
    def fail(name: str) -> None:
        raise OSError(code, os.strerror(code), name)

    return fail


@pytest.mark.parametrize(
    ("code", "onward"),
    [(errno.ENOSPC, False), (errno.ENOSPC, True), (errno.EROFS, True), (errno.EIO, False)],
    ids=["full once", "full from then on", "read-only from then on", "a broken disk once"],
)
def test_an_error_at_any_step_of_an_update_is_one_clear_error(
    folder: Path, updated: Path, tmp_path: Path, code: int, onward: bool
) -> None:
    old, new = open_store(folder).fingerprint, open_store(updated).fingerprint
    (folder / "vintages" / ".tmp-crashed").write_bytes(b"half")
    before = without_leftovers(folder)
    swallowed: list[int] = []
    for at in range(1, 1000):
        root = tmp_path / str(at)
        shutil.copytree(folder, root)
        with Disk(failing(code), at, onward) as disk:
            error = error_of(lambda root=root: publish(root, later_inputs()))
        if error is None and not disk.failed:
            break
        if error is None or "the new version is in force" in str(error):
            assert open_store(root).fingerprint == new
        else:
            assert open_store(root).fingerprint == old
            assert without_leftovers(root).items() >= before.items()
        if error is None:
            swallowed.append(at)  # making a folder that is there already
        else:
            assert type(error) is StoreError
            assert str(error).startswith((f"cannot write to {root}: ", f"cannot lock {root}: "))
            assert os.strerror(code) in str(error)
        if not onward and not list(root.rglob(".tmp-crashed")):
            assert not list(root.rglob(LEFTOVER))
        assert publish(root, later_inputs()).fingerprint == new
        assert snapshot(root) == snapshot(updated)
    else:
        pytest.fail("the update never ended")
    assert at > 40
    assert len(swallowed) <= 1 + 6


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match=r"cannot write to .*file.* lies in a file"):
            publish(root, first_inputs())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_an_error_at_any_step_of_building_a_cache_is_one_clear_error(
    folder: Path, cache: Path, code: int
) -> None:
    before = snapshot(folder)
    for at in range(1, 100):
        shutil.rmtree(cache, ignore_errors=True)
        with Disk(failing(code), at) as disk:
            error = error_of(lambda: open_store(folder))
        if error is None and not disk.failed:
            break
        if error is not None:
            assert type(error) is StoreError
            assert f"the cache {cache}" in str(error) or f"the cache folder {cache}" in str(error)
            assert os.strerror(code) in str(error)
        assert not list(cache.rglob(LEFTOVER))
        assert open_store(folder).series_ids == ("GDP", "LATE", "PAY")
    else:
        pytest.fail("the cache was never built")
    assert at > 8
    assert snapshot(folder) == before


def test_reading_writes_nothing_into_the_store(folder: Path) -> None:
    names = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    answers(open_store(folder), LATER_DAYS)
    verify_store(folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == names


# Damaged files


def part_names(folder: Path) -> dict[str, str]:
    manifest, _ = verify_store(folder)
    files = {id: entry.file for id, entry in manifest.series.items()}
    return {**files, "metadata": manifest.meta_file}


def damages(path: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Ways to damage a file; the caller restores it."""
    data = path.read_bytes()
    size = len(data)
    grid = {
        0,
        1,
        3,
        4,
        5,
        size // 4,
        size // 2,
        3 * size // 4,
        size - 9,
        size - 5,
        size - 4,
        size - 1,
    }
    for position in sorted(grid):
        for mask in (0x01, 0x20, 0x80, 0xFF):
            yield f"bits {mask:02x} of byte {position}", lambda p=position, m=mask: flip(path, p, m)
    for keep in (0, 1, size // 2, size - 1):
        yield f"cut to {keep}", lambda keep=keep: path.write_bytes(data[:keep])
    yield "a byte more", lambda: path.write_bytes(data + b"\0")
    yield "deleted", path.unlink


def refused(folder: Path, cache: Path, version: str | None = None) -> str:
    """What opening a damaged store says."""
    shutil.rmtree(cache, ignore_errors=True)
    with pytest.raises(StoreCorrupt) as caught:
        open_store(folder, version)
    assert not list(cache.glob("*.arrow"))
    return str(caught.value)


@pytest.mark.parametrize("part", ["PAY", "GDP", "LATE", "NEW", "metadata"])
def test_a_damaged_file_is_named_before_it_is_used(updated: Path, cache: Path, part: str) -> None:
    name = part_names(updated)[part]
    whole = (updated / name).read_bytes()
    for what, damage in damages(updated / name):
        damage()
        _, faults = verify_store(updated)
        assert len(faults) == 1, what
        assert f"{updated}/{name}" in faults[0], what
        assert f"{updated}/{name}" in refused(updated, cache), what
        (updated / name).write_bytes(whole)
    assert verify_store(updated)[1] == []


def test_a_damaged_manifest_is_named_before_it_is_used(updated: Path, cache: Path) -> None:
    path = updated / "manifest.json"
    whole = path.read_bytes()
    for position in range(0, len(whole), 5):
        for mask in (1 << position % 8, 0xFF):
            flip(path, position, mask)
            assert str(path) in refused(updated, cache)
            with pytest.raises(StoreCorrupt, match=r"manifest\.json"):
                verify_store(updated)
            flip(path, position, mask)
    for text in (
        b"",
        whole[:-2],
        whole[: len(whole) // 2],
        whole + b"}",
        b"[]",
        b"{}",
        b"null",
        b"\xff",
    ):
        path.write_bytes(text)
        assert str(path) in refused(updated, cache)
        with pytest.raises(StoreCorrupt, match=r"manifest\.json"):
            publish(updated, later_inputs())
        assert path.read_bytes() == text
    path.write_bytes(whole)
    assert verify_store(updated)[1] == []


def test_every_bit_of_the_format_number_is_covered(folder: Path, cache: Path) -> None:
    path = folder / "manifest.json"
    position = path.read_bytes().index(b'"format": 1') + len('"format": ')
    for bit in range(8):
        flip(path, position, 1 << bit)
        assert str(path) in refused(folder, cache)
        flip(path, position, 1 << bit)


def test_a_damaged_manifest_of_an_old_version_is_named(updated: Path, cache: Path) -> None:
    new = open_store(updated).fingerprint
    (old,) = (p for p in (updated / "manifests").iterdir() if p.stem != new)
    whole = old.read_bytes()
    for position in range(0, len(whole), 97):
        flip(old, position)
        assert str(old) in refused(updated, cache, old.stem)
        flip(old, position)
    assert open_store(updated).fingerprint == new


def test_all_damaged_files_are_named_at_once(updated: Path) -> None:
    names = part_names(updated)
    for part in ("PAY", "NEW", "metadata"):
        flip(updated / names[part], 50)
    (updated / names["GDP"]).unlink()
    _, faults = verify_store(updated)
    assert len(faults) == 4
    for part in ("PAY", "NEW", "metadata", "GDP"):
        assert any(names[part] in fault for fault in faults)


def test_an_update_of_a_damaged_series_is_refused(folder: Path) -> None:
    name = part_names(folder)["PAY"]
    flip(folder / name, 50)
    before = snapshot(folder)
    with pytest.raises(StoreCorrupt, match=r"vintages/PAY-"):
        publish(folder, later_inputs())
    assert snapshot(folder) == before


def test_a_series_swapped_for_another_is_found(folder: Path, cache: Path) -> None:
    names = part_names(folder)
    shutil.copy(folder / names["LATE"], folder / names["PAY"])
    assert names["PAY"] in refused(folder, cache)


# A damaged cache


def cache_file(cache: Path) -> Path:
    (path,) = cache.glob("*.arrow")
    return path


def test_a_damaged_cache_is_found_before_it_is_used(updated: Path, cache: Path) -> None:
    truth = every_row(open_store(updated))
    path = cache_file(cache)
    size = path.stat().st_size
    values = open_store(updated).changes("GDP").columns.value.tobytes()
    body = path.read_bytes().index(values)
    body_end = body + len(values)
    found, harmless = [], []
    for position in range(0, size, 3):
        flip(path, position, 1 << (position // 3) % 8)
        error = error_of(lambda: differs(updated, truth))
        (harmless if error is None else found).append(position)
        assert error is None or names_the_cache(error, path)
        flip(path, position, 1 << (position // 3) % 8)
    assert every_row(open_store(updated)) == truth
    assert len(found) > len(harmless)  # padding, or what Arrow keeps twice
    assert set(range(body, body_end)) & set(range(0, size, 3)) <= set(found)


def differs(folder: Path, truth: Any) -> None:
    """Read everything: it is the truth, or reading it is an error of the store."""
    assert every_row(open_store(folder)) == truth


def names_the_cache(error: StoreError, path: Path) -> bool:
    return type(error) is StoreCorrupt and str(path) in str(error) and "delete it" in str(error)


def test_every_type_and_length_in_a_cache_is_covered(updated: Path, cache: Path) -> None:
    """The same bytes under another type pass a checksum of bytes: signed, unsigned, float."""
    truth = every_row(open_store(updated))
    path = cache_file(cache)
    data = path.read_bytes()
    footer = len(data) - 10 - int.from_bytes(data[-10:-6], "little")
    text = pa.ipc.open_file(path).schema.metadata[b"head"]  # has a checksum, and is long
    at = data.index(text, footer)
    for position in [*range(footer, at), *range(at + len(text), len(data))]:
        for mask in (0x01, 0x02, 0x04):
            flip(path, position, mask)
            error = error_of(lambda: differs(updated, truth))
            assert error is None or names_the_cache(error, path)
            flip(path, position, mask)
    assert path.read_bytes() == data


@pytest.mark.parametrize("keep", [0, 1, 8, 0.25, 0.5, 0.75, -10, -1])
def test_a_truncated_cache_is_found(folder: Path, cache: Path, keep: float) -> None:
    open_store(folder)
    path = cache_file(cache)
    data = path.read_bytes()
    path.write_bytes(data[: keep if isinstance(keep, int) else int(len(data) * keep)])
    with pytest.raises(StoreCorrupt, match="delete it"):
        every_row(open_store(folder))


def test_a_deleted_cache_is_built_again(folder: Path, cache: Path) -> None:
    truth = every_row(open_store(folder))
    path = cache_file(cache)
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    path.unlink()
    assert every_row(open_store(folder)) == truth
    assert cache_file(cache).read_bytes() == data


def test_the_cache_of_another_store_is_not_taken(folder: Path, updated: Path, cache: Path) -> None:
    open_store(folder)
    mine = cache_file(cache)
    mine.rename(cache / "kept")
    open_store(updated)
    cache_file(cache).rename(mine)
    with pytest.raises(StoreCorrupt, match="delete it"):
        open_store(folder)


def test_the_disk_of_these_tests_counts_what_a_publication_does(tmp_path: Path) -> None:
    seen: list[str] = []
    with Disk(seen.append, 1, onward=True):
        publish(tmp_path / "store", first_inputs())
    assert {"mkdir", "open", "write", "fsync", "chmod", "replace", "flock"} <= set(seen)
    assert seen.count("replace") == 6
    assert seen.count("write") == 12
    assert io.open is open
