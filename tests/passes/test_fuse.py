"""Fusions: each spelling that must fuse, and for each guard one that almost matches and must not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.graph import Graph, Value
from engine.ops import TensorType
from tests import messages
from tests.graphs import ops, run_pass


def start(*shapes: tuple[int, ...]) -> Graph:
    g = Graph()
    for number, shape in enumerate(shapes):
        g.add_input(f"x{number}", TensorType("float32", shape))
    return g


def scalar(g: Graph, value: float) -> Value:
    return g.scalar(value, "float32")


# --- softmax -----------------------------------------------------------------------------------------------------


def softmax_by_hand(g: Graph, x: Value, axis: int = -1, *, shift: bool = True, sum_axis: int | None = None) -> Value:
    rank = len(x.shape)
    axes = (axis % rank,)
    shifted = g.emit("sub", [x, g.emit("amax", [x], axes=axes, keepdims=True)]) if shift else x
    e = g.emit("exp", [shifted])
    total = g.emit("sum", [e], axes=axes if sum_axis is None else (sum_axis,), keepdims=True)
    return g.emit("div", [e, total])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_by_hand_is_recognised_over_any_axis(axis):
    g = start((3, 4, 5))
    g.outputs = [softmax_by_hand(g, g.inputs[0], axis)]
    assert run_pass(g, "fuse_softmax") == [1]
    assert ops(g) == ["softmax"]
    assert g.nodes[0].attributes["axis"] == axis


def test_softmax_without_the_maximum_is_not_softmax():
    g = start((3, 4))
    g.outputs = [softmax_by_hand(g, g.inputs[0], shift=False)]
    assert run_pass(g, "fuse_softmax") == [0]


def test_softmax_with_maximum_and_sum_over_different_axes_is_left_alone():
    g = start((4, 4))
    g.outputs = [softmax_by_hand(g, g.inputs[0], 1, sum_axis=0)]
    assert run_pass(g, "fuse_softmax") == [0]


def test_softmax_whose_exponentials_are_also_read_is_left_alone():
    g = start((3, 4))
    out = softmax_by_hand(g, g.inputs[0])
    g.outputs = [out, g.nodes[2].output]
    assert run_pass(g, "fuse_softmax") == [0]


# --- GELU --------------------------------------------------------------------------------------------------------


def erf_gate(g: Graph, x: Value, root: float = math.sqrt(2)) -> Value:
    return g.emit("add", [g.emit("erf", [g.emit("div", [x, scalar(g, root)])]), scalar(g, 1.0)])


def tanh_gate(g: Graph, x: Value, cubic: float = 0.044715) -> Value:
    cube = g.emit("pow", [x, scalar(g, 3.0)])
    inner = g.emit("add", [x, g.emit("mul", [cube, scalar(g, cubic)])])
    return g.emit("add", [scalar(g, 1.0), g.emit("tanh", [g.emit("mul", [scalar(g, math.sqrt(2 / math.pi)), inner])])])


def gelu_spellings(g: Graph, x: Value, gate: Value, half: float = 0.5) -> list[Value]:
    return [
        g.emit("mul", [g.emit("mul", [x, scalar(g, half)]), gate]),
        g.emit("mul", [scalar(g, half), g.emit("mul", [gate, x])]),
        g.emit("mul", [x, g.emit("mul", [scalar(g, half), gate])]),
    ]


@pytest.mark.parametrize("spelling", [0, 1, 2])
@pytest.mark.parametrize(("gate", "approximate"), [(erf_gate, "none"), (tanh_gate, "tanh")])
def test_gelu_by_hand_is_recognised(spelling, gate, approximate):
    g = start((3, 4))
    x = g.inputs[0]
    g.outputs = [gelu_spellings(g, x, gate(g, x))[spelling]]
    assert run_pass(g, "dead_code", "fuse_gelu")[1] == 1
    assert ops(g) == ["gelu"]
    assert g.nodes[0].attributes["approximate"] == approximate


@pytest.mark.parametrize(
    "almost",
    [
        lambda g, x: gelu_spellings(g, x, erf_gate(g, x, root=math.sqrt(3)))[0],
        lambda g, x: gelu_spellings(g, x, erf_gate(g, x), half=0.4)[0],
        lambda g, x: gelu_spellings(g, x, tanh_gate(g, x, cubic=0.05))[0],
        lambda g, x: gelu_spellings(g, x, erf_gate(g, g.inputs[1]))[0],
    ],
)
def test_almost_gelu_is_left_alone(almost):
    g = start((3, 4), (3, 4))
    g.outputs = [almost(g, g.inputs[0])]
    assert run_pass(g, "dead_code", "fuse_gelu")[1] == 0


# --- LayerNorm ---------------------------------------------------------------------------------------------------


def norm_by_hand(g: Graph, x: Value, axes=(1,), variance_axes=None, form: str = "div", correction: float | None = None):
    centred = g.emit("sub", [x, g.emit("mean", [x], axes=axes, keepdims=True)])
    axes = variance_axes or axes
    if correction is None:
        variance = g.emit("mean", [g.emit("pow", [centred, scalar(g, 2.0)])], axes=axes, keepdims=True)
    else:
        variance = g.emit("var", [x], axes=axes, correction=correction, keepdims=True)
    shifted = g.emit("add", [variance, scalar(g, 1e-5)])
    if form == "div":
        return g.emit("div", [centred, g.emit("sqrt", [shifted])])
    return g.emit("mul", [centred, g.emit("rsqrt", [shifted])])


@pytest.mark.parametrize("form", ["div", "mul"])
@pytest.mark.parametrize("correction", [None, 0.0])
def test_layer_norm_by_hand_is_recognised_with_its_affine_part(form, correction):
    g = start((3, 8))
    out = norm_by_hand(g, g.inputs[0], form=form, correction=correction)
    weight, bias = g.constant(np.linspace(1, 2, 8, dtype=np.float32)), g.constant(np.ones(8, np.float32))
    g.outputs = [g.emit("add", [g.emit("mul", [weight, out]), bias])]
    assert run_pass(g, "fuse_layer_norm") == [3]
    assert ops(g) == ["layer_norm"]
    assert [g.nodes[0][name] for name in ("weight", "bias", "addend")] == [weight, bias, None]


@pytest.mark.parametrize(
    "options",
    [
        {"axes": (0,)},
        {"axes": (1,), "variance_axes": (0,)},
        {"axes": (1,), "correction": 1.0},
    ],
    ids=["leading axis", "two axes", "Bessel's divisor"],
)
def test_almost_layer_norm_is_left_alone(options):
    g = start((6, 6))
    g.outputs = [norm_by_hand(g, g.inputs[0], **options)]
    assert run_pass(g, "fuse_layer_norm") == [0]


def layer_norm(g: Graph, weight=None, bias=None) -> Value:
    return g.emit("layer_norm", [g.inputs[0], weight, bias, None], axes=1, epsilon=1e-5)


def test_a_scale_after_a_shift_is_not_the_weight():
    g = start((3, 8))
    shifted = layer_norm(g, None, g.constant(np.ones(8, np.float32)))
    g.outputs = [g.emit("mul", [shifted, g.constant(np.full(8, 2, np.float32))])]
    assert run_pass(g, "fuse_layer_norm") == [0]


def test_a_scale_of_another_shape_is_not_the_weight():
    g = start((3, 8))
    g.outputs = [g.emit("mul", [layer_norm(g), g.constant(np.ones((3, 1), np.float32))])]
    assert run_pass(g, "fuse_layer_norm") == [0]


# --- attention ---------------------------------------------------------------------------------------------------


def attention_by_hand(g: Graph, mask=None, fill=None, axis=3, alpha=0.5, **product) -> Value:
    q, k, v = g.inputs[:3]
    scores = g.emit("matmul", [q, k], transpose_b=True, alpha=alpha)
    if fill is not None:
        scores = g.emit("where", [mask, scores, scalar(g, fill)])
    elif mask is not None:
        scores = g.emit("add", [scores, mask])
    return g.emit("matmul", [g.emit("softmax", [scores], axis=axis), v], **product)


QKV = ((1, 2, 5, 4), (1, 2, 5, 4), (1, 2, 5, 4))


def test_attention_fuses_and_keeps_its_scale():
    g = start(*QKV)
    g.outputs = [attention_by_hand(g)]
    assert run_pass(g, "fuse_attention") == [1]
    assert ops(g) == ["attention"]
    assert g.nodes[0].attributes["scale"] == 0.5
    assert g.nodes[0].attributes["masked_rows"] == "nan"


def test_attention_fuses_with_an_added_mask():
    g = start(*QKV, (5, 5))
    g.outputs = [attention_by_hand(g, g.inputs[3])]
    assert run_pass(g, "fuse_attention") == [1]


@pytest.mark.parametrize("order", ["keep", "drop"])
def test_attention_fuses_with_a_filled_mask_whichever_way_round(order):
    g = start(*QKV)
    mask = g.add_input("mask", TensorType("bool", (1, 1, 5, 5)))
    q, k, v = g.inputs[:3]
    scores = g.emit("matmul", [q, k], transpose_b=True)
    branches = [scores, scalar(g, -math.inf)]
    filled = g.emit("where", [mask, *(branches if order == "keep" else branches[::-1])])
    g.outputs = [g.emit("matmul", [g.emit("softmax", [filled], axis=3), v])]
    keep = np.tri(5, dtype=bool)[None, None]
    rng = np.random.default_rng(0)
    inputs = [*(rng.standard_normal(s).astype(np.float32) for s in QKV), keep if order == "keep" else ~keep]
    assert run_pass(g, "fuse_attention", inputs=inputs) == [1]


def test_a_fully_masked_row_stays_nan():
    g = start(*QKV)
    mask = g.add_input("mask", TensorType("bool", (5, 5)))
    g.outputs = [attention_by_hand(g, mask, fill=-math.inf)]
    keep = np.tri(5, dtype=bool)
    keep[2] = False
    rng = np.random.default_rng(0)
    inputs = [*(rng.standard_normal(s).astype(np.float32) for s in QKV), keep]
    with np.errstate(invalid="ignore"):
        assert run_pass(g, "fuse_attention", inputs=inputs) == [1]


def test_a_key_that_is_already_transposed_fuses_through_a_view():
    g = start((1, 2, 5, 4), (1, 2, 4, 5), (1, 2, 5, 4))
    q, k, v = g.inputs
    g.outputs = [g.emit("matmul", [g.emit("softmax", [g.emit("matmul", [q, k])], axis=3), v])]
    assert run_pass(g, "fuse_attention") == [1]
    assert ops(g) == ["permute", "attention"]


def attention_second_alpha(g: Graph) -> Value:
    q, k, v = g.inputs
    weights = g.emit("softmax", [g.emit("matmul", [q, k], transpose_b=True)], axis=3)
    return g.emit("matmul", [weights, v], alpha=2.0)


@pytest.mark.parametrize(
    "almost",
    [
        lambda g: attention_by_hand(g, axis=2),
        lambda g: attention_by_hand(g, alpha=0.5, transpose_b=True),
        attention_second_alpha,
        lambda g: attention_by_hand(g, g.constant(np.tri(5, dtype=bool)), fill=-1e9),
        lambda g: attention_by_hand(g, g.constant(np.zeros((3, 1, 1, 5, 5), np.float32)), axis=4),
    ],
    ids=["softmax over rows", "value transposed", "scaled product", "finite fill", "mask adds an axis"],
)
def test_almost_attention_is_left_alone(almost):
    g = start((1, 2, 5, 5), (1, 2, 5, 5), (1, 2, 5, 5))
    g.outputs = [almost(g)]
    assert run_pass(g, "fuse_attention") == [0]


def test_attention_weights_that_are_also_returned_keep_their_nodes():
    g = start(*QKV)
    out = attention_by_hand(g)
    g.outputs = [out, g.nodes[1].output]
    assert run_pass(g, "fuse_attention") == [0]


def test_attention_with_a_broadcast_batch_is_left_alone():
    g = start((3, 2, 5, 4), (1, 2, 5, 4), (1, 2, 5, 4))
    g.outputs = [attention_by_hand(g)]
    assert run_pass(g, "fuse_attention") == [0]


# --- linear ------------------------------------------------------------------------------------------------------


def weight(g: Graph, *shape: int, seed: int = 0) -> Value:
    return g.constant(np.random.default_rng(seed).standard_normal(shape).astype(np.float32), "w")


def linear(g: Graph, x: Value, w: Value, bias=None, residual=None, **attributes) -> Value:
    return g.emit("linear", [x, w, bias, residual], **attributes)


@pytest.mark.parametrize("transpose_b", [False, True])
def test_matmul_by_a_constant_matrix_becomes_linear(transpose_b):
    g = start((2, 3, 4))
    w = weight(g, *((6, 4) if transpose_b else (4, 6)))
    g.outputs = [g.emit("matmul", [g.inputs[0], w], transpose_b=transpose_b, alpha=2.0)]
    assert run_pass(g, "use_linear") == [1]
    assert ops(g) == ["linear"]


def test_matmul_by_an_input_or_a_batch_of_matrices_stays():
    g = start((2, 3, 4), (4, 6))
    g.outputs = [g.emit("matmul", [g.inputs[0], v]) for v in (g.inputs[1], weight(g, 2, 4, 6))]
    assert run_pass(g, "use_linear") == [0]


@pytest.mark.parametrize("transpose_b", [False, True])
def test_a_transpose_by_a_constant_matrix_is_permuted_first(transpose_b):
    g = start((2, 4, 3))
    w = weight(g, *((6, 4) if transpose_b else (4, 6)))
    g.outputs = [g.emit("matmul", [g.inputs[0], w], transpose_a=True, transpose_b=transpose_b, alpha=2.0)]
    assert run_pass(g, "use_linear") == [1]
    assert ops(g) == ["permute", "linear"]


@pytest.mark.parametrize("transpose_a", [False, True])
def test_a_constant_matrix_from_the_left_of_a_transpose_becomes_linear_and_its_transpose(transpose_a):
    g = start((2, 3, 4))
    w = weight(g, *((4, 6) if transpose_a else (6, 4)))
    g.outputs = [g.emit("matmul", [w, g.inputs[0]], transpose_a=transpose_a, transpose_b=True, alpha=2.0)]
    assert run_pass(g, "use_linear") == [1]
    assert ops(g) == ["linear", "permute"]


def test_a_constant_from_the_left_of_rows_or_several_constants_stay():
    g = start((2, 4, 3), (2, 3, 4))
    g.outputs = [
        g.emit("matmul", [weight(g, 6, 4), g.inputs[0]]),
        g.emit("matmul", [weight(g, 2, 6, 4), g.inputs[1]], transpose_b=True),
    ]
    assert run_pass(g, "use_linear") == [0]


def test_three_linears_of_one_value_become_one():
    g = start((2, 5, 4))
    x = g.inputs[0]
    biases = [g.constant(np.full(n, n, np.float32)) for n in (6, 2, 3)]
    g.outputs = [linear(g, x, weight(g, n, 4, seed=n), b) for n, b in zip((6, 2, 3), biases, strict=True)]
    assert run_pass(g, "merge_linear") == [2]
    assert ops(g) == ["linear", "slice", "slice", "slice"]


def test_constants_are_joined_anew_for_everybody_who_looks():
    g = start((2, 3))
    parts = [weight(g, 2, 3), weight(g, 2, 4, seed=1)]
    whole, twice = g.joined(parts, 1), g.joined([g.joined(parts, 1)] * 2, 0)
    expected = np.concatenate([parts[0].data, parts[1].data], 1)
    assert whole.type == TensorType("float32", (2, 7))
    assert whole.is_constant
    np.testing.assert_array_equal(whole.data, expected)
    np.testing.assert_array_equal(twice.data, np.concatenate([expected, expected]))
    assert not np.shares_memory(whole.data, whole.data)
    with messages.raises(ValueError):
        g.joined([parts[0], g.inputs[0]], 0)


def test_linears_that_differ_stay_apart():
    g = start((5, 4), (5, 4))
    x, y = g.inputs
    bias = g.constant(np.ones(6, np.float32))
    g.outputs = [
        linear(g, x, weight(g, 6, 4)),
        linear(g, y, weight(g, 6, 4)),
        linear(g, x, weight(g, 6, 4), bias),
        linear(g, x, weight(g, 4, 6), transpose_weight=False),
        linear(g, x, weight(g, 6, 4), activation="relu"),
        linear(g, x, weight(g, 5, 4), None, g.emit("slice", [weight(g, 5, 5)], axis=0, start=0, stop=5, step=1)),
    ]
    assert run_pass(g, "merge_linear") == [0]


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"])
def test_bias_residual_and_activation_join_linear(activation):
    g = start((3, 4), (3, 6))
    x, r = g.inputs
    y = g.emit("add", [linear(g, x, weight(g, 6, 4)), g.constant(np.ones(6, np.float32))])
    y = g.emit("add", [r, y])
    op = activation.removesuffix("_tanh")
    g.outputs = [g.emit(op, [y], **({"approximate": "tanh"} if activation == "gelu_tanh" else {}))]
    assert run_pass(g, "fuse_epilogue") == [3]
    assert ops(g) == ["linear"]
    assert g.nodes[0].attributes["activation"] == activation


def conv(g: Graph, x: Value, **changed) -> Value:
    plain = {"stride": (1,), "low": (1,), "high": (1,), "dilation": (1,)}
    return g.emit("conv", [x, weight(g, 6, 4, 3), None, None], **{**plain, **changed})


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"])
def test_residual_and_activation_join_conv(activation):
    g = start((2, 4, 5), (2, 6, 5))
    y = g.emit("add", [g.inputs[1], conv(g, g.inputs[0])])
    op = activation.removesuffix("_tanh")
    g.outputs = [g.emit(op, [y], **({"approximate": "tanh"} if activation == "gelu_tanh" else {}))]
    assert run_pass(g, "fuse_epilogue") == [2]
    assert ops(g) == ["conv"]
    assert g.nodes[0].attributes["activation"] == activation


def test_residual_and_activation_join_conv_transpose():
    g = start((2, 4, 5), (2, 6, 10))
    how = {"stride": (2,), "low": (1,), "high": (1,), "dilation": (1,)}
    y = g.emit("conv_transpose", [g.inputs[0], weight(g, 4, 6, 4), None, None], **how)
    g.outputs = [g.emit("silu", [g.emit("add", [y, g.inputs[1]])])]
    assert run_pass(g, "fuse_epilogue") == [2]
    assert ops(g) == ["conv_transpose"]
    assert g.nodes[0].attributes["activation"] == "silu"


def between(g: Graph, x: Value, low: float, high: float) -> Value:
    return g.emit("minimum", [g.emit("maximum", [x, scalar(g, low)]), scalar(g, high)])


def test_relu6_joins_conv_and_linear():
    g = start((2, 4, 5), (3, 4))
    x, rows = g.inputs
    g.outputs = [between(g, conv(g, x), 0, 6), between(g, linear(g, rows, weight(g, 6, 4)), 0, 6)]
    assert run_pass(g, "fuse_epilogue") == [2]
    assert [node.attributes["activation"] for node in g.nodes] == ["relu6", "relu6"]


def test_other_bounds_than_those_of_relu6_stay_outside():
    g = start((2, 4, 5), (2, 6, 5))
    x, other = g.inputs
    y = conv(g, x)
    g.outputs = [
        between(g, conv(g, x), 0, 5),
        between(g, conv(g, x), -1, 6),
        between(g, conv(g, x, activation="relu"), 0, 6),
        g.emit("minimum", [g.emit("maximum", [conv(g, x), other]), scalar(g, 6.0)]),
        g.emit("minimum", [g.emit("maximum", [y, scalar(g, 0.0)]), scalar(g, 6.0)]),
        y,
    ]
    assert run_pass(g, "fuse_epilogue") == [0]


def test_of_two_convs_that_are_added_one_is_the_others_residual():
    g = start((2, 4, 5))
    g.outputs = [g.emit("add", [conv(g, g.inputs[0]), conv(g, g.inputs[0])])]
    assert run_pass(g, "fuse_epilogue") == [1]
    assert ops(g) == ["conv", "conv"]


def test_what_a_conv_cannot_take_stays_outside():
    g = start((2, 4, 5), (6, 1), (2, 6, 5))
    x, column, residual = g.inputs
    read = conv(g, x)
    g.outputs = [
        g.emit("add", [conv(g, x), column]),  # broadcasts, and is not known
        g.emit("add", [conv(g, x), g.constant(np.ones(5, np.float32))]),  # a number a place, not a channel
        g.emit("add", [conv(g, x, activation="relu"), residual]),  # after an activation
        g.emit("relu", [read]),  # of a value that is read elsewhere too
        read,
    ]
    assert run_pass(g, "fuse_epilogue") == [0]


def test_a_linear_that_others_read_keeps_its_activation_outside():
    g = start((3, 4))
    y = linear(g, g.inputs[0], weight(g, 6, 4))
    g.outputs = [y, g.emit("relu", [y])]
    assert run_pass(g, "fuse_epilogue") == [0]


def test_nothing_is_added_after_an_activation():
    g = start((3, 4), (3, 6))
    y = linear(g, g.inputs[0], weight(g, 6, 4), activation="relu")
    g.outputs = [g.emit("add", [y, g.inputs[1]])]
    assert run_pass(g, "fuse_epilogue") == [0]


def test_an_addend_that_broadcasts_in_another_way_is_neither_bias_nor_residual():
    g = start((6, 4), (6, 1))
    y = linear(g, g.inputs[0], weight(g, 6, 4))
    g.outputs = [g.emit("add", [y, g.inputs[1]])]
    assert run_pass(g, "fuse_epilogue") == [0]


def test_a_linear_added_to_itself_is_left_alone():
    g = start((3, 4))
    y = linear(g, g.inputs[0], weight(g, 6, 4))
    g.outputs = [g.emit("add", [y, y])]
    assert run_pass(g, "fuse_epilogue") == [0]
