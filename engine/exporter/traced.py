"""Translates a traced graph of ATen calls, such as one of torch.compile, to a Graph.

Unlike an exported program, it has no description of inputs and outputs. The caller gives the placeholders that are
weights and the symbols that are numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from engine.errors import UnsupportedOp
from engine.exporter import aten as _handlers  # noqa: F401  # imported to register its handlers
from engine.exporter.context import Missing, tensor_type
from engine.exporter.registry import Refusal
from engine.exporter.symbols import Ranges, Symbols
from engine.exporter.walk import FindObstacle, Translated, Walk
from engine.exporter.weights import identity, to_numpy
from engine.graph import Graph, Value
from engine.memory import fault_of_memory

Weights = Mapping[Node, torch.Tensor]
Numbers = Mapping[Any, int]
"""sympy symbol -> its number."""


class Traced(NamedTuple):
    """A traced module as a graph.

    Attributes:
        graph: an input for each placeholder that is a tensor and no weight, in order.
        results: for each result of the module the position of a graph output as ``[position]``, or the result itself
            if it is not a tensor: a number, a formula of sizes, None.
    """

    graph: Graph
    results: list[Any]


def translate(module: GraphModule, weights: Weights, name: str, ranges: Ranges, known: Numbers) -> Traced:
    """Translate `module`, whose nodes have ``meta["val"]``.

    Args:
        module: a graph of ATen calls that do not write to tensors.
        weights: placeholder -> its tensor, the same for every call; the graph shares its memory.
        name: name of the graph.
        ranges: least and largest value of the symbols in sizes.
        known: symbols that are numbers here; every other symbol must be in the shape of an input.

    Raises:
        UnsupportedOp: some calls cannot be translated; lists all of them.
    """
    walk, results = _walked(module, weights, name, ranges, known)
    if walk.offenders:
        raise UnsupportedOp(list(dict.fromkeys(walk.offenders)))
    graph = walk.graph
    graph.outputs += dict.fromkeys(result for result in results if isinstance(result, Value))
    return Traced(graph, [[graph.outputs.index(r)] if isinstance(r, Value) else r for r in results])


def refused(module: GraphModule, weights: Weights, known: Numbers, find_obstacle: FindObstacle) -> dict[Node, str]:
    """The calls of `module` that the engine cannot run, each with a line that gives the reason.

    The line is empty if a call is refused only because it reads the result of another refused call.

    Args:
        module: as for `translate`.
        weights: as for `translate`.
        known: all symbols in sizes.
        find_obstacle: gets each node that calls are translated to, in order, and returns why it cannot run, or None.
    """
    return _walked(module, weights, "", {}, known, find_obstacle)[0].refused


def _walked(
    module: GraphModule,
    weights: Weights,
    name: str,
    ranges: Ranges,
    known: Numbers,
    find_obstacle: FindObstacle | None = None,
) -> tuple[Walk, list[Translated]]:
    walk = _walk(module, weights, name, ranges, known)
    walk.find_obstacle = find_obstacle
    with walk.graph.scope.deciding():
        return walk, _results(walk, module, weights)


def _walk(module: GraphModule, weights: Weights, name: str, ranges: Ranges, known: Numbers) -> Walk:
    placeholders = module.graph.find_nodes(op="placeholder")
    inputs = [n for n in placeholders if n not in weights and isinstance(n.meta.get("val"), torch.Tensor)]
    graph = Graph(name)
    return Walk(graph, Symbols(graph.scope, ranges, inputs, known=known))


def _results(walk: Walk, module: GraphModule, weights: Weights) -> list[Translated]:
    constants: dict[tuple[Any, ...], Value] = {}
    env: dict[Node, Translated] = {}
    for node in module.graph.find_nodes(op="placeholder"):
        try:
            env[node] = _held(walk, node, weights[node], constants) if node in weights else _brought(walk, node)
        except Refusal as refusal:
            walk.offenders.append(f"input {node.name}: {refusal}")
            walk.refused[node] = walk.offenders[-1]
            env[node] = Missing(None)
        walk.with_origin(node, env[node])
    return walk.run(module, env)


def _held(walk: Walk, node: Node, tensor: torch.Tensor, constants: dict[tuple[Any, ...], Value]) -> Value:
    """A weight; tied weights are one value."""
    key = identity(tensor)
    if key not in constants:
        tensor_type(tensor, walk.symbols.size)
        if fault := fault_of_memory(tensor):
            raise Refusal(f"expected a dense tensor with data, got {fault}")
        constants[key] = walk.graph.constant(to_numpy(tensor), node.name)
        constants[key].is_parameter = isinstance(tensor, torch.nn.Parameter)
    return constants[key]


def _brought(walk: Walk, node: Node) -> Translated:
    """The translated argument of a call for `node`."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return walk.graph.add_input(node.name, tensor_type(value, walk.symbols.size))
    return walk.symbols.size(value) if isinstance(value, torch.SymInt) else value
