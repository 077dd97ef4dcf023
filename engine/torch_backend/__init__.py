"""The engine inside of torch.compile: Dynamo's graphs as programs. Stands above the flow, behind `engine.dynamo`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from engine import targets
from engine.config import Config
from engine.exporter.torch_internals import CompileContext, TracingContext
from engine.torch_backend.compiled_graph import CompiledGraph
from engine.torch_backend.functional import make_functional, rewrite_in_aten


def compile_graph(
    module: GraphModule, inputs: Sequence[Any], config: Config
) -> tuple[CompiledGraph, Callable[..., Any]]:
    """Compiles a graph of Dynamo's for its first `inputs`. Returns also the function that Dynamo calls in its place.

    Raises ConfigError if this machine cannot run programs of the target, and ConfigError and ShapeError as
    `make_functional`.
    """
    graphs: list[CompiledGraph] = []
    device = targets.require(config.target).device

    def finish(functional: GraphModule, _fakes: Sequence[Any]) -> CompiledGraph:
        rewrite_in_aten(functional)
        metadata = TracingContext.get().fw_metadata
        static = [] if metadata is None else metadata.static_input_indices
        written = [] if metadata is None else [n for n, i in enumerate(metadata.input_info) if i.mutates_data]
        name = f"graph {CompileContext.current_compile_id() or 0}"
        graphs.append(CompiledGraph(functional, sorted(set(static) - set(written)), config, name))
        return graphs[0]

    call = make_functional(module, inputs, finish, device)
    return graphs[0], call
