"""The vintage store: immutable Parquet, one manifest, one read path.

`open_store` reads, `publish` writes, `verify_store` re-hashes. Everything else here is theirs.
"""

from .reader import AsOfView, Observations, Outcome, VintageStore, open_store
from .schema import VINTAGE_SCHEMA, SeriesMeta
from .verify import verify_store
from .writer import SeriesInput, publish

__all__ = [
    "VINTAGE_SCHEMA",
    "AsOfView",
    "Observations",
    "Outcome",
    "SeriesInput",
    "SeriesMeta",
    "VintageStore",
    "open_store",
    "publish",
    "verify_store",
]
