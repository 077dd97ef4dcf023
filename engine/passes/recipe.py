"""Chooses the precision of single layers, as `Config.recipe` says.

Runs before the common passes, where each node still belongs to one module of the model. It only sets `Value.precision`
of the weights: the passes keep it, and do not join weights of different precisions. `engine.passes.precision` encodes
the weights afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from engine.errors import ConfigError
from engine.graph import Graph, Node, Value, is_decoded
from engine.passes.precision import is_lookup, names_of_weights
from engine.suggest import find_nearest

MOST_LISTED = 12
"""Names of layers in an error; a model may have hundreds."""


def assign(graph: Graph, recipe: Sequence[tuple[str, str]], *, must_match: bool = True) -> int:
    """Set the precision of each weight that a pattern of `recipe` matches. Returns the number of nodes that read one.

    `recipe` has pairs of pattern and precision; the first pattern that matches a layer decides. A weight that nodes
    read in different precisions becomes several constants over the same memory.

    With `must_match`, raises ConfigError if a pattern matches no layer, or if earlier patterns decide all of its layers
    and give one of them another precision. The message names the nearest layer, or the earlier pattern.
    """
    layers: dict[str, None] = {}
    uses = _Uses(recipe)
    made: dict[tuple[Value, str], Value] = {}
    count = 0
    for node, weights in list(_find_weights(graph)):
        chosen: dict[str, Value | None] = {}
        for name, value, weight in weights:
            names = _names(node, weight)
            layers[names[0]] = None
            precision = uses.choose(names)
            if precision is not None and _is_quantised(weight):
                _check_quantised(names[0], precision)
            elif precision is not None:
                chosen[name] = _with_precision(graph, node, value, precision, made)
        if chosen:
            graph.replace(node.output, graph.emit_again(node, chosen))
            graph.remove([node])
            count += 1
    if must_match:
        uses.check(list(layers))
    return count


class _Uses:
    """Chooses precisions by a recipe, and records which of its patterns, by their positions, have an effect.

    `deciding` have decided the precision of a layer. `beaten`: pattern -> an earlier one that decided for a layer that
    both match. `matched`: pattern -> the names of each weight that it matches.
    """

    def __init__(self, recipe: Sequence[tuple[str, str]]) -> None:
        self.recipe = recipe
        self.deciding: set[int] = set()
        self.beaten: dict[int, int] = {}
        self.matched: dict[int, set[tuple[str, ...]]] = {}

    def choose(self, names: Sequence[str]) -> str | None:
        """The precision of the layer that has these names; None if no pattern matches it."""
        matching = [number for number, (pattern, _) in enumerate(self.recipe) if _matches(pattern, names)]
        if not matching:
            return None
        for number in matching:
            self.matched.setdefault(number, set()).add(tuple(names))
        first, *others = matching
        self.deciding.add(first)
        for number in others:
            is_other = self.recipe[number][1] != self.recipe[first][1]
            self.beaten[number] = first if is_other else self.beaten.get(number, first)
        return self.recipe[first][1]

    def check(self, layers: Sequence[str]) -> None:
        """ConfigError if a pattern matches none of `layers`, or if earlier patterns override it."""
        for number, (pattern, precision) in enumerate(self.recipe):
            if number in self.deciding:
                continue
            if number not in self.beaten:
                raise ConfigError(_describe_unknown(pattern, layers))
            earlier, other = self.recipe[self.beaten[number]]
            if other != precision:
                is_same = self.matched[number] == self.matched[self.beaten[number]]
                advice = "remove one of them" if is_same else f"put {pattern!r} before {earlier!r}"
                raise ConfigError(
                    f"recipe: {pattern!r}: {precision}: it has no effect, because {earlier!r}: {other} comes first and "
                    f"matches the same layers; the first pattern that matches a layer decides, so {advice}"
                )


def list_layers(graph: Graph) -> tuple[str, ...]:
    """The names of the layers with weights, in the order in which they run, for the patterns of a recipe.

    Layers whose weights stay in float32 whatever a recipe says (`precision.find_left`) are among them.
    """
    found = (_names(node, weight)[0] for node, weights in _find_weights(graph) for _, _, weight in weights)
    return tuple(dict.fromkeys(found))


def _find_weights(graph: Graph) -> Iterator[tuple[Node, list[tuple[str, Value, Value]]]]:
    """Each node with the weights of at least 2 axes that it reads, where it reads any.

    A weight is the name of an input, its value, and the constant from which the value is made: by views, or by an
    expression of constants alone, such as that of a weight norm, which is folded later. Of several constants, the
    largest. `names_of_weights` says which inputs count.
    """
    made_of: dict[Value, Value] = {}
    for node in graph.nodes:
        if (largest := _find_largest(node, made_of)) is not None:
            made_of |= dict.fromkeys(node.outputs, largest)
            continue
        found = []
        for name in names_of_weights(node):
            value = node[name]
            weight = value if value is None or value.is_constant else made_of.get(value)
            if value is None or weight is None or len(value.shape) < 2:
                continue
            if weight.is_parameter or not is_lookup(node):
                found.append((name, value, weight))
        if found:
            yield node, found


def _find_largest(node: Node, made_of: Mapping[Value, Value]) -> Value | None:
    """The largest constant from which `node` computes its results; None if they depend on more than constants."""
    inputs = [value for value in node.inputs if value is not None]
    if not inputs or any(name.endswith("*") for name in node.op.inputs):  # those cannot be exchanged by name
        return None
    constants = [value if value.is_constant else made_of.get(value) for value in inputs]
    known = [constant for constant in constants if constant is not None]
    return max(known, key=lambda constant: constant.type.nbytes) if len(known) == len(inputs) else None


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


def _is_quantised(weight: Value) -> bool:
    """True if the model itself has quantised this constant."""
    is_float = weight.dtype in ("float64", "float32", "float16", "bfloat16")
    return not is_float or not weight.is_plain or (weight.form is not None and is_decoded(weight.form))


def _check_quantised(layer: str, precision: str) -> None:
    """ConfigError if `precision` changes a weight that the model itself has quantised."""
    if precision != "int8_weight":
        raise ConfigError(
            f"recipe: {layer!r}: {precision}: the model has quantised the weight of this layer itself, and it stays as "
            f'it is; put "{layer}" = "int8_weight" first, which leaves it so, or use patterns that do not match it'
        )


def _with_precision(
    graph: Graph, reader: Node, value: Value, precision: str, made: dict[tuple[Value, str], Value]
) -> Value:
    """`value`, made from constants alone, for `reader`, over constants (cached in `made`) with `precision`."""
    if value.node is not None:
        node, operands = value.node, dict[str, Value | None]()
        for name in node.op.input_names:
            if (operand := node[name]) is not None:
                operands[name] = _with_precision(graph, reader, operand, precision, made)
        return graph.emit_again(node, operands, before=reader)
    if (value, precision) not in made:
        assert value.form is not None  # noqa: S101  # `_find_weights` yields constants
        constant = made[value, precision] = graph.later(value.form, value.type, value.name)
        constant.precision, constant.is_parameter = precision, value.is_parameter
    return made[value, precision]


def _describe_unknown(pattern: str, layers: Sequence[str]) -> str:
    owner = pattern.rpartition(".")[0]  # a shared weight has the name that one of its modules gives it
    if any(layer.startswith(f"{pattern}.") for layer in layers):
        near: str | None = f"{pattern}.*"  # a module that has layers
    else:
        near = owner if owner in layers else find_nearest(pattern, layers)
    hint = f"; did you mean {near!r}?" if near is not None else "."
    listed = ", ".join(layers[:MOST_LISTED]) or "none"
    more = f" and {len(layers) - MOST_LISTED} more" if len(layers) > MOST_LISTED else ""
    return f"recipe: no layer matches {pattern!r}{hint} Layers with weights: {listed}{more}"
