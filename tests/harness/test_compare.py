"""Two runs side by side: counts gate exactly, time never; identical code on noisy machines claims nothing."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from suites.cli import main
from suites.harness.errors import UsageError
from suites.harness.judge import compare
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.record import machine, store
from suites.harness.record.schema import EngineRecord, Samples, Summary
from tests import messages
from tests.harness import commands, records
from tools import simulated_noise

COUNTS = {"nodes": 40, "launches": 26, "fallback_nodes": 0, "arena_bytes": 4096, "weight_bytes": 1 << 20}
CASES = tuple(f"mlp/b{n}/t1/fp32" for n in (1, 2, 4, 8, 16))


def run(seed=0, *, true=0.0, moved=0.0, counts=None, cases=CASES, generations=5, environment=None, **summary):
    """A stored run of three backends, on a simulated machine; `true` is the engine's log-speed against eager,
    `moved` that of a backend that did not change.
    """
    generator = np.random.default_rng(seed)
    lines = []
    for case in cases:
        for backend in ("eager", "eager#2", "onnxruntime", "engine"):
            told = {**COUNTS, **(counts or {}), **summary} if backend == "engine" else {}
            lines.append(records.summary(case=case, backend=backend, **told))
        for number in range(generations):
            for backend, factor in (("eager#2", 0.0), ("onnxruntime", moved), ("engine", true)):
                mine, theirs = simulated_noise.generation(generator, simulated_noise.Noise(), 8, 3, factor)
                for name, seconds in ((backend, mine), *((("eager", theirs),) if backend == "engine" else ())):
                    lines.append(records.samples(case=case, backend=name, generation=number, seconds=seconds))
    told = {"versions": {"torch": "2.13.0", "enginebench": "0.1"}} | (environment or {})
    return store.Run(Path(f"{seed}.jsonl"), records.environment(**told), lines)


def compared(before, after):
    return compare.compare(before, after, MachineNoise())


def test_identical_code_differs_in_nothing_that_is_counted_and_rarely_in_time():
    """Counted: comparisons of five cases in which any time is claimed to differ, at a promised 5%."""
    claims = 0
    for seed in range(0, 160, 2):
        found = compared(run(seed), run(seed + 1))
        assert not found.regressed
        claims += any(row.time.verdict in ("faster", "slower") for row in found.rows if row.time is not None)
    assert claims <= 10  # 80 comparisons at a true 5%: above 10 comes once in 300 such tests


def with_version(stored, digest):
    """`stored` with the rows of the engine again, under the name of another version."""
    name = "engine@0123456789ab-dirty"
    own = [line for line in stored.records if line.backend == "engine"]
    update = {"backend": name, "role": "version"}
    stored.records.extend([line.model_copy(update=update) for line in own])
    stored.environment.plan.engines[name] = EngineRecord(digest=digest, python="3.11.7", packages={})
    return stored


@pytest.mark.parametrize(("digest", "is_control"), [("1", True), ("2", False)])
def test_another_version_is_a_control_where_its_content_is_the_same(digest, is_control):
    found = compared(with_version(run(true=0.5), "1"), with_version(run(1, true=0.7), digest))
    times = {row.backend: row.time for row in found.rows if row.time is not None and "b1/" in row.case}
    assert (times["engine@0123456789ab-dirty"].is_control, times["engine"].is_control) == (is_control, False)
    expected = "unclear" if is_control else "faster"
    assert {one.verdict for name, one in times.items() if name != "onnxruntime"} == {expected}, "as far as a control"


def test_counts_of_another_version_gate():
    before, after = with_version(run(), "1"), with_version(run(1, counts={"launches": 27}), "1")
    regressed = {row.backend for row in compared(before, after).rows if row.regressions}
    assert regressed == {"engine", "engine@0123456789ab-dirty"}


def test_rows_of_which_only_the_status_is_compared_are_not_said_to_be_as_before():
    found = compared(run(), run(1))
    told = {line["backend"]: line["counted"] for line in compare.lines(found)}
    assert told["engine"] == "as before"
    assert {told[backend] for backend in told if backend != "engine"} == {"-"}


def test_one_launch_more_is_a_regression_and_one_less_is_none():
    found = compared(run(), run(1, counts={"launches": 27}))
    assert found.regressed
    assert {row.regressions for row in found.rows if row.backend == "engine"} == {("launches",)}
    assert not compared(run(), run(1, counts={"launches": 25})).regressed


def test_a_count_that_only_one_run_knows_is_not_comparable_and_never_gates():
    """Records of an earlier version lack columns that were added later."""
    before, after = run(), run(1, counts={"executed_flops": 33_088, "arena_bytes": None})
    for found in (compared(before, after), compared(after, before)):
        assert not found.regressed
        (told,) = {line["counted"] for line in compare.lines(found) if line["backend"] == "engine"}
        assert "executed_flops" in told
        assert "arena_bytes" in told
        assert told.count("(not comparable)") == 2
        assert "worse" not in told
    told = [line["counted"] for line in compare.lines(compared(before, after))]
    assert "executed_flops none -> 33,088 (not comparable)" in ", ".join(told)
    more = run(1, counts={"executed_flops": 33_088, "launches": 27})
    assert compared(before, more).regressed, "the others still gate"


@pytest.mark.parametrize(
    ("before", "after", "is_worse"),
    [
        (437_000_000, 437_000_304, False),  # some more bytes of the document
        (437_000_000, 437_400_000, False),
        (437_000_000, 437_500_000, True),  # more than 0.1%
        (20_000, 24_096, False),
        (20_000, 24_097, True),  # more than 4 KiB
    ],
)
def test_a_file_may_grow_by_what_its_document_grows(before, after, is_worse):
    found = compared(run(counts={"artifact_bytes": before}), run(1, counts={"artifact_bytes": after}))
    assert found.regressed == is_worse
    assert compared(run(), run(1, counts={"weight_bytes": COUNTS["weight_bytes"] + 4})).regressed, "constants may not"


def test_counts_of_other_backends_do_not_gate():
    before, after = run(), run(1)
    for line in after.of(Summary):
        if line.backend == "eager":
            line.arena_bytes = 1 << 30
    assert not compared(before, after).regressed


def test_a_row_that_stops_being_ok_is_a_regression_and_nothing_else_of_it_is():
    found = compared(run(), run(1, status="wrong", counts={"launches": None}))
    (names,) = {row.regressions for row in found.rows if row.backend == "engine"}
    assert names == ("status",)
    assert not compared(run(), run(1, status="unavailable")).regressed
    assert all(row.time is None for row in found.rows if row.backend == "engine")


def test_a_large_change_of_time_is_found_beside_the_baseline_of_each_run():
    found = compared(run(true=math.log(3.0)), run(1, true=math.log(2.4)))
    for row in found.rows:
        if row.backend == "engine":
            assert row.time.verdict == "slower"
            assert row.time.speed.low <= 0.8 <= row.time.speed.high
        else:
            assert row.time is None or row.time.is_control
    assert not found.regressed  # not interleaved


def test_less_than_a_control_moved_is_no_change_of_the_code():
    found = compared(run(), run(1, true=math.log(1.2), moved=math.log(1.4)))
    assert {row.time.verdict for row in found.rows if row.backend == "engine"} == {"unclear"}


def test_a_machine_that_is_slower_for_everybody_changes_nothing():
    after = run(1)
    for line in after.of(Samples):
        line.seconds = (np.array(line.seconds) * 3).tolist()
    for one, other in zip(compared(run(), after).rows, compared(run(), run(1)).rows, strict=True):
        assert (one.time is None) == (other.time is None)
        if one.time is not None:
            assert asdict(one.time.speed) == pytest.approx(asdict(other.time.speed))


def test_another_machine_is_refused_and_other_environments_are_named():
    with messages.raises(UsageError):
        compared(run(), run(1, environment={"machine": "cpu-4c"}))
    found = compared(run(), run(1, environment={"versions": {"torch": "2.14.0", "enginebench": "0.2"}}))
    assert found.differences == {"torch": ("2.13.0", "2.14.0")}
    assert {row.time.verdict for row in found.rows if row.time is not None} == {None}
    with messages.raises(UsageError):
        compared(run(cases=CASES[:1]), run(1, cases=CASES[1:]))
    with messages.raises(UsageError):
        compared(keep_backends(run(), "engine"), keep_backends(run(1), "eager", "onnxruntime"))


def keep_backends(stored, *names):
    """`stored` without the rows of all other backends."""
    return replace(stored, records=[line for line in stored.records if line.backend in names])


def test_operations_and_bytes_of_early_records_are_read_from_the_samples():
    """Their summaries have those of the engine's first row in every row."""
    before, after = run(bytes=7000, flops=70), run(1, bytes=9000, flops=90)
    for line in before.of(Samples):
        if line.backend == "engine":
            line.facts.flops, line.facts.bytes = 90, 9000
    assert not compared(before, after).regressed
    assert {row.regressions for row in compared(run(bytes=7000), after).rows if row.backend == "engine"} == {("bytes",)}


def test_cases_of_one_run_alone_are_named():
    found = compared(run(cases=CASES[:2]), run(1, cases=CASES[1:3]))
    assert {case for case, _ in found.gone} == {CASES[0]}
    assert {case for case, _ in found.new} == {CASES[2]}


def test_a_row_that_was_planned_and_is_not_there_gates():
    """The run was killed before the engine's turn, or its file was cut."""
    plan = {"cases": {case: ["eager", "eager#2", "onnxruntime", "engine"] for case in CASES[:2]}}
    before, after = (run(seed, cases=CASES[:2], environment={"plan": plan}) for seed in (0, 1))
    assert not compared(before, after).missing
    cut = [line for line in after.records if line.kind != "summary" or line.case == CASES[0]]
    found = compared(before, replace(after, records=cut))
    assert {case for case, _ in found.missing} == {CASES[1]}
    assert found.regressed
    found = compared(replace(after, records=cut), before)
    assert {case for case, _ in found.missing_before} == {CASES[1]}
    assert not found.missing
    assert not found.regressed


def test_another_file_of_the_user_is_named_and_times_say_nothing():
    plans = [{"plan": {"cases": {}, "files": {"mine.py": digest}}} for digest in ("aa", "bb")]
    found = compared(*(run(seed, environment=one) for seed, one in enumerate(plans)))
    assert found.differences == {"mine.py": ("aa", "bb")}


def with_baseline(stored, baseline):
    """`stored` with rows of the engine that are relative to `baseline`, as an ablation has them."""
    own = [line.model_copy(update={"baseline": baseline}) for line in stored.summaries() if line.role == "engine"]
    return store.Run(stored.path, stored.environment, [*stored.of(Samples), *own])


@pytest.mark.parametrize("is_ablation_later", [True, False])
def test_rows_without_a_comparison_of_times_have_the_reason(is_ablation_later):
    two = (run(cases=CASES[:2]), with_baseline(run(1, cases=CASES[:2]), "engine"))
    found = compared(*(two if is_ablation_later else reversed(two)))
    names = ("eager", "engine") if is_ablation_later else ("engine", "eager")
    reason = f"a time is relative to the baseline of its run, which is {names[0]} before and {names[1]} after"
    assert [(row.time, row.no_time) for row in found.rows] == [(None, reason)] * 2
    assert [row["no_time"] for row in found.to_dict()["rows"]] == [reason] * 2
    named = ", ".join(f"{case} engine" for case in CASES[:2])
    assert compare.explain_missing_times(found) == [f"Not compared is the time of {named}: {reason}."]


@pytest.mark.parametrize(("before", "is_said"), [("ok", False), ("failed", True)])
def test_a_status_explains_a_missing_time_in_text_only_where_the_table_does_not_show_it(before, is_said):
    found = compared(run(cases=CASES[:1], status=before), run(1, cases=CASES[:1], status="failed"))
    reasons = {row.backend: row.no_time for row in found.rows}
    why = f"the status is {before} before and failed after, and only a row that is ok has a time"
    assert reasons.pop("engine") == why
    assert reasons.pop("onnxruntime") is None
    assert set(reasons.values()) == {compare.IS_BASELINE}
    assert compare.explain_missing_times(found) == [f"Not compared is the time of {CASES[0]} engine: {why}."] * is_said


def test_a_row_without_the_samples_of_its_baseline_has_the_reason():
    before, after = run(cases=CASES[:1]), run(1, cases=CASES[:1])
    kept = [line for line in after.records if not (isinstance(line, Samples) and line.backend == "eager")]
    found = compared(before, store.Run(after.path, after.environment, kept))
    assert {row.no_time for row in found.rows} == {compare.IS_BASELINE, compare.NO_COMMON_ROUNDS}


def test_the_command_prints_why_times_are_not_compared(tmp_path, capsys):
    for name, made in (("before", run()), ("after", with_baseline(run(1), "engine"))):
        with store.Writer(tmp_path / "runs" / "cpu-2c" / f"{name}.jsonl") as writer:
            writer.append(made.environment, *made.records)
    _, out, _ = commands.call(capsys, "compare", "before", "after", "--results", str(tmp_path))
    printed = " ".join(out.split())
    assert printed.count("which is eager before and engine after.") == 1


def test_a_package_or_setting_that_one_run_lacks_is_none_there(tmp_path, capsys):
    packages = {"torch": "2.13.0", "enginebench": "0.1"}
    earlier = run(cases=CASES[:1], environment={"versions": packages | {"triton": "3.7.1"}, "governor": "performance"})
    later = run(1, cases=CASES[:1], environment={"versions": packages})
    for name, made in (("before", earlier), ("after", later)):
        with store.Writer(tmp_path / "runs" / "cpu-2c" / f"{name}.jsonl") as writer:
            writer.append(made.environment, *made.records)
    _, out, _ = commands.call(capsys, "compare", "before", "after", "--results", str(tmp_path))
    lines = [line.strip() for line in out.splitlines()]
    assert "triton 3.7.1 -> none" in lines
    assert "governor performance -> none" in lines


@pytest.fixture
def stored_suites(tmp_path):
    """Runs of suites `a` and `b`, which have no case in common, and an ablation of the cases of `a`."""
    told = (("0Z_abc_a", CASES[:1]), ("1Z_abc_b", CASES[1:2]), ("2Z_abc_ablate_a", CASES[:1]))
    for seed, (name, cases) in enumerate(told):
        plan = {"cases": {case: ["eager", "engine"] for case in cases}}
        made = run(seed, cases=cases, environment={"suite": name.split("_", 2)[-1], "plan": plan})
        path = store.runs_folder(tmp_path, machine.slug()) / f"20260101T00000{name}.jsonl"
        with store.Writer(path) as writer:
            writer.append(made.environment, *made.records)
    return tmp_path


def test_the_newest_run_of_another_suite_is_refused_in_a_sentence(stored_suites, capsys):
    status, out, err = commands.call(capsys, "compare", "last:a", "last:b", "--results", str(stored_suites))
    told = "has cases in common with 20260101T000000Z_abc_a"
    assert (status, out) == (2, "")
    assert err == f"enginebench: no run of suite b of this machine under {stored_suites} {told}\n"


def test_an_ablation_is_compared_by_its_name_alone(stored_suites, capsys):
    where, ablation = ["--results", str(stored_suites), "--json"], "20260101T000002Z_abc_ablate_a"
    status, out, _ = commands.call(capsys, "compare", "last:a", ablation, *where)
    assert status == 0
    assert {row["case"] for row in json.loads(out)["rows"]} == {CASES[0]}
    assert commands.call(capsys, "compare", ablation, "last:a", *where)[0] == 0
    assert commands.call(capsys, "compare", "last:b", "last", *where)[0] == 2


@pytest.fixture
def stored(tmp_path):
    """Two runs as files; the later one launches once more."""
    folder = tmp_path / "runs" / "cpu-2c"
    for name, made in (("before", run()), ("after", run(1, counts={"launches": 27}))):
        with store.Writer(folder / f"{name}.jsonl") as writer:
            writer.append(made.environment, *made.records)
    return tmp_path


@pytest.mark.parametrize(("arguments", "code"), [(["--gate"], 1), ([], 0), (["--gate", "--json"], 1)])
def test_the_command_gates_when_asked(stored, capsys, arguments, code):
    with pytest.raises(SystemExit) as ended:
        main(["compare", "before", "after", "--results", str(stored), *arguments])
    assert (ended.value.code or 0) == code
    printed = capsys.readouterr().out
    if "--json" in arguments:
        assert json.loads(printed)["regressed"]
    else:
        assert "launches 26 -> 27 (worse)" in printed


@pytest.mark.parametrize(
    ("fields", "passes"), [({}, True), (dict.fromkeys(COUNTS), False), ({"status": "unavailable"}, False)]
)
def test_the_gate_does_not_pass_if_no_row_has_counts_in_both_runs(tmp_path, capsys, fields, passes):
    for name, made in (("before", run()), ("after", run(1, **fields))):
        with store.Writer(tmp_path / "runs" / "cpu-2c" / f"{name}.jsonl") as writer:
            writer.append(made.environment, *made.records)
    with pytest.raises(SystemExit) as ended:
        main(["compare", "before", "after", "--gate", "--results", str(tmp_path)])
    assert (ended.value.code or 0) == (0 if passes else 1)
    assert ("No row has counts in both runs, so the gate does not pass." in capsys.readouterr().err) == (not passes)


@pytest.mark.parametrize("names", [("after", "after"), ("after", "runs/cpu-2c/after.jsonl")])
def test_a_run_is_not_compared_with_itself(stored, capsys, monkeypatch, names):
    monkeypatch.chdir(stored)
    with pytest.raises(SystemExit) as ended:
        main(["compare", *names, "--gate", "--results", str(stored)])
    assert ended.value.code == 2
    told = "the earlier and the later run are both after"
    assert told in capsys.readouterr().err


def test_rows_that_the_earlier_run_lacks_are_printed(tmp_path, capsys):
    plan = {"cases": {CASES[0]: ["eager", "eager#2", "onnxruntime", "engine"]}}
    for seed, name in enumerate(("before", "after")):
        made = run(seed, environment={"plan": plan})
        lines = made.records if seed else [line for line in made.records if getattr(line, "backend", "") != "engine"]
        with store.Writer(tmp_path / "runs" / "cpu-2c" / f"{name}.jsonl") as writer:
            writer.append(made.environment, *lines)
    _, out, _ = commands.call(capsys, "compare", "before", "after", "--results", str(tmp_path))
    assert f"planned and missing before: {CASES[0]}  engine" in out


def test_the_command_refuses_unknown_runs(stored, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["compare", "before", "missing", "--results", str(stored)])
    assert ended.value.code == 2
    assert "missing" in capsys.readouterr().err
