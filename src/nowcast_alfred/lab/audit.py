"""The audit: every route to the answer as a check with evidence.

A run's TOML may hold several tasksets (training and evaluation); each is audited with its own
settings, and those of other packages are named as skipped. Where the network policy itself is at
fault no task can be built, so the other checks then go on with `closed_egress = false`, which
changes no draw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..taskset import NowcastTaskset
from . import (
    audit_channel,
    audit_dates,
    audit_files,
    audit_notes,
    audit_run,
    audit_served,
    audit_siblings,
)
from .audit_case import Finding, case_of
from .sampling import taskset_of

DRAWS = 2000
Progress = Callable[[str, int], None]
"""Told what begins and how many steps it has; then `""` and 0 for each step."""


@dataclass(frozen=True)
class Report:
    """The findings on one taskset."""

    source: str
    store: str
    fingerprint: str
    findings: list[Finding]

    @property
    def opened(self) -> list[Finding]:
        """The routes that are open."""
        return [finding for finding in self.findings if finding.status == "open"]

    def as_dict(self) -> dict[str, Any]:
        """The same for machines."""
        return asdict(self)


def run(
    config: Path | None = None,
    store: str | None = None,
    draws: int = DRAWS,
    dists: list[Path] | None = None,
    progress: Progress | None = None,
    served: int = audit_served.SAMPLE,
) -> list[Report]:
    """Audit every taskset of a run's TOML, or the default settings.

    Parameters
    ----------
    config
        A TOML for vf-eval, vf-validate or prime-rl; None for the default settings.
    store
        The store, instead of the one the settings name.
    draws
        How many draws are derived again.
    dists
        Wheels and sdists to search, besides the installed package.
    progress
        Told of every step.
    served
        For how many draws every text served is compared.

    Raises
    ------
    ConfigError
        If the TOML holds no taskset, or a setting is wrong.
    """
    sources = audit_run.read_sources(config)
    others = [audit_run.others(sources.skipped)] if sources.skipped else []
    reports = [
        audit(
            source,
            taskset_of(source.settings, source.name or "settings", store),
            draws,
            dists or [],
            progress or (lambda what, steps: None),
            served,
        )
        for source in sources.own
    ]
    return [replace(one, findings=[*one.findings, *others]) for one in reports]


def audit(
    source: audit_run.Source,
    taskset: NowcastTaskset,
    draws: int,
    dists: list[Path],
    progress: Progress,
    sample: int,
) -> Report:
    """Audit one taskset."""
    network = audit_run.network(taskset, source.agents)
    if network.status == "open":
        config = taskset.config.model_copy(update={"closed_egress": False})
        case = case_of(NowcastTaskset(config), draws)
    else:
        case = case_of(taskset, draws)

    def step() -> None:
        progress("", 0)

    progress("dates", len(case.draws))
    dates = audit_dates.check(case, step)
    progress("served", sample)
    served = audit_served.check(case, step, sample)
    progress("channel", audit_channel.SAMPLE)
    channel = audit_channel.check(case, step)
    units = {key: each.role.transform for key, each in case.stream.space.series.items()}
    findings = [
        dates,
        served,
        audit_siblings.check(case),
        audit_files.check(case.store, dists, units),
        channel,
        network,
        audit_run.box(source),
        audit_notes.memory(case),
        audit_notes.rights(case),
    ]
    return Report(source.name, case.store.shown, case.store.fingerprint, findings)
