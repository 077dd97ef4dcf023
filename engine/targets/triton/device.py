"""The memory of Triton kernels, as torch tensors: on a CUDA device, or in this process for the interpreter.

Torch is imported when memory is first asked for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np

from engine import dtypes
from engine.errors import EngineError, ExecutionError, ProgramError
from engine.memory import as_tensor
from engine.ops import TensorType
from engine.targets.base import Buffer, Device


def is_interpreted() -> bool:
    """True if Triton's interpreter runs kernels in this process, on CPU tensors (`TRITON_INTERPRET=1`)."""
    return os.environ.get("TRITON_INTERPRET", "0") not in ("", "0", "false", "off")


def torch_type(name: str) -> Any:
    """Torch's element type of that name."""
    import torch

    return getattr(torch, name)


def is_on_device(value: Any) -> bool:
    """True for tensors of a CUDA device; False for other tensors, and for arrays."""
    return not isinstance(value, np.ndarray) and bool(value.is_cuda)


def as_elements(tensor: Any) -> np.ndarray:
    """The elements of a tensor on any device as an array; a view where the tensor is in this process."""
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        return np.asarray(tensor.view(torch.int16).numpy().view(dtypes.dtype("bfloat16").numpy))
    return np.asarray(tensor.numpy())


class TensorBuffer(Buffer):
    """Bytes in a torch tensor, `memory`, which is uint8 [nbytes]."""

    def __init__(self, nbytes: int, place: str) -> None:
        import torch

        self.nbytes = nbytes
        self.space = "host" if place == "cpu" else place
        try:
            self.memory = torch.empty(nbytes, dtype=torch.uint8, device=place)
        except RuntimeError as error:
            raise _explain_failure(nbytes, place, error) from error

    def value(self, start: int, type_: TensorType) -> Any:
        part = self.memory[start : start + type_.nbytes]
        return part.view(torch_type(type_.dtype)).view(type_.shape)

    def shares_memory_with(self, value: Any) -> bool:
        address = value.ctypes.data if isinstance(value, np.ndarray) else value.data_ptr()
        first = self.memory.data_ptr()
        return bool(first <= address < first + self.nbytes)


def _explain_failure(nbytes: int, place: str, error: RuntimeError) -> EngineError:
    """What to raise for `error`, with which torch has refused memory."""
    import torch

    if place == "cpu":
        return ProgramError(f"a program needs {nbytes:,} bytes of memory, which this machine does not give: {error}")
    if not isinstance(error, torch.OutOfMemoryError):
        return ExecutionError(describe_cuda_error(error))  # of earlier work; torch reports it at any later call
    free, total = torch.cuda.mem_get_info(place)
    return ProgramError(
        f"a program needs {nbytes:,} bytes of memory of {place}, which has {free:,} of {total:,} bytes free"
    )


def describe_cuda_error(error: Exception) -> str:
    """An error of CUDA, and what it means for the process."""
    return (
        f"CUDA reports an error: {error}. After most errors, CUDA does no further work in this process; programs of "
        "other targets go on."
    )


class _Order(AbstractContextManager[None]):
    """Lets the current stream wait for the block before, which another stream may run. The host does not wait."""

    def __init__(self, place: str) -> None:
        import torch

        self._place, self._ended = place, torch.cuda.Event()

    def __enter__(self) -> None:
        import torch

        stream = torch.cuda.current_stream(self._place)
        stream.wait_event(self._ended)  # nothing to wait for before the first block

    def __exit__(self, *_error: object) -> None:
        import torch

        self._ended.record(torch.cuda.current_stream(self._place))


class TritonDevice(Device):
    """A CUDA device, or memory of this process for the interpreter.

    It is the current CUDA device at the time when the first program is compiled or loaded for it.
    """

    @cached_property
    def place(self) -> str:
        """What torch calls it."""
        if is_interpreted():
            return "cpu"
        import torch

        return f"cuda:{torch.cuda.current_device()}"

    @property
    def name(self) -> str:  # type: ignore[override]  # not known before a program needs it
        return self.place

    def allocate(self, nbytes: int) -> TensorBuffer:
        """As `Device.allocate`. Torch aligns memory to 64 bytes or more."""
        return TensorBuffer(nbytes, self.place)

    def new_result(self, type_: TensorType, place: Any) -> Any:
        import torch

        try:
            return torch.empty(type_.shape, dtype=torch_type(type_.dtype), device=place)
        except RuntimeError as error:
            raise _explain_failure(type_.nbytes, place, error) from error

    def read(self, value: Any) -> np.ndarray:
        """As `Device.read`; waits for the device."""
        return as_elements(value)

    def write(self, value: Any, elements: np.ndarray | int) -> None:
        if isinstance(elements, int):
            value.fill_(elements)
        else:
            value.copy_(as_tensor(elements).expand(value.shape))

    def host_copy(self, value: Any) -> Any:
        """Zeros of the type and shape of `value` in host memory, to which the device copies without anyone waiting."""
        import torch

        return torch.zeros(value.shape, dtype=value.dtype, pin_memory=not value.is_cpu)

    def wait(self) -> None:
        """Wait for what was enqueued on the current stream."""
        if self.place != "cpu":
            import torch

            torch.cuda.current_stream(self.place).synchronize()

    def selected(self) -> AbstractContextManager[None]:
        """Makes it the current CUDA device in the block: Triton starts kernels on the current one."""
        import torch

        return nullcontext() if self.place == "cpu" else torch.cuda.device(self.place)

    def new_order(self) -> AbstractContextManager[None]:
        """Blocks of work that follow each other on the device, whichever stream each is enqueued on."""
        return nullcontext() if self.place == "cpu" else _Order(self.place)

    # --- what calls bring and take away ------------------------------------------------------------------------------

    def admits(self, tensor: Any) -> bool:
        return bool(tensor.is_cpu) or str(tensor.device) == self.place

    def copy_in(self, value: Any, given: Any) -> None:
        """As `Device.copy_in`, on the current stream; from host memory through pinned memory, without waiting."""
        given = as_tensor(given)
        if given.is_cpu and not value.is_cpu:
            given = given.pin_memory()  # torch keeps it until the copy has ended
        value.copy_(given, non_blocking=True)

    def copy_out(self, value: Any, requested: Any) -> None:
        if isinstance(requested, np.ndarray):
            requested[...] = self.read(value)
        else:
            requested.copy_(value)

    def bring(self, array: Any) -> Any:
        if self.place == "cpu":
            return array
        return as_tensor(array).contiguous().to(self.place)

    def choose_most_likely(self, logits: Any) -> np.ndarray | None:
        """As `Device.choose_most_likely`; waits once, for a number a row. Torch, too, gives the first of equals."""
        return as_elements(logits.argmax(-1)) if is_on_device(logits) else None

    def place_of_results(self, inputs: Sequence[Any]) -> Any:
        """This device if an input is there."""
        return self.place if any(map(is_on_device, inputs)) else None
