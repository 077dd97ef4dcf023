"""Values inside of an ONNX graph by the names that torch's exported graph gives them."""

from __future__ import annotations

import ast
import contextlib
import io
import logging
import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suites.harness.errors import Refused

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_ABOUT = "pkg.torch.onnx."
"""What begins the keys under which torch's exporter says what call a node was made of."""
_CALL = re.compile(r"%(\w+) :.*?target=torch\.ops\.([\w.]+)\]")
"""In the text of a call: its name, and what it calls."""
Place = tuple[str, str, str]
"""What is called, in which module, at which line."""


def write(program: ExportedProgram, names: Collection[str], plain: Path, more: Path) -> Mapping[str, str]:
    """Write `program` as an ONNX file `plain`, and `more` in the same folder, which also returns the values that are
    called `names` in the program. Returns the name of each of those that it has in the file.

    torch.onnx may number the calls anew, so they are matched by what they call, module and line, in order; where the
    file does not have as many of a kind as the program, none of this kind.
    """
    import onnx
    import torch

    for logger in ("torch.onnx", "onnxscript"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            made = torch.onnx.export(program, dynamo=True, external_data=True, optimize=False)
        except torch.onnx.OnnxExporterError as error:
            raise Refused(f"torch.onnx cannot export the model: {type(error.__cause__ or error).__name__}") from error
    assert made is not None  # noqa: S101  # as torch types it
    made.save(plain, external_data=True)
    model: Any = onnx.load(plain, load_external_data=False)
    known = {one.name: one for one in (*model.graph.value_info, *model.graph.output)}
    theirs, ours = _group(_read_calls(model.graph.node)), _group(_list_calls(program))
    found = {
        name: other
        for place, calls in ours.items()
        if len(theirs.get(place, ())) == len(calls)
        for name, other in zip(calls, theirs[place], strict=True)
        if name in names and other in known
    }
    present = {one.name for one in model.graph.output}
    model.graph.output.extend(known[name] for name in found.values() if name not in present)
    onnx.save(model, more)
    return found


def _read_calls(nodes: Iterable[Any]) -> Mapping[str, Place]:
    """Name of a call -> its place, of the calls that ONNX nodes were made of. The result of a call has its name."""
    found: dict[str, Place] = {}
    for node in nodes:
        about = {one.key.removeprefix(_ABOUT): one.value for one in node.metadata_props}
        match = _CALL.match(about.get("fx_node", ""))
        if match:
            scopes: list[str] = ast.literal_eval(about.get("name_scopes", "[]"))
            found[match[1]] = match[2], "".join(scopes[-2:-1]), _last_line(about.get("stack_trace"))
    return found


def _list_calls(program: ExportedProgram) -> Mapping[str, Place]:
    from engine.exporter.sources import module_of

    calls = (node for node in program.graph_module.graph.nodes if node.op == "call_function")
    return {one.name: (str(one.target), module_of(one), _last_line(one.meta.get("stack_trace"))) for one in calls}


def _last_line(trace: str | None) -> str:
    """``File "...", line 3`` of the innermost call of a trace."""
    places = [line.strip() for line in (trace or "").splitlines() if line.strip().startswith("File ")]
    return ",".join(places[-1].split(",")[:2]) if places else ""


def _group(calls: Mapping[str, Place]) -> Mapping[Place, list[str]]:
    found: dict[Place, list[str]] = {}
    for name, place in calls.items():
        found.setdefault(place, []).append(name)
    return found
