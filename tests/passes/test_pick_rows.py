"""Rows that nobody looks at: up to where they are not computed, and where picking has to stay."""

from __future__ import annotations

import numpy as np
import pytest

import engine
from engine.graph import Graph, Value
from engine.ops import TensorType
from tests.graphs import ops, run_pass

torch = pytest.importorskip("torch")

F32 = "float32"


def weights(g: Graph, *shape: int) -> Value:
    return g.constant(np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32))


def last_row(g: Graph, x: Value, axis: int = 1) -> Value:
    return g.emit("slice", [x], axis=axis, start=x.shape[axis] - 1, stop=x.shape[axis])


def chosen_rows(g: Graph, x: Value) -> Value:
    texts = g.constant(np.arange(x.shape[0]))
    return g.emit("index", [x, texts, g.constant(np.array([2, 4])[: x.shape[0]])], axes=(0, 1))


def block(g: Graph, x: Value) -> Value:
    """x + linear(gelu(linear(norm(x))))."""
    normed = g.emit("layer_norm", [x, weights(g, 4), weights(g, 4), None], axes=1, epsilon=1e-5)
    wide = g.emit("gelu", [g.emit("linear", [normed, weights(g, 6, 4), weights(g, 6), None])])
    return g.emit("add", [x, g.emit("linear", [wide, weights(g, 4, 6), weights(g, 4), None])])


@pytest.mark.parametrize("pick", [last_row, chosen_rows])
def test_a_block_is_computed_for_the_rows_that_are_used(pick):
    g = Graph()
    x = g.add_input("x", TensorType(F32, (2, 5, 4)))
    g.outputs = [pick(g, block(g, x))]
    (result,) = [g.outputs[0].shape]
    assert run_pass(g, "pick_rows", "common_subexpressions", "dead_code")[0] == 5
    assert ops(g)[1:] == ["layer_norm", "linear", "gelu", "linear", "add"]
    assert [n.output.shape[:-1] for n in g.nodes] == [result[:-1]] * 6


def test_a_residual_and_an_addend_are_picked_too():
    g = Graph()
    x, r = (g.add_input(n, TensorType(F32, (2, 5, 4))) for n in "xr")
    y = g.emit("linear", [x, weights(g, 4, 4), None, r])
    g.outputs = [last_row(g, g.emit("rms_norm", [y, weights(g, 4), r], axes=1, epsilon=1e-5))]
    assert run_pass(g, "pick_rows") == [2]
    assert [n.output.shape for n in g.nodes] == [(2, 1, 4)] * len(g.nodes)


def test_a_value_that_is_used_whole_as_well_is_computed_whole():
    g = Graph()
    x = g.add_input("x", TensorType(F32, (2, 5, 4)))
    y = g.emit("linear", [x, weights(g, 4, 4), None, None])
    g.outputs = [last_row(g, y), g.emit("relu", [y])]
    assert run_pass(g, "pick_rows") == [0]


def test_an_output_that_is_picked_from_stays():
    g = Graph()
    y = g.emit("linear", [g.add_input("x", TensorType(F32, (2, 5, 4))), weights(g, 4, 4), None, None])
    g.outputs = [last_row(g, y), y]
    assert run_pass(g, "pick_rows") == [0]


def test_different_rows_of_one_value_stay():
    g = Graph()
    y = g.emit("linear", [g.add_input("x", TensorType(F32, (2, 5, 4))), weights(g, 4, 4), None, None])
    g.outputs = [g.emit("slice", [y], axis=1, start=0, stop=2), g.emit("slice", [y], axis=1, start=2, stop=5)]
    assert run_pass(g, "pick_rows") == [0]


def test_columns_are_no_rows():
    g = Graph()
    y = g.emit("linear", [g.add_input("x", TensorType(F32, (2, 5, 4))), weights(g, 4, 4), None, None])
    g.outputs = [last_row(g, y, axis=2)]
    assert run_pass(g, "pick_rows") == [0]


def test_a_norm_over_the_picked_axis_stays():
    g = Graph()
    x = g.add_input("x", TensorType(F32, (2, 5, 4)))
    g.outputs = [last_row(g, g.emit("layer_norm", [x, None, None, None], axes=2, epsilon=1e-5))]
    assert run_pass(g, "pick_rows") == [0]


def test_a_softmax_stays():
    g = Graph()
    g.outputs = [last_row(g, g.emit("softmax", [g.add_input("x", TensorType(F32, (2, 5, 4)))], axis=1))]
    assert run_pass(g, "pick_rows") == [0]


def test_an_operand_that_differs_from_row_to_row_stays():
    g = Graph()
    x = g.add_input("x", TensorType(F32, (2, 5, 4)))
    g.outputs = [last_row(g, g.emit("add", [x, g.add_input("positions", TensorType(F32, (5, 4)))]))]
    assert run_pass(g, "pick_rows") == [0]


def test_rows_that_are_picked_more_than_once_are_computed_once():
    g = Graph()
    y = g.emit("linear", [g.add_input("x", TensorType(F32, (2, 4))), weights(g, 4, 4), None, None])
    g.outputs = [g.emit("index", [y, g.constant(np.array([0, 1, 1]))], axes=(0,))]
    assert run_pass(g, "pick_rows") == [0]


class Tail(torch.nn.Module):
    """An embedding, a product that mixes rows, a head; the logits of the last row."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = torch.nn.Embedding(11, 8), torch.nn.Linear(8, 11)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        mixed = torch.softmax(x @ x.transpose(1, 2), -1) @ x
        return self.head(torch.relu(mixed + x))[:, -1]


@pytest.mark.parametrize("length", [2, 5, 9])
def test_the_last_row_of_any_length(length):
    torch.manual_seed(0)
    model = Tail().eval()
    sequence = torch.export.Dim("sequence", min=2, max=16)
    program = engine.compile(model, (torch.zeros(2, 5, dtype=torch.long),), dynamic_shapes=({1: sequence},))
    ids = torch.randint(0, 11, (2, length))
    torch.testing.assert_close(program(ids), model(ids), rtol=1e-5, atol=1e-6)
    assert dict(program.report(sequence=5).passes)["pick_rows"] == 3
    assert not program.report(sequence=5).guards
