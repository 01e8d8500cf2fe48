"""Looking at the stream without running anything: settings from a TOML, draws as plain rows."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..rewards import outcome
from ..taskset import NowcastConfig, NowcastTaskset


def read_settings(path: Path | None, store: str | None = None) -> NowcastTaskset:
    """The taskset of a run's TOML (`[env.taskset]`, or `[taskset]` as vf-validate has it).

    Raises
    ------
    ConfigError
        If the file has no such table or a setting is wrong.
    """
    settings = {} if path is None else settings_of(read_toml(path), path)
    return taskset_of(settings, path or "settings", store)


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML document; `ConfigError` with its path where there is none."""
    try:
        return tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def settings_of(document: dict[str, Any], where: object) -> dict[str, Any]:
    """The taskset's table of a document; `ConfigError` where there is none."""
    settings: dict[str, Any] = document.get("env", document).get("taskset", {})
    if not settings:
        raise ConfigError(f"{where} has neither [env.taskset] nor [taskset]")
    return settings


def taskset_of(settings: dict[str, Any], where: object, store: str | None = None) -> NowcastTaskset:
    """The taskset of settings; `where` is what a `ConfigError` names."""
    if store is not None:
        settings = {**settings, "store": store}
    try:
        return NowcastTaskset(NowcastConfig.model_validate(settings))
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None


def take(taskset: NowcastTaskset, start: int, count: int) -> tuple[list[dict[str, Any]], int]:
    """Draws `start` to `start + count - 1` as rows with their first releases, and the number of
    targets in the task space."""
    stream = taskset.stream()
    data_of = taskset.builder(stream)
    rows = []
    for n in range(start, start + count):
        data = data_of(n)
        fields = data.model_dump(mode="json", exclude_defaults=True)
        rows.append({**fields, "first": outcome(data, taskset.config.store).first})
    return rows, len(stream.space)
