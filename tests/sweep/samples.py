"""Samples of operators: torch's own database of them, which its tests use, as models with inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

_LEFT_OUT = ("argsort",)
"""It returns positions alone, and which of equal elements comes first differs from torch's."""

OPERATORS = {f"{one.name}.{one.variant_test_name}".rstrip("."): one for one in op_db if one.name not in _LEFT_OUT}
"""Operators by name; of several variants of one, such as kinds of padding, each has a name."""
_TENSOR = object()
"""Stands among the arguments for the next one of the tensors."""


@dataclass(frozen=True)
class Sample:
    """One call of an operator.

    Attributes:
        operator: its name in `OPERATORS`.
        number: of the sample, in torch's order.
        function: what is called.
        leaves: the arguments without their structure; `_TENSOR` in place of tensors.
        structure: of the arguments.
        tensors: the arguments that are tensors.
    """

    operator: str
    number: int
    function: Any
    leaves: list[Any]
    structure: Any
    tensors: list[torch.Tensor]

    def __str__(self) -> str:
        shapes = ", ".join(f"{str(one.dtype).removeprefix('torch.')}{list(one.shape)}" for one in self.tensors)
        others = [one for one in self.leaves if one is not _TENSOR]
        return f"{self.operator} sample {self.number}: {shapes}" + (f", and {others}" if others else "")

    def model(self) -> torch.nn.Module:
        """A module of one argument, the list of tensors, which calls the operator."""
        return _Call(self).eval()

    def inputs(self) -> list[torch.Tensor]:
        """Copies of the tensors, with their strides: the operator may write to them."""
        return [one.clone(memory_format=torch.preserve_format) for one in self.tensors]

    def sizes(self) -> list[int]:
        """The sizes of 2 and more of all axes, each once: those that can vary from call to call."""
        return sorted({size for one in self.tensors for size in one.shape if size >= 2})

    def resized(self, sizes: dict[int, int]) -> Sample:
        """The same with axes of other sizes, by the former size. Elements repeat, so positions stay in range."""
        return replace(self, tensors=[_resized(one, sizes) for one in self.tensors])

    def widened(self) -> Sample:
        """The same with floats in float64."""
        return replace(self, tensors=[one.double() if one.is_floating_point() else one for one in self.tensors])


class _Call(torch.nn.Module):
    def __init__(self, sample: Sample) -> None:
        super().__init__()
        self._sample = sample

    def forward(self, tensors: list[torch.Tensor]) -> Any:
        left = list(tensors)
        leaves = [left.pop(0) if one is _TENSOR else one for one in self._sample.leaves]
        arguments, named = pytree.tree_unflatten(leaves, self._sample.structure)
        return self._sample.function(*arguments, **named)


def _resized(tensor: torch.Tensor, sizes: dict[int, int]) -> torch.Tensor:
    shape = [sizes.get(size, size) for size in tensor.shape]
    if tensor.numel() == 0:
        return tensor.new_zeros(shape)
    count = int(torch.tensor(shape).prod())
    return tensor.reshape(-1)[torch.arange(count) % tensor.numel()].reshape(shape)


def list_samples(operator: str, dtype: torch.dtype, limit: int) -> Iterator[Sample]:
    """About `limit` samples of an operator, evenly spread; none if it has no such type. Only dense tensors."""
    if dtype not in OPERATORS[operator].dtypes:
        return
    found = _list_all(operator, dtype)
    for made in found[:: max(1, len(found) // limit)]:
        if made.tensors and all(one.layout == torch.strided and not one.is_nested for one in made.tensors):
            yield made


def find_sample(operator: str, dtype: torch.dtype, number: int) -> Sample:
    """The sample of this number."""
    return _list_all(operator, dtype)[number]


def _list_all(operator: str, dtype: torch.dtype) -> list[Sample]:
    info = OPERATORS[operator]
    found = info.sample_inputs("cpu", dtype, requires_grad=False)
    return [
        make_sample(operator, number, info.op, (sample.input, *sample.args), sample.kwargs)
        for number, sample in enumerate(found)
    ]


def make_sample(
    operator: str, number: int, function: Any, arguments: tuple[Any, ...], named: dict[str, Any] | None = None
) -> Sample:
    """The call of `function` with these arguments."""
    leaves, structure = pytree.tree_flatten((arguments, named or {}))
    tensors = [one.detach() for one in leaves if isinstance(one, torch.Tensor)]
    plain = [_TENSOR if isinstance(one, torch.Tensor) else one for one in leaves]
    return Sample(operator, number, function, plain, structure, tensors)
