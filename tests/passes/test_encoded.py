"""Passes on graphs with encoded weights: results stay the same, bit for bit, and weights stay encoded."""

from __future__ import annotations

import numpy as np
import pytest

from engine.encodings import FAMILIES
from engine.graph import Graph, verify
from engine.ops import TensorType
from engine.passes import PASSES
from engine.targets import interpreter
from tests.graphs import ops

INTEGERS = ("int8_channel", "int4_group32", "int4_group32_zero", "q8_0", "q4_0", "q4_1")
FITTING = ("bfloat16", "float16", *INTEGERS)


def weight(graph, shape, family, *, transposed=True, seed=0):
    """A constant with an encoding that has channels of the result, or groups of summed elements."""
    encoding = FAMILIES[family].along(int((FAMILIES[family].per == "group") == transposed))
    data = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return graph.encode(graph.constant(data, f"w{seed}"), encoding)


def begin(*shape):
    graph = Graph("encoded")
    return graph, graph.add_input("x", TensorType("float32", shape))


def results(graph, x):
    return interpreter.run(graph, [x])


def check(graph, name, x_shape):
    """Run the pass `name`, which must change the graph and no result. Returns the names of the ops."""
    x = np.random.default_rng(9).normal(size=x_shape).astype(np.float32)
    before = results(graph, x)
    assert PASSES[name].run(graph) > 0
    PASSES["dead_code"].run(graph)
    verify.graph(graph)
    for old, new in zip(before, results(graph, x), strict=True):
        np.testing.assert_array_equal(old, new)
    return ops(graph)


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("compute", ["element", "bfloat16"])
@pytest.mark.parametrize("family", FITTING)
def test_linears_of_one_input_are_merged_by_their_components(family, compute, transposed):
    graph, x = begin(3, 64)
    shapes = [(n, 64) if transposed else (64, n) for n in (32, 64)]
    weights = [weight(graph, shape, family, transposed=transposed, seed=n) for n, shape in enumerate(shapes)]
    how = {"transpose_weight": transposed, "compute": compute}
    graph.outputs = [graph.emit("linear", [x, w, None, None], **how) for w in weights]
    assert check(graph, "merge_linear", (3, 64)) == ["linear", "slice", "slice"]
    (linear,) = (node for node in graph.nodes if node.op.name == "linear")
    assert linear.operand("weight").type.encoding == weights[0].type.encoding
    assert linear.attributes["compute"] == compute


@pytest.mark.parametrize("family", INTEGERS)
@pytest.mark.parametrize("one_weight", [True, False])
def test_gated_layers_are_fused_by_their_components(family, one_weight):
    graph, x = begin(3, 64)
    if one_weight:
        both = graph.emit("linear", [x, weight(graph, (64, 64), family), None, None])
        at = {"axis": 1, "step": 1}
        gate = graph.emit("slice", [both], start=32, stop=64, **at)
        up = graph.emit("slice", [both], start=0, stop=32, **at)
    else:
        gate, up = (graph.emit("linear", [x, weight(graph, (32, 64), family, seed=n), None, None]) for n in range(2))
    graph.outputs = [graph.emit("mul", [graph.emit("silu", [gate]), up])]
    x_data = np.random.default_rng(9).normal(size=(3, 64)).astype(np.float32)
    (before,) = results(graph, x_data)
    assert PASSES["fuse_gated_linear"].run(graph) == 1
    verify.graph(graph)
    (node,) = graph.nodes
    assert node.op.name == "gated_linear"
    assert node.operand("weight").type.encoding is not None
    # The fused op rounds once, where three ops round three times.
    np.testing.assert_allclose(results(graph, x_data)[0], before, rtol=1e-5, atol=1e-6)


def test_weights_with_one_scale_are_not_joined():
    graph, x = begin(3, 64)
    weights = [weight(graph, (8, 64), "int8_tensor", seed=n) for n in range(2)]
    graph.outputs = [graph.emit("linear", [x, w, None, None]) for w in weights]
    assert PASSES["merge_linear"].run(graph) == 0


def test_encoded_constants_are_not_folded_away():
    graph, _x = begin(3, 64)
    table = weight(graph, (8, 64), "int8_channel")
    ids = graph.constant(np.arange(3), "ids")
    graph.outputs = [graph.emit("embedding", [table, ids])]
    assert PASSES["fold_constants"].run(graph) == 0
    assert ops(graph) == ["embedding"]


def test_the_last_rows_of_an_encoded_product_are_picked():
    graph, x = begin(2, 5, 64)
    y = graph.emit("linear", [x, weight(graph, (32, 64), "int8_channel"), None, None])
    graph.outputs = [graph.emit("slice", [y], axis=1, start=4, stop=5, step=1)]
    assert check(graph, "pick_rows", (2, 5, 64)) == ["slice", "linear"]


def test_products_in_bfloat16_become_no_attention_and_no_linear():
    compute = "bfloat16"
    graph, x = begin(1, 2, 4, 8)
    scores = graph.emit("matmul", [x, x], transpose_b=True, compute=compute)
    chances = graph.emit("softmax", [scores], axis=3)
    attended = graph.emit("matmul", [chances, x], compute=compute)
    graph.outputs = [graph.emit("matmul", [attended, graph.constant(np.eye(8, dtype=np.float32))], compute=compute)]
    assert PASSES["fuse_attention"].run(graph) + PASSES["use_linear"].run(graph) == 0


@pytest.mark.parametrize("encoded", [None, "key", "value"])
def test_attention_over_encoded_constants_is_not_fused(encoded):
    """`matmul` takes them, `attention` would refuse them."""
    graph, query = begin(2, 3, 64)
    constants = {}
    for number, name in enumerate(("key", "value")):
        constant = graph.constant(np.random.default_rng(number).normal(size=(2, 5, 64)).astype(np.float32), name)
        constants[name] = graph.encode(constant, FAMILIES["bfloat16"]) if name == encoded else constant
    scores = graph.emit("matmul", [query, constants["key"]], transpose_b=True)
    weights = graph.emit("softmax", [scores], axis=2)
    graph.outputs = [graph.emit("matmul", [weights, constants["value"]])]
    assert PASSES["fuse_attention"].run(graph) == (encoded is None)
    verify.graph(graph)
