"""The documents against the code: generated references, shipped configs, links, module sizes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from nowcast_alfred import prompts, served
from nowcast_alfred.lab.reference import reference
from nowcast_alfred.lab.sampling import read_settings
from nowcast_alfred.locate import embedded_store, opened
from nowcast_alfred.periods import to_days
from nowcast_alfred.store import SeriesMeta
from nowcast_alfred.taskset import NowcastConfig

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CONFIGS = sorted((ROOT / "configs").rglob("*.toml"))


def test_the_reference_is_what_the_code_says() -> None:
    assert (ROOT / "docs/reference.md").read_text() == reference(), "run: make docs"


def test_every_setting_has_a_text() -> None:
    own = set(NowcastConfig.model_fields) - {"id", "system_prompt"}
    assert [name for name in own if not NowcastConfig.model_fields[name].description] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
        if (page.parent / target).is_relative_to(ROOT) and "benchmarks" not in target:
            assert (page.parent / target).exists() or not (ROOT / "src").exists(), target


def test_the_readme_shows_a_real_prompt_and_a_real_answer() -> None:
    readme = (ROOT / "README.md").read_text()
    view = opened(embedded_store()).view("2012-05-15")
    prompt = prompts.build(view, "SYN_PAYROLL", to_days("2012-05-01"), "chg", "tools")
    assert "\n\n".join(prompt.split("\n\n")[:3]) in readme
    said = served.observations(view, ["SYN_PAYROLL", "SYN_CLAIMS"], units="chg", last=2)
    assert said in readme


def taskset_tables(table: dict) -> list[dict]:
    """Every taskset table of a config, wherever it stands."""
    found = []
    for key, value in table.items():
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, dict):
                found += [child] if key == "taskset" else taskset_tables(child)
    return found


# Overlays over configs/ablations/base.toml: a part of a config; test_ablation_configs.py has them.
WHOLE = [path for path in CONFIGS if path.parent.name != "ablations" or path.name == "base.toml"]
# SFT reads data, no taskset; test_sft.py has those.
WHOLE = [path for path in WHOLE if path.parent.name != "sft"]


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_shipped_config_names_settings_that_exist(path: Path) -> None:
    tables = taskset_tables(tomllib.loads(path.read_text()))
    assert tables
    for settings in tables:
        config = NowcastConfig.model_validate(settings)
        assert config.id == "nowcast-alfred"
        if path.parent.name == "train" and config.split == "train":
            assert config.rights == "granted"


def test_configs_with_a_run_never_upload_traces() -> None:
    runs = [*(ROOT / "configs/eval").glob("*.toml"), ROOT / "configs/ablations/base.toml"]
    for path in runs:
        assert tomllib.loads(path.read_text())["push"] is False


def test_a_config_can_be_sampled() -> None:
    taskset = read_settings(ROOT / "configs/eval/tools.toml")
    assert next(iter(taskset)).data.as_of >= "2020-01-01"


def test_the_catalog_states_no_later_fact() -> None:
    text = (ROOT / "catalogs/us-macro.toml").read_text()
    shown = re.findall(r'^(?:title|units) = "(.*)"$', text, re.MULTILINE)
    assert len(shown) >= 70
    assert not [line for line in shown if re.search(r"\b(?:19|20)\d\d\b|discontinued", line, re.I)]


def test_store_documentation_names_the_catalogs_keys() -> None:
    page = (ROOT / "docs/store.md").read_text()
    needed = {"id", "title", "frequency", "units", "seasonal_adjustment", "release", "transform"}
    assert needed <= set(SeriesMeta.__dataclass_fields__)
    assert all(re.search(rf"^{name} = ", page, re.MULTILINE) for name in needed)


@pytest.mark.skipif(not (ROOT / "src").exists(), reason="the sources are not here (wheel test)")
def test_modules_stay_small_and_say_what_they_are() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        assert text.count("\n") < 400, path
        assert text.startswith('"""'), path


@pytest.mark.skipif(not (ROOT / "src").exists(), reason="the sources are not here (wheel test)")
def test_only_the_integration_imports_verifiers_and_only_its_public_module() -> None:
    allowed = {"data", "rewards", "task", "tools", "taskset", "reference", "hooks"}
    allowed |= {"audit_channel", "audit_run"}  # they ask it for its trace, fields and harnesses
    allowed |= {"sft_run"}  # it reads traces as conversations, branch by branch
    allowed |= {"attempts"}  # its stop is annotated with what verifiers is to pass
    allowed |= {"direct"}  # it scores replies on a trace of its own, without a rollout
    for path in (ROOT / "src").rglob("*.py"):
        lines = [
            line
            for line in path.read_text().splitlines()
            if re.match(r"\s*(from|import) verifiers", line)
        ]
        assert not lines or path.stem in allowed, path
        assert all(line.strip() == "import verifiers.v1 as vf" for line in lines), path
