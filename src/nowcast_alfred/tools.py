"""The shared tool server: five tools over the view of the calling rollout's day.

One server serves all rollouts of a worker. It holds no task. Each call brings the rollout's state,
signed by verifiers, and reads its as-of date from there; a call without one (stripped or default
state), or with one that no task can have, is refused, never answered with the latest data. The
version of the store is that of the task. Texts come from `served`, which sees the view and nothing
else, and which checks the arguments: pydantic would speak to the agent of its models. Whatever goes
wrong beside that is written to the server's log, and the agent is told no more than that it did.

Run as `python -m nowcast_alfred.tools`, which is what verifiers does.
"""

# Without `annotations` of __future__: verifiers hands them to MCP as they are, and MCP could not
# make out the names in a text.

import asyncio
import logging
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import verifiers.v1 as vf
from pydantic import ConfigDict, SkipValidation

from . import served
from .data import NowcastState
from .errors import QueryError
from .locate import opened, store_uri
from .logs import get_logger
from .opaque import agent_view
from .periods import to_days
from .store import AsOfView, VintageStore

REFUSED = "error: this call belongs to no rollout: it has no as-of date"
UNREADABLE = "error: the catalog cannot be read; that is no fault of this call"
AT_ONCE = 100
"""Calls worked on at one time, as many as verifiers' client for the state has connections. Those
beyond wait here: waiting there, every one costs time at every step, and gives up after a while."""
YEARS_WITHOUT_NEWS = 10
"""An as-of date so long after everything in the store is no task's. Not nearer: whether a call is
refused would then tell what comes after its date."""

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")

logger = get_logger(__name__)


class CatalogToolsetConfig(vf.SharedToolsetConfig):
    """Where the tool server runs and which store it reads."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    store: str | None = None
    """Where the store is; follows the taskset's `store`."""


class CatalogToolset(vf.Toolset[CatalogToolsetConfig, NowcastState]):
    """Point-in-time reads of the catalog."""

    TOOL_PREFIX = "catalog"

    def _answer(self, read: Callable[[AsOfView], str]) -> str:
        state = self.state
        # A fingerprint becomes the name of a file.
        if not state.as_of or not _FINGERPRINT.fullmatch(state.store):
            return REFUSED
        try:
            store = opened(store_uri(self.config.store), state.store)
            if not _can_be_asked(store, state.as_of):
                return REFUSED
            state.lookups += 1
            return served.bounded(read(agent_view(store.view(state.as_of), state.opaque)))
        except Exception:
            # Its text is for people: it may name places on this machine, or later versions.
            logger.exception("a call on %s of version %s failed", state.as_of, state.store)
            return UNREADABLE

    def register(self, mcp: Any) -> None:
        """Register the tools, behind a queue; what MCP itself refuses becomes one line too."""
        from mcp.server.mcpserver.exceptions import ToolError

        super().register(mcp)
        call, turn = mcp.call_tool, asyncio.Semaphore(AT_ONCE)

        async def told(*args: Any, **kwargs: Any) -> Any:
            try:
                async with turn:
                    return await call(*args, **kwargs)
            except ToolError as error:
                raise ToolError(_one_line(f"error: {error}")) from None

        mcp.call_tool = told

    @vf.tool
    async def observations(
        self,
        series_ids: SkipValidation[list[str] | str],
        units: SkipValidation[str] = "lin",
        start: SkipValidation[str | None] = None,
        end: SkipValidation[str | None] = None,
        last: SkipValidation[int] = 36,
    ) -> str:
        """Values as known on your as-of date, newest last, of one series or up to 12 at once.

        units: lin (level), chg (change), ch1 (change from a year ago), pch (percent change),
        pc1 (percent change from a year ago), pca (percent change at an annual rate).
        start, end: first and last period, YYYY-MM-DD (t, if dates are hidden). last: how many of
        the newest values (at most 240 in one answer, shared between the series).
        """
        return self._answer(
            lambda view: served.observations(view, series_ids, units, start, end, last)
        )

    @vf.tool
    async def search(
        self,
        text: SkipValidation[str] = "",
        limit: SkipValidation[int] = 20,
        skip: SkipValidation[int] = 0,
    ) -> str:
        """Find series by words of their id, title, category or release; no words lists all.

        limit: at most 40 an answer. skip: leave out that many, to page.
        """
        return self._answer(lambda view: served.search(view, text, limit, skip))

    @vf.tool
    async def series(self, series_id: SkipValidation[str]) -> str:
        """Describe one series: units, frequency, release, how far its values and vintages go."""
        return self._answer(lambda view: served.series(view, series_id))

    @vf.tool
    async def revisions(
        self, series_id: SkipValidation[str], period: SkipValidation[str | None] = None
    ) -> str:
        """How the level of one period was first published and then revised.

        period: first day of the period, YYYY-MM-DD (t, if dates are hidden); the newest one if
        left out.
        """
        return self._answer(lambda view: served.revisions(view, series_id, period))

    @vf.tool
    async def releases(self, series_id: SkipValidation[str], last: SkipValidation[int] = 12) -> str:
        """When past periods were first published, and the usual lag after the period's end."""
        return self._answer(lambda view: served.releases(view, series_id, last))


def _can_be_asked(store: VintageStore, as_of: str) -> bool:
    """Whether a task of this store can have that as-of date."""
    first, last = _span(store)
    try:
        return first <= to_days(as_of) <= last + YEARS_WITHOUT_NEWS * 366
    except QueryError:
        return False


@lru_cache(maxsize=8)  # as many as `opened` holds
def _span(store: VintageStore) -> tuple[int, int]:
    """The first and the last vintage date of a store."""
    changes = [store.changes(key) for key in store.series_ids]
    last = max(int(each.columns.vintage.max()) for each in changes)
    return min(each.first_vintage for each in changes), last


def _one_line(text: str, limit: int = 300) -> str:
    """The beginning of a text as one line that can be printed."""
    shown = " ".join(text[:limit].split())
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in shown)


if __name__ == "__main__":
    # Before MCP sets its own: lines for every call, and tracebacks drawn at 0.1 s each, whenever a
    # client hangs up.
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    CatalogToolset.run()
