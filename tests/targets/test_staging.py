"""Runs at fixed addresses: what a context is told, when, and what is copied where."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from engine.ops import TensorType
from engine.targets.base import Context
from engine.targets.host import HOST
from engine.targets.staging import StagedContext

TYPES = {"input": [TensorType("float32", (2, 3)), TensorType("bfloat16", (2,))], "output": [TensorType("float32", ())]}


class Sums(Context):
    """Adds up its inputs once somebody waits; remembers all that it was given."""

    def __init__(self):
        self.log = []

    def warm_up(self, fixed):
        self.log.append(("warm_up", fixed))

    def run(self, inputs, outputs):
        self.log.append(("run", inputs, outputs))

    def synchronize(self):
        _, inputs, outputs = self.log[-1]
        outputs[0][...] = sum(float(np.asarray(value).astype(np.float64).sum()) for value in inputs)


def staged(*kinds):
    inner = Sums()
    context = StagedContext(inner, HOST, {kind: TYPES[kind] for kind in kinds})
    context.warm_up({})
    return inner, context


def call(context, scale, make=np.asarray):
    inputs = [make(np.full((2, 3), scale, np.float32)), np.full(2, 0.5, ml_dtypes.bfloat16)]
    output = make(np.zeros((), np.float32))
    context.run(inputs, [output])
    return inputs, output


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy], ids=["array", "tensor"])
def test_every_run_is_given_the_values_that_warm_up_was_given(make):
    inner, context = staged("input", "output")
    results = []
    for scale in (1, 2):
        _, output = call(context, scale, make)
        assert float(output) == 0, "nobody has waited"
        context.synchronize()
        results.append(float(output))
    assert results == [7, 13]
    (_, fixed), *runs = inner.log
    assert len(runs) == 2
    for _, inputs, outputs in runs:
        assert all(one is other for one, other in zip(inputs, fixed["input"], strict=True))
        assert all(one is other for one, other in zip(outputs, fixed["output"], strict=True))


@pytest.mark.parametrize(("kind", "other"), [("input", "output"), ("output", "input")])
def test_only_what_is_declared_is_copied(kind, other):
    inner, context = staged(kind)
    inputs, output = call(context, 3)
    context.synchronize()
    assert float(output) == 19
    (_, fixed), (_, *given) = inner.log
    assert set(fixed) == {kind}
    own = {"input": inputs, "output": [output]}
    place = {"input": 0, "output": 1}
    assert all(one is mine for one, mine in zip(given[place[other]], own[other], strict=True))
    assert not any(one is mine for one, mine in zip(given[place[kind]], own[kind], strict=True))


def test_results_of_a_call_are_not_referred_to_once_it_has_ended():
    """An idle context would keep the user's memory alive, and other calls could write to it."""
    inner, context = staged("input", "output")
    _, output = call(context, 1)
    context.synchronize()
    assert not any(value is output for value in vars(context)["_outputs"])
    output[...] = 99
    call(context, 5)
    context.synchronize()
    assert output == 99
    assert len(inner.log) == 3
