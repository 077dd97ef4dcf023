"""Packed constants: what shares one copy, and when a copy is given back."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import engine
from engine.graph import Constant, Graph, Joined, elements, list_constants, share_constants
from engine.graph.forms import Cut
from engine.ops import TensorType
from engine.program.container import StoredTensor
from engine.targets.cpu import CPU, native
from engine.targets.cpu.executable import CpuExecutable
from engine.targets.cpu.weights import Weights


def compiled(model, inputs, *, dynamic=None, **switches):
    model = model.eval().requires_grad_(requires_grad=False)
    return engine.compile(model, inputs, engine.Config(**switches), dynamic_shapes=dynamic)


MODEL = torch.arange(12.0).numpy()
"""Memory of a model."""


@pytest.mark.parametrize(
    "form",
    [MODEL, MODEL[2:7], Cut(MODEL, 0, 2, 7), lambda: MODEL[2:7], Joined([MODEL, MODEL], 0)],
    ids=["array", "part", "cut", "function", "join"],
)
def test_an_owned_constant_lies_in_no_memory_of_the_model(form):
    before = elements(form).copy()
    constant = Constant(form, TensorType("float32", before.shape))
    assert not np.shares_memory(constant.own(), MODEL)
    assert constant.state == "owned"
    np.testing.assert_array_equal(constant(), before)


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
    linears = [n for n in program.lowered.nodes if n.op.name == "linear"]
    assert len({n.attributes["activation"] for n in linears}) == len(linears) == 3
    (packing,) = packings_of(program._prepared)
    assert packing.startswith("panels")


def packings_of(weights):
    """Checks the number of bytes, too."""
    assert weights.packed_bytes == sum(one.data.nbytes for one in weights.packed.values())
    return [one.step.planned.packed[one.position].packing for one in weights.packed.values()]


def layouts_of(op, shapes, **attributes):
    """The layouts in which the best kernel of `op` wants its operands, which are constants except the first."""
    graph = Graph(op)
    x, *weights = (numbers(number, *shape) for number, shape in enumerate(shapes))
    values = [graph.constant(array, f"w{number}") for number, array in enumerate(weights)]
    graph.outputs = [graph.emit(op, [graph.add_input("x", TensorType("float32", x.shape)), *values], **attributes)]
    (step,) = CPU.bind(graph, engine.Config()).steps
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
    gc.collect()
    gc.freeze()  # `packings` need not look through what is there before
    try:
        torch.manual_seed(0)
        model = nn.Conv2d(64, 64, 3, padding=1)
        dynamic = ({2: Dim("h", min=1, max=64), 3: Dim("w", min=1, max=64)},)
        isa = native.kernel_isas("f32")[-1]
        yield model, compiled(model, (torch.randn(1, 64, 28, 28),), dynamic=dynamic, plans=1, isa=isa)
    finally:
        gc.unfreeze()


def packings(program):
    gc.collect()
    return {packing.split("_")[0] for packing in packings_of(program._prepared)}


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
        again = engine.load(tmp_path / "p.engine").graph
        (weight,) = (v.elements for v in again.stored_constants() if len(v.shape) == 4)
        np.testing.assert_array_equal(np.sort(weight, None), np.sort(model.weight.numpy(), None))


@pytest.mark.skipif(len(native.kernel_isas("f32")) < 2, reason="one width of vectors on this machine")
def test_the_last_copy_of_the_elements_stays():
    """Two plans for instruction sets of different widths pack a borrowed weight in two layouts."""
    weight = numbers(0, 40, 24)
    graph = Graph("one")
    x = graph.add_input("x", TensorType("float32", (3, 24)))
    graph.outputs = [graph.emit("linear", [x, graph.constant(weight, "w"), None, None])]
    share_constants([graph])
    (constant,) = list_constants([graph])
    assert constant.state == "borrowed"
    weights = Weights()

    def executable(number):
        plan = CPU.bind(graph, engine.Config(isa=native.kernel_isas("f32")[number]))
        return CpuExecutable(graph, plan, weights, 1)

    def layouts():
        np.testing.assert_array_equal(constant(), weight)
        assert constant.state == "packed"
        return packings_of(weights)

    first = executable(0)
    (name,) = layouts()
    second = executable(-1)
    assert len(layouts()) == 2
    del first
    (other,) = layouts()  # the elements are read from the second copy now
    assert other != name
    del second
    assert layouts() == [other]  # no plan uses it, but it is the only copy
    third = executable(0)
    assert layouts() == [name]
    del third


# --- threads that pack -------------------------------------------------------------------------------------------


@pytest.fixture
def many(tmp_path, monkeypatch):
    """The file of a program with an embedding, which is read plain, and with weights of many sizes."""
    torch.manual_seed(0)
    layers = [nn.Linear(32, 24), *(nn.Linear(24, 24) for _ in range(6)), nn.Linear(24, 200)]
    model = nn.Sequential(nn.Embedding(100, 32), *layers).eval()
    ids = torch.arange(5)[None]
    compiled(model, (ids,)).save(tmp_path / "many.engine")
    monkeypatch.setattr("engine.targets.cpu.weights._PARALLEL_BYTES", 0)
    monkeypatch.setattr("engine.targets.cpu.weights._LARGE_BYTES", 3000)  # the first and the last layer
    return tmp_path / "many.engine", ids


def bytes_of(program):
    return {(one.value.name, key[1:]): one.data.tobytes() for key, one in program._prepared.packed.items()}


def test_several_threads_pack_the_same_bytes(many):
    path, ids = many
    one, four = (engine.load(path, config=engine.Config(threads=threads)) for threads in (1, 4))
    assert len(bytes_of(one)) == 8
    assert bytes_of(four) == bytes_of(one)
    assert torch.equal(four(ids), one(ids))


def test_a_weight_that_changes_while_threads_read_it_is_found_and_nothing_is_packed(many, monkeypatch):
    path, _ = many

    def shortened(entry):
        raise engine.ProgramError(f"{entry.entry.name} is shorter than it was")

    monkeypatch.setattr("engine.program.container.StoredTensor.read_into", lambda self, _memory: shortened(self))
    with pytest.raises(engine.ProgramError, match="is shorter than it was"):
        engine.load(path, config=engine.Config(threads=4))


def test_large_constants_are_read_one_at_a_time(many, monkeypatch):
    path, _ = many
    at_once, most, lock = [0], [0], threading.Lock()
    read = StoredTensor.read_into

    def read_slowly(self, memory):
        if self.nbytes <= 3000 or self.entry.shape == (100, 32):  # small, or the embedding, which is not packed
            return read(self, memory)
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        time.sleep(0.02)
        with lock:
            at_once[0] -= 1
        return read(self, memory)

    monkeypatch.setattr(StoredTensor, "read_into", read_slowly)
    engine.load(path, config=engine.Config(threads=4))
    assert most == [1]
