"""Scripts tell a mistake in one line, and before they measure."""

from __future__ import annotations

import json
import runpy
import sys
import tempfile
from pathlib import Path

import pytest

from engine import targets
from suites.cli import guard
from suites.harness.errors import UsageError
from suites.harness.record import store
from suites.harness.record.roofs import Roofs
from suites.harness.record.schema import Latency, Ratio
from suites.harness.run.runner import Interrupted
from tests.harness import records


def run(root, monkeypatch, name, *arguments):
    """The exit code of a script of the checkout."""
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(root / "scripts" / f"{name}.py"), run_name="__main__")
    return ended.value.code


MISTAKES = {
    "ablate_conv": (["mlp"], "ablate_conv: mlp: its program has no convolution; name another model"),
    "ablate_attention": (["bert"], "unrecognized arguments: bert"),
    "ablate_memory": (["--stored", "nothing"], "ablate_memory: "),
    "ablate_passes": (["bertt"], "did you mean 'bert'"),
    "ablate_quant": (["mlp", "--into", "missing.md"], "ablate_quant: missing.md: No such file"),
    "bench_contention": (["--only", "eagre"], "did you mean 'eager'"),
    "bench_kernels": (["--filter", "linear", "--into", "docs/kernels.md"], "leave out --filter"),
    "bench_load": (["--models", "bertt"], "did you mean 'bert'"),
    "bench_scaling": (["--models", "bert-decode"], "bert-decode: bert generates no text"),
    "compare_backends": (["minilm", "--stored", "last"], "--stored prints runs that are there; leave out the models"),
    "compare_onnxruntime": (["mlp", "--into", "missing.md"], "compare_onnxruntime: missing.md: No such file"),
    "compare_schemes": (["mlq"], "did you mean 'mlp'"),
    "estimate_gpu": (["--tokens", "2000"], "--tokens: expected at least 2"),
    "make_gguf": (["mpl"], "make_gguf: mpl: unknown model 'mpl'; did you mean 'mlp'"),
    "simulate_machines": (["--trials", "3"], "--trials: expected 10 or more"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_before_anything_is_measured(name, root, monkeypatch, capsys, tmp_path):
    arguments, told = MISTAKES[name]
    monkeypatch.chdir(tmp_path)
    assert run(root, monkeypatch, name, *arguments) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("bench_kernels", ["--isa", "avx51"], "unknown isa 'avx51'"),
        (
            "bench_kernels",
            ["--filter", "linaer"],
            "--filter 'linaer': no kernel of avx512 in csrc/kernels.inc has this",
        ),
        ("bench_phases", ["mlp", "--repeats", "0"], "--repeats: expected a whole number of at least 1, got '0'"),
        ("bench_profile", ["--pairs", "0"], "--pairs: expected a whole number of at least 1, got '0'"),
        ("bench_profile", ["--into", "missing.md"], "bench_profile: missing.md: No such file"),
        ("make_results", ["folder", "--lines", "x"], "--lines: expected a whole number of at least 1, got 'x'"),
        ("simulate_tolerance", ["--trials", "0"], "--trials: expected a whole number of at least 1, got '0'"),
        ("simulate_tolerance", ["--into", "missing.md"], "simulate_tolerance: missing.md: No such file"),
    ],
)
def test_values_of_options_are_checked_before_anything_is_measured(
    name, arguments, told, root, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    assert run(root, monkeypatch, name, *arguments) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_pictures_are_compared_only_if_the_page_has_a_place_for_the_table(root, monkeypatch, tmp_path):
    script = runpy.run_path(str(root / "scripts" / "compare_labels.py"))
    compared = []
    script["main"].__globals__["row"] = compared.append
    monkeypatch.setattr(sys, "argv", ["compare_labels.py", "--into", str(tmp_path / "missing.md")])
    with pytest.raises(UsageError, match=r"missing\.md: No such file"):
        script["main"]()
    assert compared == []


def test_the_table_of_scaling_is_printed_with_its_heading_and_legend(root, monkeypatch, capsys):
    script = runpy.run_path(str(root / "scripts" / "bench_scaling.py"))
    times = ([2.0, 2.0], [1.25, 1.25], [1.0, 1.0])
    monkeypatch.setitem(script["main"].__globals__, "measure", lambda *_: times)
    monkeypatch.setattr(sys, "argv", ["bench_scaling.py", "--models", "mlp"])
    script["main"]()
    heading, rule, row, _, legend = capsys.readouterr().out.splitlines()
    assert heading == "| model | 2 threads against 1 | two copies against one | 2 threads against two copies |"
    assert rule == "|---|---|---|---|"
    assert row == "| mlp | 2.00x [2.00, 2.00] | 1.60x [1.60, 1.60] | 1.25x [1.25, 1.25] |"
    assert legend.startswith("Each number is a ratio of two speeds, with its 95% interval in brackets.")


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


CASE = "case\tlinear\t16 x 768 x 768\t20000000\t2000000\t1000000\t1,0\tf32:2,3;f32:4,3;f32:4;-"
ROUND = "round\t1e11\t3e10\t4e10\tf32_linear__avx512_packed\t0.0002\t0\tf32_linear__generic_openblas\t0.0004\t0"


@pytest.fixture
def bench_kernels(root, monkeypatch, tmp_path):
    """Calls the script's main with a test program that has one kernel and takes no time; answers the stored runs."""
    program = tmp_path / "program.py"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nprint({CASE!r}, flush=True)\n"
        f"for line in sys.stdin:\n    if line == '\\n':\n        break\n    print({ROUND!r}, flush=True)\n"
    )
    program.chmod(0o755)
    script = runpy.run_path(str(root / "scripts" / "bench_kernels.py"))
    names = script["main"].__globals__
    names["build"] = lambda folder: program
    names["keep_memory"] = lambda: None
    names["torch_timer"] = lambda case: lambda: 0.00025
    monkeypatch.setattr("suites.harness.measure.roofs.measure", lambda: Roofs((), 0.0))
    results = tmp_path / "results"

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["bench_kernels.py", "--results", str(results), *arguments])
        script["main"]()
        return [store.read(path) for path in store.all_run_files(results)]

    return call


def test_every_kernel_of_this_build_is_in_the_list_that_a_filter_is_checked_with(root):
    list_kernels = runpy.run_path(str(root / "scripts" / "bench_kernels.py"))["list_kernels"]
    built = [one for one in targets.get("cpu").kernels() if one.variant != "reference"]
    assert built
    assert {one.name for one in built} <= {name for one in built for name in list_kernels(one.isa)}


def test_a_run_of_all_kernels_is_stored(bench_kernels, capsys):
    (run,) = bench_kernels("--json")
    (line,) = run.records
    expected = records.kernel(roof_share=1.0, executed_share=1.0, torch_ratio=0.8, openblas_ratio=0.5)
    assert line.model_dump() == pytest.approx(expected.model_dump())
    assert json.loads(capsys.readouterr().out) == [store.to_json(line)]
    plan = run.environment.plan
    assert (plan.name, plan.cases, plan.baseline, plan.options) == ("kernels", {}, "torch", ["--isa", "avx512"])


def test_a_run_of_some_kernels_is_stored_only_if_that_is_asked_for(bench_kernels):
    assert bench_kernels("--filter", "linear") == []
    assert bench_kernels("--no-record") == []
    (run,) = bench_kernels("--filter", "linear", "--record")
    assert run.environment.plan.options == ["--isa", "avx512", "--filter", "linear"]


def test_the_table_of_kernels_goes_into_a_page(bench_kernels, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- kernels avx512 -->\n<!-- /kernels avx512 -->\n")
    bench_kernels("--into", str(page))
    assert "| `f32_linear__avx512_packed` | 16 x 768 x 768 | 200 us | 100.0 | 15.0 | 100% FMA | 0.50 | 0.80 |" in (
        page.read_text()
    )


def test_a_script_names_no_records_that_it_has_removed_when_it_is_interrupted(tmp_path, capsys):
    def measure():
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            path = Path(folder) / "run.jsonl"
            path.write_text("{}\n")
            raise Interrupted(path)

    with pytest.raises(SystemExit) as ended:
        guard(measure, "bench_phases")
    assert (ended.value.code, capsys.readouterr().err) == (130, "interrupted; nothing was stored\n")


@pytest.mark.parametrize("name", ["ablate_memory", "compare_backends", "compare_onnxruntime"])
def test_the_table_of_a_stored_run_names_the_baseline_of_that_run(name, root, monkeypatch, tmp_path):
    fields = {"baseline": "openvino", "latency": Latency(p50=1e-3, p90=1e-3, p99=1e-3, min=1e-3, n=1)}
    found = [
        records.summary(backend="openvino", **fields),
        records.summary(backend="eager", ratio=Ratio(0.5, 0.4, 0.6), verdict="faster", **fields),
    ]
    with store.Writer(tmp_path / "runs" / "here" / "20260101T000000Z.jsonl") as writer:
        writer.append(records.environment(), *found)
    page = tmp_path / "page.md"
    marker = name.replace("_", "-")
    page.write_text(f"<!-- {marker} -->\n<!-- /{marker} -->\n")
    arguments = ["--stored", "20260101T000000Z", "--results", str(tmp_path), "--into", str(page)]
    assert not run(root, monkeypatch, name, *arguments)
    assert "speed vs openvino" in page.read_text()
    assert "The heading names a backend. Speed is the time of that backend" in page.read_text()
