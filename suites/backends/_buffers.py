"""Buffers that a model writes to: which they are, and their first values again before each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from suites.torch_internals import version_of

if TYPE_CHECKING:
    import torch
    from torch import nn


class Buffers:
    """Buffers of a module by the names of `named_buffers`, by default all, with copies of what they hold now."""

    def __init__(self, module: nn.Module, names: Iterable[str] | None = None) -> None:
        held = dict(module.named_buffers())
        self._kept = []
        for name in held if names is None else names:
            owner, _, own = name.rpartition(".")
            tensor = held[name]
            self._kept.append((name, module.get_submodule(owner), own, tensor, tensor.detach().clone()))
        self._versions = [version_of(tensor) for _, _, _, tensor, _ in self._kept]

    @property
    def ready(self) -> Callable[..., None] | None:
        """`restore` as `Prepared.ready` calls it; None if there are no buffers."""
        return (lambda *_inputs: self.restore()) if self._kept else None

    def written(self) -> tuple[str, ...]:
        """Names of the buffers that were written to, or replaced, since this was made."""
        return tuple(
            name
            for (name, owner, own, tensor, first), version in zip(self._kept, self._versions, strict=True)
            if getattr(owner, own) is not tensor or version_of(tensor) != version or _differ(tensor, first)
        )

    def restore(self) -> None:
        """Put the first values back, into the same memory."""
        import torch

        with torch.inference_mode():
            for _, owner, own, tensor, first in self._kept:
                tensor.copy_(first)
                setattr(owner, own, tensor)


def _differ(tensor: torch.Tensor, first: torch.Tensor) -> bool:
    same = (tensor == first) | ((tensor != tensor) & (first != first))  # noqa: PLR0124  # NaN stays NaN
    return tensor.shape != first.shape or not bool(same.all())
