"""Forwards in NumPy compute what the modules compute."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from suites import models
from suites.backends.base import NotApplicable
from suites.harness.declare.case import BackendRef, Case
from suites.harness.measure.job import Job
from tests import messages

CASES = [
    *(("mlp", {"batch": 3, "widths": "8-16-8", "activation": name}) for name in ("relu", "gelu", "gelu_tanh")),
    ("mlp", {"batch": 2, "widths": "8-4"}),
    *(
        ("transformer-tiny", {"sequence": 5, "attention": attention, "causal": causal, "feed_forward": layer})
        for attention, causal, layer in itertools.product(("manual", "sdpa"), (False, True), ("gelu", "swiglu"))
    ),
    ("bert-tiny", {"batch": 3, "sequence": 9}),
    ("bert-tiny", {"batch": 1, "sequence": 1, "attention": "eager"}),
]


def outputs(found):
    return list(found) if isinstance(found, tuple) else [found]


def converted(inputs, dtype):
    return [one.to(dtype) if one.is_floating_point() else one for one in inputs]


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_a_forward_by_hand_computes_in_float64_what_the_module_does(name, arguments):
    model, _ = models.get(name).build(**arguments)
    model = model.double()
    forward = models.get(name).numpy(model)
    for seed in range(2):
        inputs = converted(models.get(name).inputs(seed, **arguments), torch.float64)
        with torch.inference_mode():
            expected = outputs(model(*inputs))
        found = outputs(forward(*(one.numpy() for one in inputs)))
        for mine, theirs in zip(found, expected, strict=True):
            # 1e-12 is some thousand roundings of float64: the order of sums differs, and nothing else
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_a_forward_by_hand_stays_in_float32_and_changes_no_input(name, arguments):
    model, inputs = models.get(name).build(**arguments)
    arrays = [one.numpy() for one in inputs]
    before = [one.copy() for one in arrays]
    for result in outputs(models.get(name).numpy(model)(*arrays)):
        assert result.dtype == np.float32
        assert not any(np.shares_memory(result, one) for one in arrays)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_the_models_that_have_one_are_the_three_of_the_suite_of_stages():
    having = {name for name in models.names() if models.get(name).numpy is not None}
    assert having == {"mlp", "transformer", "transformer-tiny", "bert", "bert-tiny"}


def job(model, folder, io="torch", options=None):
    made = Job(Case(model, {"batch": 1}, options=options or {}, io=io), BackendRef("numpy"), folder)
    made.load()
    return made


@pytest.mark.parametrize("io", ["torch", "numpy"])
def test_the_backend_gives_what_users_of_tensors_and_of_arrays_expect(io, tmp_path):
    made = job("bert-tiny", tmp_path, io)
    assert made.prepare()["facts"] == {}
    kind = {"torch": torch.Tensor, "numpy": np.ndarray}[io]
    assert [type(one) for one in made.call(*made.inputs[0])] == [kind, kind]
    assert made.verify()["inputs_changed"] == []


@pytest.mark.parametrize(("model", "options"), [("resnet18-tiny", {}), ("gpt2-tiny", {"phase": "decode", "steps": 2})])
def test_the_backend_is_not_applicable_where_nobody_has_written_a_forward(model, options, tmp_path):
    with messages.raises(NotApplicable):
        job(model, tmp_path, options=options).prepare()
