"""The configurations that the reward lab compares, and the loss that each ought to pay for.

A configuration is an overlay over a base, merged as `vf-eval @ base.toml @ overlay.toml` does. Its
documented loss is the proper score behind its rewards, without their clips; what has none (a
plug-in, `direction`, `hit`) is held against the plain proper score of what is elicited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import answers, scoring
from ..data import NowcastData
from ..errors import ConfigError
from ..rewards import LEAST_SPREAD
from ..task import NowcastTask
from ..taskset import NowcastTaskset
from .ladder import Case, Said
from .sampling import read_toml, settings_of, taskset_of

BASE = "base.toml"

Loss = Callable[[Case, Said], float]


def absolute(case: Case, said: Said) -> float:
    return scoring.absolute_error(case.y, said.centre) / case.scale


def _squared(case: Case, said: Said) -> float:
    return absolute(case, said) ** 2


def _interval(case: Case, said: Said) -> float:
    return scoring.interval_score(case.y, *said.interval, 0.2) / case.scale


def _crps(case: Case, said: Said) -> float:
    return scoring.crps_normal(case.y, said.centre, said.spread) / case.scale


def _log(case: Case, said: Said) -> float:
    spread = max(said.spread / case.scale, LEAST_SPREAD)
    return scoring.log_score((case.y - said.centre) / case.scale, 0.0, spread)


def _wis(case: Case, said: Said) -> float:
    return scoring.weighted_interval_score(case.y, said.quantiles) / case.scale


DOCUMENTED: dict[str, tuple[str, float, Loss]] = {
    "beats_baseline": ("absolute error", 1.0, absolute),
    "scaled_error": ("absolute error", 1.0, absolute),
    "unit_error": ("absolute error", 0.095, absolute),
    "squared_error": ("squared error", 1.0, _squared),
    "interval_score": ("interval score", 1.0, _interval),
    "crps_normal": ("CRPS", 1.0, _crps),
    "log_score": ("log score", 1.0, _log),
    "pinball": ("WIS", 1.0, _wis),
}
"""What a reward is -slope x loss of, clips aside: name, slope and loss, in scales."""
PLAIN: dict[answers.Elicit, tuple[str, Loss]] = {
    "point": ("absolute error", absolute),
    "interval": ("CRPS", _crps),
    "quantiles": ("WIS", _wis),
}


@dataclass(frozen=True)
class Variant:
    """A reward configuration: its taskset, and the rewards that weigh."""

    name: str
    taskset: NowcastTaskset
    weights: dict[str, float]

    @property
    def elicit(self) -> answers.Elicit:
        """What a reply holds."""
        return self.taskset.config.elicit

    @property
    def documented(self) -> tuple[str, Loss]:
        """Name and function of the loss that the configuration ought to pay for."""
        plugged = {key for key, entry in self.taskset.config.task.rewards.items() if entry.fn}
        parts = [
            (DOCUMENTED[key][0], weight * DOCUMENTED[key][1], DOCUMENTED[key][2])
            for key, weight in self.weights.items()
            if key in DOCUMENTED and key not in plugged
        ]
        if not parts:
            return PLAIN[self.elicit]
        names = " + ".join(dict.fromkeys(name for name, _, _ in parts))
        return names, lambda case, said: sum(slope * loss(case, said) for _, slope, loss in parts)


def read_variants(
    overlays: Sequence[Path], base: Path | None = None, store: str | None = None
) -> list[Variant]:
    """Every configuration, merged over its base; the base itself is none.

    Parameters
    ----------
    base
        None: `base.toml` beside each overlay, where there is one. With another base, a `base.toml`
        among the overlays is none if it gives no reward a weight: a glob took it in.
    store
        Instead of the one configured.

    Raises
    ------
    ConfigError
        If a configuration is wrong (the message begins with its path), two have one name, or none
        is left.
    """
    variants: dict[str, Variant] = {}
    for path in overlays:
        under = path.parent / BASE if base is None else base
        if base is not None or under.exists():
            over = read_toml(path)
            if path.resolve() == under.resolve() or (path.name == BASE and not _weighs(over)):
                continue
            document = merged(read_toml(under), over)
        else:
            document = read_toml(path)
        # Nobody looks anything up here; but a plug-in may read a reply as `opaque` shows it.
        settings = {k: v for k, v in settings_of(document, path).items() if k != "context"}
        taskset = taskset_of(settings, path, store)
        if path.stem in variants:
            raise ConfigError(f"{path}: another configuration is named {path.stem} as well")
        variants[path.stem] = Variant(path.stem, taskset, _weights(taskset))
    if not variants:
        raise ConfigError("no configuration to compare: give overlays beside their base.toml")
    return list(variants.values())


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """As `@ base.toml @ overlay.toml` merges: table by table, the later file wins.

    >>> merged({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}})
    {'a': {'b': 3, 'c': 2}}
    """
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def _weighs(document: dict[str, Any]) -> bool:
    """Whether a document gives a reward a weight."""
    settings = document.get("env", document).get("taskset", {})
    entries = settings.get("task", {}).get("rewards", {}).values()
    # What is no table is wrong, and is to be refused as that.
    return any(
        entry.get("weight", float("fn" in entry)) if isinstance(entry, dict) else True
        for entry in entries
    )


def _weights(taskset: NowcastTaskset) -> dict[str, float]:
    def no_data() -> NowcastData:
        raise AssertionError("resolving hooks reads no data")

    hooks = NowcastTask.lazy(no_data, taskset.config.task).hooks("reward")
    weights = {fn.__name__: getattr(fn, "_vf_weight", 1.0) for fn in hooks}
    return {name: weight for name, weight in weights.items() if weight}
