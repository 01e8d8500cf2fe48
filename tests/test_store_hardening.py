"""A store is data: no id of it, or asked of it, becomes a path, and no file of it runs anything.

The interpreter's own audit events tell whether a file was opened or code was loaded, so what is
looked for is the deed and not a way of doing it. Each check has one that shows it can fail.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nowcast_alfred.errors import InputError, StoreCorrupt
from nowcast_alfred.locate import opened
from nowcast_alfred.store import open_store, publish
from nowcast_alfred.store.files import Files
from nowcast_alfred.store.manifest import MANIFEST, _checksum
from nowcast_alfred.tools import CatalogToolset, CatalogToolsetConfig
from panels import meta, small_inputs, small_store
from test_tool_hardening import NO_IDS, is_refusal, published

SOURCES = Path(__file__).resolve().parents[1] / "src"
SMALL = small_store()
DAY = "2014-06-30"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    return published(tmp_path_factory.mktemp("store"))


# --- Ids and paths

WATCHED: list[tuple[str, str]] = []
_watching = [False]
FILES = ("open", "os.", "shutil.", "glob.", "pathlib.", "tempfile.", "socket.", "subprocess.")
CODE = ("exec", "compile", "import", "marshal.", "pickle.", "os.system", "os.exec", "ctypes.")


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching[0] and event.startswith((*FILES, *CODE)):
        WATCHED.append((event, repr(arguments)[:200]))


sys.addaudithook(_watch)


@contextmanager
def watched(*kinds: str) -> Iterator[list[tuple[str, str]]]:
    """The interpreter's own events of some kinds, as they happen within."""
    WATCHED.clear()
    found: list[tuple[str, str]] = []
    _watching[0] = True
    try:
        yield found
    finally:
        _watching[0] = False
        found += [event for event in WATCHED if event[0].startswith(kinds)]


PATHS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [*NO_IDS, "EMP.parquet", "manifest.json", ".", "..", "/", "~", "EMP/", "//EMP"]
    ),
    st.lists(st.sampled_from(["..", "/", "EMP", "\0", "~", "vintages", ".parquet"])).map("".join),
).filter(lambda key: key not in SMALL.series_ids)


@given(key=PATHS, tool=st.sampled_from(["observations", "series", "revisions", "releases"]))
@settings(max_examples=300, deadline=None)
def test_an_id_that_is_not_in_the_store_leads_to_no_file(place: str, key: str, tool: str) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError(f"a file was read: {args}")

    server = CatalogToolset(CatalogToolsetConfig(store=place))
    server.state.as_of, server.state.store = DAY, SMALL.fingerprint
    opened(place, SMALL.fingerprint)
    argument = "series_ids" if tool == "observations" else "series_id"
    answer = getattr(server, tool)(**{argument: key})
    with pytest.MonkeyPatch.context() as patch, watched(*FILES) as files:
        patch.setattr(Files, "read", refuse)
        patch.setattr(pa, "memory_map", refuse)
        with pytest.raises(StopIteration) as done:  # a coroutine that waits for nothing
            answer.send(None)
    assert files == []
    assert is_refusal(done.value.value)


def test_the_watch_sees_a_file_being_opened() -> None:
    with watched(*FILES) as files, open(os.devnull):
        pass
    assert [event for event, _ in files] == ["open"]


@given(key=PATHS)
@settings(max_examples=300, deadline=None)
def test_no_series_can_have_an_id_that_leads_out_of_its_folder(key: str) -> None:
    try:
        allowed = meta(key).id
    except InputError:
        return
    for name in (f"{allowed}.csv", f"{allowed}-{'0' * 12}.parquet"):
        assert Path("/folder", name).resolve().parent == Path("/folder")
        assert name.isascii()
        assert name.isprintable()


def test_a_store_whose_manifest_holds_a_path_is_corrupt_and_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOWCAST_ALFRED_CACHE", str(tmp_path / "cache" / "deep"))
    forged(tmp_path, lambda body: body.update(fingerprint="../../out"))
    with pytest.raises(StoreCorrupt, match="fingerprint"):
        open_store(tmp_path / "store")
    assert {path.name for path in tmp_path.iterdir()} <= {"store", "cache"}


def test_a_store_cannot_pass_for_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOWCAST_ALFRED_CACHE", str(tmp_path / "cache"))
    (tmp_path / "genuine").mkdir()
    publish(tmp_path / "genuine", small_inputs()[:3])
    mark = json.loads((tmp_path / "genuine" / MANIFEST).read_text())["fingerprint"]
    forged(tmp_path, lambda body: body.update(fingerprint=mark))
    with pytest.raises(StoreCorrupt, match="not that of its content"):
        open_store(tmp_path / "store")
    assert open_store(tmp_path / "genuine").fingerprint == mark


def forged(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A small store whose maker changed its manifest and the checksum with it."""
    root = folder / "store"
    publish(root, small_inputs())
    body = json.loads((root / MANIFEST).read_text())
    del body["checksum"]
    change(body)
    (root / MANIFEST).write_text(json.dumps({**body, "checksum": _checksum(body)}))
    return root


# --- Nothing of a store is executed


class Bomb:
    """What unpickling it does can be seen."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def with_code(table: pa.Table, extension: str, code: bytes) -> bytes:
    """A Parquet file of a table, with code wherever Arrow and pandas keep descriptions of types."""
    described = {"ARROW:extension:name": extension, "ARROW:extension:metadata": code}
    column = {"name": "value", "field_name": "value", "pandas_type": "object", "metadata": None}
    pandas = {"index_columns": [], "columns": [{**column, "numpy_type": "object"}]}
    about = {"pandas": json.dumps(pandas), "code": code, "PYTHON": code}
    fields = [field.with_metadata(described) for field in table.schema]
    buffer = io.BytesIO()
    pq.write_table(pa.table(table.columns, schema=pa.schema(fields, metadata=about)), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("extension", "read"),
    [
        ("arrow.py_extension_type", True),  # what pyarrow unpickled until version 14
        ("pandas.period", True),
        ("made.up", True),
        ("arrow.opaque", False),
        ("arrow.json", False),
        ("arrow.uuid", False),
        ("arrow.bool8", False),
        ("arrow.fixed_shape_tensor", False),
    ],
)
def test_extension_types_of_a_parquet_file_run_nothing(
    extension: str, read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOWCAST_ALFRED_CACHE", str(tmp_path / "cache"))
    mark, name = tmp_path / "exploded", small_inputs()[0].meta
    series_id = (name[0] if isinstance(name, list) else name).id
    root = tmp_path / "store"

    def change(body: dict[str, Any]) -> None:
        entry = body["series"][series_id]
        table = pq.read_table(root / entry["file"])
        data = with_code(table, extension, pickle.dumps(Bomb(mark)))
        (root / entry["file"]).write_bytes(data)
        entry["sha256"] = hashlib.sha256(data).hexdigest()

    forged(tmp_path, change)
    with watched(*CODE) as run:
        if read:
            known = open_store(root).view(DAY).observations(series_id)
            plain = SMALL.view(DAY).observations(series_id)
            assert np.array_equal(known.value, plain.value)
        else:
            with pytest.raises(StoreCorrupt, match=series_id):
                open_store(root)
    assert run == []
    assert not mark.exists()


def test_extension_types_of_a_cache_run_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOWCAST_ALFRED_CACHE", str(tmp_path / "cache"))
    publish(tmp_path / "store", small_inputs())
    open_store(tmp_path / "store")
    (path,) = (tmp_path / "cache").glob("*.arrow")
    table = pa.ipc.open_file(path).read_all()
    code = pickle.dumps(Bomb(tmp_path / "exploded"))
    described = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": code,
    }
    fields = [field.with_metadata(described) for field in table.schema]
    schema = pa.schema(fields, metadata={**table.schema.metadata, b"PYTHON": code})
    with pa.ipc.new_file(path, schema) as writer:
        writer.write_batch(pa.table(table.columns, schema=schema).to_batches()[0])
    with watched(*CODE) as run:
        known = open_store(tmp_path / "store").view(DAY).observations("EMP")
    assert np.array_equal(known.value, SMALL.view(DAY).observations("EMP").value)
    assert run == []
    assert not (tmp_path / "exploded").exists()


def test_the_bomb_of_these_tests_explodes_where_it_is_unpickled(tmp_path: Path) -> None:
    with watched(*CODE) as run:
        pickle.loads(pickle.dumps(Bomb(tmp_path / "exploded")))
    assert (tmp_path / "exploded").exists()
    assert "pickle.find_class" in [event for event, _ in run]


MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"} | {
    "code",
    "codeop",
    "runpy",
    "imp",
    "yaml",
    "ctypes",
}
NAMES = {"eval", "exec", "compile", "__import__", "execfile"}
METHODS = {"read_pickle", "to_pickle", "unsafe_load", "full_load", "deserialize", "system", "popen"}
METHODS |= {"register_extension_type", "exec_module", "import_module", "loads_pickle"}
WORDS = {"allow_pickle", "shell"}


def dangers(source: str) -> list[str]:
    """Whatever in a module could run text or bytes as code."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names if each.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module or ""] if (node.module or "").split(".")[0] in MODULES else []
            found += [each.name for each in node.names if each.name in NAMES | METHODS]
        elif isinstance(node, ast.Name) and node.id in NAMES:
            found.append(node.id)
        elif isinstance(node, ast.Attribute) and node.attr in METHODS:
            found.append(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value
            if node.func.attr in ("load", "eval", "query"):
                numpy = isinstance(of, ast.Name) and of.id in ("np", "numpy", "pd", "pandas")
                found += [node.func.attr] if numpy else []
        if isinstance(node, ast.keyword) and node.arg in WORDS:
            found.append(node.arg)
    return found


def test_nothing_in_the_package_runs_data_as_code() -> None:
    files = sorted(SOURCES.rglob("*.py"))
    assert len(files) > 50
    found = {str(path.relative_to(SOURCES)): dangers(path.read_text()) for path in files}
    assert {name: of for name, of in found.items() if of} == {}


@pytest.mark.parametrize(
    "line",
    [
        *["import pickle", "from pickle import loads", "import yaml", "x = eval('1')", "exec(t)"],
        *["np.load(f)", "np.load(f, allow_pickle=True)", "pd.read_pickle(f)", "pd.eval('x')"],
        *["os.system('x')", "subprocess.run(x, shell=True)", "f = __import__", "y.unsafe_load(t)"],
        *["from os import system", "pa.register_extension_type(t)", "importlib.import_module(n)"],
    ],
)
def test_that_check_sees_what_it_is_for(line: str) -> None:
    assert dangers(line)
