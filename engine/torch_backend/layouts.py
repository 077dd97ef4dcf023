"""Where torch would have let the elements of a tensor lie: a program answers row by row, and others look at strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch

from engine.exporter.torch_internals import is_contiguous

Value = Callable[[Any], int]
"""What a symbol is."""


def strides_of(fake: torch.Tensor) -> tuple[Any, ...] | None:
    """The strides of a fake tensor, in elements, symbols among them; None where it lies row by row."""
    return None if is_contiguous(fake) else tuple(fake.stride())


def laid(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """`tensor`, any shape, with these strides: itself where it has them, else a copy."""
    if tensor.stride() == strides or not tensor.numel():
        return tensor
    found = tensor.new_empty_strided(tensor.shape, strides)
    target, source = found, tensor
    for axis, stride in enumerate(strides):
        if stride == 0:  # torch refuses to write to one place several times
            target, source = target.narrow(axis, 0, 1), source.narrow(axis, 0, 1)
    target.copy_(source)
    return found


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy without a gradient that lies as `tensor` does, with what is between its elements."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided or torch.ops.aten.is_non_overlapping_and_dense.default(tensor):
        return tensor.clone()
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((span,), (1,)).clone().as_strided(tensor.shape, tensor.stride())


def numbers(sizes: Sequence[Any], value: Value) -> tuple[int, ...]:
    """Sizes or strides as numbers."""
    return tuple([number(size, value) for size in sizes])


def number(size: Any, value: Value) -> int:
    """A size, a stride or an offset as a number."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    expression = size.node.expr
    return _at(expression, tuple((symbol, value(symbol)) for symbol in expression.free_symbols))


@lru_cache(4096)  # sympy takes tens of microseconds for it, and sizes come again
def _at(expression: Any, known: tuple[tuple[Any, int], ...]) -> int:
    return int(expression.xreplace(dict(known)))
