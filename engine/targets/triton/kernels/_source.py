"""Makes kernels of lines of text, for steps whose number of operands, axes or ops is not known beforehand."""

from __future__ import annotations

import hashlib
import linecache
import math
from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from engine.ops.table import MAX_RANK
from engine.targets.triton.kernels import _functions

BLOCK = 1024
"""Elements that a program of such a kernel makes."""


def coordinate_lines(flat: str, letter: str, size: str, rank: int) -> list[str]:
    """Lines that make the coordinates ``letter0`` and so on of a flat number."""
    rest = f"{letter}_rest"  # a name of its own: a loop may not change the type of a name
    lines = [f"{rest} = {flat}"]
    for axis in reversed(range(1, rank)):
        lines += [f"{letter}{axis} = {rest} % {size}{axis}", f"{rest} = {rest} // {size}{axis}"]
    return [*lines, f"{letter}0 = {rest}"]


def dot_text(letter: str, stride: str, names: Sequence[str], zero: str = "tl.zeros_like(i)") -> str:
    """The distance of coordinates. A stride of 0 is not among the `names`: the compiler could not see that it is 0, and
    would read the same index for each element of a row.
    """
    axes = [axis for axis in range(MAX_RANK) if f"{stride}{axis}" in names]
    return " + ".join(f"{letter}{axis} * {stride}{axis}" for axis in axes) or zero


def compile_text(name: str, parameters: Sequence[str], lines: Sequence[str]) -> Any:
    """A kernel of these lines, with the constant parameter BLOCK. The lines may use `_functions` as ``_f``.

    Triton reads the text of a function from the module `linecache`.
    """
    text = f"def {name}({', '.join(parameters)}, BLOCK: tl.constexpr):\n" + "".join(f"    {line}\n" for line in lines)
    path = f"<engine {name} {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    names: dict[str, Any] = {"tl": tl, "_f": _functions}
    exec(compile(text, path, "exec"), names)  # noqa: S102  # the text is made in this package alone
    function = names[name]
    function.__module__ = __name__
    return triton.jit(function)


def needs_64_bits(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> bool:
    """True if the numbers of elements, or their distances, exceed 32 bits."""
    reach = [sum((n - 1) * abs(s) for n, s in zip(sizes, own, strict=True)) for own in strides]
    return max([math.prod(sizes) + BLOCK, *reach]) >= 1 << 31


def dense_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Distances of neighbours in row-major order."""
    return tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))


def size_arguments(name: str, sizes: Sequence[int]) -> dict[str, int]:
    """The arguments ``name0`` and so on, by which flat numbers are divided."""
    return {f"{name}{axis}": max(size, 1) for axis, size in enumerate(sizes)}


def stride_arguments(name: str, strides: Sequence[int]) -> dict[str, int]:
    """The arguments ``name0`` and so on, without those of strides that are 0."""
    return {f"{name}{axis}": stride for axis, stride in enumerate(strides) if stride}
