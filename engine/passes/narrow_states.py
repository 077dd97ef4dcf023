"""Stores states, such as the keys and values of a decoder, as bfloat16, as `Config.states` says.

This changes what a graph computes: a number is rounded when it is written to a state. So it is no pass of the pipeline.
It runs after the common passes, which have fused attention by then.

Views of a state have its type, and so have rows that are written to it. `attention` reads keys and values of that type.
For every other op, numbers from a state, or from a copy of one into which rows are written, are cast back first.
"""

from __future__ import annotations

from engine.graph import Cast, Graph, Node, Value
from engine.ops import TensorType

WIDE = "float32"

MOVES = {
    "expand": "x",
    "index": "x",
    "index_put": "x",
    "index_select": "x",
    "permute": "x",
    "reshape": "x",
    "slice": "x",
}
"""Ops that copy elements or view them, each with the input whose type the result has."""

KEPT = ("key", "value")
"""Inputs of `attention` that may be narrower than its query."""


def narrow(graph: Graph, dtype: str) -> int:
    """Store the float32 states of `graph` as `dtype`. Returns the number of states that changed."""
    changed = [value for value in graph.state_inputs if value.dtype == WIDE]
    if changed:
        _Narrowing(graph, dtype).run(changed)
    return len(changed)


class _Narrowing:
    """One run over a graph.

    `changed` are the contents, before a call, of the states that were float32. `found` has what replaced each value.
    """

    def __init__(self, graph: Graph, dtype: str) -> None:
        self.graph = graph
        self.dtype = dtype
        self.changed: set[Value] = set()
        self.found: dict[Value, Value] = {}
        self.casts: dict[tuple[Value, str], Value] = {}

    def run(self, changed: list[Value]) -> None:
        """Emit every node again, in order."""
        graph, nodes, states = self.graph, self.graph.nodes, self.graph.state_inputs
        self.changed = set(changed)
        for value in changed:
            value.type = TensorType(self.dtype, value.shape)
        graph.states = [
            (name, self._initial(initial) if value in self.changed else initial)
            for (name, initial), value in zip(graph.states, states, strict=True)
        ]
        graph.nodes = []
        for node, made in graph.emit_in_order(nodes, self._read, lambda node: node.attributes):
            self.found |= zip(node.outputs, made.outputs, strict=True)
        first = len(graph.outputs) - len(states)
        after = [self._as(value, state.dtype) for value, state in zip(graph.outputs[first:], states, strict=True)]
        given = [self._as(value, WIDE if value in self.changed else value.dtype) for value in graph.outputs[:first]]
        graph.outputs = given + after

    def _initial(self, initial: Value | None) -> Value | None:
        """The elements that a state begins with, in its new type; None is zeros."""
        if initial is None:
            return None
        assert initial.form is not None  # noqa: S101  (the contents of a state are a constant)
        return self.graph.later(Cast(initial.form, self.dtype), TensorType(self.dtype, initial.shape), initial.name)

    def _as(self, value: Value, dtype: str) -> Value:
        """What has replaced `value`, cast to `dtype` if it has another type."""
        found = self.found.get(value, value)
        if found.dtype == dtype:
            return found
        if (found, dtype) not in self.casts:
            self.casts[found, dtype] = self.graph.emit("cast", [found], dtype=dtype)
        return self.casts[found, dtype]

    def _is_narrow(self, value: Value | None) -> bool:
        return value is not None and self.found.get(value, value).dtype == self.dtype

    def _read(self, node: Node, name: str, value: Value) -> Value:
        return self._as(value, self._type_of(node, name, value))

    def _type_of(self, node: Node, name: str, value: Value) -> str:
        """The type in which `node` reads `value`, its input `name`."""
        if value.dtype != WIDE and value not in self.changed:
            return value.dtype
        if node.op.name == "attention":
            both = all(self._is_narrow(node[one]) for one in KEPT)
            return self.dtype if name in KEPT and both else WIDE
        moved = MOVES.get(node.op.name)
        is_sum = bool(node.attributes.get("accumulate"))  # index_put adds numbers then
        return self.dtype if moved is not None and self._is_narrow(node[moved]) and not is_sum else WIDE
