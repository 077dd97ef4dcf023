"""Names of the devices that a case may run on. The classes behind them: `suites.harness.measure.device`."""

from __future__ import annotations

from pathlib import Path, PurePath

from engine.suggest import unknown
from suites import user_file
from suites.harness.errors import UsageError

CPU = "cpu"
CUDA = "cuda"


DEVICES = {
    CPU: "suites.harness.measure.device:Cpu",  # the processors of this machine
    CUDA: "suites.harness.measure.cuda:Cuda",  # the current CUDA device of torch
}
"""Name, as suites and case ids spell it -> ``module:Class``, a `suites.harness.measure.device.Device`."""


def label(name: str) -> str:
    """The name of a device in ids and records; names no folder."""
    return PurePath(name).name


def own_class(name: str) -> tuple[Path, str] | None:
    """File and class of ``path.py:Class``; None for a name of the table.

    Raises:
        UsageError: the table has no such name, or there is no such file.
    """
    own = user_file.split("device", name)
    if own is None and name not in DEVICES:
        raise UsageError(f"{unknown('device', name, DEVICES)}, or path.py:Class")
    return own
