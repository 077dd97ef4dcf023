"""The memory of this process as a device: for the cpu, the interpreter, and results of any target.

Buffers of large results are recycled: the first write to each page of a new buffer makes the system fill it with zeros,
nearly two microseconds for 4 KiB on the virtual machine where it was measured. Whether the C library keeps a freed
buffer depends on the other allocations of the process, so times would differ from process to process.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from engine import dtypes
from engine.memory import aligned_empty
from engine.ops import TensorType
from engine.targets.base import Buffer, Device
from engine.targets.plan import Place

LARGE = 128 << 10
"""Results of at least this many bytes are recycled: from this size on the C library asks the system for memory."""
MOST = 256 << 20
"""Maximum bytes of free buffers kept for later results, for all programs together. Buffers in use do not count."""


class HostBuffer(Buffer):
    """Aligned bytes of this process; `memory` is uint8 [nbytes], uninitialised at first."""

    space = "host"

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.memory = aligned_empty(nbytes)
        self._addresses = range(self.memory.ctypes.data, self.memory.ctypes.data + nbytes)

    def value(self, start: int, type_: TensorType) -> np.ndarray:
        part = self.memory[start : start + type_.nbytes]
        return part.view(dtypes.dtype(type_.dtype).numpy).reshape(type_.shape)

    def shares_memory_with(self, value: Any) -> bool:
        """As `Buffer.shares_memory_with`. Fast, since calls check each input: an array without a base is no view."""
        if isinstance(value, np.ndarray):
            return value.base is not None and np.may_share_memory(value, self.memory)
        return value.data_ptr() in self._addresses


class HostDevice(Device):
    """Values are NumPy arrays, and torch's tensors on the cpu."""

    name = "cpu"

    def allocate(self, nbytes: int) -> HostBuffer:
        return HostBuffer(nbytes)

    def read(self, value: np.ndarray) -> np.ndarray:
        return value

    def write(self, value: np.ndarray, elements: np.ndarray | int) -> None:
        value[...] = elements

    def new_array(self, type_: TensorType, *, recycle: bool) -> Callable[[], np.ndarray] | None:
        if not recycle or type_.nbytes < LARGE:
            return None
        return partial(RESULTS.array, type_.shape, dtypes.dtype(type_.dtype).numpy)


HOST = HostDevice()


def operand(memory: np.ndarray, start: int, place: Place) -> np.ndarray:
    """A view of the elements of an operand whose storage begins at byte `start` of `memory`, a dense array."""
    kind, layout = dtypes.dtype(place.dtype).numpy, place.layout
    strides = [stride * kind.itemsize for stride in layout.strides]
    raw = memory.reshape(-1).view(np.uint8)
    return np.ndarray(layout.shape, kind, raw.data, start + layout.offset * kind.itemsize, strides)


class Recycler:
    """Makes arrays in memory of earlier arrays that have been released. Threads may share a recycler.

    Of more than `most` bytes of free buffers, those that have been free longest are dropped.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._free: deque[np.ndarray] = deque()  # the latest on the right; the methods of deque are atomic

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An uninitialised array in memory that nothing refers to except this array and its views."""
        nbytes = math.prod(shape) * dtype.itemsize
        return np.asarray(_Block(self, self._piece(nbytes), nbytes)).view(dtype).reshape(shape)

    def _piece(self, nbytes: int) -> np.ndarray:
        for _ in range(len(self._free)):
            try:
                piece = self._free.pop()
            except IndexError:  # other threads were faster
                break
            if nbytes <= piece.size <= 2 * nbytes:
                return piece
            self._free.appendleft(piece)
        return aligned_empty(nbytes)

    def take_back(self, piece: np.ndarray) -> None:
        """Keep a buffer whose arrays have all been released."""
        self._free.append(piece)
        while sum(one.size for one in tuple(self._free)) > self._most:
            try:
                self._free.popleft()
            except IndexError:  # other threads were faster
                break


class _Block:
    """The base of all arrays over a buffer. It is deleted with the last of them and gives the buffer back."""

    def __init__(self, recycler: Recycler, piece: np.ndarray, nbytes: int) -> None:
        self._recycler, self._piece = recycler, piece
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (nbytes,),
            "data": (piece.ctypes.data, False),
        }

    def __del__(self) -> None:
        self._recycler.take_back(self._piece)


RESULTS = Recycler()
"""The recycler that all programs share."""
