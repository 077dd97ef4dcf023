"""The constants of a program in the memory of the device: each is uploaded once, for all plans."""

from __future__ import annotations

import time
import weakref
from collections.abc import Hashable
from functools import partial
from typing import Any

from engine.graph import find_constant_of
from engine.memory import ALIGNMENT
from engine.targets.base import Prepared
from engine.targets.plan import BoundPlan
from engine.targets.triton.device import TritonDevice


class Constants(Prepared):
    """Constants on the device. A borrowed one is read from there afterwards, so that it is not in host memory as well.

    `values` has what was uploaded and is still read, by type and identity of a constant's form.
    """

    def __init__(self, device: TritonDevice) -> None:
        self._device = device
        self.values: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
        self.packing_seconds = 0.0

    def upload(self, plan: BoundPlan) -> list[Any]:
        """The constants of `plan` on the device, by number; ProgramError if the device has too little memory.

        Those that are not there yet are uploaded to one piece of memory.
        """
        began = time.perf_counter()
        keys = {value: value.key for value in plan.constants}
        found = dict(self.values)
        missing = [value for value, key in keys.items() if key not in found]
        sizes = {value: -(-value.type.nbytes // ALIGNMENT) * ALIGNMENT for value in missing}
        memory, start = self._device.allocate(sum(sizes.values())), 0
        for value, size in sizes.items():
            there = found[keys[value]] = memory.value(start, value.type)
            self._device.write(there, value.elements)
            constant, views = find_constant_of(value)
            if constant.state == "borrowed":
                constant.pack(partial(self._device.read, there), views)
            start += size
        self.packing_seconds += time.perf_counter() - began
        self.values.update(found)
        return [found[key] for key in keys.values()]
