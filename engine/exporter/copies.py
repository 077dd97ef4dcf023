"""Makes the conversions explicit that `Tensor.copy_` does, because torch loses them.

`copy_` converts the source to the type and shape of its target. If that is a buffer,
`ExportedProgram.run_decompositions` replaces it by the source as it is, for later reads and for the buffer's contents.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Graph, Node

from engine.errors import EngineError

COPY = torch.ops.aten.copy_.default


def convert_copied(program: ExportedProgram) -> ExportedProgram:
    """The program, in which the source of each `copy_` has the type and shape of the tensor that it is copied to."""
    if not any(map(_converts, program.graph.nodes)):
        return program
    graph = _copy_graph(program.graph)  # the caller's program stays as it is
    for node in graph.nodes:
        if _converts(node):
            _convert(node)
    return ExportedProgram(
        root=program.graph_module,
        graph=graph,
        graph_signature=program.graph_signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=program.verifiers,
    )


def check_written(program: ExportedProgram) -> None:
    """EngineError if torch has lost a conversion of the program, which was decomposed before."""
    held = program.state_dict | program.constants
    (output,) = program.graph.find_nodes(op="output")
    for node, spec in zip(output.args[0], program.graph_signature.output_specs, strict=True):
        buffer = held.get(spec.target) if spec.kind is OutputKind.BUFFER_MUTATION else None
        if isinstance(buffer, torch.Tensor):
            written = node.meta["val"]
            if written.dtype != buffer.dtype or _formulas(written) != list(buffer.shape):
                raise EngineError(
                    f"run_decompositions of torch has lost how values are converted for the buffer {spec.target}: "
                    "compile the model, or the ExportedProgram before run_decompositions"
                )


def _copy_graph(graph: Graph) -> Graph:
    """A copy of the graph, which shares the values of `Node.meta`."""
    copied = Graph()
    found: Any = copied.graph_copy(graph, {}, return_output_node=True)
    results, output = found
    copied.output(results).meta = dict(output.meta)
    return copied


def _converts(node: Node) -> bool:
    """True for a `copy_` of a tensor of another type or shape."""
    if node.target is not COPY:
        return False
    if len(node.all_input_nodes) == 1:  # a tensor that is copied to itself
        return False
    written, source = (one.meta["val"] for one in node.all_input_nodes)
    return written.dtype != source.dtype or _formulas(written) != _formulas(source)


def _formulas(tensor: torch.Tensor) -> list[Any]:
    """The sizes of a tensor. Symbols are compared as formulas: torch would add a guard."""
    sizes: Any = tensor.shape
    return [size.node.expr if isinstance(size, torch.SymInt) else size for size in sizes]


def _convert(node: Node) -> None:
    graph = node.graph
    written, source = node.all_input_nodes
    dtype = written.meta["val"].dtype
    with graph.inserting_before(node):
        cast = graph.call_function(torch.ops.aten.to.dtype, (source, dtype))
        cast.meta = node.meta | {"val": source.meta["val"].to(dtype)}
        whole = graph.call_function(torch.ops.aten.expand_as.default, (cast, written))
        whole.meta = node.meta | {"val": cast.meta["val"].expand_as(written.meta["val"])}
    node.update_arg(1, whole)
