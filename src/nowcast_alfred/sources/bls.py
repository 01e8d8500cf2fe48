"""US payrolls with every publication since May 2003, from BLS' archive of CES vintages.

`fetch_archive` gets the zip, `read_archive` reads it. It holds one CSV an industry and adjustment,
`tri_CCCCCC_SA.csv` or `_NSA.csv`. A row is a publication, labelled with the reference month that it
publishes first; its cells are the whole history as it stood then, and an empty cell is not in that
vintage. So a column read downwards is what one month was ever said to be, and only where it differs
from the row above is there a change point; a value that is there no more is withdrawn. A row
without any value is no publication of that series and changes nothing.

Nothing is given out unless all of it is right.
"""

from __future__ import annotations

import datetime as dt
import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa

from ..catalog import Catalog, metas
from ..errors import CatalogError, ConfigError, InputError
from ..periods import Units
from ..store import SeriesInput, SeriesMeta
from .bls_calendar import month_text, publication_days, read_calendar
from .bls_triangle import Member, read_triangle
from .download import DAMAGE, Download, Progress, check_zip, download, not_a_zip
from .matrix import change_points

URL = "https://www.bls.gov/web/empsit/cesvinall.zip"
SOURCE = "BLS"
LICENCE = "Public domain (work of the US government)"
ATTRIBUTION = "Source: U.S. Bureau of Labor Statistics"
TRAINING = "granted"
UNADJUSTED = "Not Seasonally Adjusted"
YEARLY: dict[Units, Units] = {"chg": "ch1", "pch": "pc1", "pca": "pc1"}
"""The transform of an unadjusted series, by its adjusted one's: over a year, since most of a change
over a month is season."""

_MEMBER = re.compile(r"tri_(\d{6})_(SA|NSA)\.csv", re.IGNORECASE)
_ID = re.compile(r"CE[SU](\d{6})0001")
_LARGEST_MEMBER = 200_000_000


@dataclass
class Summary:
    """What a reading of the archive took and what it did not."""

    series: int = 0
    publications: int = 0
    """The most that a series has."""
    first: str = ""
    last: str = ""
    """Reference months of the earliest and the latest publication."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Member -> why it was not read."""
    absent: list[str] = field(default_factory=list)
    """Series of the catalog that the archive has no member of."""


def fetch_archive(
    contact: str | None,
    folder: str | Path,
    *,
    url: str = URL,
    tries: int = 6,
    timeout: float = 60.0,
    backoff: float = 1.0,
    progress: Progress = lambda done, total: None,
) -> Download:
    """Download the archive into a folder; resumes where it broke, also in a later call.

    Parameters
    ----------
    contact
        An e-mail address or a URL by which BLS can reach whoever runs this; goes into User-Agent.

    Raises
    ------
    ConfigError
        If there is no contact; nothing is asked for.
    SourceError
        If BLS refuses, or answers with something else than a zip archive.
    SourceUnavailable
        If the archive is not whole after that many tries; what there is of it is kept.
    """
    who = (contact or "").strip()
    if not who or not who.isascii() or not who.isprintable():
        raise ConfigError(
            "BLS asks automated clients for a contact and refuses those without: give an e-mail "
            "address or a URL (--contact), in ASCII, or a copy of the archive (--file)"
        )
    return download(
        url,
        Path(folder) / "cesvinall.zip",
        headers={"User-Agent": f"nowcast-alfred/{version('nowcast-alfred')} ({who})"},
        check=check_zip,
        hint=f"BLS lets some networks and clients in by browser only: open {url} in one, save "
        "the archive, and give it with --file",
        tries=tries,
        timeout=timeout,
        backoff=backoff,
        progress=progress,
    )


def read_archive(
    source: str | Path | bytes,
    catalog: Catalog,
    *,
    adjusted: bool = True,
    unadjusted: bool = False,
    calendar: str | Path | None = None,
    summary: Summary | None = None,
    progress: Callable[[str], None] = lambda series_id: None,
) -> list[SeriesInput]:
    """The series of a catalog with all their vintages, sorted by id.

    Parameters
    ----------
    source
        The zip archive, as a file or as its bytes.
    catalog
        Series `CES` + code + `0001` with full metadata. An unadjusted series `CEU...` that it does
        not have is derived from the adjusted one's entry (see `YEARLY`). What it does not say of
        the rights is BLS'.
    adjusted, unadjusted
        Which series to read.
    calendar
        A CSV of release days (`bls_calendar.read_calendar`); rows it does not list are bracketed.
    summary
        Filled in.
    progress
        Called with each series id when it was read.

    Raises
    ------
    InputError
        If the archive, a member or the calendar is malformed.
    CatalogError
        If the catalog has no such series, or one without full metadata.
    """
    report = Summary() if summary is None else summary
    wanted = _wanted(catalog, adjusted, unadjusted)
    days = {} if calendar is None else read_calendar(calendar)
    where = "the archive" if isinstance(source, bytes) else str(source)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    found = []
    with _opened(source, where) as archive:
        members = _members(archive, where, report)
        for series_id, info in sorted(members.items()):
            if series_id not in wanted:
                if (adjusted, unadjusted)[series_id.startswith("CEU")]:
                    report.left_out[info.filename] = f"{series_id} is not in the catalog"
                continue
            member = Member(where, info.filename)
            table = _read(member, _content(member, archive, info), days, report)
            if table is None:
                report.left_out[info.filename] = "has no values"
                continue
            found.append(SeriesInput([wanted[series_id]], table, retrieved_at=now, complete=True))
            progress(series_id)
    others = {id for id in catalog.series if not _ID.fullmatch(id)}
    report.absent = sorted((wanted.keys() | others) - members.keys())
    report.series = len(found)
    if not found:
        raise InputError(
            f"{where}: has no member of a series of {catalog.path or catalog.name}; members are "
            "named tri_000000_SA.csv, and the archive is cesvinall.zip"
        )
    return found


def _wanted(catalog: Catalog, adjusted: bool, unadjusted: bool) -> dict[str, SeriesMeta]:
    """Metadata of the series to read, by id."""
    if not adjusted and not unadjusted:
        raise ConfigError("neither adjusted nor unadjusted series are asked for")
    known = {meta.id: meta for meta in metas(catalog, filter(_ID.fullmatch, catalog.series))}
    for id, meta in list(known.items()):
        twin = f"CEU{id[3:]}"
        if twin not in known:
            transform = YEARLY.get(meta.transform, meta.transform)
            known[twin] = replace(
                meta, id=twin, seasonal_adjustment=UNADJUSTED, transform=transform
            )
    if not known:
        raise CatalogError(
            f"{catalog.path or catalog.name}: has no series of BLS' payroll vintages, such as "
            "CES0000000001; use catalogs/us-payrolls.toml"
        )
    return {
        id: replace(
            meta,
            source=SOURCE,
            licence=meta.licence or LICENCE,
            attribution=meta.attribution or ATTRIBUTION,
            training=TRAINING if meta.training == "unknown" else meta.training,
        )
        for id, meta in known.items()
        if (adjusted, unadjusted)[id.startswith("CEU")]
    }


def _opened(source: str | Path | bytes, where: str) -> zipfile.ZipFile:
    """The archive, once its first bytes are those of a zip."""
    try:
        if isinstance(source, bytes):
            head = source[:512]
        else:
            with open(source, "rb") as file:
                head = file.read(512)
        if reason := not_a_zip(head):
            raise InputError(f"{where}: {reason}; get {URL} again")
        return zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source)
    except OSError as error:
        raise InputError(f"{where}: cannot be read: {error.strerror}") from error
    except zipfile.BadZipFile as error:
        raise InputError(f"{where}: is a damaged zip archive: {error}; get {URL} again") from None


def _content(member: Member, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A member's bytes, whose CRC is right."""
    if info.file_size > _LARGEST_MEMBER:
        raise member.error(f"is {info.file_size:,} bytes long, too long for a member")
    try:
        return archive.read(info)
    except DAMAGE as error:
        raise member.error(f"is damaged: {error}; get {URL} again") from None


def _members(archive: zipfile.ZipFile, where: str, report: Summary) -> dict[str, zipfile.ZipInfo]:
    """The members with vintages, by series id; the others are reported."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.rsplit("/", 1)[-1]
        matched = _MEMBER.fullmatch(name)
        if matched is None:
            if name and not name.startswith("."):  # a folder, or a system's own file
                report.left_out[info.filename] = "is not named tri_CCCCCC_SA.csv or _NSA.csv"
            continue
        prefix = "CES" if matched[2].upper() == "SA" else "CEU"
        series_id = f"{prefix}{matched[1]}0001"
        if series_id in members:
            earlier = members[series_id].filename
            raise InputError(f"{where}, {info.filename}: {series_id} is in {earlier} already")
        members[series_id] = info
    return members


def _read(member: Member, data: bytes, days: dict[int, int], report: Summary) -> pa.Table | None:
    """The change points of a member; None if it has no value at all."""
    triangle = read_triangle(member, data)
    filled = ~np.isnan(triangle.value).all(axis=0)
    if not filled.any():
        return None
    labels, value = triangle.labels[filled].tolist(), triangle.value[:, filled]
    report.publications = max(report.publications, len(labels))
    first, last = month_text(labels[0]), month_text(labels[-1])
    report.first, report.last = min(report.first or first, first), max(report.last, last)
    vintage, lower = publication_days(labels, days)
    # Of publications that share a release, the later one has the last word on each cell.
    for at in np.flatnonzero(vintage[1:] == vintage[:-1]) + 1:
        value[:, at] = np.where(np.isnan(value[:, at]), value[:, at - 1], value[:, at])
    releases = np.append(vintage[1:] != vintage[:-1], True)
    periods = triangle.periods.astype("datetime64[M]").astype("datetime64[D]").astype(np.int32)
    where = f"{member.archive}, {member.name}"
    return change_points(periods, vintage[releases], lower[releases], value[:, releases], where)
