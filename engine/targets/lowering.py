"""Runs the passes of a target on copies of graphs, before they are bound. Needs no torch.

The compiled graph, which a file holds, does not change. It shares its constants with the lowered one, so that each is
in memory once, in the layout of the target.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine import passes
from engine.config import Config
from engine.errors import ConfigError, ProgramError
from engine.graph import Graph, copy_graph, share_constants
from engine.passes import precision


def lower(graphs: Mapping[str, Graph], config: Config, *, widen: bool = False) -> dict[str, Graph]:
    """The graphs, by name, after the passes of the target of `config`.

    With `widen`, convolutions in bfloat16 multiply floats, for a machine without instructions for such products.

    ConfigError if `config` names a pass of another target, or changes passes that have already run; ProgramError if a
    graph is lowered for another target, and this one has passes of its own.
    """
    stage = passes.stages(config)[1]
    lowered = {name: _lower(graph, config, stage, widen=widen) for name, graph in graphs.items()}
    share_constants(list(lowered.values()))
    return lowered


def _lower(graph: Graph, config: Config, stage: list[passes.Pass], *, widen: bool) -> Graph:
    """The lowered graph; `graph` itself if it is lowered already or the target has no passes."""
    if graph.lowered == config.target:
        if config.disable or config.pipeline is not None or config.passes:
            raise ConfigError(
                f"passes: those of {config.target} ran before the file was saved; compile the model anew to change them"
            )
        return graph
    if graph.lowered and stage:
        raise ProgramError(
            f"the file holds the program after the passes of target {graph.lowered}; compile it anew for "
            f"{config.target}"
        )
    if not stage:
        return graph
    lowered = copy_graph(graph)
    if widen and (count := precision.widen_convolutions(lowered)):
        lowered.log += (("convolutions=float32", count),)
    passes.run_passes(lowered, stage, config.disable, check=config.verify)
    lowered.locate_nodes()
    if any(changes for _name, changes in lowered.log[len(graph.log) :]):
        lowered.lowered = config.target
    return lowered
