"""The engine and the box image; these tests run only where `-m docker` asks for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from box_engine import NoEngine, engine

LINES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LINES] = []


@pytest.fixture(scope="session")
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The tag of the box image, with an engine that answers."""
    if "docker" not in request.config.option.markexpr or hasattr(request.config, "workerinput"):
        pytest.skip(
            "they start an engine, so they run by themselves: pytest -m docker tests/docker"
        )
    try:
        with engine(tmp_path_factory.mktemp("engine")):
            from box_images import NoImage, box_image

            try:
                image = box_image()
            except NoImage as error:
                pytest.skip(str(error))
            yield image
    except NoEngine as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def printed(request: pytest.FixtureRequest) -> list[str]:
    """Lines that are printed when the tests have ended."""
    return request.config.stash[LINES]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in terminalreporter.config.stash[LINES]:
        terminalreporter.write_line(line)
