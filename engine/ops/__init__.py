"""The op table: one family a file, one op one declaration. See `table.Op` for what an op says of itself."""

from engine.ops import (
    attention,
    conv,
    create,
    fused,
    index,
    matmul,
    norm,
    order,
    pointwise,
    pool,
    quantize,
    reduce,
    resample,
    scan,
    shape,
    write,
)
from engine.ops.table import MAX_RANK, TABLE, Attribute, Layout, Op, TensorType

FAMILIES = (
    *(pointwise, matmul, conv, attention, norm, pool, reduce, order),
    *(resample, shape, create, index, write, scan, quantize, fused),
)

__all__ = ["FAMILIES", "MAX_RANK", "TABLE", "Attribute", "Layout", "Op", "TensorType"]
