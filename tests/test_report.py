"""Reports: what they say against independent sums, their markup, and what they refuse."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import test_store_s3
from canned_runs import failed, write_run
from commands import run
from nowcast_alfred.answers import NAMES
from nowcast_alfred.errors import ConfigError, InputError, QueryError
from nowcast_alfred.lab import report_measures as measures
from nowcast_alfred.lab import report_svg as svg
from nowcast_alfred.lab.report import default_output, write_report
from nowcast_alfred.lab.report_examples import best_and_worst, conversations
from nowcast_alfred.lab.report_page import escaped, page
from nowcast_alfred.lab.report_results import pit
from nowcast_alfred.lab.report_run import run_report
from nowcast_alfred.lab.report_store import splits, store_report
from nowcast_alfred.lab.traces import read_run
from nowcast_alfred.periods import iso, period_end
from nowcast_alfred.store import SeriesInput, VintageStore, publish
from nowcast_alfred.store.manifest import SeriesEntry
from nowcast_alfred.targets import SpaceConfig, build_space
from pages import asked, several, sound
from panels import history, meta, small_inputs, small_store, table
from test_store_s3 import endpoint  # noqa: F401  # the fixture

# --- What is said of a store


def entries(store: VintageStore) -> dict[str, SeriesEntry]:
    return {key: SeriesEntry("", "", "", 0, "", "", "") for key in store.series_ids}


def measured(key: str) -> measures.Measured:
    store = small_store()
    return measures.measure(store, key, entries(store)[key], measures.space_of(store)[0])


@pytest.mark.parametrize("key", ["EMP", "OUTPUT", "PRICES", "CLAIMS"])
def test_revision_sizes_are_first_against_latest_over_the_naive_error(key: str) -> None:
    store = small_store()
    targets = build_space(store, SpaceConfig(split="all")).series[key]
    units = store.meta(key).transform
    newest = int(store.changes(key).columns.vintage.max())
    moved, missed = [], []
    for period, release, high in zip(targets.period, targets.release, targets.high, strict=True):
        truth = store.outcome(key, int(period), units)
        if release <= newest - 180 and truth.latest is not None:
            last = store.view(iso(int(high))).observations(key, units=units).value[-1]
            moved.append(abs(truth.first - truth.latest))
            missed.append(abs(truth.first - last))
    found = measured(key)
    assert found.revision == pytest.approx(np.mean(moved))
    assert found.naive == pytest.approx(np.mean(missed))
    assert found.relative == pytest.approx(sum(moved) / sum(missed))


def test_the_pandemic_and_young_releases_are_no_part_of_revision_sizes() -> None:
    def size(first: str) -> float | None:
        rows = history("X", "m", first, 74, 5, start=90_000, span=900)
        store = VintageStore.from_tables({"X": table(rows)}, [meta("X")])
        entry = entries(store)["X"]
        return measures.measure(store, "X", entry, measures.space_of(store)[0]).relative

    assert size("2008-01-01") is not None
    assert size("2015-11-01") is None, "the same number, but 17 in the pandemic"


def test_lags_count_from_the_periods_end() -> None:
    found = measured("EMP")
    firsts = found.releases
    own = [r - period_end(int(q), "m") for q, r in zip(firsts.period, firsts.release, strict=True)]
    assert found.lags.tolist() == own
    assert found.lag == tuple(np.quantile(own, (0.1, 0.5, 0.9)))


def test_brackets_are_the_days_between_the_two_ends() -> None:
    assert set(measured("SURVEY").brackets.tolist()) == {6}
    assert set(measured("EMP").brackets.tolist()) == {0}


def test_revisions_are_the_change_points_after_a_periods_first() -> None:
    columns = small_store().changes("EMP").columns
    assert measured("EMP").changed == len(columns.period) - len(set(columns.period.tolist()))


def testsplits_are_what_the_task_space_of_each_split_holds() -> None:
    store = small_store()
    space, _ = measures.space_of(store)
    found = [measures.measure(store, key, e, space) for key, e in entries(store).items()]
    rows = splits([one for one in found if one.targets is not None])
    assert len(rows) == 5
    for day, train, later, neither in rows:
        sizes = [
            len(build_space(store, SpaceConfig(split=split, eval_from=day)))
            for split in ("train", "eval")
        ]
        assert [train, later] == sizes
        assert train + later + neither == len(space or ())


@pytest.mark.parametrize("key", ["EMP", "CLAIMS", "GONE", "OUTPUT"])
def test_a_triangle_holds_what_each_vintage_knew(key: str) -> None:
    store = small_store()
    found = measures.triangle(store, key)
    units = store.meta(key).transform
    for column, day in enumerate(found.vintages):
        known = store.view(iso(day)).observations(key, units=units)
        values = dict(zip(known.period.tolist(), known.value.tolist(), strict=True))
        own = [values.get(period, math.nan) for period in found.periods]
        np.testing.assert_array_equal(found.values[:, column], own)
    for row, at in enumerate(found.first):
        if at >= 0:
            truth = store.outcome(key, found.periods[row], units)
            assert iso(found.vintages[at]) == truth.first_vintage
            assert found.values[row, at] == truth.first
            assert np.isnan(found.values[row, :at]).all()


def test_a_store_without_a_task_says_why() -> None:
    rows = history("X", "m", "2012-01-01", 50, 5)
    store = VintageStore.from_tables({"X": table(rows)}, [meta("X", role="predictor")])
    space, why = measures.space_of(store)
    with pytest.raises(ConfigError) as refused:
        build_space(store, SpaceConfig(split="all"))
    assert space is None
    assert why == str(refused.value)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("small") / "S"
    publish(folder, small_inputs())
    return str(folder)


def test_the_page_of_a_store_says_what_it_holds(small: str) -> None:
    document = sound(store_report(small))
    store = small_store()
    assert store.fingerprint in document.text
    assert all(key in document.text for key in store.series_ids)
    assert "Revision triangle of EMP" in document.text
    assert "series) only a bracket of days is known (vintage_lower), median 6 days" in document.text
    assert document.tags["svg"] == 4


def test_another_triangle_can_be_asked_for(small: str) -> None:
    assert "Revision triangle of CLAIMS" in store_report(small, "CLAIMS")
    with pytest.raises(QueryError, match="CLAIMS, EMP"):
        store_report(small, "NONE")


def test_a_series_whose_values_were_all_withdrawn_has_an_empty_triangle(small: str) -> None:
    assert "Revision triangle of GONE" in store_report(small, "GONE")


def test_a_large_store_stays_small_and_legible(tmp_path: Path) -> None:
    def copied(i: int) -> SeriesInput:
        key = f"A_RATHER_LONG_NAME_{i:03d}"
        rows = history(str(i), "m", "2008-01-01", 110 + i % 3, 5 + i % 40)
        return SeriesInput([meta(key)], table(rows))

    publish(tmp_path / "S", [copied(i) for i in range(150)])
    text = store_report(str(tmp_path / "S"))
    assert len(text.encode()) < 5_000_000
    assert text.count("90 series with fewer first releases are left out.") == 3
    sound(text)


# --- What is said of a run


def test_the_page_of_a_run_says_what_happened(tmp_path: Path) -> None:
    document = sound(run_report([write_run(tmp_path / "one", several())]))
    assert "Run one" in document.text
    assert "SandboxError: no <box>" in document.text
    assert "refused (not a number: soon)" in document.text
    assert "Calibration" not in document.text
    assert document.tags["svg"] == 6


def test_runs_are_compared_in_colours_of_their_own(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / where / "run", several()) for where in ("a", "b")]
    text = run_report(runs)
    document = sound(text)
    assert "Run a/run, b/run" in document.text
    assert 'class="f1"' in text
    assert 'class="f2"' not in text


def test_errors_are_held_against_the_baselines(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "r",
        [
            asked("A", 0.5, baseline=1.0),
            asked("B", 1.0, baseline=1.0),
            asked("C", 3.0, baseline=1.0),
            asked("D", None, baseline=9.0),
        ],
    )
    cells = sound(run_report([folder])).text
    # 3 forecasts; mean of 0.25, 0.5, 1.5 scales; of 0.5 thrice; then nearer, as near, farther.
    assert "r30.750.51.533% (6% to 79%)33.3%33.3%" in cells.replace("\n", "")


@pytest.mark.parametrize(
    ("spread", "shares"),
    [
        ({"interval": [-1.0, 2.0]}, [0.0, 1.0, 0.0]),
        (
            {"quantiles": dict(zip(NAMES, (-2.0, -1.0, -0.5, 1.0, 2.0), strict=True))},
            [0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
        ),
    ],
)
def test_calibration_is_shown_where_more_than_a_point_was_elicited(
    spread: dict[str, Any], shares: list[float], tmp_path: Path
) -> None:
    folder = write_run(tmp_path / "r", [asked(f"S{i}", 0.0, **spread) for i in range(3)])
    text = run_report([folder])
    assert "Calibration" in sound(text).text
    drawn = text.split("Where the outcomes fall")[1].split("</svg>")[0]
    assert [part.split("<")[0] for part in drawn.split("<title>")[1:]] == [
        f"{share:.1%}" for share in shares
    ]


def test_the_pit_of_a_calibrated_forecast_is_that_of_its_levels() -> None:
    rng = np.random.default_rng(0)
    draws = rng.normal(size=20_000).tolist()
    quantiles = [-1.2816, -0.6745, 0.0, 0.6745, 1.2816]
    found = pit([(y, quantiles) for y in draws], 5)
    assert found == pytest.approx([0.1, 0.15, 0.25, 0.25, 0.15, 0.1], abs=0.01)
    assert found == pytest.approx(np.histogram(draws, [-9, *quantiles, 9])[0] / len(draws))


def test_best_and_worst_are_forecasts_of_different_tasks(tmp_path: Path) -> None:
    episodes = [asked(f"S{i // 2}", 0.1 * i) for i in range(16)] + [asked("X", None)]
    rollouts = read_run(write_run(tmp_path / "r", episodes))
    assert best_and_worst(rollouts) == ([0, 2, 4], [15, 13, 11])


def test_equal_rewards_are_ranked_by_error(tmp_path: Path) -> None:
    episodes = [asked(f"S{i}", float(f), reward=1.0) for i, f in enumerate((3, 1, 2))]
    rollouts = read_run(write_run(tmp_path / "r", episodes))
    assert best_and_worst(rollouts)[0] == [1, 2, 0]


def test_conversations_are_found_behind_episodes_without_a_trace(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "r", [failed("g"), asked("A", 1.0, reply="one"), asked("B", 1.0, reply="two")]
    )
    assert [r.ok for r in read_run(folder)] == [False, True, True]
    found = conversations(folder, [2])
    assert list(found) == [2]
    assert [message["content"] for message in found[2]] == ["Forecast it.", "two"]


HOSTILE = (
    "</pre></details><script>alert(1)</script><img src=x onerror=alert(2)>\n"
    "& &lt; \"quoted\" 'too' ]]> <!-- \x00\x1b[31m \u2028 {{x}} "
)


def test_markup_in_prompts_replies_and_names_is_shown_and_does_nothing(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "<b>run",
        [
            asked(f"{HOSTILE[:24]}{i}", 1.0 * i, prompt=HOSTILE, reply=f"{HOSTILE}\nFORECAST: {i}")
            for i in range(3)
        ]
        + [failed("g", HOSTILE)],
    )
    document = sound(run_report([folder]))
    assert document.text.count("<script>alert(1)</script>") >= 6
    assert "\x00" not in document.text
    assert document.tags["b"] == 0


def test_a_lone_surrogate_can_be_written() -> None:
    assert page("x", escaped("\ud800"), []).encode()


def test_markup_in_a_stores_metadata_does_nothing(tmp_path: Path) -> None:
    rows = history("X", "m", "2008-01-01", 100, 5)
    hostile = meta("X", title=HOSTILE[:60], category="<i>", source="<u>", licence="<s>")
    publish(tmp_path / "S", [SeriesInput([hostile], table(rows))])
    document = sound(store_report(str(tmp_path / "S")))
    assert {tag: document.tags[tag] for tag in "ius"} == {"i": 0, "u": 0, "s": 0}


def test_numbers_without_bound_are_drawn_at_the_edge(tmp_path: Path) -> None:
    forecasts = [1e308, -1e308, 1e308, 0.0]
    episodes = [asked(f"S{i}", f, reward=-1e9) for i, f in enumerate(forecasts)]
    episodes += [asked("N", 1.0, baseline=b, reward=0.0) for b in (math.nan, math.inf)]
    text = run_report([write_run(tmp_path / "r", episodes)])
    sound(text)
    drawn = "".join(part.split("</svg>")[0] for part in text.split("<svg")[1:])
    assert "nan" not in drawn
    assert "inf" not in drawn


# --- Files


def test_the_same_input_is_the_same_bytes_in_any_process(small: str, tmp_path: Path) -> None:
    write_run(tmp_path / "one", several())
    write_run(tmp_path / "two", several())
    for places in ((small,), ("one", "two")):
        pages = []
        for seed in ("1", "2"):
            run(
                tmp_path, "nowcast-alfred", "report", *places, "--output", "page.html",
                PYTHONHASHSEED=seed,
            )  # fmt: skip
            pages.append((tmp_path / "page.html").read_bytes())
        assert pages[0] == pages[1]


def test_a_report_lies_beside_what_it_is_of(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [str(write_run(tmp_path / name, several())) for name in ("one", "two")]
    assert write_report(runs[:1]) == tmp_path / "one-report.html"
    assert write_report(runs) == tmp_path / "report.html"
    assert write_report([small]) == Path("outputs/S-report.html")
    secret = default_output(["s3://key:secret@bucket/prefix/T?region=x"], store=True)
    assert secret == Path("outputs/T-report.html")
    assert sorted(path.name for path in Path(small).iterdir() if path.suffix == ".html") == []


def test_a_store_in_a_bucket_is_told_without_its_credentials(
    small: str,
    endpoint: str,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in test_store_s3.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    test_store_s3.upload(Path(small), endpoint, "small/S")
    place = test_store_s3.uri_of(endpoint, "small/S")
    place = place.replace("s3://", f"s3://{test_store_s3.KEY}:{test_store_s3.SECRET}@")
    text = write_report([place], tmp_path / "page.html").read_text()
    assert "s3://vintages/small/S" in sound(text).text
    assert small_store().fingerprint in text
    assert test_store_s3.SECRET not in text
    assert "endpoint_override" not in text


def test_what_is_neither_is_told_what_each_kind_holds(small: str, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("nothing")
    for place in (tmp_path, tmp_path / "absent", tmp_path / "note.txt"):
        with pytest.raises(InputError, match=r"traces\.jsonl.*manifest\.json"):
            write_report([str(place)])
    folder = str(write_run(tmp_path / "run", several()))
    with pytest.raises(InputError, match="one store, or one or several runs"):
        write_report([small, folder])
    with pytest.raises(InputError, match="one store, or one or several runs"):
        write_report([small, small])
    with pytest.raises(InputError, match="--series"):
        write_report([folder], series="EMP")
    with pytest.raises(InputError, match="up to 6"):
        write_report([folder] * 7)


def test_a_run_in_which_nothing_was_scored_says_why(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [failed("g", "no box")])
    with pytest.raises(InputError, match=r"none of its 1 rollouts was scored.*no box"):
        write_report([str(folder)])


# --- Pictures


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, 170.0), (0.0, 1e-7), (-5e6, 2.0)])
def test_ticks_are_round_few_and_inside(low: float, high: float) -> None:
    found = svg.ticks(low, high)
    steps = np.diff(found)
    assert 2 <= len(found) <= 7
    assert low - 1e-9 * (high - low) <= found[0] <= found[-1] <= high + 1e-9 * (high - low)
    np.testing.assert_allclose(steps, steps[0])
    mantissa = steps[0] / 10.0 ** math.floor(math.log10(steps[0] * (1 + 1e-9)))
    assert min(abs(mantissa - m) for m in (1, 2, 5)) < 1e-6


def test_histograms_hold_every_value() -> None:
    values = [-9.0, -1.0, -0.2, 0.0, 0.3, 1.0, 9.0]
    found = svg.histogram(values, -1.0, 1.0, 4)
    assert found == [share / 7 for share in np.histogram(np.clip(values, -1, 1), 4, (-1, 1))[0]]


@pytest.mark.parametrize(
    ("values", "limits"),
    [([0.25, 0.9], (0.2, 1.0)), ([], (0.0, 1.0)), ([5.0] * 2, (4.4, 5.6)), ([-3, 1e9], (-20, 100))],
)
def test_limits_are_round_and_hold_what_is_within(
    values: list[float], limits: tuple[float, float]
) -> None:
    assert svg.limits_of(values, 100.0) == pytest.approx(limits)
