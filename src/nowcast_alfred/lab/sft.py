"""Warm-start data for prime-rl's SFT: conversations about training draws, in its columns.

A row is what a rollout through the tools would have been: the messages the harness would send, the
tools' own answers of that day, and a reply by `sft_dialogue`. Each reply is then scored by the real
rewards, and that is the reward the row states. The method is chosen before the outcome is known, so
by default every row is kept: to keep only what was rewarded would keep lucky forecasts, whose
stated reasons do not explain them, and teach more confidence than the data give.

Draws come in the order of the stream; one that repeats a target and a day is passed over. The split
is held twice: by the draw itself, and by the release day and the list of evaluation targets. Same
settings, same store, same versions: same bytes.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import MCPServer

from ..catalog import load_catalog
from ..data import NowcastData, NowcastState, NowcastTrace
from ..errors import ConfigError, NowcastError
from ..periods import to_days
from ..rewards import INFO
from ..store import VintageStore
from ..targets import build_space
from ..task import NowcastTask, is_closed
from ..taskset import NowcastConfig, NowcastTaskset
from ..tools import CatalogToolset
from .direct import trace_of
from .sft_dialogue import Message, converse
from .sft_rows import Export, Row, describe, listed, row_of

NETWORK_NOTICE = "External network access is disabled."
"""What verifiers adds to the system prompt where a task closes egress; a test holds it there."""
PATIENCE = 2000
"""Draws in a row that give no row, before the task space counts as used up."""
NO_BOX: Any = None
"""Tasks with tools touch no runtime, in `setup` and in `finalize`."""


def require_training(config: NowcastConfig) -> None:
    """Refuse settings that do not describe training through the tools."""
    if config.split != "train":
        raise ConfigError(
            f'split = "{config.split}": warm-start data come from training draws only; '
            'set split = "train", with the eval_from of the run'
        )
    if config.context != "tools":
        raise ConfigError(
            f'context = "{config.context}": warm-start conversations call the catalog tools; '
            'set context = "tools"'
        )


class Split:
    """Whether a target may be trained on."""

    def __init__(self, config: NowcastConfig, store: VintageStore) -> None:
        self.store, self.eval_from = store, config.eval_from
        self.holdout = frozenset(config.holdout_series)
        self._targets: dict[str, set[int]] = {}
        if config.eval_from is not None or config.holdout_series:
            catalog = load_catalog(config.catalog) if config.catalog else None
            try:
                evaluated = build_space(store, config.model_copy(update={"split": "eval"}), catalog)
            except ConfigError:  # an evaluation period with no target in it
                return
            for key, targets in evaluated.series.items():
                self._targets[key] = set(targets.period.tolist())

    def fault(self, data: NowcastData, released: str) -> str | None:
        """Why a target may not be trained on; None if it may."""
        if data.series_id in self.holdout:
            return f"{data.series_id} is in holdout_series"
        if self.eval_from is not None and dt.date.fromisoformat(released) >= self.eval_from:
            return f"it was released on {released}, and eval_from is {self.eval_from}"
        if to_days(data.reference_period) in self._targets.get(data.series_id, ()):
            return "it is a target of the evaluation split"
        return None

    def beside(self, series_id: str) -> Callable[[str], bool]:
        """Which other series' values may stand in a row of this target: of the same rights, and
        not held out."""
        rights = self.store.meta(series_id).training
        return lambda key: key not in self.holdout and self.store.meta(key).training == rights


class Desk(CatalogToolset):
    """The tools without a server: the state is that of the rollout at hand."""

    held = NowcastState()

    @property
    def state(self) -> NowcastState:
        """The rollout's state."""
        return self.held

    async def ask(self, name: str, arguments: dict[str, Any]) -> str:
        """The answer to a call, by the name that an agent uses."""
        tool = getattr(self, name.removeprefix(f"{self.server_name}_"))
        return str(await tool(**arguments))

    async def definitions(self) -> list[dict[str, Any]]:
        """The tools as an agent is shown them, in OpenAI's form."""
        server = MCPServer(self.server_name)
        self.register(server)
        return [
            tool_definition(
                f"{self.server_name}_{tool.name}", tool.description or "", tool.input_schema
            )
            for tool in await server.list_tools()
        ]


def tool_definition(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """A tool in OpenAI's form, which chat templates expect."""
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def generate(
    taskset: NowcastTaskset,
    count: int,
    start: int = 0,
    min_reward: float | None = None,
    on_row: Callable[[], object] = lambda: None,
) -> Export:
    """Conversations of a taskset's training draws.

    Parameters
    ----------
    count
        How many rows, at least one.
    start
        The first position of the stream.
    min_reward
        Keep only rows whose reward is at least this; biased toward luck, so None by default.
    on_row
        Called after each row, to show progress.

    Raises
    ------
    ConfigError
        If the settings are not those of training through the tools, or the stream has too few
        distinct tasks.
    """
    require_training(taskset.config)
    if count < 1 or start < 0:
        raise ConfigError(f"-n {count} --start {start}: at least one row, from position 0 on")
    return asyncio.run(_generate(taskset, count, start, min_reward, on_row))


async def _generate(
    taskset: NowcastTaskset,
    count: int,
    start: int,
    min_reward: float | None,
    on_row: Callable[[], object],
) -> Export:
    stream, desk = taskset.stream(), Desk(taskset.config.tools)
    split = Split(taskset.config, stream.space.store)
    tools = json.dumps(await desk.definitions())
    rows: list[Row] = []
    passed: Counter[str] = Counter()
    seen: set[str | None] = set()
    idle = 0
    for task in itertools.islice(iter(taskset), start, None):
        row, why = None, "repeated"
        if task.data.id not in seen:
            seen.add(task.data.id)
            row, why = await _row(task, desk, split, tools), "too few values"
        if row is not None and min_reward is not None and row["reward"] < min_reward:
            row, why = None, "below min_reward"
        if row is None:
            passed[why] += 1
            idle += 1
        else:
            rows.append(row)
            idle = 0
            on_row()
        if len(rows) == count:
            break
        if idle == PATIENCE:
            raise ConfigError(
                f"{len(rows)} of {count} rows: the last {PATIENCE} draws gave none (passed over: "
                f"{listed(passed)}); ask for fewer, or widen the task space"
            )
    place = {"start": start, "next": start + len(rows) + passed.total()}
    return Export(rows, {"from": "stream", **place, **describe(rows, passed, taskset, stream)})


async def _row(task: NowcastTask, desk: Desk, split: Split, tools: str) -> Row | None:
    """The conversation of one task, scored; None where too few values are served."""
    data, trace = task.data, trace_of(task)
    await task.setup(trace, NO_BOX)
    desk.held = trace.state
    readable = None if data.opaque else split.beside(data.series_id)
    dialogue = await converse(str(data.prompt), task.config.elicit, desk.ask, task.key, readable)
    if dialogue is None:
        return None
    await replay(task, trace, dialogue.reply)
    if fault := split.fault(data, trace.info[INFO]["first_vintage"]):
        raise NowcastError(f"{task.key} is no training task: {fault}")
    return row_of(task, trace, [*opening(data), *dialogue.messages], tools, dialogue.method)


async def replay(task: NowcastTask, trace: NowcastTrace, reply: str) -> None:
    """Parse and score a reply as a rollout that ended in it.

    Raises
    ------
    NowcastError
        If the reply is malformed.
    """
    trace.root_reply = reply
    await task.finalize(trace, NO_BOX)
    await task.score(trace)  # type: ignore[arg-type]  # our trace, with our state
    if reason := trace.info[INFO]["reason"]:
        raise NowcastError(f"{task.key}: the reply is malformed ({reason})")


def opening(data: NowcastData) -> list[Message]:
    """The messages that a rollout through the null harness begins with."""
    texts = [data.system_prompt, NETWORK_NOTICE if is_closed(data) else None]
    system = "\n\n".join(text for text in texts if text)
    first = [{"role": "system", "content": system}] if system else []
    return [*first, {"role": "user", "content": data.prompt}]
