"""What a model declares, and how it is built from that. Imports torch only inside `build` and `inputs`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError
from engine.suggest import unknown

if TYPE_CHECKING:
    import torch
    from torch import nn

Arguments = Mapping[str, Any]
WEIGHT_SEED = 1234
"""Weights that are drawn are drawn from this seed: every process measures the same model."""


class ModelError(EngineError):
    """A model cannot be built as asked: a wrong size or option, or a package that is missing."""


class UnknownModel(ModelError):
    """No model of this name, or no such file."""


@dataclass(frozen=True)
class Option:
    """A choice that changes the model and not only the shape of its inputs.

    Attributes:
        default: the value where none is given.
        values: all allowed values; empty: any positive integer, or any string that `pattern` matches.
        pattern: a regular expression that further strings may match in full.
        doc: one line.
    """

    default: Any
    values: tuple[Any, ...] = ()
    pattern: str = ""
    doc: str = ""

    def allows(self, value: Any) -> bool:
        """Whether `value` may be given."""
        if any(value is v or (type(value) is type(v) and value == v) for v in self.values):
            return True
        if self.pattern:
            return isinstance(value, str) and re.fullmatch(self.pattern, value) is not None
        return not self.values and _is_size(value, 1, None)

    @property
    def expected(self) -> str:
        """What may be given, in words."""
        if not self.values and not self.pattern:
            return "a positive integer"
        known = [repr(v) for v in self.values] + ([f"text like {self.pattern}"] if self.pattern else [])
        return "one of " + ", ".join(known)


@dataclass(frozen=True)
class ModelSpec:
    """A named model.

    Attributes:
        name: how suites and commands call it.
        summary: one line for lists.
        make: complete arguments -> the module. Runs with torch's CPU generator seeded.
        example: complete arguments, a seeded generator -> the tuple of input tensors.
        shape_keys: sizes of the inputs and their defaults, for example batch and sequence.
        options: what else can be chosen, each with its allowed values and default.
        limits: for some of `shape_keys` the least and the largest size (None: no limit). Others start at 1.
        refuses: complete arguments -> why these do not go together, or None.
        needs: packages (import names) without which it cannot be built.
        missing: further reasons why it cannot be built, or None.
        numpy: a module that `make` made -> its forward over NumPy arrays, written by hand, with the module's weights:
            arrays of the inputs' shapes and dtypes -> an array or a tuple of them. None where nobody has written one.
    """

    name: str
    summary: str
    make: Callable[[Arguments], nn.Module]
    example: Callable[[Arguments, torch.Generator], tuple[torch.Tensor, ...]]
    shape_keys: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, Option] = field(default_factory=dict)
    limits: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    refuses: Callable[[Arguments], str | None] = lambda _arguments: None
    needs: tuple[str, ...] = ("torch",)
    missing: Callable[[], str | None] = lambda: None
    numpy: Callable[[nn.Module], Callable[..., Any]] | None = None

    def complete(self, arguments: Arguments) -> Arguments:
        """`arguments` with the defaults filled in: the sizes first, then the options.

        Raises:
            ModelError: an unknown name, or a value that is not allowed.
        """
        for name in arguments:
            if name not in self.shape_keys and name not in self.options:
                raise ModelError(f"model {self.name}: {unknown('argument', name, (*self.shape_keys, *self.options))}")
        full: dict[str, Any] = {}
        for name, default in self.shape_keys.items():
            value = arguments.get(name, default)
            least, most = self.limits.get(name, (1, None))
            if not _is_size(value, least, most):
                upper = "" if most is None else f" and at most {most}"
                raise ModelError(f"model {self.name}: {name}={value!r} is no integer of at least {least}{upper}")
            full[name] = value
        for name, option in self.options.items():
            value = arguments.get(name, option.default)
            if not option.allows(value):
                raise ModelError(f"model {self.name}: {name}={value!r} is not {option.expected}")
            full[name] = value
        reason = self.refuses(full)
        if reason is not None:
            raise ModelError(f"model {self.name}: {reason}")
        return MappingProxyType(full)

    def unavailable(self) -> str | None:
        """Why it cannot be built on this machine; None where it can."""
        for package in self.needs:
            if importlib.util.find_spec(package) is None:
                return f"package {package} is not installed: install enginebench[suites]"
        return self.missing()

    def build(self, **arguments: Any) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        """The module, in inference mode and with the same weights in every process, and its inputs of seed 0.

        Torch's global generator is left as it was.

        Raises:
            ModelError: an argument is wrong, or the model is unavailable.
        """
        full = self._checked(arguments)
        with seeded(WEIGHT_SEED):
            model = self.make(full)
        return model.eval().requires_grad_(requires_grad=False), self.inputs(**full)

    def inputs(self, seed: int = 0, **arguments: Any) -> tuple[torch.Tensor, ...]:
        """Input tensors on the CPU; the same for the same seed and arguments.

        Raises:
            ModelError: as `build`.
        """
        full = self._checked(arguments)
        import torch

        return self.example(full, torch.Generator().manual_seed(seed))

    def _checked(self, arguments: Arguments) -> Arguments:
        full = self.complete(arguments)
        reason = self.unavailable()
        if reason is not None:
            raise ModelError(f"model {self.name} is unavailable: {reason}")
        return full


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's CPU generator for the block and put its state back afterwards."""
    import torch

    state = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)


def _is_size(value: Any, least: int, most: int | None) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least and (most is None or value <= most)
