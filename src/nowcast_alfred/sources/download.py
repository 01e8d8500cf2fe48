"""Files from the web: resumed where they broke, tried again a bounded number of times, checked.

A download grows in `.NAME.part` beside its target; the file gets its own name only when it is
whole and its check has passed. What there is of it stays when the connection breaks or the process
dies, with the server's validator (a strong ETag, else Last-Modified), so that the next try asks for
the rest, and only of the same file (If-Range). A server that ignores the range starts it over.
Beside the file, `NAME.json` records where it came from, when, and its SHA-256.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import tenacity

from ..errors import SourceError, SourceUnavailable, StoreError
from ..store.files import atomic_write, exclusive, sync_folder
from .http import MAX_WAIT, retry_after

LOCK = ".downloading"
ZIP_MAGIC = b"PK\x03\x04"
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""What `zipfile` raises about an archive that is broken, or packed in a way it does not know."""

_PASSING_STATUS = (408, 425, 429)
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


@dataclass(frozen=True)
class Download:
    """A file that is whole on disk; also what `NAME.json` records."""

    path: Path
    url: str
    sha256: str
    size: int
    retrieved_at: str
    etag: str | None
    last_modified: str | None
    requests: int
    """How many requests it took, in this process."""


class Damaged(Exception):
    """Raised by a check: the file is of the right kind but broken, so get it again."""


class _Passing(Exception):
    """A failure that may pass by itself; carries how long the server asked to wait."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


Check = Callable[[Path], None]
"""Raises `Damaged` to have the file fetched again, `SourceError` to give up."""
Progress = Callable[[int, int | None], None]
"""Called with the bytes there are and, where the server said so, the bytes there will be."""


def not_a_zip(head: bytes) -> str | None:
    """Why a file that starts so is no zip (nor a workbook, which is one); None if it may be."""
    if head.startswith(ZIP_MAGIC):
        return None
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not start:
        return "is empty"
    if start.startswith(b"<"):
        return "is a web page (HTML), not a zip archive"
    return f"is not a zip archive: it starts with {head[:8]!r}"


def check_zip(path: Path) -> None:
    """A check for `download`: the first bytes of a zip, and the CRC of every member."""
    with path.open("rb") as file:
        reason = not_a_zip(file.read(512))
    if reason:
        raise SourceError(f"what came {reason}")
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
    except DAMAGE as error:
        raise Damaged(f"the zip archive is damaged: {error}") from None
    if bad is not None:
        raise Damaged(f"the zip archive is damaged: the CRC of its member {bad} is wrong")


def download(
    url: str,
    target: Path,
    *,
    headers: Mapping[str, str] | None = None,
    check: Check = lambda path: None,
    hint: str = "",
    tries: int = 6,
    timeout: float = 60.0,
    backoff: float = 1.0,
    progress: Progress = lambda done, total: None,
) -> Download:
    """Get one file, going on with what an earlier call left.

    Parameters
    ----------
    target
        Where the file goes; one that is there is replaced, at the end and at once.
    check
        Told the whole file before it gets its name.
    hint
        What to do about a refusal; ends the message of one.
    tries
        How often the server is asked at the most.
    timeout
        Seconds without a byte after which a try is given up.
    backoff
        First wait between two tries, in seconds; it doubles, and `Retry-After` comes first.

    Raises
    ------
    SourceError
        If the server refuses, or the check says that this is another kind of file; no try is
        repeated and nothing is kept.
    SourceUnavailable
        If the tries were used up; what there is of the file is kept for the next call.
    StoreLocked
        If another process is downloading into that folder.
    StoreError
        If the folder cannot be written.
    """
    job = _Job(url, target, dict(headers or {}), check, hint, timeout, progress)
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_Passing),
        stop=tenacity.stop_after_attempt(tries),
        wait=lambda state: _wait(state, backoff),
        reraise=True,
    )
    with exclusive(target.parent, LOCK, "downloading into"):
        try:
            retrying(job.attempt)
            return job.finish()
        except _Passing as error:
            kept = job.size()
            reason = f"{url}: not whole after {tries} tries; the last: {error}"
        except OSError as error:
            raise StoreError(f"cannot write to {target.parent}: {error}") from error
    if kept:
        reason += f". {kept:,} bytes are kept; the same command goes on from there"
    raise SourceUnavailable(reason)


def _wait(state: tenacity.RetryCallState, backoff: float) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = getattr(error, "wait", None)
    if asked is not None:
        return min(float(asked), MAX_WAIT)
    grow = tenacity.wait_exponential(multiplier=backoff, max=MAX_WAIT)
    return float((grow + tenacity.wait_random(0, backoff))(state))


@dataclass
class _Job:
    url: str
    target: Path
    headers: dict[str, str]
    check: Check
    hint: str
    timeout: float
    progress: Progress
    requests: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    """Of the part on disk: url, etag, last_modified, total."""

    @property
    def part(self) -> Path:
        return self.target.with_name(f".{self.target.name}.part")

    @property
    def notes(self) -> Path:
        return self.part.with_suffix(".json")

    def size(self) -> int:
        """Bytes there are of the file."""
        return self.part.stat().st_size if self.part.exists() else 0

    def attempt(self) -> None:
        """One try: the whole file, or the rest of it; then its check."""
        offset = self._offset()
        if offset == 0 or offset != self.state["total"]:
            self._request(offset)
        self._judge()

    def _offset(self) -> int:
        """Where to go on; 0, and nothing kept, where that cannot be told."""
        try:
            self.state = json.loads(self.notes.read_bytes())
            size, total = self.size(), self.state["total"]
            same = self.state["url"] == self.url and self._validator() is not None
            if size and same and (total is None or size <= total):
                return size
        except (OSError, ValueError, KeyError, TypeError):
            pass  # none, or not whole
        self._discard()
        return 0

    def _validator(self) -> str | None:
        etag: str | None = self.state["etag"]
        # A weak ETag does not promise the same bytes.
        return etag if etag and not etag.startswith("W/") else self.state["last_modified"]

    def _discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)
        self.state = {}

    def _request(self, offset: int) -> None:
        headers = {**self.headers, "Accept-Encoding": "identity"}
        if offset:
            headers |= {"Range": f"bytes={offset}-", "If-Range": str(self._validator())}
        self.requests += 1
        try:
            with (
                httpx.Client(timeout=self.timeout, follow_redirects=True) as client,
                client.stream("GET", self.url, headers=headers) as response,
            ):
                self._accept(response, offset)
                self._write(response, offset if response.status_code == 206 else 0)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise SourceError(f"{self.url!r}: {error}") from None
        except httpx.HTTPError as error:
            raise _Passing(f"{type(error).__name__}: {error}") from error

    def _accept(self, response: httpx.Response, offset: int) -> None:
        """Take 200 and the right 206; anything else is a refusal or passes."""
        status = response.status_code
        if status == 206 and offset:
            found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
            total = self.state["total"]
            if found and int(found[1]) == offset and found[3] in ("*", str(total or found[3])):
                return
        if status in (206, 416):  # not what was asked for
            self._discard()
            raise _Passing(f"status {status}, a range that does not fit; starting over")
        if status in _PASSING_STATUS or status >= 500:
            raise _Passing(f"status {status}", retry_after(response))
        if status != 200:
            ending = f"; {self.hint}" if self.hint else ""
            raise SourceError(f"{self.url}: refused with status {status}{ending}")

    def _write(self, response: httpx.Response, offset: int) -> None:
        if offset == 0:
            length = response.headers.get("Content-Length", "")
            self.state = {
                "url": self.url,
                "etag": response.headers.get("ETag"),
                "last_modified": response.headers.get("Last-Modified"),
                "total": int(length) if length.isdigit() else None,
            }
            atomic_write(self.notes, json.dumps(self.state).encode())
        done = offset
        with self.part.open("ab" if offset else "wb") as file:
            for chunk in response.iter_raw():
                file.write(chunk)
                done += len(chunk)
                self.progress(done, self.state["total"])

    def _judge(self) -> None:
        """Whether what is there is the file."""
        size, total = self.size(), self.state["total"]
        if total is not None and size != total:
            if size > total:
                self._discard()
            raise _Passing(f"{size:,} of {total:,} bytes came")
        try:
            self.check(self.part)
        except Damaged as error:
            self._discard()
            raise _Passing(f"{error}; starting over") from error
        except SourceError as error:
            self._discard()
            ending = f"; {self.hint}" if self.hint else ""
            raise SourceError(f"{self.url}: {error}{ending}") from error

    def finish(self) -> Download:
        """Give the file its name, and record what it is."""
        digest = hashlib.sha256()
        with self.part.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
            os.fsync(file.fileno())
        done = Download(
            path=self.target,
            url=self.url,
            sha256=digest.hexdigest(),
            size=self.size(),
            retrieved_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            etag=self.state["etag"],
            last_modified=self.state["last_modified"],
            requests=self.requests,
        )
        os.replace(self.part, self.target)
        sync_folder(self.target.parent)
        record = {**asdict(done), "path": self.target.name}
        atomic_write(self.target.with_name(f"{self.target.name}.json"), json.dumps(record).encode())
        with contextlib.suppress(OSError):
            self.notes.unlink()
        return done
