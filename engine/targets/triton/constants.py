"""The constants of a program in the memory of the device: each is uploaded once, for all plans."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from engine.memory import ALIGNMENT
from engine.program import Artifact
from engine.targets.base import Prepared
from engine.targets.triton.device import TritonDevice


class Constants(Prepared):
    """Constants on the device, in one piece of memory; ProgramError if the device has too little.

    The artifact reads them from there afterwards, so that they are not in host memory as well.
    """

    def __init__(self, artifact: Artifact, device: TritonDevice) -> None:
        began = time.perf_counter()
        sizes = {value: -(-artifact.types[value].nbytes // ALIGNMENT) * ALIGNMENT for value in artifact.constants}
        memory, start = device.allocate(sum(sizes.values())), 0
        self.values: dict[int, Any] = {}
        for value, size in sizes.items():
            there = self.values[value] = memory.value(start, artifact.types[value])
            device.write(there, artifact.constants[value])
            artifact.constants.keep(value, partial(device.read, there))
            start += size
        self.packing_seconds = time.perf_counter() - began
