"""Runs on memory whose addresses stay the same from run to run, with copies from and to the user's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.ops import TensorType
from engine.targets.base import Context, Device
from engine.targets.host import as_array
from engine.targets.plan import Place


class StagedContext(Context):
    """Gives another context the same values of the device in every run: copies inputs to them, and results from them.

    Args:
        context: what runs.
        device: where the values are.
        types: ``"input"``, ``"output"`` or both -> types of the call inputs or outputs. Inputs or outputs that are not
            named here are the user's own.
    """

    def __init__(self, context: Context, device: Device, types: Mapping[str, Sequence[TensorType]]) -> None:
        self._context, self._device = context, device
        self._values = {
            kind: [device.allocate(type_.nbytes).value(0, type_) for type_ in listed] for kind, listed in types.items()
        }
        self._outputs: Sequence[Any] = ()  # of the run that nobody has waited for

    def warm_up(self, fixed: Mapping[str, Sequence[Any]]) -> None:
        """As `Context.warm_up`; the context is told its values."""
        self._context.warm_up({**fixed, **self._values})

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """As `Context.run`, for dense arrays or CPU tensors."""
        if "input" in self._values:
            for value, given in zip(self._values["input"], inputs, strict=True):
                self._device.write(value, as_array(given))
        self._outputs = outputs
        self._context.run(self._values.get("input", inputs), self._values.get("output", outputs))

    def synchronize(self) -> None:
        """As `Context.synchronize`; then results are in the user's memory."""
        outputs, self._outputs = self._outputs, ()
        self._context.synchronize()
        if "output" in self._values:
            for value, wanted in zip(self._values["output"], outputs, strict=True):
                as_array(wanted)[...] = self._device.read(value)

    def look(self, place: Place) -> np.ndarray:
        """As `Context.look`."""
        return self._context.look(place)
