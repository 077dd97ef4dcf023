"""What a program remembers from one call to the next: one array for each buffer that the model writes to."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from engine import dtypes

if TYPE_CHECKING:
    from engine.program import Artifact


class State(Mapping[str, np.ndarray]):
    """Made by `Program.new_state`; buffer name -> array, changed in place by each call that is given it.

    Any number of states may be in use with one program at once; a call holds its state while it runs.

    Attributes:
        lock: held by who uses the arrays. A thread that holds it may call the program with the state.
    """

    def __init__(self, artifact: Artifact) -> None:
        self._initial = [
            (slot.name, None if slot.initial is None else artifact.constants[slot.initial], artifact.types[value])
            for slot, value in zip(artifact.states, artifact.state_inputs, strict=True)
        ]
        self._arrays = {name: np.empty(t.shape, dtypes.dtype(t.dtype).numpy) for name, _, t in self._initial}
        self.lock = threading.RLock()
        self.reset()

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def arrays(self, names: Iterable[str]) -> list[np.ndarray]:
        """The arrays of these names, in order. KeyError where there is no such one."""
        return [self._arrays[name] for name in names]

    def reset(self) -> None:
        """Everything as the model had it when it was compiled."""
        with self.lock:
            for name, initial, _type in self._initial:
                self._arrays[name][...] = 0 if initial is None else initial
