"""Translates a traced graph of ATen calls, whose weights and known symbols the caller gives, to a Graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from engine.errors import UnsupportedOp
from engine.exporter import aten as _handlers  # noqa: F401  # imported to register its handlers
from engine.exporter.symbols import Ranges, Symbols
from engine.exporter.walk import FindObstacle, Translated, Walk
from engine.exporter.weights import Held
from engine.graph import Graph, Value

Weights = Mapping[Node, torch.Tensor]
"""Placeholder -> the tensor that it is for every call."""
Numbers = Mapping[Any, int]
"""sympy symbol -> its number."""


class Traced(NamedTuple):
    """A traced module as a graph: an input for each placeholder that is a tensor and no weight, in order.

    `results` has for each result ``[position]`` of a graph output, or what it is: a number, a formula of sizes, None.
    """

    graph: Graph
    results: list[Any]


def translate(module: GraphModule, weights: Weights, name: str, ranges: Ranges, known: Numbers) -> Traced:
    """Translate `module`, whose symbols are `known` or sizes of an input. UnsupportedOp lists all refused calls."""
    walk, results = _walk(module, weights, name, ranges, known, None)
    if walk.offenders:
        raise UnsupportedOp(list(dict.fromkeys(walk.offenders)))
    graph = walk.graph
    graph.outputs += dict.fromkeys(result for result in results if isinstance(result, Value))
    return Traced(graph, [[graph.outputs.index(r)] if isinstance(r, Value) else r for r in results])


def find_refused(
    module: GraphModule, weights: Weights, known: Numbers, find_obstacle: FindObstacle
) -> tuple[dict[Node, str], dict[Node, Any]]:
    """As `Walk.refused` and `Walk.evaluated`: the calls of `module` that the engine cannot run, and those that torch
    has computed. All symbols in sizes are `known`.
    """
    walk, _results = _walk(module, weights, "", {}, known, find_obstacle)
    return walk.refused, walk.evaluated


def _walk(
    module: GraphModule,
    weights: Weights,
    name: str,
    ranges: Ranges,
    known: Numbers,
    find_obstacle: FindObstacle | None,
) -> tuple[Walk, list[Translated]]:
    graph = Graph(name)
    inputs = [node for node in module.graph.find_nodes(op="placeholder") if node not in weights]
    walk = Walk(graph, Symbols(graph.scope, ranges, inputs, known=known), find_obstacle)
    held = {node: Held(one, node.name, isinstance(one, torch.nn.Parameter)) for node, one in weights.items()}
    with graph.scope.deciding():
        return walk, walk.run(module, held)
