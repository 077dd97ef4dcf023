"""Where an op rounds floats, and in which type it computes between. Part of its declaration; knows no op.

By its definition an op computes in float64, where products of all narrower floats are exact, and rounds at the points
that it declares. A kernel may compute in a narrower type, but not in one that is narrower than `ACCUMULATION` says, and
it rounds at the same points. Integers are computed in their own type and wrap.

Most ops round once. A fused op does, too, though the ops that it replaces round at each step: the wider numbers are in
registers, and to round them at each step would cost time and, in bfloat16, most of their bits. Where an op rounds
between, either its definition is that of another op applied to a value that the model has in memory (a norm of a sum
that other nodes read as well), or it exists in float32 alone and gives the bits of the ops that it replaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

ACCUMULATION: Mapping[str, str] = MappingProxyType(
    {"float64": "float64", "float32": "float32", "float16": "float32", "bfloat16": "float32"}
)
"""Element type -> the narrowest type in which kernels may compute and sum."""
RESULT = "result"


@dataclass(frozen=True)
class Rounding:
    """The rounding of one op.

    Attributes:
        points: values that are rounded to the element type, in the order in which they are computed; empty if none is,
            because the op moves or compares elements, or every result fits the type of its operands.
        accumulation: element type -> the narrowest type between these points.
    """

    points: tuple[str, ...]
    accumulation: Mapping[str, str] = field(default_factory=lambda: ACCUMULATION)

    def __str__(self) -> str:
        return "once" if self.points == (RESULT,) else ", ".join(self.points)


EXACT = Rounding(())
ONCE = Rounding((RESULT,))
