"""The manifest: the one file whose replacement commits a version of the store.

It names every file with its SHA-256, so that a reader can tell a damaged file before using it, and
carries a checksum over itself. The fingerprint covers content only (rows and metadata), so the
same data read twice, on two days or with two versions of pyarrow, is the same store.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import StoreCorrupt, StoreError, StoreMismatch
from .files import Files

FORMAT = 1
MANIFEST = "manifest.json"
VERSIONS = "manifests"


@dataclass(frozen=True)
class SeriesEntry:
    """One series of one version: where its rows are and what they must hash to."""

    file: str
    sha256: str
    content: str
    rows: int
    first_vintage: str
    last_vintage: str
    source: str
    retrieved_at: str | None = None


@dataclass(frozen=True)
class Manifest:
    """A version of the store."""

    fingerprint: str
    meta_file: str
    meta_sha256: str
    meta_content: str
    series: dict[str, SeriesEntry]
    accepted: list[dict[str, str]] = field(default_factory=list)
    """Changes of history that were accepted: the fingerprints before and after, and the series."""
    previous: str | None = None
    """Fingerprint of the version that this one replaced."""
    format: int = FORMAT

    def to_json(self) -> str:
        """The manifest as text, with a checksum over everything else in it."""
        body = asdict(self)
        body["checksum"] = _checksum(body)
        return json.dumps(body, indent=1, sort_keys=True) + "\n"


def _checksum(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(contents: dict[str, str], meta_content: str) -> str:
    """The store's content hash from its series' content hashes and its metadata's."""
    text = json.dumps([FORMAT, meta_content, sorted(contents.items())])
    return hashlib.sha256(text.encode()).hexdigest()


def full_fingerprint(files: Files, start: str) -> str:
    """The fingerprint of the one version of a store whose fingerprint starts so.

    Raises
    ------
    StoreMismatch
        If there is none, or more than one.
    """
    marks = [name.removesuffix(".json") for name in files.names(VERSIONS)]
    found = [mark for mark in marks if mark.startswith(start)]
    if len(found) != 1:
        shown = ", ".join(mark[:12] for mark in marks) or "none"
        raise StoreMismatch(
            f"{files.shown}: {len(found)} versions start with {start[:64]!r}; it has {shown}"
        )
    return found[0]


def parse_manifest(data: bytes, where: str) -> Manifest:
    """Read a manifest and check it against its own checksum.

    Raises
    ------
    StoreCorrupt
        If it is not a whole, unaltered manifest.
    StoreError
        If a newer version of this package wrote it.
    """
    try:
        body = json.loads(data)
        found = body.pop("checksum")
        if found != _checksum(body):
            raise StoreCorrupt(f"{where}: its checksum does not match; restore it from a copy")
        if int(body["format"]) > FORMAT:
            raise StoreError(
                f"{where} has format {body['format']}, this package reads up to {FORMAT}: "
                "upgrade nowcast-alfred"
            )
        if not re.fullmatch("[0-9a-f]{64}", body["fingerprint"]):  # it becomes the name of a file
            raise StoreCorrupt(f"{where}: its fingerprint is none; restore it from a copy")
        series = {key: SeriesEntry(**entry) for key, entry in body.pop("series").items()}
        return Manifest(series=series, **body)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreCorrupt(f"{where} is not a manifest ({error}); restore it from a copy") from None
