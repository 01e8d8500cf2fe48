"""Intervals and quantiles: what the prompt asks for, what is read, what a perfect reply earns."""

from __future__ import annotations

import asyncio
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nowcast_alfred import NowcastTaskset, prompts, scoring
from nowcast_alfred.answers import INTERVAL, LEVELS, MARKER, NAMES, QUANTILES, parse
from nowcast_alfred.lab.policy import answer, rule
from nowcast_alfred.locate import embedded_store, opened
from nowcast_alfred.periods import to_days
from nowcast_alfred.rewards import NEEDS
from nowcast_alfred.task import NowcastTask
from nowcast_alfred.taskset import NowcastConfig
from rollouts import score

ELICIT = ("point", "interval", "quantiles")
PERCENT, LEVEL = "Percent", "Thousands of Persons"
PERIOD = to_days("2012-05-01")


def view() -> Any:
    return opened(embedded_store()).view("2012-05-15")


def prompt(
    elicit: str, series: str = "SYN_PAYROLL", units: str = "chg", context: str = "tools"
) -> str:
    return prompts.build(view(), series, PERIOD, units, context, elicit)  # type: ignore[arg-type]


def tasks(count: int, **settings: object) -> list[NowcastTask]:
    return list(NowcastTaskset(NowcastConfig(id="nowcast-alfred", **settings)).take(count))


# The prompt.


def test_each_prompt_states_its_grammar_and_no_other() -> None:
    asked = {
        "point": [r"^FORECAST: <number, such as 12.5 or -3>$"],
        "interval": [r"^FORECAST: <number, such as", r"^INTERVAL80: <lower>, <upper>$"],
        "quantiles": [
            r"^QUANTILES: p10=<number, such as 12.5 or -3>, p25=<number>, p50=<number>, "
            r"p75=<number>, p90=<number>$"
        ],
    }
    for elicit, lines in asked.items():
        text = prompt(elicit)
        for line in lines:
            assert len(re.findall(line, text, re.MULTILINE)) == 1
        markers = {marker for marker in (MARKER, INTERVAL, QUANTILES) if marker in text}
        expected = {"point": {MARKER}, "interval": {MARKER, INTERVAL}, "quantiles": {QUANTILES}}
        assert markers == expected[elicit]
        assert "scores lowest" in text


@pytest.mark.parametrize("elicit", ELICIT)
def test_the_prompt_states_the_unit_and_allows_a_percent_sign_where_the_parser_does(
    elicit: str,
) -> None:
    line = {
        "point": "FORECAST: 1%",
        "interval": "FORECAST: 1%\nINTERVAL80: 0%, 2 %",
        "quantiles": "QUANTILES: p10=1%, p25=1%, p50=1 %, p75=1%, p90=1%",
    }[elicit]
    seen = set()
    for meta in view().series():
        for units in ("lin", "chg", "pch", "pc1", "pca"):
            text = prompt(elicit, meta.id, units)
            unit = prompts.unit_of(units, meta.units)  # type: ignore[arg-type]
            allowed = "(a % is allowed)" in text
            assert parse(line, elicit, unit).ok == allowed, (meta.id, units)  # type: ignore[arg-type]
            assert f"(units code {units})" in text
            assert re.search(r"^Value: .+ \(units code", text, re.MULTILINE)
            seen.add(allowed)
    assert seen == {True, False}


# The parser.

READ_INTERVAL = [
    ("INTERVAL80: -1, 2", (-1.0, 2.0)),
    ("INTERVAL80: -1,2", (-1.0, 2.0)),
    ("INTERVAL80: -0.1,0.3", (-0.1, 0.3)),
    ("INTERVAL80: -0.5; 0.5", (-0.5, 0.5)),
    ("interval80:0,0", (0.0, 0.0)),
    ("**INTERVAL80:** \u22121.5, +2e0", (-1.5, 2.0)),
    ("> - `INTERVAL80: -1 , 2`", (-1.0, 2.0)),
    ("INTERVAL80: -12,34", (-12.0, 34.0)),  # cannot group thousands
    ("INTERVAL80: -1,234, 1,300", (-1234.0, 1300.0)),
    ("INTERVAL80: -1,234; 1,300", (-1234.0, 1300.0)),
    ("INTERVAL80: -1, 234", (-1.0, 234.0)),
    ("INTERVAL80: -9, -8\nINTERVAL80: -1, 2", (-1.0, 2.0)),
    ("INTERVAL80: -1, 2\n\nSo I say.", (-1.0, 2.0)),
    ("```\nINTERVAL80: -1, 2\n```", (-1.0, 2.0)),
]


@pytest.mark.parametrize(("line", "interval"), READ_INTERVAL)
def test_an_interval_is_read(line: str, interval: tuple[float, float]) -> None:
    for text in (f"FORECAST: 0\n{line}", f"{line}\nFORECAST: 0"):
        reply = parse(text, "interval", LEVEL)
        assert (reply.ok, reply.point, reply.interval) == (True, 0.0, interval), reply.reason


REFUSED_INTERVAL = [
    ("", "no line starts with INTERVAL80:"),
    ("INTERVAL: -1, 2", "no line starts with INTERVAL80:"),
    ("INTERVAL90: -1, 2", "no line starts with INTERVAL80:"),
    ("INTERVAL80:", "not two numbers: "),
    ("INTERVAL80: 3", "not two numbers: 3"),
    ("INTERVAL80: -1,234", "not two numbers: -1,234"),  # one number, or two
    ("INTERVAL80: 100,200", "not two numbers: 100,200"),
    ("INTERVAL80: -1, 0, 2", "not two numbers: -1, 0, 2"),
    ("INTERVAL80: -1 to 2", "not two numbers: -1 to 2"),
    ("INTERVAL80: -1 2", "not two numbers: -1 2"),
    ("INTERVAL80: 2, -1", "the interval is inverted"),
    ("INTERVAL80: 1, 2", "the forecast lies outside its interval"),
    ("INTERVAL80: -2, -1", "the forecast lies outside its interval"),
    ("INTERVAL80: [-1, 2]", "not a number: [-1"),
    ("INTERVAL80: -1, 2K", "not a number: 2K"),
    ("INTERVAL80: -1, nan", "not a number: nan"),
    ("INTERVAL80: -1, inf", "not a number: inf"),
    ("INTERVAL80: -1e400, 2", "the number is not finite"),
    ("INTERVAL80: -1%, 2%", "a % where the unit is not percent"),
    ("INTERVAL80: -1,", "no number"),
    ("INTERVAL80: -1, 2\nINTERVAL80: n/a", "not two numbers: n/a"),
    ("INTERVAL80: -1, 2" + " " * 400 + "x", "the line is too long for an answer"),
]


@pytest.mark.parametrize(("line", "reason"), REFUSED_INTERVAL)
def test_an_interval_is_refused_with_its_reason(line: str, reason: str) -> None:
    reply = parse(f"FORECAST: 0\n{line}", "interval", LEVEL)
    assert (reply.ok, reply.point, reply.interval, reply.reason) == (False, None, None, reason)


def test_an_interval_without_a_forecast_is_refused() -> None:
    assert parse("INTERVAL80: -1, 2", "interval").reason == "no line starts with FORECAST:"
    assert parse("FORECAST: x\nINTERVAL80: -1, 2", "interval").reason == "not a number: x"


READ_QUANTILES = [
    ("QUANTILES: p10=-1, p25=0, p50=0.5, p75=1, p90=2", (-1.0, 0.0, 0.5, 1.0, 2.0)),
    ("quantiles: P10 = -1; P25 = 0; P50 = .5; P75 = 1; P90 = 2e0", (-1.0, 0.0, 0.5, 1.0, 2.0)),
    ("**QUANTILES:** p10=1,p25=1,p50=1,p75=1,p90=1", (1.0,) * 5),
    ("QUANTILES: p10=1,000, p25=1,100, p50=1,200, p75=1,300, p90=1,400.5",
     (1000.0, 1100.0, 1200.0, 1300.0, 1400.5)),
    ("QUANTILES: p10=1,000,p25=1,100,p50=1,200,p75=1,300,p90=1,400",
     (1000.0, 1100.0, 1200.0, 1300.0, 1400.0)),
    ("QUANTILES: p90=5, p75=4, p50=3, p25=2, p10=1", (1.0, 2.0, 3.0, 4.0, 5.0)),
    ("> `QUANTILES: p10=\u22121, p25=0, p50=0, p75=0, p90=0`", (-1.0, 0.0, 0.0, 0.0, 0.0)),
    ("QUANTILES: none yet\nQUANTILES: p10=1, p25=1, p50=1, p75=1, p90=1", (1.0,) * 5),
]  # fmt: skip


@pytest.mark.parametrize(("text", "values"), READ_QUANTILES)
def test_quantiles_are_read(text: str, values: tuple[float, ...]) -> None:
    reply = parse(text, "quantiles", LEVEL)
    assert reply.quantiles == dict(zip(LEVELS, values, strict=True)), reply.reason
    assert (reply.ok, reply.point, reply.interval) == (True, values[2], None)


ALL = "p10, p25, p50, p75, p90"
REFUSED_QUANTILES = [
    ("FORECAST: 3", "no line starts with QUANTILES:"),
    ("QUANTILES:", "not a quantile: "),
    ("QUANTILES: 1, 2, 3, 4, 5", "not a quantile: 1, 2, 3, 4, 5"),
    ("QUANTILES: p10=1, p25=2, p50=3, p75=4", f"quantiles p10, p25, p50, p75; asked for {ALL}"),
    ("QUANTILES: p05=0, p10=1, p25=2, p50=3, p75=4, p90=5",
     f"quantiles p05, p10, p25, p50, p75, p90; asked for {ALL}"),
    ("QUANTILES: p10=1, p25=2, p50=3, p75=4, p95=5",
     f"quantiles p10, p25, p50, p75, p95; asked for {ALL}"),
    ("QUANTILES: p10=1, p10=1, p25=2, p50=3, p75=4, p90=5", "not a quantile: p10=1"),
    ("QUANTILES: p10=1, p25=3, p50=2, p75=4, p90=5", "the quantiles cross"),
    ("QUANTILES: p10=5, p25=4, p50=3, p75=2, p90=1", "the quantiles cross"),
    ("QUANTILES: p10=1, p25=2, p50=x, p75=4, p90=5", "not a number: x"),
    ("QUANTILES: p10=1, p25=2, p50=, p75=4, p90=5", "no number"),
    ("QUANTILES: p10=1, p25=2, p50=nan, p75=4, p90=5", "not a number: nan"),
    ("QUANTILES: p10=1, p25=2, p50=3, p75=4, p90=1e999", "the number is not finite"),
    ("QUANTILES: p10=1, p25=2, p50=3, p75=4, p90=12,34", "not a number: 12,34"),
    ("QUANTILES: p10=1%, p25=2, p50=3, p75=4, p90=5", "a % where the unit is not percent"),
    ("QUANTILES: p10=1 p25=2 p50=3 p75=4 p90=5", "not a number: 1 p25=2 p50=3 p75=4 p90=5"),
    ("QUANTILES: p10=1, p25=2, p50=3, p75=4, p90=5\nQUANTILES: wait", "not a quantile: wait"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), REFUSED_QUANTILES)
def test_quantiles_are_refused_with_their_reason(text: str, reason: str) -> None:
    reply = parse(text, "quantiles", LEVEL)
    assert (reply.ok, reply.point, reply.quantiles, reply.reason) == (False, None, None, reason)


def test_percent_signs_are_read_where_the_unit_is_percent() -> None:
    reply = parse("FORECAST: 0.1%\nINTERVAL80: \u22120.1%, 0.3 %", "interval", PERCENT)
    assert (reply.point, reply.interval) == (0.1, (-0.1, 0.3))
    text = "QUANTILES: p10=0.1%, p25=0.2%, p50=0.3 %, p75=4e-1%, p90=5%"
    assert parse(text, "quantiles", PERCENT).point == 0.3


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(
    st.lists(finite, min_size=5, max_size=5).map(sorted), st.sampled_from([", ", "; ", ",", ";"])
)
def test_what_is_written_is_read_back_to_the_last_bit(values: list[float], comma: str) -> None:
    low, _, middle, _, high = values
    # A comma alone may group thousands, and is then refused and not guessed at.
    between = ", " if comma == "," else comma
    text = f"FORECAST: {middle!r}\nINTERVAL80: {low!r}{between}{high!r}"
    reply = parse(text, "interval")
    assert (reply.point, reply.interval) == (middle, (low, high))
    named = comma.join(f"{name}={value!r}" for name, value in zip(NAMES, values, strict=True))
    reply = parse(f"QUANTILES: {named}", "quantiles")
    assert reply.quantiles == dict(zip(LEVELS, values, strict=True))


pieces = st.text() | st.sampled_from(
    ["p10=", "p90=1", ", ", ",", ";", "1,234", "-", "%", "1e999", "INTERVAL80:", "QUANTILES:", "\n"]
)


@settings(deadline=None)
@given(st.lists(pieces).map("".join), st.sampled_from(["", PERCENT]))
def test_no_text_raises_and_what_is_read_is_finite_and_in_order(text: str, units: str) -> None:
    for elicit in ELICIT:
        for line in (text, f"FORECAST: 1\nINTERVAL80: {text}", f"QUANTILES: {text}"):
            reply = parse(line, elicit, units)  # type: ignore[arg-type]
            assert reply.ok == (reply.point is not None) == (reply.reason == "")
            assert (reply.interval is not None) == (reply.ok and elicit == "interval")
            assert (reply.quantiles is not None) == (reply.ok and elicit == "quantiles")
            if reply.interval is not None and reply.point is not None:
                assert reply.interval[0] <= reply.point <= reply.interval[1]
            values = list((reply.quantiles or {}).values())
            assert values == sorted(values)
            assert all(map(math.isfinite, values))


@given(st.sampled_from(["p10=1, ", "p10=", ", ", "1,", "=", " "]))
def test_a_line_of_any_length_is_refused_before_it_is_taken_apart(unit: str) -> None:
    long = unit * (1_000_000 // len(unit))
    assert parse(f"QUANTILES: {long}x", "quantiles").reason == "the line is too long for an answer"
    text = f"FORECAST: 1\nINTERVAL80: {long}x"
    assert parse(text, "interval").reason == "the line is too long for an answer"


# The task.


@pytest.mark.parametrize("elicit", ELICIT)
def test_every_task_is_valid(elicit: str) -> None:
    for task in tasks(10, elicit=elicit):
        assert asyncio.run(task.validate(None))  # type: ignore[arg-type]


BEST = {
    "scaled_error": 0.0,
    "unit_error": 1.0,
    "squared_error": 0.0,
    "interval_score": 0.0,
    "pinball": 0.0,
    "crps_normal": 0.0,
    "log_score": -scoring.log_score(0.0, 0.0, 0.05),
    "hit": 1.0,
    "format": 1.0,
}


@pytest.mark.parametrize("elicit", ELICIT)
def test_the_oracle_earns_the_best_of_every_reward(elicit: str) -> None:
    for task in tasks(10, elicit=elicit):
        y = score(task, "").info["nowcast"]["first"]
        trace = score(task, prompts.oracle(y, elicit))  # type: ignore[arg-type]
        expected = {name: best for name, best in BEST.items() if elicit in NEEDS.get(name, ELICIT)}
        earned = {name: held.score for name, held in trace.rewards.items()}
        missed = abs(task.data.baseline - y) / task.data.scale
        assert earned.pop("beats_baseline") == pytest.approx(min(1.0, missed))
        assert earned.pop("direction") == (1.0 if missed > 0.05 else 0.5)
        assert earned == pytest.approx(expected)
        assert trace.metrics["parsed"] == 1.0
        assert trace.metrics.get("covered") == (None if elicit == "point" else 1.0)


def test_a_point_alone_does_not_do_where_more_is_asked_for() -> None:
    for elicit in ("interval", "quantiles"):
        (task,) = tasks(1, elicit=elicit)
        trace = score(task, "FORECAST: 1")
        assert trace.reward == -1.0
        assert trace.metrics["parsed"] == 0.0
        assert trace.info["nowcast"]["reason"]


def test_the_record_holds_interval_and_quantiles() -> None:
    (task,) = tasks(1, elicit="interval")
    held = score(task, "FORECAST: 1\nINTERVAL80: 0, 2").info["nowcast"]
    assert (held["forecast"], held["interval"], held["quantiles"]) == (1.0, [0.0, 2.0], None)
    (task,) = tasks(1, elicit="quantiles")
    text = "QUANTILES: p10=1, p25=2, p50=3, p75=4, p90=5"
    held = score(task, text).info["nowcast"]
    assert (held["forecast"], held["interval"]) == (3.0, None)
    assert held["quantiles"] == {"p10": 1.0, "p25": 2.0, "p50": 3.0, "p75": 4.0, "p90": 5.0}


# The canned policies.


def replied(kind: str, elicit: str) -> str:
    messages = [{"role": "user", "content": prompt(elicit, context="prompt")}]
    return str(answer(rule(kind), messages, [])["content"])


@pytest.mark.parametrize("kind", ["constant:12", "last-change", "mean-12"])
def test_a_numeric_policy_spreads_its_number_like_a_normal_law(kind: str) -> None:
    known = view().observations("SYN_PAYROLL", units="chg").value
    sigma = float(known[-24:].std())
    point = parse(replied(kind, "point")).point
    interval = parse(replied(kind, "interval"), "interval")
    quantiles = parse(replied(kind, "quantiles"), "quantiles").quantiles
    assert interval.point == point
    assert point is not None
    assert quantiles is not None
    spread = [-1.2815515655, -0.6744897502, 0.0, 0.6744897502, 1.2815515655]
    expected = [point + z * sigma for z in spread]
    assert list(quantiles.values()) == pytest.approx(expected, rel=1e-8)
    assert interval.interval == pytest.approx((expected[0], expected[-1]), rel=1e-8)


@pytest.mark.parametrize("elicit", ELICIT)
def test_the_policies_without_a_number_stay_without(elicit: str) -> None:
    for kind in ("silent", "malformed"):
        assert not parse(replied(kind, elicit), elicit).ok  # type: ignore[arg-type]
    stranger: list[dict[str, Any]] = [{"role": "user", "content": f"Hello {QUANTILES}"}]
    assert "no data" in str(answer(rule("last-change"), stranger, [])["content"])
    assert parse(str(answer(rule("constant:3"), stranger, [])["content"]), "quantiles").point == 3.0


def test_a_canned_policy_is_scored_by_interval_and_quantile_rewards() -> None:
    for elicit, rewards in (
        ("interval", ("interval_score", "crps_normal", "log_score")),
        ("quantiles", ("interval_score", "pinball")),
    ):
        for task in tasks(5, elicit=elicit, context="prompt"):
            message = {"role": "user", "content": str(task.data.prompt)}
            content = answer(rule("mean-12"), [message], [])["content"]
            trace = score(task, str(content))
            assert trace.metrics["parsed"] == 1.0
            assert all(trace.rewards[name].score > -20.0 for name in rewards)
