"""``enginebench profile --backends``: others beside the engine, each as a whole."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from suites.cli import compiled as compiled_model
from suites.cli import main, profile
from suites.harness.errors import Unavailable
from suites.harness.judge import stats
from suites.harness.measure.cuda import Cuda
from suites.harness.present.progress import LiveReporter
from suites.harness.record import store
from suites.harness.record.launches import NodeRecord
from suites.harness.record.roofs import Roofs
from suites.harness.record.schema import Compared, Speed
from suites.harness.run.runner import Outcome
from tests.forms import shorten
from tests.harness import records

TIMES = [stats.latency([[[seconds]]]) for seconds in (8e-6, 10e-6)]
LINES = [
    records.summary(
        backend="engine",
        baseline="engine",
        latency=TIMES[0],
        roof_share=0.75,
        best_peer=Compared(backend="eager", speed=Speed(1.25, 1.2, 1.3), verdict="faster"),
    ),
    records.summary(
        baseline="engine", latency=TIMES[1], speed=Speed(0.8, 0.77, 0.83), verdict="slower", roof_share=0.6
    ),
    records.summary(backend="openvino", baseline="engine", status="unavailable", reason="pip install openvino"),
]
PROFILE = ["profile", "mlp", "--set", "widths=16-16", "--backends", "eager,openvino"]


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """The plans that the command had measured; the answer is `LINES`."""
    found = []

    def run(plan, results, reporter, **_):
        found.append((plan, results))
        reporter.finished(plan.cases[0][0].id, 1, 1, LINES)
        return Outcome(tmp_path / "run.jsonl", records.environment(), LINES)

    monkeypatch.setattr(profile.runner, "run", run)
    return found


def test_the_engine_and_the_others_take_turns_on_the_very_case_that_is_profiled(capsys, measured, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main([*PROFILE, "--threads", "2", "--results", str(tmp_path)])
    assert not ended.value.code
    ((plan, results),) = measured
    ((case, refs),) = plan.cases
    assert case.id == "mlp/b1/t2/fp32/widths=16-16"
    assert [ref.label for ref in refs] == ["engine", "engine#2", "eager", "openvino"]
    assert (plan.suite.name, results) == ("profile_mlp", tmp_path)
    out = capsys.readouterr().out
    assert "engine first, 1.25x as fast as eager [1.20, 1.30]: faster" in out
    assert "pip install openvino" in out


def test_the_case_is_printed_once_on_a_terminal_that_shows_both_outputs(capsys, measured):
    with pytest.raises(SystemExit):
        main([*PROFILE])
    printed = capsys.readouterr()
    assert printed.out.count("engine first, 1.25x as fast as eager") == 1
    assert "engine first" not in printed.err
    assert "(1 of 1)" in printed.err, "the progress says that the case is done"
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    LiveReporter(console, shows_cases=False).finished("case", 1, 1, LINES)
    assert console.file.getvalue() == ""


def test_each_backend_shows_its_share_of_the_roof(capsys, measured):
    with pytest.raises(SystemExit):
        main([*PROFILE])
    out = capsys.readouterr().out
    assert " of roof " in out
    for backend, share in (("engine", "75%"), ("eager", "60%")):
        (line,) = [line for line in out.splitlines() if line.startswith(f"{backend}  ")]
        assert share in line.split()


@pytest.mark.parametrize(
    ("precision", "dtype", "of_config"),
    shorten(
        [("fp32", "float32", None), ("bf16", "bfloat16", None), ("fp16", "float16", None),
         ("int8_weight", "float32", "int8_weight")],
        ("bf16", "bfloat16", None), ("int8_weight", "float32", "int8_weight"),
    ),
)  # fmt: skip
def test_a_model_is_profiled_in_the_precision_that_is_asked_for(
    capsys, measured, monkeypatch, precision, dtype, of_config
):
    compiled, seen = compiled_model.Engine.compiled, []

    def note(backend, module, inputs):
        seen.append(({str(t.dtype) for t in (*module.parameters(), *inputs)}, backend.config().get("precision")))
        return compiled(backend, module, inputs)

    monkeypatch.setattr(compiled_model.Engine, "compiled", note)
    with pytest.raises(SystemExit) as ended:
        main([*PROFILE, "--precision", precision, "--json"])
    assert not ended.value.code
    assert seen == [({f"torch.{dtype}"}, of_config)]
    ((plan, _),) = measured
    assert [case.id for case, _ in plan.cases] == [f"mlp/b1/t1/{precision}/widths=16-16"]
    assert json.loads(capsys.readouterr().out)["precision"] == precision


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--precision", "bf61"], "--precision: unknown precision 'bf61'; did you mean 'bf16'"),
        (["--precision", "int8_static"], "int8_static needs scales"),
        (["--backend", "onnxruntime"], "expected engine or engine[option=value,...]"),
        (["--backend", "engine[planer=none]"], "did you mean 'planner'"),
        (["--device", "cuda"], "no CUDA device"),
        (["--device", "cudo"], "unknown device 'cudo'; did you mean 'cuda'"),
    ],
)
def test_what_cannot_be_profiled_is_one_line(capsys, arguments, told):
    with pytest.raises(SystemExit) as ended:
        main(["profile", "mlp", "--set", "widths=16-16", *arguments])
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert told in err


@pytest.mark.parametrize("option", [["--record"], ["--backends", "eager"]])
def test_a_profile_of_a_gpu_is_neither_stored_nor_compared(capsys, monkeypatch, option):
    monkeypatch.setattr(Cuda, "unavailable", lambda _self: None)
    with pytest.raises(SystemExit) as ended:
        main(["profile", "mlp", "--device", "cuda", *option])
    assert ended.value.code == 2
    assert "--device cuda: --backends and --record are for the cpu" in capsys.readouterr().err


def test_the_model_runs_on_the_device_that_is_asked_for(monkeypatch):
    """The device of torch without values takes the place of a GPU; the engine is asked for the target of one."""
    asked = []

    def compiled(backend, module, inputs):
        asked.append((backend.config()["target"], inputs[0].device.type, next(module.parameters()).device.type))
        raise Unavailable("measured elsewhere")

    monkeypatch.setattr(Cuda, "unavailable", lambda _self: None)
    monkeypatch.setattr(Cuda, "place", lambda _self, value: tuple(one.to("meta") for one in value))
    monkeypatch.setattr(Cuda, "place_model", lambda _self, module: module.to("meta"))
    monkeypatch.setattr(compiled_model.Engine, "compiled", compiled)
    with pytest.raises(SystemExit):
        main(["profile", "mlp", "--set", "widths=16-16", "--device", "cuda"])
    assert asked == [("triton", "meta", "meta")]


def test_for_machines_the_summaries_lie_beside_the_nodes(capsys, measured):
    with pytest.raises(SystemExit):
        main([*PROFILE, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["beside"]["summaries"] == [store.to_json(line) for line in LINES]
    assert answer["nodes"]


def test_what_a_model_prints_is_no_part_of_the_answer(capfd, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import os\nimport torch\n\n\ndef chatty():\n    print('hello')\n    os.write(1, b'raw')\n"
        "    return torch.nn.Linear(4, 4).eval(), (torch.randn(2, 4),)\n\n\ndef leaves():\n    raise SystemExit(0)\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(["profile", f"{tmp_path}/mine.py:chatty", "--json"])
    assert not ended.value.code
    out, err = capfd.readouterr()
    assert json.loads(out)["nodes"]
    assert "hello" in err
    assert "raw" in err
    with pytest.raises(SystemExit) as ended:
        main(["profile", f"{tmp_path}/mine.py:leaves"])
    assert ended.value.code == 2
    assert "leaves() raised SystemExit: 0" in capfd.readouterr().err


@pytest.fixture
def recorded(monkeypatch, tmp_path):
    """Reads the run that the command has stored; roofs are not measured."""
    monkeypatch.setattr(profile.roofs, "measure", lambda: Roofs((), 0.0))

    def read():
        (path,) = store.all_run_files(tmp_path / "results")
        return store.read(path)

    return read


def test_the_launches_are_stored_as_a_run_if_that_is_asked_for(capsys, recorded, tmp_path):
    results = str(tmp_path / "results")
    asked = ["--set", "widths=16-16", "--threads", "2", "--backend", "engine[disable=fuse_gelu]", "--results", results]
    with pytest.raises(SystemExit) as ended:
        main(["profile", "mlp", *asked, "--record", "--json"])
    assert not ended.value.code
    answer, run = json.loads(capsys.readouterr().out), recorded()
    assert answer["stored"] == str(run.path)
    assert run.environment.suite == "nodes_mlp"
    assert run.environment.role("engine[disable=fuse_gelu]") == "engine"
    assert len(run.records) == len(answer["nodes"]) > 0
    for index, (line, node) in enumerate(zip(run.of(NodeRecord), answer["nodes"], strict=True)):
        assert (line.case, line.backend, line.index) == (
            "mlp/b1/t2/fp32/widths=16-16", "engine[disable=fuse_gelu]", index,
        )  # fmt: skip
        own = {"case", "backend", "index", "kind", "peak_flops", "bandwidth"}
        assert line.model_dump(exclude=own) == {name: node[name] for name in line.model_dump(exclude=own)}
        assert (line.peak_flops, line.bandwidth) == (answer["peak_flops"], answer["bandwidth"])


def test_the_launches_are_a_run_of_their_own_beside_that_of_other_backends(capsys, measured, recorded, tmp_path):
    with pytest.raises(SystemExit):
        main([*PROFILE, "--record", "--results", str(tmp_path / "results")])
    assert len(measured) == 1
    run = recorded()
    assert run.of(NodeRecord)
    assert f"stored: {run.path}" in capsys.readouterr().out


def test_nothing_is_stored_unless_it_is_asked_for(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["profile", "mlp", "--set", "widths=16-16"])
    assert not ended.value.code
    assert not (tmp_path / "results").exists()


def test_more_threads_than_processors_are_told(capsys, measured, monkeypatch):
    monkeypatch.setattr(profile, "count_processors", lambda: 1)
    for threads, told in (("1", False), ("2", True)):
        with pytest.raises(SystemExit):
            main([*PROFILE, "--threads", threads])
        out, err = capsys.readouterr()
        assert ("--threads 2: this process may use 1 processor, so use at most" in err) == told
        assert "may use" not in out
