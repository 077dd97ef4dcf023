"""Tells compiled graphs which weights an optimizer has written. Knows no program.

A fused optimizer (``fused=True``) writes to parameters without raising their version counters, so that only a hook of
torch.optim can notice it. The hook is global to the process.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection
from functools import cache
from typing import Any, Protocol

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook


class Listener(Protocol):
    """An object that packs weights."""

    def forget(self, tensors: Collection[int]) -> None:
        """Pack the weights with these ids anew before they are used again."""


_lock = threading.Lock()
_listeners: weakref.WeakSet[Listener] = weakref.WeakSet()


def listen(listener: Listener) -> None:
    """Call ``listener.forget`` after each step of any optimizer, until `listener` is collected. Keeps no reference."""
    with _lock:
        _register()
        _listeners.add(listener)


@cache
def _register() -> None:
    # Dynamo must not trace the hook: a compiled step would then leave it out.
    register_optimizer_step_post_hook(torch.compiler.disable(_after_step))


def _after_step(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
    with _lock:
        listeners = tuple(_listeners)
    if listeners:
        written = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
        for listener in listeners:
            listener.forget(written)
