"""FLOPs and bytes against examples counted by hand."""

from __future__ import annotations

import pytest

from engine.ops import TABLE, TensorType


def f32(*shape: int) -> TensorType:
    return TensorType("float32", shape)


def i64(*shape: int) -> TensorType:
    return TensorType("int64", shape)


def costs(op: str, types: list[TensorType | None], **attributes) -> tuple[int, int]:
    declared = TABLE[op]
    complete = declared.complete(attributes)
    outputs = declared.infer(types, complete)
    return declared.flops(types, outputs, complete), declared.nbytes(types, outputs, complete)


Q, K, V = f32(2, 4, 5, 8), f32(2, 4, 7, 8), f32(2, 4, 7, 6)
KV_BYTES = 4 * 2 * 4 * (5 * 8 + 7 * 8 + 7 * 6)
OUT_BYTES = 4 * 2 * 4 * 5 * 6
HALVES = {"kernel": (2, 2), "stride": (2, 2), "low": (0, 0), "high": (0, 0)}
SCAN = [f32(2, 3, 4), f32(2, 3, 4), f32(4, 5), f32(2, 3, 5), f32(2, 3, 5), None, None, None]

COUNTED = [
    ("exp", [f32(3, 4)], {}, 12, 96),
    ("add", [f32(3, 4), f32(4)], {}, 12, 4 * (12 + 4 + 12)),
    ("eq", [i64(3), i64(3)], {}, 3, 24 + 24 + 3),
    ("gelu", [f32(10)], {}, 50, 80),
    ("gelu", [f32(10)], {"approximate": "tanh"}, 90, 80),
    ("cast", [f32(10)], {"dtype": "float64"}, 0, 120),
    ("where", [TensorType("bool", (5,)), f32(), f32(5)], {}, 5, 5 + 4 + 20 + 20),
    # 12 products, 12 sums, 12 GELUs of 5 operations
    (
        "pointwise",
        [f32(3, 4), f32(), f32(4)],
        {"program": (("mul", 0, 1), ("add", 3, 2), ("gelu", 4))},
        12 + 12 + 60,
        4 * (12 + 1 + 4 + 12),
    ),
    # divide, round, add, two comparisons; subtract, multiply
    ("quantize_rows", [f32(3, 4)], {}, 36, 48 + 12 + 12),
    ("quantize", [f32(3, 4)], {"scale": 0.5}, 60, 48 + 12),
    ("dequantize", [TensorType("uint8", (12,))], {"scale": 0.5, "dtype": "float16"}, 24, 12 + 24),
    # 2 M N K
    ("matmul", [f32(5, 7), f32(7, 6)], {}, 2 * 5 * 6 * 7, 4 * (35 + 42 + 30)),
    ("matmul", [f32(7, 5), f32(7, 6)], {"transpose_a": True}, 2 * 5 * 6 * 7, 4 * (35 + 42 + 30)),
    ("matmul", [f32(3, 5, 7), f32(7, 6)], {"alpha": 0.5}, 3 * (2 * 5 * 6 * 7 + 30), 4 * (105 + 42 + 90)),
    ("linear", [f32(2, 5, 7), f32(6, 7), None, None], {}, 2 * 10 * 6 * 7, 4 * (70 + 42 + 60)),
    # ... and one an element of the output for bias, residual and ReLU each
    (
        "linear",
        [f32(2, 5, 7), f32(6, 7), f32(6), f32(2, 5, 6)],
        {"activation": "relu"},
        2 * 10 * 6 * 7 + 3 * 60,
        4 * (70 + 42 + 6 + 60 + 60),
    ),
    (
        "linear",
        [f32(5, 7), f32(6, 7), None, None],
        {"activation": "gelu_tanh"},
        2 * 5 * 6 * 7 + 9 * 30,
        4 * (35 + 42 + 30),
    ),
    # two products, a product of both, and SiLU
    ("gated_linear", [f32(5, 7), f32(12, 7), None], {}, 4 * 5 * 6 * 7 + 5 * 30, 4 * (35 + 84 + 30)),
    ("gated_linear", [f32(5, 7), f32(12, 7), f32(12)], {}, 4 * 5 * 6 * 7 + 7 * 30, 4 * (35 + 84 + 12 + 30)),
    # 2 * 3 channels * 2 * 3 taps for each of 2 * 5 * 4 * 2 results, whether or not a tap lies on padding
    (
        "conv",
        [f32(2, 3, 5, 4), f32(5, 3, 2, 3), None, None],
        {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "dilation": (1, 1)},
        36 * 80,
        4 * (120 + 90 + 80),
    ),
    (
        "conv",
        [f32(2, 6, 4), f32(4, 3, 3), f32(4), f32(2, 4, 4)],
        {"stride": (1,), "low": (1,), "high": (1,), "dilation": (1,), "groups": 2, "activation": "relu"},
        32 * (2 * 3 * 3 + 3),
        4 * (48 + 36 + 4 + 32 + 32),
    ),
    # each of 2 * 3 * 4 inputs times 5 / 1 channels and 3 taps, and a bias for each of 2 * 5 * 9 results
    (
        "conv_transpose",
        [f32(2, 3, 4), f32(3, 5, 3), f32(5), None],
        {"stride": (2,), "low": (0,), "high": (0,), "dilation": (1,)},
        2 * 24 * 15 + 90,
        4 * (24 + 45 + 5 + 90),
    ),
    (
        "conv_transpose",
        [f32(2, 3, 4), f32(3, 5, 3), f32(5), f32(2, 5, 9)],
        {"stride": (2,), "low": (0,), "high": (0,), "dilation": (1,), "activation": "relu"},
        2 * 24 * 15 + 3 * 90,
        4 * (24 + 45 + 5 + 90 + 90),
    ),
    ("max_pool", [f32(2, 3, 4, 6)], {**HALVES, "dilation": (1, 1)}, 36 * 4, 4 * (144 + 36)),
    ("avg_pool", [f32(2, 3, 4, 6)], HALVES, 36 * 4, 4 * (144 + 36)),
    ("pad", [f32(2, 3)], {"low": (0, 1), "high": (0, 1)}, 0, 4 * (6 + 10)),
    ("grid_sample", [f32(2, 3, 4, 5), f32(2, 7, 1, 2)], {"mode": "bicubic"}, 2 * 16 * 42, 4 * (120 + 28 + 42)),
    ("resample", [f32(2, 3), i64(7, 2), f32(7, 2)], {"axis": 1}, 2 * 2 * 14, 4 * (6 + 14 + 14) + 8 * 14),
    # a state: 7 operations; an element: delta * x, bias and softplus (3), skip (2), gate (silu, product)
    ("selective_scan", SCAN, {}, 24 * (7 * 5 + 1), 4 * (3 * 24 + 4 * 5 + 2 * 6 * 5)),
    (
        "selective_scan",
        [*SCAN[:5], f32(4), f32(2, 3, 4), f32(4)],
        {"softplus": True},
        24 * (7 * 5 + 1 + 3 + 2 + 5),
        4 * (4 * 24 + 4 * 5 + 2 * 6 * 5 + 8),
    ),
    ("rope", [f32(2, 3, 4), f32(3, 4), f32(3, 4)], {}, 3 * 24, 4 * (24 + 12 + 12 + 24)),
    # 35 pairs in each of 8 heads: 2 * 8 for the score, 1 for the scale, 5 for the softmax, 2 * 6 for the sum
    ("attention", [Q, K, V, None], {"scale": 0.5}, 8 * 35 * (16 + 1 + 5 + 12), KV_BYTES + OUT_BYTES),
    ("attention", [Q, K, V, f32(5, 7)], {"scale": 1.0}, 8 * 35 * (16 + 1 + 5 + 12), KV_BYTES + OUT_BYTES + 140),
    # causal: query i sees keys 0..i, 1 + 2 + 3 + 4 + 5 pairs
    ("attention", [Q, K, V, None], {"scale": 1.0, "causal": True}, 8 * 15 * (16 + 5 + 12), KV_BYTES + OUT_BYTES),
    # ... with more queries than keys: 1 + 2, then 2 for each of the other three
    (
        "attention",
        [f32(1, 5, 8), f32(1, 2, 8), f32(1, 2, 8), None],
        {"scale": 1.0, "causal": True},
        9 * (16 + 5 + 16),
        4 * (40 + 16 + 16 + 40),
    ),
    ("layer_norm", [f32(3, 4), None, None, None], {"axes": 1, "epsilon": 0.1}, 5 * 12, 96),
    ("layer_norm", [f32(3, 4), f32(4), f32(4), None], {"axes": 1, "epsilon": 0.1}, 7 * 12, 96 + 32),
    # a sum costs one addition an element and reading the addend
    ("layer_norm", [f32(3, 4), None, None, f32(3, 4)], {"axes": 1, "epsilon": 0.1}, 6 * 12, 96 + 48),
    ("rms_norm", [f32(3, 4), f32(4), None], {"axes": 1, "epsilon": 0.1}, 4 * 12, 96 + 16),
    ("rms_norm", [f32(3, 4), f32(4), f32(3, 4)], {"axes": 1, "epsilon": 0.1}, 5 * 12, 96 + 16 + 48),
    ("group_norm", [f32(3, 4), None, None], {"groups": 2, "epsilon": 0.1}, 5 * 12, 96),
    ("group_norm", [f32(3, 4), f32(4), f32(4)], {"groups": 2, "epsilon": 0.1}, 7 * 12, 96 + 32),
    ("softmax", [f32(3, 4)], {"axis": 1}, 5 * 12, 96),
    ("sum", [f32(3, 4)], {"axes": (1,)}, 12, 48 + 12),
    ("var", [f32(3, 4)], {"axes": (1,)}, 48, 48 + 12),
    ("argmax", [f32(3, 4)], {"axis": 1}, 12, 48 + 24),
    ("cumsum", [f32(3, 4)], {"axis": 1}, 12, 96),
    ("reshape", [f32(3, 4)], {"shape": (12,)}, 0, 96),
    ("expand", [f32(3, 1)], {"shape": (3, 4)}, 0, 12 + 48),
    ("slice", [f32(100, 4)], {"axis": 0, "start": 5, "stop": 7}, 0, 2 * 32),  # not the hundred rows
    ("flip", [f32(3, 4)], {"axes": (1,)}, 0, 96),
    ("windows", [f32(9)], {"axis": 0, "size": 4, "step": 2}, 0, 2 * 48),  # what a copy of the windows moves
    ("concat", [f32(2), f32(3)], {"axis": 0}, 0, 40),
    ("full", [], {"shape": (2, 3), "value": 1.0, "dtype": "float64"}, 0, 48),
    ("tril", [f32(3, 4)], {}, 0, 96),
    # indices, rows read, rows written; never the whole table
    ("embedding", [f32(30522, 8), i64(2, 3)], {}, 0, 48 + 2 * 4 * 48),
    # 24 rows' sums twice, then the norm with weight and bias; ids, rows of both tables, positions, affine, result
    (
        "embedding_norm",
        [f32(30522, 8), i64(4, 6), f32(2, 8), i64(1, 6), f32(6, 8), None, f32(8), f32(8)],
        {"epsilon": 0.1},
        192 * (2 + 7),
        8 * (24 + 6) + 4 * (192 + 48 + 48 + 16 + 192),
    ),
    # 12 places of 10 channels of 6 operations, bias and activation; 2 results a channel of 4 taps and bias
    (
        "expand_depthwise",
        [f32(1, 3, 4, 3), f32(10, 3), f32(10), f32(10, 1, 2, 2), f32(10)],
        {"stride": (2, 2), "low": (0, 0), "high": (0, 0), "dilation": (1, 1), "expand_activation": "relu"},
        120 * (6 + 2) + 20 * (8 + 1),
        4 * (36 + 30 + 10 + 40 + 10 + 20),
    ),
    ("gather", [f32(1000, 4), i64(2, 4)], {"axis": 0}, 0, 64 + 2 * 32),
    ("index_select", [f32(1000, 4), i64(2)], {"axis": 0}, 0, 16 + 2 * 32),
    # n log2(count) comparisons
    ("argsort", [f32(3, 64)], {"axis": 1, "count": 64}, 192 * 6, 4 * 192 + 8 * 192),
    ("argsort", [f32(3, 64)], {"axis": 1, "count": 4}, 192 * 2, 4 * 192 + 8 * 12),
    # all of x read and written, the indices, and of the source what they read
    ("scatter", [f32(5, 4), i64(2, 3), f32(9, 9)], {"axis": 1}, 0, 2 * 80 + 48 + 24),
    ("scatter", [f32(5, 4), i64(2, 3), f32(9, 9)], {"axis": 1, "reduce": "sum"}, 6, 2 * 80 + 48 + 24),
    ("index_put", [f32(5, 4), f32(3, 4), i64(3)], {"axes": (0,)}, 0, 2 * 80 + 48 + 24),
    ("index_put", [f32(5, 4), f32(), i64(3)], {"axes": (0,), "accumulate": True}, 12, 2 * 80 + 4 + 24),
    ("index", [f32(1000, 4), i64(3), i64(3)], {"axes": (0, 1)}, 0, 48 + 2 * 12),
]


@pytest.mark.parametrize(("op", "types", "attributes", "flops", "nbytes"), COUNTED)
def test_costs_are_what_a_hand_counts(op, types, attributes, flops, nbytes):
    assert costs(op, types, **attributes) == (flops, nbytes)


@pytest.mark.parametrize("op", ["relu", "tanh", "sigmoid", "silu"])
def test_an_activation_costs_the_same_fused_and_alone(op):
    plain, _ = costs("linear", [f32(5, 7), f32(6, 7), None, None])
    fused, _ = costs("linear", [f32(5, 7), f32(6, 7), None, None], activation=op)
    assert fused - plain == costs(op, [f32(5, 6)])[0]
    plain = {"stride": (1,), "low": (0,), "high": (0,), "dilation": (1,)}
    alone, _ = costs("conv", [f32(1, 2, 5), f32(3, 2, 2), None, None], **plain)
    fused, _ = costs("conv", [f32(1, 2, 5), f32(3, 2, 2), None, None], **plain, activation=op)
    assert fused - alone == costs(op, [f32(1, 3, 4)])[0]


def test_empty_operands_cost_nothing():
    assert costs("matmul", [f32(0, 5), f32(5, 3)]) == (0, 60)
    assert costs("exp", [f32(0)]) == (0, 0)
