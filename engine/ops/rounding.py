"""Which values an op rounds, and in which type it computes them. Part of its declaration; knows no op.

Most definitions compute in float64, where products of all narrower floats are exact, and round at the declared points.
Kernels compute at least in the type that `accumulation` names: `ACCUMULATION`, unless an op declares another one. They
round at the same points. Integers are computed in their own type and wrap.

Most ops round only the result. A fused op does, too, though the ops that it replaces round at each step: its
intermediate values stay in wide registers, and rounding them would cost time and accuracy. There are two exceptions. A
norm of a sum rounds the sum, because the model stores it and other nodes read it. Some fused ops exist in float32 alone
and give the bits of the ops that they replace.
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

    `points` are the values that are rounded to the element type, in the order in which they are computed; none where
    the op moves or compares elements, or every result fits the type. `accumulation`: element type -> the narrowest type
    between these points.
    """

    points: tuple[str, ...]
    accumulation: Mapping[str, str] = field(default_factory=lambda: ACCUMULATION)

    def __str__(self) -> str:
        return "once" if self.points == (RESULT,) else ", ".join(self.points)


EXACT = Rounding(())
ONCE = Rounding((RESULT,))
