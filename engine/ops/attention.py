"""Scaled dot-product attention, grouped-query form included, and the rotary embedding of its operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.ops.check import (
    BOOL,
    FLOATS,
    bounded,
    broadcast_of,
    cast_array,
    of_dtype,
    of_rank,
    of_same_dtype,
    optional,
    present,
    result,
    rounded,
    widened,
    wrong,
)
from engine.ops.norm import SOFTMAX_FLOPS
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, declare

_NAMES = ("query", "key", "value")


def _infer(inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    query = of_dtype("attention", "query", present("attention", inputs, 0, "query"), FLOATS)
    key, value = present("attention", inputs, 1, "key"), present("attention", inputs, 2, "value")
    is_narrow = query.dtype == "float32" and key.dtype == value.dtype == "bfloat16"
    for name, operand in zip(_NAMES[1:], (key, value), strict=True):
        of_same_dtype("attention", name, operand, operand.dtype if is_narrow else query.dtype)
    operands = (query, key, value)
    for name, operand in zip(_NAMES, operands, strict=True):
        of_rank("attention", name, operand, 3)
    *batch, heads, s, d = query.shape
    *batch_k, groups, t, d_k = key.shape
    shown = ", ".join(map(str, operands))
    if batch_k != batch or list(value.shape[:-3]) != batch:
        raise wrong("attention", f"equal leading axes {batch}", shown)
    if d_k != d:
        raise wrong("attention", f"keys of width {d} as the queries", shown)
    if value.shape[-3:-1] != (groups, t):
        raise wrong("attention", f"as many value heads and rows as keys, {groups} and {t}", shown)
    if heads % groups if groups else heads:
        raise wrong("attention", f"a number of query heads that {groups} key heads divide", shown)
    scores = (*batch, heads, s, t)
    bounded("attention", "scores", scores, query.itemsize)
    _check_mask(optional(inputs, 3), query.dtype, scores)
    e = value.shape[-1]
    rows = (s, heads) if attributes["transpose_output"] else (heads, s)
    return result("attention", query.dtype, (*batch, *rows, e))


def _check_mask(mask: TensorType | None, dtype: str, scores: tuple[int, ...]) -> None:
    if mask is None:
        return
    of_dtype("attention", "mask", mask, BOOL | {dtype})
    if broadcast_of("attention", [mask, TensorType(dtype, scores)]) != scores:
        raise wrong("attention", f"a mask that broadcasts to {list(scores)}", mask)


def _reference(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    mask: np.ndarray | None,
    *,
    scale: float,
    causal: bool,
    masked_rows: str,
    transpose_output: bool,
) -> np.ndarray:
    heads, groups = query.shape[-3], key.shape[-3]
    share = heads // groups if groups else 1
    with np.errstate(all="ignore"):
        k = np.repeat(widened(key), share, axis=-3)
        v = np.repeat(widened(value), share, axis=-3)
        scores = scale * np.matmul(widened(query), np.swapaxes(k, -1, -2))
        if mask is not None:
            scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + widened(mask)
        if causal:
            scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
        top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
        weights = np.exp(scores - top)
        weights = weights / np.sum(weights, axis=-1, keepdims=True)
        if masked_rows == "zero":
            weights = np.where(top == -np.inf, 0.0, weights)
        y = np.matmul(weights, v)
    if transpose_output:
        y = np.swapaxes(y, -2, -3)
    return np.ascontiguousarray(cast_array(y, query.dtype))


def _flops(inputs: Types, outputs: Sequence[TensorType], attributes: Attributes) -> int:
    """Two products, scale, mask and softmax for each pair of a query and a key that it may see."""
    query, key = present("attention", inputs, 0, "query"), present("attention", inputs, 1, "key")
    *batch, heads, s, d = query.shape
    t, e = key.shape[-2], outputs[0].shape[-1]
    visible = min(s, t)
    pairs = visible * (visible + 1) // 2 + max(s - t, 0) * t if attributes["causal"] else s * t
    each = 2 * d + (attributes["scale"] != 1) + (optional(inputs, 3) is not None) + SOFTMAX_FLOPS + 2 * e
    return int(np.prod([*batch, heads], dtype=np.int64)) * pairs * each


declare(
    Op(
        "attention",
        "attention",
        ("query", "key", "value", "mask?"),
        _infer,
        _reference,
        {
            "scale": Attribute("float"),
            "causal": Attribute("bool", False),
            "masked_rows": Attribute("choice", "zero", ("zero", "nan")),
            "transpose_output": Attribute("bool", False),
        },
        flops=_flops,
        doc="softmax(scale * Q @ K^T, masked) @ V; query [..., H, S, D], key [..., G, T, D], value [..., G, T, E], "
        "G divides H; key and value may be bfloat16 beside a float32 query; the mask is bool (true takes part) or "
        "added, and broadcasts to [..., H, S, T]; causal: key j counts for query i if j <= i; keys that take part for "
        "no query need not be read, so NaN among them may or may not be seen; a row whose scores are all -inf gives "
        "zeros or NaN (masked_rows), and zeros where T is 0; result [..., H, S, E], or [..., S, H, E] with "
        "transpose_output",
    )
)


# --- rope ----------------------------------------------------------------------------------------------------------

ROPE_FLOPS = 3  # an element: two products and their sum


def _rope_infer(inputs: Types, _attributes: Attributes) -> tuple[TensorType, ...]:
    x = of_rank("rope", "x", of_dtype("rope", "x", present("rope", inputs, 0, "x"), FLOATS), 1)
    if x.shape[-1] % 2:
        raise wrong("rope", "'x' with an even last axis", x)
    for position, name in enumerate(("cos", "sin"), 1):
        angles = of_same_dtype("rope", name, present("rope", inputs, position, name), x.dtype)
        if angles.shape[-1:] != x.shape[-1:] or broadcast_of("rope", [angles, x]) != x.shape:
            raise wrong("rope", f"{name!r} that broadcasts to {list(x.shape)} along other axes than the last", angles)
    return result("rope", x.dtype, x.shape)


def _rope_reference(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    def turned(wide: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> np.ndarray:
        low, high = np.split(wide, 2, axis=-1)
        return wide * cosine + np.concatenate([-high, low], axis=-1) * sine

    return rounded(turned, x, cos, sin)


def _rope_flops(_inputs: Types, outputs: Sequence[TensorType], _attributes: Attributes) -> int:
    return ROPE_FLOPS * outputs[0].size


declare(
    Op(
        "rope",
        "attention",
        ("x", "cos", "sin"),
        _rope_infer,
        _rope_reference,
        flops=_rope_flops,
        doc="x * cos + [-x2, x1] * sin, where x1 and x2 are the halves of x along its last axis; cos and sin are "
        "broadcast to x along the others (rotary position embedding, Su et al. 2021)",
    )
)
