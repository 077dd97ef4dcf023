"""Copies between the user's memory and memory of a device whose addresses stay the same from run to run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.ops import TensorType
from engine.targets.base import Device
from engine.targets.host import as_array


class Staging:
    """What a call brings and takes away, for a device that reads no memory of the user's.

    Args:
        device: where the copies are.
        inputs: types of the call inputs.
        outputs: types of the call outputs.

    Attributes:
        inputs: a value of the device for each input, always the same one.
        outputs: the same for each output.
    """

    def __init__(self, device: Device, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> None:
        self._device = device
        self.inputs, self.outputs = (
            [device.allocate(type_.nbytes).value(0, type_) for type_ in types] for types in (inputs, outputs)
        )

    def bring(self, inputs: Sequence[Any]) -> None:
        """Copy the user's dense arrays or CPU tensors to the device."""
        for value, given in zip(self.inputs, inputs, strict=True):
            self._device.write(value, as_array(given))

    def take(self, outputs: Sequence[Any]) -> None:
        """Copy results to the user's dense arrays or CPU tensors."""
        for value, wanted in zip(self.outputs, outputs, strict=True):
            as_array(wanted)[...] = self._device.read(value)
