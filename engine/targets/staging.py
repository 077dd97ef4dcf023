"""Runs on memory whose addresses stay the same from run to run, with copies from and to the user's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.ops import TensorType
from engine.targets.base import Context, Device
from engine.targets.plan import Place


class StagedContext(Context):
    """Gives another context the same values of the device in every run: copies inputs to them, and results from them.

    `types` has the types of call inputs as ``"input"``, of call outputs as ``"output"``; what it lacks is the user's
    own.
    """

    def __init__(self, context: Context, device: Device, types: Mapping[str, Sequence[TensorType]]) -> None:
        self._context, self._device = context, device
        self._values = {
            kind: [device.allocate(type_.nbytes).value(0, type_) for type_ in listed] for kind, listed in types.items()
        }
        self._outputs: list[tuple[Any, Any]] = []  # values and where they go, of the run that nobody has waited for

    def copies_at_once(self, requested: Any) -> bool:
        """True if a copy to this array or tensor is enqueued behind the run, so that nobody need wait for it."""
        del requested
        return False

    def warm_up(self, fixed: Mapping[str, Sequence[Any]]) -> None:
        """As `Context.warm_up`; the context is told its values."""
        self._context.warm_up({**fixed, **self._values})

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        for value, given in zip(self._values.get("input", ()), inputs, strict="input" in self._values):
            self._device.copy_in(value, given)
        self._context.run(self._values.get("input", inputs), self._values.get("output", outputs))
        self._outputs = []
        for value, requested in zip(self._values.get("output", ()), outputs, strict="output" in self._values):
            if self.copies_at_once(requested):
                self._device.copy_out(value, requested)
            else:
                self._outputs.append((value, requested))

    def synchronize(self) -> None:
        """As `Context.synchronize`. A call that leaves all of its results on the device does not wait."""
        outputs, self._outputs = self._outputs, []
        if outputs or not self._values.get("output"):
            self._context.synchronize()
        for value, requested in outputs:
            self._device.copy_out(value, requested)

    def look(self, place: Place) -> np.ndarray:
        return self._context.look(place)
