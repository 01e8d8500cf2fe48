"""Loggers whose lines arrive where a person looks for them.

verifiers' commands show their own logger (on the screen, in `eval.log`, in prime-rl's log) and
silence every other one while their dashboard owns the terminal. So once a program has taken
verifiers' logger in hand, our lines go through it; before that, and in programs without verifiers,
they are ordinary records of `nowcast_alfred`.
"""

from __future__ import annotations

import logging

VERIFIERS = "verifiers.v1"


def get_logger(name: str) -> logging.Logger:
    """The logger of a module, given its `__name__`."""
    logger = logging.getLogger(name)
    logger.addFilter(_stays)
    return logger


def _stays(record: logging.LogRecord) -> bool:
    """Whether a record is left to our own logger; else verifiers' has had it."""
    theirs = logging.getLogger(VERIFIERS)
    if not _in_hand(theirs):
        return True
    if theirs.isEnabledFor(record.levelno):
        theirs.handle(record)
    return False


def _in_hand(logger: logging.Logger | None) -> bool:
    """Whether a program handles a logger itself: it, or one above it, no longer propagates."""
    while logger is not None:
        if not logger.propagate:
            return True
        logger = logger.parent
    return False
