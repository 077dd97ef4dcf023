"""The fast path of a call: checks arguments, takes addresses, runs and makes outputs in one Python function.

A small model runs in under a microsecond, and each call of a Python function takes a tenth of that. Arguments other
than positional dense tensors or arrays go through `Boundary` and `CpuExecutable.run`, which also report errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from engine.errors import ExecutionError
from engine.ops import TensorType
from engine.targets.base import UNUSUAL
from engine.targets.cpu import native


class FlatBoundary(Protocol):
    """The attributes of `engine.runtime.boundary.Boundary` that the fast path reads."""

    is_flat: bool
    is_single: bool
    input_types: list[TensorType]
    output_types: list[TensorType]
    arrays: list[tuple[Any, tuple[int, ...]]]
    new_arrays: list[Callable[[], Any]]
    tensor: Any
    tensors: list[tuple[Any, tuple[int, ...], int, int]]
    new_tensors: list[Callable[[], Any]]

    def pack(self, outputs: list[Any]) -> Any:
        """The results in the model's own structure."""


class MemorySource(Protocol):
    """What the fast path uses of `CpuExecutable`: `free` is idle working memory, `make_memory` makes more."""

    free: list[Any]

    def make_memory(self) -> Any:
        """As `CpuExecutable.make_memory`."""

    def failure(self, status: int, number: int) -> ExecutionError:
        """As `CpuExecutable.failure`."""


def fast_path(boundary: FlatBoundary, executable: MemorySource) -> Callable[[tuple[Any, ...]], Any]:
    """A function of positional arguments that returns the model's result, or `UNUSUAL` if it did not run.

    It raises as `CpuExecutable.run`.
    """
    count = len(boundary.input_types)
    arrays, new_arrays = boundary.arrays, boundary.new_arrays
    if not boundary.is_flat or not count:
        return lambda _args: UNUSUAL
    if any(t.dtype == "bfloat16" for t in (*boundary.input_types, *boundary.output_types)):
        arrays = [(None, ())] * count  # `address_of` takes no bfloat16 arrays; tensors take the fast path
    free, single, address_of = executable.free, boundary.is_single, native.address_of
    ndarray: Any = np.ndarray
    total = count + len(new_arrays)

    def call(args: tuple[Any, ...]) -> Any:
        if len(args) != count:
            return UNUSUAL
        try:
            memory = free.pop()
        except IndexError:
            memory = executable.make_memory()
        run, pointers, words, failed, _arena = memory
        makers = new_arrays
        position = 0
        try:
            for leaf in args:
                if type(leaf) is ndarray:
                    dtype, shape = arrays[position]
                    if leaf.dtype is not dtype or leaf.shape != shape or not leaf.flags.carray:
                        break
                    position += 1
                    pointers[position] = address_of(leaf)
                elif type(leaf) is boundary.tensor:
                    dtype, shape, needed, width = boundary.tensors[position]
                    if (
                        leaf.dtype is not dtype
                        or leaf.shape != shape
                        or not leaf.is_cpu
                        or not leaf.is_contiguous()
                        or leaf.is_neg()
                        or not (address := leaf.data_ptr())
                        or len(leaf.untyped_storage()) - leaf.storage_offset() * width < needed  # it was resized
                    ):
                        break
                    position += 1
                    words[position] = address
                    makers = boundary.new_tensors
                else:
                    break
        except RuntimeError:  # a tensor without one memory: sparse, nested, or a wrapper of torch.func
            pass
        if position < count:
            free.append(memory)
            return UNUSUAL
        outputs = []
        try:
            for make in makers:
                output = make()
                if makers is new_arrays:
                    position += 1
                    pointers[position] = address_of(output)
                elif type(output) is boundary.tensor and ((address := output.data_ptr()) or not output.numel()):
                    position += 1
                    words[position] = address
                else:
                    break
                outputs.append(output)
        except RuntimeError:  # as above: a mode of torch has made it
            pass
        if position < total:
            free.append(memory)
            return UNUSUAL
        status = run()
        free.append(memory)
        if status:
            raise executable.failure(status, failed[0])
        return outputs[0] if single else boundary.pack(outputs)

    return call
