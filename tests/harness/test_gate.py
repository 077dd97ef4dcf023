"""Accepted counts: every difference fails the gate until somebody accepts it and says why."""

from __future__ import annotations

import json
from datetime import date

import pytest

from suites.cli import compare, main
from suites.harness.errors import UsageError
from suites.harness.judge import gate
from suites.harness.judge.gate import Baselines, Program
from tests import messages

ROW = {"nodes": 40, "launches": 26, "arena_bytes": 4096, "artifact_bytes": 437_000_000, "flops": 1000}
KEY = ("mlp/b1/t1/fp32", "engine")
ACCEPTED = Baselines(suite="counts", counts={KEY[0]: {KEY[1]: dict(ROW)}})
DAY = date(2026, 11, 25)


def judged(found, accepted=ACCEPTED):
    return gate.judge(accepted, found)


def only(judgement):
    (one,) = judgement.differences
    return one


def test_equal_counts_pass():
    found = judged({KEY: Program(dict(ROW))})
    assert found.passes
    assert (found.equal, found.differences) == (1, ())


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"launches": 27}, "worse"),
        ({"launches": 25}, "better"),
        ({"launches": 25, "arena_bytes": 4097}, "worse"),
        ({"executed_flops": 5}, "worse"),  # a count that is new may hide anything
        ({"artifact_bytes": 437_000_000 + 437_001}, "worse"),
    ],
)
def test_any_other_count_is_a_difference(change, kind):
    found = judged({KEY: Program({**ROW, **change})})
    assert not found.passes
    assert only(found).kind == kind
    assert set(only(found).changes) == set(change)


def test_the_document_of_a_file_may_grow_by_what_a_name_takes():
    assert judged({KEY: Program({**ROW, "artifact_bytes": ROW["artifact_bytes"] + 400})}).passes
    small = Baselines(suite="s", counts={KEY[0]: {KEY[1]: {"artifact_bytes": 10_000}}})
    assert judged({KEY: Program({"artifact_bytes": 14_000})}, small).passes
    assert not judged({KEY: Program({"artifact_bytes": 14_097})}, small).passes


def test_rows_of_one_side_alone_and_programs_that_fail_are_differences():
    other = ("mlp/b2/t1/fp32", "engine")
    found = judged({other: Program(dict(ROW))})
    assert sorted((one.case, one.kind) for one in found.differences) == [(KEY[0], "gone"), (other[0], "new")]
    failed = judged({KEY: Program(None, "failed", "ConfigError: no such pass")})
    assert (only(failed).kind, only(failed).describe()) == ("failed", "ConfigError: no such pass")
    with messages.raises(UsageError):
        gate.accept(ACCEPTED, failed, "because", DAY)


def test_what_this_machine_cannot_have_is_left_out_but_not_all_of_it():
    lacking = Program(None, "unavailable", "isa avx512 needs another processor")
    both = {KEY: Program(dict(ROW)), (KEY[0], "engine[isa=avx512]"): lacking}
    assert judged(both).passes
    assert judged(both).skipped == ((KEY[0], "engine[isa=avx512]", "isa avx512 needs another processor"),)
    assert not judged({KEY: lacking}).passes


def test_accepting_keeps_other_rows_and_says_what_changed_and_why(tmp_path):
    counts = {KEY[0]: {KEY[1]: dict(ROW), "engine[isa=avx512]": dict(ROW)}, "gone/b1": {"engine": dict(ROW)}}
    accepted = Baselines(suite="counts", counts=counts)
    lacking = Program(None, "unavailable", "not here")
    found = judged({KEY: Program({**ROW, "launches": 20}), (KEY[0], "engine[isa=avx512]"): lacking}, accepted)
    after = gate.accept(accepted, found, "Fused two more nodes", DAY)
    gate.write(tmp_path / "b.toml", after)
    again = gate.read(tmp_path / "b.toml")
    assert again == after
    assert again.counts == {KEY[0]: {KEY[1]: {**ROW, "launches": 20}, "engine[isa=avx512]": ROW}}
    (entry,) = again.accepted
    assert (entry.on, entry.why) == (DAY, "Fused two more nodes")
    assert entry.changes[0] == "mlp/b1/t1/fp32 engine: better: launches 26 -> 20"
    assert entry.changes[1].startswith("gone/b1 engine: gone: nodes 40 -> none, launches 26 -> none")
    assert gate.judge(again, {KEY: Program({**ROW, "launches": 20}), (KEY[0], "engine[isa=avx512]"): lacking}).passes


@pytest.mark.parametrize(
    "text",
    [
        "suite = ",
        f"suite = {'1' * 5000}",
        f"suite = {'[' * 100_000}",
        "[counts]",
        'suite = "s"\n[counts.c.engine]\nnodes = "many"',
        'suite = "s"\nother = 1',
    ],
    ids=["cut", "digits", "nested", "missing", "type", "unknown key"],
)
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / "b.toml").write_text(text)
    with messages.raises(UsageError):
        gate.read(tmp_path / "b.toml")


def test_a_suite_is_found_beside_a_folder_that_does_not_exist_yet(tmp_path):
    (tmp_path / "mine.toml").write_text(SUITE)
    assert compare._find_suite("../mine.toml", tmp_path / "later" / "baselines.toml").name == "mine"


def test_a_suite_in_this_folder_is_kept_relative_to_the_accepted_counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(SUITE)
    path = tmp_path / "perf" / "baselines.toml"
    new = compare._find_accepted(path, "mine.toml", is_first=True)
    assert new.suite == "../mine.toml"
    gate.write(path, new)
    for given in ("mine.toml", "./mine.toml", "../mine.toml", None):
        found = compare._find_accepted(path, given, is_first=True)
        assert compare._find_suite(found.suite, path).name == "mine"
    with messages.raises(UsageError):
        compare._find_accepted(path, "quick", is_first=True)


SUITE = """
name = "mine"
backends = ["engine", "engine[isa=neon]"]
[[models]]
name = "mlp"
shape = { batch = 1 }
"""


def run(capfd, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(["compare", *arguments])
    out, err = capfd.readouterr()
    return stop.value.code or 0, out, err


def test_a_project_gates_its_own_suite(capfd, tmp_path, monkeypatch):
    """The whole way: first counts, a gate that passes, a planted change that fails it, and its acceptance."""
    monkeypatch.setenv("COLUMNS", "180")
    count, counted = compare._count, []
    monkeypatch.setattr(compare, "_count", lambda suite: counted.append(count(suite)) or counted[-1])
    (tmp_path / "mine.toml").write_text(SUITE)
    path = tmp_path / "baselines.toml"
    own = ("--baselines", str(path))
    code, _, err = run(capfd, "--gate", *own)
    assert (code, "no accepted counts; make them with: enginebench compare --accept WHY" in err) == (2, True)
    assert "no accepted counts" in run(capfd, "--accept", "first", *own)[2]
    assert "Is a directory" in run(capfd, "--gate", "--baselines", str(tmp_path))[2]
    code, out, _ = run(capfd, "--accept", "first", "--suite", "mine.toml", *own)
    assert (code, "Rows accepted: 1, and 0 as before." in out) == (0, True)
    assert f"The accepted counts are in {path}\n" in out
    code, out, _ = run(capfd, "--gate", *own)
    assert (code, "Rows as accepted: 1 of 1." in out) == (0, True)
    assert "Not compared: engine[isa=neon] in 1 of the cases: isa neon needs another processor" in out

    assert len(counted) == 2
    monkeypatch.setattr(compare, "_count", lambda suite: counted[-1])  # only the file changes from here on
    accepted = gate.read(path)
    (case,) = accepted.counts
    launches = accepted.counts[case]["engine"]["launches"]
    accepted.counts[case]["engine"]["launches"] -= 1
    change = f"launches {launches - 1} -> {launches}"
    gate.write(path, accepted)
    code, out, _ = run(capfd, "--gate", *own)
    assert (code, "worse" in out, change in out) == (1, True, True)
    assert "enginebench compare --accept 'WHY' --baselines" in out
    code, out, _ = run(capfd, *own, "--json")
    assert (code, json.loads(out)["passes"]) == (0, False)
    code, out, _ = run(capfd, "--accept", "One launch more, for a test", *own)
    assert (code, out.count(change)) == (0, 1)
    assert "Rows accepted: 1, and 0 as before." in out
    assert gate.read(path).accepted[-1].changes == [f"{case} engine: worse: {change}"]
    assert run(capfd, "--gate", *own)[0] == 0
    assert "Rows accepted: 0, and 1 as before." in run(capfd, "--accept", "Again", *own)[1]
    told = json.loads(run(capfd, "--accept", "Again", *own, "--json")[1])
    assert (told["accepted"], told["passes"]) == (False, True)


@pytest.mark.parametrize("option", [("--accept", "x"), ("--baselines", "b.toml"), ("--suite", "counts")])
def test_options_of_accepted_counts_are_refused_beside_a_run(capfd, option):
    code, _, err = run(capfd, "last", *option)
    assert (code, f"last is a run, so {option[0]} has no effect" in err) == (2, True)


def test_an_unknown_suite_gets_the_nearest_name(capfd, tmp_path):
    code, _, err = run(capfd, "--accept", "x", "--suite", "cuonts", "--baselines", str(tmp_path / "b.toml"))
    assert (code, "unknown suite 'cuonts'; did you mean 'counts'?" in err) == (2, True)


def test_the_committed_baselines_are_of_every_row_of_their_suite(root):
    from suites import backends
    from suites.harness.declare import spec

    accepted = gate.read(root / "results/baselines.toml")
    suite = spec.load(spec.find(accepted.suite))
    wanted = {(case.id, ref.label) for case, refs in suite.cases() for ref in refs if backends.role(ref) != "peer"}
    assert wanted == {(case, label) for case, rows in accepted.counts.items() for label in rows}
    assert all(
        row["fallback_nodes"] == row["slow_launches"] == 0 for rows in accepted.counts.values() for row in rows.values()
    )
