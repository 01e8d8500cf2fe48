"""No thread of Arrow's ever holds Python's bytes.

One that lets go of them while the interpreter ends needs its lock, cannot have it any more and
aborts the process ("terminate called without an active exception", apache/arrow issue 34314), now
and then, after all work was done: a status that is not 0, and a core dump.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from nowcast_alfred.sources import bls_triangle
from test_tool_hardening import published

COUNT = """
import os, pathlib, sys
import pyarrow as pa, pyarrow.parquet as pq
from nowcast_alfred.store import verify_store
place = sys.argv[1]
threads = lambda: len(os.listdir("/proc/self/task"))
before = threads()
"""
OURS = """
manifest, faults = verify_store(place)
assert manifest.series
assert not faults
"""
PLAIN = """
for path in sorted(pathlib.Path(place).rglob("*.parquet")):
    pq.read_table(pa.BufferReader(path.read_bytes()))
"""


def started(reading: str, place: str) -> int:
    """How many threads a fresh process has more after reading a store's files."""
    code = COUNT + reading + "os.write(1, str(threads() - before).encode()); os._exit(0)"
    line = [sys.executable, "-c", code, place]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_reading_the_files_of_a_store_starts_no_thread(tmp_path: Path) -> None:
    place = published(tmp_path / "store")
    assert started(OURS, place) == 0
    assert started(PLAIN, place) > 0  # else nothing was looked for


def test_a_triangle_is_parsed_from_memory_of_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = bls_triangle.pa_csv.read_csv

    def watched(source: pa.BufferReader, **options: object) -> pa.Table:
        read.append(source.read_buffer().address)
        source.seek(0)
        return real(source, **options)

    monkeypatch.setattr(bls_triangle.pa_csv, "read_csv", watched)
    body = b"2020,1,5\n2020,2,\n"
    cells = bls_triangle._columns(3, body)
    assert cells is not None
    assert cells[:2].tolist() == [[2020, 2020], [1, 2]]
    assert len(read) == 1
    assert pa.py_buffer(body).address not in read
