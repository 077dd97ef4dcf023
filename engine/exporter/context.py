"""What a handler sees of the graph being built: emitting ops, casting, scalars, refusing. Knows no ATen name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch

from engine import dtypes
from engine.exporter.registry import Refusal
from engine.exporter.weights import to_numpy
from engine.graph import Graph, Value
from engine.ops import MAX_RANK, TensorType
from engine.sizes import Size, same

Number = float  # int and bool included, as type checkers read it
Operand = Value | Number


@dataclass(frozen=True)
class Missing:
    """Stands for a result that has no value in the graph. Reading it is refused with `reason`, or passed on in
    silence where the reason was given already (`reason` is None).
    """

    reason: str | None


def dtype_name(dtype: torch.dtype) -> str:
    """The engine's name of a torch dtype; Refusal where it has none."""
    name = str(dtype).removeprefix("torch.")
    if name not in dtypes.BY_NAME:
        raise Refusal(f"element type {name} is not supported (known: {', '.join(dtypes.BY_NAME)})")
    return name


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype of an engine dtype."""
    found: torch.dtype = getattr(torch, name)
    return found


Sizes = Callable[[Any], int]
"""A size as torch has it -> an int or a formula; Refusal where it depends on data."""


def tensor_type(meta: Any, size: Sizes) -> TensorType:
    """Element type and shape of a (fake) tensor.

    Raises:
        Refusal: no tensor, an element type that the engine lacks, or sizes that depend on the data.
    """
    if not isinstance(meta, torch.Tensor):
        raise Refusal(f"the result is a {type(meta).__name__} that depends on the values of tensors")
    if meta.layout is not torch.strided:
        raise Refusal(f"layout {meta.layout} is not supported")
    if len(meta.shape) > MAX_RANK:
        raise Refusal(f"a tensor of rank {len(meta.shape)}: the most that is supported is {MAX_RANK}")
    return TensorType(dtype_name(meta.dtype), tuple(map(size, meta.shape)))


class CallContext:
    """The context of one ATen call.

    Attributes:
        graph: the graph being built.
        meta: what torch says the call returns: a fake tensor, or a list of them.
        source: ``file:line`` in the user's model.
        size: a size as torch has it -> an int or a formula.
    """

    def __init__(self, graph: Graph, meta: Any, source: str, size: Sizes) -> None:
        self.graph = graph
        self.meta = meta
        self.source = source
        self.size = size

    @property
    def result(self) -> TensorType:
        """Element type and shape that torch gives the (only, or first) result."""
        return tensor_type(self.meta[0] if isinstance(self.meta, list | tuple) else self.meta, self.size)

    def refuse(self, reason: str) -> NoReturn:
        """Give up on this call; the reason reaches the user together with those of all other calls."""
        raise Refusal(reason)

    def emit(self, op: str, *inputs: Value | None, **attributes: Any) -> Value:
        """One node of `inputs` in declared order; what the op refuses becomes a refusal of the call."""
        return self._emit(op, inputs, attributes)

    def emit_named(self, op: str, inputs: Mapping[str, Value | None], **attributes: Any) -> Value:
        """`emit` of an op with optional inputs: each by its declared name, absent ones omitted or None."""
        return self._emit(op, inputs, attributes)

    def _emit(
        self, op: str, inputs: Sequence[Value | None] | Mapping[str, Value | None], attributes: Mapping[str, Any]
    ) -> Value:
        try:
            return self.graph.emit(op, inputs, source=self.source, **attributes)
        except ValueError as error:
            raise Refusal(str(error)) from None

    # --- element types -----------------------------------------------------------------------------------------

    @staticmethod
    def common_dtype(a: Operand, b: Operand) -> str:
        """The type that torch promotes to: tensors with axes count before those of rank 0, these before numbers."""
        return dtype_name(torch.result_type(_sample(a), _sample(b)))

    def cast(self, operand: Operand, dtype: str) -> Value:
        """The operand as a value of `dtype`; itself where it is one. Numbers become constants of rank 0."""
        if not isinstance(operand, Value):
            return self.scalar(operand, dtype)
        return operand if operand.dtype == dtype else self.emit("cast", operand, dtype=dtype)

    def scalar(self, number: Number, dtype: str) -> Value:
        """A constant of rank 0. Integers wrap and floats round as in torch's arithmetic with Python numbers."""
        number = _plain(number)
        wide = torch.int64 if isinstance(number, int) else torch.float64
        try:
            tensor = torch.tensor(number, dtype=wide).to(torch_dtype(dtype))
        except RuntimeError:
            self.refuse(f"the number {number} does not fit {dtype}")
        return self.graph.constant(to_numpy(tensor), "scalar")

    def fill(self, number: Number, result: TensorType) -> Value:
        """`number` everywhere."""
        number = _plain(number)
        if float(number) != number and number == number:  # noqa: PLR0124  # NaN is a float, and equals nothing
            self.refuse(f"the integer {number} is not exact as a float64")
        return self.emit("full", shape=result.shape, value=float(number), dtype=result.dtype)

    def constant(self, data: np.ndarray) -> Value:
        """A constant made while exporting."""
        return self.graph.constant(data)

    # --- shapes ------------------------------------------------------------------------------------------------

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """`value` under another shape, every size of it known; itself where nothing changes."""
        return value if same(tuple(shape), value.shape) else self.emit("reshape", value, shape=tuple(shape))

    def expand(self, value: Value, shape: Sequence[int]) -> Value:
        """`value` broadcast to `shape`; itself where nothing changes."""
        return value if same(tuple(shape), value.shape) else self.emit("expand", value, shape=tuple(shape))

    def permute(self, value: Value, order: Sequence[int]) -> Value:
        """Axes in another order; itself where nothing changes."""
        order = tuple(order)
        return value if order == tuple(range(len(order))) else self.emit("permute", value, axes_order=order)

    def slice(self, value: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        """Elements start, start + step, ... before stop; itself where that is everything."""
        if same((start, stop, step), (0, value.shape[axis], 1)):
            return value
        return self.emit("slice", value, axis=axis, start=start, stop=stop, step=step)

    def axis(self, axis: int, rank: int) -> int:
        """`axis` counted from the front. A tensor of rank 0 is read as a vector, as torch does."""
        return range(max(rank, 1))[axis]

    def lifted(self, value: Value) -> Value:
        """A value of rank 0 as a vector of one element; others themselves."""
        return value if value.shape else self.reshape(value, (1,))


def _sample(operand: Operand) -> Any:
    """An empty tensor (or the number itself) that promotes as the operand does."""
    if not isinstance(operand, Value):
        return _plain(operand)
    return torch.empty((0,) if operand.shape else (), dtype=torch_dtype(operand.dtype))


def _plain(number: Any) -> Number:
    """`number`; of a size that differs from call to call the example's, to which the program is then bound."""
    return int(number) if isinstance(number, Size) else number
