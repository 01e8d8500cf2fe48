"""Catalogs: TOML files that say which series there are and how each becomes a target.

A catalog is read into plain entries, one per series. An entry may lack metadata (title,
frequency, ...): the FRED source fills that in from the API, while `metas`, which file imports use,
insists on it. `[defaults]` holds what many series share; a series' own keys win. Everything wrong
is a `CatalogError` that names file, series and key, because a catalog is written by hand and a
silently ignored misspelling would change which targets exist.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .errors import CatalogError, InputError
from .periods import Frequency, Units
from .store.schema import SeriesMeta

METADATA = ("title", "frequency", "units", "seasonal_adjustment", "release")
"""What an entry may leave to the API, and what a file import needs."""

_REQUIRED = ("id", "transform", "max_lag_days")
_RANGES = {"max_lag_days": (-366, 3660), "decimals": (0, 12)}
_TOP_LEVEL = ("name", "defaults", "series")


@dataclass(frozen=True)
class CatalogEntry:
    """One series of a catalog; metadata the catalog does not state is None."""

    id: str
    transform: Units
    max_lag_days: int
    role: str = "target"
    category: str = ""
    title: str | None = None
    frequency: Frequency | None = None
    units: str | None = None
    seasonal_adjustment: str | None = None
    release: str | None = None
    decimals: int = 2
    copyright: str = ""
    source: str = ""
    licence: str = ""
    attribution: str = ""
    training: str = "unknown"

    def missing(self) -> list[str]:
        """The metadata keys that are absent or blank."""
        return [key for key in METADATA if not getattr(self, key)]


_FIELDS = tuple(field.name for field in fields(CatalogEntry))
_KEYS = (*_FIELDS, "notes")


@dataclass(frozen=True)
class Catalog:
    """A named set of series, by id, in the order of the file at `path`."""

    name: str
    series: dict[str, CatalogEntry]
    path: str = ""


def load_catalog(path: str | Path) -> Catalog:
    """Read a catalog.

    Parameters
    ----------
    path
        A TOML file with `name`, `[[series]]` tables and optionally `[defaults]`. A series needs
        `id`, `transform` and `max_lag_days`; `notes` is for people and is not read.

    Raises
    ------
    CatalogError
        If the file cannot be read, is no TOML, has no series, repeats one, or a key is unknown,
        missing or of the wrong type.
    """
    where = str(path)
    raw = _read_toml(where)
    _check_keys(raw, _TOP_LEVEL, where)
    name = raw.get("name")
    if not isinstance(name, str) or not name.strip():
        raise CatalogError(f'{where}: needs a name at the top, such as name = "us-core"')
    defaults = _table(raw.get("defaults", {}), f"{where}: defaults")
    allowed = tuple(key for key in _KEYS if key != "id")
    _check_keys(defaults, allowed, f"{where}: defaults")
    for key, value in defaults.items():
        _check_type(key, value, f"{where}: defaults")
    rows = raw.get("series", [])
    if not isinstance(rows, list):
        raise CatalogError(f"{where}: series must be written as [[series]], one table per series")
    if not rows:
        raise CatalogError(f"{where}: the catalog is empty; add [[series]] tables")
    series: dict[str, CatalogEntry] = {}
    for number, row in enumerate(rows, start=1):
        entry = _entry(defaults, row, where, number)
        if entry.id in series:
            first = list(series).index(entry.id) + 1
            raise CatalogError(
                f"{where}: series {entry.id}: duplicate id, in [[series]] {first} and {number}"
            )
        series[entry.id] = entry
    return Catalog(name=name, series=series, path=where)


def metas(catalog: Catalog, ids: Iterable[str] | None = None) -> list[SeriesMeta]:
    """The full metadata of some series, in the order asked for.

    Parameters
    ----------
    catalog
        A catalog that `load_catalog` read.
    ids
        Which series; all of the catalog if None.

    Raises
    ------
    CatalogError
        If a series is not in the catalog, or lacks metadata; every lacking series is named.
    """
    wanted = list(catalog.series if ids is None else ids)
    where = catalog.path or f"catalog {catalog.name}"
    unknown = [id for id in wanted if id not in catalog.series]
    if unknown:
        raise CatalogError(f"{where}: no series {', '.join(unknown[:5])}")
    entries = [catalog.series[id] for id in wanted]
    lacking = [f"series {e.id}: missing {', '.join(e.missing())}" for e in entries if e.missing()]
    if lacking:
        more = f"; and {len(lacking) - 5} more series" if len(lacking) > 5 else ""
        raise CatalogError(f"{where}: this use needs full metadata: {'; '.join(lacking[:5])}{more}")
    return [SeriesMeta(**_values(entry)) for entry in entries]


def _read_toml(where: str) -> dict[str, Any]:
    try:
        with open(where, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise CatalogError(f"{where}: there is no such catalog file") from None
    except OSError as error:
        raise CatalogError(f"{where}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise CatalogError(f"{where}: is not TOML: not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise CatalogError(f"{where}: is not TOML: {error}") from None


def _entry(defaults: dict[str, Any], row: object, where: str, number: int) -> CatalogEntry:
    own = _table(row, f"{where}: [[series]] {number}")
    id = own.get("id")
    # An id that is missing or no text cannot name the series, so its position does.
    place = (
        f"{where}: series {id}" if isinstance(id, str) and id else f"{where}: [[series]] {number}"
    )
    _check_keys(own, _KEYS, place)
    for key, value in own.items():
        _check_type(key, value, place)
    merged = {key: value for key, value in {**defaults, **own}.items() if key != "notes"}
    for key in _REQUIRED:
        if merged.get(key) in (None, ""):
            raise CatalogError(f"{place}: missing key {key}")
    entry = CatalogEntry(**merged)
    try:  # the same checks as at the store's door, with stand-ins for what is not stated yet
        stand_ins = {key: "m" if key == "frequency" else "?" for key in entry.missing()}
        SeriesMeta(**{**_values(entry), **stand_ins})
    except InputError as error:
        raise CatalogError(f"{where}: {error}") from None
    return entry


def _values(entry: CatalogEntry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in _FIELDS}


def _table(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CatalogError(f"{place}: must be a table of keys, not {_type_name(value)}")
    return value


def _check_keys(table: dict[str, Any], allowed: tuple[str, ...], place: str) -> None:
    unknown = [key for key in table if key not in allowed]
    if unknown:
        raise CatalogError(
            f"{place}: unknown key {', '.join(unknown)}; valid keys: {', '.join(allowed)}"
        )


def _check_type(key: str, value: object, place: str) -> None:
    if key not in _RANGES:
        if not isinstance(value, str):
            raise CatalogError(f"{place}: {key} must be text, not {_type_name(value)}")
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise CatalogError(f"{place}: {key} must be a whole number, not {_type_name(value)}")
    low, high = _RANGES[key]
    if not low <= value <= high:
        raise CatalogError(f"{place}: {key} is {value}; it must be from {low} to {high}")


def _type_name(value: object) -> str:
    names = {bool: "true/false", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "a table" if isinstance(value, dict) else type(value).__name__)
