"""The state of a program between calls: one array for each buffer that the model writes to."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from engine.graph import Graph
from engine.memory import ALIGNMENT
from engine.ops import TensorType
from engine.runtime.requests import refuse_to_copy
from engine.targets.base import Buffer, Device


class State(Mapping[str, np.ndarray]):
    """The model's buffers as arrays of their shapes and dtypes, by name; `Program.new_state` creates it.

    The memory is the device's: where this process can address it, an array is a view of it, otherwise a copy. Each call
    that is given the state changes the memory in place. Any number of states may be in use with one program
    at once; a call locks its state while it runs.

    Attributes:
        types: element type and shape of each buffer.
        lock: held by a thread that uses the arrays. A thread that holds it may call the program with the state.
    """

    def __init__(self, graph: Graph, device: Device) -> None:
        self._initial = {name: None if value is None else value.elements for name, value in graph.states}
        self.types = dict(zip(self._initial, (value.type for value in graph.state_inputs), strict=True))
        self._device = device
        self._memory, self._values = _lay_out(self.types, device)
        self.lock = threading.RLock()
        self.reset()

    def __getitem__(self, name: str) -> np.ndarray:
        return self._device.read(self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __reduce__(self) -> NoReturn:
        refuse_to_copy(self, "dict(state) has its arrays, which can be")

    def values_of(self, names: Iterable[str]) -> list[Any]:
        """The buffers of these names, in order, as programs of the device take them. KeyError for an unknown name."""
        return [self._values[name] for name in names]

    def copies_of(self, names: Iterable[str]) -> list[Any]:
        """As `values_of`, of what the buffers hold now, in memory of its own."""
        chosen = list(names)
        values = _lay_out(self.types, self._device)[1]
        for name in chosen:
            self._device.write(values[name], self[name])
        return [values[name] for name in chosen]

    def has_memory_of(self, value: Any) -> bool:
        """True if a dense array or tensor shares memory with this state. Every call asks it for each of its inputs."""
        return self._memory.shares_memory_with(value)

    def reset(self) -> None:
        """Give every buffer the value that it had when the model was compiled."""
        with self.lock:
            for name, initial in self._initial.items():
                self._device.write(self._values[name], 0 if initial is None else initial)


def _lay_out(types: Mapping[str, TensorType], device: Device) -> tuple[Buffer, dict[str, Any]]:
    """Uninitialised values of these types, and the piece of memory that all of them lie in."""
    sizes = [-(-type_.nbytes // ALIGNMENT) * ALIGNMENT for type_ in types.values()]
    memory, values, start = device.allocate(sum(sizes)), {}, 0
    for (name, type_), size in zip(types.items(), sizes, strict=True):
        values[name] = memory.value(start, type_)
        start += size
    return memory, values
