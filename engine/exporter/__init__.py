"""Translates exported programs to graphs. Knows torch; `aten/` has a handler for each ATen overload."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, TensorArgument

from engine.errors import InternalError, UnsupportedOp
from engine.exporter import aten as _handlers  # noqa: F401  # imported to register its handlers
from engine.exporter import trees
from engine.exporter.context import Missing
from engine.exporter.copies import check_written
from engine.exporter.guards import record_guards
from engine.exporter.signature import list_held, list_slots, list_user_inputs, names_of_parameters
from engine.exporter.symbols import Symbols, names_of
from engine.exporter.torch_export import TorchExport, run_torch_export
from engine.exporter.walk import Translated, Walk
from engine.graph import Graph, Signature, Value
from engine.sizes import Formula
from engine.tree import split_arguments

__all__ = ["TorchExport", "export", "export_with_torch", "translate"]

CLONE = "let forward clone the input first, and write to the clone"
FALLBACK = 'Config(fallback="torch") lets torch run calls that the engine cannot compile'
"""Advice in the message about unsupported calls."""
EXPERTS = 'model.set_experts_implementation("batched_mm") makes transformers compute experts with calls that compile'
"""The same for a mixture of experts of transformers, whose default multiplies groups of rows of unknown sizes."""
_GROUPED = re.compile(r"\w+\.\w*grouped_mm\w*\.")
"""Calls that multiply groups of rows, by torch or by transformers."""


def export(model: Any, example_inputs: Any, dynamic_shapes: Any = None) -> Graph:
    """Export `model` for the shapes of `example_inputs`, or for all shapes that `dynamic_shapes` allows.

    `model` is an nn.Module in evaluation mode, an ExportedProgram or a GraphModule, on the cpu; the graph's constants
    share its memory. `example_inputs` is a tuple of the positional arguments, or ``(tuple, dict)`` with keyword ones.
    `dynamic_shapes` is as for torch.export. The graph has the inputs in the order of the arguments, and one output for
    each tensor of the result.

    Raises ConfigError if the model or an argument is of the wrong kind, ShapeError for an input that is no dense tensor
    on the cpu, UnsupportedOp with all calls that cannot be translated, EngineError if torch.export cannot capture the
    model, and InternalError if a handler contradicts torch.
    """
    return translate(export_with_torch(model, example_inputs, dynamic_shapes))


def export_with_torch(model: Any, example_inputs: Any, dynamic_shapes: Any = None) -> TorchExport:
    """The first half of `export`: run torch.export. Raises as `export`, except UnsupportedOp and InternalError."""
    return run_torch_export(model, *split_arguments(example_inputs), dynamic_shapes)


def begin_walk(model: TorchExport) -> Walk:
    """A walk with the symbols and guards of `model`."""
    inputs, graph = list_user_inputs(model.program), Graph(model.name)
    walk = Walk(graph, Symbols(graph.scope, model.ranges, inputs, names_of(model.shapes, inputs)))
    with graph.scope.deciding():
        graph.scope.unchecked = tuple(record_guards(model.guards, inputs, walk.symbols))
    return walk


def sign(program: ExportedProgram, output_slots: Sequence[Any]) -> Signature:
    """The signature of `program` whose results are at `output_slots`. UnsupportedOp as `trees.describe`."""
    slots, names = list_slots(program)
    spec = program.call_spec
    structures = trees.describe(spec.in_spec), trees.describe(spec.out_spec)
    parameters, rebuild = names_of_parameters(program), trees.rebuilder(spec.out_spec)
    return Signature(*structures, tuple(slots), tuple(output_slots), tuple(names), parameters, rebuild)


def translate(model: TorchExport) -> Graph:
    """The second half of `export`: make the graph. Raises UnsupportedOp and InternalError as `export`."""
    program = model.program
    check_written(program)
    walk = begin_walk(model)
    with walk.graph.scope.deciding():
        results = walk.run(program.graph_module, list_held(program), program.graph_signature.buffers_to_mutate.values())
        slots = _add_outputs(walk, program, results)
    if offenders := [*walk.offenders, *walk.settled.values()]:
        raise UnsupportedOp(list(dict.fromkeys(offenders)), "\n".join(_advise(program, walk, offenders)))
    walk.graph.signature = sign(program, slots)
    return walk.graph


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
        elif isinstance(result, Missing) and result.reason is not None:
            walk.offenders.append(f"output: {result.reason}")
        elif isinstance(spec.arg, TensorArgument) and not walk.offenders:
            raise InternalError(f"output {spec.arg.name} was lost by the exporter")
        elif isinstance(result, Formula | Missing):
            is_formula = isinstance(result, Formula)
            what = f"{result}, which depends on sizes" if is_formula else "a number that is computed from sizes"
            if is_formula or not walk.offenders:  # else it may follow from a call that is refused
                told = "numbers among the results are the same for every call"
                walk.offenders.append(f"output: the model returns {what}; {told}")
        else:
            slots.append({"constant": result})
    graph.inputs += walk.states.values()
    graph.outputs += after.values()
    return slots
