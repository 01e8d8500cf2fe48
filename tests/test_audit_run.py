"""What the audit makes of a run's TOML: whose tasksets, which seats, whose tool server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nowcast_alfred.cli import app, main
from nowcast_alfred.errors import ConfigError
from nowcast_alfred.lab import audit_run, audit_served
from nowcast_alfred.lab.audit_case import case_of
from nowcast_alfred.lab.sampling import taskset_of
from nowcast_alfred.tools import CatalogToolset
from test_audit import nothing
from test_tool_hardening import published


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    return published(tmp_path_factory.mktemp("audited"))


def toml(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(text)
    return path


def command(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


# --- Whose tasksets


@pytest.mark.parametrize(
    "ident",
    [
        "nowcast-alfred",
        "nowcast_alfred",
        "Nowcast-Alfred",
        "NOWCAST_alfred",
        "me/nowcast-alfred",
        "me/nowcast_alfred@1.2",
        "nowcast-alfred@latest",
    ],
)
def test_an_id_is_ours_however_verifiers_lets_it_be_written(tmp_path: Path, ident: str) -> None:
    path = toml(tmp_path, f'[env.taskset]\nid = "{ident}"\n')
    found = audit_run.read_sources(path)
    assert ([source.name for source in found.own], found.skipped) == (["env"], [])


@pytest.mark.parametrize("ident", ["gsm8k", "nowcast", "nowcast-alfred-2", "nowcast-alfred/other"])
def test_an_id_of_another_package_is_not_ours(tmp_path: Path, ident: str) -> None:
    path = toml(tmp_path, f'[env.taskset]\nid = "{ident}"\n')
    with pytest.raises(ConfigError, match=f"has no nowcast-alfred taskset.*skipped: env .{ident}"):
        audit_run.read_sources(path)


MIXED = """
[[orchestrator.train.source]]
name = "ours"
[orchestrator.train.source.env.taskset]
id = "nowcast-alfred"
[orchestrator.train.source.env.agent.harness]
id = "null"
[[orchestrator.train.source]]
name = "also ours"
[orchestrator.train.source.env.taskset]
id = "nowcast_alfred"
[orchestrator.train.source.env.agent.harness]
id = "bash"
[orchestrator.train.source.env.agent.runtime]
type = "subprocess"
[[orchestrator.train.source]]
name = "sums"
[orchestrator.train.source.env.taskset]
id = "gsm8k"
[orchestrator.train.source.env]
agent = "as gsm8k likes it"
"""


def test_every_source_is_audited_or_named_as_skipped(tmp_path: Path, place: str) -> None:
    path = toml(tmp_path, MIXED.replace('[orchestrator.train.source.env]\nagent = "as', "#"))
    done = command("--store", place, "--config", path, "--draws", 20, "--json")
    assert done.exit_code == 1, done.output
    reports = json.loads(done.stdout)["audits"]
    assert [report["source"] for report in reports] == ["train: ours", "train: also ours"]
    opened = [f["route"] for f in reports[1]["findings"] if f["status"] == "open"]
    assert opened == [audit_run.BOX]
    for report in reports:
        (found,) = [f for f in report["findings"] if f["route"] == audit_run.OTHERS]
        assert (found["status"], found["evidence"]) == (
            "not checked",
            {"skipped": ["train: sums (gsm8k)"]},
        )


def test_the_table_names_what_is_skipped(tmp_path: Path, place: str) -> None:
    text = MIXED.replace("subprocess", "docker").partition("[orchestrator.train.source.env]\n")[0]
    done = command("--store", place, "--config", toml(tmp_path, text), "--draws", 20)
    assert done.exit_code == 0, done.output
    assert "skipped: train: sums (gsm8k)" in done.output


# --- What belongs in a table


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[env.agent]\nharness = "bash"', r"env.agent: harness = 'bash' is no table; a seat has"),
        ('[env.agent]\nruntime = "subprocess"', "env.agent: runtime = 'subprocess' is no table"),
        ('[env.solver]\nharness = ["bash"]', "env.solver: harness = .* is no table"),
        ('[env]\nagent = "bash"', "env: agent = 'bash' is no table; a seat has"),
        ("[env.agent.harness]\nid = 3", "env.agent.harness: id = 3 is no text"),
        ("[env.agent.runtime]\ntype = true", "env.agent.runtime: type = True is no text"),
        ('[env]\ntaskset = "nowcast-alfred"', "env: taskset = .* is no table"),
        ("[env.taskset]\nid = 1", "env.taskset: id = 1 is no text"),
        ('taskset = "nowcast-alfred"', "taskset = .* is no table"),
        ('env = "nowcast-alfred"', "env = .* is no table"),
        ('orchestrator = "x"', "orchestrator = 'x' is no table"),
        ("[orchestrator]\ntrain = 1", "orchestrator: train = 1 is no table"),
        ('[orchestrator.train]\nsource = "a"', "orchestrator.train.source is no list of tables"),
        ("source = [1]", "source is no list of tables"),
        ("[[source]]\nenv = 1", r"source\[0\]: env = 1 is no table"),
        ('[[source]]\n[source.env]\nagent = "a"', r"source\[0\].env: agent = 'a' is no table"),
    ],
)
def test_what_is_no_table_is_wrong_use(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        audit_run.read_sources(toml(tmp_path, text))


def test_a_harness_given_as_text_ends_with_2_and_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = toml(tmp_path, '[env.taskset]\nid = "nowcast-alfred"\n[env.agent]\nharness = "bash"\n')
    monkeypatch.setattr("sys.argv", ["nowcast-alfred", "audit", "--config", str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "Traceback" not in said
    assert all(word in said for word in ("run.toml", "harness", "runtime", '"bash"'))


# --- Whose tool server


SECRET = "http://me:word@127.0.0.1:9/mcp?key=secret#part"


def served_with(place: str, **tools: Any) -> Any:
    case = case_of(taskset_of({"closed_egress": False, "tools": tools}, "test", place), 20)
    return audit_served.check(case, nothing, 2)


def test_a_tool_server_elsewhere_is_not_called_closed(place: str) -> None:
    found = served_with(place, url=SECRET)
    assert found.status == "not checked"
    assert found.evidence["tool servers not asked"] == ["http://127.0.0.1:9/mcp"]
    assert found.evidence["texts"] > 0
    assert "http://127.0.0.1:9/mcp" in found.advice
    assert "run the audit where that server runs" in found.advice
    assert served_with(place).status == "closed"


def test_an_address_is_named_without_credentials(tmp_path: Path, place: str) -> None:
    path = toml(
        tmp_path,
        f'[env.taskset]\nid = "nowcast-alfred"\nclosed_egress = false\n'
        f'[env.taskset.tools]\nurl = "{SECRET}"\n[env.agent.harness]\nid = "null"\n',
    )
    for form in ([], ["--json"]):
        done = command("--store", place, "--config", path, "--draws", 20, *form)
        assert done.exit_code == 0, done.output
        assert "http://127.0.0.1:9/mcp" in done.output
        assert not [word for word in ("word@", "secret", "me:") if word in done.output]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host/mcp", "http://host/mcp"),
        ("https://token@host:1/mcp", "https://host:1/mcp"),
        ("http://me:a/b@host/mcp", "http://host/mcp"),
        ("me:word@host/mcp", "host/mcp"),
        ("http://[::1]:9/mcp?key=a@b", "http://[::1]:9/mcp"),
    ],
)
def test_credentials_are_cut_from_any_address(url: str, shown: str) -> None:
    assert audit_served.bare_address(url) == shown


def test_a_leak_in_the_tools_of_this_installation_stays_open(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def peek(server: Any, series_id: str) -> str:
        return "an answer on any day"

    peek.tool = True  # type: ignore[attr-defined]
    monkeypatch.setattr(CatalogToolset, "peek", peek, raising=False)
    found = served_with(place, url=SECRET)
    assert (found.status, found.evidence["where"]) == ("open", ["peek"])


def test_without_tools_no_server_is_looked_for(place: str) -> None:
    settings = {"context": "prompt", "tools": {"url": SECRET}, "closed_egress": False}
    case = case_of(taskset_of(settings, "test", place), 20)
    assert audit_served.check(case, nothing, 2).status == "closed"
