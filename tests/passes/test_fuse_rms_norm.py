"""RMSNorm written by hand: the spellings that become one node, and what almost is one."""

from __future__ import annotations

import numpy as np
import pytest

from engine import dtypes, passes
from engine.graph import Graph, Value, verify
from engine.ops import TensorType
from tests.graphs import evaluate, ops, run_pass

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


def narrow_norm(kind: str, back: str, *, is_read_elsewhere: bool = False) -> Graph:
    """A norm in float32 of values of type `kind`, cast to the type `back` and scaled there."""
    g = Graph()
    g.add_input("x", TensorType(kind, SHAPE))
    wide = g.emit("cast", [g.inputs[0]], dtype="float32")
    shifted = g.emit(
        "add", [g.emit("mean", [g.emit("mul", [wide, wide])], axes=(2,), keepdims=True), g.scalar(1e-6, "float32")]
    )
    normed = g.emit("mul", [wide, g.emit("rsqrt", [shifted])])
    rounded = g.emit("cast", [normed], dtype=back)
    scale = g.constant(np.random.default_rng(2).standard_normal(6).astype(dtypes.dtype(back).numpy))
    g.outputs = [g.emit("mul", [scale, rounded]), *([normed] if is_read_elsewhere else [])]
    return g


ULP = {"bfloat16": 2**-8, "float16": 2**-11}


@pytest.mark.parametrize("kind", ULP)
def test_a_norm_between_casts_reads_and_writes_the_narrow_type(kind):
    """With its scale it is one node. It rounds once; the hand-written one rounds before the scale, too."""
    g = narrow_norm(kind, kind)
    x = np.random.default_rng(3).standard_normal(SHAPE).astype(dtypes.dtype(kind).numpy)
    (before,) = evaluate(g, [x])
    assert passes.PASSES["fuse_rms_norm"].run(g) == 3
    verify.graph(g)
    assert ops(g) == ["rms_norm"]
    (after,) = evaluate(g, [x])
    wide, scale = x.astype(np.float64), g.nodes[0]["weight"].elements.astype(np.float64)
    exact = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * scale
    assert after.dtype == before.dtype == x.dtype
    assert np.abs(after.astype(np.float64) - exact).max() <= ULP[kind] * np.abs(exact).max()
    assert np.abs(before.astype(np.float64) - exact).max() <= 2.1 * ULP[kind] * np.abs(exact).max()


@pytest.mark.parametrize(("kind", "back"), [("bfloat16", "float16"), ("float16", "bfloat16")])
def test_other_casts_around_a_norm_stay(kind, back):
    g = narrow_norm(kind, back)
    assert run_pass(g, "fuse_rms_norm") == [1]
    assert ops(g) == ["cast", "rms_norm", "cast", "mul"]


def test_a_norm_that_is_read_in_float32_stays_in_float32():
    g = narrow_norm("bfloat16", "bfloat16", is_read_elsewhere=True)
    assert run_pass(g, "fuse_rms_norm") == [1]
    assert ops(g) == ["cast", "rms_norm", "cast", "mul"]


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
