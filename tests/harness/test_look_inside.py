"""The commands that look inside: trace, diff, totals by module, logs, and the note that leads to them."""

from __future__ import annotations

import json
import logging
import subprocess

import numpy as np
import pytest

import engine
from engine import logs
from suites import models
from suites.cli import capsules
from suites.harness.judge import judged_case
from suites.harness.present import names, notes
from tests import messages
from tests.harness import records
from tests.harness.commands import call

MODEL = ["bert-tiny", "--set", "sequence=16"]


@pytest.fixture(scope="module")
def program():
    module, inputs = models.get("bert-tiny").build(sequence=16)
    return engine.compile(module, tuple(inputs)), tuple(inputs)


def test_trace_prints_the_nodes_that_a_name_selects_and_the_first_bad_one(capsys, program):
    compiled, inputs = program
    status, out, _err = call(capsys, "trace", *MODEL, "--keep", "bert.pooler.*", "--json")
    told = json.loads(out)
    assert status == 0
    assert told["first_bad"] is None
    nodes = {one["outputs"][0]["exported"]: one for one in told["nodes"]}
    expected = compiled.trace(*inputs, keep=["tanh"]).kept
    (kept,) = expected.values()
    assert nodes["tanh"]["outputs"][0]["maximum"] == pytest.approx(float(kept.max()))
    status, out, _err = call(capsys, "trace", *MODEL, "--keep", "bert.pooler.*", "--limit", "2")
    assert "bert.pooler.dense" in out
    assert "layer.0" not in out.partition("First bad value")[0]
    assert "First bad value: node 0, embedding_norm, makes a magnitude above 2" in " ".join(out.split())


@pytest.mark.parametrize("backend", ["engine", "eager64"])
def test_trace_writes_arrays(backend, capsys, program, tmp_path):
    compiled, inputs = program
    path = tmp_path / "values.npz"
    status, out, _err = call(capsys, "trace", *MODEL, "--keep", "tanh", "--npz", str(path), "--backend", backend)
    assert status == 0
    assert f"wrote 1 arrays to {path}" in out
    with np.load(path) as found:
        (array,) = found.values()
    ((_, expected),) = compiled.trace(*inputs, keep=["tanh"]).kept.items()
    assert array.dtype == (np.float64 if backend == "eager64" else np.float32)
    np.testing.assert_allclose(array, expected, atol=1e-6)


def test_diff_prints_both_errors_of_each_value_and_a_sentence(capsys, tmp_path):
    picture = tmp_path / "growth.png"
    status, out, _err = call(capsys, "diff", *MODEL, "--candidate", "engine[isa=avx2]", "--plot", str(picture))
    assert status == 0
    assert "engine[isa=avx2] against eager64: the last value, tanh, has an error of" in " ".join(out.split())
    assert "No node adds more error than the rounding that its op declares." in " ".join(out.split())
    assert picture.stat().st_size > 1000
    status, out, _err = call(capsys, "diff", *MODEL, "--candidate", "engine[precision=bf16]", "--sets", "2", "--json")
    told = json.loads(out)
    assert (told["candidate"], told["sets"], told["first_wrong"]) == ("engine[precision=bf16]", 2, None)
    assert 1e-4 < max(one["own"] for one in told["values"]) < 1e-2


@pytest.mark.parametrize("candidate", ["onnxruntime", "openvino[precision=bf16]"])
def test_diff_compares_the_values_that_another_runtime_names(candidate, capsys):
    pytest.importorskip(candidate.partition("[")[0])
    status, out, _err = call(capsys, "diff", *MODEL, "--candidate", candidate, "--json")
    told = json.loads(out)
    assert status == 0
    errors = {one["name"]: one["error"] for one in told["values"]}
    assert len(errors) > 30
    assert max(errors.values()) < (1e-2 if "bf16" in candidate else 1e-6), "no value stands beside another one"
    assert "where it shows these values" in told["notes"][0]


@pytest.mark.parametrize(
    "arguments",
    [
        ["trace", *MODEL, "--keep", "bert.encodr.*"],
        ["trace", "bert-tiny", "--backend", "eager"],
        ["diff", "bert-tiny", "--candidate", "eager64"],
        ["diff", "bert-tiny", "--candidate", "torchao"],
        ["diff", "bert-tiny", "--candidate", "engin"],
        ["diff", "bert-tiny", "--candidate", "engine[precision=b16]"],
        ["diff", "bert-tiny", "--reference", "engine@no-such-commit"],
        ["diff", "bert-tiny", "--candidate", "engine[isaa=avx2]"],
        ["diff", *MODEL, "--plot", "/no/such/folder/a.png"],
        ["diff", *MODEL, "--heatmap", "a.xyz"],
        ["trace", *MODEL, "--npz", "/no/such/folder/a.npz"],
        ["profile", "bert-tiny", "--by", "layer"],
        ["--log-file", "/no/such/folder/log", "list", "models"],
    ],
    ids=lambda value: "-".join(value[:1] + value[-1:]),
)
def test_what_cannot_be_looked_at_is_one_sentence(arguments, capsys):
    status, out, err = call(capsys, *arguments)
    assert (status, out) == (2, "")
    messages.check(err)


def test_profile_adds_up_by_module_and_sorts_by_time(capsys):
    status, out, _err = call(capsys, "profile", *MODEL, "--by", "module")
    rows = [line.split() for line in out.splitlines()]
    assert status == 0
    (whole,) = [row for row in rows if row[:1] == ["(model)"]]
    assert whole[-1] == "100.0%"
    assert any(row[:1] == ["bert.encoder"] for row in rows)
    module, inputs = models.get("bert-tiny").build(sequence=16)
    found = engine.compile(module, tuple(inputs)).profile(*inputs, runs=3)
    total = {one.module: one for one in found.by_module()}
    inside = [node for node in found.nodes if node.module.startswith("bert.encoder.layer.0")]
    assert total["bert.encoder.layer.0"].seconds == pytest.approx(sum(node.seconds for node in inside))
    assert total["bert.encoder.layer.0"].launches == sum(node.launches for node in inside)
    assert total[""].seconds == pytest.approx(sum(node.seconds for node in found.nodes))
    assert [one.seconds for one in found.by_module()] == sorted((one.seconds for one in total.values()), reverse=True)


def test_the_log_of_a_command_goes_to_a_file(capsys, tmp_path, monkeypatch):
    for stage in logs.STAGES:
        logger = logging.getLogger(f"engine.{stage}")
        monkeypatch.setattr(logger, "handlers", [])
        monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setenv(logs.VARIABLE, "passes")
    monkeypatch.setenv(logs.FILE_VARIABLE, "")  # so that what the command sets does not stay
    path = tmp_path / "log"
    status, _out, _err = call(capsys, "--log-file", str(path), "trace", *MODEL)
    (handler,) = logging.getLogger("engine.passes").handlers
    handler.close()
    for stage in logs.STAGES:
        logging.getLogger(f"engine.{stage}").setLevel(logging.NOTSET)
    written = path.read_text()
    assert status == 0
    assert "engine.passes" in written
    assert "fuse_epilogue" in written
    assert "engine.export" not in written


def test_a_wrong_row_of_the_engine_names_the_command_that_looks_further():
    row = {"case": "bert/b1/t1/bf16", "model": "bert", "shape": {"sequence": 16}, "precision": "bf16"}
    rows = [
        records.summary(
            backend="engine[isa=avx2]", role="engine", status="wrong", reason="off by 1", latency=None, **row
        ),
        records.summary(backend="openvino", status="wrong", reason="off by 2", latency=None, **row),
    ]
    told = list(notes.explain_missing(judged_case.judge_cases(rows), names.shorten_names(rows)))
    command = "enginebench diff bert --set sequence=16 --candidate 'engine[isa=avx2,precision=bf16]'"
    assert [one.partition("): ")[2] for one in told] == [f"off by 1; look further: {command}", "off by 2"]


BROKEN = """
def run(graph):
    count = 0
    for node in graph.candidates():
        if node.op.name == "tanh":
            graph.replace(node.output, node.operand("x"))
            graph.remove([node])
            count += 1
    return count
"""


def test_bisect_names_the_rewrite_that_makes_a_model_wrong(capsys, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text(BROKEN)
    options = f"passes={path}:run,disable=fuse_epilogue"
    status, out, _err = call(capsys, "bisect", *MODEL, "--candidate", f"engine[{options}]", "--json")
    told = json.loads(out)
    assert status == 0
    assert [cause["name"] for cause in told["found"][0]["causes"]] == ["broken#tanh"]
    assert told["is_mended"] is True


def test_bisect_asks_a_command(capsys):
    command = """test -s "$PROGRAM" && case "$CONFIG" in *'"disable": []'*) exit 1;; esac"""
    status, out, _err = call(capsys, "bisect", *MODEL, "--fails", command)
    assert status == 0
    assert "To blame: pass " in out
    status, _out, err = call(capsys, "bisect", *MODEL, "--fails", "no-such-command")
    assert status == 2
    assert "the shell cannot run 'no-such-command'" in err


MINE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(torch.tanh(torch.relu(x)), -1)


def factory():
    return Model().eval(), (torch.randn(3, 7),)
"""


def test_minify_writes_a_script_and_a_capsule_that_runs_it_if_allowed(capsys, tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "mine.py").write_text(MINE)
    path = tmp_path / "case.capsule"
    asked = ["--candidate", f"engine[passes={tmp_path / 'broken.py'}:run]", "--capsule", str(path)]
    status, out, _err = call(capsys, "minify", f"{tmp_path / 'mine.py'}:factory", *asked)
    assert status == 0
    assert "2 of 3 calls are left" in out  # what is no op has no program
    script = path.with_suffix(".repro.py").read_text()
    assert script in out
    assert "torch.ops.aten.tanh.default(" in script
    status, _out, err = call(capsys, "replay", str(path))
    assert status == 2
    assert "runs code: python repro.py" in err
    status, out, _err = call(capsys, "replay", str(path), "--allow-command")
    assert status == 1
    assert "It fails" in out


@pytest.mark.parametrize("label", ["eager", "openvino[hint=throughput]", "onnxruntime[precision=int8_dynamic]"])
def test_minify_refuses_what_has_no_script(label, capsys):
    status, out, err = call(capsys, "minify", *MODEL, "--candidate", label)
    assert (status, out) == (2, "")
    messages.check(err)


def test_a_file_that_is_no_capsule_is_refused(capsys, tmp_path):
    status, out, err = call(capsys, "replay", str(tmp_path / "missing"))
    assert (status, out) == (2, "")
    messages.check(err.replace(str(tmp_path), "FOLDER"))


def test_a_run_asks_for_a_capsule_of_each_row_that_failed(tmp_path, monkeypatch):
    asked = []

    def run(command, **_):
        asked.append(command[3:])
        return subprocess.CompletedProcess(command, len(asked) - 1, "", "text\nthe reason\n")

    monkeypatch.setattr(capsules.subprocess, "run", run)
    row = {"case": "bert/s16/t2/bf16", "model": "bert", "shape": {"sequence": 16}, "precision": "bf16", "threads": 2}
    rows = [
        records.summary(backend=name, status=status, reason="off", latency=None, **row)
        for name, status in (("openvino", "wrong"), ("onnxruntime", "failed"), ("eager", "timeout"))
    ]
    told = list(capsules.write(tmp_path / "made", rows))
    path = tmp_path / "made" / "bert-s16-t2-bf16-openvino.capsule"
    assert told == [
        f"openvino, bert/s16/t2/bf16: {path}",
        "onnxruntime, bert/s16/t2/bf16: no capsule: the reason",
    ]
    model = ["minify", "bert", "--set", "sequence=16", "--candidate", "openvino[precision=bf16]"]
    assert asked[0] == [*model, "--fails", "wrong", "--threads", "2", "--capsule", str(path)]
    assert asked[1][-5] == "error"


@pytest.mark.parametrize(
    "options",
    [
        ["--fail-regex", "x"],
        ["--fails", "true", "--fail-regex", "("],
        ["--candidate", "onnxruntime"],
        ["--candidate", "engine[precision=fp7]"],
        ["--reference", "onnxruntime"],
    ],
)
def test_bisect_refuses_what_it_cannot_do(options, capsys):
    status, out, err = call(capsys, "bisect", *MODEL, *options)
    assert (status, out) == (2, "")
    messages.check(err)
