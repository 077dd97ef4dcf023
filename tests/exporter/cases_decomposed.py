"""Calls without a handler: torch says them in others. Each is translated all the same; a few ways to call each."""

import torch

from tests.exporter.cases import case, f32, i64, positive

X, Y, Z = f32(3, 4), f32(3, 4), f32(4)
CASES = []

UNARY = (
    "celu",
    "deg2rad",
    "frac",
    "hardsigmoid",
    "hardswish",
    "isfinite",
    "isneginf",
    "isposinf",
    "log_sigmoid",
    "mish",
)
UNARY += ("positive", "rad2deg", "selu", "sgn", "sinc", "softplus", "softshrink", "hardshrink")
UNARY += ("nansum", "count_nonzero", "glu", "diag_embed", "trace", "leaky_relu", "elu", "logit", "ravel", "mH")
CASES += [case(name, (X,)) for name in UNARY]
CASES += [case("elu", (X,), lambda op, a: op(a, 0.5, 2.0, 3.0)), case("leaky_relu", (X,), lambda op, a: op(a, 0.3))]
BINARY = ("logaddexp", "logaddexp2", "xlogy.Tensor", "heaviside", "kron", "inner", "tensordot", "mse_loss", "isclose")
BINARY += ("smooth_l1_loss", "huber_loss", "hstack", "vstack", "dstack", "column_stack", "true_divide.Tensor")
LISTS = ("hstack", "vstack", "dstack", "column_stack")
CASES += [
    case(name, (X, Y), (lambda op, a, b: op([a, b])) if name in LISTS else (lambda op, a, b: op(a, b)))
    for name in BINARY
    if name != "tensordot"
]
CASES += [
    case("einsum", (X, Y), lambda op, a, b: op("ij,kj->ik", [a, b]), lambda op, a, b: op("ij,ij->j", [a, b])),
    case("einsum", (f32(2, 3, 4, 5), f32(2, 3, 6, 5)), lambda op, a, b: op("bhqd,bhkd->bhqk", [a, b])),
    case("tensordot", (X, f32(4, 2)), lambda op, a, b: op(a, b, [1], [0])),
    case("addr", (X, f32(3), Z), lambda op, a, b, c: op(a, b, c, beta=0.5, alpha=2)),
    case("vdot", (Z, f32(4))),
    case("linalg_cross", (f32(2, 3), f32(2, 3))),
    case("lerp.Scalar", (X, Y), lambda op, a, b: op(a, b, 0.3)),
    case("lerp.Tensor", (X, Y, Z)),
    case("addcmul", (X, Y, Z), lambda op, a, b, c: op(a, b, c, value=2)),
    case("addcdiv", (X, Y, positive(4)), lambda op, a, b, c: op(a, b, c, value=2)),
    case("logsumexp", (X,), lambda op, a: op(a, [1], True), lambda op, a: op(a, [0, 1])),
    case("aminmax", (X,), lambda op, a: op(a), lambda op, a: op(a, dim=1, keepdim=True)),
    case("repeat_interleave.self_int", (X,), lambda op, a: op(a, 2), lambda op, a: op(a, 3, 1)),
    case("meshgrid.indexing", (f32(3), Z), lambda op, a, b: op([a, b], indexing="ij")),
    case("tensor_split.sections", (X,), lambda op, a: op(a, 3, 1)),
    case("hsplit.int", (X,), lambda op, a: op(a, 2)),
    case("unsafe_chunk", (X,), lambda op, a: op(a, 2, -1)),
    case("broadcast_to", (X,), lambda op, a: op(a, [2, 3, 4])),
    case("swapdims", (X,), lambda op, a: op(a, 0, -1)),
    case("moveaxis.int", (X,), lambda op, a: op(a, 0, 1)),
    case("pixel_shuffle", (f32(1, 4, 3, 3),), lambda op, a: op(a, 2)),
    case("pixel_unshuffle", (f32(1, 1, 4, 4),), lambda op, a: op(a, 2)),
    case("take", (X, torch.tensor([0, 5, 11]))),
    case("take_along_dim", (X, i64(3, 2, low=0, high=4)), lambda op, a, i: op(a, i, 1)),
    case("index_add", (X, torch.tensor([0, 2, 0]), X), lambda op, a, i, s: op(a, 0, i, s, alpha=2)),
    case("index_copy", (X, torch.tensor([2, 0]), X[:2]), lambda op, a, i, s: op(a, 0, i, s)),
    case("index_fill.int_Scalar", (X, torch.tensor([0, 2])), lambda op, a, i: op(a, -1, i, 2.5)),
    case("isin.Tensor_Tensor", (i64(3, 4), i64(3))),
    case("linspace", (X,), lambda op, _a: op(0, 1, 5)),
    case("eye.m", (X,), lambda op, _a: op(3, 4)),
    case("threshold", (X,), lambda op, a: op(a, 0.1, 20)),
    case("prelu", (f32(2, 3, 4), f32(3))),
    case("cosine_similarity", (X, Y)),
    case("pairwise_distance", (X, Y)),
]
