"""Which precision a recipe gives to the weight that a call of an eager run reads.

Restates the rule of `engine.passes.recipe` for an eager run, so a mistake there is not repeated here: a pattern matches
the path of the module that is running, or the name of a weight of that module; the first pattern that matches decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Any, Self

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

Recipe = Sequence[Sequence[str]]
"""Pairs of a pattern and a precision."""


class Layers:
    """While entered, follows which module of a model runs.

    Args:
        model: the module whose paths the patterns are of.
        recipe: pairs of a pattern and a precision.
        otherwise: the precision of weights that no pattern matches.
    """

    def __init__(self, model: torch.nn.Module, recipe: Recipe, otherwise: str) -> None:
        self._recipe = recipe
        self._otherwise = otherwise
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._weights: dict[int, list[str]] = {}
        for name, tensor in model.named_parameters(remove_duplicate=False):
            self._weights.setdefault(tensor.untyped_storage().data_ptr(), []).append(name)
        self._running: list[str] = []
        self._hooks = ExitStack()

    def __enter__(self) -> Self:
        before = register_module_forward_pre_hook(self._begin)
        after = register_module_forward_hook(self._end, always_call=True)
        self._hooks.callback(before.remove)
        self._hooks.callback(after.remove)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hooks.close()

    def precision_of(self, weight: torch.Tensor) -> str:
        """The precision of a weight, or of a view of one, that the running module reads."""
        module = self._running[-1] if self._running else ""
        known = self._weights.get(weight.untyped_storage().data_ptr(), [])
        own = [name for name in known if not module or name.startswith(f"{module}.")]
        names = [one for one in (module, *own, *(name.rpartition(".")[0] for name in own)) if one]
        found = (precision for pattern, precision in self._recipe if any(fnmatchcase(one, pattern) for one in names))
        return next(found, self._otherwise)

    def _begin(self, module: torch.nn.Module, _inputs: Any) -> None:
        self._running.append(self._paths.get(id(module), self._running[-1] if self._running else ""))

    def _end(self, _module: torch.nn.Module, _inputs: Any, _outputs: Any) -> None:
        self._running.pop()
