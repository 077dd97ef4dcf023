"""Finds the attributes of a model to which its code assigns other numbers while it runs, and takes back new ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_NUMBERS = (bool, int, float, torch.SymBool, torch.SymInt, torch.SymFloat)


@contextlib.contextmanager
def collect_numbers(model: torch.nn.Module, assigned: list[str]) -> Iterator[None]:
    """Add to `assigned` the attributes that hold a number, and another value before, when `model` ends a call.

    Named as ``layers.0.count``. torch.export, which warns of tensors itself, restores attributes without a word; those
    that the model has made in the block are removed here.
    """
    modules = list(model.named_modules())
    before = {name: dict(vars(module)) for name, module in modules}

    def compare(*_: Any) -> None:
        for prefix, module in modules:
            for name, value in vars(module).items():
                if type(value) not in _NUMBERS or _is_same(value, before[prefix].get(name)):
                    continue
                path = f"{prefix}.{name}" if prefix else name
                if path not in assigned:
                    assigned.append(path)

    hook = model.register_forward_hook(compare)
    try:
        yield
    finally:
        hook.remove()
        for prefix, module in modules:
            for name in vars(module).keys() - before[prefix].keys():
                del vars(module)[name]


def _is_same(number: Any, before: Any) -> bool:
    """True if both are numbers of one type and equal. A dynamic size never equals the number that was there before."""
    if type(before) is not type(number):
        return False
    return bool(number == before) or number != number  # noqa: PLR0124  # NaN differs from itself
