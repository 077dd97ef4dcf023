"""Accuracy in the records of runs: what is scored, that it goes on where it stopped, and the table beside times."""

from __future__ import annotations

import json
import math

import pytest
import torch

from suites import models
from suites.accuracy import evaluate, scoring, tables, tradeoff
from suites.accuracy.tasks import TASKS
from suites.cli import run
from suites.harness.declare import spec
from suites.harness.record import store
from suites.harness.record.invocation import Invocation
from suites.harness.record.schema import AccuracyRecord, Latency, Score, Speed
from suites.harness.run import plan, runner
from suites.harness.run.reporter import Reporter
from tests import forked
from tests.harness import records
from tests.harness.commands import call

SUITE = """
name = "scored"
rounds = 3
samples_per_round = 1
generation_budget_s = 0.1
backends = ["eager", "engine", "engine[disable=fuse_gelu]", "openvino"]
baseline = "engine"
precision = ["fp32", "int8_weight"]
accuracy = true
[[models]]
name = "mlp"
shape = { batch = [2, 3] }
threads = 1
"""


@pytest.fixture(autouse=True)
def _forked_backends(monkeypatch):
    """Backends are scored in processes that are forked from a prepared one, as workers are (tests/forked.py)."""
    monkeypatch.setattr(evaluate.multiprocessing, "get_context", lambda _method: forked._CONTEXT)


@pytest.fixture
def made(tmp_path):
    """A plan, and a finished run of it in which the engine is wrong in one precision of one batch."""
    asked = plan.make(spec.parse(SUITE, "scored.toml"), backends=["eager", "engine"])
    path = tmp_path / "a.jsonl"
    lines = [
        records.summary(
            case=case.id, shape=dict(case.shape), precision=case.precision, backend=ref.label,
            status="wrong" if (case.shape["batch"], case.precision, ref.name) == (2, "int8_weight", "engine")
            else "unavailable" if (case.precision, ref.name) == ("int8_weight", "eager") else "ok",
        )
        for case, refs in asked.cases for ref in refs
    ]  # fmt: skip
    with store.Writer(path) as writer:
        writer.append(records.environment(plan={"baseline": "engine"}), *lines)
    return asked, path


def test_each_backend_is_scored_once_a_precision_if_it_was_right_in_some_case(made):
    asked, path = made
    (group,) = scoring.list_groups(asked, store.read(path))
    assert group.shape == {"batch": 2}
    assert [(one.ref.label, one.precision) for one in group.subjects] == [
        ("engine", "fp32"), ("engine", "int8_weight"),
    ]  # fmt: skip


def test_scores_are_those_of_the_outputs_and_an_interrupted_scoring_goes_on_behind_them(made):
    asked, path = made
    found = scoring.score(asked, path, Reporter())
    assert store.read(path).of(AccuracyRecord) == found
    assert [(one.backend, one.precision, one.status) for one in found] == [
        ("eager", "fp32", "ok"), ("engine", "fp32", "ok"), ("engine", "int8_weight", "ok"),
    ]  # fmt: skip
    model, _ = models.get("mlp").build(batch=2)
    inputs = [models.get("mlp").inputs(seed, batch=2) for seed in range(8)]
    with torch.inference_mode():
        exact = [model(*one).double() for one in inputs]
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                scale = module.weight.abs().amax(1, keepdim=True) / 127
                module.weight.copy_(torch.round(module.weight / scale) * scale)
        errors = [
            float((model(*one).double() - right).norm() / right.norm())
            for one, right in zip(inputs, exact, strict=True)
        ]
    assert found[2].scores["error"].value == pytest.approx(sum(errors) / 8, rel=1e-3)
    assert found[2].weight_bytes < found[1].weight_bytes / 3
    assert not scoring.list_groups(asked, store.read(path))
    whole = path.read_text()
    assert scoring.score(asked, path, Reporter()) == found
    assert path.read_text() == whole
    path.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    assert scoring.list_groups(asked, store.read(path))
    again = scoring.score(asked, path, Reporter())
    assert [(one.backend, one.precision, one.scores) for one in again] == [
        (one.backend, one.precision, one.scores) for one in found
    ]


def test_data_that_is_missing_is_told_before_anything_is_timed(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = plan.make(spec.parse(SUITE.replace("mlp", "minilm").replace("[2, 3]", "1"), "scored.toml"))
    assert scoring.list_missing_data(asked) == ["minilm: run enginebench data fetch similarity"]


def entry(backend, precision, seconds, cosine=None, **fields):
    """A row, and its line of accuracy."""
    row = records.summary(
        case=f"mlp/b1/t1/{precision}", backend=backend, precision=precision, baseline="engine",
        latency=Latency(p50=seconds, p90=seconds, p99=seconds, min=seconds, n=9), **fields,
    )  # fmt: skip
    cosine = {} if cosine is None else {"cosine": Score(value=cosine)}
    scores = {**cosine, "error": Score(value=0.01, low=0.005, high=0.02)}
    line = AccuracyRecord(
        model="mlp", precision=precision, backend=backend, status="ok", task="outputs", data="random inputs",
        items="8 calls", scores=scores,
    )  # fmt: skip
    return row, line


def test_the_table_has_speeds_across_precisions_and_marks_rows_that_none_beats():
    made = [
        entry("engine", "fp32", 4.0, 1.0, weight_bytes=400),
        entry("eager", "fp32", 6.0, 1.0, speed=Speed(0.67, 0.62, 0.71)),
        entry("engine", "bf16", 2.0, 0.9999, weight_bytes=200),
        entry("eager", "bf16", 3.0, 0.999),
        entry("engine", "int8_weight", 1.0, 0.99, weight_bytes=100),
    ]
    seconds = {"engine/fp32": (4.0, 4.4), "eager/bf16": (3.0, 3.3), "engine/bf16": (2.0, 2.2)}
    samples = [
        records.samples(
            case=f"mlp/b1/t1/{name.partition('/')[2]}", backend=name.partition("/")[0], generation=number,
            seconds=[[value, value * 1.001, value / 1.001]],
        )
        for name, values in seconds.items() for number, value in enumerate(values)
    ]  # fmt: skip
    rows, lines = zip(*made, strict=True)
    (found,) = tradeoff.list_tradeoffs(rows, samples, lines, records.environment(plan={"baseline": "engine"}))
    by_name = {(one.summary.backend, one.summary.precision): one for one in found.entries}
    assert next(iter(by_name)) == ("engine", "int8_weight")  # the fastest first
    assert by_name["eager", "fp32"].speed == Speed(0.67, 0.62, 0.71)  # of one case: as the record has it
    assert by_name["engine", "fp32"].speed is None
    half = by_name["engine", "bf16"].speed
    assert half.value == pytest.approx(2.0)  # 4.0 / 2.0 and 4.4 / 2.2
    # Two generations and the prior of 2% with 4 degrees of freedom: t = 2.776, standard error 0.02 / sqrt(2).
    assert half.high / half.value == pytest.approx(math.exp(2.776 * 0.02 / math.sqrt(2)), rel=1e-3)
    assert by_name["engine", "int8_weight"].speed is None  # without samples nothing can be said
    assert {name for name, one in by_name.items() if one.is_front} == {
        ("engine", "int8_weight"), ("engine", "bf16"), ("engine", "fp32"),
    }  # fmt: skip
    table = tables.tabulate_tradeoff(found, is_short=True)
    assert table[1]["speed vs engine in fp32"] == "2.00x [1.92, 2.08]"
    assert table[1]["weights"] == "200 B"
    assert table[1]["error"] == "1.0e-02"
    assert tables.tabulate_tradeoff(found, is_short=False)[1]["error"] == "1.0e-02 [5.0e-03, 2.0e-02]"


def test_a_backend_with_options_stands_in_the_table_of_its_case():
    named = "engine[recipe=rec.toml]"
    rows, lines = zip(
        entry("engine", "fp32", 2.0, 1.0, switches={"planner": "in_order"}),
        entry(
            named, "fp32", 1.0, 0.999, speed=Speed(2.0, 1.7, 2.5),
            switches={"planner": "in_order", "recipe": "rec.toml"},
        ),
        entry(
            "engine[planner=no_reuse]", "fp32", 3.0, 1.0, speed=Speed(0.67, 0.62, 0.71),
            switches={"planner": "no_reuse"},
        ),
        strict=True,
    )  # fmt: skip
    environment = records.environment(plan={"baseline": "engine"})
    (found,) = tradeoff.list_tradeoffs(rows, [], lines, environment)
    assert [one.summary.backend for one in found.entries] == [named, "engine", "engine[planner=no_reuse]"]
    assert found.entries[0].distance == pytest.approx(0.001)
    other, scored = entry("engine", "bf16", 2.0, 1.0, switches={"planner": "no_reuse"})
    tables = tradeoff.list_tradeoffs([*rows, other], [], [*lines, scored], environment)
    assert [len(one.entries) for one in tables] == [3, 1], "a case with other switches has a table of its own"


def test_differences_by_the_order_of_sums_win_no_mark():
    rows, lines = zip(
        entry("engine", "fp32", 1.0, 1 - 1e-9),
        entry("eager", "fp32", 2.0, 1.0, speed=Speed(0.5, 0.5, 0.5)),
        strict=True,
    )
    (found,) = tradeoff.list_tradeoffs(rows, [], lines, records.environment(plan={"baseline": "engine"}))
    assert [one.is_front for one in found.entries] == [True, False]


def test_every_task_has_its_headline_among_its_columns():
    for task in TASKS.values():
        assert set(task.headline) <= {column.name for column in task.columns}


def test_a_run_stores_and_prints_accuracy_and_resume_adds_what_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    only = 'backends = ["engine"]\nprecision = ["int8_weight"]\n'
    text = SUITE.replace("[2, 3]", "2").partition("backends")[0] + only + "baseline" + SUITE.partition("baseline")[2]
    text = text.replace('precision = ["fp32", "int8_weight"]\n', "")
    (tmp_path / "scored.toml").write_text(text)
    status, out, _ = call(capsys, "run", "scored.toml")
    assert status == 0
    assert "mlp, batch 2, 1 thread" in out
    assert "speed vs engine in int8_weight" in out
    (path,) = (tmp_path / "results").glob("runs/*/*.jsonl")
    whole = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in whole if '"kind": "accuracy"' not in line))
    invocation = Invocation("run", ["scored.toml", "--json"])
    invocation.keep(path)  # as if the run had been interrupted before accuracy was scored
    status, out, _ = call(capsys, "run", "--resume", "last")
    assert status == 0
    (outcome,) = json.loads(out)
    assert [(one["backend"], one["precision"]) for one in outcome["accuracy"]] == [
        ("eager", "fp32"), ("engine", "int8_weight"),
    ]  # fmt: skip
    status, out, _ = call(capsys, "show", "--markdown")
    assert status == 0
    assert "| speed vs engine in int8_weight |" in out
    status, out, _ = call(capsys, "show", "--json")
    assert len(json.loads(out)["accuracy"]) == 2


def test_a_backend_that_cannot_be_scored_fails_the_run(tmp_path):
    path = tmp_path / "a.jsonl"
    _, line = entry("engine", "fp32", 1.0)
    with store.Writer(path) as writer:
        writer.append(records.environment(), line.model_copy(update={"status": "unavailable"}))
    outcome = runner.Outcome(path, records.environment(), [])
    assert run._has_scored(outcome)
    with store.Writer(path, resume=True) as writer:
        writer.append(line.model_copy(update={"status": "failed"}))
    assert not run._has_scored(outcome)
