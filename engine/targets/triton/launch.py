"""What a step of a plan starts on the device, as data. Imports neither triton nor torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Operand(NamedTuple):
    """A pointer to an element of an operand of the step, `offset` elements from its first one.

    `position` is that in `Step.operands`; `view` is the type to read the memory as, "" for the operand's own.
    """

    position: int
    offset: int = 0
    view: str = ""


class Scratch(NamedTuple):
    """A pointer into the step's working memory, `start` bytes from its beginning."""

    start: int
    dtype: str


class Fault(NamedTuple):
    """A pointer to the step's word of the fault table: a kernel that meets a bad index stores 1 there."""


FAULT = Fault()


class Launch(NamedTuple):
    """One start of a Triton kernel; `function` is what `triton.jit` has made.

    Attributes:
        grid: number of programs along one to three axes; all are at least 1.
        arguments: parameter -> `Operand`, `Scratch`, `FAULT`, a number, or the value of a constant parameter.
        unless_shared: positions of two operands. The launch is left out if they have the same place in memory, because
            it copies one to the other.
    """

    function: Any
    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    options: Mapping[str, int] = {}  # never written to
    unless_shared: tuple[int, int] | None = None


class Launches(NamedTuple):
    """How a kernel runs a step: launches that see what those before them have written, and share working memory."""

    launches: tuple[Launch, ...]
    scratch_bytes: int = 0


def count_blocks(size: int, block: int) -> int:
    """Blocks of `block` elements that cover `size` elements."""
    return -(-size // block)


def next_power_of_two(size: int) -> int:
    """The smallest power of two that is at least `size`."""
    return 1 << max(size - 1, 0).bit_length()
