"""Where models run: what the harness asks of a device, and the one that is always there. Knows no backend and no case.

A device is one class with two halves. The parent process plans, stops workers and watches for contention with it, and
must not import torch. The worker process places models with it, and times with it. A further device is one more line of
`suites.harness.declare.device.DEVICES`, or ``path.py:Class`` in a suite.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from suites import user_file
from suites.harness.declare.device import DEVICES, own_class
from suites.harness.errors import UsageError
from suites.harness.measure.contention import Used, Watch
from suites.harness.record import machine
from suites.harness.record.roofs import Roofs

if TYPE_CHECKING:
    from torch import Tensor

Result = TypeVar("Result")


class Watching(Protocol):
    """Reads how much a device is used, and by whom."""

    def read(self) -> Used:
        """What was used since the last reading, and by whom."""


class Device(ABC):
    """One device in one process.

    A device that disappears while it is in use says so in `unavailable`, and by exceptions in the worker's half, whose
    text becomes the reason of the row. Other methods of the parent's half must not raise.
    """

    has_clock = False
    """Whether `time_call` times each call. Otherwise the host's clock times calls in a row, and `synchronise` is part
    of the sample."""
    has_float64 = False
    """Whether eager PyTorch runs models in float64 there. If so, the right outputs of its cases are computed on it, and
    results may be as wrong as those of eager PyTorch on the same device; otherwise both are of the processors."""

    # --- the parent asks; without torch ------------------------------------------------------------------------------

    @abstractmethod
    def unavailable(self) -> str | None:
        """Why nothing can run on it now; None where it can. Asked before each generation of a case."""

    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """JSON-able facts for the record: what it is and its versions; no host and no user name."""

    def roofs(self) -> Roofs | None:
        """What it can do at most; None where nobody measures that."""
        return None

    def stop(self, group: int) -> None:
        """Keep the worker whose process group is `group` from using it, until `resume`. The worker is between calls."""
        _signal(group, signal.SIGSTOP)

    def resume(self, group: int) -> None:
        """Let the worker use it again."""
        _signal(group, signal.SIGCONT)

    def watch(self, own: Callable[[], Iterable[int]]) -> Watching:
        """What sees others use it, or the processors that feed it. `own` gives the processes of the run."""
        return Watch(own)

    # --- the worker asks; torch is imported --------------------------------------------------------------------------

    @abstractmethod
    def place_model(self, model: Any) -> Any:
        """`model` with its parameters and buffers on the device."""

    @abstractmethod
    def place(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Tensors of the CPU as tensors of the device."""

    @abstractmethod
    def has(self, tensor: Tensor) -> bool:
        """True where `tensor` is on the device."""

    @abstractmethod
    def fetch(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Tensors of the device as tensors of the CPU, when the work that makes them is done."""

    @abstractmethod
    def synchronise(self) -> None:
        """Wait until the device has done all that this process gave it. Part of every timed sample."""

    def time_call(self, call: Callable[[], Result]) -> tuple[float, Result]:
        """Seconds of one call by the device's own clock, from when the device is idle, and what the call returned.

        Only for a device that `has_clock`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no clock")

    @abstractmethod
    def reset_peak(self) -> None:
        """Let `peak_bytes` begin anew."""

    @abstractmethod
    def peak_bytes(self) -> int | None:
        """Most bytes that this process held at once since `reset_peak`, above what it held then; None: not known."""


class Cpu(Device):
    """The processors of this machine, and its memory. Calls return when the work is done."""

    _resident: int | None = None

    def unavailable(self) -> str | None:
        return None

    def facts(self) -> Mapping[str, Any]:
        """Name and number of processors; the record's first line has the others."""
        known = machine.facts()
        return {name: known[name] for name in ("cpu", "cores", "memory_bytes")}

    def roofs(self) -> Roofs:
        from suites.harness.measure import roofs

        return roofs.measure()

    def place_model(self, model: Any) -> Any:
        return model

    def place(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(tensors)

    def has(self, tensor: Tensor) -> bool:
        return tensor.device.type == "cpu"

    def fetch(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return list(tensors)

    def synchronise(self) -> None:
        pass

    def reset_peak(self) -> None:
        """Set the kernel's peak counter back to the resident bytes of now, where it can be."""
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            self._resident = None
        else:
            self._resident = _status("VmRSS")

    def peak_bytes(self) -> int | None:
        """Peak resident bytes above those of `reset_peak`."""
        return None if self._resident is None else _status("VmHWM") - self._resident


def load(name: str) -> Device:
    """The device of that name.

    Raises:
        UsageError: there is none, or the file cannot be imported or has no such class.
    """
    own = own_class(name)
    if own is None:
        module_name, _, class_name = DEVICES[name].partition(":")
        module = importlib.import_module(module_name)
    else:
        path, class_name = own
        module = user_file.load(path)
    made: type[Device] | None = getattr(module, class_name, None)
    if made is None:
        raise UsageError(f"device {name!r}: its file has no {class_name}")
    return made()


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # every process of the group may be gone already
        os.killpg(group, number)


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {key}")
