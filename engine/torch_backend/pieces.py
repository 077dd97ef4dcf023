"""A traced graph cut into pieces, each of calls that the engine has or of calls that it has not. Knows no program."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from engine.exporter.torch_internals import HigherOrderOperator, OpOverload
from engine.exporter.walk import needed_by_outputs
from engine.torch_backend.partition import segments
from engine.torch_backend.traced import Numbers, Weights
from engine.torch_backend.views import find_base

_ADDRESSING = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_scatter.default)


class Piece(NamedTuple):
    """Some calls of a graph, which the engine runs if they are `native`.

    `module` has them alone, with a placeholder for each of `reads` and a result for each of `writes`, nodes of the
    whole graph. `calls` leaves out the picking of one of several results.
    """

    native: bool
    module: GraphModule
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]
    calls: tuple[Node, ...]


def substitute_sizes(module: GraphModule, weights: Weights, known: Numbers) -> tuple[GraphModule, Weights]:
    """A copy of `module` in which sizes that depend on `known` alone are numbers, and the weights of its nodes."""
    graph, env = Graph(), dict[Node, Any]()
    weights_of_copy: dict[Node, torch.Tensor] = {}
    for node in module.graph.nodes:
        value = _evaluate(node.meta.get("val"), known)
        if node.op == "placeholder" or value is None:
            env[node] = graph.node_copy(node, env.__getitem__)
        if node in weights:
            weights_of_copy[env[node]] = weights[node]
        if value is not None:
            env[node] = value
    return GraphModule(module, graph), weights_of_copy


def hold(module: GraphModule, results: Mapping[Node, Any]) -> dict[Node, torch.Tensor]:
    """Let weights stand for calls of `module` whose results are known. Returns them with their tensors."""
    held: dict[Node, torch.Tensor] = {}
    picked = {user: call for call in results for user in call.users if user.target is operator.getitem}
    known = {user: results[call][user.args[1]] for user, call in picked.items()} | dict(results)
    for node, tensor in known.items():
        if isinstance(tensor, torch.Tensor) and node.graph is module.graph:
            with module.graph.inserting_before(next(iter(module.graph.nodes))):
                place = module.graph.placeholder(f"{node.name}_held")
            place.meta = node.meta
            node.replace_all_uses_with(place)
            held[place] = tensor
    return held


def _evaluate(value: Any, known: Numbers) -> Any:
    """The value of a symbolic number; None if it depends on the values of tensors, and for anything else."""
    if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return None
    expression = value.node.expr
    if not expression.free_symbols <= known.keys():
        return None
    kind = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(value)]
    return kind(expression.xreplace(dict(known)))


def pieces(module: GraphModule, refused: Collection[Node]) -> Iterator[Piece]:
    """The calls of a functional `module` that its results need, in pieces to run in order. Known sizes are numbers."""
    needed = needed_by_outputs(module.graph.nodes)
    nodes = [n for n in module.graph.nodes if n.op == "call_function" and n in needed]
    unit: dict[Node, Node] = {}  # one of several results goes with the call that makes them
    for node in nodes:
        several = node.target is operator.getitem and node.all_input_nodes[0] in unit
        unit[node] = unit[node.all_input_nodes[0]] if several else node
    foreign = {unit[n] for n in nodes if n in refused or not _is_call(n)}
    # Where elements are found by their places in memory, all of the memory must be torch's, views of it included.
    for node in nodes:
        reached = node.all_input_nodes[0] if node.target in _ADDRESSING else None
        while reached is not None and (base := find_base(reached)) is not None:
            foreign.add(unit[reached])
            reached = base
    before: dict[Node, set[Node]] = {unit[n]: set() for n in nodes}
    for node in nodes:
        before[unit[node]].update(unit[other] for other in node.all_input_nodes if other in unit)
    before = {one: others - {one} for one, others in before.items()}
    chosen = segments(list(before), before, {one: one in foreign for one in before})
    for segment in chosen:
        inside = dict.fromkeys(n for n in nodes if unit[n] in set(segment))
        yield _piece(module, inside, needed, native=segment[0] not in foreign)


def _is_call(node: Node) -> bool:
    return isinstance(node.target, OpOverload | HigherOrderOperator) or node.target is operator.getitem


def _piece(module: GraphModule, inside: Mapping[Node, None], needed: Collection[Node], *, native: bool) -> Piece:
    graph = Graph()
    read = dict.fromkeys(other for n in inside for other in n.all_input_nodes if other not in inside)
    reads = tuple(other for other in read if other.op != "get_attr")
    env: dict[Node, Node] = {other: graph.placeholder(other.name) for other in reads}
    env |= {other: graph.get_attr(str(other.target)) for other in read if other.op == "get_attr"}
    env |= {n: graph.create_node(n.op, n.target, name=n.name) for n in inside}
    for node, made in env.items():
        made.meta = dict(node.meta)
    for node in inside:
        env[node].args = map_arg(node.args, env.__getitem__)
        env[node].kwargs = map_arg(node.kwargs, env.__getitem__)
    writes = tuple(n for n in inside if any(user not in inside and user in needed for user in n.users))
    graph.output(tuple(env[n] for n in writes))
    calls = tuple(n for n in inside if n.target is not operator.getitem)
    return Piece(native, GraphModule(module, graph), reads, writes, calls)
