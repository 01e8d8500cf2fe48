"""The stream: any draw by itself, each target in turn, series mixed by weight, the same anywhere.

`python tests/test_stream.py --write` writes the golden file again; whoever does so raises
`STREAM_VERSION` and says why in the CHANGELOG's "Task stream" section.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nowcast_alfred.errors import ConfigError
from nowcast_alfred.store import publish
from nowcast_alfred.stream import MAX_BLOCK, MIN_BLOCK, STREAM_VERSION, Stream, deal, describe
from nowcast_alfred.targets import SpaceConfig
from nowcast_alfred.taskset import NowcastConfig, NowcastTaskset
from panels import meta, plain, small_inputs, small_store, store_of

GOLDEN = Path(__file__).parent / "golden" / "stream_keys.txt"
FAR = 10_000_000


@lru_cache(maxsize=64)
def stream_of(**settings: Any) -> Stream:
    return Stream(small_store(), SpaceConfig(**settings))


@lru_cache(maxsize=8)
def stream_with(weights: tuple[float, ...]) -> Stream:
    """A stream over as many alike series as there are weights."""
    ids = [f"S{i:03}" for i in range(len(weights))]
    store = store_of(*((meta(key), plain()) for key in ids))
    config = SpaceConfig(min_history=1, weights=dict(zip(ids, weights, strict=True)))
    return Stream(store, config)


# --- A pure function of its position


def test_a_draw_needs_no_earlier_one() -> None:
    positions = [*range(300), *(random.Random(1).randrange(FAR) for _ in range(300)), FAR]
    in_order = Stream(small_store(), SpaceConfig())
    expected = {n: in_order.draw(n) for n in sorted(positions)}
    other = Stream(small_store(), SpaceConfig())
    random.Random(2).shuffle(positions)
    assert [other.draw(n) for n in positions] == [expected[n] for n in positions]


@given(st.integers(0, FAR))
def test_any_draw_is_that_of_a_stream_that_drew_nothing_else(n: int) -> None:
    assert Stream.draw(fresh(), n) == stream_of().draw(n)


def fresh() -> Stream:
    """A stream whose caches are empty; building its space again would take long."""
    stream = Stream.__new__(Stream)
    held = stream_of()
    vars(stream).update(vars(held))
    stream._deck, stream._order = held._shuffle_block, held._permute  # type: ignore[assignment]
    return stream


def test_the_nth_of_the_sequence_is_the_nth_draw() -> None:
    stream = Stream(small_store(), SpaceConfig())
    for start in (0, 63, 64, 4_096, 1_280_000):
        walked = [stream.draw(n) for n in range(start, start + 130)]
        assert [draw.n for draw in walked] == list(range(start, start + 130))
        for offset in (0, 1, 64, 129):
            assert Stream(small_store(), SpaceConfig()).draw(start + offset) == walked[offset]


def test_a_position_before_the_first_is_refused() -> None:
    with pytest.raises(ConfigError, match="positions start at 0"):
        stream_of().draw(-1)


@settings(max_examples=300)
@given(st.integers(0, FAR))
def test_every_draw_is_a_target_within_its_window(n: int) -> None:
    stream = stream_of(split="all")
    draw = stream.draw(n)
    targets = stream.space.series[draw.series_id]
    at = int(np.searchsorted(targets.period, draw.period))
    assert (targets.period[at], targets.release[at]) == (draw.period, draw.release)
    assert targets.low[at] <= draw.as_of <= targets.high[at] < draw.release
    assert stream.space.usable(draw.series_id, draw.as_of)


def test_a_day_whose_scale_is_zero_is_not_asked_on() -> None:
    """A revision on 2012-03-20 is the first thing that ever moved."""
    rows = [(period, vintage, 5.0) for period, vintage, _ in plain()]
    rows.append(("2012-02-01", "2012-03-20", 6.0))
    stream = Stream(store_of((meta("X"), rows)), SpaceConfig(min_history=1))
    march = next(d for d in map(stream.draw, range(50)) if describe(d).startswith("X 2012-03-01"))
    low = int(stream.space.series["X"].low[0])
    assert describe(march)[15:] >= "2012-03-20"
    assert not stream.space.usable("X", low)
    assert all(stream.space.usable("X", stream.draw(n).as_of) for n in range(500))


def test_all_days_of_a_window_are_asked_on() -> None:
    stream = stream_of(series=("OUTPUT",))
    share = Counter()
    for n in range(3000):
        draw = stream.draw(n)
        targets = stream.space.series["OUTPUT"]
        at = int(np.searchsorted(targets.period, draw.period))
        low, high = int(targets.low[at]), int(targets.high[at])
        share[int(10 * (draw.as_of - low) / (high - low + 1))] += 1
    assert all(220 < share[tenth] < 380 for tenth in range(10)), share  # +-5 standard deviations


# --- Each target in turn


def test_no_target_comes_twice_before_all_came_once() -> None:
    stream = stream_of()
    seen: dict[str, list[int]] = {key: [] for key in stream.space.series}
    for n in range(64 * 60):
        draw = stream.draw(n)
        seen[draw.series_id].append(draw.period)
    orders = []
    for key, periods in seen.items():
        everything = set(stream.space.series[key].period.tolist())
        size = len(everything)
        rounds = [periods[i : i + size] for i in range(0, len(periods) - size + 1, size)]
        assert all(set(part) == everything for part in rounds)
        assert len(set(periods[len(rounds) * size :])) == len(periods) - len(rounds) * size
        assert all(a != b for a, b in pairwise(rounds)), key  # a new order
        orders += rounds
    assert all(part != sorted(part) for part in orders)


def test_a_target_of_a_far_round_comes_once_too() -> None:
    stream = stream_of(series=("EMP", "OUTPUT"))
    size = len(stream.space.series["OUTPUT"].period)
    start = 64 * 100_003
    found = [d for n in range(start, start + 8 * size) if (d := stream.draw(n)).series_id != "EMP"]
    first = (start // 64) * 32 % size  # where in its round the first of them stands
    rest = found[(size - first) % size :]
    assert len(rest) >= 2 * size
    for i in range(0, len(rest) - size + 1, size):
        assert len({draw.period for draw in rest[i : i + size]}) == size


# --- The deck


weight_lists = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=40)


@given(weight_lists)
def test_a_block_is_dealt_by_largest_remainder(weights: list[float]) -> None:
    try:
        cards = deal(weights)
    except ConfigError:
        assert sum(weights) / min(weights) > MAX_BLOCK - 1
        return
    block, total = sum(cards), math.fsum(weights)
    assert MIN_BLOCK <= block <= MAX_BLOCK + MIN_BLOCK
    assert min(cards) >= 1
    quotas = [block * weight / total for weight in weights]
    assert all(abs(card - quota) < 1 for card, quota in zip(cards, quotas, strict=True))
    remainders = [quota - math.floor(quota + 1e-9) for quota in quotas]
    given_one = [r for r, c, q in zip(remainders, cards, quotas, strict=True) if c > q + 1e-9]
    kept = [r for r, c, q in zip(remainders, cards, quotas, strict=True) if c <= q + 1e-9]
    assert not given_one or not kept or min(given_one) >= max(kept) - 1e-9


@given(weight_lists, st.floats(0.1, 1000.0))
def test_only_the_ratio_of_weights_matters(weights: list[float], factor: float) -> None:
    power = 2.0 ** round(math.log2(factor))
    try:
        expected = deal(weights)
    except ConfigError:
        return
    assert deal([weight * power for weight in weights]) == expected


@given(weight_lists)
def test_more_weight_never_gets_fewer_cards(weights: list[float]) -> None:
    try:
        cards = deal(weights)
    except ConfigError:
        return
    ordered = sorted(zip(weights, cards, strict=True))
    assert all(a[1] <= b[1] or a[0] == b[0] for a, b in pairwise(ordered))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 33, 64, 65, 150, 1000, MAX_BLOCK])
def test_equal_weights_are_dealt_equally(count: int) -> None:
    cards = deal([0.3] * count)
    assert len(set(cards)) == 1
    assert sum(cards) >= MIN_BLOCK


def test_a_weight_too_small_to_deal_is_refused() -> None:
    with pytest.raises(ConfigError, match="use 0 to leave a series out"):
        deal([1.0, 1.0 / (2 * MAX_BLOCK)])
    assert deal([1.0, 1.0 / (MAX_BLOCK - 2)])[1] == 1


WEIGHTS = [
    (1.0,),
    (1.0, 1.0, 2.0),
    (0.1, 1.0, 10.0),
    (5.0, 3.0, 0.7, 0.31, 1.0),
    (1.0,) * 16,
    (1.0,) * 33,
    (3.0, *(1.0,) * 20),
    (1.0,) * 100,
]


@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda w: f"{len(w)} series")
def test_every_block_holds_each_series_by_its_weight(weights: tuple[float, ...]) -> None:
    stream = stream_with(weights)
    ids, size = list(stream.space.series), sum(stream.cards)
    assert stream.cards == deal(list(weights))
    for block in (0, 1, 2, 12_345):
        which, _ = stream._deck(block)
        counts = Counter(stream.draw(n).series_id for n in range(block * size, (block + 1) * size))
        assert [counts[key] for key in ids] == stream.cards
        assert counts == Counter(ids[i] for i in which.tolist())


@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda w: f"{len(w)} series")
def test_any_64_neighbours_are_well_mixed(weights: tuple[float, ...]) -> None:
    """Within 64 neighbours a series with share s of the cards, of S series in all, comes more than
    s(64 - 2S) - 2 and fewer than s(64 + 2S) + 2 times.

    Proof. Put block b on the interval [b, b+1). Card j of a series with c cards lies at a place of
    its own slice, [b + j/c, b + (j+1)/c), and the stream takes the cards in order of place. Let 64
    neighbours span an interval of length L. A series has a card for each slice that lies within it,
    which are more than cL - 2, and for no slice that it does not touch, which leaves fewer than
    cL + 2. Summed over all series, with B cards a block: BL - 2S < 64 < BL + 2S, so that L lies
    between (64 - 2S)/B and (64 + 2S)/B; and c/B = s.

    With equal weights, s = 1/S: fewer than 64/S + 4, and more than 64/S - 4. So 16 series or more
    each come at most seven times in 64, and 16 or fewer each come at least once.
    """
    stream = stream_with(weights)
    count, size = len(weights), sum(stream.cards)
    total = max(4 * size, 1000)
    decks = [stream._deck(block)[0] for block in range(math.ceil(total / size))]
    order = np.concatenate(decks)
    for series, cards in enumerate(stream.cards):
        share = cards / size
        found = np.convolve(order == series, np.ones(64, dtype=int), mode="valid")
        assert found.max() < share * (64 + 2 * count) + 2
        assert found.min() > share * (64 - 2 * count) - 2
        if len(set(weights)) == 1 and count >= 16:
            assert found.max() <= 7
        if len(set(weights)) == 1 and count <= 16:
            assert found.min() >= 1


def test_the_order_of_a_block_is_no_other_block_s() -> None:
    stream = stream_with((1.0,) * 16)
    decks = {tuple(stream._deck(block)[0].tolist()) for block in range(50)}
    assert len(decks) == 50


# --- What the order depends on


def first(stream: Stream, count: int = 64) -> list[str]:
    return [describe(stream.draw(n)) for n in range(count)]


def test_another_seed_gives_another_order_over_the_same_targets() -> None:
    one, two = stream_of(seed=0), stream_of(seed=1)
    assert one.name != two.name
    same = sum(a == b for a, b in zip(first(one, 640), first(two, 640), strict=True))
    assert same < 10
    assert {k: t.period.tolist() for k, t in one.space.series.items()} == {
        k: t.period.tolist() for k, t in two.space.series.items()
    }


def test_another_store_gives_another_order() -> None:
    rows = plain()
    one = Stream(store_of((meta("X"), rows)), SpaceConfig(min_history=1))
    two = Stream(store_of((meta("X", title="Renamed"), rows)), SpaceConfig(min_history=1))
    assert one.key != two.key


@pytest.mark.parametrize(
    "settings",
    [
        {"baseline": "mean_12"},
        {"context": "prompt"},
        {"closed_egress": False},
        {"store": "/somewhere/else"},
        {"id": "another-name"},
    ],
)
def test_settings_that_choose_no_tasks_change_no_draw(settings: dict[str, Any]) -> None:
    stream = Stream(small_store(), NowcastConfig(**settings))
    assert stream.key == stream_of().key
    assert first(stream) == first(stream_of())


@pytest.mark.parametrize(
    "settings",
    [
        {"min_history": 37},
        {"max_horizon": 60},
        {"exclude_series": ["EMP"]},
        {"weights": {"EMP": 2.0}},
        {"split": "all"},
        {"eval_from": "2018-01-01"},
    ],
)
def test_settings_that_choose_tasks_change_the_stream(settings: dict[str, Any]) -> None:
    assert Stream(small_store(), SpaceConfig(**settings)).key != stream_of().key


def test_every_setting_of_the_space_is_part_of_the_key() -> None:
    other: dict[str, Any] = {
        "series": sorted(stream_of().space.series),
        "exclude_series": ["GONE"],
        "categories": ["labour"],
        "frequencies": ["m"],
        "rights": "granted",
        "split": "all",
        "eval_from": "2018-01-01",
        "holdout_series": ["EMP"],
        "as_of_min": "2000-01-01",
        "as_of_max": "2030-01-01",
        "model_cutoff": "2000-01-01",
        "max_horizon": 119,
        "min_history": 35,
        "weights": {"EMP": 1.0},
        "seed": 1,
    }
    only = {"scale"}  # there is but one choice
    assert set(other) | only == set(SpaceConfig.model_fields)
    keys = {name: Stream(small_store(), SpaceConfig(**{name: v})).key for name, v in other.items()}
    assert len({stream_of().key, *keys.values()}) == 1 + len(keys)


# --- The golden file


def golden() -> str:
    stream = Stream(small_store(), SpaceConfig())
    head = f"fingerprint {small_store().fingerprint} stream {stream.name}"
    return "\n".join([head, *first(stream)]) + "\n"


def test_the_first_64_draws_are_those_of_the_golden_file() -> None:
    held, now = GOLDEN.read_text(), golden()
    _, fingerprint, _, name = held.splitlines()[0].split()
    assert small_store().fingerprint == fingerprint, "the small store of panels.py changed"
    assert name.startswith(f"v{STREAM_VERSION}-"), "STREAM_VERSION changed: write the file again"
    assert now == held, "the draws changed: raise STREAM_VERSION and say so in the CHANGELOG"


# --- The same in any process

PROBE = """
import itertools, json, sys
from nowcast_alfred.taskset import NowcastConfig, NowcastTaskset
tasks = NowcastTaskset(NowcastConfig(store=sys.argv[1])).load()
print(json.dumps([[t.key, t.hash] for t in itertools.islice(tasks, 64)]))
"""
ELSEWHERE = [
    {"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati", "LC_ALL": "tr_TR.UTF-8"},
    {"PYTHONHASHSEED": "2", "TZ": "America/Los_Angeles", "LC_ALL": "C", "OMP_NUM_THREADS": "1"},
]


@pytest.fixture(scope="module")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream") / "store"
    publish(folder, small_inputs())
    return folder


def test_keys_and_hashes_of_tasks_are_the_same_in_any_process(
    small_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = small_folder.parent / "cache"
    monkeypatch.setenv("NOWCAST_ALFRED_CACHE", str(cache))
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROBE, str(small_folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
            cwd=small_folder.parent,
        )
        for environment in ELSEWHERE
    ]
    tasks = NowcastTaskset(NowcastConfig(store=str(small_folder))).load()
    here = [[task.key, task.hash] for task, _ in zip(tasks, range(64), strict=False)]
    for process in started:
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert json.loads(output) == here
    assert len({key for key, _ in here}) == 64
    pinned = GOLDEN.read_text().splitlines()[1:]
    assert [key.split("#")[0].replace(":", " ", 1).replace("@", " @ ") for key, _ in here] == pinned


def test_a_task_without_data_is_skipped_without_reading_the_store(
    small_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOWCAST_ALFRED_CACHE", str(small_folder.parent / "cache"))
    taskset = NowcastTaskset(NowcastConfig(store=str(small_folder)))
    draws: list[int] = []
    held: Callable[..., Any] = Stream.draw
    monkeypatch.setattr(Stream, "draw", lambda self, n: draws.append(n) or held(self, n))
    for n, task in zip(range(100_001), taskset.load(), strict=False):
        if n in (99_999, 100_000):
            assert task.data.draw == n
    assert draws == [99_999, 100_000]


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("python tests/test_stream.py --write")
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(golden())
