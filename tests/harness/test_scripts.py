"""Scripts tell a mistake in one line, and before they measure."""

from __future__ import annotations

import runpy
import sys

import pytest


def run(root, monkeypatch, name, *arguments):
    """The exit code of a script of the checkout."""
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(root / "scripts" / f"{name}.py"), run_name="__main__")
    return ended.value.code


MISTAKES = {
    "ablate_attention": (["bert"], "unrecognized arguments: bert"),
    "ablate_memory": (["--stored", "nothing"], "ablate_memory: "),
    "ablate_passes": (["bertt"], "did you mean 'bert'"),
    "ablate_quant": (["mlp", "--into", "missing.md"], "ablate_quant: missing.md: No such file"),
    "bench_contention": (["--only", "eagre"], "did you mean 'eager'"),
    "bench_kernels": (["--filter", "linear", "--into", "docs/kernels.md"], "leave out --filter"),
    "bench_load": (["--models", "bertt"], "did you mean 'bert'"),
    "compare_backends": (["minilm", "--stored", "last"], "--stored prints runs that are there; leave out the models"),
    "compare_onnxruntime": (["mlp", "--into", "missing.md"], "compare_onnxruntime: missing.md: No such file"),
    "compare_schemes": (["mlq"], "did you mean 'mlp'"),
    "simulate_machines": (["--trials", "3"], "--trials: expected 10 or more"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_before_anything_is_measured(name, root, monkeypatch, capsys, tmp_path):
    arguments, told = MISTAKES[name]
    monkeypatch.chdir(tmp_path)
    assert run(root, monkeypatch, name, *arguments) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_script_ends_at_ctrl_c_without_a_traceback(root, monkeypatch, capsys):
    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("suites.cli.scripts.taken_apart", interrupt)
    assert run(root, monkeypatch, "ablate_passes", "mlp") == 130
    assert "Traceback" not in capsys.readouterr().err


def test_results_go_where_a_script_was_told(root, monkeypatch, tmp_path):
    asked = []

    def measure(_suite, results=None):
        asked.append(results)
        raise KeyboardInterrupt

    monkeypatch.setattr("suites.cli.scripts.run", measure)
    for name in ("compare_backends", "ablate_memory"):
        run(root, monkeypatch, name, "mlp", "--results", str(tmp_path))
    assert asked == [tmp_path, tmp_path]
