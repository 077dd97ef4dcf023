"""`enginebench kernels` stores what the test program and torch take."""

from __future__ import annotations

import json
import sys

import pytest

from suites.harness.measure import kernels
from suites.harness.record import store
from suites.harness.record.roofs import Roofs
from tests.harness import records
from tests.harness.commands import call

CASE = "case\tlinear\t16 x 768 x 768\t20000000\t2000000\t1000000\t1,0\tf32:2,3;f32:4,3;f32:4;-"
ROUND = "round\t1e11\t3e10\t4e10\tf32_linear__avx512_packed\t0.0002\t0\tf32_linear__generic_openblas\t0.0004\t0"


@pytest.fixture
def results(monkeypatch, tmp_path):
    """The results folder; the test program has one kernel, which takes no time."""
    program = tmp_path / "program.py"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nprint({CASE!r}, flush=True)\n"
        f"for line in sys.stdin:\n    if line == '\\n':\n        break\n    print({ROUND!r}, flush=True)\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(kernels, "build_program", lambda folder: program)
    monkeypatch.setattr(kernels, "_keep_memory", lambda: None)
    monkeypatch.setattr(kernels, "torch_timer", lambda case: lambda: 0.00025)
    monkeypatch.setattr("suites.harness.measure.roofs.measure", lambda: Roofs((), 0.0))
    return tmp_path / "results"


def test_a_run_of_all_kernels_is_stored_and_printed(results, capsys):
    status, out, _ = call(capsys, "kernels", "--json", "--results", str(results))
    (path,) = store.all_run_files(results)
    run = store.read(path)
    (line,) = run.records
    expected = records.kernel(roof_share=1.0, executed_share=1.0, torch_speed=1.25, openblas_speed=2.0)
    assert line.model_dump() == pytest.approx(expected.model_dump())
    assert (status, json.loads(out)["lines"]) == (0, [store.to_json(line)])
    plan = run.environment.plan
    assert (plan.name, plan.cases, plan.baseline, plan.options) == ("kernels", {}, "torch", ["--isa", "avx512"])


def test_a_run_of_some_kernels_says_which(results, capsys):
    status, out, _ = call(capsys, "kernels", "--filter", "linear", "--results", str(results))
    assert (status, "f32_linear__avx512_packed" in out) == (0, True)
    (path,) = store.all_run_files(results)
    assert store.read(path).environment.plan.options == ["--isa", "avx512", "--filter", "linear"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--isa", "avx51"], "unknown isa 'avx51'"),
        (["--filter", "linaer"], "--filter 'linaer': no kernel of avx512 has this in its name"),
    ],
)
def test_an_unknown_name_is_told_before_anything_is_built(arguments, told, results, capsys):
    status, _, err = call(capsys, "kernels", *arguments, "--results", str(results))
    assert (status, told in err) == (2, True)
    assert not results.exists()
