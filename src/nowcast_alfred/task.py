"""One nowcast: its data, its state, and what happens around a rollout.

A task of the stream is lazy. It knows its position and builds its data when they are first read, so
that skipping a million on resume touches no store. Everything in the data comes from the view of
the as-of date; the outcome is read when the agent has ended.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self

import verifiers.v1 as vf

from . import answers, prompts, recheck, scoring, served
from .baselines import BaselineName, ScaleName, scale_of
from .choice import baseline_on, known_on
from .data import NowcastData, NowcastState, NowcastTaskConfig, NowcastTrace
from .errors import ConfigError
from .locate import opened, store_uri
from .logs import get_logger
from .opaque import agent_view, as_shown, key_of, rescaling
from .periods import Units, iso, label, to_days
from .rewards import INFO, Scored
from .store import AsOfView, VintageStore
from .stream import Draw

logger = get_logger(__name__)


class NowcastTask(Scored, vf.Task[NowcastData, NowcastState, NowcastTaskConfig]):
    """Forecast one first release from what was known on one day."""

    def __init__(self, data: NowcastData, config: NowcastTaskConfig | None = None) -> None:
        super().__init__(data, config)

    @classmethod
    def lazy(cls, build: Callable[[], NowcastData], config: NowcastTaskConfig) -> Self:
        """A task that calls `build` when its data are first read.

        `build` is a plain closure: a deep copy of the task then shares what it closes over.
        """
        task = cls.__new__(cls)
        task.config = config
        task._data, task._build, task._pending = None, build, {}
        return task

    _data: NowcastData | None
    _build: Callable[[], NowcastData]
    _pending: dict[str, Any]

    @property
    def data(self) -> NowcastData:
        """The task's data, built on the first read."""
        if self._data is None:
            self._data = self._build().model_copy(update=self._pending)
        return self._data

    @data.setter
    def data(self, value: NowcastData) -> None:
        self._data = value

    @property
    def key(self) -> str:
        """The task's identity: target, as-of date, stream and position; `idx` plays no part."""
        return f"{self.data.id}#{self.data.stream}:{self.data.draw}"

    def with_data(self, **update: Any) -> Self:
        """A copy with `update` applied; noted only, while there are no data yet."""
        if self._data is not None:
            return super().with_data(**update)
        clone = copy.copy(self)
        clone._pending = {**self._pending, **update}
        return clone

    async def setup(  # type: ignore[override]  # our trace, with our state
        self, trace: NowcastTrace, runtime: vf.Runtime
    ) -> None:
        """Tell the tool server the as-of date, or stage the files of that day."""
        trace.state.as_of = self.data.as_of
        trace.state.series_id = self.data.series_id
        trace.state.store = self.data.store
        trace.state.opaque = self.data.opaque or ""
        if self.config.context == "files":
            _, seen, target = self._views()
            files = served.staged_files(seen, target, self.data.transform)
            archive = f"{served.FOLDER}.tar"
            await runtime.write(archive, served.as_tar(files))
            done = await runtime.run(["sh", "-c", f"tar xf {archive} && rm {archive}"], {})
            if done.exit_code != 0:
                raise RuntimeError(f"cannot unpack {archive} in the box: {done.stderr[-500:]}")

    async def finalize(  # type: ignore[override]
        self, trace: NowcastTrace, runtime: vf.Runtime
    ) -> None:
        """Write reply, outcome and lookups into the trace, now that the agent has ended."""
        trace.info[INFO] = self.result(self.data, trace)

    async def validate(self, runtime: vf.Runtime) -> bool:
        """Derive the task again from the raw rows, and check both ends of the reward."""
        uri = store_uri(self.config.store)
        faults = recheck.faults(uri, self.data)
        y = opened(uri, self.data.store).outcome(
            self.data.series_id, self.data.reference_period, self.data.transform
        )
        best = min(1.0, abs(self.data.baseline - y.first) / self.data.scale)
        faults += self._misread()
        told = self.data.shown.shown(y.first) if self.data.shown else y.first
        oracle = prompts.oracle(told, self.config.elicit)
        for reply, expected in ((oracle, best), ("", scoring.FLOOR)):
            trace: Any = SimpleNamespace(last_reply=reply, info={}, state=NowcastState())
            earned = await self.beats_baseline(self.data, trace)
            if abs(earned - expected) > 1e-9:
                faults.append(f"the reply {reply!r} earns {earned}, expected {expected}")
        for fault in faults:
            logger.error("%s: %s", self.data.id, fault)
        return not faults

    def _views(self) -> tuple[AsOfView, AsOfView, str]:
        """What is known, the same as the agent sees it, and the target's id there."""
        view = opened(store_uri(self.config.store), self.data.store).view(self.data.as_of)
        seen = agent_view(view, self.data.opaque)
        target, _ = as_shown(seen, self.data.series_id, to_days(self.data.reference_period))
        return view, seen, target

    def _misread(self) -> list[str]:
        """A fault if the target's newest number, as an opaque task shows it, is read as another."""
        if self.data.shown is None:
            return []
        view, seen, target = self._views()
        told = seen.observations(target, units=self.data.transform).value[-1]
        real = view.observations(self.data.series_id, units=self.data.transform).value[-1]
        found = self.data.shown.real(told)
        if abs(found - real) <= 1e-9 * max(self.data.scale, abs(real)):
            return []
        return [f"the newest value is shown as {told}, which is read as {found} and not {real}"]


def closed_network(closed: bool) -> dict[str, Any]:
    """The network field of the installed verifiers: `network_allow` in 0.4.0, `network` later.

    TaskData drops a field it does not know, which would leave egress open without a word.
    """
    if not closed:
        return {}
    if "network" in vf.TaskData.model_fields:
        return {"network": {"allow": []}}
    return {"network_allow": []}


def is_closed(data: vf.TaskData) -> bool:
    """Whether a task's data do ask for no network."""
    policy = getattr(data, "network", None)
    allow = policy.allow if policy is not None else getattr(data, "network_allow", None)
    return allow is not None and len(allow) == 0


def make_data(
    store: VintageStore,
    draw: Draw,
    transform: Units,
    *,
    stream: str = "",
    baseline: BaselineName = "last_change",
    scale: ScaleName = "std_24",
    context: prompts.Context = "tools",
    elicit: answers.Elicit = "point",
    opaque: bool = False,
    closed_egress: bool = True,
) -> NowcastData:
    """The data of a draw, all of them from the view of its as-of date.

    Raises
    ------
    ConfigError
        If the installed verifiers did not take the network policy.
    """
    view = store.view(iso(draw.as_of))
    meta = view.meta(draw.series_id)
    known = known_on(view, draw.series_id, transform, draw.period)
    period, as_of = iso(draw.period), iso(draw.as_of)
    words, identity = label(draw.period, meta.frequency), f"{draw.series_id}:{period}@{as_of}"
    key = key_of(f"{identity}#{stream}:{draw.n}") if opaque else None
    seen = agent_view(view, key)
    target = as_shown(seen, draw.series_id, draw.period)
    data = NowcastData(
        id=identity,
        name=f"{draw.series_id} {words} as of {as_of}",
        prompt=prompts.build(seen, *target, transform, context, elicit),
        series_id=draw.series_id,
        title=meta.title,
        as_of=as_of,
        reference_period=period,
        period_label=words,
        frequency=meta.frequency,
        transform=transform,
        units=prompts.unit_of(transform, meta.units),
        horizon_days=draw.release - draw.as_of,
        baseline=baseline_on(baseline, store, draw.series_id, draw.as_of, known),
        baseline_name=baseline,
        scale=scale_of(scale, known),
        scale_name=scale,
        store=store.fingerprint,
        stream=stream,
        draw=draw.n,
        opaque=key,
        shown=rescaling(view, key, draw.series_id, transform) if key else None,
        **closed_network(closed_egress),
    )
    if closed_egress and not is_closed(data):
        raise ConfigError(
            "the installed verifiers did not take the network policy of closed_egress = true; "
            "egress would be open. Use a version this package supports, or closed_egress = false"
        )
    return data


def draw_at(store: VintageStore, series_id: str, period: str, as_of: str) -> Draw:
    """The draw that asks for one period on one day, outside any stream (position 0)."""
    day = to_days(period)
    start, _ = store.changes(series_id).rows_of(day)
    release = int(store.changes(series_id).columns.vintage[start])
    return Draw(0, series_id, day, to_days(as_of), release)
