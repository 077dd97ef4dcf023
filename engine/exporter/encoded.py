"""Encoded constants of models that are quantised already, as operands of ops. Knows no torch.

Products and embeddings read an encoded constant if their kernels multiply its integers: 8 bits, with a scale for each
channel of the result or row of a table. Other ops read the decoded elements, a constant of the packed or saved program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine import sizes
from engine.encodings import INT8_CHANNEL, INT8_TENSOR
from engine.graph import VIEWS, Filled, Graph, Value, spread_scale
from engine.ops import TABLE, Op, TensorType


class Unstorable(Exception):
    """No encoding stores these integers and scales. The text is the reason."""


def encode(graph: Graph, data: Value, scales: Value | float, axis: int | None, dtype: str, name: str) -> Value:
    """The constant ``data * scales`` of element type `dtype`, stored as these. `data` is an int8 constant.

    `scales` is a float constant [data.shape[axis]], or one number, for which `axis` is None. Unstorable if scales are
    not finite, or not exact in float32.
    """
    type_ = TensorType(dtype, data.shape)
    if not isinstance(scales, Value):
        _check_scales(np.asarray(scales))
        scale = graph.later(Filled(scales, ()), TensorType("float32", ()), f"{name}.scale")
        return graph.encoded({"data": data, "scale": scale}, INT8_TENSOR, type_, name)
    _check_scales(scales.elements)
    assert axis is not None  # noqa: S101  (as the arguments say)
    if scales.dtype != "float32":
        scales = graph.constant(scales.elements.astype(np.float32), f"{name}.scale")
    return graph.encoded({"data": data, "scale": scales}, INT8_CHANNEL.along(axis), type_, name)


def _check_scales(scales: np.ndarray) -> None:
    wide = scales.astype(np.float64).reshape(-1)
    if (bad := np.flatnonzero(~np.isfinite(wide))).size:
        which = f"the scale of channel {bad[0]}" if wide.size > 1 else "the scale"
        raise Unstorable(f"{which} is {wide[bad[0]]}; expected a finite number")
    if scales.dtype == np.float64 and scales.ndim and (wide.astype(np.float32) != wide).any():
        raise Unstorable("its scales are float64, and not exact in float32; convert them by .float()")


def decode(graph: Graph, constant: Value) -> Value:
    """The elements of an encoded constant, as a constant that is not encoded."""
    assert constant.form is not None  # noqa: S101  (it is a constant)
    plain = graph.later(constant.form, constant.type.plain, constant.name)
    plain.inherit(constant)
    return plain


def view(graph: Graph, op: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> Value | None:
    """The view `op` of an encoded constant as an encoded constant; None if the encoding does not allow it."""
    x = inputs[0] if inputs else None
    if x is None or x.type.encoding is None or op not in VIEWS:
        return None
    complete = TABLE[op].complete(attributes)
    return VIEWS[op](graph, x, complete) if sizes.is_fixed(list(complete.values())) else None


def operands(
    graph: Graph, op: Op, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
) -> Sequence[Value | None]:
    """`inputs` as `op` reads them: encoded constants stay encoded if fast kernels read them, others are decoded."""
    if all(value is None or value.type.encoding is None for value in inputs):
        return inputs
    complete, names = op.complete(attributes), op.input_names
    found: list[Value | None] = []
    for n, value in enumerate(inputs):
        if value is not None and value.type.encoding is not None:
            axis = op.find_channel_axis(names[min(n, len(names) - 1)], complete) if len(value.shape) == 2 else None
            value = (None if axis is None else spread_scale(graph, value, axis)) or decode(graph, value)
        found.append(value)
    return found
