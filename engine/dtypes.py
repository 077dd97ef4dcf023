"""The element types, by name. The one place that maps names to NumPy and to the C enumerators."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class DType:
    """One element type.

    Attributes:
        name: NumPy's and torch's name for it.
        numpy: the NumPy dtype (bfloat16 comes from ml_dtypes).
        code: its enumerator ``EB_<code>`` in csrc; the position in `DTYPES` is the value.
        kind: ``float``, ``int`` or ``bool``.
    """

    name: str
    numpy: np.dtype
    code: str
    kind: str

    @cached_property
    def size(self) -> int:
        """Bytes an element."""
        return int(self.numpy.itemsize)


DTYPES: tuple[DType, ...] = (
    DType("float32", np.dtype(np.float32), "F32", "float"),
    DType("float64", np.dtype(np.float64), "F64", "float"),
    DType("float16", np.dtype(np.float16), "F16", "float"),
    DType("bfloat16", np.dtype(ml_dtypes.bfloat16), "BF16", "float"),
    DType("int64", np.dtype(np.int64), "I64", "int"),
    DType("int32", np.dtype(np.int32), "I32", "int"),
    DType("int16", np.dtype(np.int16), "I16", "int"),
    DType("int8", np.dtype(np.int8), "I8", "int"),
    DType("uint8", np.dtype(np.uint8), "U8", "int"),
    DType("bool", np.dtype(np.bool_), "BOOL", "bool"),
)
BY_NAME = {d.name: d for d in DTYPES}
HALVES = ("float16", "bfloat16")
"""Floats of 16 bits. Calls compute them in float32 and round the result."""
_BY_NUMPY = {d.numpy: d for d in DTYPES}


def dtype(name: str) -> DType:
    """The dtype called `name`; KeyError names the known ones."""
    try:
        return BY_NAME[name]
    except KeyError:
        raise KeyError(f"unknown dtype {name!r}; known: {', '.join(BY_NAME)}") from None


def from_numpy(numpy_dtype: np.dtype) -> DType:
    """The dtype of a NumPy dtype; KeyError where the engine has none."""
    try:
        return _BY_NUMPY[np.dtype(numpy_dtype)]
    except KeyError:
        raise KeyError(f"no engine dtype for NumPy's {numpy_dtype}") from None
