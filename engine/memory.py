"""Aligned allocation, and recycling of the buffers of large outputs once the caller has released them.

The system hands out a large piece page by page, filled with zeros, where each page is first written to: nearly two
microseconds for 4 KiB on the virtual machine where it was measured. Whether the C library keeps a piece for the next
call depends on what else the process allocates, so that one program's time differs from process to process.
"""

from __future__ import annotations

import math
import os
import resource
from collections import deque

import numpy as np

from engine.errors import ProgramError

ALIGNMENT = 64  # bytes: a cache line, and a vector of AVX-512
LARGE = 128 << 10
"""Outputs of at least this many bytes are recycled: from this size on the C library asks the system for memory."""
MOST = 256 << 20
"""Limit on the free buffers kept for later outputs, bytes, for all programs together. Buffers in use do not count."""


def total_bytes() -> int:
    """Bytes of memory that this machine has, or that the process may address, if that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return total if limit == resource.RLIM_INFINITY else min(total, limit)


def check_total(nbytes: int, what: str) -> None:
    """ProgramError where `nbytes` are more than this machine has: the system may promise them and end the process."""
    if nbytes > (total := total_bytes()):
        raise ProgramError(f"{what} takes {nbytes} bytes; this process can have {total}")


def aligned_empty(nbytes: int, alignment: int = ALIGNMENT) -> np.ndarray:
    """`nbytes` uninitialised bytes at an aligned address. ProgramError where the system has no such memory."""
    try:
        raw = np.empty(nbytes + alignment, np.uint8)
    except MemoryError:
        raise ProgramError(f"no memory for {nbytes} bytes of a program's values") from None
    start = -raw.ctypes.data % alignment
    return raw[start : start + nbytes]


class Recycler:
    """Makes arrays over memory that earlier ones lay in. Threads may share one.

    Args:
        most: bytes of free pieces that are kept; those that have been free longest go first.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._free: deque[np.ndarray] = deque()  # the latest on the right; each of its methods is atomic

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An uninitialised array in memory that nothing refers to but this array and what is made of it."""
        nbytes = math.prod(shape) * dtype.itemsize
        return np.asarray(_Lease(self, self._piece(nbytes), nbytes)).view(dtype).reshape(shape)

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
        """Keep a piece that nobody uses any longer."""
        self._free.append(piece)
        while sum(one.size for one in tuple(self._free)) > self._most:
            try:
                self._free.popleft()
            except IndexError:  # other threads were faster
                break


class _Lease:
    """What arrays in a piece refer to as their base: when the last of them is gone, so is this, and it is free."""

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
