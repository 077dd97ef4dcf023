"""Translates exported programs to graphs. Knows torch; `aten/` has a handler for each ATen overload.

Calls that cannot be translated are collected. One `UnsupportedOp` lists all of them with their source lines.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind, TensorArgument
from torch.fx import Node

from engine.errors import ConfigError, InternalError, UnsupportedOp
from engine.exporter import aten as _handlers  # noqa: F401  # imported to register its handlers
from engine.exporter import copies
from engine.exporter.context import Missing, tensor_type
from engine.exporter.dynamic import DynamicShapes, list_narrowed
from engine.exporter.guards import record_guards
from engine.exporter.registry import Refusal
from engine.exporter.signature import list_user_inputs, names_of_parameters
from engine.exporter.symbols import Ranges, Symbols, names_of
from engine.exporter.torch_export import run_torch_export
from engine.exporter.torch_internals import TreeSpec
from engine.exporter.walk import Translated, Walk
from engine.exporter.weights import WeightWatch, identity, to_numpy
from engine.graph import Graph, Value
from engine.ops import TensorType
from engine.sizes import Size, same

__all__ = ["Exported", "TorchExport", "export", "export_with_torch", "translate"]

CLONE = "let forward clone the input first, and write to the clone"
FALLBACK = 'Config(fallback="torch") lets torch run calls that the engine cannot compile'
"""Advice in the message about unsupported calls."""
EXPERTS = 'model.set_experts_implementation("batched_mm") makes transformers compute experts with calls that compile'
"""The same for a mixture of experts of transformers, whose default multiplies groups of rows of unknown sizes."""
_GROUPED = re.compile(r"\w+\.\w*grouped_mm\w*\.")
"""Calls that multiply groups of rows, by torch or by transformers."""

_PART = re.compile(r"\.parametrizations\.(\w+)\.original0$")
"""The name that torch gives to the first part of a parameter that consists of several tensors."""


def _without_part(target: str) -> str:
    """The name of a parameter, without the suffix that torch adds for the inner tensors of a subclass."""
    return _PART.sub(r".\1", target)


Slot = int | dict[str, Any]


@dataclass(frozen=True)
class Exported:
    """A model as a graph, and how the user's arguments and results map to it.

    Attributes:
        graph: inputs in the order of the arguments; one output for each tensor of the result.
        input_names: a name for each graph input that an argument gives, from the parameters of `forward`.
        input_tree: torch's structure of ``(args, kwargs)``; None is a leaf there.
        output_tree: torch's structure of the result.
        input_slots: for each leaf of `input_tree` the position of a graph input, or ``{"constant": value}`` for an
            argument that is not a tensor: the graph is valid for this value only.
        output_slots: for each leaf of `output_tree` the position of a graph output, or ``{"constant": value}``.
        parameters: the name of each positional argument; empty if torch does not tell them.
        export_seconds: spent in torch.export, decomposition included.
        translate_seconds: spent making the graph.
        unchecked: conditions on the inputs that the graph relies on and that are no guards of its scope.
    """

    graph: Graph
    input_names: list[str]
    input_tree: TreeSpec
    output_tree: TreeSpec
    input_slots: list[Slot]
    output_slots: list[Slot]
    parameters: tuple[str, ...]
    export_seconds: float
    translate_seconds: float
    unchecked: tuple[str, ...] = ()


def export(model: Any, example_inputs: Any, dynamic_shapes: Any = None) -> Exported:
    """Export `model` for the shapes of `example_inputs`, or for all shapes that `dynamic_shapes` allows.

    Args:
        model: an nn.Module in evaluation mode, an ExportedProgram or a GraphModule; parameters on the cpu. The
            graph's constants share the parameters' memory.
        example_inputs: the positional arguments as a tuple, or ``(tuple, dict)`` with keyword arguments.
        dynamic_shapes: as for torch.export: which sizes differ from call to call, and within which range.

    Raises:
        ConfigError: the model or an argument is of the wrong kind.
        ShapeError: an input is not a dense tensor on the cpu.
        UnsupportedOp: some calls cannot be translated; lists all of them.
        EngineError: torch.export cannot capture the model.
        InternalError: a handler contradicts torch.
    """
    return translate(export_with_torch(model, example_inputs, dynamic_shapes))


@dataclass(frozen=True)
class TorchExport:
    """The result of torch.export: a functional program of ATen calls.

    Attributes:
        program: the exported program.
        name: name of the model's class.
        dynamic: the sizes that differ from call to call.
        seconds: spent in torch.export, decomposition included.
        ranges: the values of each of torch's symbols for which the program is right.
        watch: tells which weights of the user's model change later.
        assigned: names of attributes to which the model assigns tensors or numbers while it runs; the program does not.
        guards: the conditions on the inputs for which torch captured the model, as torch writes them.
    """

    program: ExportedProgram
    name: str
    dynamic: DynamicShapes
    seconds: float
    ranges: Ranges
    watch: WeightWatch
    assigned: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()


def export_with_torch(model: Any, example_inputs: Any, dynamic_shapes: Any = None) -> TorchExport:
    """The first half of `export`: run torch.export. Raises as `export`, except UnsupportedOp and InternalError."""
    args, kwargs = _arguments(example_inputs)
    begin = time.perf_counter()
    program, dynamic, ranges, least, assigned, guards = run_torch_export(model, args, kwargs, dynamic_shapes)
    seconds = time.perf_counter() - begin
    narrowed = list_narrowed(dynamic.shapes, list_user_inputs(program), ranges, least)
    dynamic = dynamic._replace(restrictions=(*dynamic.restrictions, *narrowed))
    watch = WeightWatch(model, frozenset(program.graph_signature.buffers_to_mutate.values()))
    return TorchExport(program, type(model).__name__, dynamic, seconds, ranges, watch, assigned, guards)


def translate(model: TorchExport) -> Exported:
    """The second half of `export`: make the graph. Raises UnsupportedOp and InternalError as `export`."""
    begin = time.perf_counter()
    conversion = _Conversion(model)
    with conversion.walk.graph.scope.deciding(), copies.explain_lost_copies(model.program):
        graph = conversion.run()
    return Exported(
        graph,
        conversion.input_names,
        model.program.call_spec.in_spec,
        model.program.call_spec.out_spec,
        conversion.input_slots,
        conversion.output_slots,
        names_of_parameters(model.program),
        model.seconds,
        time.perf_counter() - begin,
        tuple(conversion.unchecked),
    )


def _arguments(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and keyword arguments in `example_inputs`."""
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


class _Conversion:
    """Translates inputs, constants and outputs of one program; a `Walk` translates its calls."""

    def __init__(self, model: TorchExport) -> None:
        self.program = program = model.program
        self._guards = model.guards
        graph, inputs = Graph(model.name), list_user_inputs(program)
        names = names_of(model.dynamic.shapes, inputs)
        self.walk = Walk(graph, Symbols(graph.scope, model.ranges, inputs, names))
        self.unchecked: list[str] = []  # conditions on inputs that are no guards of the graph
        self.input_names: list[str] = []
        self.input_slots: list[Slot] = []
        self.output_slots: list[Slot] = []
        self._constants: dict[tuple[Any, ...], Value] = {}
        self._written = frozenset(program.graph_signature.buffers_to_mutate.values())
        self._states: dict[str, Value] = {}  # contents before a call of each buffer that the model writes to

    def run(self) -> Graph:
        module = self.program.graph_module
        self.unchecked = record_guards(self._guards, list_user_inputs(self.program), self.walk.symbols)
        placeholders = module.graph.find_nodes(op="placeholder")
        specs = self.program.graph_signature.input_specs
        given = zip(placeholders, specs, strict=True)
        env = {node: self.walk.with_origin(node, self._input(node, spec)) for node, spec in given}
        self.walk.graph.inputs += self._states.values()
        self._outputs(self.walk.run(module, env))
        if offenders := [*self.walk.offenders, *self.walk.settled.values()]:
            # With fallback a model that writes to anything or has effects is refused, too.
            specs = self.program.graph_signature.output_specs
            hints = [EXPERTS] if any("/transformers/" in line and _GROUPED.match(line) for line in offenders) else []
            can_fall_back = all(spec.kind is OutputKind.USER_OUTPUT for spec in specs) and not self.walk.has_faulty_call
            hints += [FALLBACK] if can_fall_back else []
            raise UnsupportedOp(list(dict.fromkeys(offenders)), "\n".join(hints))
        return self.walk.graph

    def _input(self, node: Node, spec: InputSpec) -> Translated:
        if spec.kind is InputKind.TOKEN:
            return Missing(None)  # orders calls with effects; each such call is refused by itself
        if spec.kind is not InputKind.USER_INPUT:
            return self._constant(spec)
        if isinstance(spec.arg, ConstantArgument):
            self.input_slots.append({"constant": spec.arg.value})
            return spec.arg.value
        try:
            value = self.walk.graph.add_input(node.name, tensor_type(node.meta["val"], self.walk.symbols.size))
        except Refusal as refusal:
            raise UnsupportedOp([f"input {node.name}: {refusal}"]) from None
        self.input_slots.append(len(self.input_names))
        self.input_names.append(node.name)
        return value

    def _constant(self, spec: InputSpec) -> Value:
        """A parameter, a buffer or a lifted constant; tied tensors are one value."""
        target = str(spec.target)
        if target in self._written:
            return self._state(target)
        tensor, _type = self._held(target)
        key = identity(tensor)
        if key not in self._constants:
            name = f"{_without_part(target)}.data" if tensor.dtype is torch.int8 else target
            self._constants[key] = self.walk.graph.constant(to_numpy(tensor), name)
            self._constants[key].is_parameter = spec.kind is InputKind.PARAMETER
        return self._constants[key]

    def _held(self, target: str) -> tuple[torch.Tensor, TensorType]:
        """The tensor of the program with this name; UnsupportedOp if it cannot be a value."""
        held = self.program.state_dict  # without lifted constants and the buffers that are not saved
        tensor = held[target] if target in held else self.program.constants[target]
        if not isinstance(tensor, torch.Tensor):
            raise UnsupportedOp([f"{target}: a {type(tensor).__name__} cannot be a constant of a program"])
        try:
            return tensor, tensor_type(tensor, self.walk.symbols.size)
        except Refusal as refusal:
            raise UnsupportedOp([f"{_without_part(target)}: {refusal}"]) from None

    def _state(self, target: str) -> Value:
        """The contents before a call of a buffer that the model writes to."""
        tensor, type_ = self._held(target)
        graph, first = self.walk.graph, to_numpy(tensor)
        graph.states.append((target, first.copy() if first.any() else None))
        self._states[target] = Value(graph.unique(target), type_)
        return self._states[target]

    def _outputs(self, results: list[Translated]) -> None:
        after: dict[str, Translated] = dict(self._states)
        for result, spec in zip(results, self.program.graph_signature.output_specs, strict=True):
            if spec.kind is OutputKind.TOKEN:
                continue
            if spec.kind is OutputKind.BUFFER_MUTATION and str(spec.target) in after:
                after[str(spec.target)] = self._as_written(self._states[str(spec.target)], result)
            elif spec.kind is not OutputKind.USER_OUTPUT:
                what = spec.kind.name.lower().removesuffix("_mutation").replace("_", " ")
                advice = f"; {CLONE}" if spec.kind is OutputKind.USER_INPUT_MUTATION else ""
                self.walk.offenders.append(
                    f"{what} {spec.target}: the model writes to it; only buffers may be written to{advice}"
                )
            elif isinstance(result, Value):
                self.output_slots.append(len(self.walk.graph.outputs))
                self.walk.graph.outputs.append(result)
            elif isinstance(spec.arg, TensorArgument) and not self.walk.offenders:
                raise InternalError(f"output {spec.arg.name} was lost by the exporter")
            elif isinstance(result, Size | Missing):
                self._refuse_number(result)
            else:
                self.output_slots.append({"constant": result})
        self.walk.graph.outputs += after.values()

    def _refuse_number(self, result: Size | Missing) -> None:
        """Refuse a result that is a number and depends on sizes, unless calls are refused from which it may follow."""
        if isinstance(result, Size) or not self.walk.offenders:
            what = f"the size {result}" if isinstance(result, Size) else "a number that is computed from sizes"
            self.walk.offenders.append(
                f"output: the model returns {what}; numbers among the results are the same for every call"
            )

    def _as_written(self, state: Value, result: Translated) -> Translated:
        """`result` as a buffer holds it after a call. It may have another type or shape than the buffer in a program
        that torch has decomposed before (`exporter.copies`).
        """
        if not isinstance(result, Value):
            return result  # of a call that is refused
        graph = self.walk.graph
        if result.dtype != state.dtype:
            result = graph.emit("cast", [result], dtype=state.dtype)
        return result if same(result.shape, state.shape) else graph.emit("expand", [result], shape=state.shape)
