"""Memory of this machine: how much there is, pieces of it at aligned addresses, and whether a tensor has any."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import sys
from typing import Any

import numpy as np

from engine import dtypes
from engine.errors import ProgramError

ALIGNMENT = 64  # bytes: a cache line, and a vector of AVX-512


def total_bytes() -> int:
    """Bytes of memory that this machine has, or that the process may address, if that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return total if limit == resource.RLIM_INFINITY else min(total, limit)


def check_total(nbytes: int, what: str) -> None:
    """ProgramError where `nbytes` are more than this machine has: the system may promise them and end the process."""
    if nbytes > (total := total_bytes()):
        raise ProgramError(f"{what} takes {nbytes} bytes; this process can have {total}")


def aligned_empty(nbytes: int) -> np.ndarray:
    """`nbytes` uninitialised bytes at an aligned address. ProgramError where the system has no such memory."""
    try:
        raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    except MemoryError:
        raise ProgramError(f"no memory for {nbytes} bytes of a program's values") from None
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


def release(array: np.ndarray) -> None:
    """Give the whole pages of a dense array back to the system. Its elements are then lost, unless they are in a mapped
    file. Does nothing where the system has no such call.
    """
    page = mmap.PAGESIZE
    begin = -(-array.ctypes.data // page) * page
    end = (array.ctypes.data + array.nbytes) // page * page
    if begin < end and _MADVISE is not None:
        _MADVISE(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), ctypes.c_int(mmap.MADV_DONTNEED))


def is_mapped(array: np.ndarray) -> bool:
    """True if the elements of `array` are in a mapped file."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner, memoryview) and isinstance(owner.obj, mmap.mmap)


NO_MEMORY_MODE = (
    "a mode of torch is active that gives new tensors no memory, such as FakeTensorMode or a transform of torch.func: "
    "use the engine outside of it"
)


def are_tensors_fake() -> bool:
    """True if torch is imported and gives new tensors no memory, as under FakeTensorMode."""
    torch = sys.modules.get("torch")
    return torch is not None and type(torch.empty(0, device="cpu")) is not torch.Tensor


def as_array(value: Any) -> np.ndarray:
    """A dense array or CPU tensor as a NumPy array over the same memory."""
    if isinstance(value, np.ndarray):
        return value
    value = value.detach()
    if str(value.dtype) == "torch.bfloat16":
        torch = sys.modules["torch"]  # loaded, since the value is a torch tensor; this module must not import it
        return np.asarray(value.view(torch.int16).numpy().view(dtypes.dtype("bfloat16").numpy))
    return np.asarray(value.numpy())


def as_tensor(value: Any) -> Any:
    """An array as a tensor over the same memory, or over a copy where torch cannot say it: read-only, backwards.

    A tensor is returned as it is.
    """
    torch = sys.modules["torch"]  # loaded, since who wants a tensor uses torch
    if isinstance(value, torch.Tensor):
        return value
    array = np.asarray(value)
    if not array.dtype.isnative or any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = array.astype(array.dtype.newbyteorder("="), order="C")
    array = array if array.flags.writeable and array.flags.aligned else array.copy(order="K")
    if array.dtype == dtypes.dtype("bfloat16").numpy:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def fault_of_memory(tensor: Any) -> str:
    """What a strided tensor of torch is, in words, where its elements cannot be read from its memory; otherwise empty.

    A tensor may have no memory, and a storage may be made smaller while tensors refer to it.
    """
    without = "a tensor without memory (torch.func, torch.export and FakeTensorMode make them); give one with values"
    if not tensor.numel():
        return ""
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    needed = (tensor.storage_offset() + steps + 1) * tensor.element_size()
    try:
        storage = tensor.untyped_storage()
        if storage.device != tensor.device:  # a FakeTensor; asked for its address, torch would warn
            return without
        if storage.nbytes() < needed:
            return f"a tensor that needs a storage of {needed} bytes and has one of {storage.nbytes()}; was it resized?"
        return "" if tensor.data_ptr() else without
    except RuntimeError:  # torch has no storage or no address
        return without


_MADVISE = getattr(ctypes.CDLL(None), "madvise", None) if hasattr(mmap, "MADV_DONTNEED") else None
