"""Take the rows that are used before an op that works row by row, rather than after it.

slice(linear(x)) -> linear(slice(x)), and so on through norms and pointwise ops, up to where rows meet: a language model
that is asked for what follows its last token computes neither the head nor its last layer's MLP for the other tokens.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.graph import Graph, Node, Value
from engine.passes.base import Pass
from engine.sizes import at_most, same


def _product(_node: Node) -> list[int] | None:
    return [0, 3]


def _normed(node: Node) -> list[int] | None:
    """x, and what is added to it; the weights are of the last axis where that one alone is normed."""
    if node.attributes["axes"] != 1:
        return None
    return [0, len(node.inputs) - 1]


def _pointwise(node: Node) -> list[int] | None:
    """Every operand of the result's shape; another one must look the same from each row."""
    wide = [i for i, v in enumerate(node.inputs) if v is not None and same(v.shape, node.output.shape)]
    others = [v for i, v in enumerate(node.inputs) if v is not None and i not in wide]
    return wide if all(len(v.shape) <= 1 for v in others) else None


ROW_BY_ROW: dict[str, Callable[[Node], list[int] | None]] = {
    "linear": _product,
    "layer_norm": _normed,
    "rms_norm": _normed,
}
"""Op -> which of its inputs have the result's rows; None where this node does not work row by row."""


def _picks_rows(node: Node) -> bool:
    """Whether `node` takes whole rows (along the last axis) of its first input, and no more than there are."""
    x, result = node.inputs[0] if node.inputs else None, node.outputs[0]
    if x is None or len(x.shape) < 2:
        return False
    last = len(x.shape) - 1
    if node.op.name == "slice":
        return bool(node.attributes["axis"] != last)
    return node.op.name == "index" and last not in node.attributes["axes"] and at_most(result.type.size, x.type.size)


def _alike(a: Node, b: Node) -> bool:
    return a.op is b.op and a.inputs[1:] == b.inputs[1:] and same(_attributes(a), _attributes(b))


def _attributes(node: Node) -> tuple[object, ...]:
    return tuple(node.attributes[name] for name in sorted(node.attributes))


def _move(graph: Graph, pick: Node, users: dict[Value, list[Node]]) -> bool:
    """Take rows of what the op in front of `pick` reads. True where that was done."""
    source = pick.input(0)
    maker, picks = source.node, users[source]
    if maker is None or len(maker.outputs) != 1 or source in graph.outputs:
        return False
    rule = ROW_BY_ROW.get(maker.op.name, _pointwise if maker.op.family == "pointwise" else None)
    if rule is None or not all(_alike(pick, other) and other.inputs[0] is source for other in picks):
        return False
    positions = rule(maker)
    if not positions:
        return False
    inputs = list(maker.inputs)
    for position in positions:
        value = maker.inputs[position]
        if value is not None:
            inputs[position] = graph.emit(
                pick.op.name, [value, *pick.inputs[1:]], before=pick, source=pick.source, **pick.attributes
            )
    new = graph.emit(maker.op.name, inputs, before=pick, source=maker.source, **maker.attributes)
    for other in picks:
        graph.replace(other.output, new)
    graph.remove([*picks, maker])
    return True


def run(graph: Graph) -> int:
    """Number of ops that work on fewer rows."""
    count, moved = 0, True
    while moved:
        users = graph.users()
        moved = any(_picks_rows(node) and _move(graph, node, users) for node in graph.nodes)
        count += moved
    return count


PASS = Pass(
    "pick_rows",
    run,
    before={
        "common_subexpressions": "equal picks have to become one",
        "fuse_gated_linear": "it does not look inside of ops that contain another one",
        "fuse_epilogue": "it does not look inside of ops that contain another one",
    },
)
