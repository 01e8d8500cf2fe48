"""The grammar of a reply: what is read as a forecast, what is refused, and at what cost."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nowcast_alfred import answers
from nowcast_alfred.answers import parse

PERCENT, LEVEL = "Percent", "Thousands of Persons"

READ = [
    ("FORECAST: 353", 353.0),
    ("forecast: 353", 353.0),
    ("Forecast:353", 353.0),
    ("FORECAST:   353  ", 353.0),
    ("  FORECAST: 353", 353.0),
    ("\tFORECAST:\t353", 353.0),
    # signs
    ("FORECAST: -12.5", -12.5),
    ("FORECAST: \u221212.5", -12.5),
    ("FORECAST: +12.5", 12.5),
    ("FORECAST: -0", 0.0),
    # separators, decimals, exponents
    ("FORECAST: 1,234", 1234.0),
    ("FORECAST: 1,234,567.89", 1234567.89),
    ("FORECAST: 157,232", 157232.0),
    ("FORECAST: 157232", 157232.0),
    ("FORECAST: .5", 0.5),
    ("FORECAST: -.5", -0.5),
    ("FORECAST: 0.30", 0.3),
    ("FORECAST: 2.5e2", 250.0),
    ("FORECAST: 2.5E+2", 250.0),
    ("FORECAST: 25e-1", 2.5),
    ("FORECAST: 1e-400", 0.0),
    # markdown around it
    ("**FORECAST:** 2.5e2", 250.0),
    ("**FORECAST: 3**", 3.0),
    ("**FORECAST**: 3", 3.0),
    ("FORECAST: **3**", 3.0),
    ("*FORECAST: 3*", 3.0),
    ("__FORECAST:__ 3", 3.0),
    ("`FORECAST: 3`", 3.0),
    ("FORECAST: `3`", 3.0),
    ("**`FORECAST: -3.5`**", -3.5),
    ("- FORECAST: 3", 3.0),
    ("* FORECAST: 3", 3.0),
    ("1. FORECAST: 3", 3.0),
    ("> FORECAST: 3", 3.0),
    (">> FORECAST: 3", 3.0),
    ("> - **FORECAST:** 3", 3.0),
    ("```\nFORECAST: 3\n```", 3.0),
    ("```text\nFORECAST: 3\n```\n", 3.0),
    # the last line counts
    ("FORECAST: 1\nFORECAST: 2", 2.0),
    ("FORECAST: 353K\nno, in thousands:\nFORECAST: 353", 353.0),
    ("I think\r\nFORECAST: 4\r\n", 4.0),
    ("FORECAST: 4\n\nThat is my forecast: a guess.", 4.0),
    ("FORECAST: 4\nThe FORECAST: 5 is not at the start of its line", 4.0),
]

NO_LINE = "no line starts with FORECAST:"
REFUSED = [
    ("", NO_LINE),
    ("I would say 353", NO_LINE),
    ("The FORECAST: 353", NO_LINE),
    ("FORECAST 353", NO_LINE),
    ("FORECAST = 353", NO_LINE),
    ("FORECASTS: 353", NO_LINE),
    ("# FORECAST: 353", NO_LINE),
    ("| FORECAST: 353 |", NO_LINE),
    ("FORECAST:", "no number"),
    ("**FORECAST:** **", "no number"),
    ("FORECAST:\n353", "no number"),
    ("FORECAST: 353K", "not a number: 353K"),
    ("FORECAST: 353 thousand", "not a number: 353 thousand"),
    ("FORECAST: $353", "not a number: $353"),
    ("FORECAST: about 353", "not a number: about 353"),
    ("FORECAST: <353>", "not a number: <353>"),
    ("FORECAST: 350-360", "not a number: 350-360"),
    ("FORECAST: 1/2", "not a number: 1/2"),
    ("FORECAST: --3", "not a number: --3"),
    ("FORECAST: - 3", "not a number: - 3"),
    ("FORECAST: \u20133", "not a number: \u20133"),  # an en dash is no minus
    ("FORECAST: 1_000", "not a number: 1_000"),
    ("FORECAST: 1 000", "not a number: 1 000"),
    ("FORECAST: 0x10", "not a number: 0x10"),
    ("FORECAST: \u0663", "not a number: \u0663"),  # an Arabic three
    ("FORECAST: e5", "not a number: e5"),
    ("FORECAST: .", "not a number: ."),
    ("FORECAST: -", "not a number: -"),
    ("FORECAST: 5e", "not a number: 5e"),
    ("FORECAST: 1.2.3", "not a number: 1.2.3"),
    # separators out of place, and a decimal comma
    ("FORECAST: 12,34", "not a number: 12,34"),
    ("FORECAST: 1,2345", "not a number: 1,2345"),
    ("FORECAST: 1234,567", "not a number: 1234,567"),
    ("FORECAST: ,123", "not a number: ,123"),
    ("FORECAST: 1,23,456", "not a number: 1,23,456"),
    ("FORECAST: 1,234,", "not a number: 1,234,"),
    ("FORECAST: 0,123", "not a number: 0,123"),
    ("FORECAST: 1.234,5", "not a number: 1.234,5"),
    # not finite
    ("FORECAST: nan", "not a number: nan"),
    ("FORECAST: inf", "not a number: inf"),
    ("FORECAST: -Infinity", "not a number: -Infinity"),
    ("FORECAST: 1e400", "the number is not finite"),
    ("FORECAST: -1e400", "the number is not finite"),
    # the last line counts, even where it is malformed
    ("FORECAST: 353\nFORECAST: n/a", "not a number: n/a"),
    ("FORECAST: 353\n**FORECAST:**", "no number"),
    ("FORECAST: " + "1" * 400, "the line is too long for an answer"),
    ("FORECAST: 3\nFORECAST: 3" + "0" * 500, "the line is too long for an answer"),
]


@pytest.mark.parametrize(("text", "value"), READ)
def test_a_well_formed_line_is_read(text: str, value: float) -> None:
    reply = parse(text, units=LEVEL)
    assert (reply.ok, reply.point, reply.reason) == (True, value, "")


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_anything_else_is_refused_with_its_reason(text: str, reason: str) -> None:
    for units in (LEVEL, PERCENT):
        reply = parse(text, units=units)
        assert (reply.ok, reply.point, reply.reason) == (False, None, reason)


@pytest.mark.parametrize("number", ["\u22120.3%", "-0.3%", "-0.3 %", "-.3%", "-3e-1%"])
def test_a_percent_sign_is_read_where_the_unit_is_percent(number: str) -> None:
    assert parse(f"forecast: {number}", units=PERCENT).point == -0.3
    assert parse(f"forecast: {number}", units="Percentage points, percent").point == -0.3
    refused = parse(f"forecast: {number}", units=LEVEL)
    assert (refused.ok, refused.reason) == (False, "a % where the unit is not percent")


def test_a_percent_sign_alone_is_no_number() -> None:
    assert not parse("FORECAST: %", units=PERCENT).ok
    assert not parse("FORECAST: 3%%", units=PERCENT).ok


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, st.sampled_from(["FORECAST: {}", "**FORECAST:** {}", "> `forecast: {}`"]))
@example(5e-324, "FORECAST: {}")
@example(1.7976931348623157e308, "FORECAST: {}")
@example(-0.0, "FORECAST: {}")
def test_any_float_is_read_back_to_the_last_bit(value: float, line: str) -> None:
    point = parse(line.format(repr(value))).point
    assert point is not None
    assert (point, math.copysign(1, point)) == (value, math.copysign(1, value))
    if repr(value).startswith("-"):
        assert parse(line.format("\u2212" + repr(value)[1:])).point == value


@given(st.integers(-(10**15), 10**15), st.integers(0, 999))
def test_any_number_with_separators_is_read(whole: int, thousandths: int) -> None:
    text = f"{whole:,}.{thousandths:03}"
    assert parse(f"FORECAST: {text}").point == float(text.replace(",", ""))


@given(st.text(st.characters()), st.text(max_size=12))
def test_no_text_raises_and_every_refusal_has_a_reason(text: str, units: str) -> None:
    for line in (text, f"FORECAST: {text}", f"FORECAST: 1{text}", f"{text}\nFORECAST: 1e{text}"):
        reply = parse(line, units=units)
        assert reply.ok == (reply.point is not None) == (reply.reason == "")
        assert reply.point is None or math.isfinite(reply.point)


@given(st.from_regex(answers._NUMBER, fullmatch=True, alphabet=st.characters(codec="utf-8")))
def test_all_that_the_grammar_allows_is_a_float_or_refused(number: str) -> None:
    reply = parse(f"FORECAST: {number}", units=PERCENT)
    assert reply.ok or reply.reason


@given(st.text(st.characters(exclude_characters=":"), max_size=200))
def test_text_before_the_line_changes_nothing(text: str) -> None:
    assert parse(f"{text}\nFORECAST: 7").point == 7.0


class Counting:
    """A pattern that counts how often it is tried and on how many characters."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern, self.calls, self.characters = pattern, 0, 0

    def match(self, text: str) -> re.Match[str] | None:
        self.calls += 1
        self.characters += len(text)
        return self.pattern.match(text)


HOSTILE = {
    "nothing": "x",
    "spaces": " ",
    "quotes": "> ",
    "emphasis": "*",
    "list marks": "- ",
    "nearly": "FORECAST ",
    "nearly, on lines": "FORECAST\n",
    "indented, on lines": " " * 150 + "\n",
    "digits": "1",
    "separators": "1,",
    "line breaks": "\r\n\u2028",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_work_grows_with_the_text_and_not_faster(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in (1_000, 1_000_000):
        text = unit * (size // len(unit))
        counted = Counting(answers._HEADS[answers.MARKER])
        monkeypatch.setitem(answers._HEADS, answers.MARKER, counted)
        assert parse(text).reason == NO_LINE
        monkeypatch.undo()
        assert counted.calls <= len(text.splitlines())
        assert counted.characters <= min(len(text), counted.calls * answers.LONGEST_LINE)


def test_a_line_of_any_length_reaches_the_number_only_while_it_is_short() -> None:
    for tail in ("1" * 5_000_000, "1," * 2_500_000, " " * 5_000_000 + "1", "*" * 5_000_000):
        assert parse(f"FORECAST: {tail}").reason == "the line is too long for an answer"


def test_a_forecast_is_found_at_either_end_of_a_long_reply() -> None:
    filler = "So it goes, 1,234 of them.\n" * 200_000  # 5 MB
    assert parse(f"{filler}FORECAST: 3").point == 3.0
    assert parse(f"FORECAST: 3\n{filler}").point == 3.0
    assert parse(filler).reason == NO_LINE
