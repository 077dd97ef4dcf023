"""Folding, common subexpressions, dead code, views."""

from __future__ import annotations

import numpy as np
import pytest

from engine import passes
from engine.graph import Graph, verify
from engine.ops import TensorType
from tests.graphs import evaluate, ops, run_pass


def graph(*shapes: tuple[int, ...], dtype: str = "float32") -> Graph:
    g = Graph()
    for number, shape in enumerate(shapes):
        g.add_input(f"x{number}", TensorType(dtype, shape))
    return g


def test_folding_computes_what_depends_on_constants_alone():
    g = graph((3, 3))
    ones = g.emit("full", [], shape=(3, 3), value=1.0, dtype="float32")
    mask = g.emit("eq", [g.emit("tril", [ones], diagonal=0), g.scalar(0.0, "float32")])
    g.outputs = [g.emit("where", [mask, g.scalar(-1.0, "float32"), g.inputs[0]])]
    assert run_pass(g, "fold_constants") == [3]
    assert ops(g) == ["where"]
    assert g.nodes[0].operand("condition").data.tolist() == np.triu(np.ones((3, 3), bool), 1).tolist()


def test_folding_keeps_a_constant_that_is_an_output():
    g = graph((2,))
    g.outputs = [g.emit("arange", [], start=0.0, step=1.0, length=4, dtype="int64"), g.inputs[0]]
    assert run_pass(g, "fold_constants") == [1]
    assert g.outputs[0].data.tolist() == [0, 1, 2, 3]


def test_folding_does_not_blow_up_an_expanded_constant():
    g = graph((1,))
    big = g.emit("expand", [g.constant(np.ones((1, 1), np.float32))], shape=(2048, 2048))
    g.outputs = [g.emit("add", [g.inputs[0], big])]
    assert run_pass(g, "fold_constants") == [0]


def test_folding_leaves_an_error_to_the_call_that_makes_it():
    g = graph((1,))
    table, ids = g.constant(np.ones((2, 3), np.float32)), g.constant(np.array([5]))
    g.outputs = [g.emit("embedding", [table, ids])]
    from engine.passes import fold_constants

    assert fold_constants.run(g) == 0


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_folding_keeps_quantised_constants_as_they_are(dtype):
    g = graph((2,))
    weight = g.constant(np.array([1.0, 0.3], np.float32))
    integers = g.constant(np.array([1, 2], dtype))
    pair = g.emit("dequantize", [g.emit("quantize", [weight], scale=0.25, dtype=dtype)], scale=0.25)
    g.outputs = [g.emit("dequantize", [integers], scale=0.5), pair, g.inputs[0]]
    assert run_pass(g, "fold_constants") == [0]
    assert ops(g) == ["quantize", "dequantize", "dequantize"]


def test_no_pass_of_any_target_drops_a_quantised_pair():
    """Of a value, of a constant that is folded up to it, and the pair in the other order."""
    g = graph((2, 3))
    constant = g.emit("add", [g.constant(np.ones((2, 3), np.float32)), g.scalar(0.3, "float32")])
    for x in (g.inputs[0], constant):
        pair = g.emit("dequantize", [g.emit("quantize", [x], scale=0.25)], scale=0.25)
        again = g.emit("quantize", [g.emit("mul", [pair, g.scalar(1.0, "float32")])], scale=0.25)
        g.outputs.append(g.emit("dequantize", [again], scale=0.25))
    for target in ("cpu", "interpreter"):
        for name in passes.pipeline(target):
            passes.PASSES[name].run(g)
            verify.graph(g)
    assert ops(g) == ["quantize", "dequantize"] * 4
    exact = np.array([[1.25, 1.25, 1.25]] * 2, np.float32)  # 1.3 / 0.25 = 5.2
    x = np.array([[0.125, 0.375, -0.6], [31.9, -99, 0]], np.float32)
    rounded = np.array([[0, 0.5, -0.5], [31.75, -32, 0]], np.float32)
    for found, expected in zip(evaluate(g, [x]), (rounded, exact), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_equal_nodes_become_one_and_unequal_attributes_do_not():
    g = graph((2, 3))
    x = g.inputs[0]
    first, second = (g.emit("sum", [x], axes=(1,), keepdims=True) for _ in range(2))
    other = g.emit("sum", [x], axes=(1,), keepdims=False)
    g.outputs = [first, second, other, g.emit("add", [first, second])]
    assert run_pass(g, "common_subexpressions") == [1]
    assert g.outputs[0] is g.outputs[1]
    assert ops(g).count("sum") == 2


def test_equal_scalars_make_equal_nodes_and_minus_zero_is_not_zero():
    g = graph((2,))
    x = g.inputs[0]
    g.outputs = [g.emit("mul", [x, g.scalar(v, "float32")]) for v in (0.0, 0.0, -0.0)]
    assert run_pass(g, "common_subexpressions") == [1]


def test_dead_code_goes_and_outputs_stay():
    g = graph((2,))
    used = g.emit("neg", [g.inputs[0]])
    g.emit("exp", [g.emit("abs", [used])])
    g.outputs = [used]
    assert run_pass(g, "dead_code") == [2]
    assert ops(g) == ["neg"]


def test_chains_of_views_join():
    g = graph((2, 3, 4))
    x = g.emit("reshape", [g.emit("reshape", [g.inputs[0]], shape=(6, 4))], shape=(24,))
    y = g.emit("permute", [g.emit("permute", [g.inputs[0]], axes_order=(1, 2, 0))], axes_order=(1, 2, 0))
    back = g.emit("permute", [g.emit("permute", [g.inputs[0]], axes_order=(0, 2, 1))], axes_order=(0, 2, 1))
    g.outputs = [x, y, back]
    run_pass(g, "simplify_views", "dead_code")
    assert ops(g) == ["reshape", "permute"]
    assert g.outputs[2] is g.inputs[0]


def test_a_slice_that_starts_later_is_no_identity():
    g = graph((4,))
    part = g.emit("slice", [g.inputs[0]], axis=0, start=0, stop=4, step=1)
    tail = g.emit("slice", [g.inputs[0]], axis=0, start=1, stop=4, step=1)
    g.outputs = [part, tail]
    assert run_pass(g, "simplify_views") == [1]


def bools(*shape: int) -> Graph:
    return graph(shape, dtype="bool")


def test_neutral_constants_go_and_what_broadcasts_stays_as_a_view():
    g = graph((1, 3))
    x = g.inputs[0]
    y = g.emit("sub", [g.emit("mul", [g.scalar(1.0, "float32"), x]), g.scalar(0.0, "float32")])
    g.outputs = [g.emit("div", [y, g.constant(np.ones((4, 3), np.float32))])]
    assert run_pass(g, "drop_identities") == [3]
    assert ops(g) == ["expand"]
    b = bools(1, 3)
    b.outputs = [b.emit("bitwise_and", [b.constant(np.ones((2, 1), bool)), b.inputs[0]])]
    assert run_pass(b, "drop_identities") == [1]


@pytest.mark.parametrize(
    ("condition", "left"), [([True, True], []), ([False, False], ["expand"]), ([True, False], ["where"])]
)
def test_a_choice_that_is_known_is_dropped(condition, left):
    g = graph((3, 2), (1, 2))
    g.outputs = [g.emit("where", [g.constant(np.array(condition)), *g.inputs])]
    assert run_pass(g, "drop_identities") == [left != ["where"]]
    assert ops(g) == left


def test_constants_that_are_almost_neutral_stay():
    g = graph((2, 3))
    x = g.inputs[0]
    almost = np.ones((2, 3), np.float32)
    almost[1, 2] = 2
    g.outputs = [
        g.emit("mul", [x, g.constant(almost)]),
        g.emit("div", [g.scalar(1.0, "float32"), x]),
        g.emit("sub", [g.scalar(0.0, "float32"), x]),
        g.emit("sub", [x, g.scalar(-0.0, "float32")]),
        g.emit("add", [x, g.scalar(0.0, "float32")]),
    ]
    assert run_pass(g, "drop_identities") == [0]
    i = graph((3,), dtype="int64")
    i.outputs = [i.emit("bitwise_and", [i.inputs[0], i.scalar(1, "int64")])]
    assert run_pass(i, "drop_identities") == [0]


def test_what_is_pointwise_happens_before_a_broadcast():
    g = bools(1, 3)
    wide = g.emit("expand", g.inputs, shape=(4, 3))
    g.outputs = [g.emit("where", [wide, g.scalar(0.0, "float32"), g.scalar(-np.inf, "float32")])]
    assert run_pass(g, "simplify_views", "dead_code") == [1, 1]
    assert ops(g) == ["where", "expand"]
    assert g.nodes[0].output.shape == (1, 3)


def test_a_broadcast_beside_another_tensor_stays_where_it_is():
    g = graph((1, 3), (4, 3))
    wide = g.emit("expand", g.inputs[:1], shape=(4, 3))
    one = g.constant(np.ones((1, 1, 1), np.float32))
    g.outputs = [g.emit("add", [wide, g.inputs[1]]), g.emit("add", [wide, one])]
    assert run_pass(g, "simplify_views") == [0]


def test_a_permuted_flip_is_a_flip_of_the_permuted_value():
    g = graph((2, 3, 4))
    flipped = g.emit("flip", [g.inputs[0]], axes=(0, 2))
    g.outputs = [g.emit("permute", [flipped], axes_order=(2, 0, 1))]
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    before = evaluate(g, [x])
    run_pass(g, "simplify_views", "dead_code")
    assert ops(g) == ["permute", "flip"]
    np.testing.assert_array_equal(evaluate(g, [x]), before)
