"""The strides that torch would have given a tensor. A program returns dense rows, and other code looks at strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch

from engine.exporter.torch_internals import is_contiguous

Value = Callable[[Any], int]
"""From a symbol of torch's sizes to its number."""


def strides_of(fake: torch.Tensor) -> tuple[Any, ...] | None:
    """The strides of a fake tensor, in elements; some may be symbols. None if its rows are dense."""
    return None if is_contiguous(fake) else tuple(fake.stride())


def ensure_strides(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """`tensor`, of any shape, if it has these strides, in elements; otherwise a copy that has them."""
    if tensor.stride() == strides or not tensor.numel():
        return tensor
    copy = tensor.new_empty_strided(tensor.shape, strides)
    target, source = copy, tensor
    for axis, stride in enumerate(strides):
        if stride == 0:  # torch refuses to write to one place several times
            target, source = target.narrow(axis, 0, 1), source.narrow(axis, 0, 1)
    target.copy_(source)
    return copy


def copy_with_strides(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of `tensor` with the same strides and without a gradient. Memory between its elements is copied too."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided or torch.ops.aten.is_non_overlapping_and_dense.default(tensor):
        return tensor.clone()
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((span,), (1,)).clone().as_strided(tensor.shape, tensor.stride())


def evaluate_all(sizes: Sequence[Any], value: Value) -> tuple[int, ...]:
    """Sizes or strides as numbers."""
    return tuple([evaluate(size, value) for size in sizes])


def evaluate(size: Any, value: Value) -> int:
    """A size, a stride or an offset as a number."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    expression = size.node.expr
    return _substitute(expression, tuple((symbol, value(symbol)) for symbol in expression.free_symbols))


@lru_cache(4096)  # sympy takes tens of microseconds for it, and sizes come again
def _substitute(expression: Any, known: tuple[tuple[Any, int], ...]) -> int:
    return int(expression.xreplace(dict(known)))
