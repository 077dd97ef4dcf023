"""Scratch of runs: gone behind each, and behind those that were killed."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from suites.harness.declare.case import BackendRef, Case
from suites.harness.record.reasons import tidy
from suites.harness.run.session import Worker, WorkerFailed, run_folder

LONG = f"""\x1b[1;31m2026-11-24 [E:onnxruntime]\x1b[m backend='inductor' raised:
CppCompileError: C++ compile error\nCommand:\ng++ {"-I/usr/include/python3 " * 200}
/tmp/enginebench-k3j4/case_3/cache/x.cpp:4:10: \x1b[0m\x1b[01;31mfatal error\x1b[0m: no Python.h (at 0x7f3a12cd90)
"""


def test_a_long_reason_keeps_its_beginning_and_the_cause_at_its_end_without_colours():
    found = tidy(LONG)
    assert len(found) <= 1000
    assert "\x1b" not in found
    assert found.startswith("2026-11-24 [E:onnxruntime] backend='inductor' raised:\nCppCompileError")
    assert "\n[...]\n" in found
    assert found.endswith("<scratch>:4:10: fatal error: no Python.h (at 0x...)\n")
    assert tidy("output 0: \x1b[31mshape\x1b[0m (0, 0)\n\tof 2") == "output 0: shape (0, 0)\n\tof 2"
    assert tidy(f"{Path.home()}/model.py") == "~/model.py"


def test_reasons_of_torch_compile_lack_its_advice_and_the_name_of_the_user():
    text = (
        "InductorError: RuntimeError: Failed to import /tmp/torchinductor_me/jc/cjc.py\n"
        "SyntaxError: bad (cjc.py, line 5)"
        "\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this).  For even more developer context,"
        ' set TORCH_LOGS="+dynamo"\n\n\nYou can suppress this exception and fall back to eager by setting:\n'
        "    import torch._dynamo\n    torch._dynamo.config.suppress_errors = True\n"
    )
    assert tidy(text).strip() == (
        "InductorError: RuntimeError: Failed to import <inductor>/jc/cjc.py\nSyntaxError: bad (cjc.py, line 5)"
    )


class Branch(torch.nn.Module):
    """Its control flow depends on a value, which torch.export refuses."""

    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


def export_to_onnx(model, inputs):
    torch.onnx.export(model, inputs, io.BytesIO(), dynamo=True, verbose=False)


@pytest.mark.parametrize("export", [torch.export.export, pytest.param(export_to_onnx, marks=pytest.mark.long)])
def test_reasons_of_torch_export_lack_its_advice_and_keep_the_cause_and_the_line(export):
    with pytest.raises(Exception, match="Could not guard on data-dependent expression") as raised:
        export(Branch().eval(), (torch.ones(2),))
    text = f"{type(raised.value).__name__}: {raised.value}"
    found = tidy(text)
    assert "return x * 2 if x.sum() > 0 else x" in found
    assert "Could not guard on data-dependent expression" in found
    assert "[...]" not in found
    assert "TORCHDYNAMO" in text
    for advice in ("TORCH_LOGS", "TORCHDYNAMO", "docs.google.com", "draft_export", "submit a PR", "GitHub"):
        assert advice not in found


def test_a_worker_has_imported_nothing_whose_import_is_timed_before_it_loads():
    """Otherwise `import_s` of the engine, or of a runtime that needs NumPy, would be that of a look into a table."""
    code = "import sys, suites.harness.run.worker; print({'engine', 'numpy', 'torch', 'openvino'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


def test_a_worker_sends_the_end_of_a_long_error(tmp_path):
    """The planted backend raises it where it prepares."""
    file = tmp_path / "loud.py"
    file.write_text(
        "from suites.backends.eager import Eager\n"
        "class Loud(Eager):\n"
        "    def prepare(self, model, inputs):\n"
        "        raise RuntimeError('\\x1b[31mfirst ' + 'flag ' * 5000 + 'the cause')\n"
    )
    case = Case("mlp", {"batch": 1}, options={"widths": "8-8"})
    (tmp_path / "scratch").mkdir()
    with Worker(case, BackendRef(f"{file}:Loud"), tmp_path / "scratch", tmp_path / "cache") as worker:
        worker.ask("load", 120)
        with pytest.raises(WorkerFailed) as failed:
            worker.ask("prepare", 120, state=[])
    assert failed.value.reason.startswith("prepare: RuntimeError: first flag")
    assert failed.value.reason.endswith("flag the cause")


HOLD = """
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
from suites.harness.run.session import run_folder
with run_folder() as folder:
    (folder / "large").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_run_left_goes_with_the_next_and_what_a_living_one_holds_stays(tmp_path, monkeypatch, root):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    holders = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=root) for _ in range(2)]
    try:
        killed, living = (tmp_path / holder.stdout.readline().strip() for holder in holders)
        holders[0].kill()
        holders[0].wait()
        assert (killed / "large").exists()
        with run_folder() as folder:
            assert folder.is_dir()
            assert not killed.exists()
            assert (living / "large").exists()
        assert not folder.exists()
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()
