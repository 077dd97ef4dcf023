"""What kernels ask of the layout of an operand."""

from __future__ import annotations

import math
from typing import NamedTuple

from engine.targets.triton.registry import Tensor


class Rows(NamedTuple):
    """An operand as rows of elements that lie side by side.

    Attributes:
        number: of rows.
        stride: elements from one row to the next.
        width: elements of a row.
    """

    number: int
    stride: int
    width: int


def as_rows(tensor: Tensor) -> Rows | None:
    """The rows along the last axis; None if they are not evenly spaced, or their elements are apart."""
    *leading, width = tensor.shape or (1,)
    *steps, unit = tensor.strides or (1,)
    count = math.prod(leading)
    if unit != 1 and width > 1:
        return None
    stride, reach = width, None
    for size, step in reversed(list(zip(leading, steps, strict=True))):
        if size == 1:
            continue
        if reach is None:
            stride = step
        elif step != reach and count:
            return None
        reach = step * size
    return Rows(count, stride, width)
