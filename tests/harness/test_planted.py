"""One run with planted faults: each becomes the row that it deserves and takes no other row with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites.cli import main
from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef, Case
from suites.harness.record import store
from suites.harness.record.schema import Samples, Summary
from suites.harness.run import plan, reporter, runner, session

FAKES = Path(__file__).with_name("fakes.py")
FAULTS = (
    "Wrong", "Crashing", "Devoured", "Leaving", "Hanging",
    "Raising", "Defective", "Stale", "Keyed", "Hundredth", "Aliasing", "Scribbling", "Chatty", "Nan", "Slower",
)  # fmt: skip


def suite_text(classes, extra=""):
    labels = ", ".join(f'"{FAKES}:{name}"' for name in classes)
    return f"""
name = "planted"
backends = [{labels}]
rounds = 5
generation_budget_s = 60.0
timeouts = {{ sample = 10.0, warm = 10.0 }}
{extra}
[[models]]
name = "mlp"
shape = {{ batch = 2 }}
options = {{ widths = "16-16" }}
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    suite = spec.parse(suite_text(FAULTS), "planted.toml")
    return runner.run(plan.make(suite), tmp_path_factory.mktemp("results"), reporter.Reporter())


@pytest.fixture(scope="module")
def rows(outcome):
    return {line.backend.rpartition(":")[2]: line for line in outcome.summaries}


def test_a_fault_takes_no_other_row_with_it(outcome, rows):
    assert [name for name, line in rows.items() if line.status == "ok"] == ["eager", "eager#2", "Chatty", "Slower"]
    assert not outcome.succeeded


def test_a_wrong_result_has_no_time(rows):
    line = rows["Wrong"]
    assert (line.status, line.latency, line.speed, line.verdict) == ("wrong", None, None, None)
    assert line.error.relative == pytest.approx(0.01, rel=0.05)
    assert "relative error" in line.reason


def test_a_nan_that_the_reference_has_not_is_wrong(rows):
    assert rows["Nan"].status == "wrong"
    assert "NaN" in rows["Nan"].reason


def test_an_answer_kept_from_an_earlier_call_is_caught_in_timed_calls(rows):
    assert rows["Stale"].status == "wrong"
    assert rows["Stale"].reason.startswith("a timed call: ")


def test_an_answer_kept_for_the_address_of_an_input_is_caught(rows):
    assert rows["Keyed"].status == "wrong"
    assert rows["Keyed"].reason.startswith("a call before the warm-up: output 0: relative error")


def test_one_wrong_answer_among_a_hundred_is_caught(rows):
    assert rows["Hundredth"].status == "wrong"
    assert rows["Hundredth"].reason.startswith("a call before the warm-up: output 0: relative error")


def test_one_output_buffer_for_all_calls_is_wrong(rows):
    assert rows["Aliasing"].status == "wrong"


def test_a_call_that_writes_over_its_inputs_is_wrong(rows):
    assert rows["Scribbling"].status == "wrong"
    assert rows["Scribbling"].reason == "the call changed its inputs"


def test_a_crash_names_the_signal_and_the_last_word(rows):
    assert rows["Crashing"].status == "failed"
    assert rows["Crashing"].reason == "prepare: worker killed by SIGSEGV: kernel went astray"


def test_what_the_system_kills_for_memory_says_so(rows):
    assert rows["Devoured"].status == "failed"
    assert "SIGKILL (as by a system that runs out of memory)" in rows["Devoured"].reason


def test_a_quiet_exit_names_its_status(rows):
    assert rows["Leaving"].status == "failed"
    assert rows["Leaving"].reason == "prepare: worker ended with exit status 7"


def test_an_exception_is_the_reason(rows):
    assert rows["Raising"].status == "failed"
    assert rows["Raising"].reason == "prepare: RuntimeError: this model is not to my taste"


def test_a_defect_of_the_engine_is_a_reason_that_says_so(rows):
    assert rows["Defective"].status == "failed"
    assert rows["Defective"].reason.startswith("prepare: InternalError: two rules contradict\nThis is a defect of")


def test_a_hang_is_a_timeout_that_names_its_phase(rows):
    assert rows["Hanging"].status == "timeout"
    assert rows["Hanging"].reason == "soak took longer than 10 s"


def test_what_a_library_prints_does_not_break_the_protocol(rows):
    line = rows["Chatty"]
    assert line.status == "ok"
    assert (line.nodes, line.arena_bytes) == (3, 64)


def test_a_slow_backend_is_called_slower(rows):
    line = rows["Slower"]
    assert line.verdict == "slower"
    assert line.latency.min > 0.002
    assert line.speed.high < 1


def test_the_baseline_runs_twice_and_its_pair_is_the_floor(rows):
    assert rows["eager#2"].speed.low < rows["eager#2"].speed.high
    assert {line.floor for line in rows.values()} == {rows["eager"].floor}
    assert rows["eager"].speed is None


def test_phases_are_measured_and_unknown_is_null(rows):
    line = rows["eager"]
    assert line.import_s > 0
    assert line.first_call_s > 0
    assert line.peak_rss_bytes > 0
    for unknown in ("export_s", "compile_s", "nodes", "arena_bytes", "roof_share"):
        assert getattr(line, unknown) is None


@pytest.mark.real_workers
def test_the_import_of_torch_is_measured(tmp_path):
    with session.Worker(Case("mlp", {"batch": 1}), BackendRef("eager"), tmp_path, tmp_path) as worker:
        assert worker.ask("load", 120)["import_s"] > 0.05  # torch is not imported in less


def test_samples_are_kept_raw_and_paired(outcome):
    run = store.read(outcome.path)
    for line in run.of(Samples):
        if line.status == "ok":
            assert [len(samples) for samples in line.seconds] == [3] * 5
            assert len(line.alone) == len(line.beside) == 3, "three turns in company, each after one alone"
        else:
            assert line.seconds == []
    assert {line.generation for line in run.of(Samples) if line.status == "ok"} == {0, 1}


def test_the_record_names_no_user_and_no_host(outcome):
    import getpass
    import platform

    text = outcome.path.read_text()
    environment = store.read(outcome.path).environment
    assert platform.node() not in environment.machine
    assert f"/home/{getpass.getuser()}" not in text
    assert str(FAKES.parent) not in "".join(line.backend for line in outcome.summaries)


def test_a_model_that_cannot_be_built_fails_every_row_once(tmp_path):
    (tmp_path / "broken.py").write_text("def make():\n    raise ValueError('no such weights')\n")
    text = suite_text(["Right"]).replace('"mlp"', f'"{tmp_path}/broken.py:make"')
    text = text.replace("shape = { batch = 2 }\n", "").replace('options = { widths = "16-16" }\n', "")
    found = runner.run(plan.make(spec.parse(text, "x.toml")), tmp_path, reporter.Reporter())
    assert {line.status for line in found.summaries} == {"failed"}
    assert all("no such weights" in line.reason for line in found.summaries)


def test_more_threads_than_processors_is_unavailable(tmp_path):
    text = suite_text(["Right"]).replace("rounds = 5", "rounds = 5\nthreads = 4096")
    found = runner.run(plan.make(spec.parse(text, "x.toml")), tmp_path, reporter.Reporter())
    assert {line.status for line in found.summaries} == {"unavailable"}
    assert found.succeeded


def test_a_backend_for_which_a_case_makes_no_sense_is_not_applicable_and_the_run_succeeds(tmp_path):
    (tmp_path / "planted.toml").write_text(suite_text(["Right", "Elsewhere"]))
    with pytest.raises(SystemExit) as ended:
        main(["run", str(tmp_path / "planted.toml"), "--results", str(tmp_path)])
    assert not ended.value.code
    (path,) = tmp_path.glob("runs/*/*.jsonl")
    run = store.read(path)
    row = {line.backend.rpartition(":")[2]: line for line in run.of(Summary)}["Elsewhere"]
    assert (row.status, row.reason) == ("not applicable", "only for models of another kind")
    assert (row.latency, row.speed, row.verdict) == (None, None, None)
    asked = [line.generation for line in run.of(Samples) if line.backend == row.backend]
    assert asked == [0], "what makes no sense once is not asked again"
