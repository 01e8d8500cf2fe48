"""The shared tool server: five tools over the view of the calling rollout's day.

One server serves all rollouts of a worker. It holds no task. Each call brings the rollout's state,
signed by verifiers, and reads its as-of date from there; a call without one (stripped or default
state) is refused, never answered with the latest data. The version of the store is that of the
task. Texts come from `served`, which sees the view and nothing else.

Run as `python -m nowcast_alfred.tools`, which is what verifiers does.
"""

from __future__ import annotations

from collections.abc import Callable

import verifiers.v1 as vf
from pydantic import ConfigDict

from . import served
from .data import NowcastState
from .locate import opened, store_uri
from .opaque import agent_view
from .store import AsOfView

REFUSED = "error: this call belongs to no rollout: it has no as-of date"


class CatalogToolsetConfig(vf.SharedToolsetConfig):
    """Where the tool server runs and which store it reads."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    store: str | None = None
    """Where the store is; follows the taskset's `store`."""


class CatalogToolset(vf.Toolset[CatalogToolsetConfig, NowcastState]):
    """Point-in-time reads of the catalog."""

    TOOL_PREFIX = "catalog"

    def _answer(self, read: Callable[[AsOfView], str]) -> str:
        if not self.state.as_of or not self.state.store:
            return REFUSED
        self.state.lookups += 1
        store = opened(store_uri(self.config.store), self.state.store)
        return read(agent_view(store.view(self.state.as_of), self.state.opaque))

    @vf.tool
    async def observations(
        self,
        series_ids: list[str] | str,
        units: str = "lin",
        start: str | None = None,
        end: str | None = None,
        last: int = 36,
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
    async def search(self, text: str = "", limit: int = 20, skip: int = 0) -> str:
        """Find series by words of their id, title, category or release; no words lists all.

        limit: at most 40 an answer. skip: leave out that many, to page.
        """
        return self._answer(lambda view: served.search(view, text, limit, skip))

    @vf.tool
    async def series(self, series_id: str) -> str:
        """Describe one series: units, frequency, release, how far its values and vintages go."""
        return self._answer(lambda view: served.series(view, series_id))

    @vf.tool
    async def revisions(self, series_id: str, period: str | None = None) -> str:
        """How the level of one period was first published and then revised.

        period: first day of the period, YYYY-MM-DD (t, if dates are hidden); the newest one if
        left out.
        """
        return self._answer(lambda view: served.revisions(view, series_id, period))

    @vf.tool
    async def releases(self, series_id: str, last: int = 12) -> str:
        """When past periods were first published, and the usual lag after the period's end."""
        return self._answer(lambda view: served.releases(view, series_id, last))


if __name__ == "__main__":
    CatalogToolset.run()
