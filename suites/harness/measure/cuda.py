"""A CUDA device: its times by events of the device, with nothing of a call in its cache beforehand.

The parent process knows the device from a process of its own (`cuda_probe`), which imports torch and uses the device.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from suites import paths
from suites.harness.measure.device import Device, Result
from suites.harness.record.roofs import Roofs

if TYPE_CHECKING:
    from torch import Tensor

DRIVER = "libcuda.so.1"
FLUSH_TIMES = 4
"""Before each timed call, so many times the L2 cache is written."""
LEAST_FLUSH_BYTES = 64 << 20
PROBE_S = 300.0
"""Seconds that the process may take which asks the device."""


class Cuda(Device):
    """The current CUDA device of torch. Calls may return before the work is done."""

    has_clock = True
    has_float64 = True

    def __init__(self) -> None:
        self._flushed: Tensor | None = None
        self._events: tuple[Any, Any] | None = None
        self._held = 0

    def unavailable(self) -> str | None:
        return _find_missing_driver() or ask("facts").get("unavailable")

    def facts(self) -> Mapping[str, Any]:
        return ask("facts")

    def roofs(self) -> Roofs | None:
        answer = ask("roofs")
        return None if "unavailable" in answer else Roofs.from_dict(answer)

    def place_model(self, model: Any) -> Any:
        return model.to("cuda")

    def place(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        placed = tuple(tensor.to("cuda") for tensor in tensors)
        self.synchronise()
        return placed

    def has(self, tensor: Tensor) -> bool:
        return tensor.is_cuda

    def fetch(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        self.synchronise()
        return [tensor.detach().cpu() for tensor in tensors]

    def synchronise(self) -> None:
        import torch

        torch.cuda.synchronize()

    def time_call(self, call: Callable[[], Result]) -> tuple[float, Result]:
        """As `Device.time_call`, between two events of the current stream, which `call` must enqueue its work on.

        The device is idle before the first event, so time in which it waits for the host to start kernels is part of
        the call. Its L2 cache holds neither weights nor inputs, because a larger buffer has been written.
        """
        import torch

        if self._events is None:
            self._events = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin, end = self._events
        self._flush()
        torch.cuda.synchronize()
        begin.record()
        result = call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1e3, result

    def reset_peak(self) -> None:
        import torch

        self._flush()
        torch.cuda.reset_peak_memory_stats()
        self._held = torch.cuda.memory_allocated()

    def peak_bytes(self) -> int:
        """Bytes that torch allocated at most, above those at `reset_peak`. All backends allocate by torch."""
        import torch

        return int(torch.cuda.max_memory_allocated()) - self._held

    def _flush(self) -> None:
        """Write to more memory than the L2 cache holds."""
        if self._flushed is None:
            import torch

            l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
            nbytes = max(FLUSH_TIMES * l2_bytes, LEAST_FLUSH_BYTES)
            self._flushed = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        self._flushed.zero_()


@cache
def ask(what: str) -> Mapping[str, Any]:
    """What a process that uses the device tells of it, once a process.

    Args:
        what: ``facts`` or ``roofs``.

    Returns:
        The facts, or what `Roofs.to_dict` gives; only ``unavailable``, the reason, where there is no usable device.
    """
    roots = [str(paths.IMPORTED_FROM), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, roots))}
    command = [sys.executable, "-P", "-m", "suites.harness.measure.cuda_probe", what]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PROBE_S, check=True)
        answer: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as error:
        said = next((line for line in reversed(error.stderr.splitlines()) if line.strip()), f"exit {error.returncode}")
        return {"unavailable": f"no CUDA device can be used: {said.strip()}"}
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        return {"unavailable": f"no CUDA device can be used: {type(error).__name__} while asking for its {what}"}
    return answer


@cache
def _find_missing_driver() -> str | None:
    """Why there can be no device, found without importing torch; None where there may be one."""
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return f"no CUDA device: {DRIVER}, the library of its driver, is not installed"
    return None
