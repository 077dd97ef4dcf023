"""Copies of graphs, for further passes or with numbers in place of formulas, and the constants that graphs share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from engine import sizes
from engine.errors import ShapeError
from engine.graph.constant import Constant
from engine.graph.forms import Decoded, Form, View, split_views
from engine.graph.ir import Graph, Node, Value
from engine.ops import TABLE, TensorType
from engine.ops.check import bounded_type


def share_constants(graphs: Sequence[Graph]) -> None:
    """Make each constant of `graphs` a `Constant`, or views of one. Equal forms of one type are the same `Constant`.

    It is owned if it is made of constants that are; otherwise it is borrowed.
    """
    known: dict[Hashable, Constant] = {}

    def share(value: Value) -> Form:
        form = value.form
        assert form is not None  # noqa: S101  (it is a constant)
        if not isinstance(split_views(form)[0], Constant):
            if value.key not in known:
                known[value.key] = Constant(form, value.type, "owned" if _is_owned(form) else "borrowed")
            form = known[value.key]
        value.form = form
        return form

    for graph in graphs:
        for value in graph.constants():
            if value.type.encoding is None:
                share(value)
            else:
                parts = {name: share(part) for name, part in value.components.items()}
                value.form = Decoded(parts, value.type.encoding, value.dtype)


def find_constant_of(value: Value) -> tuple[Constant, tuple[View, ...]]:
    """The `Constant` that a value is a view of, and the views, the last one first. ValueError if there is none."""
    constant, views = (None, ()) if value.form is None else split_views(value.form)
    if isinstance(constant, Constant):
        return constant, views
    raise ValueError(f"{value}: expected a constant of a program")


def list_constants(graphs: Sequence[Graph]) -> list[Constant]:
    """Every `Constant` that the values of `graphs` are views of, once."""
    return list(dict.fromkeys(find_constant_of(value)[0] for graph in graphs for value in graph.stored_constants()))


def _is_owned(form: Form) -> bool:
    if isinstance(form, Constant):
        return form.state == "owned"
    bases = getattr(form, "bases", ())
    return bool(bases) and all(map(_is_owned, bases))


def own_borrowed(graphs: Sequence[Graph]) -> None:
    """Make arrays of the constants of `graphs` that are still borrowed: nothing refers to the model or the file then.

    ProgramError or OSError if a constant is in a file that is damaged or cannot be read.
    """
    for constant in list_constants(graphs):
        if constant.state == "borrowed":
            constant.own()


def copy_graph(graph: Graph) -> Graph:
    """A graph that passes may change, with a scope of its own."""
    scope = graph.scope.copy()

    def own(value: Any) -> Any:
        return value if graph.is_fixed else sizes.in_scope(value, scope)

    def copy(value: Value) -> Value:
        made = Value(value.name, value.type._replace(shape=own(value.shape)), value.form)
        made.components = {name: copy(part) for name, part in value.components.items()}
        made.precision, made.is_parameter = value.precision, value.is_parameter
        return made

    def attributes_of(_position: int, node: Node) -> dict[str, Any]:
        return {name: own(attribute) for name, attribute in node.attributes.items()}

    return _copy(graph, scope, copy, attributes_of)


def specialise(graph: Graph, values: Mapping[str, int]) -> Graph:
    """The graph for these sizes. Checks every rule of the op table; once for all nodes of one kind.

    Nodes that only make a number, or what no kernel makes, become constants.

    ShapeError if a size is out of its range, or the sizes break a guard or a rule.
    """
    graph.scope.check(values)
    try:
        kinds = graph.kinds = graph.kinds or _find_kinds(graph)
        distinct = list(kinds.types)
        for number in kinds.formulas:
            distinct[number] = distinct[number]._replace(shape=sizes.at(distinct[number].shape, values))
        _check_sizes([distinct[number] for number in kinds.formulas])
        attributes = [kind.at(values, distinct) for kind in kinds.kinds]
        for before, after in zip(graph.state_inputs, graph.state_outputs, strict=True):
            if distinct[kinds.type_of[before]] != distinct[kinds.type_of[after]]:
                raise ValueError("a state changes its type")
    except (ValueError, ShapeError) as error:
        here = ", ".join(f"{name} = {size}" for name, size in values.items()) or "its sizes"
        raise ShapeError(f"the program does not work for {here}: {error}") from None

    def copy(value: Value) -> Value:
        return value if value.form is not None else Value(value.name, distinct[kinds.type_of[value]])

    def attributes_of(position: int, node: Node) -> Mapping[str, Any]:
        return attributes[kinds.varying[position]] if position in kinds.varying else node.attributes

    made = _copy(graph, sizes.Scope(), copy, attributes_of)
    numbers = [one for one in made.nodes if not one.inputs and not (one.output.shape and one.op.has_kernels)]
    for node in numbers:
        _make_constant(node)
    made.remove(numbers)
    return made


def _make_constant(node: Node) -> None:
    """Let the output of a node without inputs be a constant, computed now and not at each call."""
    value, array = node.output, np.asarray(node.op.reference(**node.attributes))
    value.form, value.node = Constant(array.reshape(value.shape), value.type, "owned"), None


def _copy(
    graph: Graph,
    scope: sizes.Scope,
    copy: Callable[[Value], Value],
    attributes_of: Callable[[int, Node], Mapping[str, Any]],
) -> Graph:
    """A graph of what `copy` makes of each value, and of nodes with these attributes."""
    made = graph.empty_copy(scope)
    values: dict[Value, Value] = {}

    def find(value: Value) -> Value:
        if (found := values.get(value)) is None:
            found = values[value] = copy(value)
            found.origin = value.origin
        return found

    made.inputs = list(map(find, graph.inputs))
    for position, node in enumerate(graph.nodes):
        inputs = [None if value is None else find(value) for value in node.inputs]
        new = Node(node.op, inputs, attributes_of(position, node), node.source)
        new.outputs = list(map(find, node.outputs))
        for value in new.outputs:
            value.node = new
        made.nodes.append(new)
    made.outputs = list(map(find, graph.outputs))
    made.states = [(name, None if value is None else find(value)) for name, value in graph.states]
    return made


class _Kind(NamedTuple):
    """Nodes with equal op, attributes and types, these by number: one check does for all repeated layers."""

    op: str
    inputs: tuple[int | None, ...]
    attributes: Mapping[str, Any]
    outputs: tuple[int, ...]
    varying: tuple[str, ...]  # names of the attributes that are formulas

    def at(self, values: Mapping[str, int], types: Sequence[TensorType]) -> Mapping[str, Any]:
        """The attributes for these sizes. ValueError if the op infers other output types from them."""
        own = {**self.attributes, **{name: sizes.at(self.attributes[name], values) for name in self.varying}}
        inputs = [None if number is None else types[number] for number in self.inputs]
        if [types[number] for number in self.outputs] != list(TABLE[self.op].infer_types(inputs, own)):
            raise ValueError(f"{self.op}: output types do not follow from its inputs")
        return own


class Kinds(NamedTuple):
    """The different types and nodes of a graph, each once.

    Types without formulas have been checked; `formulas` has the positions of the others. `type_of` has the position of
    each value's type, `varying` the kind of each node with formulas among its attributes, by the node's position.
    """

    types: tuple[TensorType, ...]
    formulas: tuple[int, ...]
    type_of: Mapping[Value, int]
    kinds: tuple[_Kind, ...]
    varying: Mapping[int, int]


def _find_kinds(graph: Graph) -> Kinds:
    # Keys instead of types and attributes: == of formulas could record a guard.
    numbers: dict[Hashable, int] = {}
    distinct: list[TensorType] = []
    type_of: dict[Value, int] = {}

    def number_of(value: Value) -> int:
        if value not in type_of:
            key = value.dtype, sizes.key_of(value.shape), value.type.encoding
            type_of[value] = numbers.setdefault(key, len(distinct))
            if type_of[value] == len(distinct):
                distinct.append(value.type)
        return type_of[value]

    known: dict[Hashable, int] = {}
    kinds: list[_Kind] = []
    varying: dict[int, int] = {}
    for value in (*graph.inputs, *graph.outputs):
        number_of(value)
    for position, node in enumerate(graph.nodes):
        inputs = tuple(None if v is None else number_of(v) for v in node.inputs)
        outputs = tuple(map(number_of, node.outputs))
        key = node.op.name, sizes.key_of(tuple(node.attributes.items())), inputs, outputs
        number = known.setdefault(key, len(kinds))
        if number == len(kinds):
            names = tuple(name for name, value in node.attributes.items() if not sizes.is_fixed(value))
            kinds.append(_Kind(node.op.name, inputs, node.attributes, outputs, names))
        if kinds[number].varying:
            varying[position] = number
    _check_sizes([t for t in distinct if sizes.is_fixed(t.shape)])
    formulas = [number for number, t in enumerate(distinct) if not sizes.is_fixed(t.shape)]
    return Kinds(tuple(distinct), tuple(formulas), type_of, tuple(kinds), varying)


def _check_sizes(types: Sequence[TensorType]) -> None:
    for type_ in types:
        bounded_type("types", "a value", type_)
