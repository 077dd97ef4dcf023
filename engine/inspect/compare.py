"""Two results of one model beside each other: each tensor in numbers, as a table, as a picture. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

from engine.errors import ComparisonError, MissingPackageError
from engine.memory import as_array
from engine.tree import field_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOLERANCES: Mapping[str, tuple[float, float]] = {
    "float64": (1e-7, 1e-7),
    "float32": (1e-5, 1.3e-6),
    "float16": (1e-5, 1e-3),
    "bfloat16": (1e-5, 1.6e-2),
}
"""Element type -> absolute and relative tolerance where none is given: those of `torch.testing.assert_close`. Of two
types, that with fewer digits counts; other types compare exactly."""
_CELLS = 256
"""Most rows and columns of a heat map."""


@dataclass(frozen=True)
class Difference:
    """How one tensor differs from the expected one. All errors are over the elements that are finite in both.

    Attributes:
        name: where it is in the result, such as ``['logits']``; "" where the result is one tensor.
        shape: of both.
        dtypes: of the result and of the expected one.
        max_abs, mean_abs, rmse: of the absolute error.
        max_rel: the largest absolute error over the magnitude of the expected element, where that is not 0.
        max_ulp: the largest error in units of the last place of the expected element, in the type with fewer digits;
            of integers, the error.
        cosine: of the angle between both as vectors; None if one of them is 0.
        atol, rtol: an element is beyond tolerance if its error is larger than ``atol + rtol * |expected|``.
        beyond: share of all elements that are, or whose NaN or infinity the other one has not.
        nan, inf: elements where only one has a NaN, or the same infinity is not in both.
        worst: index of an element with the largest excess; one with a misplaced NaN or infinity goes first.
        values: of the worst element: the result's and the expected.
    """

    name: str
    shape: tuple[int, ...]
    dtypes: tuple[str, str]
    max_abs: float
    mean_abs: float
    rmse: float
    max_rel: float
    max_ulp: float
    cosine: float | None
    atol: float
    rtol: float
    beyond: float
    nan: int
    inf: int
    worst: tuple[int, ...]
    values: tuple[complex, complex]

    @property
    def is_close(self) -> bool:
        """True if no element is beyond tolerance."""
        return not self.beyond


class Comparison:
    """The result of `compare`.

    Attributes:
        differences: one for each tensor, in the order of the result.
        skipped: what is no tensor and no number, so that nothing of it was compared.
    """

    def __init__(self, pairs: list[_Pair], skipped: tuple[str, ...]) -> None:
        self._pairs = pairs
        self.differences = tuple(pair.difference for pair in pairs)
        self.skipped = skipped

    @property
    def is_close(self) -> bool:
        """True if no element of any tensor is beyond tolerance."""
        return all(one.is_close for one in self.differences)

    @property
    def worst(self) -> Difference:
        """The tensor with the largest share beyond tolerance; of equal ones, the largest relative error."""
        return max(self.differences, key=lambda one: (one.beyond, one.max_rel))

    def to_dict(self) -> dict[str, Any]:
        """JSON-able values; complex numbers as text."""
        found = [asdict(one) | {"is_close": one.is_close} for one in self.differences]
        for one in found:
            one["values"] = [_plain(value) for value in one["values"]]
        return {"is_close": self.is_close, "differences": found, "skipped": list(self.skipped)}

    def heatmap(self, path: str | Path, name: str | None = None) -> None:
        """Draw the absolute error of the tensor called `name`, or of the worst one, to a PNG or SVG file.

        Rows are all axes but the last one. A cell shows the largest error of its elements.

        Raises:
            ComparisonError: there is no such tensor.
            MissingPackageError: matplotlib is not installed.
        """
        wanted = self.worst.name if name is None else name
        pair = next((one for one in self._pairs if one.difference.name == wanted), None)
        if pair is None:
            known = ", ".join(repr(one.name) for one in self.differences)
            raise ComparisonError(f"no tensor {wanted!r} was compared; there are {known}")
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError:
            raise MissingPackageError("heatmap needs matplotlib: pip install 'enginebench[plots]'") from None
        cells = _reduce(_errors(pair.result, pair.expected))
        figure = Figure(figsize=(8, 5), layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(cells, aspect="auto", interpolation="nearest", cmap="viridis")
        axes.set_title(f"{wanted or 'result'} {pair.difference.shape}: absolute error")
        axes.set_xlabel("last axis")
        axes.set_ylabel("other axes")
        figure.colorbar(image)
        figure.savefig(path, metadata={})

    def __str__(self) -> str:
        header = ("tensor", "shape", "type", "max abs", "mean abs", "max rel", "ulp", "cosine", "beyond", "worst")
        rows = [header, *map(_row, self.differences)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines += [
            f"{one.name or 'result'}: {one.nan} elements with a NaN that counts as a difference, and {one.inf} with an "
            "infinity that only one has"
            for one in self.differences
            if one.nan or one.inf
        ]
        lines += [f"not compared, because it is no tensor: {', '.join(self.skipped)}"] if self.skipped else []
        return "\n".join(lines)


class _Pair(NamedTuple):
    result: NDArray[Any]
    expected: NDArray[Any]
    difference: Difference


def compare(
    result: Any, expected: Any, atol: float | None = None, rtol: float | None = None, *, equal_nan: bool = False
) -> Comparison:
    """Compare two results of one model, tensor by tensor.

    Args:
        result: tensors, arrays or numbers in any nesting of tuples, lists, mappings, dataclasses and named tuples.
        expected: the same structure, with tensors of the same shapes; their types may differ.
        atol: absolute tolerance; None: as `TOLERANCES` says.
        rtol: relative tolerance, likewise.
        equal_nan: whether NaN equals NaN.

    Raises:
        ComparisonError: the structures or shapes differ, or there is no element to compare.
    """
    ours, theirs = dict(_leaves(result)), dict(_leaves(expected))
    for one, other, which in ((ours, theirs, "the result"), (theirs, ours, "what is expected")):
        if only := [name or "a single tensor" for name in one if name not in other]:
            raise ComparisonError(f"the structures differ: only {which} has {', '.join(only)}")
    arrays = {name: (_array(ours[name]), _array(theirs[name])) for name in ours}
    skipped = tuple(name for name, pair in arrays.items() if pair[0] is None or pair[1] is None)
    pairs = [
        _Pair(one, other, _compare(name, one, other, atol, rtol, equal_nan=equal_nan))
        for name, (one, other) in arrays.items()
        if one is not None and other is not None
    ]
    if not any(pair.result.size for pair in pairs):
        what = "tensors have no elements" if pairs else "results have no tensors"
        raise ComparisonError(f"the {what}, so nothing was compared")
    return Comparison(pairs, skipped)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Name and value of what is no container, but for None."""
    if value is None:
        return
    children: Any = None
    if isinstance(value, Mapping):
        children = value.items()
    elif is_dataclass(value) and not isinstance(value, type):
        children = ((one.name, getattr(value, one.name)) for one in fields(value))
    elif names := field_names(type(value)):
        children = ((one, getattr(value, one)) for one in names)
    elif isinstance(value, tuple | list):
        children = enumerate(value)
    if children is None:
        yield name, value
        return
    for key, child in children:
        yield from _leaves(child, f"{name}[{key!r}]")


def _array(value: Any) -> NDArray[Any] | None:
    """A tensor, an array or a number as an array; None for anything else."""
    if isinstance(value, bool | int | float | complex | np.generic):
        return np.asarray(value)
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return None
    if hasattr(value, "detach"):
        value = value.detach().cpu().contiguous()
    return as_array(value)


def _compare(
    name: str,
    result: NDArray[Any],
    expected: NDArray[Any],
    atol: float | None,
    rtol: float | None,
    *,
    equal_nan: bool,
) -> Difference:
    if result.shape != expected.shape:
        raise ComparisonError(f"{name or 'the result'}: shape {result.shape}, expected {expected.shape}")
    dtypes = str(result.dtype), str(expected.dtype)
    coarse = max((str(array.real.dtype) for array in (result, expected)), key=_epsilon)
    usual = TOLERANCES.get(coarse, (0.0, 0.0))
    atol, rtol = (usual[0] if atol is None else atol), (usual[1] if rtol is None else rtol)
    ours, theirs = widen(result), widen(expected)
    nan = np.isnan(ours) != np.isnan(theirs) if equal_nan else np.isnan(ours) | np.isnan(theirs)
    inf = (np.isinf(ours) | np.isinf(theirs)) & (ours != theirs) & ~nan
    finite = np.isfinite(ours) & np.isfinite(theirs)
    magnitude = np.where(finite, np.abs(theirs), 0.0)
    error = np.where(finite, np.abs(np.where(finite, ours, 0) - np.where(finite, theirs, 0)), 0.0)
    with np.errstate(all="ignore"):
        relative = np.where(magnitude > 0, error / magnitude, 0.0)
        ulps = error / _ulp(magnitude, coarse)
    excess = np.where(nan | inf, np.inf, error - (atol + rtol * magnitude))
    beyond, count = excess > 0, max(1, int(finite.sum()))
    at = np.unravel_index(int(np.argmax(excess)), excess.shape) if excess.size else ()
    worst = tuple(int(axis) for axis in at)
    return Difference(
        name=name,
        shape=result.shape,
        dtypes=dtypes,
        max_abs=float(error.max(initial=0.0)),
        mean_abs=float(error.sum()) / count,
        rmse=float(np.sqrt(np.square(error).sum() / count)),
        max_rel=float(relative.max(initial=0.0)),
        max_ulp=float(ulps.max(initial=0.0)),
        cosine=_cosine(np.where(finite, ours, 0), np.where(finite, theirs, 0)),
        atol=atol,
        rtol=rtol,
        beyond=float(beyond.mean()) if beyond.size else 0.0,
        nan=int(nan.sum()),
        inf=int(inf.sum()),
        worst=worst,
        values=(ours[worst].item(), theirs[worst].item()) if excess.size else (0.0, 0.0),
    )


def widen(array: NDArray[Any]) -> NDArray[Any]:
    """`array` in a type that has all of its values and their differences, but for the lowest bits of 64-bit integers.

    Where the platform's long double has 64 bits of mantissa or more, it has these, too.
    """
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        return array.astype(np.longdouble)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _epsilon(dtype: str) -> float:
    """Spacing of numbers near 1; 0 for integers."""
    found = np.dtype(dtype)
    return float(ml_dtypes.finfo(found).eps) if found.kind in "fV" else 0.0


def _ulp(magnitude: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Spacing of the numbers of `dtype` at `magnitude`; 1 for integers."""
    epsilon = _epsilon(dtype)
    if not epsilon:
        return np.ones_like(magnitude)
    smallest = float(ml_dtypes.finfo(np.dtype(dtype)).smallest_normal)
    return np.asarray(np.exp2(np.floor(np.log2(np.maximum(magnitude, smallest)))) * epsilon)


def _cosine(one: NDArray[Any], other: NDArray[Any]) -> float | None:
    sizes = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(np.real(np.vdot(one, other))) / sizes if sizes else None


def _errors(result: NDArray[Any], expected: NDArray[Any]) -> NDArray[Any]:
    """Absolute errors; NaN where one is not finite."""
    ours, theirs = widen(result), widen(expected)
    with np.errstate(invalid="ignore"):
        error = np.abs(ours - theirs)
    return np.where(np.isfinite(ours) & np.isfinite(theirs), error, np.nan)


def _reduce(errors: NDArray[Any]) -> NDArray[Any]:
    """As a matrix of at most `_CELLS` rows and columns, each the largest of its part."""
    cells = errors.reshape(-1, errors.shape[-1] if errors.ndim else 1)
    for axis in (0, 1):
        size = cells.shape[axis]
        starts = np.unique(np.linspace(0, size, min(size, _CELLS), endpoint=False).astype(int))
        cells = np.fmax.reduceat(cells, starts, axis=axis)
    return cells


def _row(one: Difference) -> tuple[str, ...]:
    dtypes = one.dtypes[0] if one.dtypes[0] == one.dtypes[1] else " / ".join(one.dtypes)
    where = f"[{', '.join(map(str, one.worst))}]: {one.values[0]:.6g}, expected {one.values[1]:.6g}"
    return (
        one.name or "result",
        str(list(one.shape)),
        dtypes,
        f"{one.max_abs:.2e}",
        f"{one.mean_abs:.2e}",
        f"{one.max_rel:.2e}",
        f"{one.max_ulp:.3g}",
        "-" if one.cosine is None else f"{one.cosine:.6f}",
        f"{one.beyond:.2%}",
        where if one.max_abs or one.nan or one.inf else "-",
    )


def _plain(value: Any) -> float | str:
    return str(value) if isinstance(value, complex) else float(value)
