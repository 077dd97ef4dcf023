"""Memory that Triton kernels read and write, as torch tensors: on a CUDA device, or in this process for the interpreter.

Torch is imported when memory is first asked for.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from engine import dtypes
from engine.errors import ProgramError
from engine.ops import TensorType
from engine.targets.base import Buffer, Device


def is_interpreted() -> bool:
    """True if Triton's interpreter runs kernels in this process, on CPU tensors (`TRITON_INTERPRET=1`)."""
    return os.environ.get("TRITON_INTERPRET", "0") not in ("", "0", "false", "off")


def torch_type(name: str) -> Any:
    """Torch's element type of that name."""
    import torch

    return getattr(torch, name)


def as_tensor(array: np.ndarray) -> Any:
    """A CPU tensor over the memory of an array; a copy where torch cannot refer to it."""
    import torch

    array = np.asarray(array)
    if not array.flags.writeable or not array.flags.c_contiguous:
        array = array.copy()
    if array.dtype == dtypes.dtype("bfloat16").numpy:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def as_elements(tensor: Any) -> np.ndarray:
    """The elements of a tensor on any device as an array; a view where the tensor is in this process."""
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        return np.asarray(tensor.view(torch.int16).numpy().view(dtypes.dtype("bfloat16").numpy))
    return np.asarray(tensor.numpy())


class TensorBuffer(Buffer):
    """Bytes in a torch tensor.

    Attributes:
        memory: uint8 [nbytes].
    """

    def __init__(self, nbytes: int, place: str) -> None:
        import torch

        self.nbytes = nbytes
        self.space = "host" if place == "cpu" else place
        try:
            self.memory = torch.empty(nbytes, dtype=torch.uint8, device=place)
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            raise ProgramError(_describe_shortage(nbytes, place, error)) from None

    def value(self, start: int, type_: TensorType) -> Any:
        """A dense tensor over the bytes from `start` on."""
        part = self.memory[start : start + type_.nbytes]
        return part.view(torch_type(type_.dtype)).view(type_.shape)

    def shares_memory_with(self, value: Any) -> bool:
        """As `Buffer.shares_memory_with`."""
        address = value.ctypes.data if isinstance(value, np.ndarray) else value.data_ptr()
        first = self.memory.data_ptr()
        return bool(first <= address < first + self.nbytes)


def _describe_shortage(nbytes: int, place: str, error: Exception) -> str:
    import torch

    if place == "cpu":
        return f"a program needs {nbytes:,} bytes of memory, which this machine does not give: {error}"
    free, total = torch.cuda.mem_get_info(place)
    return f"a program needs {nbytes:,} bytes of memory of {place}, which has {free:,} of {total:,} bytes free"


class TritonDevice(Device):
    """The current CUDA device, or memory of this process for the interpreter."""

    @property
    def place(self) -> str:
        """What torch calls it."""
        if is_interpreted():
            return "cpu"
        import torch

        return f"cuda:{torch.cuda.current_device()}"

    @property
    def name(self) -> str:  # type: ignore[override]  # known once CUDA is
        """As `Device.name`."""
        return self.place

    def allocate(self, nbytes: int) -> TensorBuffer:
        """As `Device.allocate`. Torch aligns memory to 64 bytes or more."""
        return TensorBuffer(nbytes, self.place)

    def read(self, value: Any) -> np.ndarray:
        """As `Device.read`; waits for the device."""
        return as_elements(value)

    def write(self, value: Any, elements: np.ndarray | int) -> None:
        """As `Device.write`."""
        if isinstance(elements, int):
            value.fill_(elements)
        else:
            value.copy_(as_tensor(elements).expand(value.shape))
