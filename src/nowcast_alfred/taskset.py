"""The taskset: settings in, an endless stream of lazy tasks out.

`load` opens the store and finds the task space; nothing before it does, because env workers build
the taskset and never iterate it. The stream never ends and never raises once it has begun: an
empty space is a `ConfigError` before the first task.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Self

import verifiers.v1 as vf
from pydantic import ConfigDict, Field, model_validator

from . import answers, prompts
from .baselines import BaselineName
from .catalog import load_catalog
from .data import NowcastData, NowcastTaskConfig
from .hooks import check_scoring
from .locate import drawn_from, store_uri
from .stream import Stream
from .targets import SpaceConfig
from .task import NowcastTask, make_data
from .tools import CatalogToolset, CatalogToolsetConfig


class NowcastConfig(vf.TasksetConfig, SpaceConfig):
    """The settings of `[env.taskset]`."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    store: str | None = None
    """Folder or URI (`s3://...`) of the vintage store. None: the environment variable
    `NOWCAST_ALFRED_STORE`, else the embedded synthetic store."""
    fingerprint: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    """Draw from this version of the store. None: the version in force when the stream begins. A
    run that may be resumed names it: prime-rl resumes by position, and once the store has been
    updated the same positions are other tasks. `nowcast-alfred store info --json` prints it."""
    catalog: str | None = None
    """A catalog TOML whose series are asked for, with its transforms and largest lags, instead
    of what the store's own metadata say."""
    baseline: BaselineName = "last_change"
    """The naive forecast that `beats_baseline` compares with. Changes no draw. `last_change` (the
    last known value of the target's transform), `last_value` (the level stays), means and medians
    of the last 3, 12 or all values, `ewma` (newest weighs 0.3), `seasonal_naive` (a year before),
    `ar_bic` (a guarded autoregression), `best_of` (whichever of them did best over the last 24
    first releases known)."""
    elicit: answers.Elicit = "point"
    """What a reply holds: `point` (a number), `interval` (a number and an 80 % interval),
    `quantiles` (p10, p25, p50, p75, p90). Some rewards need more than a point."""
    context: prompts.Context = "tools"
    """Where the agent finds the data: `tools` (the shared tool server), `files` (CSV files
    staged in its box, for agents that run code), `prompt` (tables in the prompt), `none` (the
    question alone, to probe what a model remembers)."""
    opaque: bool = False
    """Hide names, dates and sizes from the agent: other ids in each draw, periods counted from the
    as-of day, numbers shifted and rescaled; the reply is mapped back before it is scored. Changes
    no draw and no reward."""
    closed_egress: bool = True
    """Ask the runtime for no network beyond the model and the tools. The subprocess runtime
    cannot enforce this and refuses such tasks."""
    tools: CatalogToolsetConfig = Field(default_factory=CatalogToolsetConfig)
    """Where the shared tool server runs."""
    task: NowcastTaskConfig = Field(default_factory=NowcastTaskConfig)
    """Rewards, metrics and stops to plug in or re-weight."""

    @model_validator(mode="after")
    def _hand_down(self) -> Self:
        """Env workers and tool servers see only their own block: repeat there what they need."""
        shared = {"store": self.store, "context": self.context, "elicit": self.elicit}
        self.task = self.task.model_copy(update=shared)
        self.tools = self.tools.model_copy(update={"store": self.store})
        return self


class NowcastTaskset(vf.Taskset[NowcastTask, NowcastConfig]):  # type: ignore[type-var]
    """Nowcasting first releases, drawn forever from a vintage store."""

    INFINITE = True

    def __init__(self, config: NowcastConfig) -> None:
        super().__init__(config)
        # A wrong plug-in would fail in every rollout, with status 0; here it fails once.
        check_scoring(config.task)

    def load(self) -> Iterator[NowcastTask]:
        """Every draw of the stream, from the first.

        Raises
        ------
        ConfigError
            If no target is left under the settings; the message says which filter took the last.
        """
        stream = self.stream()
        data_of, task_config = self.builder(stream), self.config.task

        def task(n: int) -> NowcastTask:
            return NowcastTask.lazy(lambda: data_of(n), task_config)

        return map(task, itertools.count())

    def stream(self) -> Stream:
        """The stream of draws under this configuration."""
        config = self.config
        catalog = load_catalog(config.catalog) if config.catalog else None
        store = drawn_from(store_uri(config.store), config.fingerprint)
        return Stream(store, config, catalog)

    def builder(self, stream: Stream) -> Callable[[int], NowcastData]:
        """What builds the data of a draw: a closure, so that deep copies of a task share it."""
        config, store, series = self.config, stream.space.store, stream.space.series

        def data_of(n: int) -> NowcastData:
            draw = stream.draw(n)
            return make_data(
                store,
                draw,
                series[draw.series_id].role.transform,
                stream=stream.name,
                baseline=config.baseline,
                scale=config.scale,
                context=config.context,
                elicit=config.elicit,
                opaque=config.opaque,
                closed_egress=config.closed_egress,
            )

        return data_of

    @classmethod
    def toolsets(cls, config: NowcastConfig) -> list[vf.Toolset[Any, Any]]:
        """One tool server for all rollouts of a worker, where the agent reads through tools."""
        if config.context != "tools":
            return []
        # Absolute, since the server runs in a working directory of its own.
        place = {"store": store_uri(config.store)} if config.tools.url is None else {}
        return [CatalogToolset(config.tools.model_copy(update=place))]
