"""``path.onnx``: a model that is a file. Reads what the file declares of its inputs, and none of its weights.

The file is read as Protocol Buffers encode it (field numbers: onnx.proto of the ONNX standard), because the onnx
package reads a file as a whole: weights of gigabytes would be in the memory of every process that lists their inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from suites.harness.errors import describe_os_error
from suites.models._spec import Arguments, ModelError, ModelSpec, Option, UnknownModel

if TYPE_CHECKING:
    import torch

DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64",
}  # fmt: skip
"""TensorProto.DataType -> torch's name, of the types that inputs can be generated of."""
_OTHERS = {4: "uint16", 8: "string", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16"}
MOST_INTEGER = 2
"""Integers are drawn from 0 to one less: ids that are in every table, and valid masks."""


@dataclass(frozen=True)
class Input:
    """An input that a file declares.

    Attributes:
        name: its name.
        dtype: torch's name of the element type.
        shape: sizes; a text is the name of an axis whose size the file leaves open.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class OnnxFile:
    """A model that runtimes read themselves.

    Attributes:
        path: the file.
        inputs: as the file declares them.
        sizes: of the axes that the file leaves open.
    """

    path: Path
    inputs: tuple[Input, ...]
    sizes: Mapping[str, int]

    def shape(self, one: Input) -> tuple[int, ...]:
        """The shape of an input in every call."""
        return tuple(self.sizes[size] if isinstance(size, str) else size for size in one.shape)


def spec(name: str, file: Path, entry: str) -> ModelSpec:
    """The model of the file. Its sizes are the axes that the file leaves open; none has a default.

    Floating inputs are normal. Integers are drawn from 0 to `MOST_INTEGER` - 1; the option that is called as an
    integer input is another limit.

    Raises:
        UnknownModel: something follows the path.
        ModelError: the file is damaged, declares an input that cannot be generated, or has weights in a file that is
            missing or too short.
    """
    if entry:
        raise UnknownModel(f"model {name!r}: expected {file.name} with nothing behind it, got {entry!r}")
    found = _read(name, file)
    axes = dict.fromkeys(size for one in found for size in one.shape if isinstance(size, str))
    limit = Option(MOST_INTEGER, doc="integers of this input are below it")
    drawn = [one.name for one in found if one.dtype.startswith(("int", "uint")) and one.name not in axes]

    def make(arguments: Arguments) -> OnnxFile:
        return OnnxFile(file, found, {axis: arguments[axis] for axis in axes})

    def example(arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        model = make(arguments)
        return tuple(
            _drawn(one.dtype, model.shape(one), arguments.get(one.name, MOST_INTEGER), generator) for one in found
        )

    return ModelSpec(
        name=name,
        summary=f"the ONNX file {file.name}",
        make=make,
        example=example,
        shape_keys=axes,
        limits=dict.fromkeys(axes, (0, None)),
        options=dict.fromkeys(drawn, limit),
        form="onnx",
        keeps_types=True,
    )


def _drawn(dtype: str, shape: tuple[int, ...], below: int, generator: torch.Generator) -> torch.Tensor:
    import torch

    kind: torch.dtype = getattr(torch, dtype)
    if kind.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(kind)
    limit = min(below, torch.iinfo(kind).max) if kind is not torch.bool else 2
    return torch.randint(0, limit, shape, generator=generator).to(kind)


# --- the file --------------------------------------------------------------------------------------------------------

_MODEL_GRAPH, _GRAPH_INITIALIZER, _GRAPH_INPUT, _TENSOR_NAME = 7, 5, 11, 8
_VALUE_NAME, _VALUE_TYPE, _TYPE_TENSOR, _TENSOR_ELEMENT, _TENSOR_SHAPE = 1, 2, 1, 1, 2
_SHAPE_DIM, _DIM_VALUE, _DIM_PARAM = 1, 1, 2
_TENSOR_FILE, _TENSOR_PLACE, _PLACE_FILE, _ENTRY_KEY, _ENTRY_VALUE = 13, 14, 1, 1, 2
_SPARSE_INITIALIZER, _SPARSE_VALUES = 15, 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _Damaged(Exception):
    """The bytes are no encoded message."""


@dataclass(frozen=True)
class _Field:
    """A field of a message: its number, and its value or where its bytes lie in the file."""

    number: int
    value: int
    begin: int
    end: int


def _read(name: str, file: Path) -> tuple[Input, ...]:
    try:
        with file.open("rb") as stream:
            graphs = [one for one in _fields(stream, 0, file.stat().st_size) if one.number == _MODEL_GRAPH]
            if not graphs:
                raise _Damaged("it has no graph")
            _check_files_of_weights(name, file, stream, graphs[-1])
            return tuple(_inputs(name, stream, graphs[-1]))
    except OSError as error:
        raise UnknownModel(f"model {name!r}: {file.name} cannot be read: {describe_os_error(error)}") from None
    except (_Damaged, UnicodeDecodeError) as error:
        raise ModelError(
            f"model {name!r}: {file.name} is damaged or no ONNX file: {error}; expected a file such as onnx.save writes"
        ) from None


def _check_files_of_weights(name: str, file: Path, stream: BinaryIO, graph: _Field) -> None:
    """Raises ModelError if the file of a weight that is stored outside of the model is missing or too short."""
    for one in _fields(stream, graph.begin, graph.end):
        place = _last(stream, one, _TENSOR_PLACE) if one.number == _GRAPH_INITIALIZER else None
        if place is None or place.value != _PLACE_FILE:
            continue
        facts = {}
        for entry in _fields(stream, one.begin, one.end):
            if entry.number == _TENSOR_FILE:
                key, value = (_last(stream, entry, number) for number in (_ENTRY_KEY, _ENTRY_VALUE))
                facts[_text(stream, key)] = _text(stream, value)
        weight = f"model {name!r}: the weight {_text(stream, _last(stream, one, _TENSOR_NAME))} of {file.name}"
        beside = file.parent / facts.get("location", "")
        if not beside.is_file():
            raise ModelError(
                f"{weight} is in the file {facts.get('location', '')!r}, which does not exist in {file.parent}; "
                "put it there"
            )
        numbers = [facts.get(key, "0") for key in ("offset", "length")]
        end = sum(map(int, numbers)) if all(text.isdecimal() for text in numbers) else 0
        if beside.stat().st_size < end:
            raise ModelError(
                f"{weight} ends at byte {end} of the file {beside.name}, which has {beside.stat().st_size}; the two "
                "files do not belong together, or the copy is incomplete"
            )


def _inputs(name: str, stream: BinaryIO, graph: _Field) -> Iterator[Input]:
    declared, stored = [], set[str]()
    for one in _fields(stream, graph.begin, graph.end):
        if one.number == _GRAPH_INPUT:
            declared.append(one)
        elif one.number == _GRAPH_INITIALIZER:
            stored.add(_text(stream, _last(stream, one, _TENSOR_NAME)))
        elif one.number == _SPARSE_INITIALIZER:
            values = _last(stream, one, _SPARSE_VALUES)
            stored.add(_text(stream, None if values is None else _last(stream, values, _TENSOR_NAME)))
    for one in declared:
        called = _text(stream, _last(stream, one, _VALUE_NAME))
        if called not in stored:  # a weight may be listed as an input with a default
            yield _input(name, stream, one, called)


def _input(name: str, stream: BinaryIO, declared: _Field, called: str) -> Input:
    kind = _last(stream, declared, _VALUE_TYPE)
    tensor = None if kind is None else _last(stream, kind, _TYPE_TENSOR)
    if tensor is None:
        raise ModelError(f"model {name!r}: input {called} is not a tensor; only tensors can be generated")
    element, shape = _last(stream, tensor, _TENSOR_ELEMENT), _last(stream, tensor, _TENSOR_SHAPE)
    number = 0 if element is None else element.value
    if number not in DTYPES:
        what = _OTHERS.get(number, f"type {number}")
        raise ModelError(
            f"model {name!r}: input {called} has elements of {what}; expected {', '.join(DTYPES.values())}"
        )
    if shape is None:
        raise ModelError(f"model {name!r}: input {called} declares no rank; expected a shape, which may name axes")
    sizes: list[int | str] = []
    for axis, one in enumerate(part for part in _fields(stream, shape.begin, shape.end) if part.number == _SHAPE_DIM):
        fixed, symbol = _last(stream, one, _DIM_VALUE), _last(stream, one, _DIM_PARAM)
        is_fixed = fixed is not None and fixed.value < 1 << 63  # some exporters write -1 for an open axis
        sizes.append(fixed.value if fixed and is_fixed else _text(stream, symbol) or f"{called}_{axis}")
    return Input(called, DTYPES[number], tuple(sizes))


def _last(stream: BinaryIO, message: _Field, number: int) -> _Field | None:
    """The field of that number: of several the last one counts."""
    return next((one for one in reversed([*_fields(stream, message.begin, message.end)]) if one.number == number), None)


def _text(stream: BinaryIO, where: _Field | None) -> str:
    if where is None:
        return ""
    stream.seek(where.begin)
    return stream.read(where.end - where.begin).decode()


def _fields(stream: BinaryIO, begin: int, end: int) -> Iterator[_Field]:
    """The fields of the message in these bytes of the file; _Damaged where the bytes are none."""
    while begin < end:
        tag, begin = _varint(stream, begin, end)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, begin = _varint(stream, begin, end)
            yield _Field(number, value, begin, begin)
            continue
        if kind == _BYTES:
            size, begin = _varint(stream, begin, end)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise _Damaged(f"a field of unknown kind {kind}")
        if number == 0 or begin + size > end:
            raise _Damaged("a field ends behind its message")
        yield _Field(number, 0, begin, begin + size)
        begin += size


def _varint(stream: BinaryIO, begin: int, end: int) -> tuple[int, int]:
    """A number of 7 bits a byte, lowest first, and where the next field begins."""
    stream.seek(begin)
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if begin >= end or not byte:
            raise _Damaged("it ends in the middle of a number")
        begin += 1
        value |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return value, begin
    raise _Damaged("a number of more than 64 bits")
