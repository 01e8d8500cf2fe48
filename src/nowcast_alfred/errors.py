"""The errors of the package, one small hierarchy.

A message says what is wrong, where (series, date, file, row) and what to do next, and lists the
valid choices where there are any. Texts of `QueryError` reach the agent: they name only what the
agent asked for and facts known on its as-of date.
"""

from __future__ import annotations


class NowcastError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(NowcastError, ValueError):
    """A setting cannot work: unknown name, empty task space, contradiction."""


class CatalogError(NowcastError, ValueError):
    """A catalog TOML is malformed or lacks metadata."""


class InputError(NowcastError, ValueError):
    """An input file is malformed; the message names file, row and column."""


class QueryError(NowcastError, ValueError):
    """A reader was asked for something it cannot give (unknown series, bad date or units)."""


class StoreError(NowcastError):
    """Base of the errors about a store."""


class StoreNotFound(StoreError):
    """There is no store, or no such version of it, at the given place."""


class StoreCorrupt(StoreError):
    """A file of the store is missing, truncated or altered; the message names it."""


class StoreLocked(StoreError):
    """Another process is writing to the store."""


class StoreMismatch(StoreError):
    """A task was drawn from another version of the store than the one at hand."""


class HistoryChanged(StoreError):
    """New data would alter a past view; the message names the rows."""


class SourceError(NowcastError):
    """A source on the network refused a request, or answered something that is not an answer."""


class SourceUnavailable(SourceError):
    """A source did not answer properly within the retries: limits, time-outs, broken bodies."""


class KeyRefused(SourceError):
    """The API key is missing, malformed or not registered."""


class SeriesUnknown(SourceError):
    """The source has no series of that id."""


class SeriesNotArchived(SourceError):
    """The series exists but has no vintages (or none in the window asked for)."""


class TooManyVintages(SourceError):
    """A request covers more vintages than the source gives in one answer."""


class PermissionMissing(NowcastError):
    """A source's terms need a permission that was not stated."""
