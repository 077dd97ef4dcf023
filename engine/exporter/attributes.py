"""Finds the attributes of a model to which its code assigns other numbers while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_NUMBERS = (bool, int, float)


@contextlib.contextmanager
def collect_numbers(model: torch.nn.Module, assigned: list[str]) -> Iterator[None]:
    """Add to `assigned` the attributes that hold a number, and hold another one when `model` ends a call in the block.

    Named as ``layers.0.count``. torch.export, which warns of tensors itself, restores them without a word.
    """
    before = _list_numbers(model)

    def compare(*_: Any) -> None:
        after = _list_numbers(model)
        changed = (name for name, number in before.items() if name in after and after[name] != number)
        assigned.extend(name for name in changed if name not in assigned)

    hook = model.register_forward_hook(compare)
    try:
        yield
    finally:
        hook.remove()


def _list_numbers(model: torch.nn.Module) -> dict[str, bool | int | float]:
    return {
        f"{prefix}.{name}" if prefix else name: value
        for prefix, module in model.named_modules()
        for name, value in vars(module).items()
        if type(value) in _NUMBERS and value == value  # noqa: PLR0124  # NaN differs from itself
    }
