"""What one op declares, and the table of all of them. Knows no graph, no target and no torch.

An op is declared once, by `declare(Op(...))` in a file of its family. Everything that must know ops (verifier,
interpreter, planner, binder, C enumerators, docs) reads this table.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from engine import dtypes, sizes
from engine.encodings import Encoding, Stored
from engine.ops.rounding import ONCE, Rounding

Attributes = Mapping[str, Any]
T = TypeVar("T")


class TensorType(NamedTuple):
    """Element type and shape of a value. A size may be a formula of the sizes of a call (`engine.sizes`).

    `encoding` says how a constant is stored; None: as elements of its own type. Only constants have one.
    """

    dtype: str
    shape: tuple[int, ...]
    encoding: Encoding | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return dtypes.dtype(self.dtype).size

    @property
    def nbytes(self) -> int:
        """Bytes of the dense value; of all components where it is encoded."""
        if self.encoding is not None:
            return self.encoding.nbytes(self.shape)
        return self.size * dtypes.dtype(self.dtype).size

    @property
    def plain(self) -> TensorType:
        """The same type without an encoding."""
        return self if self.encoding is None else TensorType(self.dtype, self.shape)

    def __str__(self) -> str:
        encoding = "" if self.encoding is None else f" as {self.encoding}"
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]{encoding}"


class Layout(NamedTuple):
    """How a value lies in its buffer: shape, strides and offset, all in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @staticmethod
    def dense(shape: Sequence[int]) -> Layout:
        """Row-major, no gaps, offset 0."""
        shape = tuple(shape)
        return Layout(shape, _dense_strides(shape))

    @property
    def is_dense(self) -> bool:
        """True where elements lie row-major without gaps (axes of size 1 may have any stride)."""
        return _is_dense(self.shape, self.strides)

    @property
    def span(self) -> int:
        """Elements from the first to the last one, both counted; 0 where there are none."""
        return _span(self.shape, self.strides)


# A model repeats its layers, and every plan asks the same of the same few layouts.
cached = lru_cache(maxsize=4096)


@cached
def _dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@cached
def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    if 0 in shape:
        return True
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


@cached
def _span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


MAX_RANK = 8  # EB_MAX_RANK of csrc/engine.h
Types = Sequence[TensorType | None]
AttributeKind = Literal["int", "bool", "float", "choice", "dtype", "axis", "axes", "ints", "shape", "program"]
REQUIRED: Any = object()


@dataclass(frozen=True)
class Attribute:
    """One attribute of an op.

    Kinds and their Python values: int (of 64 bits), bool, float, choice (a string of `choices`), dtype (a name), axis
    (a non-negative int), axes (a sorted tuple of non-negative ints), ints (a tuple of MAX_RANK ints of 32 bits at most,
    one an axis), shape (a tuple of ints), program (a tuple of steps, each a name of `choices` and one to three
    non-negative ints). What C receives: int, bool, axis as they are, choice and dtype as an index, axes as a bit mask,
    ints as MAX_RANK numbers with zeros behind the last (all in ``ints``), float in ``reals``; shape is not handed over,
    since operand shapes say it; a program, which must be the last attribute, is four ints a step: the name's index and
    the operands, -1 where there is none.
    """

    kind: AttributeKind
    default: Any = REQUIRED
    choices: tuple[str, ...] = ()


def no_flops(_inputs: Types, _outputs: Sequence[TensorType], _attributes: Attributes) -> int:
    """For ops that only move data."""
    return 0


def dense_bytes(inputs: Types, outputs: Sequence[TensorType], _attributes: Attributes) -> int:
    """Every operand once: the least traffic that an target without caches must move."""
    return sum(t.nbytes for t in (*inputs, *outputs) if t is not None)


@dataclass(frozen=True)
class Op:
    """The declaration of one op.

    Attributes:
        family: the file it lives in; used to group documentation.
        inputs: names in order; ``name?`` is optional, ``name*`` (last) takes any number.
        attributes: what is not a tensor.
        infer: input types and attributes -> output types. Raises ValueError for what the op refuses.
        reference: NumPy definition: ``reference(*arrays, **attributes)``; None for an absent optional input. Floats are
            computed in float64 and rounded where `rounding` says. Never writes to its inputs.
        flops: arithmetic operations (a multiply-add counts 2).
        nbytes: bytes moved to and from memory, each operand once.
        view: for ops that can share memory with input 0: layout of the input, attributes and output shape -> layout of
            the output in the same buffer, or None where a copy is needed.
        inplace: positions of inputs whose buffer the output may take over (same size and dtype, last use).
        encoded: inputs that may be encoded constants. `infer` gets types without encodings. `reference` gets decoded
            elements, or for ``compute="int8"`` each encoded constant as `Stored`. For each input the attribute that is
            true where axis 0 has the channels, and axis 1 what is summed; "" where it always has; None: it is a view.
        check_encoded: called before `infer`; raises ValueError if the op does not take these types with their
            encodings.
        rounding: where floats are rounded, and the narrowest type in which kernels compute between.
        has_kernels: False while no target has kernels for the op, not even a reference: only its definition runs.
        doc: one line.
    """

    name: str
    family: str
    inputs: tuple[str, ...]
    infer: Callable[[Types, Attributes], tuple[TensorType, ...]]
    reference: Callable[..., Any]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    flops: Callable[[Types, Sequence[TensorType], Attributes], int] = no_flops
    nbytes: Callable[[Types, Sequence[TensorType], Attributes], int] = dense_bytes
    view: Callable[[Layout, Attributes, tuple[int, ...]], Layout | None] | None = None
    inplace: tuple[int, ...] = ()
    encoded: Mapping[str, str | None] = field(default_factory=dict)
    check_encoded: Callable[[Types, Attributes], None] | None = None
    rounding: Rounding = ONCE
    has_kernels: bool = True
    doc: str = ""

    def complete(self, given: Attributes) -> dict[str, Any]:
        """`given` with defaults filled in, checked against the declaration; ValueError names what is wrong."""
        unknown = set(given) - set(self.attributes)
        if unknown:
            raise ValueError(f"{self.name} has no attribute {sorted(unknown)}; it has {sorted(self.attributes)}")
        full = {}
        for name, attribute in self.attributes.items():
            value = given.get(name, attribute.default)
            if value is REQUIRED:
                raise ValueError(f"{self.name} needs attribute {name!r}")
            full[name] = _checked(self.name, name, attribute, value)
        return full

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """`inputs` without the marks of optional and variadic ones: what `position` takes."""
        return tuple(name.rstrip("?*") for name in self.inputs)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.input_names)}

    def position(self, name: str) -> int:
        """The position of the first value of the input `name`; KeyError if the op declares no such input."""
        if name not in self._positions:
            raise KeyError(f"{self.name} has no input {name!r}; it has {list(self.inputs)}")
        return self._positions[name]

    def single_position(self, name: str) -> int:
        """`position` of an input that is one value; KeyError, too, if the name is variadic."""
        position = self.position(name)
        if self.inputs[position].endswith("*"):
            raise KeyError(
                f"{self.name}: {name!r} is any number of inputs, from position {position} on; read them there"
            )
        return position

    def arrange(self, given: Mapping[str, T] | Sequence[T | None]) -> list[T | None]:
        """The inputs in declared order, None for absent ones; a sequence may leave out optional ones at its end.

        Raises KeyError for a name that is no input, and ValueError if the count does not fit, or for names of an op
        with a variadic input.
        """
        if not isinstance(given, Mapping):
            left_out = self.inputs[len(given) :]
            arranged = [*given, *([None] * len(left_out) if all(name.endswith("?") for name in left_out) else [])]
            self.check_arity(len(arranged))
            return arranged
        if any(name.endswith("*") for name in self.inputs):
            raise ValueError(f"{self.name} takes inputs {self.inputs}: expected a sequence of them, got a mapping")
        arranged = [None] * len(self.inputs)
        for name, value in given.items():
            arranged[self.single_position(name)] = value
        return arranged

    def infer_types(self, inputs: Types, attributes: Attributes) -> tuple[TensorType, ...]:
        """`infer` for inputs that may be encoded; ValueError if the op refuses them, the attributes or an encoding."""
        if self.check_encoded is not None and len(inputs) > 1:
            self.check_encoded(inputs, attributes)
        if all(type_ is None or type_.encoding is None for type_ in inputs):
            return self.infer(inputs, attributes)
        for position, type_ in enumerate(inputs):
            if type_ is not None and type_.encoding is not None:
                name = self.input_names[min(position, len(self.input_names) - 1)]
                if name not in self.encoded:
                    raise ValueError(f"{self.name}: expected {name!r} not to be encoded, got {type_}")
                type_.encoding.check(type_.shape)
        return self.infer([None if type_ is None else type_.plain for type_ in inputs], attributes)

    def find_channel_axis(self, name: str, attributes: Attributes) -> int | None:
        """The axis of the weight `name` with an index for each channel of the result, or each row of a table: 0 or 1.

        None if this input is no weight that may be encoded.
        """
        flag = self.encoded.get(name)
        return None if flag is None else int(bool(flag) and not attributes[flag])

    def evaluate(self, operands: Sequence[np.ndarray | Stored | None], attributes: Attributes) -> Any:
        """`reference` of operands, of which those named by `encoded` may be encoded constants."""
        if attributes.get("compute") == "int8":
            return self.reference(*operands, **attributes)
        return self.reference(*[o.elements() if isinstance(o, Stored) else o for o in operands], **attributes)

    def check_arity(self, count: int) -> None:
        """ValueError unless `count` inputs (absent optional ones counted) fit the declaration."""
        variadic = bool(self.inputs) and self.inputs[-1].endswith("*")
        least = len(self.inputs) - 1 if variadic else len(self.inputs)
        if count < least or (count > least and not variadic):
            raise ValueError(f"{self.name} takes inputs {self.inputs}, got {count}")

    def native_attributes(self, attributes: Attributes) -> tuple[list[int], list[float]]:
        """(ints, reals) as C receives them, in declaration order."""
        ints: list[int] = []
        reals: list[float] = []
        for name, attribute in self.attributes.items():
            value = attributes[name]
            match attribute.kind:
                case "float":
                    reals.append(float(value))
                case "choice":
                    ints.append(attribute.choices.index(value))
                case "dtype":
                    ints.append(next(i for i, d in enumerate(dtypes.DTYPES) if d.name == value))
                case "axes":
                    ints.append(sum(1 << axis for axis in value))
                case "int" | "bool" | "axis":
                    ints.append(int(value))
                case "ints":
                    ints += [*value, *[0] * (MAX_RANK - len(value))]
                case "program":
                    for step, *operands in value:
                        ints += [attribute.choices.index(step), *operands, *[-1] * (3 - len(operands))]
                case "shape":
                    pass
        return ints, reals


_PYTHON_TYPES: dict[str, Any] = {
    "int": (int, sizes.Size),
    "bool": bool,
    "float": (int, float, sizes.Formula),
    "choice": str,
    "dtype": str,
    "axis": int,
    "axes": (tuple, list),
    "ints": (tuple, list),
    "shape": (tuple, list),
    "program": (tuple, list),
}


def _checked(op: str, name: str, attribute: Attribute, value: Any) -> Any:
    wrong = ValueError(f"{op}: attribute {name}={value!r} is not of kind {attribute.kind} {attribute.choices or ''}")
    is_bool = isinstance(value, bool)  # which Python takes for an int
    if not isinstance(value, _PYTHON_TYPES[attribute.kind]) or (is_bool and attribute.kind != "bool"):
        raise wrong
    match attribute.kind:
        case "int":
            if type(value) is int and abs(value) >= 1 << 63:
                raise wrong
        case "choice":
            if value not in attribute.choices:
                raise wrong
        case "dtype":
            if value not in dtypes.BY_NAME:
                raise wrong
        case "axis":
            if value < 0:
                raise wrong
        case "axes":
            value = tuple(int(v) for v in value)
            if any(v < 0 for v in value) or list(value) != sorted(set(value)):
                raise wrong
        case "ints":
            if len(value) > MAX_RANK or not all(type(v) in (int, sizes.Size) and abs(v) < 1 << 31 for v in value):
                raise wrong
            value = tuple(map(operator.index, value))
        case "shape":
            value = tuple(map(sizes.whole, value))
        case "float":
            value = value if isinstance(value, sizes.Formula) else float(value)
        case "program":
            if not all(_is_step(step, attribute.choices) for step in value):
                raise wrong
            value = tuple(map(tuple, value))
        case _:
            pass
    return value


def _is_step(step: Any, names: tuple[str, ...]) -> bool:
    return (
        isinstance(step, (tuple, list))
        and 2 <= len(step) <= 4
        and step[0] in names
        and all(type(operand) is int and operand >= 0 for operand in step[1:])
    )


TABLE: dict[str, Op] = {}


def declare(op: Op) -> Op:
    """Put `op` into the table; a second op of the same name is an error."""
    if op.name in TABLE:
        raise ValueError(f"op {op.name!r} is declared twice")
    TABLE[op.name] = op
    return op


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's broadcast of `shapes`; ValueError where they do not fit."""
    rank = max(map(len, shapes), default=0)
    aligned = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(map(_common, zip(*aligned, strict=True)))


def _common(sizes_of_axis: tuple[int, ...]) -> int:
    found: int | None = None
    for size in sizes_of_axis:
        if type(size) is int and size == 1:
            continue
        if found is None or size == found:
            found = size if found is None else found
        elif found == 1:
            found = size
        elif size != 1:
            raise ValueError(f"sizes {sizes_of_axis} of one axis do not broadcast")
    return 1 if found is None else found
