"""Runs that have no rows, of kernels or of a profile: every command that reads runs copes with them."""

from __future__ import annotations

import csv
import io
import json

import pytest

import suites
from suites.harness.errors import UsageError
from suites.harness.judge import stats
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.present.launches import describe_node_roofs
from suites.harness.record import machine, store
from suites.harness.record.roofs import Roofs
from suites.harness.run import launches
from tests.harness import commands, records

NAMES = ("20261121T101112Z_abc_tiny", "20261122T101112Z_abc_kernels", "20261123T101112Z_abc_nodes_mlp")
ROWS, KERNELS, NODES = NAMES
LINES = {
    ROWS: [records.summary(latency=stats.latency([[[1e-3]]]))],
    KERNELS: [records.kernel(), records.kernel(name="128 x 768", isa="avx512", bound=None, roof_share=None,
                                               executed_share=None, openblas_speed=None)],
    NODES: [records.node(), records.node(index=1, op="copy", executed_flops=0, flops=0, roof_share=None)],
}  # fmt: skip


@pytest.fixture
def results(tmp_path):
    """A run with a row, then one of kernels, then a profile, of this machine."""
    for name, lines in LINES.items():
        with store.Writer(store.runs_folder(tmp_path) / f"{name}.jsonl") as writer:
            suite = name.split("_", 2)[-1]
            cases = {records.CASE: ["eager"]} if name == ROWS else {}
            first = records.environment(suite=suite, plan={"cases": cases, "name": suite}, machine=machine.slug())
            writer.append(first, *lines)
    return tmp_path


def call(capsys, results, *arguments):
    return commands.call(capsys, *arguments, "--results", str(results))


def test_list_runs_counts_their_lines(capsys, results):
    _, out, _ = call(capsys, results, "list", "runs", "--json")
    assert [(row["run"], row["rows"], row["state"]) for row in json.loads(out)] == [
        (NODES, 2, "complete"), (KERNELS, 2, "complete"), (ROWS, 1, "complete"),
    ]  # fmt: skip


def test_show_prints_kernels_as_a_table(capsys, results):
    status, out, _ = call(capsys, results, "show", "last:kernels")
    assert status == 0
    assert "avx512: at best 100.0 GFLOP/s of multiply-adds, 30.0 GB/s of reading memory" in out
    first, second = [line.split() for line in out.splitlines() if line.startswith("f32_linear")]
    assert first[-6:] == ["100.0", "15.0", "97%", "FMA", "0.58", "0.66"]
    assert second[-3:] == ["-", "-", "0.66"]


def test_show_prints_the_launches_of_the_newest_run(capsys, results):
    status, out, _ = call(capsys, results, "show")
    assert status == 0
    assert f"{records.CASE}  engine; roofs of one core: 100.0 GFLOP/s, 30.0 GB/s." in out
    shown = [line.split() for line in out.splitlines() if "f32_linear__avx512_packed" in line]
    assert [(row[0], row[1]) for row in shown] == [("0", "linear"), ("1", "copy")]
    assert "97% FMA" in out


def test_roofs_that_were_not_measured_are_not_written_as_0():
    (first, *_) = LINES[NODES]
    unmeasured = first.model_copy(update={"peak_flops": 0.0, "bandwidth": 0.0})
    assert describe_node_roofs([unmeasured]) == "roofs of one core: not measured"


def test_show_gives_them_to_programs_and_to_pages(capsys, results, tmp_path):
    for name in (KERNELS, NODES):
        _, out, _ = call(capsys, results, "show", name, "--json")
        assert json.loads(out)["lines"] == [store.to_json(line) for line in LINES[name]]
        _, out, _ = call(capsys, results, "show", name, "--csv")
        seconds = [float(row["seconds"]) for row in csv.DictReader(io.StringIO(out))]
        assert seconds == [line.seconds for line in LINES[name]]
        _, out, _ = call(capsys, results, "show", name, "--markdown")
        assert "| `f32_linear__avx512_packed` |" in out
        (tmp_path / "page.md").write_text("<!-- table --><!-- /table -->")
        call(capsys, results, "show", name, "--into", str(tmp_path / "page.md"))
        assert "`f32_linear__avx512_packed`" in (tmp_path / "page.md").read_text()


def test_no_escape_sequence_of_a_record_reaches_the_terminal(capsys, tmp_path):
    """A text in a record may come from a model of somebody else."""
    coloured = "\x1b]0;title\x07layers\x1b[31m.0\x1b[2J"
    with store.Writer(store.runs_folder(tmp_path) / f"{NODES}.jsonl") as writer:
        first = records.environment(suite="nodes_mlp", plan={"name": "nodes_mlp"}, machine=machine.slug())
        writer.append(first, records.node(module=coloured, case=f"mlp\x1b[31m/{'long/' * 30}"))
    for form in ([], ["--markdown"]):
        for columns in ("200", "60"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("COLUMNS", columns)
                status, out, _ = call(capsys, tmp_path, "show", "last", *form)
            assert (status, "layers.0" in out) == (0, True)
            assert "\x1b" not in out.partition("module")[2]
            assert form or "\x1b" not in out


@pytest.mark.parametrize(("name", "what"), [(KERNELS, "kernels by themselves"), (NODES, "launches of a profile")])
def test_what_needs_rows_refuses_them_in_one_line(capsys, results, name, what):
    for arguments in (["show", name, "--plot"], ["show", name, "--case", "mlp"]):
        status, _, err = call(capsys, results, *arguments)
        assert status == 2
        assert what in err
        assert err.count("\n") == 1


def test_the_last_run_with_rows_is_meant_where_rows_are_needed(capsys, results):
    _, out, _ = call(capsys, results, "show", "last", "--case", "mlp")
    assert ROWS in out
    status, _, err = call(capsys, results, "compare", "last")
    assert status == 2
    assert "the earlier and the later run are both" in err  # the only run with rows


def test_frames_keep_rows_kernels_and_launches_apart(results):
    assert suites.load_runs(results)["run"].tolist() == [ROWS]
    kernels, nodes = suites.load_kernels(results), suites.load_nodes(results)
    assert kernels["roof_share"].tolist()[:1] == [0.97]
    assert kernels["openblas_speed"].isna().tolist() == [False, True]
    assert nodes[["index", "op", "shape"]].values.tolist() == [[0, "linear", "[1, 16]"], [1, "copy", "[1, 16]"]]
    assert suites.load_ablations(results).empty


def test_the_history_of_a_machine_reads_them(results):
    assert MachineNoise(results).spread(1) == MachineNoise(results / "nothing").spread(1)


def test_a_stored_run_is_read_back_as_it_was_written(tmp_path):
    plan = launches.make_plan("kernels", "all kernels", "torch", ["--isa", "avx512"], 9)
    path = launches.begin(tmp_path, plan, 1, lambda: Roofs((), 0.0)).write(LINES[KERNELS])
    run = store.read(path)
    assert run.records == LINES[KERNELS]
    assert (run.environment.suite, run.environment.plan, run.environment.threads) == ("kernels", plan, [1])
    assert (run.unfinished, run.environment.machine) == ("", machine.slug())
    again = launches.begin(
        tmp_path, launches.make_plan("kernels", "all kernels", "torch", []), 1, lambda: Roofs((), 0.0)
    )
    assert again.environment.plan_digest != run.environment.plan_digest


def test_a_folder_that_cannot_be_written_is_one_error(tmp_path):
    (tmp_path / "runs").write_text("a file")
    plan = launches.make_plan("kernels", "", "torch", [])
    with pytest.raises(UsageError, match="cannot be written"):
        launches.begin(tmp_path, plan, 1, lambda: Roofs((), 0.0)).write(LINES[KERNELS])
