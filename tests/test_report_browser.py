"""Reports as a reader sees them: in headless Chromium, on a desktop and on a phone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from canned_runs import write_run
from commands import ROOT, run
from nowcast_alfred.lab.report import write_report
from nowcast_alfred.locate import embedded_store
from pages import several, sound

SCREENS = {"desktop": (1280, 900), "phone": (390, 844)}
LEGIBLE = 8.5
"""Smallest letters on a screen, in CSS pixels."""

# Every picture's box, its smallest letters as shown, and texts that stick out of it.
PICTURES = """
() => [...document.querySelectorAll('svg[role=img]')].map(svg => {
  const box = svg.getBoundingClientRect();
  const scale = box.width / svg.viewBox.baseVal.width;
  const texts = [...svg.querySelectorAll('text')];
  const out = texts.filter(text => {
    const own = text.getBoundingClientRect();
    return own.left < box.left - 1 || own.right > box.right + 1 ||
      own.top < box.top - 1 || own.bottom > box.bottom + 1;
  });
  const sizes = texts.map(text => parseFloat(getComputedStyle(text).fontSize) * scale);
  return {name: svg.getAttribute('aria-label'), width: box.width, height: box.height,
    letters: Math.min(...sizes), out: out.map(text => text.textContent)};
})
"""
WIDTHS = "() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
OPEN = "() => document.querySelectorAll('details').forEach(one => { one.open = true; })"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """An installed Chromium; NOWCAST_ALFRED_CHROMIUM names one that is not on PATH."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("NOWCAST_ALFRED_CHROMIUM") or next(
        filter(None, map(shutil.which, names)), None
    )
    if found is None:
        pytest.skip("no Chromium is installed (NOWCAST_ALFRED_CHROMIUM names one off PATH)")
    from playwright.sync_api import sync_playwright

    # Chromium refuses to sandbox what root runs; the pages are our own.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report with which the demonstration ends, of two runs made through vf-eval."""
    folder = tmp_path_factory.mktemp("demo")
    said = run(
        folder, "nowcast-alfred", "demo", "--tasks", 3, "--rollouts", 2, "--output", "out",
        COLUMNS="200",
    )  # fmt: skip
    assert said.splitlines()[-1] == "report: out/report.html"
    return folder / "out/report.html"


def seen(browser: Any, file: Path, screen: str, scheme: str = "light") -> list[dict[str, Any]]:
    """The pictures of a page, after the page itself was found in order."""
    width, height = SCREENS[screen]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    try:
        page = context.new_page()
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.as_uri())
        for state in ("closed", "open"):
            if state == "open":
                page.evaluate(OPEN)
            scrolls, shows = page.evaluate(WIDTHS)
            assert scrolls <= shows, f"the page scrolls sideways with its blocks {state}"
        pictures: list[dict[str, Any]] = page.evaluate(PICTURES)
        assert said == []
        # A file that asked for nothing but itself had no request that could fail.
        assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
        return pictures
    finally:
        context.close()


def check(browser: Any, file: Path, screen: str, count: int) -> None:
    pictures = seen(browser, file, screen)
    assert len(pictures) == count
    for picture in pictures:
        assert picture["width"] > 200, picture
        assert picture["height"] > 50, picture
        assert picture["letters"] >= LEGIBLE, picture
        assert picture["out"] == [], picture


@pytest.mark.e2e
def test_the_demo_ends_with_a_report_of_its_runs(demo: Path) -> None:
    document = sound(demo.read_text())
    assert "canned/last-change" in document.text
    assert "FORECAST: <number" in document.text, "the prompts of the examples"
    assert "catalog_observations" in document.text
    assert "date,value" in document.text


@pytest.mark.e2e
@pytest.mark.browser
@pytest.mark.parametrize("screen", SCREENS)
def test_a_report_of_demo_runs_shows_every_picture(chromium: Any, demo: Path, screen: str) -> None:
    check(chromium, demo, screen, 9)


@pytest.mark.browser
@pytest.mark.parametrize("screen", SCREENS)
def test_a_report_of_the_embedded_store_shows_every_picture(
    chromium: Any, screen: str, tmp_path: Path
) -> None:
    check(chromium, write_report([embedded_store()], tmp_path / "page.html"), screen, 4)


@pytest.mark.browser
@pytest.mark.real
@pytest.mark.parametrize("screen", SCREENS)
def test_a_report_of_the_real_panel_shows_every_picture(
    chromium: Any, real_data: Path, screen: str, tmp_path: Path
) -> None:
    run(
        tmp_path, "nowcast-alfred", "store", "import", "S", "--format", "long", "--catalog",
        ROOT / "catalogs/us-macro.toml", real_data / "us_panel_2016_2025.parquet",
    )  # fmt: skip
    check(chromium, write_report([str(tmp_path / "S")], tmp_path / "page.html"), screen, 4)


@pytest.mark.browser
@pytest.mark.parametrize("screen", SCREENS)
def test_runs_with_long_names_fit_a_phone(chromium: Any, screen: str, tmp_path: Path) -> None:
    names = ["a-run-of-a-model-with-a-name-that-never-seems-to-end-" + "x" * 40, "b"]
    runs = [str(write_run(tmp_path / name, several())) for name in names]
    check(chromium, write_report(runs), screen, 9)


@pytest.mark.browser
def test_a_dark_scheme_turns_the_page_dark(chromium: Any, tmp_path: Path) -> None:
    file = write_report([str(write_run(tmp_path / "run", several()))])
    inks = []
    for scheme in ("light", "dark"):
        context = chromium.new_context(color_scheme=scheme)
        page = context.new_page()
        page.goto(file.as_uri())
        inks.append(
            page.evaluate("() => getComputedStyle(document.querySelector('svg text')).fill")
        )
        context.close()
    assert inks[0] != inks[1]
