"""Tells compiled graphs which weights an optimizer has written. Knows no program.

A fused optimizer (``fused=True``) writes to parameters without raising their version counters, so that only a hook of
torch.optim can notice it. The hook is global to the process: it is registered while a graph listens, and only then.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection
from typing import Any, Protocol

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle


class Listener(Protocol):
    """An object that packs weights."""

    def forget(self, tensors: Collection[int]) -> None:
        """Pack the weights with these ids anew before they are used again."""


# Reentrant: Python may collect a listener, and so call `_remove`, in a thread that holds the lock.
_lock = threading.RLock()
_listeners: list[weakref.ref[Listener]] = []
_handle: RemovableHandle | None = None


def listen(listener: Listener) -> None:
    """Call ``listener.forget`` after each step of any optimizer, until `listener` is collected. Keeps no reference."""
    global _handle  # noqa: PLW0603  # the hook belongs to the process, as the list of listeners does
    with _lock:
        _listeners.append(weakref.ref(listener, _remove))
        if _handle is None:
            # Dynamo must not trace the hook: a compiled step would then leave it out.
            _handle = register_optimizer_step_post_hook(torch.compiler.disable(_after_step))


def _remove(reference: weakref.ref[Listener]) -> None:
    global _handle  # noqa: PLW0603  # as above
    with _lock:
        _listeners.remove(reference)
        if _listeners or _handle is None:
            return
        # Python collects listeners at any time, also while `Optimizer.step` iterates over the hooks, where torch does
        # not tolerate a removal between two hooks. Beside hooks of others ours stays and does nothing.
        hooks = _handle.hooks_dict_ref()
        if hooks is None or len(hooks) == 1:
            _handle.remove()
            _handle = None


def _after_step(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
    listeners = [listener for reference in tuple(_listeners) if (listener := reference()) is not None]
    if listeners:
        written = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
        for listener in listeners:
            listener.forget(written)
