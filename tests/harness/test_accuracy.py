"""Accuracy on data: scores against formulas of their own, and a command from end to end on small models."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from suites import models
from suites.accuracy import datasets, estimates, evaluate, sensitivity, tables
from suites.accuracy.tasks import ClassTask, LanguageTask, OutputTask, Part, SimilarityTask
from suites.cli import main
from suites.harness.declare.case import BackendRef
from tests import forked


@pytest.fixture(autouse=True)
def _forked_backends(request, monkeypatch):
    """Backends run in processes that are forked from a prepared one, as workers are (tests/forked.py)."""
    if request.node.get_closest_marker("real_workers") is None:
        monkeypatch.setattr(evaluate.multiprocessing, "get_context", lambda _method: forked._CONTEXT)


@pytest.fixture
def random():
    return torch.Generator().manual_seed(0)


def language_scores(logits, exact, ids):
    """What `LanguageTask` must find, text by text, from scipy's definitions."""
    p, q = (torch.softmax(one[0].double(), -1).numpy() for one in (exact, logits))
    loss = [-np.log(q[n, ids[0, n + 1]]) for n in range(len(q) - 1)]
    return np.mean(loss), stats.entropy(p, q, axis=-1).mean(), (p.argmax(-1) == q.argmax(-1)).mean()


def test_scores_of_language_models_follow_their_definitions(random):
    task = LanguageTask("text", "3 texts")
    exact = [torch.randn(1, 9, 17, generator=random) for _ in range(3)]
    near = [one + 0.3 * torch.randn(1, 9, 17, generator=random) for one in exact]
    ids = [torch.randint(0, 17, (1, 9), generator=random) for _ in range(3)]
    mine = evaluate.join([task.score(n, (i,), a, b) for n, (i, a, b) in enumerate(zip(ids, near, exact, strict=True))])
    base = evaluate.join([task.score(n, (i,), b, b) for n, (i, b) in enumerate(zip(ids, exact, strict=True))])
    expected = np.array([language_scores(a, b, i) for i, a, b in zip(ids, near, exact, strict=True)])
    found = task.summarise(mine, base)
    before = np.array([language_scores(b, b, i)[0] for i, b in zip(ids, exact, strict=True)])
    assert found["perplexity"].value == pytest.approx(np.exp(expected[:, 0].mean()))
    assert found["change"].value == pytest.approx(np.exp((expected[:, 0] - before).mean()) - 1)
    assert found["KL"].value == pytest.approx(expected[:, 1].mean())
    assert found["agreement"].value == pytest.approx(expected[:, 2].mean())
    assert task.summarise(base, base)["KL"].value == 0
    assert list(found) == [column.name for column in task.columns]


def test_the_perplexity_of_equal_probabilities_is_the_vocabulary():
    task = LanguageTask("text", "1 text")
    logits, ids = torch.zeros(1, 6, 50), torch.arange(6)[None]
    found = task.summarise(scores := task.score(0, (ids,), logits, logits), scores)
    assert found["perplexity"].value == pytest.approx(50)
    assert found["perplexity"].low is None  # one text says nothing about others


def test_scores_of_pictures_count_right_classes_and_agreement():
    task = ClassTask("pictures", "4 pictures", (0, 1, 1, 2))
    exact = torch.eye(3)[[0, 1, 2, 2]]  # the third is wrong
    mine = torch.eye(3)[[0, 2, 1, 2]]
    chunks = [(n, (torch.zeros(2, 1),), mine[2 * n : 2 * n + 2], exact[2 * n : 2 * n + 2]) for n in range(2)]
    found = task.summarise(
        evaluate.join([task.score(*one) for one in chunks]),
        evaluate.join([task.score(n, inputs, right, right) for n, inputs, _, right in chunks]),
    )
    assert (found["accuracy"].value, found["change"].value, found["agreement"].value) == (0.75, 0.0, 0.5)


def test_correlations_are_those_of_scipy():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(12, 5))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity, judged = rng.uniform(size=(6, 6)), np.array([3.0, 1.0, 1.0, 2.0])
    similarity = (similarity + similarity.T) / 2
    pairs = ((0, 1), (2, 3), (4, 5), (0, 5))
    task = SimilarityTask("texts", "6", 6, tuple(map(tuple, similarity)), pairs, tuple(judged))
    tensor = torch.from_numpy(vectors)
    found = task.summarise(scores := task.score(0, (), tensor, tensor), scores)
    upper = np.triu_indices(6, 1)
    cosines = vectors[:6] @ vectors[:6].T
    words = [vectors[6 + a] @ vectors[6 + b] for a, b in pairs]
    assert found["Pearson"].value == pytest.approx(stats.pearsonr(cosines[upper], similarity[upper])[0])
    assert found["Spearman"].value == pytest.approx(stats.spearmanr(words, judged)[0])
    assert found["change"].value == found["change"].high == 0
    assert found["Pearson"].low < found["Pearson"].value < found["Pearson"].high


def test_errors_of_outputs():
    task = OutputTask("inputs", "1 call")
    exact, mine = torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 3.0]])
    found = task.summarise(scores := task.score(0, (), mine, exact), scores)
    assert found["error"].value == pytest.approx(1 / 5)
    assert found["cosine"].value == pytest.approx(21 / (5 * 18**0.5))
    assert found["max error"].value == pytest.approx(1 / 4)
    assert found["agreement"].value == 0


def test_an_interval_of_a_mean_is_that_of_the_normal_distribution():
    """For many items both agree; the bootstrap's own noise is about 5% of the width."""
    items = np.random.default_rng(1).normal(2.0, 1.0, 2000)
    found = estimates.mean(items)
    error = items.std(ddof=1) / 2000**0.5
    assert found.error == pytest.approx(error, rel=0.08)
    assert found.low == pytest.approx(items.mean() - 1.96 * error, abs=0.2 * error)
    assert found.high == pytest.approx(items.mean() + 1.96 * error, abs=0.2 * error)
    assert estimates.mean(items) == found  # the same in every run


def call(*arguments):
    """The exit code of the command."""
    with pytest.raises(SystemExit) as done:
        main(list(arguments))
    return done.value.code or 0


def subject(label, precision):
    return evaluate.Subject(BackendRef.parse(label), precision)


def test_rows_of_backends_in_processes_of_their_own():
    """Each row has the error that this process computes itself; what cannot run says why."""
    data = datasets.read("mlp", {"batch": 2}, 3)
    asked = [("eager", "bf16"), ("engine", "int8_weight"), ("eager", "int8_weight"), ("engine[isa=avx]", "fp32")]
    rows = list(evaluate.evaluate("mlp", data, [subject(*one) for one in asked], 1, lambda _line: None))
    assert [row.status for row in rows] == ["ok", "ok", "ok", "unavailable", "failed"]
    assert rows[0].estimates["error"].value == 0
    model, _ = models.get("mlp").build(batch=2)
    with torch.inference_mode():
        exact = [model(*one).double() for one in data.parts[0].chunks]
        rounded = model.bfloat16()
        errors = [
            float((rounded(one[0].bfloat16()).double() - right).norm() / right.norm())
            for one, right in zip(data.parts[0].chunks, exact, strict=True)
        ]
    assert rows[1].estimates["error"].value == pytest.approx(np.mean(errors))
    assert 0 < rows[2].estimates["error"].value < 0.05  # 8 bits
    assert rows[2].weight_bytes < rows[0].weight_bytes / 3
    assert "does fp32" in rows[3].reason
    assert "avx" in rows[4].reason


class Damaged(nn.Module):
    """Layers of which the second has an outlier in every row, so that 8 bits leave nothing of its other weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(32, 32) for _ in range(4)])
        with torch.no_grad():
            self.layers[1].weight[:, 5] = 1e3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, 32] -> [B, 32]; the fifth feature of each input is 0."""
        for layer in self.layers:
            x = torch.tanh(layer(x * torch.cat([torch.ones(5), torch.zeros(1), torch.ones(26)])))
        return x


def test_a_damaged_layer_ranks_first(monkeypatch):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Damaged().eval().requires_grad_(requires_grad=False)
        inputs = [(torch.randn(4, 32),) for _ in range(3)]
    monkeypatch.setattr(models, "get", lambda _name: type("Spec", (), {"build": lambda _s, **_k: (model, inputs[0])})())
    data = datasets.Dataset(OutputTask("inputs", "3 calls"), [Part({}, inputs)])
    found = sensitivity.measure("damaged", data, "int8_weight", 1, lambda _line: None)
    assert found.measure == "1 - cosine"
    assert found.layers[0].layer == "layers.1"
    others = [one.alone.value for one in found.layers[1:]]
    assert len(others) == 3
    assert found.layers[0].alone.value > 100 * max(others)
    assert found.layers[0].without.value < found.whole.value / 100
    assert min(one.without.value for one in found.layers[1:]) > found.whole.value / 2


class NotFinite(nn.Module):
    """A NaN in every output of a class."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, 3] -> [B, 4]."""
        return x @ self.weight.T


def factory(largest="nan"):
    """As `enginebench` builds a model of a file."""
    weight = torch.ones(4, 3)
    weight[0, 0] = float(largest)
    return NotFinite(weight).eval(), (torch.full((2, 3), 3e4),)


def test_outputs_that_are_not_finite_are_no_scores(capsys):
    """NaN in float32: no row has a score. Infinities of float16 alone: that row has none."""
    assert call("accuracy", f"{__file__}:factory", "--precision", "bf16", "--json") == 1
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["status"], row["estimates"]) for row in rows] == [("failed", {})] * 2
    assert all(row["reason"].endswith("it returns numbers that are not finite") for row in rows)
    halves = ["--precision", "fp16", "--backends", "eager", "--json"]
    assert call("accuracy", f"{__file__}:large_halves", *halves) == 1
    exact, half = json.loads(capsys.readouterr().out)["rows"]
    assert exact["status"] == "ok"
    assert half["reason"] == "it returns numbers that are not finite"


def large_halves():
    return factory("1")


class TwoHeads(torch.nn.Module):
    """Indices, a copy of the input, and a linear, whose weight alone can be quantised."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 8)

    def forward(self, x):
        y = self.linear(x)
        return y.argmax(-1), x * 2, y


def two_heads():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return TwoHeads().eval(), (torch.randn(2, 32),)


def test_the_worst_of_several_outputs_is_scored(capsys):
    """Only the last one differs in 8 bits. Indices are no numbers to compare."""
    assert call("accuracy", f"{__file__}:two_heads", "--precision", "int8_weight", "--chunks", "2", "--json") == 0
    base, row = json.loads(capsys.readouterr().out)["rows"]
    assert base["estimates"]["error"]["value"] == 0
    model, (x,) = two_heads()
    weight = model.linear.weight.detach()
    scale = weight.abs().amax(1, keepdim=True) / 127
    exact, rounded = model(x)[2].detach(), x @ ((weight / scale).round() * scale).T + model.linear.bias.detach()
    expected = float((rounded - exact).norm() / exact.norm())
    assert row["estimates"]["error"]["value"] == pytest.approx(expected, rel=0.5)  # of another input
    assert call("accuracy", f"{__file__}:two_heads", "--sensitivity", "int8_weight", "--chunks", "2", "--json") == 0
    (layer,) = json.loads(capsys.readouterr().out)["layers"]
    assert layer["alone"]["value"] > 0


def test_scores_of_several_outputs_are_those_of_the_worst():
    task, exact = OutputTask("inputs", "1 call"), torch.tensor([[3.0, 4.0]])
    outputs = [exact, torch.tensor([[3.0, 3.0]]), torch.tensor([[2.9, 4.0]])]
    both, worst = task.score_outputs(0, (), outputs, [exact] * 3), task.score(0, (), outputs[1], exact)
    assert both == worst


def upsampling():
    return torch.nn.Sequential(torch.nn.ConvTranspose2d(2, 3, 2), torch.nn.Conv2d(3, 2, 2)).eval(), (
        torch.ones(1, 2, 4, 4),
    )


def test_the_only_layer_of_a_model_has_the_error_of_all(capsys):
    asked = ["mlp", "--set", "widths=16-16", "--sensitivity", "int8_weight", "--chunks", "1", "--json"]
    assert call("accuracy", *asked) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [one["alone"]["value"] for one in answer["layers"]] == [answer["whole"]["value"]]
    assert [one["without"]["value"] for one in answer["layers"]] == [0]


def test_a_layer_without_lower_precision_has_no_sensitivity(capsys):
    assert call("accuracy", f"{__file__}:upsampling", "--sensitivity", "int8_weight", "--chunks", "1", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert ([one["layer"] for one in answer["layers"]], answer["plain"]) == (["1"], ["0"])


def raising():
    return torch.nn.Linear(4, 3).eval(), (torch.ones(2, 5),)


class Empty(torch.nn.Module):
    def forward(self, x):
        del x
        return ()


def empty():
    return Empty(), (torch.ones(2),)


def zero():
    return torch.nn.Linear(8, 4).eval(), (torch.ones(0, 8),)


class Branching(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x) if x.sum() > 0 else x


def branching():
    return Branching().eval(), (torch.ones(2, 4),)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raising", "RuntimeError: mat1 and mat2 shapes"),
        ("empty", "it returns no floating-point numbers to compare"),
        ("zero", "it returns no floating-point numbers to compare"),
    ],
)
def test_a_float32_model_that_fails_is_the_reason_of_all_rows(name, reason, capsys):
    assert call("accuracy", f"{__file__}:{name}", "--precision", "int8_weight", "--chunks", "1", "--json") == 1
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["status"] for row in rows] == ["failed"] * 2
    assert all(f"with which all are compared: {reason}" in row["reason"] for row in rows)


def test_a_model_that_cannot_be_captured_has_no_sensitivity(capsys):
    assert call("accuracy", f"{__file__}:branching", "--sensitivity", "int8_weight", "--chunks", "1") == 2
    err = capsys.readouterr().err
    assert "enginebench: torch.export: GuardOnDataDependentSymNode: " in err
    assert "Traceback" not in err


def test_outputs_without_elements_have_no_sensitivity(capsys):
    assert call("accuracy", f"{__file__}:zero", "--sensitivity", "int8_weight", "--chunks", "1") == 2
    err = capsys.readouterr().err
    assert "the engine's program: it returns no floating-point numbers to compare" in err
    assert "Traceback" not in err


@pytest.mark.real_workers
def test_a_saved_program_is_not_rounded(capsys, tmp_path):
    path = tmp_path / "saved.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(4, 3).eval(), (torch.ones(2, 4),)), path)
    assert call("accuracy", str(path), "--precision", "fp32,bf16", "--chunks", "1", "--json") == 0
    (*others, row) = json.loads(capsys.readouterr().out)["rows"]
    assert {one["status"] for one in others} == {"ok"}
    assert row["status"] == "unavailable"
    assert "keeps the element types that it was saved with" in row["reason"]


def test_rows_without_numbers_have_their_status_and_their_reason():
    def row(backend, precision, status, reason):
        found = {"error": estimates.Estimate(0.1)} if status == "ok" else {}
        return evaluate.Row(backend, precision, status, reason, None, found)

    rows = [row("eager", "fp32", "ok", None), row("engine", "fp32", "failed", "no")]
    rows.append(row("ao", "bf16", "unavailable", "ao does int8"))
    task = OutputTask("inputs", "3 calls")
    assert [(line["backend"], line["precision"], line["error"]) for line in tables.tabulate(task, rows)] == [
        ("eager", "fp32", "1.0e-01"),
        ("engine", "fp32", "failed"),
        ("ao", "bf16", "unavailable"),
    ]
    assert tables.describe(task, "mlp", rows)[:2] == ["engine, fp32: failed: no", "ao, bf16: unavailable: ao does int8"]


def test_a_model_without_layers_has_no_sensitivity(capsys, tmp_path):
    path = tmp_path / "plain.py"
    path.write_text("import torch\ndef factory():\n    return torch.nn.ReLU(), (torch.ones(2),)\n")
    assert call("accuracy", f"{path}:factory", "--sensitivity", "int8_weight") == 2
    assert "no layer has a weight whose precision can be chosen" in capsys.readouterr().err


@pytest.fixture
def scored_once(monkeypatch):
    """Scores equal subjects once, for tests that ask for them again in another form."""
    score, kept = evaluate.evaluate, {}

    def score_or_repeat(model, dataset, subjects, *rest):
        key = repr((model, subjects))
        if key not in kept:
            kept[key] = list(score(model, dataset, subjects, *rest))
        return iter(kept[key])

    monkeypatch.setattr(evaluate, "evaluate", score_or_repeat)
    return kept


def test_the_command_prints_tables_and_json(capsys, scored_once, tmp_path):
    recipe = tmp_path / "first.toml"
    recipe.write_text('[layers]\n"*" = "int8_weight"\n')
    asked = ["accuracy", "mlp", "--precision", "int8_weight", "--recipe", str(recipe), "--chunks", "2"]
    assert call(*asked) == 0
    out = capsys.readouterr().out
    assert "first.toml" in out
    assert "mlp on random inputs of the model, 2 calls" in out
    assert call(*asked, "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["backend"], row["precision"]) for row in rows] == [
        ("eager", "fp32"), ("engine", "int8_weight"), ("engine[recipe=first.toml]", "fp32"),
    ]  # fmt: skip
    assert rows[2]["estimates"] == rows[1]["estimates"]  # the recipe names every layer
    assert len(scored_once) == 1


def test_the_command_ranks_layers(capsys):
    asked = ["accuracy", "mlp", "--sensitivity", "int8_weight", "--chunks", "2", "--json"]
    assert call(*asked) == 0
    found = json.loads(capsys.readouterr().out)
    values = [one["alone"]["value"] for one in found["layers"]]
    assert values == sorted(values, reverse=True)


MISTAKES = {
    "precision": (["mlp", "--precision", "int9"], "unknown precision 'int9'"),
    "backend": (["mlp", "--backends", "eagre"], "did you mean 'eager'"),
    "model": (["mlq"], "did you mean 'mlp'"),
    "sensitivity": (["mlp", "--sensitivity", "int9"], "unknown precision 'int9'"),
    "precision that layers have": (
        ["mlp", "--sensitivity", "fp32"],
        "layers are compared with fp32",
    ),
    "backends of layers": (
        ["mlp", "--sensitivity", "bf16", "--backends", "eager"],
        "so --backends has no effect",
    ),
    "phase": (["gpt2-tiny", "--set", "phase=decode"], "--set phase: the accuracy of gpt2-tiny is that of its data"),
    "sizes of data": (["minilm", "--set", "batch=4"], "--set batch: the accuracy of minilm is that of its data"),
    "recipe": (["mlp", "--recipe", "none.toml"], "No such file"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_told_in_one_line(arguments, message, capsys):
    assert call("accuracy", *arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_data_that_was_not_fetched_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert call("accuracy", "minilm") == 2
    assert "run enginebench data fetch similarity" in capsys.readouterr().err


def test_ctrl_c_ends_the_process_of_a_backend_without_a_traceback(tmp_path):
    (tmp_path / "slow.py").write_text(
        textwrap.dedent("""
            import multiprocessing, pathlib, time

            class Request:
                pass

            if multiprocessing.current_process().name != "MainProcess":  # a backend that takes long
                pathlib.Path(__file__).with_name("started").touch()
                time.sleep(600)
        """)
    )
    (tmp_path / "main.py").write_text(
        textwrap.dedent("""
            import signal

            signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it

            if __name__ == "__main__":
                import slow
                from suites.accuracy import evaluate
                evaluate._run_apart(slow.Request())
        """)
    )
    with subprocess.Popen(
        [sys.executable, "main.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while not (tmp_path / "started").exists():
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        try:
            _, errors = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == -signal.SIGINT
    assert errors.count("KeyboardInterrupt") == 1, errors  # its own; the command line hides it
