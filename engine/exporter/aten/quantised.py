"""Integers with scales, in models that are quantised already: calls of torch's `quantized_decomposed` and of torchao.

`dequantize` of a constant is an encoded constant with the model's own integers and scales; `quantize` of a constant is
computed by torch when the model is compiled. Calls on values that depend on the inputs are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from engine.exporter import encoded
from engine.exporter.context import CallContext, Number
from engine.exporter.handlers import FROM_META, foreign, refused
from engine.exporter.weights import to_numpy
from engine.graph import Value, find_constant, stem_of
from engine.memory import as_tensor

LIBRARY = "quantized_decomposed"
_RANGE = {
    "quant_min": "torch only checks it: the stored integers are within it, and no value is clipped",
    "quant_max": "as quant_min",
}
_STORED = "the element type of the input, which the handler reads"
_TYPES = _RANGE | {"dtype": _STORED, "out_dtype": FROM_META}
_TYPES_OF_TORCHAO = _RANGE | {"input_dtype": _STORED, "output_dtype": FROM_META}
_ACTIVATIONS = "it reads a value that depends on the inputs, and scales of activations are not supported yet"
_WEIGHTS = "quantise only the weights, to 8 bits"


def _constant(x: CallContext, value: Value) -> Value:
    """`value` as a constant that is not encoded; the call is refused if it is none."""
    found = find_constant(x.graph, value)
    if found is None or not found.is_plain:
        x.refuse(f"{_ACTIVATIONS}; {_WEIGHTS}")
    return found


def _dequantise(
    x: CallContext, data: Value, scales: Value | float, zeros: Value | Number | None, axis: int | None
) -> Value:
    """The encoded constant ``(data - zeros) * scales``, with a scale for each index of `axis`, or one for all."""
    data = _constant(x, data)
    name = stem_of(data)
    if data.dtype != "int8":
        x.refuse(f"{name} is stored as {data.dtype}: weights of int8 are supported")
    points = _constant(x, zeros).elements if isinstance(zeros, Value) else zeros
    if points is not None and np.any(points):
        x.refuse(f"{name} has zero points other than 0, which no encoding of 8 bits stores yet")
    given = _constant(x, scales) if isinstance(scales, Value) else scales
    if isinstance(given, Value) and given.type.size == 1:
        given, axis = float(given.elements.reshape(-1)[0]), None
    try:
        return encoded.encode(x.graph, data, given, axis, x.result.dtype, name)
    except (encoded.Unstorable, ValueError) as error:
        x.refuse(f"{name}: {error}")


@foreign(f"{LIBRARY}.dequantize_per_channel.default", harmless=_TYPES)
def dequantize_per_channel(x: CallContext, input: Value, scales: Value, zero_points: Value | None, axis: int) -> Value:
    return _dequantise(x, input, scales, zero_points, x.axis(axis, len(input.shape)))


@foreign(
    f"{LIBRARY}.dequantize_per_tensor.default",
    f"{LIBRARY}.dequantize_per_tensor.tensor",
    f"{LIBRARY}.dequantize_per_tensor.tensor2",
    harmless=_TYPES,
)
def dequantize_per_tensor(x: CallContext, input: Value, scale: Value | float, zero_point: Value | int) -> Value:
    return _dequantise(x, input, scale, zero_point, None)


@foreign("torchao.dequantize_affine.default", harmless=_TYPES_OF_TORCHAO)
def dequantize_affine(
    x: CallContext, input: Value, block_size: Sequence[int], scale: Value, zero_point: Value | None
) -> Value:
    """One scale for each block of `block_size`; blocks must be whole channels, or the whole tensor."""
    axes = [axis for axis, (block, size) in enumerate(zip(block_size, input.shape, strict=True)) if block != size]
    if len(axes) > 1 or any(block_size[axis] != 1 for axis in axes):
        name = stem_of(_constant(x, input))
        x.refuse(
            f"{name} has a scale for each block of {list(block_size)} elements: only scales for channels or for the "
            "whole tensor are supported yet"
        )
    return _dequantise(x, input, x.reshape(scale, (scale.type.size,)), zero_point, axes[0] if axes else None)


def _quantise(x: CallContext, call: str, value: Value, arguments: Sequence[Any]) -> Value:
    """The integers of a constant, as torch computes them."""
    constants = [_constant(x, one) if isinstance(one, Value) else one for one in (value, *arguments)]
    packet, which = call.split(".")
    tensors = [as_tensor(one.elements) if isinstance(one, Value) else one for one in constants]
    integers = getattr(getattr(torch.ops.quantized_decomposed, packet), which)(*tensors)
    return x.graph.constant(to_numpy(integers), value.name)


@foreign(f"{LIBRARY}.quantize_per_channel.default")
def quantize_per_channel(
    x: CallContext,
    input: Value,
    scales: Value,
    zero_points: Value,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> Value:
    arguments = (scales, zero_points, axis, quant_min, quant_max, dtype)
    return _quantise(x, "quantize_per_channel.default", input, arguments)


@foreign(f"{LIBRARY}.quantize_per_tensor.default")
def quantize_per_tensor(
    x: CallContext, input: Value, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Value:
    return _quantise(x, "quantize_per_tensor.default", input, (scale, zero_point, quant_min, quant_max, dtype))


refused(
    f"{_ACTIVATIONS}; {_WEIGHTS}",
    f"{LIBRARY}.quantize_per_tensor.tensor",
    f"{LIBRARY}.quantize_per_tensor.tensor2",
    f"{LIBRARY}.choose_qparams.tensor",
    f"{LIBRARY}.choose_qparams_symmetric.tensor",
    f"{LIBRARY}.choose_qparams_per_token.default",
    f"{LIBRARY}.choose_qparams_per_token_asymmetric.default",
    f"{LIBRARY}.quantize_per_token.default",
    f"{LIBRARY}.dequantize_per_token.default",
    "torchao.choose_qparams_affine.default",
    "torchao.quantize_affine.default",
)
refused(
    f"it reads weights with scales for groups of elements, which are not supported yet; {_WEIGHTS}",
    f"{LIBRARY}.dequantize_per_channel_group.default",
)
refused(f"it multiplies integers, and quantised activations are not supported yet; {_WEIGHTS}", "_int_mm")
