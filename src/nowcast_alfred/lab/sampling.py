"""Looking at the stream without running anything: settings from a TOML, draws as plain rows."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..errors import ConfigError
from ..rewards import outcome
from ..taskset import NowcastConfig, NowcastTaskset


def read_settings(
    path: Path | None, store: str | None = None, source: str | None = None
) -> NowcastTaskset:
    """The taskset of a run's TOML: `[env.taskset]`, `[taskset]`, or a train source of prime-rl's.

    Parameters
    ----------
    path
        The TOML; None for the defaults.
    store
        A store in place of the configured one.
    source
        Which `[[orchestrator.train.source]]`, where there are several.

    Raises
    ------
    ConfigError
        If there is no such table, or a setting is wrong.
    """
    document = read_toml(path) if path is not None else {}
    sources = document.get("orchestrator", {}).get("train", {}).get("source", [])
    if not sources:
        if source is not None:
            lacking = f"{path} has no" if path else "name with --config the TOML that has the"
            raise ConfigError(f"--source {source}: {lacking} [[orchestrator.train.source]]")
        settings = {} if path is None else settings_of(document, path)
        return taskset_of(settings, path or "settings", store)
    named = {str(one.get("name", place)): one for place, one in enumerate(sources)}
    if source is None and len(named) == 1:
        (source,) = named
    if source not in named:
        raise ConfigError(
            f"{path}: --source is to name one of its train sources: {', '.join(named)}"
        )
    settings = named[source].get("env", {}).get("taskset", {})
    return taskset_of(settings, f"{path}, source {source}", store)


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
        raise ConfigError(
            f"{where} has neither [env.taskset] nor [taskset] nor [[orchestrator.train.source]]"
        )
    return settings


def taskset_of(settings: dict[str, Any], where: object, store: str | None = None) -> NowcastTaskset:
    """The taskset of settings; `where` is what a `ConfigError` names."""
    if store is not None:
        settings = {**settings, "store": store}
    try:
        return NowcastTaskset(NowcastConfig.model_validate(settings))
    except ValidationError as error:
        raise ConfigError(f"{where}: {_plainly(error)}") from None
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None


def _plainly(error: ValidationError) -> str:
    """What pydantic found, a clause a setting, with the valid names where one is unknown."""
    clauses = []
    for fault in error.errors():
        name, text = ".".join(map(str, fault["loc"])), fault["msg"]
        if fault["type"] == "extra_forbidden":
            text = "unknown setting"
            if len(fault["loc"]) == 1:
                text += f"; valid ones: {', '.join(sorted(NowcastConfig.model_fields))}"
        elif fault["type"] != "value_error":
            text += f", not {str(fault['input'])[:60]!r}"
        clauses.append(f"{name}: {text}" if name else text)
    return "; ".join(clauses)


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
