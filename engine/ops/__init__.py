"""The op table: one family a file, one op one declaration. See `table.Op` for what an op says of itself."""

from engine.ops import attention, conv, create, fused, index, matmul, norm, pointwise, pool, reduce, resample, shape
from engine.ops.table import MAX_RANK, TABLE, Attribute, Layout, Op, TensorType

FAMILIES = (pointwise, matmul, conv, attention, norm, pool, reduce, resample, shape, create, index, fused)

__all__ = ["FAMILIES", "MAX_RANK", "TABLE", "Attribute", "Layout", "Op", "TensorType"]
