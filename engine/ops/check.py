"""What the shape and dtype rules of all families share: checks that name the op, what was expected and what came.

Also the rounding rule of the references: floats are computed in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engine import dtypes, sizes
from engine.ops.table import MAX_RANK, TensorType, Types, broadcast

FLOATS = frozenset(d.name for d in dtypes.DTYPES if d.kind == "float")
INTS = frozenset(d.name for d in dtypes.DTYPES if d.kind == "int")
BOOL = frozenset({"bool"})
NUMBERS = FLOATS | INTS
ANY = NUMBERS | BOOL
INDICES = frozenset({"int64", "int32"})

_KIND_NAMES = {
    FLOATS: "a float",
    INTS: "an integer",
    BOOL: "bool",
    NUMBERS: "a float or an integer",
    INTS | BOOL: "an integer or bool",
    ANY: "any element type",
    INDICES: "int64 or int32",
}


def wrong(op: str, expected: str, came: object) -> ValueError:
    """The one form of a refusal."""
    return ValueError(f"{op}: expected {expected}, got {came}")


def present(op: str, inputs: Types, position: int, name: str) -> TensorType:
    """The type of a required input; ValueError where it is absent."""
    if position >= len(inputs) or inputs[position] is None:
        raise wrong(op, f"input {name!r} to be present", "none")
    found = inputs[position]
    assert found is not None  # noqa: S101  (said above; a type checker does not follow an index)
    return found


def optional(inputs: Types, position: int) -> TensorType | None:
    """The type of an optional input, or None where it is absent."""
    return inputs[position] if position < len(inputs) else None


def of_dtype(op: str, name: str, operand: TensorType, allowed: frozenset[str]) -> TensorType:
    """`operand` itself, if its element type is one of `allowed`."""
    if operand.dtype not in allowed:
        raise wrong(op, f"{name!r} of {_KIND_NAMES.get(allowed, ' or '.join(sorted(allowed)))}", operand)
    return operand


def of_same_dtype(op: str, name: str, operand: TensorType, dtype: str) -> TensorType:
    """`operand` itself, if its element type is `dtype`, that of the first operand."""
    if operand.dtype != dtype:
        raise wrong(op, f"{name!r} of {dtype} as the first operand", operand)
    return operand


def of_shape(op: str, name: str, operand: TensorType, shape: tuple[int, ...]) -> TensorType:
    """`operand` itself, if its shape is exactly `shape`."""
    if operand.shape != shape:
        raise wrong(op, f"{name!r} of shape {list(shape)}", operand)
    return operand


def of_rank(op: str, name: str, operand: TensorType, least: int, most: int = MAX_RANK) -> TensorType:
    """`operand` itself, if its rank lies in [least, most]."""
    if not least <= len(operand.shape) <= most:
        bounds = f"rank {least}" if least == most else f"rank {least} to {most}"
        raise wrong(op, f"{name!r} of {bounds}", operand)
    return operand


def axis_of(op: str, axis: int, operand: TensorType) -> int:
    """`axis` itself, if `operand` has it."""
    if not 0 <= axis < len(operand.shape):
        raise wrong(op, f"an axis of {operand}", f"axis {axis}")
    return axis


def broadcast_of(op: str, operands: Sequence[TensorType]) -> tuple[int, ...]:
    """NumPy's broadcast of the operands' shapes."""
    try:
        return broadcast(*(t.shape for t in operands))
    except ValueError:
        raise wrong(op, "shapes that broadcast", ", ".join(map(str, operands))) from None


def indexed_shape(op: str, x: TensorType, indices: Types, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of x[..., i, j, ...]: the indices' common shape replaces `axes`, at the first if adjacent, or in front."""
    if not axes or len(axes) != len(indices):
        raise wrong(op, f"one index for each of the axes {list(axes)}, one at least", f"{len(indices)} indices")
    names = [f"indices[{i}]" for i in range(len(axes))]
    given = [of_dtype(op, name, present(op, indices, i, name), INDICES) for i, name in enumerate(names)]
    for axis in axes:
        axis_of(op, axis, x)
    kept = [size for axis, size in enumerate(x.shape) if axis not in axes]
    front = axes[0] if axes == tuple(range(axes[0], axes[0] + len(axes))) else 0
    block = (*kept[:front], *broadcast_of(op, given), *kept[front:])
    bounded_type(op, "indexed elements", TensorType(x.dtype, block))
    return block


def in_range(op: str, indices: np.ndarray, least: int, size: int) -> None:
    """IndexError unless every index lies in [least, size)."""
    bad = indices[(indices < least) | (indices >= size)]
    if bad.size:
        raise IndexError(f"{op}: index {bad.reshape(-1)[0]} is outside of [{least}, {size})")


def bounded(op: str, what: str, shape: Sequence[Any], each: int = 1) -> None:
    """ValueError for a negative size, and where `shape` has `sizes.MOST` bytes or more, at `each` bytes an element.

    Below that number, 64-bit arithmetic on offsets cannot overflow. An axis without elements counts as one with a
    single element, because strides are products over all axes. Symbolic sizes are checked once a call has given them
    numbers.
    """
    nbytes = each
    for size in shape:  # binding asks for every type anew: one loop, no calls
        if isinstance(size, sizes.Size):
            return
        if size < 0:
            raise wrong(op, f"{what} of sizes of 0 or more", f"shape {list(shape)}")
        nbytes *= size or 1
    if nbytes >= sizes.MOST:
        raise wrong(op, f"{what} of less than 2**{sizes.MOST.bit_length() - 1} bytes", f"shape {list(shape)}")


def bounded_type(op: str, what: str, type_: TensorType) -> None:
    """ValueError for a rank over `MAX_RANK`, and as `bounded`."""
    if len(type_.shape) > MAX_RANK:
        raise wrong(op, f"{what} of rank {MAX_RANK} at most", f"shape {list(type_.shape)}")
    bounded(op, what, type_.shape, type_.itemsize)


def result(op: str, dtype: str, shape: Sequence[int]) -> tuple[TensorType]:
    """The type of an op's single output. Raises as `bounded_type`."""
    type_ = TensorType(dtype, tuple(map(sizes.whole, shape)))
    bounded_type(op, "a result", type_)
    return (type_,)


def is_float(array: np.ndarray) -> bool:
    """True for every float type, bfloat16 included (which NumPy itself does not count as one)."""
    return dtypes.from_numpy(array.dtype).kind == "float"


def widened(array: np.ndarray) -> np.ndarray:
    """Floats as float64 (a copy unless they are); everything else as it is."""
    return array.astype(np.float64, copy=False) if is_float(array) else array


def rounded(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """`function` of the widened arrays, rounded to the element type of the first, quiet about NaN and overflow."""
    with np.errstate(all="ignore"):
        return cast_array(function(*map(widened, arrays)), arrays[0].dtype)


def cast_array(values: np.ndarray, numpy_dtype: np.dtype) -> np.ndarray:
    """`values` as `numpy_dtype`, with C's rules (float to integer cuts off; to bool: anything but zero)."""
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(numpy_dtype, copy=False)
