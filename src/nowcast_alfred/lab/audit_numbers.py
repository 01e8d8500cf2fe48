"""Numbers as they are written: with how many digits, and what they may stand for.

A number in a text is good to half a unit of its last digit; a number in a field is taken as Python
prints it. Digits in groups (157,232) are read as one number, and as several as well. What follows
from it is only whether a number *may be* another, rounded; how often that is chance is the
caller's to judge.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

NUMBERS = re.compile(r"[-+\u2212]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!,?\d)")
LARGEST = 300
"""The largest power of ten that is read as a number; fingerprints hold larger ones by chance."""
FEWEST = 2
"""Significant digits from which on a rounded number is compared: one digit is chance too often."""


@dataclass(frozen=True)
class Printed:
    """A number as written: its value, the unit of its last digit, and its significant digits."""

    value: float
    unit: float
    digits: int

    def is_rounded(self, y: float) -> bool:
        """Whether a number may have been rounded to this one."""
        return abs(y - self.value) <= self.unit / 2 * (1 + 1e-9) or same(y, self.value)


def same(y: float, number: float) -> bool:
    """Whether two numbers are the same as printed to eight digits."""
    return math.isclose(y, number, rel_tol=1e-7, abs_tol=1e-12)


def printed_in(text: str) -> Iterator[Printed]:
    """The numbers of a text.

    >>> [(one.value, one.unit, one.digits) for one in printed_in("0.50, -1.2e3")]
    [(0.5, 0.01, 2), (-1200.0, 100.0, 2)]
    """
    for reading in dict.fromkeys((text, ungrouped(text))):
        for found in NUMBERS.findall(reading):
            mantissa, _, power = found.replace("\u2212", "-").lower().partition("e")
            exponent = int(power[:6] or 0)
            if len(mantissa) + abs(exponent) <= LARGEST:
                whole, _, decimals = mantissa.lstrip("+-").partition(".")
                digits = len((whole + decimals).lstrip("0"))
                unit = 10.0 ** (exponent - len(decimals))
                yield Printed(float(f"{mantissa}e{exponent}"), unit, digits)


def numbers_in(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Printed]]:
    """Every number in a record, those in its texts included, with the names that lead to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers_in(inner, (*path, str(key)))
    elif isinstance(value, list):
        for inner in value:
            yield from numbers_in(inner, path)
    elif isinstance(value, str):
        yield from ((path, number) for number in printed_in(value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from ((path, number) for number in printed_in(repr(value)))


def ungrouped(text: str) -> str:
    """A text without the commas that group the digits of a number.

    >>> ungrouped("157,232, 1,200.5 and 1,2")
    '157232, 1200.5 and 1,2'
    """
    return GROUPED.sub(lambda found: found.group().replace(",", ""), text)
