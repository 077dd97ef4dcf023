"""Calls that read at positions given by integers."""

from __future__ import annotations

from collections.abc import Sequence

from engine.exporter.context import CallContext
from engine.exporter.handlers import aten
from engine.graph import Value

_GRADIENTS = "shapes the gradient, never the result"
_POSITIONS = ("int64", "int32")


def positions(x: CallContext, index: Value) -> Value:
    return index if index.dtype in _POSITIONS else x.cast(index, "int64")


@aten("embedding", harmless={"padding_idx": _GRADIENTS, "scale_grad_by_freq": _GRADIENTS, "sparse": _GRADIENTS})
def embedding(x: CallContext, weight: Value, indices: Value) -> Value:
    return x.emit("embedding", weight, positions(x, indices))


@aten("gather", harmless={"sparse_grad": _GRADIENTS})
def gather(x: CallContext, self: Value, dim: int, index: Value) -> Value:
    """Rank 0 on either side stands for a vector of one element."""
    source, places = x.lifted(self), x.lifted(positions(x, index))
    y = x.emit("gather", source, places, axis=x.axis(dim, len(source.shape)))
    return x.reshape(y, index.shape)


@aten("index_select")
def index_select(x: CallContext, self: Value, dim: int, index: Value) -> Value:
    """Rows of a parameter are an embedding, whose table may have a lower precision; both refuse the same positions."""
    source = x.lifted(self)
    if self.is_parameter and len(self.shape) == 2 and x.axis(dim, 2) == 0:
        return x.emit("embedding", self, x.lifted(positions(x, index)))
    y = x.emit("index_select", source, x.lifted(positions(x, index)), axis=x.axis(dim, len(source.shape)))
    return x.reshape(y, x.result.shape)


@aten("index.Tensor")
def index(x: CallContext, self: Value, indices: Sequence[Value | None]) -> Value:
    given = {axis: index for axis, index in enumerate(indices) if index is not None}
    masks = [index.type for index in given.values() if index.dtype in ("bool", "uint8")]
    if masks:
        x.refuse(f"indexing with a mask ({masks[0]}) makes a shape that depends on the values of tensors; use where")
    if not given:
        return self
    return x.emit("index", self, *(positions(x, index) for index in given.values()), axes=tuple(given))
