"""One case of an op: what to feed it, made anew from a seed that the case's name fixes, and with which attributes.

Also what operands are made of. Torch-free; the list of cases is in `cases.py`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine import dtypes
from engine.ops import TABLE, TensorType

Maker = Callable[[np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Case:
    op: str
    label: str
    operands: tuple[Maker | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.op}-{self.label}"

    def inputs(self) -> list[np.ndarray | None]:
        """Read-only arrays, the same ones at each call."""
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        arrays = [None if make is None else np.asarray(make(rng)) for make in self.operands]
        for array in arrays:
            if array is not None:
                array.flags.writeable = False
        return arrays

    def complete(self) -> dict[str, Any]:
        """The attributes with the op's defaults."""
        return TABLE[self.op].complete(self.attributes)


def types_of(arrays: list[np.ndarray | None]) -> list[TensorType | None]:
    return [None if a is None else TensorType(dtypes.from_numpy(a.dtype).name, a.shape) for a in arrays]


def results_of(found: Any) -> tuple[Any, ...]:
    """What a definition returned: one array or tensor, or a tuple of several."""
    return found if isinstance(found, tuple) else (found,)


# --- makers of operands -----------------------------------------------------------------------------------------


def normal(*shape: int, dtype: str = "float32", scale: float = 1.0) -> Maker:
    return lambda rng: np.array(scale * rng.standard_normal(shape)).astype(dtypes.dtype(dtype).numpy)


def integers(*shape: int, low: int = -5, high: int = 6, dtype: str = "int64") -> Maker:
    if dtype == "uint8":
        low = max(low, 0)
    return lambda rng: np.array(rng.integers(low, high, shape)).astype(dtypes.dtype(dtype).numpy)


def eighths(*shape: int, dtype: str = "float32") -> Maker:
    """Multiples of 1/8 in [-8, 8)."""
    return lambda rng: np.array(rng.integers(-64, 64, shape) / 8).astype(dtypes.dtype(dtype).numpy)


def flags(*shape: int, share: float = 0.5) -> Maker:
    return lambda rng: np.array(rng.random(shape) < share)


def given(values: Any, dtype: str = "float32") -> Maker:
    return lambda _rng: np.array(values).astype(dtypes.dtype(dtype).numpy)


def any_of(*shape: int, dtype: str) -> Maker:
    """Random values of whatever kind `dtype` is."""
    makers: dict[str, Callable[..., Maker]] = {"float": normal, "int": integers}
    kind = dtypes.dtype(dtype).kind
    return flags(*shape) if kind == "bool" else makers[kind](*shape, dtype=dtype)


def pairs(values: list[Any], dtype: str) -> tuple[Maker, Maker]:
    """Every value against every value."""
    return given([[v] * len(values) for v in values], dtype), given([values] * len(values), dtype)


FLOATS = [d.name for d in dtypes.DTYPES if d.kind == "float"]
INTS = [d.name for d in dtypes.DTYPES if d.kind == "int"]
NUMBERS = FLOATS + INTS
ANY = [*NUMBERS, "bool"]
BITS = [*INTS, "bool"]
# The ends, the halves that rounding decides on, and sizes at which exp, tanh and erf saturate or overflow in float32.
SPECIAL = [
    *(np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-8, -1e-8, 3.7, -3.7),
    *(9.5, -9.5, 30.0, -30.0, 88.0, -88.0, 89.0, -100.0, 3e38),
]
FEW = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3.0]
SMALL_INTS = [-7, -3, -2, -1, 0, 1, 2, 3, 7]
SHAPES = {"scalar": (), "empty": (3, 0), "vector": (67,), "rank4": (2, 3, 1, 5)}
BROADCASTS = {
    "scalar": ((4, 5), ()),
    "scalar_first": ((), (4, 5)),
    "row": ((4, 19), (19,)),
    "column": ((4, 19), (4, 1)),
    "both": ((3, 1, 5), (1, 4, 1)),
    "empty": ((2, 0, 3), (1, 1, 3)),
    "ranks": ((2, 1, 3, 1), (4, 1, 5)),
    "scalars": ((), ()),
}


def into(cases: list[Case]) -> Callable[..., None]:
    """``case(op, label, *operands, **attributes)``, which adds a case to `cases`."""

    def case(op: str, label: str, *operands: Maker | None, **attributes: Any) -> None:
        cases.append(Case(op, label, tuple(TABLE[op].arrange(operands)), attributes))

    return case
