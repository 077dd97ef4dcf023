"""The sweep of torch's samples says what is wrong, and finds nothing wrong in a few operators."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import engine
from tests.sweep import check
from tests.sweep.compare import find_difference
from tests.sweep.samples import OPERATORS, list_samples, make_sample


@pytest.mark.parametrize(
    ("operator", "dtype", "sizes"),
    [
        ("add", "float32", check.RANGE),
        ("scatter_reduce.amin", "bool", check.FIXED),
        pytest.param("cat", "int64", check.AUTO, marks=pytest.mark.long),
        ("nn.functional.layer_norm", "bfloat16", check.FIXED),
        pytest.param("sort", "int32", check.FIXED, marks=pytest.mark.long),
    ],
)
def test_samples_of_an_operator_are_right(operator, dtype, sizes):
    outcome = check.check_operator(operator, dtype, sizes, 2)
    assert outcome.findings == []
    assert outcome.counts["right"] >= 1
    assert (outcome.counts["calls"] > 0) == (sizes != check.FIXED)


def test_what_is_refused_and_what_is_random_is_no_finding():
    assert check.check_operator("linalg.svd", "float32", check.FIXED, 2).counts.keys() == {"refused"}
    outcome = check.Outcome()
    check.check_sample(make_sample("noise", 0, torch.rand_like, (torch.randn(3),)), check.FIXED, outcome)
    assert outcome == check.Outcome(Counter(skipped=1))
    assert check.check_operator("linalg.svd", "int64", check.FIXED, 2) == check.Outcome()


def plant(monkeypatch, spoil):
    """Let every program return what `spoil` makes of its results."""
    compile_rightly = engine.compile

    def compile_wrongly(*arguments, **options):
        program = compile_rightly(*arguments, **options)
        return lambda *inputs: spoil(program(*inputs))

    monkeypatch.setattr(engine, "compile", compile_wrongly)


def fail(_):
    raise RuntimeError("text of torch\nand more")


PRODUCT = make_sample("mul", 7, torch.mul, (torch.randn(5, 5), torch.randn(5, 5)))


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda y: y * 1.001, "elements: at [0, 0]"),
        (lambda y: y.double(), "torch.float64[5, 5] instead of torch.float32[5, 5]"),
        (lambda y: y[:, :1], "torch.float32[5, 1] instead of torch.float32[5, 5]"),
        (lambda y: (y, y), "2 results instead of 1"),
        (lambda y: torch.where(y == y.max(), torch.nan, y), "1 of 25 elements: at ["),
        (fail, "RuntimeError: text of torch"),
    ],
)
def test_a_planted_fault_is_found_and_names_the_sample(spoil, told, monkeypatch):
    plant(monkeypatch, spoil)
    outcome = check.Outcome()
    check.check_sample(PRODUCT, check.FIXED, outcome)
    assert outcome.counts == Counter(wrong=1)
    (finding,) = outcome.findings
    assert finding.startswith("mul sample 7: float32[5, 5], float32[5, 5], sizes fixed: ")
    assert told in finding
    assert "and more" not in finding


def test_a_fault_at_other_sizes_alone_is_found(monkeypatch):
    plant(monkeypatch, lambda y: y if y.shape != (6, 6) else y + 1)
    outcome = check.Outcome()
    check.check_sample(PRODUCT, check.RANGE, outcome)
    assert (outcome.counts["right"], outcome.counts["wrong"]) == (1, 2)  # all sizes are the same one
    assert outcome.counts["calls"] == 5
    assert "called with mul sample 7: float32[6, 6]" in outcome.findings[0]


def test_results_need_be_no_nearer_than_those_of_eager():
    exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
    eager = torch.tensor([1.01, 2.0], dtype=torch.float16)
    assert find_difference(torch.tensor([0.99, 2.0], dtype=torch.float16), eager, exact) is None
    assert find_difference(exact.half(), eager, exact) is None
    assert "allowed" in find_difference(torch.tensor([0.9, 2.0], dtype=torch.float16), eager, exact)


def test_results_where_eager_overflows_are_right_near_those_in_float64():
    exact, eager = torch.tensor([38.2], dtype=torch.float64), torch.tensor([torch.inf], dtype=torch.float16)
    assert find_difference(torch.tensor([38.22], dtype=torch.float16), eager, exact) is None
    assert "allowed" in find_difference(torch.tensor([39.0], dtype=torch.float16), eager, exact)


def test_a_sample_is_called_with_its_own_arguments():
    for sample in list_samples("clamp", torch.float32, 4):
        assert sample.operator in OPERATORS
        bigger = sample.resized({5: 7})
        assert [[7 if size == 5 else size for size in one.shape] for one in sample.tensors] == [
            list(one.shape) for one in bigger.tensors
        ]
        sample.model()(bigger.inputs())
