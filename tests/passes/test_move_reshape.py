"""Linears on flattened rows: where the reshapes go, and where they stay."""

from __future__ import annotations

import numpy as np
import pytest

from engine.graph import Graph, Value
from engine.ops import TensorType
from tests.graphs import ops, run_pass


def flattened(shape=(2, 5, 4), back=(2, 5, 6), *, bias=True, residual=False) -> tuple[Graph, Value]:
    """reshape(linear(reshape(x))): x of `shape`, the result of shape `back`; and the linear's result."""
    rng = np.random.default_rng(3)
    g = Graph()
    x = g.add_input("x", TensorType("float32", shape))
    rows = g.emit("reshape", [x], shape=(10, 4))
    weight = g.constant(rng.standard_normal((6, 4)).astype(np.float32))
    inputs = [rows, weight, g.constant(rng.standard_normal(6).astype(np.float32)) if bias else None, None]
    if residual:
        inputs[3] = g.add_input("r", TensorType("float32", (10, 6)))
    y = g.emit("linear", inputs, transpose_weight=True)
    g.outputs = [g.emit("reshape", [y], shape=back)]
    return g, y


@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_between_reshapes_that_undo_each_other_reads_the_whole_shape(bias):
    g, _ = flattened(bias=bias)
    assert run_pass(g, "move_reshape") == [1]
    assert ops(g) == ["linear"]


def test_heads_are_joined_in_front_of_the_linear():
    g, _ = flattened(shape=(2, 5, 2, 2))
    assert run_pass(g, "move_reshape") == [1]
    assert ops(g) == ["reshape", "linear"]
    assert g.nodes[0].output.shape == (2, 5, 4)


def test_the_epilogue_is_taken_in_afterwards():
    g, _ = flattened()
    x = g.emit("gelu", [g.outputs[0]], approximate="tanh")
    g.outputs = [g.emit("add", [x, g.add_input("r", TensorType("float32", (2, 5, 6)))])]
    assert run_pass(g, "move_reshape", "fuse_epilogue") == [1, 1]
    assert ops(g) == ["linear", "add"]
    assert g.nodes[0].attributes["activation"] == "gelu_tanh"


def test_a_reshape_that_cuts_columns_stays():
    g, _ = flattened(back=(10, 2, 3))
    assert run_pass(g, "move_reshape") == [0]


def test_a_result_that_is_read_flat_as_well_stays():
    g, y = flattened()
    g.outputs = [*g.outputs, y]
    assert run_pass(g, "move_reshape") == [0]


def test_a_residual_of_rows_stays():
    g, _ = flattened(residual=True)
    assert run_pass(g, "move_reshape") == [0]


def test_several_linears_may_read_the_same_rows():
    g, _ = flattened(bias=False)
    rows = g.nodes[0].output
    y = g.emit("linear", [rows, g.constant(np.ones((6, 4), np.float32)), None, None], transpose_weight=True)
    g.outputs = [*g.outputs, g.emit("reshape", [y], shape=(2, 5, 6))]
    assert run_pass(g, "move_reshape") == [2]
    assert ops(g) == ["linear", "linear"]
