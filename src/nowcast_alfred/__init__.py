"""Nowcasting as a verifiers taskset: forecast the first release of an economic series.

`NowcastTaskset` is what verifiers loads. It is resolved when asked for, because tool servers
import this package first and must not wait for anything they do not use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .taskset import NowcastTaskset

__all__ = ["NowcastTaskset"]


def __getattr__(name: str) -> Any:
    if name == "NowcastTaskset":
        from .taskset import NowcastTaskset

        return NowcastTaskset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
