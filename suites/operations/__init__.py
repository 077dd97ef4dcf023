"""Single operations at the sizes and in the layouts of real models: what `enginebench kernels --sweep` times.

A module for each family, with the list `CASES`. A case is a name, a function of torch tensors, and its operands,
written ``f32[8,128,768]``: an element type of `engine.dtypes` by its code, a shape, and words of `WORDS` behind them.
Knows nothing of measuring.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from engine.dtypes import DTYPES

FAMILIES = (
    "pointwise",
    "casts",
    "layout",
    "reductions",
    "norms",
    "scans",
    "pooling",
    "indexing",
    "ordering",
    "resampling",
    "products",
    "convolutions",
)
WORDS = {
    "fixed": "a weight, which the engine has while compiling",
    "positive": "no element is below 0.1",
    "sorted": "ascending along the last axis",
    "channels_last": "a picture whose channels are adjacent in memory",
    "transposed": "the last two axes are swapped in memory",
    "sliced": "every other element of a tensor twice as long along the last axis",
}
"""What may stand behind the shape; ``<N`` too: integers from 0 to N - 1, where they are 0 to 99 otherwise."""

_OPERAND = re.compile(r"(\w+)\[([\d,]*)\]((?: \S+)*)")
_TYPES = {d.code.lower(): (getattr(torch, d.name), d.kind) for d in DTYPES if hasattr(torch, d.name)}


@dataclass(frozen=True)
class Operation:
    """One case.

    Attributes:
        family: the module that declares it.
        name: what is done, such as ``softmax over channels``.
        function: takes the operands, returns one tensor or several.
        operands: as text.
    """

    family: str
    name: str
    function: Callable[..., Any]
    operands: Sequence[str]

    @property
    def title(self) -> str:
        """Family, name and operands: unique."""
        return f"{self.family}: {self.name} {', '.join(self.operands)}"

    def make_operands(self) -> list[tuple[Tensor, bool]]:
        """Seeded tensors, and whether each is a weight."""
        generator = torch.Generator().manual_seed(0)
        return [(make_operand(text, generator), " fixed" in text) for text in self.operands]


def list_operations(part: str = "") -> list[Operation]:
    """The cases whose title contains `part`, by family."""
    found = [
        Operation(family, name, function, operands)
        for family in FAMILIES
        for name, function, *operands in import_module(f"{__name__}.{family}").CASES
    ]
    return [operation for operation in found if part in operation.title]


def parse_operand(text: str) -> tuple[torch.dtype, str, list[int], list[str]]:
    """Element type, its kind in `engine.dtypes`, shape, and words."""
    match = _OPERAND.fullmatch(text)
    assert match is not None, text  # noqa: S101  # the cases are data of this package
    return *_TYPES[match[1]], [int(size) for size in match[2].split(",") if size], match[3].split()


def make_operand(text: str, generator: torch.Generator) -> Tensor:
    """The tensor that `text` describes: of floats normal with deviation 1."""
    dtype, kind, shape, words = parse_operand(text)
    if "sliced" in words:
        shape[-1] *= 2
    if kind == "float":
        x = torch.randn(shape, generator=generator).to(dtype)
    else:
        below = next((int(word[1:]) for word in words if word.startswith("<")), 2 if kind == "bool" else 100)
        x = torch.randint(below, shape, generator=generator).to(dtype)
    if "positive" in words:
        x = x.abs() + (0.1 if kind == "float" else 1)
    if "sorted" in words:
        x = x.sort(-1).values
    if "channels_last" in words:
        x = x.contiguous(memory_format=torch.channels_last)
    if "transposed" in words:
        x = x.mT.contiguous().mT
    return x[..., ::2] if "sliced" in words else x
