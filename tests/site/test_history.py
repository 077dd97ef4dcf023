"""The page of the engine over commits: its numbers are the record's, and its filters work."""

from __future__ import annotations

import csv
import math

import pytest

from suites.harness.judge import steps
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.present import units
from suites.harness.record import store
from suites.harness.record.collection import collect
from suites.harness.record.commits import CommitRecord, CountedCase
from suites.harness.record.facts import Facts
from suites.site import build
from tests.harness import records
from tests.site.test_build import read_data

CASES = ("mlp/b1/t1/fp32", "mlp/b32/t1/fp32")
NAMES = [character * 40 for character in "abcd"]
LABELS = [f"engine@{name[:12]}" for name in NAMES]
EVIL = "<img src=x onerror=alert(1)>"


def commit(index, **fields):
    """A commit of the record; its engine has 30 launches."""
    counted = CountedCase(facts=Facts(launches=fields.pop("launches", 30), nodes=40))
    usual = {
        "commit": NAMES[index], "previous": NAMES[index - 1] if index else None,
        "date": f"2026-11-2{index}T10:00:00+00:00",
        "subject": f"Change number {index}", "status": "built", "backend": LABELS[index], "digest": str(index),
        "cases": dict.fromkeys(CASES, counted),
    }  # fmt: skip
    return CommitRecord(**usual | fields)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Four commits: the second one takes twice as long, the third was not built, the fourth has fewer launches."""
    results = tmp_path_factory.mktemp("history") / "results"
    environment = records.environment(suite="history", commit=NAMES[3][:12], dirty=False, plan={"baseline": LABELS[0]})
    lines = []
    for case in CASES:
        for label, seconds in zip(LABELS, (1e-3, 2e-3, None, 2e-3), strict=True):
            if seconds is None:
                continue
            copies = (label, f"{label}#2") if label == LABELS[0] else (label,)
            for generation in range(3):
                turns = [[seconds * (1 + 0.001 * ((round_ + generation) % 3))] * 3 for round_ in range(5)]
                lines += [
                    records.samples(case=case, backend=one, generation=generation, seconds=turns) for one in copies
                ]
            lines += [records.summary(case=case, backend=one, baseline=LABELS[0], floor=0.001) for one in copies]
    commits = [
        commit(0), commit(1),
        commit(2, status="failed", backend=None, digest=None, cases={}, reason=f"no compiler {EVIL}"),
        commit(3, previous=NAMES[1], launches=28, subject=f"Fuse {EVIL}", skipped=4),
    ]  # fmt: skip
    path = store.runs_folder(results, environment.machine) / f"20261125T120000Z_{NAMES[3][:12]}_history.jsonl"
    with store.Writer(path) as writer:
        writer.append(environment, *lines, *commits)
    return store.read(path)


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    made = tmp_path_factory.mktemp("built") / "site"
    build.build_site(collect(run.path.parents[2]), made)
    return made


def test_the_second_commit_is_a_step_and_the_counts_of_the_last_one_changed(run):
    for track in steps.follow(run, MachineNoise()):
        # Equal times are not called `same`: no stored A/A pair says how much processes of this machine differ.
        assert [point.verdict or point.note for point in track.points] == ["first", "slower", "failed", "unclear"]
        first, slower, failed, last = track.points
        assert math.isclose(slower.speed.value, 0.5, rel_tol=0.01)
        assert slower.speed.low < 0.5 < slower.speed.high
        assert math.isclose(last.since_first.value, 0.5, rel_tol=0.01)
        assert last.since_first.high - last.since_first.low > slower.speed.high - slower.speed.low  # errors add up
        assert (first.changes, slower.changes, last.changes) == ({}, {}, {"launches": (30, 28)})
        assert failed.reason == f"no compiler {EVIL}"


def test_the_page_has_the_numbers_of_the_record(visit, run, folder):
    page = visit("history.html")
    for track in steps.follow(run, MachineNoise()):
        page.locator('select[name="case"]').select_option(track.case)
        shown = {
            row.get_attribute("data-commit"): row.inner_text()
            for row in page.query_selector_all("#commits tr[data-commit]")
        }
        assert list(shown) == [name[:12] for name in NAMES]
        for point in track.points:
            text = shown[point.commit.commit[:12]]
            assert (point.verdict or point.note) in text or point.reason is not None
            if point.speed is not None:
                assert units.times(point.speed.value) in text
                assert units.interval(point.speed) in text
        told = page.inner_text("#steps")
        assert f"slower at {NAMES[1][:12]}" in told
        assert f"counts changed at {NAMES[3][:12]}" in told
        assert "or one of the 4 commits since" in told
    assert page.query_selector_all("#commits img") == []


def test_raw_numbers_are_those_of_the_record(run, folder):
    with (folder / "data" / "history-commits.csv").open(newline="") as file:
        rows = {(row["case"], row["commit"]): row for row in csv.DictReader(file)}
    for track in steps.follow(run, MachineNoise()):
        for point in track.points:
            row = rows[track.case, point.commit.commit]
            assert (row["verdict"], row["note"]) == (point.verdict or "", point.note)
            assert row["speed"] == ("" if point.speed is None else str(point.speed.value))
            assert row["launches"] == str(point.counts.get("launches", ""))


def test_a_history_is_no_case_of_the_first_page(folder):
    assert "entries" not in read_data(folder / "index.html")


def test_a_case_is_chosen_by_the_address_and_missing_counts_are_told(visit):
    page = visit("history.html", "case=mlp%2Fb32%2Ft1%2Ffp32")
    assert page.locator('select[name="case"]').input_value() == CASES[1]
    assert "No other run has counts" in page.inner_text("main")
    assert "No run with counts" not in page.inner_text("main")  # the history above has some


def test_an_unfinished_history_is_named_and_not_taken_for_none(run, folder, tmp_path):
    plan = {"baseline": LABELS[0], "cases": {CASES[0]: LABELS[:2]}}
    environment = records.environment(suite="history", plan=plan)
    path = store.runs_folder(tmp_path / "results", environment.machine) / "20261126T120000Z_abc_history.jsonl"
    with store.Writer(path) as writer:
        writer.append(environment, records.summary(case=CASES[0], backend=LABELS[0], baseline=LABELS[0]))
    build.build_site(collect(tmp_path / "results"), tmp_path / "alone")
    page = " ".join((tmp_path / "alone" / "history.html").read_text().split())
    assert "Unfinished, and not shown: <code>20261126T120000Z_abc_history</code> (1 of 2 rows). " in page
    assert "No complete history is stored yet.</p>" in page
    copy = path.with_name(run.path.name)
    copy.write_bytes(run.path.read_bytes())
    build.build_site(collect(tmp_path / "results"), tmp_path / "both")
    page = (tmp_path / "both" / "history.html").read_text()
    assert "<code>20261126T120000Z_abc_history</code> (1 of 2 rows)" in page
    assert "history is stored yet" not in page
    assert "Unfinished" not in (folder / "history.html").read_text()


def test_counts_of_all_stored_runs_are_drawn(committed):
    stored = read_data(committed.folder / "history.html")["stored"]
    runs = {run.name: run for run in committed.collection.runs}
    assert len(stored) > 100
    for one in stored:
        (row,) = [row for row in runs[one["run"]].summaries() if row.case == one["case"] and row.backend == "engine"]
        assert one["counts"]["launches"] == row.launches
        assert not runs[one["run"]].environment.dirty
