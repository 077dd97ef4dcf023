"""The short way through a call: a flat list of usual tensors in, checks, addresses, run and outputs in one frame.

A small model runs in under a microsecond, and each Python function on the way there costs a tenth of that. So this one
does what `Boundary.unpack`, `Boundary.allocate` and `NativeExecutor.run` do, for the arguments that nearly every call
has. All others it leaves to those three, which also say what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.targets.cpu import native

if TYPE_CHECKING:
    from engine.runtime.boundary import Boundary

# What a short way answers to arguments that are not for it.
UNUSUAL: Any = object()


def short_way(boundary: Boundary, executor: native.NativeExecutor) -> Callable[[tuple[Any, ...]], Any]:
    """A function from positional arguments to the model's result, or to `UNUSUAL` before anything ran.

    Raises (when called):
        ExecutionError: as `NativeExecutor.run`.
    """
    count = len(boundary.input_types)
    arrays, new_arrays = boundary.arrays, boundary.new_arrays
    if not boundary.is_flat or not count:
        return lambda _args: UNUSUAL
    if any(t.dtype == "bfloat16" for t in (*boundary.input_types, *boundary.output_types)):
        arrays = [(None, ())] * count  # `address_of` knows no such array; tensors of it are as usual as any
    free, single, address_of = executor.free, boundary.is_single, native.address_of
    ndarray: Any = np.ndarray

    def call(args: tuple[Any, ...]) -> Any:
        if len(args) != count:
            return UNUSUAL
        try:
            context = free.pop()
        except IndexError:
            context = executor.context()
        run, pointers, words, failed, _arena = context
        makers = new_arrays
        position = 0
        for leaf in args:
            if type(leaf) is ndarray:
                dtype, shape = arrays[position]
                if leaf.dtype is not dtype or leaf.shape != shape or not leaf.flags.carray:
                    break
                position += 1
                pointers[position] = address_of(leaf)
            elif type(leaf) is boundary.tensor:
                dtype, shape = boundary.tensors[position]
                if (
                    leaf.dtype is not dtype
                    or leaf.shape != shape
                    or not leaf.is_cpu
                    or leaf.layout is not boundary.strided
                    or not leaf.is_contiguous()
                    or leaf.is_neg()
                ):
                    break
                position += 1
                words[position] = leaf.data_ptr()
                makers = boundary.new_tensors
            else:
                break
        if position < count:
            free.append(context)
            return UNUSUAL
        outputs = []
        for make in makers:
            output = make()
            outputs.append(output)
            position += 1
            if makers is new_arrays:
                pointers[position] = address_of(output)
            else:
                words[position] = output.data_ptr()
        status = run()
        free.append(context)
        if status:
            raise executor.failure(status, failed[0])
        return outputs[0] if single else boundary.pack(outputs)

    return call
