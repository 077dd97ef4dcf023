"""Whether the result of a kernel is that of the op's NumPy definition, for operands of any size and sensitivity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine import dtypes
from engine.ops import TABLE
from tests.engine.test_native_ops import ABSOLUTE, RELATIVE, magnitude
from tests.ops.case import results_of

MOST = 1e6
"""Kernels compute in float32, the definitions in float64: of larger numbers the squares may overflow in one of the two
only, and results are not compared."""
LARGEST = 1e30
"""A result that large may overflow on its way in float32."""
Operands = Sequence["np.ndarray | None"]


def difference(
    op: str, inputs: Operands, attributes: Mapping[str, Any], result: np.ndarray, number: int = 0
) -> str | None:
    """What is wrong with `result`, output `number` of the op; None if nothing is, or if the definition leaves it open.

    Floats may differ by the tolerances of the tests, and by what the definition itself changes by when each operand
    changes by as much: without this, a difference of nearly equal numbers would be an error.
    """
    with np.errstate(all="ignore"):
        expected = np.asarray(results_of(TABLE[op].reference(*inputs, **attributes))[number])
        if expected.dtype != result.dtype or expected.shape != result.shape:
            return f"{op}: {result.dtype}{result.shape} in place of {expected.dtype}{expected.shape}"
        if not is_defined(op, inputs, attributes, result):
            return None
        name = dtypes.from_numpy(result.dtype).name
        if name not in RELATIVE:
            wrong = expected != result
        else:
            allowed = _allowed(op, inputs, attributes, expected, name, number)
            far = ~(np.abs(result.astype(np.float64) - expected.astype(np.float64)) <= allowed)
            equal = (expected == result) | (np.isnan(expected) & np.isnan(result))
            wrong = far & ~equal & ~np.isnan(allowed) & ~(np.abs(expected.astype(np.float64)) > LARGEST)
    if not wrong.any():
        return None
    first = tuple(int(axis[0]) for axis in np.nonzero(wrong)) if wrong.ndim else ()
    here = f"at {first} {result[first]} in place of {expected[first]}"
    return f"{op}: {int(wrong.sum())} of {wrong.size} elements differ, {here}"


def is_defined(op: str, inputs: Operands, attributes: Mapping[str, Any], result: np.ndarray) -> bool:
    """False where operands or attributes are outside of what kernels and definition have to agree on."""
    floats = [a.astype(np.float64) for a in inputs if a is not None and dtypes.from_numpy(a.dtype).kind == "float"]
    if op == "cast":
        # An integer type has no room for NaN, infinities and large numbers: the result is open.
        to_integer = dtypes.from_numpy(result.dtype).kind == "int"
        return not (to_integer and any((~(np.abs(a) < np.iinfo(result.dtype).max)).any() for a in floats))
    if op == "selective_scan" and inputs[2] is not None and not (inputs[2].astype(np.float64) <= 0).all():
        return False  # states that grow overflow float32 on their way
    if op not in ("full", "pad"):  # which copy the attribute
        reals = [attributes[name] for name, declared in TABLE[op].attributes.items() if declared.kind == "float"]
        floats.append(np.asarray(reals))
    return not any((np.isinf(a) | (np.abs(a) > MOST)).any() for a in floats)


def _allowed(
    op: str, inputs: Operands, attributes: Mapping[str, Any], expected: np.ndarray, name: str, number: int
) -> np.ndarray:
    """Absolute error allowed for each element, float64; NaN where the definition itself is unstable."""
    wide = expected.astype(np.float64)
    allowed = RELATIVE[name] * np.abs(wide) + ABSOLUTE[name] * magnitude(op, expected)
    if op == "gated_linear":  # the tail of an activation is rounded at the size of its argument, then multiplied
        x, weight, bias, _scale = inputs
        shared = {"transpose_weight": attributes["transpose_weight"], "activation": "none", "alpha": 1.0}
        halves = np.asarray(TABLE["linear"].reference(x, weight, bias, None, **shared)).astype(np.float64)
        allowed = allowed + RELATIVE[name] * np.max(np.abs(halves), initial=0.0) ** 2
    generator = np.random.default_rng(0)
    for _ in range(2):
        near = [None if a is None else _near(generator, a, RELATIVE[name]) for a in inputs]
        changed = np.asarray(results_of(TABLE[op].reference(*near, **attributes))[number]).astype(np.float64)
        allowed = allowed + 8 * np.abs(changed - wide)
        # NaN must be NaN; an element that becomes NaN or infinite by a small change is open.
        allowed = np.where(np.isnan(wide) & np.isnan(changed), 0.0, allowed)
    return np.asarray(allowed)


def _near(generator: np.random.Generator, array: np.ndarray, relative: float) -> np.ndarray:
    if dtypes.from_numpy(array.dtype).kind != "float":
        return array
    factors = 1 + relative * generator.uniform(-1, 1, array.shape)
    return np.asarray((array.astype(np.float64) * factors).astype(array.dtype))
