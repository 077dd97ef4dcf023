"""Recurrences along a sequence: the scan of a selective state-space model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.ops.check import (
    FLOATS,
    bounded,
    cast_array,
    of_dtype,
    of_rank,
    of_same_dtype,
    of_shape,
    optional,
    present,
    result,
    widened,
    wrong,
)
from engine.ops.pointwise import ACTIVATION_FLOPS, silu
from engine.ops.table import Attribute, Attributes, Op, TensorType, Types, declare

SOFTPLUS_THRESHOLD = 20.0  # from here on softplus is the identity, as in torch; csrc has the same number
STATE_FLOPS = 7  # a state and position: its decay (product, exp), what it takes in (2 products, sum), what it gives (2)
SOFTPLUS_FLOPS = 2  # exp, log1p


def _infer(inputs: Types, _attributes: Attributes) -> tuple[TensorType, ...]:
    name = "selective_scan"
    x = of_rank(name, "x", of_dtype(name, "x", present(name, inputs, 0, "x"), FLOATS), 3, 3)
    batch, sequence, channels = x.shape
    a = of_rank(name, "a", of_same_dtype(name, "a", present(name, inputs, 2, "a"), x.dtype), 2, 2)
    if a.shape[0] != channels:
        raise wrong(name, f"'a' with a row for each of the {channels} channels of x", a)
    bounded(name, "a state", (batch, channels, a.shape[1]), x.itemsize)
    like_x, states, by_channel = x.shape, (batch, sequence, a.shape[1]), (channels,)
    for position, operand, shape in ((1, "delta", like_x), (3, "b", states), (4, "c", states)):
        of_shape(name, operand, of_same_dtype(name, operand, present(name, inputs, position, operand), x.dtype), shape)
    for position, operand, shape in ((5, "skip", by_channel), (6, "gate", like_x), (7, "bias", by_channel)):
        given = optional(inputs, position)
        if given is not None:
            of_shape(name, operand, of_same_dtype(name, operand, given, x.dtype), shape)
    return result(name, x.dtype, x.shape)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.where(x > SOFTPLUS_THRESHOLD, x, np.log1p(np.exp(np.minimum(x, SOFTPLUS_THRESHOLD))))


def _reference(
    x: np.ndarray,
    delta: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    skip: np.ndarray | None,
    gate: np.ndarray | None,
    bias: np.ndarray | None,
    *,
    softplus: bool,
) -> np.ndarray:
    u, step, decay, into, out_of = map(widened, (x, delta, a, b, c))
    with np.errstate(all="ignore"):
        if bias is not None:
            step = step + widened(bias)
        if softplus:
            step = _softplus(step)
        y = np.zeros(x.shape)
        state = np.zeros((x.shape[0], *a.shape))
        for t in range(x.shape[1]):
            taken = (step[:, t] * u[:, t])[:, :, None] * into[:, t, None]
            state = np.exp(step[:, t, :, None] * decay) * state + taken
            y[:, t] = np.sum(state * out_of[:, t, None], axis=-1)
        if skip is not None:
            y = y + widened(skip) * u
        if gate is not None:
            y = y * silu(widened(gate))
        return cast_array(y, x.dtype)


def _flops(inputs: Types, outputs: Sequence[TensorType], attributes: Attributes) -> int:
    states = present("selective_scan", inputs, 2, "a").shape[1]
    has_skip, has_gate, has_bias = (optional(inputs, position) is not None for position in (5, 6, 7))
    around = 2 * has_skip + has_bias + SOFTPLUS_FLOPS * attributes["softplus"]
    return outputs[0].size * (STATE_FLOPS * states + 1 + around + (ACTIVATION_FLOPS["silu"] + 1) * has_gate)


declare(
    Op(
        "selective_scan",
        "scan",
        ("x", "delta", "a", "b", "c", "skip?", "gate?", "bias?"),
        _infer,
        _reference,
        {"softplus": Attribute("bool", False)},
        flops=_flops,
        inplace=(0, 1, 6),  # each is read at a position and channel before the result is written there
        doc="at each position h = exp(d * a) * h + d * b * x and y = (c . h + skip * x) * silu(gate), where d is "
        "delta + bias, its softplus if so asked, and h starts at 0; x, delta, gate [N, S, D], a [D, states], b and c "
        "[N, S, states], skip and bias [D] (Gu and Dao 2023)",
    )
)
