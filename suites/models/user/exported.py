"""``path.pt2``: a program that `torch.export.save` wrote, with the inputs that it was exported with."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suites.models._spec import Arguments, ModelError, ModelSpec, UnknownModel
from suites.models.user import inputs

if TYPE_CHECKING:
    import torch

_EXPECTED = "expected a file that torch.export.save wrote"


def spec(name: str, file: Path, entry: str) -> ModelSpec:
    """The model of the file. It has no sizes and no options. Inputs of a seed are as those of a factory.

    Raises:
        UnknownModel: something follows the path.
        ModelError: the file is no archive.
    """
    if entry:
        raise UnknownModel(f"model {name!r}: expected {file.name} with nothing behind it, got {entry!r}")
    if not zipfile.is_zipfile(file):
        raise ModelError(f"model {name!r}: {file.name} is damaged or no exported program; {_EXPECTED}")
    examples: list[tuple[torch.Tensor, ...]] = []

    def make(_arguments: Arguments) -> Any:
        module, own = _load(name, file)
        examples[:] = [tuple(one.clone() for one in own)]
        return module

    def example(arguments: Arguments, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        if not examples:
            make(arguments)
        return inputs.of_seed(examples[0], generator)

    summary = f"the exported program of {file.name}"
    return ModelSpec(name=name, summary=summary, make=make, example=example, keeps_types=True)


def _load(name: str, file: Path) -> tuple[Any, tuple[torch.Tensor, ...]]:
    import torch

    try:
        program = torch.export.load(file)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else ""
        raise ModelError(
            f"model {name!r}: torch.export.load cannot read {file.name}: {type(error).__name__}: {reason}; {_EXPECTED}"
        ) from error
    if program.example_inputs is None:
        raise ModelError(
            f"model {name!r}: {file.name} has no example inputs; save a program that torch.export.export returned, "
            "before anything else changed it"
        )
    return inputs.arranged(f"model {name!r}: {file.name}", (program, program.example_inputs))
