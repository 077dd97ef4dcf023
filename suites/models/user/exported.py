"""``path.pt2``: a program that `torch.export.save` wrote, with the inputs that it was exported with.

Its options are the symbolic axes, named after the first input that has them: ``ids_0`` is axis 0 of the input `ids`,
because the file does not keep the names of `torch.export.Dim`.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suites.harness.record.reasons import tidy
from suites.models._spec import Arguments, ModelError, ModelSpec, Option
from suites.models.user import inputs

if TYPE_CHECKING:
    import torch

_EXPECTED = "expected a file that torch.export.save wrote"
_MEMBER = "/models/model.json"  # holds the graph of the program
_SYMBOL = re.compile(r"Symbol\('(\w+)'")


def spec(name: str, file: Path, _entry: str) -> ModelSpec:
    """The model of the file. Its options are its symbolic axes. Its input sets are as `InputSets` says.

    Raises:
        ModelError: the file holds no exported program.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            (member,) = (one for one in archive.namelist() if one.endswith(_MEMBER))
            axes, symbols = _read_axes(json.loads(archive.read(member)))
    except Exception as error:
        raise ModelError(f"model {name!r}: {file.name} is damaged or no exported program; {_EXPECTED}") from error

    def make(arguments: Arguments) -> inputs.Made:
        module, sets = _load(name, file)
        sizes = {symbol: arguments[key] for key, (symbol, _) in axes.items()}
        return module, [_resize(one, symbols, sizes) for one in sets]

    return inputs.declare(
        make,
        name=name,
        summary=f"the exported program of {file.name}",
        options={key: Option(size, doc=f"axis {key}") for key, (_, size) in axes.items()},
        keeps_types=True,
    )


def _read_axes(document: Mapping[str, Any]) -> tuple[dict[str, tuple[str, int]], list[list[str | None]]]:
    """Name -> symbol and example size of an axis; for each tensor input the symbols of its axes, None for a fixed one.

    Args:
        document: the graph of the program, as torch.export.save writes it.
    """
    graph = document["graph_module"]
    axes: dict[str, tuple[str, int]] = {}
    found: list[list[str | None]] = []
    for one in graph["signature"]["input_specs"]:
        name = one.get("user_input", {}).get("arg", {}).get("as_tensor", {}).get("name")
        if name is None:
            continue
        found.append([])
        for number, size in enumerate(graph["graph"]["tensor_values"][name]["sizes"]):
            expression = size.get("as_expr", {"expr_str": ""})
            match = _SYMBOL.match(expression["expr_str"])
            found[-1].append(match and match[1])
            if match and match[1] not in (symbol for symbol, _ in axes.values()):
                axes[f"{name}_{number}"] = (match[1], expression["hint"]["as_int"])
    return axes, found


def _resize(
    given: tuple[torch.Tensor, ...], symbols: Sequence[Sequence[str | None]], sizes: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Inputs with other sizes: along an axis that becomes longer, the elements of the example are repeated."""
    import torch

    if len(given) != len(symbols):
        return given  # tensors that are not inputs of the graph, such as constants, came with the example
    found = []
    for tensor, axes in zip(given, symbols, strict=True):
        for number, symbol in enumerate(axes):
            if symbol is not None and tensor.shape[number] != sizes[symbol]:
                tensor = tensor.index_select(number, torch.arange(sizes[symbol]) % tensor.shape[number])
        found.append(tensor)
    return tuple(found)


def _load(name: str, file: Path) -> inputs.Made:
    import torch

    try:
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()  # torch.export.load compares no checksums: other weights would be measured
        if damaged is not None:
            raise zipfile.BadZipFile(f"{damaged} is not as it was written")
        program = torch.export.load(file)
    except Exception as error:
        reason = tidy(f"{type(error).__name__}: {error}")
        raise ModelError(f"model {name!r}: {file.name} cannot be read: {reason}; {_EXPECTED}") from error
    if program.example_inputs is None:
        raise ModelError(
            f"model {name!r}: {file.name} has no example inputs; save a program that torch.export.export returned, "
            "before anything else changed it"
        )
    return inputs.arrange(f"model {name!r}: {file.name}", (program, program.example_inputs))
