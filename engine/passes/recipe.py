"""Chooses the precision of single layers, as `Config.recipe` says.

Runs before the common passes, where each node still belongs to one module of the model. It only sets `Value.precision`
of the weights: the passes keep it, and do not join weights of different precisions. `engine.passes.precision` encodes
the weights afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from engine.errors import ConfigError
from engine.graph import Graph, Node, Value
from engine.suggest import find_nearest

MOST_LISTED = 12
"""Names of layers in an error; a model may have hundreds."""


def assign(graph: Graph, recipe: Sequence[tuple[str, str]], *, must_match: bool = True) -> int:
    """Set the precision of each weight that a pattern of `recipe` matches. Returns the number of nodes that read one.

    A weight that nodes read in different precisions becomes several constants over the same memory.

    Args:
        graph: as the exporter makes it.
        recipe: pairs of pattern and precision; the first pattern that matches a layer decides.
        must_match: whether a pattern that matches no layer is an error.

    Raises:
        ConfigError: a pattern matches no layer; the message names the nearest layer.
    """
    layers: dict[str, None] = {}
    used: set[str] = set()
    made: dict[tuple[Value, str], Value] = {}
    count = 0
    for node in list(graph.nodes):
        chosen: dict[str, Value | None] = {}
        for name, value, weight in _weights(node):
            names = _names(node, weight)
            layers[names[0]] = None
            used |= {pattern for pattern, _ in recipe if _matches(pattern, names)}
            precision = next((one for pattern, one in recipe if _matches(pattern, names)), None)
            if precision is not None:
                chosen[name] = _with_precision(graph, node, value, precision, made)
        if chosen:
            graph.replace(node.output, graph.emit_again(node, chosen))
            graph.remove([node])
            count += 1
    for pattern, _ in recipe:
        if must_match and pattern not in used:
            raise ConfigError(_describe_unknown(pattern, list(layers)))
    return count


def list_layers(graph: Graph) -> tuple[str, ...]:
    """The names of the layers with weights, in the order in which they run, for the patterns of a recipe."""
    found = (_names(node, weight)[0] for node in graph.nodes for _, _, weight in _weights(node))
    return tuple(dict.fromkeys(found))


def _weights(node: Node) -> Iterator[tuple[str, Value, Value]]:
    """Name of an input, its value, and the constant that it is a view of, for each weight of at least 2 axes.

    Both factors of a product count, because a pass may exchange them.
    """
    encoded = node.op.encoded
    for name in ("a", "b") if node.op.name == "matmul" else encoded:
        value = node[name]
        weight = value
        while weight is not None and weight.node is not None and weight.node.op.view is not None:
            weight = weight.node.operand("x")
        if value is not None and weight is not None and weight.is_plain and len(weight.shape) > 1:
            yield name, value, weight


def _names(node: Node, weight: Value) -> tuple[str, ...]:
    """The names that a pattern may match, the layer first: the module that reads the weight, and the weight.

    A weight of another module does not count: a tied weight has the name of one of the modules that read it.
    """
    origin = node.output.origin
    module = origin.module if origin is not None else ""
    own = weight.name.startswith(f"{module}.") or not module
    owner = weight.name.rpartition(".")[0]
    return tuple(dict.fromkeys(name for name in (module, *((owner, weight.name) if own else ())) if name))


def _matches(pattern: str, names: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)


def _with_precision(
    graph: Graph, node: Node, value: Value, precision: str, made: dict[tuple[Value, str], Value]
) -> Value:
    """`value`, a constant or a view of one, over a constant with `precision`. `made` caches the constants."""
    if value.node is not None:
        below = _with_precision(graph, node, value.node.operand("x"), precision, made)
        return graph.emit_again(value.node, {"x": below}, before=node)
    if (value, precision) not in made:
        assert value.form is not None  # noqa: S101  # `_weights` yields constants
        constant = made[value, precision] = graph.later(value.form, value.type, value.name)
        constant.precision = precision
    return made[value, precision]


def _describe_unknown(pattern: str, layers: Sequence[str]) -> str:
    near = find_nearest(pattern, layers)
    hint = f"; did you mean {near!r}?" if near is not None else "."
    listed = ", ".join(layers[:MOST_LISTED]) or "none"
    more = f" and {len(layers) - MOST_LISTED} more" if len(layers) > MOST_LISTED else ""
    return f"recipe: no layer matches {pattern!r}{hint} Layers with weights: {listed}{more}"
