"""The audit: it passes where every route is closed, and names the route where one is open."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import verifiers.v1 as vf
from typer.testing import CliRunner

from nowcast_alfred import prompts, served, targets, task, taskset, tools
from nowcast_alfred.cli import app
from nowcast_alfred.data import NowcastState
from nowcast_alfred.errors import ConfigError, InputError
from nowcast_alfred.lab import (
    audit,
    audit_channel,
    audit_dates,
    audit_files,
    audit_notes,
    audit_run,
    audit_served,
)
from nowcast_alfred.lab.audit_case import Case, Finding, case_of
from nowcast_alfred.lab.sampling import taskset_of
from nowcast_alfred.locate import opened
from nowcast_alfred.periods import iso, to_days
from nowcast_alfred.rewards import outcome
from nowcast_alfred.store import AsOfView, SeriesInput, VintageStore, publish
from nowcast_alfred.store.reader import Observations
from nowcast_alfred.task import NowcastTask
from nowcast_alfred.tools import CatalogToolset
from panels import small_series
from test_tool_hardening import published

ROOT = Path(__file__).resolve().parent.parent
ROUTES = {
    audit_dates.ROUTE,
    audit_served.ROUTE,
    "another series of the store",
    audit_files.ROUTE,
    audit_channel.ROUTE,
    audit_run.EGRESS,
    audit_run.BOX,
    audit_notes.MEMORY,
    audit_notes.RIGHTS,
}


def nothing() -> None:
    """A step that nobody is told of."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    return published(tmp_path_factory.mktemp("audited"))


@pytest.fixture
def case(place: str) -> Case:
    return case_for(place)


def case_for(place: str, draws: int = 60, **settings: Any) -> Case:
    return case_of(taskset_of(settings, "test", place), draws)


def status(report: audit.Report) -> dict[str, str]:
    return {finding.route: finding.status for finding in report.findings}


# --- It passes


def test_the_small_store_is_closed_and_every_route_is_named(place: str) -> None:
    (report,) = audit.run(store=place, draws=100, served=10)
    assert report.opened == []
    assert set(status(report)) == ROUTES


def test_the_embedded_store_is_closed() -> None:
    (report,) = audit.run(draws=1000, served=8)
    assert report.opened == []


@pytest.mark.real
def test_the_real_panel_is_closed(real_data: Path, tmp_path: Path) -> None:
    """20,000 draws are measured by hand; here are fewer."""
    catalog, panel = ROOT / "catalogs/us-macro.toml", real_data / "us_panel_2016_2025.parquet"
    arguments = ["--catalog", str(catalog), "--format", "long", str(panel)]
    done = CliRunner().invoke(app, ["store", "import", str(tmp_path / "S"), *arguments])
    assert done.exit_code == 0, done.output
    (report,) = audit.run(store=str(tmp_path / "S"), draws=1000, served=8)
    assert report.opened == []


def test_opaque_tasks_are_closed(place: str) -> None:
    assert audit_served.check(case_for(place, opaque=True), nothing, 10).status == "closed"
    assert audit_channel.check(case_for(place, opaque=True), nothing, 60).status == "closed"


def test_draws_are_spread_over_the_series(case: Case) -> None:
    series = {draw.series_id for draw in case.draws}
    assert {draw.series_id for draw in case.spread(len(series))} == series
    assert len(case.spread(10**6)) == len(case.draws)


# --- Dates


def early(found: Any) -> Any:
    """Targets asked for on the day before their windows, but for those before any vintage."""
    later = found.low > found.low[:1].min(initial=10**6)
    return replace(found, low=found.low - 1, high=found.low - 1).where(later)


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (lambda t: replace(t, low=t.high + 1, high=t.high + 1), "already known on"),
        (lambda t: early(t), "the period before is not published"),
    ],
    ids=["late", "early"],
)
def test_a_window_shifted_by_one_day_is_open(
    place: str, shift: Callable[[Any], Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = targets.first_releases
    monkeypatch.setattr(targets, "first_releases", lambda *given: shift(honest(*given)))
    (report,) = audit.run(store=place, draws=60, served=1)
    (found,) = [finding for finding in report.opened if finding.route == audit_dates.ROUTE]
    assert found.evidence["faulty"] > 0
    assert words in found.evidence["first"]


def test_an_outcome_that_is_not_the_first_release_is_open(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = VintageStore.outcome

    def late(store: VintageStore, *given: Any) -> Any:
        found = honest(store, *given)
        return replace(found, first=found.latest)

    monkeypatch.setattr(VintageStore, "outcome", late)
    found = audit_dates.check(case, nothing)
    assert found.status == "open"
    assert "the outcome is" in found.evidence["first"]


# --- What is served


def ahead(view: AsOfView) -> AsOfView:
    """The view of a day after all others."""
    return AsOfView(view._store, to_days("2040-01-01"))


def unbound(read: Callable[..., str]) -> Callable[..., str]:
    """A function of `served` that looks ahead."""
    return lambda view, *given, **named: read(ahead(view), *given, **named)


@pytest.mark.parametrize("tool", ["observations", "search", "series", "revisions", "releases"])
def test_a_tool_that_ignores_the_as_of_date_is_open(
    case: Case, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, tool, unbound(getattr(served, tool)))
    found = audit_served.check(case, nothing, 8)
    assert (found.route, found.status) == (audit_served.ROUTE, "open")
    assert tool in found.evidence["where"]


def test_a_tool_server_that_answers_with_the_latest_data_is_open(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def latest(server: CatalogToolset, read: Callable[[AsOfView], str]) -> str:
        return read(tools.opened(tools.store_uri(server.config.store)).view("2099-12-31"))

    monkeypatch.setattr(CatalogToolset, "_answer", latest)
    (report,) = audit.run(store=place, draws=20, served=3)
    (found,) = report.opened
    assert found.route == audit_served.ROUTE
    assert {"observations", "revisions", "releases", "series"} <= set(found.evidence["where"])


def test_a_tool_that_reads_the_store_elsewhere_is_open(
    place: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twins cannot show it; a row of the period asked for does."""
    other = opened(place)
    monkeypatch.setattr(
        served, "observations", lambda view, series_ids, *_: later_block(other, series_ids)
    )
    found = audit_served.check(case, nothing, 8)
    assert "gives the period asked for" in found.evidence["first"]


def table(known: Observations) -> str:
    """Values as the tools and the staged files lay them out."""
    rows = zip(known.period.tolist(), known.value.tolist(), strict=True)
    return "\n".join(f"{iso(period)},{served.number(value)}" for period, value in rows)


def later_block(store: VintageStore, series_ids: Any) -> str:
    key = series_ids if isinstance(series_ids, str) else series_ids[0]
    try:
        return f"{key} | lin\n{table(store.view('2099-12-31').observations(key))}"
    except ValueError:
        return "error: unknown"


def test_a_tool_that_answers_without_a_day_is_open(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hello(server: CatalogToolset, series_id: str) -> str:
        return f"{series_id} is a fine series"

    monkeypatch.setattr(CatalogToolset, "series", marked(hello))
    found = audit_served.check(case, nothing, 2)
    assert found.evidence["first"] == "series answers without an as-of date"


def marked(function: Any) -> Any:
    function.tool = True
    return function


def test_a_tool_of_another_name_is_asked_as_well(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def peek(server: CatalogToolset, moment: str) -> str:
        if not server.state.as_of:
            return "error: no day"
        store = tools.opened(tools.store_uri(server.config.store), server.state.store)
        return f"{store.changes(server.state.series_id).columns.value.sum()}"

    monkeypatch.setattr(CatalogToolset, "peek", marked(peek), raising=False)
    assert audit_served.check(case, nothing, 3).evidence["where"] == ["peek"]


def reader(server: Any) -> VintageStore:
    return tools.opened(tools.store_uri(server.config.store), server.state.store)


def later_if(late: Callable[[Any], bool]) -> Any:
    """A tool with one argument of its own, which looks ahead for some values of it."""

    async def peek(server: Any, series_id: str, how: Any = None) -> str:
        if not server.state.as_of:
            return "error: no day"
        day = "2099-12-31" if late(how) else server.state.as_of
        return served.observations(reader(server).view(day), series_id)

    return marked(peek)


@pytest.mark.parametrize(
    ("hint", "late"),
    [
        (Literal["as known", "revised"], lambda how: how == "revised"),
        (Literal["as known", "revised"] | None, lambda how: how == "revised"),
        (bool, lambda how: how is True),
        (str, lambda how: how == "latest"),
    ],
    ids=["literal", "optional literal", "switch", "word"],
)
def test_a_tool_that_looks_ahead_for_one_value_of_an_argument_is_open(
    case: Case, hint: Any, late: Callable[[Any], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = later_if(late)
    tool.__annotations__["how"] = hint
    monkeypatch.setattr(CatalogToolset, "peek", tool, raising=False)
    assert audit_served.check(case, nothing, 3).evidence["where"] == ["peek"]


KEPT = {
    "call": lambda server, words: words,
    "series": lambda server, words: server.state.series_id,
    "store and series": lambda server, words: (server.state.store, server.state.series_id),
}


@pytest.mark.parametrize("by", KEPT)
def test_a_tool_that_keeps_what_it_read_for_an_earlier_rollout_is_open(
    place: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept without the day, what a rollout reads depends on which one came before it."""
    kept: dict[Any, AsOfView] = {}

    async def observations(server: Any, series_ids: Any) -> str:
        if not server.state.as_of:
            return "error: no day"
        view = reader(server).view(server.state.as_of)
        return served.observations(
            kept.setdefault(KEPT[by](server, str(series_ids)), view), series_ids
        )

    monkeypatch.setattr(CatalogToolset, "observations", marked(observations))
    alone = case_for(place, draws=8, series=["EMP"])
    assert audit_served.check(alone, nothing, 1).evidence["where"] == ["observations"]


class Calendar(vf.Toolset[Any, NowcastState]):
    """A second tool server: when the next release comes."""

    @vf.tool
    async def upcoming(self, series_id: str) -> str:
        if not self.state.as_of:
            return "error: no day"
        day = reader(self).changes(series_id).columns.vintage
        return iso(int(day[day > to_days(self.state.as_of)].min()))


def test_the_tools_of_another_server_are_asked_as_well(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = taskset.NowcastTaskset.toolsets

    def toolsets(cls: Any, config: Any) -> list[Any]:
        own = honest(config)
        return [*own, Calendar(own[0].config)]

    monkeypatch.setattr(taskset.NowcastTaskset, "toolsets", classmethod(toolsets))
    assert audit_served.check(case, nothing, 3).evidence["where"] == ["upcoming"]


def test_a_tool_that_tells_how_much_is_to_come_is_open(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def series(server: Any, series_id: str) -> str:
        if not server.state.as_of:
            return "error: no day"
        day = reader(server).changes(series_id).columns.vintage
        return f"{(day > to_days(server.state.as_of)).sum()} vintages to come"

    monkeypatch.setattr(CatalogToolset, "series", marked(series))
    assert audit_served.check(case, nothing, 3).evidence["where"] == ["series"]


def test_a_prompt_that_looks_ahead_is_open(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = prompts._context
    monkeypatch.setattr(prompts, "_context", lambda view, *given: honest(ahead(view), *given))
    found = audit_served.check(case, nothing, 8)
    assert {"prompt", "data"} <= set(found.evidence["where"])


def test_a_staged_file_that_looks_ahead_is_open(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "staged_files", unbound(served.staged_files))
    assert audit_served.check(case, nothing, 8).evidence["where"] == ["file"]


# --- Files


def test_a_wheel_with_one_parquet_file_is_open(place: str, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"value": [1.0]}), buffer)
    wheel = tmp_path / "nowcast_alfred-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("nowcast_alfred/__init__.py", "")
        archive.writestr("nowcast_alfred/cache.bin", buffer.getvalue())
    (report,) = audit.run(store=place, draws=20, dists=[wheel], served=1)
    (found,) = report.opened
    assert found.route == audit_files.ROUTE
    assert found.evidence["found"] == [f"{wheel.name}/nowcast_alfred/cache.bin: Parquet"]


def searched(place: str, tmp_path: Path, name: str, content: bytes) -> list[str]:
    """What is found in an sdist that holds one file."""
    sdist = tmp_path / "dist.tar.gz"
    with tarfile.open(sdist, "w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return audit_files.check(opened(place), [sdist]).evidence.get("found", [])


def arrow() -> bytes:
    buffer = io.BytesIO()
    table = pa.table({"value": [1.0]})
    with pa.ipc.new_file(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def zipped(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("d/a.dat", arrow(), "Arrow"),
        ("d/a.dat", gzip.compress(arrow()), "Arrow"),
        ("d/a.dat", zipped("inner", arrow()), "Arrow"),
        ("d/a.dat", zipped("xl/workbook.xml", b"<workbook/>"), "XLSX"),
        ("d/a.csv", b"date,value\n", "a data file by its name"),
        ("d/a.parquet", b"", "a data file by its name"),
        ("d/a.csv.gz", gzip.compress(b"a\n", mtime=0), "a data file by its name"),
        ("d/a", b"PK\x03\x04 and nothing", "an archive that cannot be opened"),
    ],
)
def test_a_data_file_is_known_by_its_bytes_and_by_its_name(
    place: str, tmp_path: Path, name: str, content: bytes, what: str
) -> None:
    (found,) = searched(place, tmp_path, name, content)
    assert found.endswith(what)


def test_text_with_five_values_in_a_row_is_found_however_laid_out(
    place: str, tmp_path: Path
) -> None:
    view = opened(place).view("2099-12-31")
    known = view.observations("EMP")
    values = [served.number(x) for x in known.value[-9:-4].tolist()]
    dated = "\n".join(table(known).splitlines()[-9:-4])
    wide = "\n".join(f"row {i}: {7 * i}, {x}" for i, x in enumerate(values))
    for text in (", ".join(values), dated, wide, json.dumps(list(map(float, values)))):
        (found,) = searched(place, tmp_path, "d/notes.md", text.encode())
        assert "values of EMP" in found
    assert searched(place, tmp_path, "d/notes.md", ", ".join(values[:4]).encode()) == []
    assert searched(place, tmp_path, "d/notes.md", ", ".join(values[::-1]).encode()) == []


def test_small_numbers_need_a_longer_row(place: str, tmp_path: Path) -> None:
    known = opened(place).view("2099-12-31").observations("YIELD").value[-14:]
    values = [served.number(x) for x in known.tolist()]
    assert (
        searched(place, tmp_path, "d/a.txt", " ".join(["1 2 3 4 5 6 7 8 9 10 11 12"]).encode())
        == []
    )
    (found,) = searched(place, tmp_path, "d/a.txt", " ".join(values).encode())
    assert "values of YIELD" in found


def test_a_distribution_that_is_not_there_is_wrong_use(place: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name wheels or sdists"):
        audit_files.check(opened(place), [tmp_path / "none.whl"])


@pytest.mark.parametrize("content", [b"", b"\0garbage\xff" * 300, b"print('no archive')\n"])
def test_a_distribution_that_is_no_archive_is_wrong_use(
    place: str, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "x.whl").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.whl: is no wheel or sdist"):
        audit_files.check(opened(place), [tmp_path / "x.whl"])


# --- The task channel


def with_answer(monkeypatch: pytest.MonkeyPatch, place: str, change: Callable[..., Any]) -> None:
    """Tasks whose data are changed by one who knows the first release."""
    honest = task.make_data

    def make_data(*given: Any, **named: Any) -> Any:
        data = honest(*given, **named)
        return change(data, outcome(data, place).first)

    monkeypatch.setattr(taskset, "make_data", make_data)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (
            lambda d, y: d.model_copy(update={"description": f"it was {y:.8g}"}),
            "task.data.description",
        ),
        (lambda d, y: d.model_copy(update={"baseline": y}), "task.data.baseline"),
        (
            lambda d, y: d.model_copy(update={"artifacts": [{"a": {d.series_id: y}}]}),
            "task.data.artifacts",
        ),
    ],
    ids=["text", "number", "nested"],
)
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_task_data_with_the_outcome_are_open(
    place: str, change: Callable[..., Any], field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_answer(monkeypatch, place, change)
    found = audit_channel.check(case_for(place), nothing)
    assert (found.route, found.status) == (audit_channel.ROUTE, "open")
    assert found.evidence["fields"] == [field]


def test_a_report_names_the_task_channel(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_answer(monkeypatch, place, lambda d, y: d.model_copy(update={"description": f"{y:.8g}"}))
    (report,) = audit.run(store=place, draws=60, served=1)
    assert status(report)[audit_channel.ROUTE] == "open"


def test_state_with_the_outcome_is_open(
    place: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = NowcastTask.setup

    async def setup(own: NowcastTask, trace: Any, runtime: Any) -> None:
        await honest(own, trace, runtime)
        trace.state.lookups = round(outcome(own.data, place).first)
        trace.info["seen"] = outcome(own.data, place).first

    monkeypatch.setattr(NowcastTask, "setup", setup)
    found = audit_channel.check(case, nothing)
    assert "info.seen" in found.evidence["fields"]


def titled(folder: Path, words: str) -> Finding:
    """The finding on a store in which one target's first release is told by a title."""
    info, rows = small_series()["EMP"]
    publish(folder, [SeriesInput([replace(info[-1], title=words)], rows)])
    return audit_channel.check(case_for(str(folder), draws=200), nothing)


def test_a_title_with_a_first_release_is_open(place: str, tmp_path: Path) -> None:
    draw = next(draw for draw in case_for(place).draws if draw.series_id == "EMP")
    y = opened(place).outcome("EMP", draw.period, "chg").first
    found = titled(tmp_path / "told", f"Jobs ({y:.8g} in {iso(draw.period)}), 2015=100")
    assert found.status == "open"
    assert any(
        line.startswith(f"{y:.8g}: EMP {iso(draw.period)}") for line in found.evidence["metadata"]
    )
    assert "valid_from" in found.advice
    honest = titled(tmp_path / "honest", f"Jobs in {iso(draw.period)}, 2015=100, 1999 and 12.3")
    assert (honest.status, honest.evidence.get("metadata")) == ("closed", None)


def test_a_field_nobody_has_looked_at_is_named(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {kind: names - {"horizon_days"} for kind, names in audit_channel.KNOWN.items()}
    monkeypatch.setattr(audit_channel, "KNOWN", known)
    found = audit_channel.check(case, nothing)
    assert found.status == "closed"
    assert found.evidence["fields not known here"] == ["NowcastData.horizon_days"]


# --- Network and runtime


def test_a_network_field_that_verifiers_drops_is_open(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "closed_network", lambda closed: {"net": []} if closed else {})
    (report,) = audit.run(store=place, draws=20, served=3)
    (found,) = report.opened
    assert found.route == audit_run.EGRESS
    assert found.evidence["field"] == "net"
    assert found.evidence["verifiers"]


TOML = """
push = {push}
[env.taskset]
id = "nowcast-alfred"
closed_egress = {closed}
[env.agent.harness]
id = "{harness}"
[env.agent.runtime]
type = "{runtime}"
"""


def judged(tmp_path: Path, place: str, **settings: str) -> tuple[Finding, Finding]:
    """Network and box of a vf-eval TOML."""
    path = tmp_path / "run.toml"
    defaults = {"push": "false", "closed": "true", "harness": "bash", "runtime": "docker"}
    path.write_text(TOML.format_map({**defaults, **settings}))
    (source,) = audit_run.read_sources(path).own
    built = taskset_of(source.settings, path, place)
    return audit_run.network(built, source.agents), audit_run.box(source)


@pytest.mark.parametrize(
    ("harness", "runtime", "closed", "network", "box"),
    [
        ("bash", "docker", "true", "closed", "closed"),
        ("bash", "prime", "true", "closed", "closed"),
        ("bash", "docker", "false", "open", "closed"),
        ("bash", "subprocess", "true", "closed", "open"),
        ("bash", "subprocess", "false", "open", "open"),
        ("null", "subprocess", "false", "closed", "closed"),
        ("null", "docker", "true", "closed", "closed"),
        ("not-installed", "subprocess", "false", "open", "open"),
        ("bash", "no-such-runtime", "true", "closed", "not checked"),
    ],
)
def test_harness_and_runtime_are_judged_together(
    place: str, tmp_path: Path, harness: str, runtime: str, closed: str, network: str, box: str
) -> None:
    found = judged(tmp_path, place, harness=harness, runtime=runtime, closed=closed)
    assert [finding.status for finding in found] == [network, box]


def test_an_upload_of_traces_is_noted(place: str, tmp_path: Path) -> None:
    assert "note" not in judged(tmp_path, place)[1].evidence
    assert "vf-eval uploads" in judged(tmp_path, place, push="true")[1].evidence["note"]


def test_without_a_config_no_runtime_is_judged(case: Case) -> None:
    (source,) = audit_run.read_sources(None).own
    assert audit_run.box(source).status == "not checked"
    assert audit_run.network(case.taskset, source.agents).status == "closed"


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("[etv]*/*.toml")), ids=str)
def test_every_shipped_run_keeps_its_agents_boxed(path: Path) -> None:
    for source in audit_run.read_sources(path).own:
        built = taskset_of(source.settings, path)
        found = [audit_run.network(built, source.agents), audit_run.box(source)]
        assert not [finding for finding in found if finding.status == "open"], path


def test_a_training_toml_is_read_source_by_source() -> None:
    sources = audit_run.read_sources(ROOT / "configs/train/tools.toml").own
    assert [source.name for source in sources][:2] == ["train: nowcast-train", "eval: nowcast-eval"]
    assert {source.settings["split"] for source in sources} == {"train", "eval"}


def test_a_toml_without_our_taskset_is_wrong_use(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('[env.taskset]\nid = "gsm8k"\n')
    with pytest.raises(ConfigError, match="has no nowcast-alfred taskset"):
        audit_run.read_sources(path)


# --- What is said beside


def test_memory_is_never_called_closed(place: str) -> None:
    found = audit_notes.memory(case_for(place, model_cutoff="2014-01-01"))
    assert found.status == "cannot be closed"
    assert found.evidence["model_cutoff"] == "2014-01-01"
    assert "nowcast-alfred recall" in found.advice


def test_rights_are_counted_and_never_a_route(case: Case) -> None:
    found = audit_notes.rights(case)
    assert found.status == "note"
    assert found.evidence["may be trained on"] is True
    assert sum(found.evidence["training"].values()) == len(case.stream.space.series)


# --- The command


def command(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def test_the_command_prints_a_table_and_ends_with_0(place: str) -> None:
    done = command("--store", place, "--draws", 20)
    assert done.exit_code == 0, done.output
    assert "cannot be closed" in done.output


def test_the_command_ends_with_1_when_a_route_is_open(place: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.whl"
    bad.write_bytes(zipped("a.csv", b"1"))
    done = command("--store", place, "--draws", 20, "--dist", bad, "--json")
    assert done.exit_code == 1
    (report,) = json.loads(done.stdout)["audits"]
    (found,) = [f for f in report["findings"] if f["status"] == "open"]
    assert found["evidence"]["found"] == ["bad.whl/a.csv: a data file by its name"]
