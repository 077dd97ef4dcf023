"""Operands and attributes for one op: a case of `tests.ops.cases`, varied as far as the op's own rules allow.

Every change is a proposal that `Op.infer` accepts or refuses, so the whole op table is covered without a rule for any
single op. Knows no graph and no file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np

from engine import dtypes
from engine.errors import ShapeError
from engine.ops import MAX_RANK, TABLE, Attribute
from tests.ops.case import Case, types_of
from tests.ops.cases import CASES

MOST_ELEMENTS = 1 << 15
"""Elements of each operand and result of a generated op."""
MOST_FLOPS = 1 << 23
"""Arithmetic operations of a generated op, by the op table's count."""
MOST_STEPS = 1 << 10
"""Largest product of window sizes; the NumPy definitions loop over the window in Python."""

REFUSALS = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, ShapeError)
"""What an op's rules raise for operands that they do not accept; loading makes a ProgramError of each."""

RUNNABLE = tuple(sorted(name for name, op in TABLE.items() if op.has_kernels))
"""Ops that every target runs. The cpu refuses files with others, which are made with extreme attributes only."""

_CASES: dict[str, list[Case]] = {op: [case for case in CASES if case.op == op] for op in TABLE}


class Application(NamedTuple):
    """One op with concrete operands; None is an absent optional operand."""

    op: str
    arrays: list[np.ndarray | None]
    attributes: dict[str, Any]


def is_small(application: Application) -> bool:
    """True if the op accepts the operands and the work stays below the limits of this module."""
    op = TABLE[application.op]
    types = types_of(application.arrays)
    try:
        op.check_arity(len(types))
        attributes = op.complete(application.attributes)
        results = op.infer_types(types, attributes)
        flops = op.flops(types, results, attributes)
    except REFUSALS:
        return False
    if any(len(t.shape) > MAX_RANK or t.size > MOST_ELEMENTS for t in (*types, *results) if t is not None):
        return False
    return flops <= MOST_FLOPS and math.prod(attributes.get("kernel", ())) <= MOST_STEPS


def draw(rng: Random, op: str) -> Application:
    """Operands and attributes that `op` accepts."""
    generator = np.random.default_rng(rng.getrandbits(32))
    while True:
        case = rng.choice(_CASES[op])
        arrays = [None if make is None else np.asarray(make(generator)) for make in case.operands]
        application = Application(op, arrays, case.complete())
        if is_small(application):  # a few cases are larger
            break
    for _ in range(rng.choice((0, 1, 2, 4))):
        proposal = rng.choice(_PROPOSALS)(rng, application)
        if proposal is not None and is_small(proposal):
            application = proposal
    return application


# --- proposals --------------------------------------------------------------------------------------------------------


def _without_optional(rng: Random, application: Application) -> Application | None:
    names = TABLE[application.op].inputs
    optional = [position for position, name in enumerate(names) if name.endswith("?")]
    if not optional:
        return None
    arrays = list(application.arrays)
    arrays[rng.choice(optional)] = None
    return application._replace(arrays=arrays)


def _with_other_dtype(rng: Random, application: Application) -> Application | None:
    """Every operand of one element type in another type of the same kind."""
    present = [a for a in application.arrays if a is not None]
    if not present:
        return None
    old = rng.choice(present).dtype
    kind = dtypes.from_numpy(old).kind
    new = rng.choice([d.numpy for d in dtypes.DTYPES if d.kind == kind])
    with np.errstate(all="ignore"):
        arrays = [a.astype(new) if a is not None and a.dtype == old else a for a in application.arrays]
    return application._replace(arrays=arrays)


def _with_other_size(rng: Random, application: Application) -> Application | None:
    """Every axis of one size in another size; elements are repeated, so indices stay in range."""
    sizes = {n for a in application.arrays if a is not None for n in a.shape if n}
    if not sizes:
        return None
    old, new = rng.choice(sorted(sizes)), rng.choice((0, 1, 2, 3, 5, 8, 16, 17, 33, 64))
    arrays = [None if a is None else _resized(a, old, new) for a in application.arrays]
    return application._replace(arrays=arrays)


def _resized(array: np.ndarray, old: int, new: int) -> np.ndarray:
    for axis, size in enumerate(array.shape):
        if size == old:
            if array.size // size * new > MOST_ELEMENTS:
                return array
            array = np.take(array, np.arange(new) % old, axis)
    return array


def _with_leading_axes(rng: Random, application: Application) -> Application | None:
    """Axes in front of every operand. Attributes that count axes are moved along."""
    count = rng.randint(1, 4)
    added = tuple(rng.choice((1, 1, 2)) for _ in range(count))
    arrays = []
    for array in application.arrays:
        if array is not None and array.size * math.prod(added) > MOST_ELEMENTS:
            return None
        arrays.append(None if array is None else np.array(np.broadcast_to(array, (*added, *array.shape))))
    moved = {
        name: _moved(TABLE[application.op].attributes[name], name, value, count)
        for name, value in application.attributes.items()
    }
    return application._replace(arrays=arrays, attributes=moved)


def _moved(attribute: Attribute, name: str, value: Any, count: int) -> Any:
    match attribute.kind:
        case "axis":
            return value + count
        case "axes":
            return tuple(axis + count for axis in value)
        case "shape" if name == "axes_order":
            return (*range(count), *(axis + count for axis in value))
        case _:
            return value


def _with_other_attribute(rng: Random, application: Application) -> Application | None:
    # No kernel of the cpu computes in other arithmetic yet, and the cpu refuses it.
    declared = {name: one for name, one in TABLE[application.op].attributes.items() if name != "compute"}
    if not declared:
        return None
    name = rng.choice(sorted(declared))
    rank = max((a.ndim for a in application.arrays if a is not None), default=2)
    value = _attribute(rng, declared[name], application.attributes[name], rank)
    return application._replace(attributes={**application.attributes, name: value})


def _attribute(rng: Random, attribute: Attribute, old: Any, rank: int) -> Any:
    """A moderate value of the attribute's kind."""
    match attribute.kind:
        case "int":
            return rng.randint(-3, 9)
        case "bool":
            return not old
        case "float":
            return rng.choice((-1.5, 0.0, 0.125, 1.0, 2.0))
        case "choice":
            return rng.choice(attribute.choices)
        case "dtype":
            return rng.choice(sorted(dtypes.BY_NAME))
        case "axis":
            return rng.randrange(max(rank, 1))
        case "axes":
            return tuple(axis for axis in range(rank) if rng.random() < 0.5)
        case "ints":
            return tuple(rng.randint(0, 4) for _ in old)
        case "shape":
            return tuple(rng.sample(old, len(old)))
        case _:
            return old


_PROPOSALS: tuple[Callable[[Random, Application], Application | None], ...] = (
    _without_optional,
    _with_other_dtype,
    _with_other_size,
    _with_leading_axes,
    _with_other_attribute,
)
