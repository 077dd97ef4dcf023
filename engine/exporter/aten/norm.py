"""Normalisations and attention: the calls that stay whole instead of falling into their parts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from engine.exporter.aten.channel_norm import normalised
from engine.exporter.context import CallContext, Missing
from engine.exporter.handlers import aten
from engine.graph import Value
from engine.ops.table import broadcast


@aten("layer_norm", "native_layer_norm", harmless={"cudnn_enable": "chooses among kernels of another device"})
def layer_norm(
    x: CallContext, input: Value, normalized_shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> Value | list[Value | Missing]:
    affine = {"weight": weight, "bias": bias}
    return normalised(x, "layer_norm", input, affine, axes=len(normalized_shape), epsilon=eps)


def _epsilon(value: Value, eps: float | None) -> float:
    """Without eps torch takes the machine epsilon of the type it computes in, float32 for the halves."""
    computed = torch.float64 if value.dtype == "float64" else torch.float32
    return torch.finfo(computed).eps if eps is None else eps


@aten("rms_norm", "_fused_rms_norm")
def rms_norm(
    x: CallContext, input: Value, normalized_shape: Sequence[int], weight: Value | None, eps: float | None
) -> Value | list[Value | Missing]:
    axes, epsilon = len(normalized_shape), _epsilon(input, eps)
    return normalised(x, "rms_norm", input, {"weight": weight}, axes=axes, epsilon=epsilon)


# --- attention --------------------------------------------------------------------------------------------------


@aten("scaled_dot_product_attention")
def scaled_dot_product_attention(
    x: CallContext,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Value:
    """Rows that see no key give zeros: so torch does on the cpu, with a bool mask as with -inf (a test checks it).

    torch adds a bool mask as 0 and -inf, so that a NaN score stays NaN under it; a selection would hide it.
    """
    if dropout_p != 0:
        x.refuse(f"dropout_p={dropout_p} draws random numbers")
    query, key, value = _heads(x, query, key, value, grouped=enable_gqa)
    if attn_mask is not None and attn_mask.dtype == "bool":
        attn_mask = x.emit("where", attn_mask, x.scalar(0.0, query.dtype), x.scalar(-math.inf, query.dtype))
    elif attn_mask is not None:
        attn_mask = x.cast(attn_mask, query.dtype)
    y = x.emit_named(
        "attention",
        {"query": query, "key": key, "value": value, "mask": attn_mask},
        scale=1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale,
        causal=is_causal,
        masked_rows="zero",
    )
    return x.reshape(y, x.result.shape)


def _heads(x: CallContext, query: Value, key: Value, value: Value, *, grouped: bool) -> tuple[Value, Value, Value]:
    """The operands with a head axis and equal leading axes, broadcast as torch.matmul would broadcast them."""
    operands = [v if len(v.shape) > 2 else x.reshape(v, (1, *v.shape)) for v in (query, key, value)]
    query_heads, key_heads, value_heads = (v.shape[-3] for v in operands)
    if key_heads != value_heads and grouped:
        x.refuse(f"{key_heads} heads of keys and {value_heads} of values with enable_gqa")
    lead = broadcast(*(v.shape[:-3] for v in operands))
    heads = query_heads if grouped else broadcast((query_heads,), (key_heads,), (value_heads,))[0]
    # One head of keys and values is shared by all queries, which the op does by itself.
    shared = grouped or key_heads == value_heads == 1
    counts = (heads, key_heads if shared else heads, value_heads if shared else heads)
    q, k, v = (
        x.expand(operand, (*lead, count, *operand.shape[-2:])) for operand, count in zip(operands, counts, strict=True)
    )
    return q, k, v
