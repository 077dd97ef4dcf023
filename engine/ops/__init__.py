"""The op table: one family a file, one op one declaration. See `table.Op` for what an op says of itself."""

from engine.ops import attention, create, fused, index, matmul, norm, pointwise, reduce, shape
from engine.ops.check import MAX_RANK
from engine.ops.table import TABLE, Attribute, Layout, Op, TensorType

FAMILIES = (pointwise, matmul, attention, norm, reduce, shape, create, index, fused)

__all__ = ["FAMILIES", "MAX_RANK", "TABLE", "Attribute", "Layout", "Op", "TensorType"]
