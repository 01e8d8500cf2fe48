"""Our log lines go where verifiers' go, once a program has taken those in hand, and only there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nowcast_alfred.logs import VERIFIERS, get_logger


class Kept(logging.Handler):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def in_hand(name: str) -> Iterator[Kept]:
    """As verifiers' commands do with their logger, and prime-rl perhaps with the one above it."""
    theirs, kept = logging.getLogger(name), Kept()
    handlers, level = theirs.handlers[:], theirs.level
    theirs.handlers, theirs.propagate = [kept], False
    theirs.setLevel(logging.INFO)
    try:
        yield kept
    finally:
        theirs.handlers, theirs.propagate = handlers, True
        theirs.setLevel(level)


# Not in a fixture: pytest attaches its own handler to loggers that do not propagate when a test
# begins.
@pytest.mark.parametrize("name", [VERIFIERS, VERIFIERS.partition(".")[0]])
def test_lines_go_to_verifiers_logger_and_nowhere_else(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with in_hand(name) as kept:
        get_logger("nowcast_alfred.one").warning("store %s", "S")
        get_logger("nowcast_alfred.one").debug("too fine for its level")
    assert kept.lines == ["store S"]
    assert caplog.records == []


def test_without_such_a_program_they_are_ordinary_records(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("nowcast_alfred.two").warning("store %s", "S")
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("nowcast_alfred.two", "store S")
