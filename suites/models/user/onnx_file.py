"""``path.onnx``: a model that is a file. Reads what the file declares of its inputs, and no weights of other files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from suites.harness.record.reasons import tidy
from suites.models._spec import Arguments, ModelError, ModelSpec, Option

if TYPE_CHECKING:
    import torch

MOST_INTEGER = 2
"""Integers are drawn from 0 to one less: ids that are in every table, and valid masks."""


class Input(NamedTuple):
    """An input that a file declares; a text in `shape` is the name of an axis whose size the file leaves open."""

    name: str
    dtype: np.dtype
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class OnnxFile:
    """A model that runtimes read themselves; `sizes` are those of the axes that the file leaves open."""

    path: Path
    inputs: tuple[Input, ...]
    sizes: Mapping[str, int]

    def shape(self, one: Input) -> tuple[int, ...]:
        """The shape of an input in every call."""
        return tuple(self.sizes[size] if isinstance(size, str) else size for size in one.shape)


def spec(name: str, file: Path, _entry: str) -> ModelSpec:
    """The model of the file. Its sizes are the axes that the file leaves open; none has a default.

    Floating inputs are normal. Integers are drawn from 0 to `MOST_INTEGER` - 1; the option that is called as an
    integer input is another limit.

    Raises:
        ModelError: the file is damaged, declares an input that cannot be generated, or has weights in a file that is
            missing or too short.
    """
    found = _read(name, file)
    axes = dict.fromkeys(size for one in found for size in one.shape if isinstance(size, str))
    limit = Option(MOST_INTEGER, doc="integers of this input are below it")
    drawn = [one.name for one in found if one.dtype.kind in "iu" and one.name not in axes]

    def make(arguments: Arguments) -> OnnxFile:
        return OnnxFile(file, found, {axis: arguments[axis] for axis in axes})

    def example(arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        model = make(arguments)
        return tuple(
            _draw(one.dtype, model.shape(one), arguments.get(one.name, MOST_INTEGER), generator) for one in found
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


def _draw(dtype: np.dtype, shape: tuple[int, ...], below: int, generator: torch.Generator) -> torch.Tensor:
    import torch

    kind: torch.dtype = getattr(torch, dtype.name)
    if kind.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(kind)
    return torch.randint(0, below, shape, generator=generator).to(kind)


def _read(name: str, file: Path) -> tuple[Input, ...]:
    import onnx

    try:
        graph = onnx.load(file, load_external_data=False).graph
    except Exception as error:
        raise ModelError(f"model {name!r}: onnx.load cannot read {file.name}: {tidy(str(error))}") from error
    if not graph.output:
        raise ModelError(f"model {name!r}: {file.name} has no outputs; expected a file such as onnx.save writes")
    for tensor in graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _check_external(f"model {name!r}: the weight {tensor.name} of {file.name}", file.parent, tensor)
    stored = {one.name for one in graph.initializer} | {one.values.name for one in graph.sparse_initializer}
    # a weight may be listed as an input with a default
    return tuple(_read_input(name, one) for one in graph.input if one.name not in stored)


def _check_external(weight: str, folder: Path, tensor: Any) -> None:
    """ModelError if the file of a weight that is stored outside of the model is missing or too short."""
    facts = {one.key: one.value for one in tensor.external_data}
    beside, end = folder / facts["location"], int(facts.get("offset", 0)) + int(facts.get("length", 0))
    size = beside.stat().st_size if beside.is_file() else None
    if size is None or size < end:
        what = "does not exist" if size is None else f"has {size} bytes"
        raise ModelError(f"{weight} ends at byte {end} of the file {beside}, which {what}")


def _read_input(name: str, declared: Any) -> Input:
    from onnx import helper

    kind = declared.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type) if kind.elem_type else np.dtype(object)
    if dtype.kind not in "fiub" or not kind.HasField("shape"):
        raise ModelError(
            f"model {name!r}: input {declared.name}: expected a tensor of numbers or truth values with a shape, which "
            f"may name axes, got {helper.printable_type(declared.type)}"
        )
    sizes: list[int | str] = []
    for number, axis in enumerate(kind.shape.dim):
        is_fixed = axis.HasField("dim_value") and axis.dim_value >= 0  # some exporters write -1 for an open axis
        sizes.append(axis.dim_value if is_fixed else axis.dim_param or f"{declared.name}_{number}")
    return Input(declared.name, dtype, tuple(sizes))
