"""What `enginebench run MODEL` measures, and the sentence that it ends with."""

from __future__ import annotations

import json

import pytest

from engine.processors import count_processors
from suites.cli import main
from suites.harness.declare.case import BackendRef, Case
from suites.harness.judge import stats
from suites.harness.judge.machine_noise import MachineNoise
from suites.harness.judge.summary import Question, summarise
from suites.harness.present import answer, names
from suites.harness.record.schema import Compared, Error, Speed
from tests.harness import records


def row(backend, seconds, threads=1, runner_up=None, **fields):
    case = fields.pop("case", f"mlp/b1/t{threads}/fp32")
    return records.summary(
        case=case, backend=backend, threads=threads, latency=stats.latency([[[seconds]]]), runner_up=runner_up, **fields
    )


def over(backend, verdict="faster"):
    return Compared(backend=backend, speed=Speed(1.25, 1 / 0.9, 1 / 0.75), verdict=verdict)


def test_one_case_is_one_sentence_with_lead_interval_and_certainty():
    rows = [row("engine", 0.8, runner_up=over("openvino")), row("openvino", 1.0), row("eager", 2.0)]
    assert answer.write_answer(rows) == "Fastest: engine, 1.25x as fast as openvino [1.11, 1.33], beyond noise."


def bf16_row(seconds, threads=1, relative=4e-3, **fields):
    error = Error(relative=relative, max_abs=1e-3, tolerance=1e-2)
    return row("engine[precision=bf16]", seconds, threads, error=error, **fields)


def test_a_row_of_another_precision_than_its_case_is_told_with_its_error():
    rows = [bf16_row(0.8, runner_up=over("openvino")), row("openvino", 1.0), row("engine", 1.2)]
    assert answer.write_answer(rows) == (
        "Fastest: engine[precision=bf16], 1.25x as fast as openvino [1.11, 1.33], beyond noise. engine[precision=bf16] "
        "stores layers in bf16, and the case is fp32: its largest relative error is 4.0e-03."
    )
    second = [row("openvino", 0.8, runner_up=over("engine[precision=bf16]")), bf16_row(1.0, relative=5e-3)]
    assert answer.write_answer(second).endswith("the case is fp32: its largest relative error is 5.0e-03.")
    own = row("engine[precision=bf16]", 0.8, case="mlp/b1/t1/bf16", precision="bf16", runner_up=over("openvino"))
    other = row("openvino", 1.0, case="mlp/b1/t1/bf16", precision="bf16")
    assert "stores" not in answer.write_answer([own, other]), "the precision is that of the case"


def test_of_many_cases_the_largest_error_of_another_precision_is_told_once():
    rows = []
    for threads in range(1, 5):
        rows += [bf16_row(0.8, threads, relative=1e-3 * threads, runner_up=over("eager")), row("eager", 1.0, threads)]
    assert answer.write_answer(rows).endswith(
        "engine[precision=bf16] stores layers in bf16, and the cases are fp32: its largest relative error is 4.0e-03."
    )


def test_a_row_with_a_recipe_is_told_with_its_error():
    mixed = row("engine[recipe=layers.toml]", 0.8)
    assert "stores layers as layers.toml says, and the case is fp32: its largest" in answer.write_answer([mixed])


def test_a_lead_from_disturbed_times_is_not_told_as_certain():
    rows = [row("engine", 0.8, runner_up=over("openvino"), disturbed=0.9), row("openvino", 1.0)]
    assert answer.write_answer(rows).endswith(
        "beyond noise of this run, but its times are noisy or were disturbed: run it again on an idle machine."
    )


@pytest.mark.parametrize(
    ("doubtful", "end"),
    [
        ({1, 2, 3}, "All these times are noisy or were disturbed: run them again on an idle machine."),
        (
            {1, 3},
            "The times at 1 thread and at 3 threads are noisy or were disturbed: run them again on an idle machine.",
        ),
        ({3}, "of this run, but its times are noisy or were disturbed: run it again on an idle machine."),
    ],
)
def test_disturbed_times_of_several_cases_are_told_once(doubtful, end):
    rows = []
    for threads in (1, 2, 3):
        share = 0.9 if threads in doubtful else 0.0
        rows += [row("engine", 0.8, threads, over("openvino"), disturbed=share), row("openvino", 1.0, threads)]
    found = answer.write_answer(rows)
    assert found.count("idle machine") == 1
    assert found.endswith(end)
    assert found.count("beyond noise of this run") == len(doubtful)


def test_a_competitor_that_is_the_fastest_is_named():
    rows = [row("engine", 1.0), row("openvino", 0.8, runner_up=over("engine"))]
    assert answer.write_answer(rows).startswith("Fastest: openvino, 1.25x as fast as engine")


def test_a_lead_that_paired_rounds_do_not_confirm_says_both_orders():
    reverse = Compared(backend="eager", speed=Speed(0.8, 0.25, 2.0), verdict="unclear")
    rows = [row("engine", 0.95, runner_up=reverse), row("eager", 1.0)]
    assert answer.write_answer(rows).startswith(
        "Fastest: engine by median latency, but 0.80x as fast as eager in paired rounds [0.25, 2.00], within noise."
    )


def test_what_is_not_sure_says_how_to_become_surer():
    rows = [
        row("engine", 0.8, 1, over("openvino")),
        row("openvino", 1.0, 1),
        row("engine", 1.0, 2),
        row("openvino", 0.8, 2, over("engine", "unclear")),
    ]
    found = answer.write_answer(rows)
    assert "engine at 1 thread, 1.25x as fast as openvino [1.11, 1.33], beyond noise; openvino at 2 threads" in found
    assert "[1.11, 1.33], within noise. " in found
    assert found.endswith(answer.HINT)


def test_of_many_cases_it_is_counted_who_is_the_fastest_how_often():
    rows = []
    for threads in range(1, 5):
        rows += [row("engine", 0.8, threads, over("eager")), row("eager", 1.0, threads)]
    rows += [row("eager", 0.8, 5, over("engine", "same")), row("engine", 1.0, 5)]
    found = answer.write_answer(rows)
    assert "engine in 4 of 5 cases, beyond noise in 4; eager in 1 of 5 cases, beyond noise in 0." in found


def test_cases_without_a_time_are_counted():
    failed = {"status": "failed", "reason": "no"}
    assert answer.write_answer([records.summary(**failed)]) == "No backend has a time."
    rows = [row("engine", 0.8), records.summary(case="mlp/b2/t1/fp32", shape={"batch": 2}, **failed)]
    found = answer.write_answer(rows)
    assert "the only backend with a time" in found
    assert "No backend has a time in 1 other case." in found


def test_cases_are_told_apart_by_what_differs_between_them():
    rows = [
        records.summary(case="1", shape={"batch": 1, "sequence": 16}),
        records.summary(case="2", shape={"batch": 1, "sequence": 32}, threads=2),
        records.summary(case="3", shape={"batch": 1, "sequence": 32}, threads=2, precision="bf16"),
    ]
    assert list(names.describe_differences(rows).values()) == [
        "with sequence 16, fp32 at 1 thread",
        "with sequence 32, fp32 at 2 threads",
        "with sequence 32, bf16 at 2 threads",
    ]
    assert names.describe_differences(rows[:1]) == {"1": ""}


def test_the_fastest_row_is_compared_with_the_fastest_of_another_backend():
    def lines(backend, seconds):
        return [
            records.samples(backend=backend, generation=number, seconds=[[seconds]] * 3, inner=1) for number in (0, 1)
        ]

    labels = {"eager": 4.0, "eager#2": 4.0, "onnxruntime": 2.0, "onnxruntime[level=basic]": 1.0, "engine": 3.0}
    found = summarise(
        Question(Case("mlp", {"batch": 1}), [BackendRef.parse(label) for label in labels], "eager", 0.02),
        [line for label, seconds in labels.items() for line in lines(label, seconds)],
        MachineNoise(),
    )
    (first,) = [one for one in found if one.runner_up is not None]
    assert (first.backend, first.runner_up.backend) == ("onnxruntime[level=basic]", "engine"), "not a form of itself"
    assert first.runner_up.speed.value == pytest.approx(3.0)


# --- what is measured -------------------------------------------------------------------


@pytest.fixture
def planned(capsys, tmp_path, monkeypatch):
    factory = "def make(width=8, depth=1):\n    return torch.nn.Linear(width, width), torch.randn(2, width)\n"
    (tmp_path / "mine.py").write_text(f"import torch\n\n\n{factory}")
    monkeypatch.chdir(tmp_path)

    def plan(*arguments):
        """The case ids, and what was said on standard error."""
        with pytest.raises(SystemExit) as ended:
            main(["run", *arguments, "--dry-run", "--json", "--results", str(tmp_path)])
        out, err = capsys.readouterr()
        assert not ended.value.code, err
        return list(json.loads(out)[0]["cases"]), err

    return plan


def test_a_model_is_measured_at_one_thread_and_at_all(planned):
    counts = sorted({1, count_processors()})
    assert planned("minilm")[0] == [f"minilm/b1_s32/t{threads}/fp32" for threads in counts]
    assert planned("mine.py:make")[0] == [f"mine.py:make/default/t{threads}/fp32" for threads in counts]


def test_sizes_threads_and_precisions_are_swept(planned):
    found, _ = planned("minilm", "--set", "sequence=16,32", "--threads", "1", "--precision", "fp32,bf16")
    assert found == [f"minilm/b1_s{length}/t1/{precision}" for length in (16, 32) for precision in ("fp32", "bf16")]
    found, _ = planned("mine.py:make", "--set", "depth=2", "--set", "width=16,32,64", "--threads", "1")
    assert found == [f"mine.py:make/default/t1/fp32/depth=2/width={width}" for width in (16, 32, 64)]


def test_forms_of_one_backend_are_compared_with_each_other_where_there_is_no_other_backend():
    labels = {"engine[plans=2]": 1.0, "engine[plans=2]#2": 1.0, "engine[plans=3]": 2.0}
    found = summarise(
        Question(Case("mlp", {"batch": 1}), [BackendRef.parse(label) for label in labels], "engine[plans=2]", 0.02),
        [
            records.samples(backend=label, generation=number, seconds=[[seconds]] * 3, inner=1)
            for label, seconds in labels.items()
            for number in (0, 1)
        ],
        MachineNoise(),
    )
    (first,) = [one for one in found if one.runner_up is not None]
    assert (first.backend, first.runner_up.backend) == ("engine[plans=2]", "engine[plans=3]")
    assert first.runner_up.speed.value == pytest.approx(2.0)
    assert answer.write_answer(found).startswith("Fastest: engine[plans=2], 2.00x as fast as engine[plans=3] [")
