"""What `store build` and `store import` do for sources other than ALFRED's API."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path

from .catalog import Catalog, load_catalog
from .cli_output import err
from .errors import ConfigError, InputError, SourceError
from .sources import bls, rtdsm, rtdsm_fetch, wide
from .sources.files import read_long
from .store import SeriesInput, publish
from .store.manifest import Manifest

DOWNLOADS = ".downloads"
"""Folder inside a store for the files a source gave."""

FORMATS: dict[str, Callable[[Path, Catalog, str | None], list[SeriesInput]]] = {
    "long": lambda path, catalog, rights: with_rights(
        [SeriesInput(meta, rows) for meta, rows in read_long(path, catalog)], rights
    ),
    "alfred-wide": wide.read_alfred_wide,
    "fred-md": wide.read_fred_md,
}


def import_files(
    folder: Path,
    paths: Iterable[Path],
    catalog: Path,
    format: str,
    rights: str | None,
    accept_history: bool,
) -> Manifest:
    """Read files of one format and publish them together.

    Raises
    ------
    ConfigError
        If there is no such format.
    InputError
        If a row is bad; nothing is written.
    """
    if format not in FORMATS:
        raise ConfigError(f"unknown format {format!r}; one of: {', '.join(FORMATS)}")
    entries = load_catalog(catalog)
    inputs = [item for path in paths for item in FORMATS[format](path, entries, rights)]
    return publish(folder, inputs, accept_history)


def with_rights(inputs: list[SeriesInput], rights: str | None) -> list[SeriesInput]:
    """The same series under other rights to train, where some are stated."""
    if rights is None:
        return inputs
    return [
        dataclasses.replace(
            item, meta=[dataclasses.replace(row, training=rights) for row in item.meta]
        )
        for item in inputs
    ]


def build_bls(
    folder: Path,
    catalog: Path,
    contact: str | None,
    file: Path | None,
    calendar: Path | None,
    unadjusted: bool,
    accept_history: bool,
) -> Manifest:
    """BLS' archive of payroll vintages, downloaded or from a copy on disk, into a store."""
    entries = load_catalog(catalog)
    if file is None:
        file = bls.fetch_archive(contact or "", folder / DOWNLOADS).path
    summary = bls.Summary()
    inputs = bls.read_archive(
        file, entries, unadjusted=unadjusted, calendar=calendar, summary=summary
    )
    manifest = publish(folder, inputs, accept_history)
    for member, reason in sorted(summary.left_out.items()):
        err.print(f"left out: {member}: {reason}", soft_wrap=True)
    if summary.absent:
        err.print(f"not in the archive: {', '.join(summary.absent)}", soft_wrap=True)
    return manifest


def build_rtdsm(
    folder: Path, catalog: Path, contact: str | None, file: Path | None, accept_history: bool
) -> Manifest:
    """The Philadelphia Fed's workbooks, downloaded or from a folder, into a store.

    Raises
    ------
    SourceError
        If a workbook of the catalog is missing; nothing is written.
    """
    entries = load_catalog(catalog)
    if file is None:
        if not contact:
            raise ConfigError(
                "the Philadelphia Fed's site is asked under your name: give an e-mail or web "
                "address (--contact), or a folder with copies of the workbooks (--file)"
            )
        file = folder / DOWNLOADS
        rtdsm_fetch.fetch_workbooks(entries, contact or "", file)
    inputs = rtdsm.read_workbooks(file, entries)
    if not inputs:
        raise InputError(f"{file} has no workbook of a series in {catalog}")
    missing = sorted(set(rtdsm.workbooks(entries)) - {item.id for item in inputs})
    if missing and contact is not None:
        raise SourceError(f"no workbook was found for {', '.join(missing)}")
    if missing:
        err.print(f"no workbook in {file} for: {', '.join(missing)}", soft_wrap=True)
    return publish(folder, inputs, accept_history)
