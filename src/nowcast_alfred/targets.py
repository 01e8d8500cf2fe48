"""The task space: which first releases may be asked for, and on which days.

A period's first vintage is a genuine first release when it is not part of the series' first
vintage (which dates a whole history to one day), is newer than every period known the day before
(no backfill), comes within the catalog's largest lag, and has a value together with the values its
transform needs. It may be asked for from the day the previous period was released to the day
before its own release; where only a bracket of the release day is known, to the bracket's lower
end. The filters of `SpaceConfig` then cut series and windows, each counted, so that an empty space
says which of them emptied it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from . import periods as p
from .baselines import SCALES, ScaleName
from .catalog import Catalog
from .errors import ConfigError
from .store.reader import AsOfView, Changes, VintageStore
from .store.schema import NO_LOWER

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SpaceConfig(BaseModel):
    """What decides which tasks there are, and in which order. Everything here is part of the
    stream's key; nothing else is, so runs that differ in rewards or context see the same tasks."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    series: list[str] = Field(default_factory=list)
    """Sample only these series (predictors too, if named). Empty: every series whose role is
    target."""
    exclude_series: list[str] = Field(default_factory=list)
    """Never sample these series; they stay readable."""
    categories: list[str] = Field(default_factory=list)
    """Sample only series of these categories. Empty: all."""
    frequencies: list[Literal["d", "w", "m", "q", "a"]] = Field(default_factory=list)
    """Sample only series of these frequencies (`d`, `w`, `m`, `q`, `a`). Empty: all."""
    rights: Literal["any", "research", "granted"] = "any"
    """Sample only series that may be used so: `granted` for training of any kind (or under a
    permission on record), `research` for research too, `any` for no filter."""
    split: Literal["train", "eval", "all"] = "train"
    """`train`: releases before `eval_from`, without `holdout_series`. `eval`: as-of dates on or
    after `eval_from`; without `eval_from`, the `holdout_series` alone. `all`: no split."""
    eval_from: dt.date | None = None
    """First day of the evaluation period. A training task's release day is before it; an
    evaluation task's as-of date is on or after it."""
    holdout_series: list[str] = Field(default_factory=list)
    """Series that training never sees as targets."""
    as_of_min: dt.date | None = None
    """Earliest as-of date."""
    as_of_max: dt.date | None = None
    """Latest as-of date."""
    model_cutoff: dt.date | None = None
    """Only outcomes that were published after this day, the end of a model's training data."""
    max_horizon: PositiveInt = 120
    """Longest distance from as-of date to release, in days."""
    min_history: PositiveInt = 36
    """How many values of the target's transform must be known on the as-of date."""
    scale: ScaleName = "std_24"
    """The unit errors are measured in, from the view: `std_24` (standard deviation of the last 24
    values), `mad_24` (their median absolute deviation), `mean_abs_change_60` (mean step over the
    last 60 values). At least the series' rounding unit; a target whose scale is zero without that
    floor is no task."""
    weights: dict[str, Weight] = Field(default_factory=dict)
    """How often a series comes, by series id or by category (an id wins); 1.0 where not named,
    0 to leave out. Every series comes equally often by default."""
    seed: int = 0
    """Another seed, another order and other as-of dates, over the same targets."""


@dataclass(frozen=True)
class Role:
    """How a series is asked about: from the store's metadata, or the catalog given."""

    frequency: p.Frequency
    transform: p.Units
    max_lag_days: int
    role: str
    category: str
    training: str


@dataclass(frozen=True)
class SeriesTargets:
    """The targets of one series: int32 arrays of shape (n,), in order of period. A task's as-of
    date lies in [`low`, `high`]."""

    role: Role
    period: p.Days
    release: p.Days
    low: p.Days
    high: p.Days

    def where(self, keep: np.ndarray) -> SeriesTargets:
        """The targets that a mask keeps."""
        return SeriesTargets(
            self.role, self.period[keep], self.release[keep], self.low[keep], self.high[keep]
        )


def first_releases(changes: Changes, role: Role) -> SeriesTargets:
    """The genuine first releases of a series and their as-of windows, before any filter."""
    columns, starts, periods = changes.columns, changes.starts, changes.periods
    release, lower = columns.vintage[starts], columns.lower[starts]
    low = np.empty_like(release)
    low[:1], low[1:] = release[:1], release[:-1]
    high = np.where(lower == NO_LOWER, release - 1, lower).astype(np.int32)
    lag = release - p.period_ends(periods, role.frequency)
    keep = (
        (release > changes.first_vintage)
        & (periods > _newest_before(release, periods))
        & (lag <= role.max_lag_days)
        & _has_value(changes, release, role)
        & (low <= high)
    )
    return SeriesTargets(role, periods, release, low, high).where(keep)


def _newest_before(release: p.Days, periods: p.Days) -> p.Days:
    """For each period, the newest period whose first vintage is before its own."""
    order = np.argsort(release, kind="stable")
    newest = np.maximum.accumulate(periods[order])
    before = np.searchsorted(release[order], release, side="left")
    none = np.iinfo(np.int32).min
    return np.where(before > 0, newest[np.maximum(before - 1, 0)], none).astype(np.int32)


def _has_value(changes: Changes, release: p.Days, role: Role) -> np.ndarray:
    """Whether the transform of each period has a value inside its first vintage."""
    if role.frequency == "d":
        return _has_daily_value(changes, release, role)
    level = changes.columns.value[changes.starts]
    lag = p.lag_of(role.transform, role.frequency)
    if lag == 0:
        return np.asarray(level == level)
    order = p.ordinals(changes.periods, role.frequency)
    at = np.searchsorted(order, order - lag)
    before = np.where(order[at] == order - lag, changes.value_on(at, release), np.nan)
    if role.transform in ("chg", "ch1"):
        return np.asarray((level == level) & (before == before))
    return np.asarray((level > 0) & (before > 0))


def _has_daily_value(changes: Changes, release: p.Days, role: Role) -> np.ndarray:
    """The same where lags count observations, so that a holiday without a value is no gap."""
    has = np.zeros(len(release), dtype=bool)
    for day in np.unique(release).tolist():
        period, level, _ = changes.known(day)
        value = p.transform(period, level, role.transform, "d")
        has |= (release == day) & np.isin(changes.periods, period[value == value])
    return has


def has_scale(view: AsOfView, series_id: str, config: SpaceConfig, units: p.Units) -> bool:
    """Whether a day's view has the history and the positive scale that a task needs.

    Before its floor, which would make one of a series that does not move.
    """
    known = view.observations(series_id, units=units).value
    return len(known) >= config.min_history and SCALES[config.scale](known) > 0.0


@dataclass(frozen=True)
class TaskSpace:
    """All targets that a configuration leaves, by series id (sorted, none empty)."""

    store: VintageStore
    config: SpaceConfig
    series: dict[str, SeriesTargets]

    def __len__(self) -> int:
        return sum(len(targets.period) for targets in self.series.values())

    def usable(self, series_id: str, day: int) -> bool:
        """Whether the view of a day has the history and the scale a task needs."""
        units = self.series[series_id].role.transform
        return has_scale(AsOfView(self.store, day), series_id, self.config, units)


RIGHTS_HINT = (
    ". Take a store whose series may be used so (`nowcast-alfred store info` shows their rights, "
    'docs/data.md where to get them), or set rights = "any" for a run that trains nothing'
)


def build_space(
    store: VintageStore, config: SpaceConfig, catalog: Catalog | None = None
) -> TaskSpace:
    """Find every target of a store that a configuration asks for.

    Raises
    ------
    ConfigError
        If a name is unknown, the split is undefined, or no target is left; the message then gives
        the number left after each filter.
    """
    roles = _roles(store, catalog)
    _check_names(config, roles)
    found = {key: first_releases(store.changes(key), role) for key, role in roles.items()}
    trail = [("first releases in the store", _count(found))]
    for name, step in _steps(config):
        found = {key: step(key, targets) for key, targets in found.items()}
        trail.append((name, _count(found)))
    found = {key: _eligible(store, config, key, targets) for key, targets in found.items()}
    trail.append((f"min_history = {config.min_history} and a positive scale", _count(found)))
    found = {key: targets for key, targets in sorted(found.items()) if len(targets.period)}
    if not found:
        last = next(i for i, (_, count) in enumerate(trail) if count == 0)
        steps = "; ".join(f"{name}: {count}" for name, count in trail[: last + 1])
        hint = RIGHTS_HINT if trail[last][0].startswith("rights") else ""
        raise ConfigError(
            f"no task is left in {store.shown}: {trail[last][0]} removed the last one. Left after "
            f"each filter: {steps}{hint}"
        )
    return TaskSpace(store, config, found)


def _roles(store: VintageStore, catalog: Catalog | None) -> dict[str, Role]:
    roles = {}
    for key in store.series_ids:
        meta: Any = store.meta(key)
        role = Role(
            meta.frequency,
            meta.transform,
            meta.max_lag_days,
            meta.role,
            meta.category,
            meta.training,
        )
        if catalog is None:
            roles[key] = role
        elif key in catalog.series:
            entry = catalog.series[key]
            roles[key] = replace(
                role,
                transform=entry.transform,
                max_lag_days=entry.max_lag_days,
                role=entry.role,
                category=entry.category or role.category,
            )
    if not roles:
        raise ConfigError(f"no series of the catalog is in {store.shown}")
    return roles


def _check_names(config: SpaceConfig, roles: dict[str, Role]) -> None:
    categories = {role.category for role in roles.values()}
    for field, names, valid in (
        ("series", config.series, set(roles)),
        ("exclude_series", config.exclude_series, set(roles)),
        ("holdout_series", config.holdout_series, set(roles)),
        ("categories", config.categories, categories),
        ("weights", list(config.weights), set(roles) | categories),
    ):
        if unknown := sorted(set(names) - valid):
            raise ConfigError(
                f"{field}: {', '.join(unknown)} not in the store; it has {', '.join(sorted(valid))}"
            )
    if config.split == "eval" and config.eval_from is None and not config.holdout_series:
        raise ConfigError('split = "eval" needs eval_from or holdout_series')


Step = Callable[[str, SeriesTargets], SeriesTargets]


def _steps(config: SpaceConfig) -> Iterator[tuple[str, Step]]:
    """The filters in force, each with the name it has in an error."""

    def series(name: str, test: Callable[[str, Role], bool]) -> tuple[str, Step]:
        def step(key: str, targets: SeriesTargets) -> SeriesTargets:
            return targets if test(key, targets.role) else targets.where(np.zeros(0, dtype=int))

        return name, step

    def window(name: str, low: int | None = None, high: int | None = None) -> tuple[str, Step]:
        def step(key: str, targets: SeriesTargets) -> SeriesTargets:
            cut = replace(
                targets,
                low=targets.low if low is None else np.maximum(targets.low, np.int32(low)),
                high=targets.high if high is None else np.minimum(targets.high, np.int32(high)),
            )
            return cut.where(cut.low <= cut.high)

        return name, step

    def target(name: str, test: Callable[[SeriesTargets], np.ndarray]) -> tuple[str, Step]:
        return name, lambda key, targets: targets.where(test(targets))

    if config.series:
        yield series("series", lambda key, role: key in config.series)
    else:
        yield series("role = target", lambda key, role: role.role == "target")
    yield series("exclude_series", lambda key, role: key not in config.exclude_series)
    if config.categories:
        yield series("categories", lambda key, role: role.category in config.categories)
    if config.frequencies:
        yield series("frequencies", lambda key, role: role.frequency in config.frequencies)
    if config.rights != "any":
        yield series(
            f'rights = "{config.rights}"', lambda key, role: may_train(role, config.rights)
        )
    yield series("weights", lambda key, role: weight_of(config, key, role) > 0)
    if config.split == "train":
        yield series("holdout_series", lambda key, role: key not in config.holdout_series)
        if config.eval_from is not None:
            first = p.to_days(config.eval_from)
            yield target("split = train, eval_from", lambda t: t.release < first)
    elif config.split == "eval":
        if config.eval_from is not None:
            yield window("split = eval, eval_from", low=p.to_days(config.eval_from))
        else:
            yield series("split = eval, holdout_series", lambda k, r: k in config.holdout_series)
    if config.model_cutoff is not None:
        cutoff = p.to_days(config.model_cutoff)
        # The release lies after `high`, whichever day of its bracket is the true one.
        yield target("model_cutoff", lambda t: t.high >= cutoff)
    yield (
        f"max_horizon = {config.max_horizon}",
        lambda key, t: _cut(replace(t, low=np.maximum(t.low, t.release - config.max_horizon))),
    )
    if config.as_of_min is not None:
        yield window("as_of_min", low=p.to_days(config.as_of_min))
    if config.as_of_max is not None:
        yield window("as_of_max", high=p.to_days(config.as_of_max))


def _cut(targets: SeriesTargets) -> SeriesTargets:
    return targets.where(targets.low <= targets.high)


def may_train(role: Role, rights: str) -> bool:
    """Whether a series' rights allow what `rights` asks for."""
    if role.training == "granted" or role.training.startswith("permission:"):
        return True
    return rights == "research" and role.training == "research"


def weight_of(config: SpaceConfig, series_id: str, role: Role) -> float:
    """How often a series comes, relative to 1."""
    return config.weights.get(series_id, config.weights.get(role.category, 1.0))


def _eligible(
    store: VintageStore, config: SpaceConfig, key: str, targets: SeriesTargets
) -> SeriesTargets:
    """Targets whose last as-of day has the history and the scale a task needs."""
    units = targets.role.transform
    keep = [has_scale(AsOfView(store, day), key, config, units) for day in targets.high.tolist()]
    return targets.where(np.array(keep, dtype=bool))


def _count(found: dict[str, SeriesTargets]) -> int:
    return sum(len(targets.period) for targets in found.values())
