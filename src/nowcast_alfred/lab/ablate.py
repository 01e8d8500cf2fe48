"""The reward lab: what a reward configuration would teach, before any model is run.

The policies of `ladder` answer the first tasks of the configuration's stream, in real text, and are
paid by its own weighted rewards (`direct`). Everything is a column, one reply a task;
`ablate_stats` makes statistics of columns. What the reward ought to pay for is the configuration's
documented loss (`variants`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from ..baselines import BaselineName
from ..choice import baseline_on, known_on
from ..errors import ConfigError
from ..locate import opened, store_uri
from ..periods import Floats, iso, to_days
from ..rewards import outcome
from ..task import NowcastTask
from . import ablate_stats as stats
from .direct import check, earner
from .ladder import Case, Column, Said, ladder, noise, oracle, plausible, text, true_spread
from .variants import Loss, Variant, absolute

TASKS, GROUP = 400, 8
NUDGE = 0.01
"""A change of the forecast, in scales, that a reward should feel; and of its spread, as a share."""
NEAR_TRUTH = 0.1
"""How far from the outcome a flat top is looked for, in scales."""
CURVE = np.linspace(-3.0, 3.0, 121)
TYPICAL = (0.25, 0.5, 0.9)
"""Tasks shown in a picture: by how far the naive forecast missed, as quantiles over tasks."""


@dataclass(frozen=True)
class Played:
    """What a policy of the ladder earned: means over tasks, in scales where they are losses."""

    policy: str
    honest: bool
    reward: float
    error: float
    loss: float


@dataclass(frozen=True)
class Curve:
    """A task's reward as a function of (forecast - y) / scale, over `CURVE`."""

    series_id: str
    naive: float
    rewards: list[float]


@dataclass(frozen=True)
class Report:
    """What the lab found out about one configuration. Shares are in [0, 1].

    Parameters
    ----------
    loss
        The documented loss.
    rank, rank_loss
        Spearman over policies between mean reward and -mean |error|, and -mean loss.
    within
        Mean Spearman between reward and -loss inside mixed groups.
    zero, tied
        Share of plausible groups without any advantage, and with some tie; `mixed_...` for groups
        of different policies.
    clip
        Share of plausible replies whose reward no small change of the reply moves.
    flat, flat_by_series
        Share of tasks where the outcome and a tenth of a scale beside it earn the same.
    signal, groups
        Signal to noise of a group's advantage; groups until it is two standard errors from zero.
    heavy
        Share of all plausible advantage, in absolute terms, that 5 % of the tasks hold.
    best, best_documented, distance, width
        The reply that pays best, the one that the loss asks for; how far apart, in scales on
        average, and as a ratio of their spreads.
    """

    name: str
    elicit: str
    rewards: dict[str, float]
    loss: str
    store: str
    stream: str
    tasks: int
    rank: float
    rank_loss: float
    within: float
    zero: float
    tied: float
    mixed_zero: float
    mixed_tied: float
    clip: float
    flat: float
    flat_by_series: dict[str, float]
    signal: float
    groups: int | None
    heavy: float
    best: stats.Best
    best_documented: stats.Best
    distance: float
    width: float
    exploits: list[stats.Exploit]
    policies: list[Played]
    curves: list[Curve]


def case_of(task: NowcastTask) -> Case:
    """A task with its outcome and what every baseline says on its as-of date."""
    data, uri = task.data, store_uri(task.config.store)
    store, day = opened(uri, data.store), to_days(data.as_of)
    known = known_on(store.view(data.as_of), data.series_id, data.transform)
    forecasts = {
        name: baseline_on(name, store, data.series_id, day, known)
        for name in get_args(BaselineName)
    }
    y, month = outcome(data, task.config.store).first, iso(day + data.horizon_days)[:7]
    return Case(
        data.draw, data.series_id, month, y, data.baseline, data.scale, forecasts, data.shown
    )


def study(variant: Variant, tasks: int = TASKS, group: int = GROUP, seed: int = 0) -> Report:
    """Play every policy against one configuration.

    Parameters
    ----------
    tasks
        How many tasks of the configuration's stream, from its first; at least 2.
    group
        Rollouts of one task; at least 2.
    seed
        Of the policies' noise; the tasks' seed is the configuration's.

    Raises
    ------
    ConfigError
        If a number is too small, no task is left, or a reward fails; it names the configuration.
    """
    if tasks < 2 or group < 2:
        raise ConfigError(f"tasks = {tasks}, group = {group}: at least 2 of each")
    try:
        drawn = list(variant.taskset.take(tasks))
        return _Lab(variant, drawn, group, seed).report()
    except ConfigError as error:
        raise ConfigError(f"{variant.name}: {error}") from error


class _Lab:
    """The tasks of one configuration, and how replies to them are scored."""

    def __init__(
        self, variant: Variant, tasks: Sequence[NowcastTask], group: int, seed: int
    ) -> None:
        self.variant, self.tasks, self.group, self.seed = variant, tasks, group, seed
        self.cases = [case_of(task) for task in tasks]
        self.scale = np.array([case.scale for case in self.cases])
        self.naive = np.array([case.naive for case in self.cases])
        self.loss_name, self.loss = variant.documented
        self._earn = earner(tasks)

    def texts(self, column: Column) -> list[str]:
        pairs = zip(self.cases, column, strict=True)
        return [text(said, self.variant.elicit, case.shown) for case, said in pairs]

    def earn(self, column: Column) -> Floats:
        return self._earn(self.texts(column))

    def lose(self, column: Column, loss: Loss) -> Floats:
        pairs = zip(self.cases, column, strict=True)
        return np.array([np.inf if said is None else loss(case, said) for case, said in pairs])

    def report(self) -> Report:
        variant, data, naive = (
            self.variant,
            self.tasks[0].data,
            self.variant.taskset.config.baseline,
        )
        policies = ladder(variant.elicit, get_args(BaselineName), naive)
        columns = [policy.replies(self.cases, self.seed) for policy in policies]
        said = np.array([self.texts(column) for column in columns])
        check(self.tasks[0], said[:, 0].tolist())
        rewards = np.array([self.earn(column) for column in columns])
        errors = np.array([self.lose(column, absolute) for column in columns])
        losses = np.array([self.lose(column, self.loss) for column in columns])
        names, honest = [p.name for p in policies], [p.honest for p in policies]
        reward, error, loss = (values.mean(axis=1) for values in (rewards, errors, losses))

        rows = self._mixed([p.name for p in policies if p.centre is not None])
        mixed = np.take_along_axis(rewards, rows, axis=0)
        mixed_zero, mixed_tied = stats.ties(mixed, np.take_along_axis(said, rows, axis=0))
        group = [plausible(self.cases, self.seed, i) for i in range(self.group)]
        earned = np.array([self.earn(column) for column in group])
        zero, tied = stats.ties(earned, np.array([self.texts(column) for column in group]))
        stuck = [self._stuck(one, paid) for one, paid in zip(group, earned, strict=True)]
        ratio, groups = stats.signal(self._half(0.5), self._half(1.0))
        flat = self._flat_at_truth()
        best, asked, distance = self._best(naive)
        return Report(
            name=variant.name,
            elicit=variant.elicit,
            rewards=variant.weights,
            loss=self.loss_name,
            store=data.store,
            stream=data.stream,
            tasks=len(self.tasks),
            rank=stats.spearman(reward, -error),
            rank_loss=stats.spearman(reward, -loss),
            within=stats.within_task(mixed, np.take_along_axis(losses, rows, axis=0)),
            zero=zero,
            tied=tied,
            mixed_zero=mixed_zero,
            mixed_tied=mixed_tied,
            clip=float(np.mean(stuck)),
            flat=float(flat.mean()),
            flat_by_series=self._by_series(flat),
            signal=ratio,
            groups=groups,
            heavy=stats.heavy_share(earned),
            best=best,
            best_documented=asked,
            distance=distance,
            width=best.width / asked.width,
            exploits=stats.exploits(
                names, honest, rewards, losses, [case.month for case in self.cases]
            ),
            policies=[
                Played(policy.name, policy.honest, *map(float, played))
                for policy, *played in zip(policies, reward, error, loss, strict=True)
            ],
            curves=self._curves(),
        )

    def _by_series(self, values: stats.Bools) -> dict[str, float]:
        series = np.array([case.series_id for case in self.cases])
        return {key: float(values[series == key].mean()) for key in sorted(set(series.tolist()))}

    def _mixed(self, names: list[str]) -> npt.NDArray[np.intp]:
        """Which policies make up each task's mixed group: shape (group, tasks)."""

        def chosen(n: int) -> list[int]:
            order = sorted(range(len(names)), key=lambda k: noise(self.seed, n, f"mix {names[k]}"))
            return order[: self.group]

        return np.array([chosen(case.n) for case in self.cases]).T

    def _half(self, size: float) -> Floats:
        policy = oracle(size)
        half = range(self.group // 2)
        return np.array([self.earn(policy.replies(self.cases, self.seed, 1 + i)) for i in half])

    def _moved(self, column: Column, by: float, stretch: float = 1.0) -> Column:
        """Forecasts moved by so many scales, and spreads stretched by a factor."""
        return [
            said and Said(said.centre + by * case.scale, said.spread * stretch)
            for case, said in zip(self.cases, column, strict=True)
        ]

    def _stuck(self, column: Column, earned: Floats) -> stats.Bools:
        """Where no small change of the reply moves the reward."""
        changes = [(NUDGE, 1.0), (-NUDGE, 1.0)]
        if self.variant.elicit != "point":
            changes += [(0.0, 1.0 + NUDGE), (0.0, 1.0 - NUDGE)]
        return stats.same(earned, *(self.earn(self._moved(column, *change)) for change in changes))

    def _flat_at_truth(self) -> stats.Bools:
        truth: Column = [Said(case.y, 0.5 * case.scale) for case in self.cases]
        beside = [self._moved(truth, by) for by in (-NEAR_TRUTH, NEAR_TRUTH)]
        return stats.same(*map(self.earn, [truth, *beside]))

    def _honest(self, naive: str) -> tuple[Floats, float]:
        """A median forecast that is not the naive one, and its spread in scales."""
        name = "best_of" if naive == "mean_12" else "mean_12"
        centres = [case.forecasts[name] for case in self.cases]
        return np.array(centres), true_spread(self.cases, centres)

    def _best(self, naive: str) -> tuple[stats.Best, stats.Best, float]:
        """The best reply under the reward and under the loss, and their mean distance."""
        middle, width = self._honest(naive)

        def centres(best: stats.Best) -> Floats:
            moved: Floats = middle + best.shift * self.scale + best.toward * (self.naive - middle)
            return moved

        def column(best: stats.Best) -> Column:
            pairs = zip(centres(best).tolist(), self.scale.tolist(), strict=True)
            return [Said(centre, best.width * width * scale) for centre, scale in pairs]

        wide = self.variant.elicit != "point"
        found = stats.best_reply(lambda best: float(self.earn(column(best)).mean()), wide)
        asked = stats.best_reply(
            lambda best: -float(self.lose(column(best), self.loss).mean()), wide
        )
        apart = np.abs(centres(found) - centres(asked)) / self.scale
        return found, asked, float(apart.mean())

    def _curves(self) -> list[Curve]:
        """Reward over the forecast, for tasks that the naive forecast missed less and more."""
        missed = np.abs(self.naive - np.array([case.y for case in self.cases])) / self.scale
        order = np.argsort(missed, kind="stable")
        chosen = [int(order[round(share * (len(order) - 1))]) for share in TYPICAL]
        earn = earner([self.tasks[i] for i in chosen])
        cases = [self.cases[i] for i in chosen]

        def at(x: float) -> Floats:
            said = [Said(case.y + x * case.scale, 0.5 * case.scale) for case in cases]
            pairs = zip(cases, said, strict=True)
            return earn([text(one, self.variant.elicit, case.shown) for case, one in pairs])

        rows = np.array([at(x) for x in CURVE.tolist()]).T
        return [
            Curve(case.series_id, (case.naive - case.y) / case.scale, row.tolist())
            for case, row in zip(cases, rows, strict=True)
        ]
