"""Scripts and tools report a mistake in one line, and before they measure."""

from __future__ import annotations

import runpy
import sys
import tempfile
from pathlib import Path

import pytest

from suites.cli import guard, scripts
from suites.harness.record import store
from suites.harness.record.schema import AblationRecord, Latency, Speed
from suites.harness.run import ablate
from suites.harness.run.runner import Interrupted
from tests.harness import records


def run(root, monkeypatch, name, *arguments):
    """The exit code of a script or a tool of the checkout."""
    (path,) = (path for folder in ("scripts", "tools") if (path := root / folder / f"{name}.py").is_file())
    monkeypatch.setattr(sys, "argv", [path.name, *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    return ended.value.code


MISTAKES = {
    "ablate_attention": (["--stored", "nothing"], "ablate_attention: "),
    "ablate_conv": (["resnet81"], "did you mean 'resnet18'"),
    "ablate_memory": (["minilm", "--stored", "last"], "not allowed with argument model"),
    "ablate_onnxruntime": (["bertt"], "did you mean 'bert'"),
    "ablate_passes": (["bertt"], "did you mean 'bert'"),
    "ablate_quant": (["mlp", "--into", "missing.md"], "ablate_quant: missing.md: No such file"),
    "compare_engines": (["missing"], "compare_engines: "),
    "compare_onnxruntime": (["mlp", "--into", "missing.md"], "compare_onnxruntime: missing.md: No such file"),
    "compare_schemes": (["mlq"], "argument model: invalid choice: 'mlq'"),
    "make_results": (["folder", "--lines", "x"], "--lines: invalid int value: 'x'"),
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

    monkeypatch.setattr(ablate, "run", interrupt)
    assert run(root, monkeypatch, "ablate_passes", "mlp") == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.fixture
def asked(monkeypatch):
    """What scripts would measure: suites, and folders of results."""
    found = []

    def measure(asked, results, *_):
        found.append((asked.suite, results))
        raise KeyboardInterrupt

    monkeypatch.setattr(scripts, "measure_plan", measure)
    return found


def test_results_go_where_a_script_was_told(root, monkeypatch, tmp_path, asked):
    run(root, monkeypatch, "ablate_memory", "mlp", "--results", str(tmp_path))
    ((suite, results),) = asked
    assert (results, [one.name for one in suite.models]) == (tmp_path, ["mlp"])


def test_a_named_model_keeps_what_the_script_declares_of_it(root, monkeypatch, asked):
    run(root, monkeypatch, "compare_onnxruntime", "gpt2", "mlp")
    ((suite, _results),) = asked
    labels = {case.model: [ref.label for ref in refs] for case, refs in suite.cases()}
    assert "onnxruntime[tool=gpt2]" in labels["gpt2"]
    assert "onnxruntime[level=disabled]" in labels["mlp"]
    assert not any("tool=" in label for label in labels["mlp"])


def write_stored(tmp_path, suite, *lines):
    """The command line that prints a stored run of these lines, and its results folder."""
    with store.Writer(tmp_path / "runs" / "here" / "20260101T000000Z.jsonl") as writer:
        writer.append(records.environment(suite=suite), *lines)
    return ["--stored", "20260101T000000Z", "--results", str(tmp_path)]


FIELDS = {"baseline": "openvino", "latency": Latency(p50=1e-3, p90=1e-3, p99=1e-3, min=1e-3, n=1)}
ROWS = [
    records.summary(backend="openvino", **FIELDS),
    records.summary(backend="eager", speed=Speed(2.0, 1.7, 2.5), verdict="faster", **FIELDS),
]


@pytest.mark.parametrize("name", ["ablate_memory", "ablate_conv", "compare_onnxruntime"])
def test_the_table_of_a_stored_run_names_the_baseline_of_that_run(name, root, monkeypatch, capsys, tmp_path):
    arguments = write_stored(tmp_path, name, *ROWS)
    page = tmp_path / "page.md"
    marker = name.replace("_", "-")
    page.write_text(f"<!-- {marker} -->\n<!-- /{marker} -->\n")
    assert not run(root, monkeypatch, name, *arguments, "--into", str(page))
    assert not run(root, monkeypatch, name, *arguments)
    for text in (page.read_text(), capsys.readouterr().out):
        assert "speed vs openvino" in text
        assert "The heading names a backend. Speed is the time of that backend" in text


def test_an_ablation_prints_a_stored_ablation_and_refuses_another_run(root, monkeypatch, capsys, tmp_path):
    line = AblationRecord(
        case="mlp/b1/t1/fp32", switch="fuse_gelu", switch_kind="pass", mode="leave_one_out", reached=True,
        with_="engine", without="engine[disable=fuse_gelu]", speed=Speed(1.5, 1.4, 1.6), p=0.01, verdict="faster",
        detectable=0.04, floor=0.03,
    )  # fmt: skip
    arguments = write_stored(tmp_path / "one", "ablate_x", line)
    page = tmp_path / "page.md"
    page.write_text("<!-- ablate-passes -->\n<!-- /ablate-passes -->\n")
    assert not run(root, monkeypatch, "ablate_passes", *arguments)
    assert not run(root, monkeypatch, "ablate_passes", *arguments, "--into", str(page))
    assert "fuse_gelu" in capsys.readouterr().out
    assert "| `fuse_gelu` | pass | 1.50x" in page.read_text()
    arguments = write_stored(tmp_path / "other", "default", *ROWS)
    assert run(root, monkeypatch, "ablate_passes", *arguments) == 2
    assert "expected a run that is an ablation" in capsys.readouterr().err


def test_a_script_names_no_records_that_it_has_removed_when_it_is_interrupted(tmp_path, capsys):
    def measure():
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            path = Path(folder) / "run.jsonl"
            path.write_text("{}\n")
            raise Interrupted(path)

    with pytest.raises(SystemExit) as ended:
        guard(measure, "ablate_memory")
    assert (ended.value.code, capsys.readouterr().err) == (130, "interrupted; nothing was stored\n")
