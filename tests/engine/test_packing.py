"""Packed constants: what shares one copy, and when a copy is given back."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import engine
from engine.graph import Graph
from engine.ops import TensorType
from engine.program import Signature, from_graph
from engine.targets.cpu import CPU, native
from engine.targets.cpu.weights import Weights


def compiled(model, inputs, *, dynamic=None, **switches):
    model = model.eval().requires_grad_(requires_grad=False)
    return engine.compile(model, inputs, engine.Config(**switches), dynamic_shapes=dynamic)


class Tied(nn.Module):
    """One weight, read with two activations, by few rows and by many."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(48, 48))

    def forward(self, x):
        wide = nn.functional.gelu(nn.functional.linear(x, self.weight))
        return torch.relu(nn.functional.linear(wide[:1], self.weight)) + nn.functional.linear(wide[1:3], self.weight)


def test_a_weight_is_packed_once_for_every_activation_and_number_of_rows():
    torch.manual_seed(0)
    model, x = Tied(), torch.randn(64, 48)
    program = compiled(model, (x,), disable=("pick_rows",))
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)
    linears = [i for i in program.lowered.instructions if i.op == "linear"]
    assert len({i.attributes["activation"] for i in linears}) == len(linears) == 3
    (key,) = program._prepared.packed
    assert key.packing.startswith("panels")


def layouts_of(op, shapes, **attributes):
    """The layouts in which the best kernel of `op` wants its operands, which are constants except the first."""
    graph = Graph(op)
    x, *weights = (numbers(number, *shape) for number, shape in enumerate(shapes))
    values = [graph.constant(array, f"w{number}") for number, array in enumerate(weights)]
    graph.outputs = [graph.emit(op, [graph.add_input("x", TensorType("float32", x.shape)), *values], **attributes)]
    artifact = from_graph(graph, Signature("*", "*", (0,), (0,), ("x",)), ())
    (step,) = CPU.bind(artifact, engine.Config()).steps
    return step.planned.packed


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_kernels_of_different_ops_want_one_layout():
    """linear, and the expansion in front of a depthwise convolution."""
    each = dict.fromkeys(("stride", "low", "high", "dilation"), (1, 1))
    shapes = [(1, 8, 8, 16), (32, 16), (32,), (32, 1, 3, 3), (32,)]
    linear = layouts_of("linear", [(64, 16), (32, 16), (32,), (64, 32)])
    transposed = layouts_of("linear", [(64, 16), (16, 32), (32,), (64, 32)], transpose_weight=False)
    expand = layouts_of("expand_depthwise", shapes, **each)
    assert linear[1] == expand[1]
    assert transposed[1].packing == linear[1].packing
    assert transposed[1].numbers != linear[1].numbers


@pytest.fixture
def convolution():
    """A program that changes between two layouts of one weight: Winograd's for large pictures alone."""
    torch.manual_seed(0)
    model = nn.Conv2d(64, 64, 3, padding=1)
    dynamic = ({2: Dim("h", min=1, max=64), 3: Dim("w", min=1, max=64)},)
    isa = native.kernel_isas("f32")[-1]
    program = compiled(model, (torch.randn(1, 64, 28, 28),), dynamic=dynamic, plans=1, isa=isa)
    return model, program


def packings(program):
    gc.collect()
    assert program._prepared.packed_bytes == sum(one.data.nbytes for one in program._prepared.packed.values())
    return {key.packing.split("_")[0] for key in program._prepared.packed}


def test_packed_copies_of_plans_that_are_gone_are_given_back(convolution):
    model, program = convolution
    found = []
    for size in (1, 28, 2, 56, 1):
        x = torch.randn(1, 64, size, size)
        torch.testing.assert_close(program(x), model(x), rtol=1e-3, atol=1e-3)
        found.append(packings(program))
    small, large = found[0], found[1]
    assert "panels" in small - large  # given back when the plan for a large picture replaced that for a small one
    assert found == [small, large, small, large, small]


def test_a_program_is_saved_whichever_copy_is_left(convolution, tmp_path):
    model, program = convolution
    for size in (1, 28, 2, 28):
        program(torch.randn(1, 64, size, size))
        program.save(tmp_path / "p.engine")
        again = engine.load(tmp_path / "p.engine").artifact
        (weight,) = (again.constants[v] for v in again.constants if len(again.types[v].shape) == 4)
        np.testing.assert_array_equal(np.sort(weight, None), np.sort(model.weight.numpy(), None))


@pytest.mark.skipif(len(native.kernel_isas("f32")) < 2, reason="one width of vectors on this machine")
def test_the_last_copy_of_the_elements_stays():
    """Two plans for instruction sets of different widths pack a borrowed weight in two layouts."""
    weight = numbers(0, 40, 24)
    graph = Graph("one")
    x = graph.add_input("x", TensorType("float32", (3, 24)))
    graph.outputs = [graph.emit("linear", [x, graph.constant(weight, "w"), None, None])]
    artifact = from_graph(graph, Signature("*", "*", (0,), (0,), ("x",)), ())
    weights = Weights(artifact, borrowed=True)
    narrow, wide = (
        CPU.bind(artifact, engine.Config(isa=isa)) for isa in (native.kernel_isas("f32")[i] for i in (0, -1))
    )
    (number,) = artifact.constants

    def layouts():
        np.testing.assert_array_equal(artifact.constants[number], weight)
        assert weights.packed_bytes == sum(one.data.nbytes for one in weights.packed.values())
        return [key.packing for key in weights.packed]

    first = weights.prepare(narrow)
    (name,) = layouts()
    second = weights.prepare(wide)
    assert len(layouts()) == 2
    del first
    (other,) = layouts()  # the elements are read from the second copy now
    assert other != name
    del second
    assert layouts() == [other]  # no plan uses it, but it is the only copy
    third = weights.prepare(narrow)
    assert layouts() == [name]
    del third
