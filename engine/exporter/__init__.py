"""Translates exported programs to graphs. Knows torch; `aten/` has a handler for each ATen overload."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, TensorArgument

from engine import tree
from engine.errors import ConfigError, InternalError, UnsupportedOp
from engine.exporter import aten as _handlers  # noqa: F401  # imported to register its handlers
from engine.exporter import trees
from engine.exporter.context import Missing
from engine.exporter.copies import check_written
from engine.exporter.dynamic import DynamicShapes, list_narrowed
from engine.exporter.guards import record_guards
from engine.exporter.signature import list_held, list_slots, list_user_inputs, names_of_parameters
from engine.exporter.symbols import Ranges, Symbols, names_of
from engine.exporter.torch_export import run_torch_export
from engine.exporter.walk import Translated, Walk
from engine.exporter.weights import WeightWatch
from engine.graph import Graph, Value
from engine.sizes import Size

__all__ = ["Exported", "Interface", "TorchExport", "export", "export_with_torch", "translate"]

CLONE = "let forward clone the input first, and write to the clone"
FALLBACK = 'Config(fallback="torch") lets torch run calls that the engine cannot compile'
"""Advice in the message about unsupported calls."""
EXPERTS = 'model.set_experts_implementation("batched_mm") makes transformers compute experts with calls that compile'
"""The same for a mixture of experts of transformers, whose default multiplies groups of rows of unknown sizes."""
_GROUPED = re.compile(r"\w+\.\w*grouped_mm\w*\.")
"""Calls that multiply groups of rows, by torch or by transformers."""


class Interface(NamedTuple):
    """How the user's arguments and results map to the inputs and outputs of a graph.

    A slot is, for a leaf of a tree, the position of a graph input or output. ``{"constant": value}`` stands for what is
    no tensor: the graph is valid for this value of an argument only. `input_names` has a name for each graph input that
    an argument gives, and `parameters` that of each positional argument; it is empty if torch does not tell them.
    """

    input_tree: tree.Tree
    output_tree: tree.Tree
    input_slots: tuple[Any, ...]
    output_slots: tuple[Any, ...]
    input_names: tuple[str, ...]
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class Exported:
    """A model as a graph: inputs in the order of the arguments, one output for each tensor of the result.

    `rebuild` makes the user's own structure of results from leaves; None: plain containers. `unchecked` has the
    conditions on the inputs that the graph relies on and that are no guards of its scope.
    """

    graph: Graph
    interface: Interface
    rebuild: Callable[[list[Any]], Any] | None
    translate_seconds: float
    unchecked: tuple[str, ...] = ()


def export(model: Any, example_inputs: Any, dynamic_shapes: Any = None) -> Exported:
    """Export `model` for the shapes of `example_inputs`, or for all shapes that `dynamic_shapes` allows.

    `model` is an nn.Module in evaluation mode, an ExportedProgram or a GraphModule, on the cpu; the graph's constants
    share its memory. `example_inputs` is a tuple of the positional arguments, or ``(tuple, dict)`` with keyword ones.
    `dynamic_shapes` is as for torch.export.

    Raises ConfigError if the model or an argument is of the wrong kind, ShapeError for an input that is no dense tensor
    on the cpu, UnsupportedOp with all calls that cannot be translated, EngineError if torch.export cannot capture the
    model, and InternalError if a handler contradicts torch.
    """
    return translate(export_with_torch(model, example_inputs, dynamic_shapes))


@dataclass(frozen=True)
class TorchExport:
    """The result of torch.export: a functional program of ATen calls.

    The program is right for the values `ranges` of torch's symbols. `guards` are the conditions on the inputs for which
    torch captured the model, as torch writes them; `watch` tells which weights change later.
    """

    program: ExportedProgram
    name: str
    dynamic: DynamicShapes
    seconds: float
    ranges: Ranges
    watch: WeightWatch
    guards: tuple[str, ...] = ()


def export_with_torch(model: Any, example_inputs: Any, dynamic_shapes: Any = None) -> TorchExport:
    """The first half of `export`: run torch.export. Raises as `export`, except UnsupportedOp and InternalError."""
    args, kwargs = _arguments(example_inputs)
    begin = time.perf_counter()
    program, dynamic, ranges, least, guards = run_torch_export(model, args, kwargs, dynamic_shapes)
    seconds = time.perf_counter() - begin
    narrowed = list_narrowed(dynamic.shapes, list_user_inputs(program), ranges, least)
    dynamic = dynamic._replace(restrictions=(*dynamic.restrictions, *narrowed))
    watch = WeightWatch(model, frozenset(program.graph_signature.buffers_to_mutate.values()))
    return TorchExport(program, type(model).__name__, dynamic, seconds, ranges, watch, guards)


def begin_walk(model: TorchExport) -> tuple[Walk, tuple[str, ...]]:
    """A walk with the symbols and guards of `model`, and the conditions on its inputs that are no guards."""
    inputs, graph = list_user_inputs(model.program), Graph(model.name)
    walk = Walk(graph, Symbols(graph.scope, model.ranges, inputs, names_of(model.dynamic.shapes, inputs)))
    with graph.scope.deciding():
        return walk, tuple(record_guards(model.guards, inputs, walk.symbols))


def describe_interface(program: ExportedProgram, output_slots: Sequence[Any]) -> Interface:
    """The interface of `program` whose results are at `output_slots`. UnsupportedOp as `trees.describe`."""
    slots, names = list_slots(program)
    spec = program.call_spec
    structures = trees.describe(spec.in_spec), trees.describe(spec.out_spec)
    return Interface(*structures, tuple(slots), tuple(output_slots), tuple(names), names_of_parameters(program))


def translate(model: TorchExport) -> Exported:
    """The second half of `export`: make the graph. Raises UnsupportedOp and InternalError as `export`."""
    begin = time.perf_counter()
    program = model.program
    check_written(program)
    walk, unchecked = begin_walk(model)
    with walk.graph.scope.deciding():
        results = walk.run(program.graph_module, list_held(program), program.graph_signature.buffers_to_mutate.values())
        slots = _add_outputs(walk, program, results)
    if offenders := [*walk.offenders, *walk.settled.values()]:
        raise UnsupportedOp(list(dict.fromkeys(offenders)), "\n".join(_advise(program, walk, offenders)))
    interface = describe_interface(program, slots)
    rebuild = trees.rebuilder(program.call_spec.out_spec)
    return Exported(walk.graph, interface, rebuild, time.perf_counter() - begin, unchecked)


def _advise(program: ExportedProgram, walk: Walk, offenders: Sequence[str]) -> list[str]:
    """Ways out for a model some of whose calls are refused."""
    hints = [EXPERTS] if any("/transformers/" in line and _GROUPED.match(line) for line in offenders) else []
    # With fallback a model that writes to anything or has effects is refused, too.
    can_fall_back = all(spec.kind is OutputKind.USER_OUTPUT for spec in program.graph_signature.output_specs)
    return [*hints, FALLBACK] if can_fall_back and not walk.has_faulty_call else hints


def _add_outputs(walk: Walk, program: ExportedProgram, results: Sequence[Translated]) -> list[Any]:
    """Add the results and the states after a call to the graph. Returns the slot of each result."""
    graph, slots = walk.graph, list[Any]()
    after: dict[str, Translated] = dict(walk.states)
    for result, spec in zip(results, program.graph_signature.output_specs, strict=True):
        if spec.kind is OutputKind.TOKEN:
            continue
        if spec.kind is OutputKind.BUFFER_MUTATION:
            after[str(spec.target)] = result  # of a buffer that is no state, it has been refused
        elif spec.kind is not OutputKind.USER_OUTPUT:
            what = spec.kind.name.lower().removesuffix("_mutation").replace("_", " ")
            advice = f"; {CLONE}" if spec.kind is OutputKind.USER_INPUT_MUTATION else ""
            line = f"{what} {spec.target}: the model writes to it; only buffers may be written to{advice}"
            walk.offenders.append(line)
        elif isinstance(result, Value):
            slots.append(len(graph.outputs))
            graph.outputs.append(result)
        elif isinstance(spec.arg, TensorArgument) and not walk.offenders:
            raise InternalError(f"output {spec.arg.name} was lost by the exporter")
        elif isinstance(result, Size | Missing):
            what = f"the size {result}" if isinstance(result, Size) else "a number that is computed from sizes"
            if isinstance(result, Size) or not walk.offenders:  # else it may follow from a call that is refused
                told = "numbers among the results are the same for every call"
                walk.offenders.append(f"output: the model returns {what}; {told}")
        else:
            slots.append({"constant": result})
    graph.inputs += walk.states.values()
    graph.outputs += after.values()
    return slots


def _arguments(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example_inputs, list):
        example_inputs = tuple(example_inputs)
    if not isinstance(example_inputs, tuple):
        kind = type(example_inputs).__name__
        raise ConfigError(f"example_inputs: expected a tuple of arguments, or (tuple, dict), got {kind}")
    match example_inputs:
        case (tuple() as args, dict() as kwargs):
            return args, kwargs
        case _:
            return example_inputs, {}
