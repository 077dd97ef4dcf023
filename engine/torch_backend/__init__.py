"""The engine inside of torch.compile: what Dynamo captured, as programs. Stands above the flow; `engine.dynamo` is its
front.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from engine.config import Config
from engine.exporter.torch_internals import CompileContext, TracingContext
from engine.torch_backend.capture import capture, spelled_in_aten, written_over
from engine.torch_backend.graph import CompiledGraph


def compile_graph(
    module: GraphModule, inputs: Sequence[Any], config: Config
) -> tuple[CompiledGraph, Callable[..., Any]]:
    """A graph of Dynamo's, compiled; and what Dynamo calls in its place. Raises as `capture`."""
    found: list[CompiledGraph] = []

    def finish(functional: GraphModule, _fakes: Sequence[Any]) -> CompiledGraph:
        spelled_in_aten(functional)
        written_over(functional)
        metadata = TracingContext.get().fw_metadata
        static = [] if metadata is None else metadata.static_input_indices
        written = [] if metadata is None else [n for n, i in enumerate(metadata.input_info) if i.mutates_data]
        name = f"graph {CompileContext.current_compile_id() or 0}"
        found.append(CompiledGraph(functional, sorted(set(static) - set(written)), config, name))
        return found[0]

    call = capture(module, inputs, finish)
    return found[0], call
