"""The matcher of graph patterns, and the driver that rewrites matches. Patterns are data; guards are predicates.

A pattern is a tree of `NodePattern`, `Var`, `Scalar` and `OneOf`. A `Var` that occurs twice must match the same value,
so patterns describe DAGs. A match is rewritten only if no node outside of it reads the results of its inner nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine import dtypes
from engine.graph import Graph, Node, Value
from engine.passes.widen import NARROW, find_narrow_type


@dataclass(frozen=True)
class Var:
    """Any value, bound to `name`."""

    name: str


@dataclass(frozen=True)
class Scalar:
    """A constant with one element, equal to `value`; None: any number.

    Equal is what differs by at most 1e-6 of the value, because models round constants. In a model of bfloat16 or
    float16, also where its values have become float32, it is the value rounded to that type.
    """

    name: str = ""
    value: float | None = None


@dataclass(frozen=True)
class NodePattern:
    """A node of op `op` whose inputs match and whose attributes include `attributes`; binds the node to `name`."""

    op: str
    inputs: tuple[Pattern, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True)
class OneOf:
    """The first alternative that matches."""

    alternatives: tuple[Pattern, ...]


Pattern = Var | Scalar | NodePattern | OneOf
_PRODUCTS = frozenset({"mul", "div"})
COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum"})


@dataclass
class Match:
    """The values and nodes that a pattern matched: values by the names of `Var` and `Scalar`, nodes by theirs.

    `nodes` has every matched node, the root first.
    """

    values: dict[str, Value] = field(default_factory=dict)
    calls: dict[str, Node] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def copy(self) -> Match:
        return Match(dict(self.values), dict(self.calls), list(self.nodes))

    def scalar(self, name: str) -> float:
        number = self.values[name].scalar
        if number is None:
            raise ValueError(f"{name} is not a scalar")
        return float(number)


def call(op: str, *inputs: Pattern, name: str = "", **attributes: Any) -> NodePattern:
    """A `NodePattern` with its inputs as positional and its attributes as keyword arguments."""
    return NodePattern(op, inputs, attributes, name)


def matches(pattern: Pattern, value: Value, found: Match) -> Iterator[Match]:
    """Yield every match of `pattern` with `value` that extends the bindings of `found`."""
    match pattern:
        case Var(name):
            if name in found.values and found.values[name] is not value:
                return
            result = found.copy()
            result.values[name] = value
            yield result
        case Scalar(name, expected):
            number = value.scalar
            if number is None or (expected is not None and not _is_rounded(expected, number, value)):
                return
            result = found.copy()
            if name:
                result.values[name] = value
            yield result
        case OneOf(alternatives):
            for alternative in alternatives:
                yield from matches(alternative, value, found)
        case NodePattern():
            yield from _call(pattern, value, found)


def _is_rounded(expected: float, number: float, value: Value) -> bool:
    """True if `number`, the element of the constant `value`, is `expected` as the model stores it."""
    if math.isclose(number, expected, rel_tol=1e-6):
        return True
    kind = value.dtype if value.dtype in NARROW else find_narrow_type(value)
    return kind is not None and number == float(np.asarray(expected).astype(dtypes.dtype(kind).numpy))


def _call(pattern: NodePattern, value: Value, found: Match) -> Iterator[Match]:
    root = value.node
    if root is None or root.decodes:
        return
    nodes, operands = _see_through(root) if pattern.op in _PRODUCTS else ([root], root.inputs)
    node = nodes[-1]
    if node.op.name != pattern.op:
        return
    if any(node.attributes[k] != v for k, v in pattern.attributes.items()):
        return
    if pattern.name in found.calls and found.calls[pattern.name] is not node:
        return
    here = found.copy()
    here.nodes += nodes
    if pattern.name:
        here.calls[pattern.name] = node
    inputs = operands[: len(pattern.inputs)]
    orders = [inputs, inputs[::-1]] if node.op.name in COMMUTATIVE else [inputs]
    for order in orders:
        yield from _inputs(pattern.inputs, order, here)


def _see_through(root: Node) -> tuple[list[Node], Sequence[Value | None]]:
    """Nodes that compute a product, the product last, and its operands.

    The exporter writes the product of a narrow value and a number that the type does not have with casts: of the value
    to float32, and of the product back (`CallContext.arithmetic`). If `root` is the latter cast, these three are the
    nodes, and the operands are those without casts. Otherwise `root` is the only node.
    """
    product = root.operand("x").node if root.op.name == "cast" and root.output.dtype in NARROW else None
    if product is None or product.op.name not in _PRODUCTS:
        return [root], root.inputs
    nodes, operands = [root], list[Value | None]()
    for value in filter(None, product.inputs):
        if value.scalar is not None:
            operands.append(value)
        elif value.node is not None and value.node.op.name == "cast":
            nodes.append(value.node)
            operands.append(value.node.operand("x"))
    narrow = [one for one in operands if one is not None and one.dtype == root.output.dtype]
    is_known = (len(nodes), len(operands), len(narrow)) == (2, 2, 1)
    return ([*nodes, product], operands) if is_known else ([root], root.inputs)


def _inputs(patterns: Sequence[Pattern], values: Sequence[Value | None], found: Match) -> Iterator[Match]:
    if not patterns:
        yield found
        return
    if values[0] is None:
        return
    for result in matches(patterns[0], values[0], found):
        yield from _inputs(patterns[1:], values[1:], result)


@dataclass(frozen=True)
class Rule:
    """A pattern, the guards that must all hold, and what to put in place of a match.

    The root is a `NodePattern` or a `OneOf` of them. `rewrite` emits nodes before the root and returns the new
    value; None leaves the match unchanged.
    """

    pattern: Pattern
    rewrite: Callable[[Graph, Match], Value | None]
    guards: tuple[Callable[[Match], bool], ...] = ()


def apply(graph: Graph, rules: Sequence[Rule]) -> int:
    """Rewrite every match. At each node the rules are tried in order. Returns the number of rewrites."""
    by_op: dict[str, list[Rule]] = {}
    for rule in rules:
        for op in _root_ops(rule.pattern):
            by_op.setdefault(op, []).append(rule)
    count = 0
    users = None
    for node in graph.candidates():
        if node.op.name not in by_op:
            continue
        if users is None:  # computed again only after a rewrite, since it visits the whole graph
            users = graph.users()
        if not any(v in users or v in graph.outputs for v in node.outputs):
            continue
        for rule in by_op[node.op.name]:
            if _rewrite(graph, node, rule, users):
                count += 1
                users = None
                break
    return count


def _root_ops(pattern: Pattern) -> list[str]:
    """The ops that a node may have at which `pattern` matches."""
    match pattern:
        case NodePattern(op):
            return [op, "cast"] if op in _PRODUCTS else [op]
        case OneOf(alternatives):
            return list(dict.fromkeys(op for alternative in alternatives for op in _root_ops(alternative)))
        case _:
            raise TypeError(f"the root of a rule's pattern must be a NodePattern or a OneOf of calls, not {pattern}")


def _rewrite(graph: Graph, root: Node, rule: Rule, users: Mapping[Value, list[Node]]) -> bool:
    for found in matches(rule.pattern, root.outputs[0], Match()):
        inner = {id(n) for n in found.nodes}
        if not all(_private(graph, n, inner, users) for n in found.nodes if n is not root):
            continue
        known = dict(graph.scope.guards)
        if not all(guard(found) for guard in rule.guards):
            graph.scope.guards = known  # the graph stays as it is, which is right for every size
            continue
        new = rule.rewrite(graph, found)
        if new is not None:
            graph.replace(root.outputs[0], new)
            graph.remove(_list_unread(graph, found.nodes))
            return True
    return False


def _list_unread(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """Those of `nodes` that no other node reads: a new node may still read a value that its old one read twice."""
    gone = list(nodes)
    while True:
        inside = set(map(id, gone))
        read = {value for node in graph.nodes if id(node) not in inside for value in node.inputs}
        kept = [node for node in gone if not any(value in read for value in node.outputs)]
        if len(kept) == len(gone):
            return gone
        gone = kept


def _private(graph: Graph, node: Node, inner: set[int], users: Mapping[Value, list[Node]]) -> bool:
    """True if no node outside of the match reads an output of `node`, and no output is an output of the graph."""
    return all(v not in graph.outputs and all(id(u) in inner for u in users.get(v, ())) for v in node.outputs)
