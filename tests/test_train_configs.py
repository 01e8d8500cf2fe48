"""`configs/train`: what verifiers and the two generations of prime-rl read of each file.

The `env` part goes through verifiers' own classes. prime-rl cannot be installed here; the rest is
held against models of its documented keys, closed to any other: a misspelt key is an error here,
as it is there.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Literal

import pytest
import verifiers.v1 as vf
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from commands import ROOT
from nowcast_alfred.taskset import NowcastConfig, NowcastTaskset

FILES = sorted((ROOT / "configs/train").glob("*.toml"))
DRAWS = 500
TOP = {
    "# prime-rl of October 2026 and later (verifiers >= 0.4).\n": "new",
    "# prime-rl of August 2026, the generation with group_size under [orchestrator].\n": "old",
}


class Closed(BaseModel):
    """Keys that are not named are errors."""

    model_config = ConfigDict(extra="forbid")


class Checkpoint(Closed):
    interval: int | None = Field(None, ge=1)
    keep_last: int | None = Field(None, ge=1)
    keep_interval: int | None = Field(None, ge=1)
    skip_progress: bool = False


class Resume(Closed):
    step: int | None = Field(None, ge=0)
    dir: str | None = None


class Concurrency(Closed):
    initial_inflight: int | None = Field(None, ge=1)
    min_inflight: int = Field(1, ge=1)
    max_inflight: int | None = Field(1024, ge=1)


class Source(Closed):
    name: str
    env: dict[str, Any]
    serve: vf.ServeConfig = vf.ServeConfig()
    sampling: dict[str, Any] = {}


class TrainSource(Source):
    ratio: float = Field(1.0, gt=0)
    group_size: int | None = Field(None, ge=1)
    algo: dict[str, Any] = {}


class StandardSampler(Closed):
    """The pools of the other sampler need a finite taskset, which this is not."""

    type: Literal["standard"] = "standard"


class NewTrainSource(TrainSource):
    select: vf.SelectConfig = vf.SelectConfig()
    sampler: StandardSampler = StandardSampler()
    min_abs_advantage: float = Field(0.0, ge=0)


class OldCurriculum(Closed):
    sampler: StandardSampler = StandardSampler()
    gates: dict[str, Any] = {}


class OldTrainSource(TrainSource):
    curriculum: OldCurriculum = OldCurriculum()


class EvalSource(Source):
    group_size: int | None = Field(None, ge=1)
    interval: int | None = Field(None, ge=1)


class NewEvalSource(EvalSource):
    select: vf.SelectConfig = vf.SelectConfig()


class OldEvalSource(EvalSource):
    num_examples: int | None = None


class Eval(Closed):
    interval: int = Field(100, ge=1)
    group_size: int = Field(1, ge=1)
    skip_first_step: bool = False
    retrigger_on_resume: bool = False


class NewEval(Eval):
    source: list[NewEvalSource]
    select: vf.SelectConfig = vf.SelectConfig()

    def tasks(self, source: NewEvalSource) -> int | None:
        return source.select.limit or self.select.limit


class OldEval(Eval):
    source: list[OldEvalSource]
    num_examples: int = -1

    def tasks(self, source: OldEvalSource) -> int | None:
        found = source.num_examples or self.num_examples
        return found if found > 0 else None


class NewTrain(Closed):
    source: list[NewTrainSource]
    group_size: int = Field(1, ge=1)
    select: vf.SelectConfig = vf.SelectConfig()
    sampling: dict[str, Any] = {}


class OldTrain(Closed):
    source: list[OldTrainSource]
    filter_zero_advantages: bool = True
    sampling: dict[str, Any] = {}


class Orchestrator(Closed):
    batch_size: int = Field(128, ge=1)
    concurrency: Concurrency = Concurrency()
    tasks_per_minute: int | None = Field(None, ge=1)
    max_off_policy_steps: int = Field(8, ge=0)

    @model_validator(mode="after")
    def _sources_agree(self) -> Orchestrator:
        for group in filter(None, (self.train, self.eval)):  # type: ignore[attr-defined]
            names = [source.name for source in group.source]
            if len(set(names)) < len(names):
                raise ValueError(f"two sources have the same name: {names}")
        sizes = [self.size(source) for source in self.train.source]  # type: ignore[attr-defined]
        if any(self.batch_size % size for size in sizes):
            raise ValueError(f"batch_size {self.batch_size} is no multiple of {sizes}")
        return self


class NewOrchestrator(Orchestrator):
    constant_trainer_batch_size: bool = True
    train: NewTrain
    eval: NewEval | None = None

    def size(self, source: TrainSource) -> int:
        return source.group_size or self.train.group_size


class OldOrchestrator(Orchestrator):
    group_size: int = Field(1, ge=1)
    train: OldTrain
    eval: OldEval | None = None

    def size(self, source: TrainSource) -> int:
        return source.group_size or self.group_size


class Run(Closed):
    ckpt: Checkpoint
    resume: Resume | None = None
    max_steps: int | None = Field(None, ge=1)


class NewRun(Run):
    orchestrator: NewOrchestrator


class OldRun(Run):
    orchestrator: OldOrchestrator


SCHEMA: dict[str, type[NewRun | OldRun]] = {"new": NewRun, "old": OldRun}


def generation(path: Path) -> str:
    """What a file says on its first line."""
    return TOP[path.read_text().splitlines(keepends=True)[0]]


def parsed(path: Path) -> NewRun | OldRun:
    return SCHEMA[generation(path)].model_validate(tomllib.loads(path.read_text()))


def env_of(source: Source) -> vf.EnvConfig:
    """The `env` part through verifiers' own classes."""
    config = vf.resolve_env_config(source.env)
    assert isinstance(config.taskset, NowcastConfig)
    return config


every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def test_there_is_a_file_for_each_size_and_generation() -> None:
    found = {(parsed(path).orchestrator.batch_size, generation(path)) for path in FILES}
    assert found == {(64, "new"), (512, "new"), (4096, "new"), (4096, "old")}


@every_file
def test_a_file_reads_as_its_generation_alone(path: Path) -> None:
    text = tomllib.loads(path.read_text())
    assert parsed(path)
    (other,) = set(SCHEMA) - {generation(path)}
    with pytest.raises(ValidationError, match=r"group_size|select|num_examples"):
        SCHEMA[other].model_validate(text)


@every_file
def test_nothing_that_runs_code_trains_with_a_network(path: Path) -> None:
    run = parsed(path).orchestrator
    for source in [*run.train.source, *(run.eval.source if run.eval else [])]:
        config: Any = env_of(source)
        runs_code = config.agent.harness.id != "null"
        assert config.agent.harness.id in ("bash", "null")
        assert config.taskset.closed_egress == runs_code
        assert config.agent.runtime.type in (("docker", "prime") if runs_code else ("subprocess",))
        assert (config.taskset.context == "tools") == (not runs_code)


@every_file
def test_training_sees_what_may_be_trained_on_and_before_the_evaluation(path: Path) -> None:
    run = parsed(path).orchestrator
    for source in run.train.source:
        settings: Any = env_of(source).taskset
        assert (settings.rights, settings.split) == ("granted", "train")
        assert settings.eval_from is not None
    if run.eval is None:
        return
    train = [targets(source) for source in run.train.source]
    for source in run.eval.source:
        held: Any = env_of(source).taskset
        assert held.split == "eval"
        for seen in train:
            assert not seen & targets(source)


def targets(source: Source) -> set[tuple[str, int]]:
    """Series and period of the first draws of a source, on the embedded store."""
    settings: Any = env_of(source).taskset
    stream = NowcastTaskset(settings).stream()
    draws = [stream.draw(n) for n in range(DRAWS)]
    found = {(draw.series_id, draw.period) for draw in draws}
    assert len(found) > DRAWS / 4
    return found


@every_file
def test_a_batch_is_in_flight_at_once_and_an_evaluation_ends(path: Path) -> None:
    run = parsed(path).orchestrator
    assert (run.concurrency.max_inflight or run.batch_size) >= run.batch_size
    if run.eval is not None:
        ends = [run.eval.tasks(source) for source in run.eval.source]  # type: ignore[arg-type]
        assert ends
        assert all(ends)


def test_the_large_files_are_one_run_in_two_spellings() -> None:
    new, old = (parsed(ROOT / f"configs/train/{name}.toml") for name in ("large", "large-2026-08"))
    assert new.ckpt == old.ckpt
    for kind in ("train", "eval"):
        left, right = getattr(new.orchestrator, kind), getattr(old.orchestrator, kind)
        for one, other in zip(left.source, right.source, strict=True):
            assert (one.name, one.env, getattr(one, "ratio", 1.0)) == (
                other.name, other.env, getattr(other, "ratio", 1.0),
            )  # fmt: skip
    sizes = [
        {run.orchestrator.size(source) for source in run.orchestrator.train.source}
        for run in (new, old)
    ]
    assert sizes == [{16}, {16}]


def test_the_large_curriculum_is_one_over_horizons_and_categories() -> None:
    run = parsed(ROOT / "configs/train/large.toml").orchestrator
    settings: list[Any] = [env_of(source).taskset for source in run.train.source]
    assert len({one.max_horizon for one in settings}) == 3
    assert any(one.categories for one in settings)
    assert len({source.ratio for source in run.train.source}) > 1
    assert len({one.seed for one in settings}) == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("orchestrator", "train", "group_size", 7), "no multiple"),
        (("orchestrator", "train", "groupsize", 16), "Extra inputs"),
        (("orchestrator", "concurrency", "max_inflight", 0), "greater than or equal"),
    ],
)
def test_the_schema_refuses_what_prime_rl_refuses(
    change: tuple[str, str, str, int], said: str
) -> None:
    text = tomllib.loads((ROOT / "configs/train/large.toml").read_text())
    table, group, key, value = change
    text[table][group][key] = value
    with pytest.raises(ValidationError, match=said):
        NewRun.model_validate(text)


def test_two_sources_of_one_name_are_refused() -> None:
    text = tomllib.loads((ROOT / "configs/train/large.toml").read_text())
    text["orchestrator"]["train"]["source"][1]["name"] = "near"
    with pytest.raises(ValidationError, match="same name"):
        NewRun.model_validate(text)


def test_files_are_named_as_their_commands_name_them() -> None:
    for path in FILES:
        named = re.findall(r"uv run rl @ (\S+)", path.read_text())
        assert named == [f"configs/train/{path.name}"]
