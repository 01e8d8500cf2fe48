"""The API key: taken from the environment, and then seen by nobody but FRED."""

from __future__ import annotations

import logging
import math
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fake_fred as ff
from commands import BIN, environment
from fake_fred import KEY, FakeFred, Fault, growing_series
from fred_builds import FAST, build, causes, client
from nowcast_alfred.errors import KeyRefused, NowcastError
from nowcast_alfred.sources.fred import KEY_VARIABLE, URL_VARIABLE, Fred

TODAY = "2024-11-03"
ECHO = f"Bad Request.  The value {KEY} for variable api_key is odd."
FAULTS: dict[str, Fault] = {
    "refused, with the key in the text": ff.refuse(400, ECHO),
    "refused otherwise, with the key in the text": ff.refuse(404, f"Not Found: api_key={KEY}"),
    "a page with the key": Fault("page", page=(500, f"<html>{KEY}</html>")),
    "another shape, with the key": ff.edited(lambda body: body.update(tags=f"{KEY}")),
    "429": ff.too_many_requests(),
    "504": ff.gateway_error(),
    "truncated": ff.truncated(),
    "cut": ff.truncated(cut=True),
    "reset": ff.reset(),
    "closed": ff.hang(0.0),
    "hangs": ff.hang(),
}


def server() -> FakeFred:
    return FakeFred([growing_series(id, "2020-01-01", 12) for id in ("PAY", "CPI")], TODAY)


def test_white_space_around_the_key_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    with server() as fake:
        monkeypatch.setenv(KEY_VARIABLE, f" {KEY}\r\n")
        monkeypatch.setenv(URL_VARIABLE, fake.base_url)
        assert Fred(rate=FAST).vintage_dates("PAY")
        assert Fred(f"\t{KEY} ", rate=FAST).vintage_dates("PAY")


@pytest.mark.parametrize(
    "key", [KEY.upper(), KEY[:-1], KEY + "0", KEY[:-1] + "-", f"{KEY[:16]} {KEY[16:]}", "Ключ" * 8]
)
def test_what_cannot_be_a_key_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(KeyRefused, match=KEY_VARIABLE) as refused:
        Fred(key)
    for error in causes(refused.value):
        assert key not in str(error) + repr(error)


@pytest.mark.parametrize("key", ["", " \n"])
def test_without_a_key_the_way_to_one_is_named(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key)
    with pytest.raises(KeyRefused, match=r"no FRED API key: set FRED_API_KEY .*api_key\.html"):
        Fred()
    monkeypatch.delenv(KEY_VARIABLE)
    with pytest.raises(KeyRefused, match="no FRED API key"):
        Fred()


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_no_failure_and_no_log_shows_the_key(
    fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore", "httpcore.http11", "httpcore.connection", "tenacity"):
        caplog.set_level(logging.DEBUG, logger=name)
    with server() as fake:
        fred = client(fake, tries=2, timeout=0.2)
        fake.script(fault, times=math.inf)
        with pytest.raises(NowcastError) as refused:
            fred.tags("PAY")
        assert KEY in fake._api.keys
    for error in causes(refused.value):
        shown = "".join(traceback.format_exception(error))
        assert KEY not in shown + str(error) + repr(error) + repr(error.args)
        assert not hasattr(error, "request") or KEY not in str(error.request.url)
    assert {record.name.split(".")[0] for record in caplog.records} >= {"httpcore"}
    for record in caplog.records:
        assert KEY not in record.getMessage() + repr(record.args) + repr(record.__dict__)


def test_no_success_is_logged_with_the_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with server() as fake:
        client(fake).tags("PAY")
    assert any("series/tags?series_id=PAY" in record.getMessage() for record in caplog.records)
    assert not any(KEY in record.getMessage() + repr(record.args) for record in caplog.records)


@pytest.mark.parametrize(
    "of",
    [lambda fred: fred, lambda fred: fred._fetcher, lambda fred: fred.counts],
    ids=["Fred", "Fetcher", "Counts"],
)
def test_no_repr_shows_the_key(of: Callable[[Fred], Any]) -> None:
    fred = Fred(KEY, "http://127.0.0.1:9/fred")
    assert KEY not in repr(of(fred)) + str(of(fred))


def test_nothing_that_a_build_leaves_or_says_has_the_key(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        'name = "c"\n[defaults]\ntransform = "chg"\nmax_lag_days = 45\n'
        + "".join(f'[[series]]\nid = "{id}"\n' for id in ("PAY", "CPI", "NOPE"))
    )
    with server() as fake:
        fake.script(ff.refuse(400, ECHO.replace("api_key", "it")), series="CPI", path="series")
        line = [str(BIN / "nowcast-alfred"), "store", "build", "S", "--catalog", "c.toml"]
        done = subprocess.run(
            [*line, "--fred-permission", "me", "--rate", "1000"],
            cwd=tmp_path,
            env=environment(FRED_API_KEY=KEY, FRED_BASE_URL=fake.base_url),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    assert "failed: CPI" in done.stderr
    assert "failed: NOPE" in done.stderr
    assert KEY not in done.stdout + done.stderr
    files = [path for path in (tmp_path / "S").rglob("*") if path.is_file()]
    assert any(path.match(".staging/PAY/*.json") for path in files)
    assert any(path.name.startswith("series-") for path in files)
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path
        if path.suffix == ".parquet":
            assert KEY not in str(pq.read_table(path).to_pydict())


def test_no_staged_answer_repeats_a_key_that_the_server_echoed(tmp_path: Path) -> None:
    with server() as fake:
        fake.script(ff.edited(lambda body: body.update(note=KEY)), path="series/tags")
        build(tmp_path / "S", fake, "PAY", "CPI")
        build(tmp_path / "S", fake, "PAY", "NOPE")  # leaves its staging
    for path in (tmp_path / "S").rglob("*.json"):
        assert KEY not in path.read_text()
