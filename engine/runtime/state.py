"""The state of a program between calls: one array for each buffer that the model writes to."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from engine import dtypes
from engine.memory import ALIGNMENT, aligned_empty

if TYPE_CHECKING:
    from engine.ops import TensorType
    from engine.program import Artifact


class State(Mapping[str, np.ndarray]):
    """Arrays by the names of the model's buffers, each of its buffer's shape and dtype; `Program.new_state` creates it.

    Each call that is given the state changes the arrays in place. Any number of states may be in use with one program
    at once; a call locks its state while it runs.

    Attributes:
        lock: held by a thread that uses the arrays. A thread that holds it may call the program with the state.
    """

    def __init__(self, artifact: Artifact) -> None:
        self._initial = [
            (slot.name, None if slot.initial is None else artifact.constants[slot.initial], artifact.types[value])
            for slot, value in zip(artifact.states, artifact.state_inputs, strict=True)
        ]
        self._memory, self._arrays = _allocate({name: type_ for name, _, type_ in self._initial})
        first = self._memory.ctypes.data
        self._addresses = range(first, first + self._memory.size)
        self.lock = threading.RLock()
        self.reset()

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def arrays(self, names: Iterable[str]) -> list[np.ndarray]:
        """The arrays of these names, in order. KeyError for an unknown name."""
        return [self._arrays[name] for name in names]

    def has_memory_of(self, value: Any) -> bool:
        """True if a dense array or CPU tensor shares memory with the arrays of this state.

        Every call asks this for each of its inputs. All arrays lie in one piece of memory, so the number of buffers
        does not matter; and an array without a base is no view of it.
        """
        if isinstance(value, np.ndarray):
            return value.base is not None and np.may_share_memory(value, self._memory)
        return value.data_ptr() in self._addresses

    def reset(self) -> None:
        """Give every buffer the value that it had when the model was compiled."""
        with self.lock:
            for name, initial, _type in self._initial:
                self._arrays[name][...] = 0 if initial is None else initial


def _allocate(types: Mapping[str, TensorType]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Uninitialised arrays of these types at aligned addresses, and the bytes that all of them lie in."""
    sizes = [-(-type_.nbytes // ALIGNMENT) * ALIGNMENT for type_ in types.values()]
    memory, arrays, start = aligned_empty(sum(sizes)), {}, 0
    for (name, type_), size in zip(types.items(), sizes, strict=True):
        array = memory[start : start + type_.nbytes].view(dtypes.dtype(type_.dtype).numpy)
        arrays[name] = array.reshape(type_.shape)
        start += size
    return memory, arrays
