"""Models of a user's own file: ``path.py:factory``, where ``factory()`` returns (module, inputs). Knows no registry."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import errors
from engine.suggest import unknown
from suites.models._spec import WEIGHT_SEED, Arguments, ModelError, ModelSpec, UnknownModel, seeded

if TYPE_CHECKING:
    import torch
    from torch import nn

# A defect of the engine is not the factory's. Engines of other versions, under which this runs too, may lack the class.
_DEFECT: type[Exception] = getattr(errors, "InternalError", ModelError)


def is_path(name: str) -> bool:
    """Whether `name` points into a Python file rather than into the registry."""
    return name.partition(":")[0].endswith(".py")


def spec(name: str) -> ModelSpec:
    """The model of ``path.py:factory``. The file runs when the model is built, not now.

    Its `inputs` of seed 0 are the factory's own; of another seed, the same values in another order: they stay in range,
    whatever they mean.

    Raises:
        UnknownModel: no factory is named, or the file does not exist.
    """
    path, _, factory = name.partition(":")
    if not factory.isidentifier():
        raise UnknownModel(f"model {name!r}: expected path.py:factory, with the name of a function after the colon")
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise UnknownModel(f"model {name!r}: no such file: {file}")

    def make(_arguments: Arguments) -> nn.Module:
        return _call(name, file, factory)[0]

    def example(_arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        with seeded(WEIGHT_SEED):
            inputs = _call(name, file, factory)[1]
        return inputs if generator.initial_seed() == 0 else tuple(_shuffled(x, generator) for x in inputs)

    return ModelSpec(name=name, summary=f"{factory}() of {file.name}", make=make, example=example)


def _call(name: str, file: Path, factory: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    import torch

    try:
        made = _function(name, file, factory)()
    except (ModelError, _DEFECT):
        raise
    except Exception as error:
        raise ModelError(f"model {name!r}: {factory}() raised {type(error).__name__}: {error}") from error
    pair = made if isinstance(made, tuple) and len(made) == 2 else (None, None)
    inputs = (pair[1],) if isinstance(pair[1], torch.Tensor) else pair[1]
    if not isinstance(pair[0], torch.nn.Module) or not isinstance(inputs, tuple):
        expected = "(torch.nn.Module, tuple of tensors)"
        raise ModelError(f"model {name!r}: {factory}() must return {expected}, got {_shape(made)}")
    if not all(isinstance(x, torch.Tensor) for x in inputs):
        raise ModelError(f"model {name!r}: every input that {factory}() returns must be a tensor, got {_shape(inputs)}")
    return pair[0], inputs


def _function(name: str, file: Path, factory: str) -> Callable[[], Any]:
    module_name = f"_user_model_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    found = importlib.util.spec_from_file_location(module_name, file)
    if found is None or found.loader is None:
        raise ModelError(f"model {name!r}: {file} cannot be imported")
    module = importlib.util.module_from_spec(found)
    sys.modules[module_name] = module  # dataclasses and torch.export look a class's module up by its name
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    function = getattr(module, factory, None)
    if not callable(function):
        own = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module_name]
        raise ModelError(f"model {name!r}: {file.name}: {unknown('function', factory, own)}")
    made: Callable[[], Any] = function
    return made


def _shuffled(value: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    import torch

    order = torch.randperm(value.numel(), generator=generator)
    return value.reshape(-1)[order].reshape(value.shape)


def _shape(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(type(v).__name__ for v in value)})"
    return type(value).__name__
