"""Turns the values of a graph that are bfloat16 or float16 into float32, as `Config.activations` says.

This changes what a graph computes: it drops the roundings of values between nodes. So it is no pass of the pipeline. It
runs before the common passes. Inputs and outputs keep their types; states become float32.

A rounding that the model asks for itself is kept: a cast to a narrow type that no input and no other tensor of the
model has, or whose result is only cast again or read directly by an op that gives truth values or integers, such as a
comparison. What only moves elements of inputs to results stays narrow, and so does
a sum or an extreme of such elements that is a result itself: its kernels sum in float32 and round once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine import dtypes
from engine.graph import Cast, Graph, Node, Value, roots
from engine.ops import TensorType

NARROW = ("bfloat16", "float16")
WIDE = "float32"
MOVES = frozenset(
    (
        "reshape",
        "permute",
        "expand",
        "slice",
        "flip",
        "windows",
        "concat",
        "copy",
        "pad",
        "tril",
        "triu",
        "index_select",
        "gather",
        "index",
    )
)
"""Ops whose floats are those of their inputs; a value that `pad` puts around is cast to the type, narrow or not."""
REDUCTIONS = frozenset(("sum", "mean", "amax", "amin"))
"""Ops that read narrow floats and round their results once."""


def find_narrow_type(value: Value) -> str | None:
    """The narrow type of all arrays that a float32 constant comes from; None if there is no such type."""
    if value.form is None or value.dtype != WIDE:
        return None
    found = {dtypes.from_numpy(one.dtype).name if isinstance(one, np.ndarray) else "" for one in roots(value.form)}
    (name,) = found if len(found) == 1 else ("",)
    return name if name in NARROW else None


def widen(graph: Graph) -> int:
    """Make the narrow values of `graph` float32. Returns the number of nodes that changed."""
    if not any(value.dtype in NARROW for node in graph.nodes for value in (*_present(node), *node.outputs)):
        return 0
    return _Widening(graph).run()


def _present(node: Node) -> list[Value]:
    return [value for value in node.inputs if value is not None]


def _list_own_types(graph: Graph) -> set[str]:
    """The narrow types that a model computes in: of its inputs, states, weights and other tensors with axes."""
    weights = (value for node in graph.nodes for value in _present(node) if value.form is not None and value.shape)
    return {value.dtype for value in (*graph.inputs, *weights)}.intersection(NARROW)


def _only_moves(node: Node) -> bool:
    replaces = {"index_put": ("accumulate", False), "scatter": ("reduce", "none")}
    name, value = replaces.get(node.op.name, ("", None))
    return node.op.name in MOVES or (bool(name) and node.attributes[name] == value)


def _decides(node: Node) -> bool:
    """True if a result is a truth value or an integer, which a rounding of the operands can change completely."""
    return any(dtypes.dtype(value.dtype).kind != "float" for value in node.outputs)


class _Widening:
    """One run over a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.wide: dict[Value, Value] = {}
        self.narrow_states: dict[Value, str] = {}  # the type that a widened state had
        self.users = graph.users()
        self.own_types = _list_own_types(graph)
        self.moves = self._find_moves()
        self.moved: dict[Value, Value] = {}

    def run(self) -> int:
        """Emit every node again, in order."""
        graph, nodes = self.graph, self.graph.nodes
        graph.nodes = []
        self._widen_states()
        for value in graph.inputs:
            if value.dtype in NARROW:
                self.wide[value] = graph.emit("cast", [value], dtype=WIDE, name=value.name)
                self.wide[value].inherit(value)
        changes = 0
        for node, made in graph.emit_in_order(
            nodes, lambda node, _name, value: self._read(node, value), self._attributes
        ):
            if node in self.moves:
                self.moved[node.output] = made.output
                continue
            for old, new in zip(node.outputs, made.outputs, strict=True):
                is_kept = new.dtype in NARROW  # a rounding: what reads it gets the rounded numbers
                self.wide[old] = graph.emit("cast", [new], dtype=WIDE) if is_kept else new
            changes += [one.dtype for one in made.outputs] != [one.dtype for one in node.outputs]
        first_state = len(graph.outputs) - len(graph.states)
        graph.outputs = [
            self._give(value) if number < first_state else self._find(value)
            for number, value in enumerate(graph.outputs)
        ]
        return changes

    def _find_moves(self) -> set[Node]:
        """Nodes that move or reduce elements of narrow inputs, and are read by nodes that move or returned."""
        first_state = len(self.graph.outputs) - len(self.graph.states)
        states = {*self.graph.state_inputs, *self.graph.outputs[first_state:]}
        known = (node for node in self.graph.nodes if _only_moves(node) or node.op.name in REDUCTIONS)
        found = {node for node in known if node.output.dtype in NARROW}
        while True:
            moves = set(filter(_only_moves, found))
            sources = {*self.graph.inputs, *(node.output for node in found)} - states
            kept = {
                node
                for node in found
                if sources.issuperset(value for value in _present(node) if value.dtype in NARROW)
                and node.output not in states
                and (found if node in moves else moves).issuperset(self.users.get(node.output, ()))
            }
            if kept == found:
                return kept
            found = kept

    def _read(self, node: Node, value: Value) -> Value:
        is_moved = node in self.moves and value.dtype in NARROW
        return self.moved.get(value, value) if is_moved else self._find(value)

    def _widen_states(self) -> None:
        graph = self.graph
        for value in graph.state_inputs:
            if value.dtype in NARROW:
                self.narrow_states[value] = value.dtype
                value.type = TensorType(WIDE, value.shape)
        graph.states = [(name, None if first is None else self._find(first)) for name, first in graph.states]

    def _find(self, value: Value) -> Value:
        """`value` as the nodes of the widened graph read it."""
        if value in self.wide or value.dtype not in NARROW or value.form is None:
            return self.wide.get(value, value)
        type_, encoding = TensorType(WIDE, value.shape), value.type.encoding
        found = self.wide[value] = (
            self.graph.later(Cast(value.form, WIDE), type_, value.name, [value])
            if encoding is None
            else self.graph.encoded(value.components, encoding, type_, value.name)
        )
        found.inherit(value)
        return found

    def _give(self, value: Value) -> Value:
        """`value` as the graph returns it: in the type that it had."""
        if value in self.moved:
            return self.moved[value]
        found, dtype = self.wide.get(value, value), self.narrow_states.get(value, value.dtype)
        return found if found.dtype == dtype else self.graph.emit("cast", [found], dtype=dtype)

    def _attributes(self, node: Node) -> Mapping[str, Any]:
        """Attributes with float32 in place of a narrow type, unless the node is a rounding to keep or makes numbers."""
        kept = node in self.moves or not node.inputs or (node.op.name == "cast" and self._is_rounding(node))
        return {
            name: WIDE if node.op.attributes[name].kind == "dtype" and value in NARROW and not kept else value
            for name, value in node.attributes.items()
        }

    def _is_rounding(self, cast: Node) -> bool:
        """True for a cast to a narrow type that the model does not compute in otherwise, and for a cast of wider
        floats whose result is only cast again, or decides.
        """
        (x,) = _present(cast)
        users = self.users.get(cast.output, [])
        if cast.output.dtype not in NARROW:
            return False
        if cast.output.dtype not in self.own_types:
            return x.dtype not in ("bool", cast.output.dtype)
        is_only_cast = bool(users) and all(user.op.name == "cast" for user in users)
        return x.dtype in ("float32", "float64") and (is_only_cast or any(map(_decides, users)))
