"""RMSNorm written by hand: the spellings that become one node, and what almost is one."""

from __future__ import annotations

import numpy as np
import pytest

from engine.graph import Graph, Value
from engine.ops import TensorType
from tests.graphs import ops, run_pass

SHAPE = (2, 5, 6)
SPELLINGS = ("rsqrt", "reciprocal", "div")


def start(shape=SHAPE) -> Graph:
    g = Graph()
    g.add_input("x", TensorType("float32", shape))
    return g


def norm(g: Graph, spelling="rsqrt", *, axes=(2,), power=2.0, square="pow", of=None, epsilon=None) -> Value:
    """x / sqrt(mean(of^power) + epsilon); `of` is x itself where it is not given."""
    x = g.inputs[0]
    of = x if of is None else of
    squared = g.emit("mul", [of, of]) if square == "mul" else g.emit("pow", [of, g.scalar(power, "float32")])
    mean = g.emit("mean", [squared], axes=axes, keepdims=True)
    shifted = g.emit("add", [mean, g.scalar(1e-6, "float32") if epsilon is None else epsilon])
    if spelling == "rsqrt":
        return g.emit("mul", [x, g.emit("rsqrt", [shifted])])
    root = g.emit("sqrt", [shifted])
    return g.emit("div", [x, root]) if spelling == "div" else g.emit("mul", [g.emit("reciprocal", [root]), x])


def weight(g: Graph, *shape: int) -> Value:
    return g.constant(np.random.default_rng(2).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("square", ["pow", "mul"])
@pytest.mark.parametrize("axes", [(2,), (1, 2), (0, 1, 2)])
def test_every_spelling_becomes_one_node(spelling, square, axes):
    g = start()
    g.outputs = [norm(g, spelling, axes=axes, square=square)]
    assert run_pass(g, "fuse_rms_norm") == [1]
    assert ops(g) == ["rms_norm"]
    assert g.nodes[0].attributes == {"axes": len(axes), "epsilon": pytest.approx(1e-6)}


@pytest.mark.parametrize("weight_first", [False, True])
def test_the_weight_is_taken_in(weight_first):
    g = start()
    operands = [norm(g), weight(g, 6)]
    g.outputs = [g.emit("mul", operands[::-1] if weight_first else operands)]
    assert run_pass(g, "fuse_rms_norm") == [2]
    assert ops(g) == ["rms_norm"]


@pytest.mark.parametrize("axes", [(1,), (0,), (0, 2)])
def test_a_mean_over_other_than_trailing_axes_stays(axes):
    g = start()
    g.outputs = [norm(g, axes=axes)]
    assert run_pass(g, "fuse_rms_norm") == [0]


def test_a_cube_is_no_square():
    g = start()
    g.outputs = [norm(g, power=4.0)]
    assert run_pass(g, "fuse_rms_norm") == [0]


def test_the_norm_of_another_value_stays():
    g = start()
    g.outputs = [norm(g, of=g.add_input("other", TensorType("float32", SHAPE)))]
    assert run_pass(g, "fuse_rms_norm") == [0]


def test_a_mean_that_is_read_elsewhere_stays():
    g = start()
    y = norm(g)
    g.outputs = [y, next(n for n in g.nodes if n.op.name == "mean").output]
    assert run_pass(g, "fuse_rms_norm") == [0]


def test_an_epsilon_that_is_no_number_or_adds_an_axis_stays():
    for epsilon in (np.full((5, 1), 1e-6, np.float32), np.full((1, 1, 1, 1), 1e-6, np.float32)):
        g = start()
        g.outputs = [norm(g, epsilon=g.constant(epsilon))]
        assert run_pass(g, "fuse_rms_norm") == [0]


@pytest.mark.parametrize("shape", [(5, 6), (1,), (1, 1, 6), (5, 1)])
def test_a_weight_of_another_shape_stays_outside(shape):
    g = start()
    g.outputs = [g.emit("mul", [norm(g), weight(g, *shape)])]
    assert run_pass(g, "fuse_rms_norm") == [1]
    assert ops(g) == ["rms_norm", "mul"]


def test_a_second_weight_and_one_that_is_an_input_stay_outside():
    g = start()
    g.outputs = [g.emit("mul", [g.emit("mul", [norm(g), weight(g, 6)]), weight(g, 6)])]
    assert run_pass(g, "fuse_rms_norm") == [2]
    assert ops(g) == ["rms_norm", "mul"]
    g = start()
    g.outputs = [g.emit("mul", [norm(g), g.add_input("w", TensorType("float32", (6,)))])]
    assert run_pass(g, "fuse_rms_norm") == [1]
