"""Warm-start data: what prime-rl loads, what rows say, what they may not know, what is refused."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import math
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import jsonschema
import numpy as np
import pytest
import verifiers.v1 as vf
from datasets import load_dataset
from pydantic import BaseModel, ConfigDict, Field

from commands import ROOT, eval_config, only_run, run
from nowcast_alfred import answers, served, tools
from nowcast_alfred.baselines import BASELINES
from nowcast_alfred.choice import known_on
from nowcast_alfred.cli import main
from nowcast_alfred.data import NowcastState
from nowcast_alfred.errors import ConfigError, InputError, NowcastError
from nowcast_alfred.lab.policy import PolicyServer
from nowcast_alfred.lab.sampling import read_settings
from nowcast_alfred.lab.sft import (
    NETWORK_NOTICE,
    Desk,
    Split,
    generate,
    opening,
)
from nowcast_alfred.lab.sft_dialogue import converse
from nowcast_alfred.lab.sft_rows import DATA, MANIFEST, Export, Row, write
from nowcast_alfred.lab.sft_run import _barred, from_run
from nowcast_alfred.lab.sft_trial import METHODS, Question, read_table, try_methods
from nowcast_alfred.locate import embedded_store, opened
from nowcast_alfred.opaque import agent_view, as_shown
from nowcast_alfred.periods import PERIODS_PER_YEAR, iso
from nowcast_alfred.store import SeriesInput, VintageStore, publish
from nowcast_alfred.stream import Draw, Stream
from nowcast_alfred.targets import SpaceConfig
from nowcast_alfred.task import NowcastTask, make_data
from nowcast_alfred.taskset import NowcastConfig, NowcastTaskset
from nowcast_alfred.tools import CatalogToolsetConfig
from panels import small_series, small_store
from rollouts import score
from test_leaks import Peeking, poisoned, truncated

COUNT = 150
EVAL_FROM = "2020-01-01"


def taskset(**settings: Any) -> NowcastTaskset:
    given = {"eval_from": EVAL_FROM, "closed_egress": False, **settings}
    return NowcastTaskset(NowcastConfig.model_validate(given))


@pytest.fixture(scope="module")
def quantiles() -> Export:
    """Rows that say everything a row can say."""
    return generate(taskset(elicit="quantiles"), COUNT)


@pytest.fixture(scope="module")
def folder(quantiles: Export, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, written."""
    path = tmp_path_factory.mktemp("sft")
    write(quantiles, path)
    return path


def tasks_of(rows: list[Row], source: NowcastTaskset) -> list[NowcastTask]:
    """The tasks of rows, drawn again."""
    stream = source.stream()
    build = source.builder(stream)
    places = [row["task"].partition(f"#{stream.name}:")[2] for row in rows]
    return [NowcastTask(build(int(place)), source.config.task) for place in places]


def calls_of(row: Row) -> list[tuple[str, dict[str, Any], str]]:
    """Name, arguments and answer of every call, by the ids that tie them."""
    answered = {m["tool_call_id"]: m for m in row["messages"] if m["role"] == "tool"}
    made = [call for m in row["messages"] for call in m.get("tool_calls") or []]
    assert {call["id"] for call in made} == set(answered)
    assert all(answered[c["id"]]["name"] == c["function"]["name"] for c in made)
    return [
        (
            c["function"]["name"],
            json.loads(c["function"]["arguments"]),
            answered[c["id"]]["content"],
        )
        for c in made
    ]


def reply_of(row: Row) -> str:
    assert row["messages"][-1]["role"] == "assistant"
    return str(row["messages"][-1]["content"])


def without_nulls(value: Any) -> Any:
    """As prime-rl reads a message: keys that Arrow filled with null are dropped."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


# --- What is loaded


def test_prime_rl_loads_the_folder_as_it_is(
    folder: Path, quantiles: Export, tmp_path: Path
) -> None:
    loaded = load_dataset(str(folder), None, split="train", cache_dir=str(tmp_path))
    assert len(loaded) == COUNT
    assert loaded.column_names[:2] == ["messages", "tools"]
    for row, kept in zip(loaded, quantiles.rows, strict=True):
        assert without_nulls(row["messages"]) == kept["messages"]
        assert {**row, "messages": None} == {**kept, "messages": None}


def test_the_parquet_loader_reads_the_same(folder: Path, tmp_path: Path) -> None:
    files = str(folder / DATA)
    loaded = load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path))
    assert [json.loads(text)[0]["type"] for text in loaded["tools"]] == ["function"] * COUNT


def test_every_call_fits_the_schema_that_the_row_shows(quantiles: Export) -> None:
    for row in quantiles.rows:
        shown = {tool["function"]["name"]: tool["function"] for tool in json.loads(row["tools"])}
        for name, arguments, _ in calls_of(row):
            schema = shown[name]["parameters"]
            jsonschema.validate(arguments, {**schema, "additionalProperties": False})


def test_a_row_is_a_conversation(quantiles: Export) -> None:
    for row in quantiles.rows:
        roles = [message["role"] for message in row["messages"]]
        assert roles == ["user", *["assistant", "tool"] * len(calls_of(row)), "assistant"]
        assert all(message["content"] for message in row["messages"])


def test_the_manifest_counts_the_rows(folder: Path, quantiles: Export) -> None:
    about = json.loads((folder / MANIFEST).read_text())
    data = (folder / DATA).read_bytes()
    assert about["sha256"] == hashlib.sha256(data).hexdigest()
    assert about["rows"] == COUNT == sum(about["method"].values())
    assert about["store"] == opened(embedded_store()).fingerprint
    assert about["settings"]["eval_from"] == EVAL_FROM
    assert about["mean_reward"] == pytest.approx(np.mean([r["reward"] for r in quantiles.rows]))
    assert about["training"] == {"granted": COUNT}
    assert about["not_granted"] == 0
    assert str(Path.home()) not in json.dumps(about)


# --- What the rows are worth


@pytest.mark.parametrize("elicit", ["point", "interval", "quantiles"])
def test_every_reply_earns_what_its_row_states(elicit: answers.Elicit) -> None:
    source = taskset(elicit=elicit)
    rows = generate(source, 40).rows
    for row, task in zip(rows, tasks_of(rows, source), strict=True):
        trace = score(task, reply_of(row))
        assert trace.metrics["parsed"] == 1.0
        assert trace.reward == row["reward"]
        assert task.key == row["task"]


def test_other_weights_are_the_rewards_stated() -> None:
    off = {"beats_baseline": {"weight": 0.0}}
    source = taskset(task={"rewards": {**off, "scaled_error": {"weight": 1.0}}})
    rows = generate(source, 5).rows
    for row, task in zip(rows, tasks_of(rows, source), strict=True):
        assert row["reward"] == score(task, reply_of(row)).reward <= 0.0


def test_all_rows_are_kept_unless_asked_otherwise() -> None:
    plain, chosen = generate(taskset(), 40), generate(taskset(), 10, min_reward=0.3)
    assert min(row["reward"] for row in plain.rows) < 0.0
    assert min(row["reward"] for row in chosen.rows) >= 0.3
    assert chosen.rows == [row for row in plain.rows if row["reward"] >= 0.3][:10]
    assert chosen.about["passed_over"]["below min_reward"] > 0


def test_the_intervals_hold_about_as_often_as_they_say() -> None:
    source = taskset(elicit="quantiles")
    rows, store = generate(source, 400).rows, opened(embedded_store())
    inside = []
    for row, task in zip(rows, tasks_of(rows, source), strict=True):
        data = task.data
        y = store.outcome(data.series_id, data.reference_period, data.transform).first
        q = answers.parse(reply_of(row), "quantiles", data.units).quantiles or {}
        inside.append([q[0.10] <= y <= q[0.90], q[0.25] <= y <= q[0.75]])
    wide, narrow = np.mean(inside, axis=0)
    # Chosen after a trial, on revised values: a little short of the nominal 0.8 and 0.5.
    assert 0.7 < wide < 0.9
    assert 0.4 < narrow < 0.6


# --- What the rows say

REFERENCES = {
    "the newest value": lambda x, season: x[-1],
    "zero (no change)": lambda x, season: 0.0,
    "the mean of the last 3": lambda x, season: np.mean(x[-3:]),
    "the mean of the last 12": lambda x, season: np.mean(x[-12:]),
    "the median of the last 12": lambda x, season: np.median(x[-12:]),
    "the value a year before": lambda x, season: x[-season],
}
NUMBER = r"-?\d+(?:\.\d+)?"


class Heard:
    """What a row's target answer said, read and worked out here by other means."""

    def __init__(self, row: Row, task: NowcastTask) -> None:
        self.row, self.task, self.reply = row, task, reply_of(row)
        ((_, arguments, answer),) = [c for c in calls_of(row) if c[0] == "catalog_observations"]
        view = opened(embedded_store()).view(row["as_of"])
        assert answer == served.observations(view, **arguments)
        known = view.observations(row["series_id"], units=task.data.transform)
        raw = known.value[-arguments["last"] :]
        self.step = np.abs(np.diff(raw)).mean()
        self.decimals = max(0, 2 - math.floor(math.log10(self.step)))
        self.unit = 1.01 * 10.0**-self.decimals
        self.x = np.round(raw, self.decimals)
        self.count = min(19, len(self.x) - 12)

    def ahead(self, method: str, stop: int | None = None) -> float:
        season = PERIODS_PER_YEAR[self.task.data.frequency]
        return float(REFERENCES[method](self.x[:stop], season))

    def misses(self, method: str) -> np.ndarray:
        places = range(len(self.x) - self.count, len(self.x))
        found = np.array([abs(self.x[i] - self.ahead(method, i)) for i in places])
        return np.sort(found.round(self.decimals))

    def averages(self) -> dict[str, float]:
        """What the reply says of each method."""
        (sentence,) = re.findall(r"[^\n]* for the newest value[^\n]*?[.] (?=[A-Z])", self.reply)
        names = "|".join(map(re.escape, REFERENCES))
        return {
            name: float(size) for size, name in re.findall(f"({NUMBER}) for ({names})", sentence)
        }


@pytest.fixture(scope="module")
def heard(quantiles: Export) -> list[Heard]:
    tasks = tasks_of(quantiles.rows, taskset(elicit="quantiles"))
    return [Heard(row, task) for row, task in zip(quantiles.rows, tasks, strict=True)]


def test_the_average_misses_are_those_of_the_values_served(heard: list[Heard]) -> None:
    for one in heard:
        said = one.averages()
        assert len(said) >= 4
        for method, size in said.items():
            assert size == pytest.approx(one.misses(method).mean(), abs=2 * one.unit)


def test_the_method_with_the_smallest_average_miss_is_taken(heard: list[Heard]) -> None:
    for one in heard:
        said = one.averages()
        assert said[METHODS[one.row["method"]]] == min(said.values())
        assert f"{METHODS[one.row['method']]}" in one.reply


def test_the_forecast_is_that_method_of_the_store(heard: list[Heard]) -> None:
    store = opened(embedded_store())
    for one in heard:
        data = one.task.data
        known = known_on(store.view(data.as_of), data.series_id, data.transform)
        said = answers.parse(one.reply, "quantiles", data.units).point
        assert said == pytest.approx(one.ahead(METHODS[one.row["method"]]), abs=one.unit)
        assert said == pytest.approx(BASELINES[one.row["method"]](known), abs=0.02 * one.step)


def test_the_spread_is_that_of_the_misses(heard: list[Heard]) -> None:
    for one in heard:
        misses = one.misses(METHODS[one.row["method"]])
        (listed,) = re.findall(r"(?:by size:|size, are) ((?:[\d.]+, )+[\d.]+)\.", one.reply)
        assert np.allclose([float(size) for size in listed.split(", ")], misses, atol=one.unit)
        n = one.count
        assert n == 19
        q = answers.parse(one.reply, "quantiles", one.task.data.units).quantiles or {}
        ends = [q[0.5] - q[0.1], q[0.5] - q[0.25], q[0.75] - q[0.5], q[0.9] - q[0.5]]
        expected = [misses[15], misses[9], misses[9], misses[15]]
        assert np.allclose(ends, expected, atol=2 * one.unit)
        said = re.findall(rf"within ({NUMBER})", one.reply)
        assert np.allclose([float(size) for size in said], expected[:2], atol=one.unit)


def test_no_number_comes_from_elsewhere(heard: list[Heard]) -> None:
    for one in heard:
        method, recent = METHODS[one.row["method"]], one.x[-12:]
        allowed = [*one.x, *one.misses(method), one.ahead(method), recent.sum(), one.x[-3:].sum()]
        allowed += [one.misses(name).mean() for name in one.averages()]
        allowed += [len(one.x), one.count, 3, 12, PERIODS_PER_YEAR[one.task.data.frequency]]
        body = one.reply.partition("\n\nQUANTILES")[0]
        for name, arguments, answer in calls_of(one.row):
            if name == "catalog_releases":
                allowed += [float(re.findall(r"usually (\S+) days", answer)[0])]
            elif name == "catalog_observations" and isinstance(arguments["series_ids"], list):
                other = read_table(answer, arguments["series_ids"][1])
                body = body.replace(arguments["series_ids"][1], "")
                allowed += [*other.value[-12:], other.round(np.mean(other.value[-12:]))]
        body = re.sub(r"\d{4}-\d\d-\d\d", "", body.replace(one.task.data.period_label, ""))
        for number in map(float, re.findall(NUMBER, body)):
            near = min(abs(number - value) for value in allowed)
            assert near <= 2 * one.unit, (number, one.reply)


def test_wording_and_plans_vary(quantiles: Export) -> None:
    plans = [tuple(name for name, _, _ in calls_of(row)) for row in quantiles.rows]
    assert set(plans) == {
        ("catalog_observations",),
        ("catalog_observations", "catalog_releases"),
        ("catalog_search", "catalog_observations"),
    }
    openings = {re.sub(r"SYN_\w+", "X", row["messages"][1]["content"]) for row in quantiles.rows}
    assert len(openings) >= 12
    assert set(METHODS) == {row["method"] for row in quantiles.rows}


def test_too_short_a_history_is_passed_over() -> None:
    found = generate(taskset(min_history=8, frequencies=["q"]), 60)
    assert found.about["passed_over"]["too few values"] > 0
    assert len(found.rows) == 60


def test_an_opaque_task_is_answered_in_what_it_shows() -> None:
    opaque, plain = generate(taskset(opaque=True), 30), generate(taskset(), 30)
    tasks = tasks_of(opaque.rows, taskset(opaque=True))
    for hidden, shown, task in zip(opaque.rows, plain.rows, tasks, strict=True):
        text = json.dumps(hidden["messages"])
        assert "SYN_" not in text
        assert not re.search(r"\d{4}-\d\d-\d\d", text)
        assert "catalog_search" not in [name for name, _, _ in calls_of(hidden)]
        assert hidden["series_id"] == shown["series_id"]
        assert score(task, reply_of(hidden)).reward == hidden["reward"]


def test_a_prompt_is_read_as_it_is_written() -> None:
    source = taskset()
    build = source.builder(source.stream())
    for n in range(60):
        data = build(n)
        asked = Question.of(str(data.prompt))
        assert (asked.series, asked.title) == (data.series_id, data.title)
        assert (asked.code, asked.frequency) == (data.transform, data.frequency)
        assert asked.label == data.period_label
        meta = opened(embedded_store()).view(data.as_of).meta(data.series_id)
        assert asked.adjusted == (meta.seasonal_adjustment != "Not Seasonally Adjusted")


def test_the_network_notice_is_verifiers_own(tmp_path: Path) -> None:
    (row,) = generate(taskset(closed_egress=True), 1).rows
    assert row["messages"][0] == {"role": "system", "content": NETWORK_NOTICE}
    sources = [path.read_text() for path in Path(inspect.getfile(vf)).parent.glob("*.py")]
    assert any(f'"{NETWORK_NOTICE}"' in text for text in sources)
    (tmp_path / "system.txt").write_text("Be brief.")
    own = taskset(closed_egress=True, system_prompt=str(tmp_path / "system.txt"))
    (row,) = generate(own, 1).rows
    assert row["messages"][0]["content"] == f"Be brief.\n\n{NETWORK_NOTICE}"


# --- Which rows there are


def test_rows_go_on_where_others_end() -> None:
    whole = generate(taskset(), 30)
    head = generate(taskset(), 18)
    tail = generate(taskset(), 12, start=head.about["next"])
    assert [*head.rows, *tail.rows] == whole.rows


def test_no_target_and_day_comes_twice() -> None:
    few = taskset(series=["SYN_GDP"], max_horizon=2)
    found = generate(few, 100)
    ids = {(r["series_id"], r["reference_period"], r["as_of"]) for r in found.rows}
    assert len(ids) == 100
    assert found.about["passed_over"]["repeated"] > 0
    assert found.about["next"] == 100 + sum(found.about["passed_over"].values())
    with pytest.raises(ConfigError, match=r"of 5000 rows: the last 2000 draws gave none"):
        generate(few, 5000)


def test_the_same_bytes_from_any_process(tmp_path: Path) -> None:
    config = tmp_path / "train.toml"
    config.write_text(f'[env.taskset]\nelicit = "interval"\neval_from = {EVAL_FROM}\n')
    hashes = set()
    for seed, zone in (("0", "UTC"), ("7", "Asia/Kolkata")):
        folder = tmp_path / seed
        extra = {"PYTHONHASHSEED": seed, "TZ": zone}
        arguments = ["--config", config, "-n", 25, "--output", folder]
        run(tmp_path, "nowcast-alfred", "sft", *arguments, **extra)
        hashes.add((folder / DATA).read_bytes() + (folder / MANIFEST).read_bytes())
    assert len(hashes) == 1


# --- What the rows may not know


def test_every_row_is_of_the_training_split(quantiles: Export) -> None:
    store = opened(embedded_store())
    evaluated = Stream(store, SpaceConfig(split="eval", eval_from=EVAL_FROM)).space.series
    for row in quantiles.rows:
        outcome = store.outcome(row["series_id"], row["reference_period"], "lin")
        assert row["as_of"] < outcome.first_vintage < EVAL_FROM
        periods = (
            evaluated[row["series_id"]].period.tolist() if row["series_id"] in evaluated else []
        )
        assert row["reference_period"] not in map(iso, periods)
        assert max(re.findall(r"\d{4}-\d\d-\d\d", json.dumps(row["messages"]))) < EVAL_FROM


def test_held_out_series_are_neither_targets_nor_context() -> None:
    held = ["SYN_IPMFG", "SYN_PAYMFG", "SYN_CPICORE"]
    for row in generate(taskset(holdout_series=held), 150).rows:
        read = [a["series_ids"] for name, a, _ in calls_of(row) if name == "catalog_observations"]
        assert not set(held) & set(np.atleast_1d(read[0]))


def test_the_split_names_what_may_not_be_trained_on() -> None:
    config = taskset(holdout_series=["SYN_CPI"]).config
    store = opened(embedded_store())
    split = Split(config, store)
    stream = Stream(store, SpaceConfig(split="all"))
    found = set()
    for n in range(400):
        draw = stream.draw(n)
        role = stream.space.series[draw.series_id].role
        fault = split.fault(make_data(store, draw, role.transform), iso(draw.release))
        barred = draw.series_id == "SYN_CPI" or iso(draw.release) >= EVAL_FROM
        assert (fault is not None) == barred
        found.add(barred)
        if draw.series_id != "SYN_CPI" and iso(draw.as_of) >= EVAL_FROM:
            data = make_data(store, draw, role.transform)
            assert split.fault(data, "1999-01-01") == "it is a target of the evaluation split"
    assert found == {True, False}


class Leaky(NowcastTaskset):
    """A taskset with the fault that the check is for: it says train and draws everything."""

    def load(self) -> Iterator[NowcastTask]:
        return NowcastTaskset(self.config.model_copy(update={"split": "all"})).load()


def test_an_evaluation_draw_stops_the_export() -> None:
    with pytest.raises(NowcastError, match="is no training task: it was released on 202"):
        generate(Leaky(taskset().config), 200)


def conversation(draw: Draw, stream: Stream, store: VintageStore, patch: pytest.MonkeyPatch) -> str:
    """Everything a row says of a draw, with the data of a store."""
    units = stream.space.series[draw.series_id].role.transform
    data = make_data(store, draw, units, stream=stream.name, elicit="quantiles")
    patch.setattr(tools, "opened", lambda uri, fingerprint: store)
    patch.setattr(tools, "store_uri", lambda configured: os.devnull)
    desk = Desk(CatalogToolsetConfig())
    desk.held = NowcastState(as_of=data.as_of, series_id=data.series_id, store=data.store)
    beside = Split(taskset(eval_from=None).config, store).beside(data.series_id)
    dialogue = asyncio.run(converse(str(data.prompt), "quantiles", desk.ask, f"{draw.n}", beside))
    return json.dumps([opening(data), dialogue and [dialogue.messages, dialogue.method]])


def test_later_rows_change_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    store = small_store()
    stream = Stream(store, SpaceConfig(split="all"))
    for draw in map(stream.draw, range(150)):
        said = conversation(draw, stream, store, monkeypatch)
        for twin in (truncated(store, draw.as_of), poisoned(store, draw.as_of)):
            assert conversation(draw, stream, twin, monkeypatch) == said


def test_a_reader_that_looks_ahead_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    store = small_store()
    stream = Stream(store, SpaceConfig(split="all"))
    different = 0
    for draw in map(stream.draw, range(40)):
        bare = Peeking(truncated(store, draw.as_of))
        honest = conversation(draw, stream, Peeking(store), monkeypatch)
        different += conversation(draw, stream, bare, monkeypatch) != honest
    assert different >= 30


# --- Rights


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store on disk in which half of the series may not be trained on."""
    path = tmp_path_factory.mktemp("mixed")
    inputs = []
    for place, (info, rows) in enumerate(small_series().values()):
        training = "prohibited" if place % 2 else "granted"
        renamed = [replace(one, training=training, title=f"Common words {one.id}") for one in info]
        inputs.append(SeriesInput(renamed, rows))
    publish(path, inputs)
    return str(path)


def test_rows_that_may_not_be_trained_on_are_counted_and_said(mixed: str) -> None:
    found = generate(taskset(store=mixed, eval_from=None), 60)
    barred = sum(row["training"] == "prohibited" for row in found.rows)
    assert 0 < barred < 60
    assert found.about["not_granted"] == barred
    said = "\n".join(found.notes())
    assert f"{barred} of 60 rows are of series that may not be trained on" in said
    assert "nothing is held out" in said


def test_values_of_other_rights_are_never_read_beside(mixed: str) -> None:
    store = opened(mixed)
    both = 0
    for row in generate(taskset(store=mixed, eval_from=None), 200).rows:
        for name, arguments, _ in calls_of(row):
            if name == "catalog_observations" and isinstance(arguments["series_ids"], list):
                both += 1
                read = {store.meta(key).training for key in arguments["series_ids"]}
                assert read == {row["training"]}
    assert both > 0


def test_granted_leaves_the_others_out(mixed: str) -> None:
    found = generate(taskset(store=mixed, eval_from=None, rights="granted"), 40)
    assert {row["training"] for row in found.rows} == {"granted"}
    assert not any("may not be trained on" in note for note in found.notes())


# --- Wrong use


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": "eval"}, 'split = "eval": warm-start data come from training draws only'),
        ({"split": "all"}, 'split = "all"'),
        ({"context": "prompt"}, 'context = "prompt": warm-start conversations call'),
        ({"context": "files"}, 'set context = "tools"'),
    ],
)
def test_other_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        generate(taskset(**settings), 1)


def test_counts_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least one row"):
        generate(taskset(), 0)
    with pytest.raises(ConfigError, match="from position 0"):
        generate(taskset(), 1, start=-1)


SOURCES = """
[[orchestrator.train.source]]
name = "near"
env.taskset.id = "nowcast-alfred"
env.taskset.max_horizon = 7
[[orchestrator.train.source]]
name = "far"
env.taskset.id = "nowcast-alfred"
env.taskset.max_horizon = 60
"""


def test_a_source_of_prime_rl_is_found_by_name(tmp_path: Path) -> None:
    path = tmp_path / "rl.toml"
    path.write_text(SOURCES)
    assert read_settings(path, source="far").config.max_horizon == 60
    with pytest.raises(ConfigError, match="one of its train sources: near, far"):
        read_settings(path)
    with pytest.raises(ConfigError, match="one of its train sources: near, far"):
        read_settings(path, source="middle")
    path.write_text('[taskset]\nid = "nowcast-alfred"\n')
    assert read_settings(path).config.split == "train"
    with pytest.raises(ConfigError, match="has no \\[\\[orchestrator"):
        read_settings(path, source="near")


def test_the_shipped_config_for_tools_can_be_exported() -> None:
    source = read_settings(ROOT / "configs/train/tools.toml")
    assert source.config.rights == "granted"
    assert len(generate(source, 2).rows) == 2


def sft(patch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The exit status of the command."""
    patch.setattr(sys, "argv", ["nowcast-alfred", "sft", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_the_command_says_what_is_wrong_and_ends_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, out = tmp_path / "eval.toml", tmp_path / "out"
    config.write_text(f'[env.taskset]\nsplit = "eval"\neval_from = {EVAL_FROM}\n')
    assert sft(monkeypatch, "--config", config, "--output", out) == 2
    assert "training draws only" in capsys.readouterr().err
    assert sft(monkeypatch, "--output", out, "--from-run", tmp_path, "--start", 5) == 2
    assert "--start is a position of the stream" in capsys.readouterr().err
    assert not out.exists()


def test_the_command_shows_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sft(monkeypatch, "-n", 3, "--output", tmp_path) == 0
    shown = capsys.readouterr().out
    assert "for other rows go on with --start 3" in shown
    assert "nothing is held out" in shown
    assert sft(monkeypatch, "-n", 3, "--output", tmp_path, "--json") == 0
    about = json.loads(capsys.readouterr().out)
    assert about.items() <= json.loads((tmp_path / MANIFEST).read_text()).items()


# --- From a run


@pytest.fixture(scope="module")
def canned_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 4 training tasks, 2 rollouts each, by the canned mean of twelve."""
    folder = tmp_path_factory.mktemp("run")
    with PolicyServer("mean-12") as server:
        config = eval_config(
            folder,
            server.base_url,
            embedded_store(),
            num_rollouts="2",
            taskset=f"closed_egress = false\neval_from = {EVAL_FROM}",
            tables="[select]\nlimit = 4",
        )
        run(folder, "vf-eval", "@", config, "--no-rich")
    return only_run(folder)


def edited(folder: Path, run_folder: Path, old: str, new: str, times: int = -1) -> Path:
    """A copy of a run's traces with a text replaced."""
    text = (run_folder / "traces.jsonl").read_text()
    assert old in text
    (folder / "traces.jsonl").write_text(text.replace(old, new, times))
    return folder


@pytest.mark.e2e
def test_a_run_gives_the_conversations_that_were_had(canned_run: Path) -> None:
    source = taskset()
    found = from_run(canned_run, source)
    # Both rollouts of a task said the same, but for the ids of their calls.
    assert [row["task"].rpartition(":")[2] for row in found.rows] == ["0", "1", "2", "3"]
    assert found.about["passed_over"] == {"repeated": 4}
    definitions = asyncio.run(Desk(source.config.tools).definitions())
    for row, task in zip(found.rows, tasks_of(found.rows, source), strict=True):
        data = task.data
        assert row["messages"][:1] == opening(data)
        ((name, arguments, answer),) = calls_of(row)
        assert name == "catalog_observations"
        view = opened(embedded_store()).view(data.as_of)
        assert answer == served.observations(view, **arguments)
        assert row["reward"] == score(task, reply_of(row)).reward
        assert row["method"] == "model:canned/policy"
        shown = sorted(json.loads(row["tools"]), key=lambda tool: tool["function"]["name"])
        assert shown == sorted(definitions, key=lambda tool: tool["function"]["name"])


@pytest.mark.e2e
def test_rows_of_a_run_load_and_do_not_depend_on_the_order_of_its_traces(
    canned_run: Path, tmp_path: Path
) -> None:
    lines = (canned_run / "traces.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "traces.jsonl").write_text("".join(reversed(lines)))
    forth, back = from_run(canned_run, taskset()), from_run(tmp_path, taskset())
    ids = re.compile(r"call_\w+")
    assert ids.sub("", json.dumps(back.rows)) == ids.sub("", json.dumps(forth.rows))
    write(forth, tmp_path / "out")
    loaded = load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    assert [without_nulls(row["messages"]) for row in loaded] == [
        without_nulls(row["messages"]) for row in forth.rows
    ]


@pytest.mark.e2e
def test_rows_of_a_run_can_be_chosen_by_reward_and_count(canned_run: Path) -> None:
    whole = from_run(canned_run, taskset())
    best = max(row["reward"] for row in whole.rows)
    chosen = from_run(canned_run, taskset(), min_reward=best)
    assert [row["reward"] for row in chosen.rows] == [best]
    assert from_run(canned_run, taskset(), count=2).rows == whole.rows[:2]
    with pytest.raises(InputError, match=r"no rollout is left \(passed over: below min_reward: 8"):
        from_run(canned_run, taskset(), min_reward=best + 0.1)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"parsed": 1.0', '"parsed": 0.0', "no forecast: 8"),
        ('"stop_condition": "agent_completed"', '"stop_condition": "max_turns"', "cut short: 8"),
        ('"is_completed": true, "ok": true', '"is_completed": true, "ok": false', "failed: 8"),
    ],
)
def test_rollouts_that_went_wrong_are_passed_over(
    canned_run: Path, tmp_path: Path, old: str, new: str, why: str
) -> None:
    text = (canned_run / "traces.jsonl").read_text()
    compact = old if old in text else old.replace(": ", ":").replace(", ", ",")
    with pytest.raises(InputError, match=why):
        from_run(edited(tmp_path, canned_run, compact, new), taskset())


@pytest.mark.e2e
def test_a_run_in_which_a_held_out_series_was_read_gives_no_row_of_it(
    canned_run: Path, tmp_path: Path
) -> None:
    """It is no target in them, but its values would be trained on all the same."""
    ours = from_run(canned_run, taskset()).rows[0]
    ((_, _, answer),) = calls_of(ours)
    head = answer.partition(" ")[0]
    other = next(key for key in opened(embedded_store()).series_ids if key != head)
    read = edited(tmp_path, canned_run, f'"{head} | ', f'"{other} | 1 value\\n\\n{head} | ')
    assert len(from_run(read, taskset()).rows) == 4
    found = from_run(read, taskset(holdout_series=[other]))
    assert ours["task"] not in {row["task"] for row in found.rows}
    (why,) = set(found.about["passed_over"]) - {"repeated"}
    assert why == "reads a series that is held out or of other rights"


@pytest.mark.parametrize("opaque", [False, True])
def test_held_out_series_are_known_by_the_name_that_the_agent_saw(opaque: bool) -> None:
    source = taskset(holdout_series=["SYN_CPI"], opaque=opaque)
    data = next(iter(source)).data
    seen = agent_view(opened(embedded_store()).view(data.as_of), data.opaque)
    name, _ = as_shown(seen, "SYN_CPI", 0)
    assert (name != "SYN_CPI") == opaque
    assert _barred(data, Split(source.config, opened(embedded_store()))) == {name}


@pytest.mark.e2e
def test_a_run_of_other_tasks_is_refused(canned_run: Path, tmp_path: Path) -> None:
    late = taskset(eval_from="1999-01-01")
    with pytest.raises(InputError, match=r"is no training task \(these settings never draw it\)"):
        from_run(canned_run, late)
    with pytest.raises(ConfigError, match="training draws only"):
        from_run(canned_run, taskset(split="eval"))
    fingerprint = opened(embedded_store()).fingerprint
    other = edited(tmp_path, canned_run, fingerprint, "0" * 64)
    with pytest.raises(InputError, match="was drawn from version 000000000000 of a store"):
        from_run(other, taskset())


@pytest.mark.e2e
def test_a_reward_that_does_not_come_out_again_is_refused(canned_run: Path, tmp_path: Path) -> None:
    row = from_run(canned_run, taskset()).rows[0]
    forecast = re.findall(r"FORECAST: (\S+)", reply_of(row))[0]
    changed = edited(tmp_path, canned_run, f"FORECAST: {forecast}", f"FORECAST: 9{forecast}")
    with pytest.raises(InputError, match=r"beats_baseline = .*, and its reply earns"):
        from_run(changed, taskset())
    with pytest.raises(InputError, match="was another kind of reply elicited"):
        from_run(canned_run, taskset(elicit="quantiles"))


def test_a_folder_without_traces_or_with_other_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"traces\.jsonl is missing"):
        from_run(tmp_path, taskset())
    (tmp_path / "traces.jsonl").write_text('{"no": "episode"}\n')
    with pytest.raises(InputError, match="line 1: not an episode"):
        from_run(tmp_path, taskset())


# --- The config of the training that reads it


class Closed(BaseModel):
    """Keys that are not named are errors, as they are to prime-rl."""

    model_config = ConfigDict(extra="forbid")


class LossMask(Closed):
    system: bool = False
    user: bool = False
    assistant: bool = True
    tool: bool = False


class Data(Closed):
    name: str
    splits: list[str] | None = None
    subsets: list[str] | None = None
    seq_len: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    micro_batch_size: int = Field(1, ge=1)
    pack_function: Literal["cat", "stack"] = "cat"
    shuffle: bool = True
    seed: int = 0
    loss_mask: LossMask = LossMask()


class Named(Closed):
    name: str


class Optim(Closed):
    lr: float = Field(gt=0)


class Checkpoint(Closed):
    interval: int | None = Field(None, ge=1)


class Sft(Closed):
    """The documented keys of prime-rl's SFT of August 2026 that a config here uses."""

    max_steps: int = Field(ge=1)
    model: Named
    data: Data
    optim: Optim
    ckpt: Checkpoint | None = None


CONFIGS = sorted((ROOT / "configs/sft").glob("*.toml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_an_sft_config_reads_what_the_command_in_it_writes(path: Path, quantiles: Export) -> None:
    text = path.read_text()
    config = Sft.model_validate(tomllib.loads(text))
    assert text.startswith("# prime-rl of ")
    assert f"--output {config.data.name}\n" in text
    assert config.data.splits == ["train"]
    assert config.data.loss_mask == LossMask()
    # A token is hardly ever less than a character and a half of such text.
    assert quantiles.about["longest"] / 1.5 < config.data.seq_len
    made_with = re.findall(r"--config (\S+)", text)
    assert [read_settings(ROOT / name).config.context for name in made_with] == ["tools"]


def test_there_is_such_a_config() -> None:
    assert CONFIGS


@pytest.mark.parametrize("opaque", [False, True])
def test_a_year_before_is_not_counted_over_a_month_that_was_never_published(opaque: bool) -> None:
    question = Question("A", "", "January 2020", "m", "lin", adjusted=False)
    months = [f"{2016 + n // 12}-{n % 12 + 1:02d}-01" for n in range(48)]
    when = [str(n - 48) for n in range(48)] if opaque else months
    rows = [f"{at},{1000 + 100 * (n % 12)}" for n, at in enumerate(when)]

    def chosen(rows: list[str]) -> str:
        head = "t,value" if opaque else "date,value"
        trial = try_methods(question, read_table("\n".join(["A | lin", head, *rows]), "A"))
        assert trial is not None
        return trial.method

    assert chosen(rows) == "seasonal_naive"
    assert chosen(rows[:40] + rows[41:]) != "seasonal_naive"
