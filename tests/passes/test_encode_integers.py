"""`encode_integers`: weights that are computed from integers become encoded constants of these integers."""

from __future__ import annotations

import numpy as np
import pytest

from engine.graph import Graph, verify
from engine.ops import TensorType
from engine.passes import PASSES
from engine.targets import interpreter
from tests.graphs import ops

INTEGERS = np.random.default_rng(0).integers(-128, 128, (5, 8)).astype(np.int8)  # [N, K]
SCALES = np.linspace(0.5, 2, 5).astype(np.float32)
X = np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32)
EXACT = X.astype(np.float64) @ (INTEGERS * SCALES[:, None].astype(np.float64)).T


def begin(dtype="float32"):
    """A graph with an input x [3, 8], and the constant of integers as floats [5, 8]."""
    graph = Graph("integers")
    x = graph.add_input("x", TensorType(dtype, X.shape))
    return graph, x, graph.emit("cast", [graph.constant(INTEGERS, "w.data")], dtype=dtype)


def run(graph, result, *, count=1):
    """Run the pass, which must change `count` nodes. Returns the only result for x."""
    graph.outputs = [result]
    assert PASSES["encode_integers"].run(graph) == count
    PASSES["dead_code"].run(graph)
    verify.graph(graph)
    (found,) = interpreter.run(graph, [X])
    return found


def weight_of(graph, op):
    node = next(node for node in graph.nodes if node.op.name == op)
    return next(value for value in node.inputs if value is not None and value.components)


def scaled_product(graph, x, weight, scales):
    return graph.emit("mul", [graph.emit("linear", {"x": x, "weight": weight}), graph.constant(scales)])


@pytest.mark.parametrize("shape", [(5,), (1, 5)])
def test_scales_after_the_product_become_scales_of_the_weight(shape):
    graph, x, weight = begin()
    found = run(graph, scaled_product(graph, x, weight, SCALES.reshape(shape)))
    np.testing.assert_allclose(found, EXACT, rtol=1e-6)  # one rounding to float32
    assert ops(graph) == ["linear"]
    stored = weight_of(graph, "linear")
    assert str(stored.type.encoding) == "int8_channel@0"
    np.testing.assert_array_equal(stored.components["data"].elements, INTEGERS)
    np.testing.assert_array_equal(stored.components["scale"].elements, SCALES)


def test_a_transposed_matrix_has_its_channels_at_the_last_axis():
    graph, x, weight = begin()
    product = graph.emit("matmul", [x, graph.emit("permute", [weight], axes_order=(1, 0))])
    found = run(graph, graph.emit("mul", [graph.constant(SCALES), product]))
    np.testing.assert_allclose(found, EXACT, rtol=1e-6)
    assert str(weight_of(graph, "matmul").type.encoding) == "int8_channel@1"


@pytest.mark.parametrize("zero", [None, np.zeros((5, 1), np.int8)])
def test_scales_before_the_product_are_those_of_the_weight(zero):
    graph, x, weight = begin()
    if zero is not None:
        weight = graph.emit("sub", [weight, graph.emit("cast", [graph.constant(zero)], dtype="float32")])
    weight = graph.emit("mul", [weight, graph.constant(SCALES[:, None])])
    found = run(graph, graph.emit("linear", {"x": x, "weight": weight}))
    np.testing.assert_allclose(found, EXACT, rtol=1e-6)
    assert ops(graph) == ["linear"]
    np.testing.assert_array_equal(weight_of(graph, "linear").components["scale"].elements, SCALES)


def test_one_number_is_the_scale_of_every_channel():
    graph, x, weight = begin()
    found = run(graph, scaled_product(graph, x, weight, np.float32(0.25)))
    np.testing.assert_allclose(found, X.astype(np.float64) @ INTEGERS.T * 0.25, rtol=1e-6)
    np.testing.assert_array_equal(weight_of(graph, "linear").components["scale"].elements, np.full(5, 0.25))


def test_integers_without_scales_have_scales_of_1():
    graph, x, weight = begin()
    product = graph.emit("linear", {"x": x, "weight": weight, "bias": graph.constant(SCALES)})
    found = run(graph, graph.emit("mul", [product, graph.constant(SCALES)]))  # it also multiplies the bias
    np.testing.assert_allclose(found, (X.astype(np.float64) @ INTEGERS.T + SCALES) * SCALES, rtol=1e-6)
    assert ops(graph) == ["linear", "mul"]
    np.testing.assert_array_equal(weight_of(graph, "linear").components["scale"].elements, np.ones(5))


def test_a_product_with_another_reader_keeps_its_multiplication():
    graph, x, weight = begin()
    product = graph.emit("linear", {"x": x, "weight": weight})
    scaled = graph.emit("mul", [product, graph.constant(SCALES)])
    found = run(graph, graph.emit("add", [scaled, product]))
    np.testing.assert_allclose(found, X.astype(np.float64) @ INTEGERS.T * (SCALES + 1.0), rtol=1e-6)
    assert ops(graph) == ["linear", "mul", "add"]


def test_a_table_has_scales_for_its_rows():
    graph = Graph("table")
    ids = graph.add_input("ids", TensorType("int64", (3,)))
    table = graph.emit("cast", [graph.constant(INTEGERS, "w.data")], dtype="float32")
    graph.outputs = [graph.emit("embedding", [graph.emit("mul", [table, graph.constant(SCALES[:, None])]), ids])]
    assert PASSES["encode_integers"].run(graph) == 1
    PASSES["dead_code"].run(graph)
    assert ops(graph) == ["embedding"]
    (found,) = interpreter.run(graph, [np.array([4, 0, 4])])
    np.testing.assert_array_equal(found, (INTEGERS * SCALES[:, None])[[4, 0, 4]])


KEPT = {
    "scales along the summed axis": lambda g, w: g.emit("mul", [w, g.constant(np.ones(8, np.float32) * 3)]),
    "a scale for each element": lambda g, w: g.emit("mul", [w, g.constant(np.full((5, 8), 2, np.float32))]),
    "scales that are not finite": lambda g, w: g.emit("mul", [w, g.constant(np.full((5, 1), np.inf, np.float32))]),
    "zero points": lambda g, w: g.emit("sub", [w, g.constant(np.ones((5, 1), np.float32))]),
    "two scales": lambda g, w: g.emit("mul", [g.emit("mul", [w, g.scalar(2, "float32")]), g.scalar(3, "float32")]),
    "another op": lambda g, w: g.emit("add", [w, g.scalar(2, "float32")]),
}


@pytest.mark.parametrize("reason", KEPT)
def test_what_no_encoding_says_is_left(reason):
    graph, x, weight = begin()
    run(graph, graph.emit("linear", {"x": x, "weight": KEPT[reason](graph, weight)}), count=0)
    assert "cast" in ops(graph)


def test_scales_are_rounded_as_the_model_rounds_them():
    graph, x, weight = begin("bfloat16")
    third = graph.constant(np.full((5, 1), 1 / 3, np.float32))
    scales = graph.emit("reshape", [graph.emit("cast", [third], dtype="bfloat16")], shape=(5,))
    graph.outputs = [graph.emit("mul", [graph.emit("linear", {"x": x, "weight": weight}), scales])]
    assert PASSES["encode_integers"].run(graph) == 1
    PASSES["dead_code"].run(graph)
    rounded = weight_of(graph, "linear").components["scale"].elements
    np.testing.assert_array_equal(rounded, np.full(5, 0.333984375, np.float32))  # 171 / 512, the nearest bfloat16
