"""The interface of handlers to the graph: emitting ops, casts, scalars, refusals. Knows no ATen name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch

from engine import dtypes
from engine.exporter import encoded
from engine.exporter.handlers import FaultyCall, Refusal
from engine.exporter.weights import to_numpy
from engine.graph import Graph, Source, Value
from engine.ops import MAX_RANK, TABLE, TensorType
from engine.sizes import Formula, Real, Size, same

_PRODUCTS = frozenset({"linear", "matmul", "conv", "conv_transpose"})
"""Ops for which all tensors must have the same element type in torch."""

Number = float  # int and bool included, as type checkers read it
Operand = Value | Number


@dataclass(frozen=True)
class Missing:
    """A result without a value in the graph. Its readers are refused with `reason`; None: it is reported already."""

    reason: str | None


def dtype_name(dtype: torch.dtype) -> str:
    """The engine's name of a torch dtype; Refusal if it has none."""
    name = str(dtype).removeprefix("torch.")
    if name not in dtypes.BY_NAME:
        raise Refusal(f"element type {name} is not supported (known: {', '.join(dtypes.BY_NAME)})")
    return name


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype of an engine dtype."""
    found: torch.dtype = getattr(torch, name)
    return found


@dataclass(frozen=True)
class Element(Missing):
    """A whole number that is read from a tensor of rank 0, of which only a selection along an axis takes one."""

    value: Value


Sizes = Callable[[Any], int]
"""A size in torch -> an int or a formula; Refusal if it depends on data."""


def tensor_type(meta: Any, size: Sizes) -> TensorType:
    """The type of a (fake) tensor. Refusal for other objects, and for a type, layout, rank or size without support."""
    if not isinstance(meta, torch.Tensor):
        raise Refusal(f"the result is a {type(meta).__name__} that depends on the values of tensors")
    if meta.layout is not torch.strided:
        raise Refusal(f"layout {meta.layout} is not supported")
    if len(meta.shape) > MAX_RANK:
        raise Refusal(f"a tensor of rank {len(meta.shape)}: the most that is supported is {MAX_RANK}")
    return TensorType(dtype_name(meta.dtype), tuple(map(size, meta.shape)))


class CallContext:
    """The context of one ATen call. `meta` is what it returns in torch: a fake tensor, or a list of them."""

    def __init__(self, graph: Graph, meta: Any, source: Source, size: Sizes) -> None:
        self.graph = graph
        self.meta = meta
        self.source = source
        self.size = size

    @property
    def result(self) -> TensorType:
        """Element type and shape of the (only, or first) result in torch."""
        return tensor_type(self.meta[0] if isinstance(self.meta, list | tuple) else self.meta, self.size)

    def alone(self, value: Value, reason: str) -> Value | list[Value | Missing]:
        """`value` as the first result of a call. Further ones are missing, because of `reason`, if the call has any."""
        several = isinstance(self.meta, list | tuple)
        return [value, *[Missing(reason)] * (len(self.meta) - 1)] if several else value

    def refuse(self, reason: str) -> NoReturn:
        """Refuse this call. The user gets the reason together with those of all other refused calls."""
        raise Refusal(reason)

    def emit(self, op: str, *inputs: Value | None, **attributes: Any) -> Value:
        """Emit a node with `inputs` in declared order. If the op refuses them, the call is refused."""
        return self._emit(op, inputs, attributes)

    def emit_named(self, op: str, inputs: Mapping[str, Value | None], **attributes: Any) -> Value:
        """As `emit`, with inputs by their declared names; absent inputs are omitted or None."""
        return self._emit(op, inputs, attributes)

    def _emit(
        self, op: str, inputs: Sequence[Value | None] | Mapping[str, Value | None], attributes: Mapping[str, Any]
    ) -> Value:
        declared = TABLE[op]
        arranged = declared.arrange(inputs) if isinstance(inputs, Mapping) else inputs
        try:
            viewed = encoded.view(self.graph, op, arranged, attributes)
            if viewed is not None:
                return viewed
            operands = encoded.operands(self.graph, declared, arranged, attributes)
            return self.graph.emit(op, operands, source=self.source, **attributes)
        except ValueError as error:
            kinds = sorted({one.dtype for one in arranged if one is not None})
            if op in _PRODUCTS and len(kinds) > 1:
                raise FaultyCall(
                    f"its tensors have the types {' and '.join(kinds)}, and torch refuses to run such a call, too; "
                    "convert them to one type"
                ) from None
            raise Refusal(str(error)) from None

    # --- element types -----------------------------------------------------------------------------------------

    @staticmethod
    def common_dtype(a: Operand, b: Operand) -> str:
        """The type that torch promotes to: tensors with axes have priority over those of rank 0, these over numbers."""
        return dtype_name(torch.result_type(_sample(a), _sample(b)))

    def cast(self, operand: Operand, dtype: str) -> Value:
        """The operand as a value of `dtype`, unchanged if it has that type. Numbers become constants of rank 0."""
        if not isinstance(operand, Value):
            return self.scalar(operand, dtype)
        return operand if operand.dtype == dtype else self.emit("cast", operand, dtype=dtype)

    def scalar(self, number: Number, dtype: str) -> Value:
        """A value of rank 0, a constant unless it depends on sizes. Integers wrap, and floats round to the nearest
        number of `dtype`.
        """
        if isinstance(number, Formula):
            is_whole = isinstance(number, Size) and dtypes.dtype(dtype).kind == "int"  # the cast wraps
            return self.cast(self.emit("full", shape=(), value=number, dtype="int64" if is_whole else dtype), dtype)
        wide = torch.int64 if isinstance(number, int) else torch.float64
        try:
            tensor = torch.tensor(number, dtype=wide, device="cpu").to(torch_dtype(dtype))
        except RuntimeError:
            self.refuse(f"the number {number} does not fit {dtype}")
        return self.graph.constant(to_numpy(tensor), "scalar")

    def arithmetic(self, op: str, a: Operand, b: Operand, dtype: str) -> Value:
        """``op(a, b)`` in `dtype`, for products and quotients. At most one operand is a number.

        Torch multiplies and divides float16 and bfloat16 by the number itself, and by a second operand of rank 0 and a
        wider type. For other ops it rounds the number to the type of the tensor.
        """
        numbers = [one for one in (a, b) if not isinstance(one, Value)]
        kind = torch_dtype(dtype)
        is_exact = not any(isinstance(one, Formula) for one in numbers) and all(
            torch.tensor(one, dtype=torch.float64, device="cpu").to(kind).item() == one for one in numbers
        )
        is_exact &= not (isinstance(b, Value) and b.dtype in ("float32", "float64"))
        if dtype not in dtypes.HALVES or is_exact:
            return self.emit(op, self.cast(a, dtype), self.cast(b, dtype))
        return self.cast(self.emit(op, self.cast(a, "float32"), self.cast(b, "float32")), dtype)

    def fill(self, number: Number, result: TensorType) -> Value:
        if isinstance(number, Formula):
            return self.expand(self.scalar(number, result.dtype), result.shape)
        if float(number) != number and number == number:  # noqa: PLR0124  # NaN is a float and differs from itself
            self.refuse(f"the integer {number} is not exact as a float64")
        return self.emit("full", shape=result.shape, value=float(number), dtype=result.dtype)

    def constant(self, data: np.ndarray) -> Value:
        return self.graph.constant(data)

    # --- shapes ------------------------------------------------------------------------------------------------

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """`value` in another shape without -1; unchanged if it has that shape."""
        return value if same(tuple(shape), value.shape) else self.emit("reshape", value, shape=tuple(shape))

    def expand(self, value: Value, shape: Sequence[int]) -> Value:
        """`value` broadcast to `shape`; unchanged if it has that shape."""
        return value if same(tuple(shape), value.shape) else self.emit("expand", value, shape=tuple(shape))

    def permute(self, value: Value, order: Sequence[int]) -> Value:
        """`value` with its axes in another order; unchanged if the order is the same."""
        order = tuple(order)
        return value if order == tuple(range(len(order))) else self.emit("permute", value, axes_order=order)

    def slice(self, value: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        """Elements start, start + step, ... before stop along an axis; `value` itself if these are all elements."""
        if same((start, stop, step), (0, value.shape[axis], 1)):
            return value
        return self.emit("slice", value, axis=axis, start=start, stop=stop, step=step)

    def axis(self, axis: int, rank: int) -> int:
        """`axis` counted from the front. A tensor of rank 0 is treated as a vector, as in torch."""
        return range(max(rank, 1))[axis]

    def lifted(self, value: Value) -> Value:
        """A value of rank 0 as a vector of one element; other values unchanged."""
        return value if value.shape else self.reshape(value, (1,))


def _sample(operand: Any) -> Any:
    """An empty tensor, or the number itself, with the same type promotion as the operand."""
    if not isinstance(operand, Value):
        return {Size: 1, Real: 1.0}[type(operand)] if isinstance(operand, Formula) else operand
    return torch.empty((0,) if operand.shape else (), dtype=torch_dtype(operand.dtype))
