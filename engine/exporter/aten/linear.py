"""Linear algebra: products of matrices and vectors, `linear`, and the add-a-product calls with alpha and beta."""

from __future__ import annotations

import math

from engine.exporter.context import CallContext, Number
from engine.exporter.handlers import aten
from engine.graph import Value


@aten("matmul", "mm", "bmm", "mv", "dot", renamed=dict.fromkeys(("mat2", "vec", "tensor"), "other"))
def product(x: CallContext, self: Value, other: Value) -> Value:
    """torch.matmul: a vector on the left is a row, on the right a column, and its axis is dropped from the result."""
    left = x.reshape(self, (1, *self.shape)) if len(self.shape) == 1 else self
    right = x.reshape(other, (*other.shape, 1)) if len(other.shape) == 1 else other
    y = x.emit("matmul", left, right)
    rows = y.shape[-2:-1] if len(self.shape) > 1 else ()
    columns = y.shape[-1:] if len(other.shape) > 1 else ()
    return x.reshape(y, (*y.shape[:-2], *rows, *columns))


@aten("outer")
def outer(x: CallContext, self: Value, vec2: Value) -> Value:
    dtype = x.result.dtype
    column = x.reshape(x.cast(self, dtype), (*self.shape, 1))
    return x.emit("mul", column, x.reshape(x.cast(vec2, dtype), (1, *vec2.shape)))


@aten("linear")
def linear(x: CallContext, input: Value, weight: Value, bias: Value | None) -> Value:
    if len(weight.shape) == 1:  # F.linear with a vector of weights: one output, without an axis
        y = product(x, input, weight)
        return y if bias is None else x.emit("add", y, bias)
    if bias is None or bias.shape == weight.shape[:1]:
        return x.emit_named("linear", {"x": input, "weight": weight, "bias": bias})
    return x.emit("add", x.emit_named("linear", {"x": input, "weight": weight}), bias)


@aten("bilinear")
def bilinear(x: CallContext, input1: Value, input2: Value, weight: Value, bias: Value | None) -> Value:
    """Input1 [.., m] times the weight [k, m, n] for all k and n, then times input2 [.., n]."""
    (k, m, n), rows = weight.shape, math.prod(input1.shape[:-1])
    wide = x.emit("matmul", x.reshape(input1, (rows, m)), x.reshape(x.permute(weight, (1, 0, 2)), (m, k * n)))
    y = x.emit("matmul", x.reshape(wide, (rows, k, n)), x.reshape(input2, (rows, n, 1)))
    y = x.reshape(y, x.result.shape)
    return y if bias is None else x.emit("add", y, bias)


def _scaled(x: CallContext, value: Value, factor: Number) -> Value:
    return value if factor == 1 else x.arithmetic("mul", value, factor, value.dtype)


def _add_product(x: CallContext, addend: Value, a: Value, b: Value, beta: Number, alpha: Number) -> Value:
    """The sum beta * addend + alpha * (a @ b). With beta 0 the addend is not read, so its NaN do not spread."""
    vector = len(b.shape) == 1
    if beta == 1 and not vector and len(a.shape) == 2 and addend.shape == b.shape[-1:]:
        inputs = {"x": a, "weight": b, "bias": addend}
        return x.emit_named("linear", inputs, transpose_weight=False, alpha=float(alpha))
    y = product(x, a, b) if vector else x.emit("matmul", a, b, alpha=float(alpha))
    y = _scaled(x, y, alpha if vector else 1)
    return y if beta == 0 else x.emit("add", _scaled(x, addend, beta), y)


@aten(
    *("addmm", "addmv", "baddbmm"),
    renamed=dict.fromkeys(("mat1", "mat", "batch1"), "a") | dict.fromkeys(("mat2", "vec", "batch2"), "b"),
)
def addmm(x: CallContext, self: Value, a: Value, b: Value, beta: Number, alpha: Number) -> Value:
    return x.expand(_add_product(x, self, a, b, beta, alpha), x.result.shape)


@aten("addbmm")
def addbmm(x: CallContext, self: Value, batch1: Value, batch2: Value, beta: Number, alpha: Number) -> Value:
    """The sum of the products over the batch is one product over batch and inner axis together."""
    batch, rows, inner = batch1.shape
    wide = x.reshape(x.permute(batch1, (1, 0, 2)), (rows, batch * inner))
    tall = x.reshape(batch2, (batch * inner, batch2.shape[-1]))
    return _add_product(x, self, wide, tall, beta, alpha)
