"""Opaque tasks: nothing an agent reads names, dates or sizes a series, and no reward changes."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import environment, eval_config, run
from nowcast_alfred import NowcastTaskset, opaque, prompts, served
from nowcast_alfred.answers import LEVELS, NAMES, Reply, parse
from nowcast_alfred.catalog import load_catalog
from nowcast_alfred.lab.policy import PolicyServer, answer, rule
from nowcast_alfred.lab.traces import read_run
from nowcast_alfred.locate import embedded_store, opened
from nowcast_alfred.opaque import OpaqueView, Rescaling, agent_view, as_shown, key_of, rescaling
from nowcast_alfred.periods import FREQUENCY_NAMES, UNITS, iso, to_date, to_days, unit_text
from nowcast_alfred.sources.files import read_long
from nowcast_alfred.store import AsOfView, VintageStore
from nowcast_alfred.stream import Draw, Stream
from nowcast_alfred.targets import SpaceConfig
from nowcast_alfred.task import NowcastTask
from nowcast_alfred.taskset import NowcastConfig
from panels import small_series, small_store
from rollouts import score
from test_leaks import poisoned, truncated

ROOT = Path(__file__).resolve().parents[1]
DRAWS = 5000
SMALL = small_store()
ELICIT = ("point", "interval", "quantiles")
PERCENT = ("pch", "pc1", "pca")


def tasks(count: int, **config: object) -> list[NowcastTask]:
    config = {"id": "nowcast-alfred", "opaque": True, "closed_egress": False, **config}
    return list(NowcastTaskset(NowcastConfig(**config)).take(count))


def disguised(store: VintageStore, as_of: str, key: str = "k") -> OpaqueView:
    view = agent_view(store.view(as_of), key)
    assert isinstance(view, OpaqueView)
    return view


# --- What is served names nothing

ANSWERS = """
error: unknown withdrawn category numbers seasonal title frequency match older ones skip vintages
periods_later write each clock where column vintage search those last usually released whole more
transform record
"""
TEMPLATES = " ".join(
    [prompts.TASK, *prompts.REPLIES.values(), prompts.TOOLS, prompts.FILES, prompts.NONE]
    + [prompts.HIDDEN, served.HIDDEN_NAMES, opaque.TODAY, opaque.UNITS]
    + [unit_text(code, "", frequency) for code in UNITS for frequency in FREQUENCY_NAMES]
    + [*FREQUENCY_NAMES.values(), "Not Seasonally Adjusted, adjustment not stated", ANSWERS]
)
WORDS = set(re.findall(r"[a-z][a-z_0-9]{3,}", TEMPLATES.lower()))
"""Every word of four letters or more that an opaque text may hold: those of the templates."""
ID = re.compile(rf"\b[SRC][{opaque.ALPHABET}]{{5}}\b")
DATES = re.compile(
    r"\d{4}-\d\d|\b(?:19|20)\d\d Q\d"
    r"|\b(?:January|February|March|April|June|July|August|September|October|November|December)\b"
)


def check_words(text: str, store: VintageStore) -> None:
    """No id of the store, no date, and no word that is not of the templates."""
    rest = ID.sub(" ", text)
    assert DATES.search(rest) is None, DATES.search(rest)
    words = set(re.findall(r"[A-Za-z][A-Za-z_0-9]{3,}", rest))
    assert not words & set(store.series_ids)
    assert {word.lower() for word in words} <= WORDS, {w.lower() for w in words} - WORDS


def tables(text: str) -> list[tuple[str, str, list[tuple[int, str]]]]:
    """(series, units, rows) of each table in an answer of `observations` or in a prompt."""
    found = []
    for block in text.split("\n\n"):
        head, *rows = block.split("\n")
        pairs = [row.split(",") for row in rows if re.fullmatch(r"-?\d+,\S+", row)]
        series = ID.search(head)
        code = re.search(r"\| (\w{3}):", head)
        if pairs and series and code:
            found.append((series[0], code[1], [(int(t), value) for t, value in pairs]))
    return found


def figures(text: str) -> int:
    """Significant digits of a number."""
    return len(text.lstrip("-").replace(".", "").strip("0"))


def check_numbers(text: str, view: OpaqueView, plain: AsOfView) -> int:
    """No row of an answer shows the number that the store has; how many rows were compared."""
    compared = 0
    for shown, code, rows in tables(text):
        real = view._real[shown]
        raw = plain.observations(real, units=code)  # type: ignore[arg-type]
        at = dict(zip(view.clock(real, raw.period).tolist(), raw.value.tolist(), strict=True))
        for t, value in rows:
            held = served.number(at[t])
            if figures(held) >= 4:
                assert value != held, (real, code, t)
                compared += 1
    return compared


def everything(view: OpaqueView, target: str, period: int, units: Any) -> list[str]:
    """Answers of every tool about the target and another series, odd questions, and the files."""
    other = view.series()[len(view.series()) // 2].id
    texts = [served.observations(view, [target, other], code, last=60) for code in UNITS]
    texts += [served.observations(view, [target], units, start="-9", end="-2")]
    texts += [served.observations(view, [target], "lin", last=2)]  # says how to page
    texts += [served.search(view), served.search(view, target), served.search(view, "zzz")]
    for key in (target, other):
        texts += [served.series(view, key), served.revisions(view, key)]
        texts += [served.releases(view, key), served.revisions(view, key, "-3")]
        texts += [served.revisions(view, key, "9")]
    texts += [served.observations(view, "zzz"), served.observations(view, target, "zzz")]
    texts += [served.observations(view, target, start="zzz"), served.releases(view, "zzz")]
    texts += [f"{name}\n{text}" for name, text in served.staged_files(view, target, units).items()]
    return [text.replace("'zzz'", "") for text in texts]


def check_store(store: VintageStore, draws: int, tools_every: int, files_every: int) -> None:
    stream = Stream(store, SpaceConfig(split="all"))
    compared = 0
    for n in range(draws):
        draw = stream.draw(n)
        units = stream.space.series[draw.series_id].role.transform
        plain = store.view(iso(draw.as_of))
        view = disguised(store, iso(draw.as_of), key_of(f"{stream.name}:{n}"))
        target, period = as_shown(view, draw.series_id, draw.period)
        context = ("prompt", "tools", "files", "none")[n % 4]
        check_words(prompts.build(view, target, period, units, context), store)  # type: ignore[arg-type]
        own = served.observations(view, target, units)
        compared += check_numbers(own, view, plain)
        if n % tools_every == 0:
            texts = everything(view, target, period, units)
            for text in texts if n % files_every == 0 else [t for t in texts if "csv" not in t]:
                check_words(text, store)
                compared += check_numbers(text, view, plain)
    assert compared > draws


def synthetic_store() -> VintageStore:
    return opened(embedded_store())


def test_nothing_served_of_the_embedded_store_tells_what_it_is() -> None:
    check_store(synthetic_store(), DRAWS, tools_every=100, files_every=500)


@pytest.mark.real
def test_nothing_served_of_the_real_panel_tells_what_it_is(real_data: Path) -> None:
    catalog = load_catalog(ROOT / "catalogs" / "us-macro.toml")
    panel = read_long(real_data / "us_panel_2016_2025.parquet", catalog)
    store = VintageStore.from_tables(
        {info[0].id: table for info, table in panel}, [row for info, _ in panel for row in info]
    )
    check_store(store, DRAWS, tools_every=100, files_every=500)


def test_the_words_allowed_are_those_of_no_series() -> None:
    known = {
        word.lower()
        for meta in synthetic_store().view("2019-01-31").series()
        for word in re.findall(r"[A-Za-z]{4,}", f"{meta.title} {meta.release} {meta.category}")
    }
    assert {"synthetic", "unemployment", "prices", "labour"} <= known - WORDS
    # Also in the templates, or a word of a title that a template may use.
    assert len(known & WORDS) <= 0.1 * len(known), known & WORDS


def test_the_check_can_fail() -> None:
    store = synthetic_store()
    view = disguised(store, "2012-05-15")
    plain = store.view("2012-05-15")
    for text in (served.series(plain, "SYN_PAYROLL"), served.releases(plain, "SYN_PAYROLL")):
        with pytest.raises(AssertionError):
            check_words(text, store)
    shown = view.shown_id("SYN_PAYROLL")
    said = served.observations(plain, "SYN_PAYROLL").replace("SYN_PAYROLL", shown)
    rows = iter(range(-36, 0))
    raw = re.sub(r"(?m)^\d{4}-\d\d-\d\d", lambda _: str(next(rows)), said)
    with pytest.raises(AssertionError):
        check_numbers(raw, view, plain)


def test_a_real_id_or_a_calendar_date_is_refused_and_told_nothing() -> None:
    view = disguised(SMALL, "2015-05-15")
    own = view.shown_id("EMP")
    for said in (served.series(view, "EMP"), served.observations(view, ["EMP"])):
        assert said == "error: no series 'EMP' is known on t = 0; search lists those known"
    assert "write t" in served.observations(view, own, start="2014-01-01")
    assert "write t" in served.revisions(view, own, "2014-01-01")
    assert "\n36 " not in served.search(view, "employment")
    assert served.search(view, "Employment").startswith("0 series match\n(names are hidden")
    assert served.search(view, own.lower()).startswith("1 series match")


def test_only_search_is_inherited_and_it_reads_what_is_overridden() -> None:
    public = {
        name
        for name, member in vars(AsOfView).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }
    assert public - set(vars(OpaqueView)) == {"search"}


# --- The calendar


def moved(key: str, move: Any) -> VintageStore:
    """A series of the small store alone, its periods and days moved."""
    info, table = small_series()[key]
    days = {name: [move(day) for day in table[name].to_pylist()] for name in ("period", "vintage")}
    lower = pa.nulls(len(table), pa.date32())
    columns = {**days, "value": table["value"], "vintage_lower": lower}
    meta = [replace(info[0], valid_from=None)]
    return VintageStore.from_tables({key: pa.table(columns, schema=table.schema)}, meta)


def by_a_year(day: Any) -> Any:
    return (
        day.replace(year=day.year + 1)
        if (day.month, day.day) != (2, 29)
        else by_a_year(day.replace(day=28))
    )


def by_days(day: Any) -> Any:
    return to_date(to_days(day) + 364)


@pytest.mark.parametrize(
    ("key", "move"),
    [("EMP", by_a_year), ("OUTPUT", by_a_year), ("CLAIMS", by_days), ("YIELD", by_days)],
)
def test_what_is_served_does_not_depend_on_the_year(key: str, move: Any) -> None:
    here, there = moved(key, lambda day: day), moved(key, move)
    for day in range(to_days("2013-01-05"), to_days("2014-01-05"), 9):
        first, second = (
            everything(disguised(store, when), disguised(store, when).shown_id(key), 0, "chg")
            for store, when in ((here, iso(day)), (there, move(to_date(day)).isoformat()))
        )
        assert first == second, iso(day)


def test_t_counts_from_the_period_that_holds_today() -> None:
    for key, day, period, t in [
        ("EMP", "2014-03-31", "2014-03-01", 0),
        ("EMP", "2014-03-31", "2014-04-01", 1),
        ("EMP", "2014-04-01", "2013-03-01", -13),
        ("OUTPUT", "2014-04-01", "2014-01-01", -1),
        ("OUTPUT", "2014-03-31", "2014-01-01", 0),
        ("CLAIMS", "2014-03-08", "2014-03-02", 0),
        ("CLAIMS", "2014-03-09", "2014-03-02", -1),
        ("CLAIMS", "2014-03-08", "2014-03-09", 1),
    ]:
        assert as_shown(disguised(SMALL, day), key, to_days(period))[1] == t, (key, day, period)


@pytest.mark.parametrize("day", ["2011-05-31", "2018-05-31"])
def test_how_far_the_past_goes_tells_no_date(day: str) -> None:
    """History and archive end where that of any series with a long enough past ends."""
    view, plain = disguised(synthetic_store(), day), synthetic_store().view(day)
    files = served.staged_files(view)
    for meta in plain.series():
        first, recent = -opaque.HISTORY[meta.frequency], -opaque.PUBLISHED[meta.frequency]
        key = view.shown_id(meta.id)
        assert view.observations(key).period[0] == first
        assert view.observations(key, start="-999999", units="chg").period[0] == first
        assert files[f"catalog/{key}.csv"].splitlines()[1].startswith(f"{first},")
        assert view.vintages(key)[0] >= recent
        assert view.releases(key).day[0] >= recent
        said = served.revisions(view, key, str(recent - 1))
        assert said == f"error: revisions are shown of periods from t = {recent} on"
        assert not served.revisions(view, key, str(recent)).startswith("error")


def test_a_series_given_up_long_ago_is_still_described() -> None:
    view = disguised(SMALL, "2019-12-31")
    for meta in view.series():
        said = served.series(view, meta.id)
        assert re.search(r"^vintages: [1-9]", said, re.MULTILINE), said
        assert "error" not in served.observations(view, meta.id)


def test_a_daily_series_counts_values_not_days() -> None:
    view, plain = disguised(SMALL, "2013-03-05"), SMALL.view("2013-03-05")
    shown, known = view.shown_id("YIELD"), plain.observations("YIELD")
    assert view.observations(shown).period.tolist() == list(range(-len(known), 0))
    assert (np.diff(known.period) > 1).any()
    assert as_shown(view, "YIELD", int(known.period[-1]) + 3)[1] == 0


# --- The numbers


def test_levels_are_shifted_and_changes_agree_with_them() -> None:
    plain, view = SMALL.view("2016-05-15"), disguised(SMALL, "2016-05-15")
    for meta in plain.series():
        level, shown = plain.observations(meta.id), view.observations(view.shown_id(meta.id))
        if not len(shown):
            continue
        add, times = rescaling(plain, "k", meta.id, "lin")
        assert np.allclose(shown.value, times * level.value[-len(shown) :] + add, rtol=1e-12)
        assert 0.5 <= add / (times * abs(level.value[-1])) <= 2.0
        for units in ("chg", "ch1", *PERCENT):
            factor = rescaling(plain, "k", meta.id, units)  # type: ignore[arg-type]
            assert factor.add == 0.0
            assert 0.125 <= factor.times < 0.5 or 2.0 <= factor.times < 8.0
            raw = plain.observations(meta.id, units=units)  # type: ignore[arg-type]
            mine = view.observations(view.shown_id(meta.id), units=units)  # type: ignore[arg-type]
            assert np.array_equal(mine.value, factor.times * raw.value[-len(mine) or len(raw) :])
            assert (factor.times == times) == (units not in PERCENT)


def test_factors_are_spread_over_octaves_and_differ_between_keys() -> None:
    plain = SMALL.view("2016-05-15")
    drawn = [rescaling(plain, key_of(str(n)), "EMP", "chg").times for n in range(4000)]
    share = [np.mean([2.0**k <= x < 2.0 ** (k + 1) for x in drawn]) for k in (-3, -2, 1, 2)]
    assert math.isclose(sum(share), 1.0)
    assert all(abs(part - 0.25) < 0.03 for part in share)
    assert len(set(drawn)) == 4000


def test_revisions_are_in_the_scale_of_the_levels() -> None:
    plain, view = SMALL.view("2016-05-15"), disguised(SMALL, "2016-05-15")
    level = rescaling(plain, "k", "EMP", "lin")
    period = plain.observations("EMP").period[-5]
    t = as_shown(view, "EMP", int(period))[1]
    rows = view.revisions(view.shown_id("EMP"), str(t))
    raw = plain.revisions("EMP", iso(int(period)))
    assert [value for _, value in rows] == [level.shown(value) for _, value in raw if value]
    assert rows[-1][1] == view.observations(view.shown_id("EMP")).value[-5]
    view = disguised(SMALL, "2014-05-15")
    assert [t for t in range(-24, 0) if "withdrawn" in revised_of(view, "SALES", t)] == [-14]


def revised_of(view: OpaqueView, key: str, t: int) -> str:
    return served.revisions(view, view.shown_id(key), str(t))


def test_prompt_tools_and_files_show_the_same_numbers() -> None:
    for one in tasks(60, context="prompt"):
        data = one.data
        view = disguised(synthetic_store(), data.as_of, data.opaque or "")
        target, _ = as_shown(view, data.series_id, to_days(data.reference_period))
        tool = served.observations(view, target, data.transform).split("\n")[2:]
        assert "\n".join(tool) in data.prompt  # type: ignore[operator]
        file = served.staged_files(view, target, data.transform)[f"catalog/{target}.csv"]
        column = {"lin": 1}.get(data.transform, 2)
        rows = [row.split(",") for row in file.splitlines()[-len(tool) :]]
        assert [f"{row[0]},{row[column]}" for row in rows] == tool
        assert f"Series: {target} (" in data.prompt  # type: ignore[operator]


# --- Ids


def test_ids_change_from_draw_to_draw_and_lead_back() -> None:
    first, second = (disguised(SMALL, "2016-05-15", key) for key in ("a", "b"))
    assert not set(first._real) & set(second._real)
    assert {view._real[view.shown_id("EMP")] for view in (first, second)} == {"EMP"}
    shown = [meta.id for meta in first.series()]
    assert shown == sorted(shown)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text("ABC", min_size=1, max_size=3), unique=True, min_size=2), st.text())
def test_two_series_never_share_an_id_however_few_the_words(known: list[str], key: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opaque, "ALPHABET", "XY")  # 32 words
        ids = opaque._ids.__wrapped__(key, tuple(sorted(known[:16])))
    assert len(set(ids.values())) == len(ids)


def test_series_of_one_release_can_be_told_to_belong_together() -> None:
    view, plain = disguised(synthetic_store(), "2012-05-15"), synthetic_store().view("2012-05-15")
    together = {meta.release: set() for meta in plain.series()}  # type: ignore[var-annotated]
    for meta in plain.series():
        together[meta.release].add(view.meta(view.shown_id(meta.id)).release)
    assert all(len(shown) == 1 for shown in together.values())
    assert len(set.union(*together.values())) == len(together)


# --- Nothing depends on what came later, or on the process


def test_no_byte_depends_on_what_came_later() -> None:
    stream = Stream(SMALL, SpaceConfig(split="all"))
    for n in range(250):
        draw = stream.draw(n)
        units = stream.space.series[draw.series_id].role.transform
        texts = [
            reading(store, draw, units)
            for store in (SMALL, poisoned(SMALL, draw.as_of), truncated(SMALL, draw.as_of))
        ]
        assert texts[0] == texts[1] == texts[2], draw


def reading(store: VintageStore, draw: Draw, units: Any) -> list[str]:
    view = disguised(store, iso(draw.as_of), f"key of {draw.n}")
    target, period = as_shown(view, draw.series_id, draw.period)
    contexts: tuple[prompts.Context, ...] = ("tools", "files", "prompt")
    built = [prompts.build(view, target, period, units, context) for context in contexts]
    return built + everything(view, target, period, units)


DIGEST = """
import hashlib, sys
from nowcast_alfred.locate import embedded_store, opened
from nowcast_alfred.opaque import agent_view, as_shown, key_of
from nowcast_alfred import prompts, served
view = agent_view(opened(embedded_store()).view("2012-05-15"), key_of("task"))
target, period = as_shown(view, "SYN_PAYROLL", 15_461)
text = prompts.build(view, target, period, "chg", "prompt") + served.search(view, limit=40)
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_another_process_serves_the_same_bytes() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True,
            env=environment(PYTHONHASHSEED=seed),
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    view = agent_view(synthetic_store().view("2012-05-15"), key_of("task"))
    target, period = as_shown(view, "SYN_PAYROLL", 15_461)
    text = prompts.build(view, target, period, "chg", "prompt") + served.search(view, limit=40)
    assert said == {hashlib.sha256(text.encode()).hexdigest() + "\n"}


# --- The reply


def said(elicit: str, points: tuple[float, ...]) -> str:
    """A reply with ascending numbers, in the grammar asked for."""
    if elicit == "quantiles":
        return "QUANTILES: " + ", ".join(f"{n}={x!r}" for n, x in zip(NAMES, points, strict=True))
    interval = f"\nINTERVAL80: {points[0]!r}, {points[-1]!r}" if elicit == "interval" else ""
    return f"FORECAST: {points[2]!r}{interval}"


@pytest.mark.parametrize("elicit", ELICIT)
def test_the_same_forecast_earns_the_same(elicit: str) -> None:
    hidden, plain = tasks(120, elicit=elicit), tasks(120, elicit=elicit, opaque=False)
    for n, (one, other) in enumerate(zip(hidden, plain, strict=True)):
        assert one.key == other.key
        data = one.data
        assert data.shown is not None
        off = (-3.0, -0.4, 0.0, 0.7, 5.0)[n % 5]
        points = tuple(data.baseline + (off + x) * data.scale for x in (-1.2, -0.6, 0.0, 0.6, 1.2))
        mine = score(one, said(elicit, tuple(data.shown.shown(x) for x in points)))
        theirs = score(other, said(elicit, points))
        assert mine.reward == pytest.approx(theirs.reward, abs=1e-9)
        for name, reward in theirs.rewards.items():
            assert mine.rewards[name].score == pytest.approx(reward.score, rel=1e-9, abs=1e-9)
        assert mine.metrics == pytest.approx(theirs.metrics, rel=1e-7, abs=1e-9)
        for field in ("forecast", "interval"):
            assert mine.info["nowcast"][field] == pytest.approx(theirs.info["nowcast"][field])


@pytest.mark.parametrize("elicit", ELICIT)
def test_validate_passes(elicit: str) -> None:
    for one in tasks(60, elicit=elicit):
        assert asyncio.run(one.validate(None))  # type: ignore[arg-type]


def test_validate_notices_another_scale() -> None:
    one = next(task for task in tasks(20) if task.data.transform == "pch")
    for scale in (Rescaling(0.0, 1.0), Rescaling(0.0, math.nan)):
        wrong = one.data.model_copy(update={"shown": scale})
        assert not asyncio.run(NowcastTask(wrong, one.config).validate(None))  # type: ignore[arg-type]


def test_a_percent_sign_is_malformed_since_no_unit_is_percent() -> None:
    one = next(task for task in tasks(20) if task.data.transform == "pch")
    assert "a % is allowed" not in one.data.prompt  # type: ignore[operator]
    assert score(one, "FORECAST: 1%").info["nowcast"]["reason"]


def test_a_reply_is_mapped_back_whole() -> None:
    scale = Rescaling(add=-3.0, times=0.25)
    quantiles = {level: float(n) for n, level in enumerate(LEVELS)}
    reply = opaque.real_reply(Reply(True, 1.0, (0.0, 2.0), quantiles), scale)
    assert reply.point == 16.0
    assert reply.interval == (12.0, 20.0)
    assert list((reply.quantiles or {}).values()) == [12.0, 16.0, 20.0, 24.0, 28.0]
    refused = parse("none")
    assert opaque.real_reply(refused, scale) is refused
    assert not opaque.real_reply(Reply(True, 1e308), scale).ok


def test_a_saved_trace_is_scored_again_without_its_store() -> None:
    (only,) = tasks(1)
    trace = score(only, "FORECAST: 1")
    elsewhere = NowcastTask(only.data, only.config.model_copy(update={"store": "/gone"}))
    before = (dict(trace.rewards), dict(trace.metrics))
    trace.rewards, trace.metrics = {}, {}
    asyncio.run(elsewhere.score(trace))
    assert (trace.rewards, trace.metrics) == before


# --- Identity


def test_opaque_is_part_of_the_task_and_not_of_the_stream() -> None:
    hidden, plain = tasks(30), tasks(30, opaque=False)
    assert [one.key for one in hidden] == [one.key for one in plain]
    assert not {one.hash for one in hidden} & {one.hash for one in plain}
    assert len({one.data.opaque for one in hidden}) == 30
    for one in hidden:
        wire = json.loads(json.dumps(one.data.model_dump(mode="json")))
        rebuilt = NowcastTask(type(one.data).model_validate(wire), one.config)
        assert (rebuilt.hash, rebuilt.data.shown) == (one.hash, one.data.shown)


def test_a_plain_tasks_hash_knows_nothing_of_it() -> None:
    (plain,) = tasks(1, opaque=False)
    assert not {"opaque", "shown"} & set(plain.data.model_dump(exclude_none=True))


def test_setup_tells_the_tool_server_the_key() -> None:
    (only,) = tasks(1)
    trace = score(only, "")
    asyncio.run(only.setup(trace, None))  # type: ignore[arg-type]
    assert trace.state.opaque == only.data.opaque


def test_with_context_none_nothing_but_the_question_is_given() -> None:
    (bare,) = tasks(1, context="none", opaque=False)
    assert NowcastTaskset.toolsets(NowcastConfig(context="none")) == []
    assert prompts.NONE in bare.data.prompt  # type: ignore[operator]
    assert "value" not in bare.data.prompt.split(prompts.NONE)[1]  # type: ignore[operator,union-attr]


# --- Canned policies


def converse(kind: str, prompt: str, view: AsOfView, target: str, units: Any) -> str:
    """A policy's last reply; it reads through whatever tool the prompt names."""
    tools = ["catalog_observations"] if "catalog_*" in prompt else []
    tools += ["bash"] if "working directory" in prompt else []
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    message = answer(rule(kind), messages, tools)
    if message.get("tool_calls"):
        arguments = json.loads(message["tool_calls"][0]["function"]["arguments"])
        if "command" in arguments:
            files = served.staged_files(view, target, units)
            data = files[arguments["command"].split()[-1]]
        else:
            data = served.observations(view, **arguments)
        message = answer(rule(kind), [*messages, message, {"role": "tool", "content": data}], tools)
    return str(message["content"])


@pytest.mark.parametrize("context", ["tools", "files", "prompt"])
def test_a_policy_earns_what_it_earns_plainly(context: str) -> None:
    hidden, plain = tasks(40, context=context), tasks(40, context=context, opaque=False)
    for one, other in zip(hidden, plain, strict=True):
        rewards = []
        for task in (one, other):
            data = task.data
            view = agent_view(synthetic_store().view(data.as_of), data.opaque)
            target, _ = as_shown(view, data.series_id, to_days(data.reference_period))
            text = converse("mean-12", str(data.prompt), view, target, data.transform)
            trace = score(task, text)
            assert trace.metrics["parsed"] == 1.0, text
            rewards.append(trace.reward)
        assert rewards[0] == pytest.approx(rewards[1], abs=2e-5), one.data.id


@pytest.mark.e2e
def test_an_eval_earns_what_it_earns_plainly(tmp_path: Path) -> None:
    earned = {}
    for name, setting in (("plain", "false"), ("opaque", "true")):
        folder = tmp_path / name
        folder.mkdir()
        with PolicyServer("mean-12") as server:
            config = eval_config(
                folder, server.base_url, embedded_store(), num_rollouts="1",
                taskset=f"closed_egress = false\nopaque = {setting}",
            )  # fmt: skip
            run(folder, "vf-eval", "@", config, "-n", 6, "--no-rich")
        rollouts = read_run(folder / "outputs/run")
        assert all(r.ok and r.metrics["lookups"] == 1.0 for r in rollouts)
        earned[name] = {r.task["key"]: r.reward for r in rollouts}
    assert earned["opaque"] == pytest.approx(earned["plain"], abs=1e-6)
