"""A residual joins the norm that reads it; for each guard one that almost matches and must not."""

from __future__ import annotations

import numpy as np
import pytest

from engine.graph import Graph, Value
from engine.ops import TensorType
from engine.passes import PIPELINE
from tests.graphs import ops, run_pass
from tests.passes.test_fuse import linear, start, weight

NORMS = pytest.mark.parametrize("op", ["layer_norm", "rms_norm"])


def norm(g: Graph, op: str, x: Value, addend: Value | None = None) -> Value:
    """Over the last axis, with whatever affine operands the op has."""
    affine = [weight(g, x.shape[-1], seed=n) for n in range(2 if op == "layer_norm" else 1)]
    return g.emit(op, [x, *affine, addend], axes=1, epsilon=1e-5)


@NORMS
@pytest.mark.parametrize("swapped", [False, True])
def test_a_residual_joins_the_norm(op, swapped):
    g = start((2, 3, 8), (2, 3, 8))
    g.outputs = [norm(g, op, g.emit("add", g.inputs[::-1] if swapped else g.inputs))]
    before = g.nodes[-1]
    assert run_pass(g, "fuse_add_norm") == [1]
    assert ops(g) == [op]
    node = g.nodes[0]
    assert {node["x"], node["addend"]} == set(g.inputs)
    for name in ("weight", "bias") if op == "layer_norm" else ("weight",):
        assert node[name] is before[name]


@NORMS
def test_of_several_residuals_the_last_joins(op):
    g = start((3, 8), (3, 8), (3, 8))
    x, y, z = g.inputs
    g.outputs = [norm(g, op, g.emit("add", [g.emit("add", [x, y]), z]))]
    assert run_pass(g, "fuse_add_norm") == [1]
    assert ops(g) == ["add", op]


@NORMS
def test_a_value_added_to_itself_joins_the_norm(op):
    g = start((3, 8))
    g.outputs = [norm(g, op, g.emit("add", [g.inputs[0], g.inputs[0]]))]
    assert run_pass(g, "fuse_add_norm") == [1]


def total_is_read_again(g: Graph, op: str) -> list[Value]:
    total = g.emit("add", g.inputs[:2])
    return [g.emit("add", [norm(g, op, total), total])]


def total_is_returned(g: Graph, op: str) -> list[Value]:
    total = g.emit("add", g.inputs[:2])
    return [norm(g, op, total), total]


def total_is_normed_twice(g: Graph, op: str) -> list[Value]:
    total = g.emit("add", g.inputs[:2])
    return [norm(g, op, total), norm(g, op, total)]


def one_row_is_broadcast(g: Graph, op: str) -> list[Value]:
    return [norm(g, op, g.emit("add", [g.inputs[0], weight(g, 8)]))]


def both_are_broadcast(g: Graph, op: str) -> list[Value]:
    return [norm(g, op, g.emit("add", [weight(g, 3, 1), weight(g, 8)]))]


def slot_is_taken(g: Graph, op: str) -> list[Value]:
    return [norm(g, op, g.emit("add", g.inputs[:2]), g.inputs[2])]


def difference(g: Graph, op: str) -> list[Value]:
    return [norm(g, op, g.emit("sub", g.inputs[:2]))]


def view_lies_between(g: Graph, op: str) -> list[Value]:
    return [norm(g, op, g.emit("permute", [g.emit("add", g.inputs[:2])], axes_order=(1, 0)))]


@NORMS
@pytest.mark.parametrize(
    "almost",
    [
        total_is_read_again,
        total_is_returned,
        total_is_normed_twice,
        one_row_is_broadcast,
        both_are_broadcast,
        slot_is_taken,
        difference,
        view_lies_between,
    ],
    ids=lambda f: f.__name__,
)
def test_almost_a_residual_is_left_alone(op, almost):
    g = start((3, 8), (3, 8), (3, 8))
    g.outputs = almost(g, op)
    assert run_pass(g, "fuse_add_norm") == [0]


@NORMS
def test_a_sum_that_serves_as_the_weight_is_left_alone(op):
    g = start((3, 8), (8,), (8,))
    rest: list[Value | None] = [None] * (2 if op == "layer_norm" else 1)
    g.outputs = [g.emit(op, [g.inputs[0], g.emit("add", g.inputs[1:]), *rest], axes=1, epsilon=1e-5)]
    assert run_pass(g, "fuse_add_norm") == [0]


@NORMS
def test_halves_are_added_in_their_own_type(op):
    g = Graph()
    x, y = (g.add_input(name, TensorType("float16", (3, 8))) for name in "xy")
    rest: list[Value | None] = [None] * (3 if op == "layer_norm" else 2)
    g.outputs = [g.emit(op, [g.emit("add", [x, y]), *rest], axes=1, epsilon=1e-5)]
    # 2048 and odd numbers: a sum in float32 would keep what one in float16 rounds away, and the row would differ in its
    # first digits
    inputs = [np.full((3, 8), 2048, np.float16), np.tile(np.arange(0, 16, 2) - 7, (3, 1)).astype(np.float16)]
    assert run_pass(g, "fuse_add_norm", inputs=inputs) == [1]


@NORMS
def test_a_residual_that_a_linear_can_add_stays_with_the_linear(op):
    g = start((3, 4), (3, 8))
    x, residual = g.inputs
    g.outputs = [norm(g, op, g.emit("add", [linear(g, x, weight(g, 8, 4)), residual]))]
    order = [name for name in PIPELINE if name in ("fuse_epilogue", "fuse_add_norm")]
    assert run_pass(g, *order) == [1, 0]
    assert ops(g) == ["linear", op]
