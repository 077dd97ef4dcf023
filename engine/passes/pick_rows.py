"""Select the rows that are used before an op that works row by row, rather than after it.

slice(linear(x)) -> linear(slice(x)), also through norms and pointwise ops, up to an op that combines rows. If only the
logits of the last token are used, a language model computes its head and its last layer's MLP for this token only.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.graph import Graph, Node, Value
from engine.passes.base import Pass
from engine.sizes import at_most, same


def _product(_node: Node) -> list[str] | None:
    return ["x", "residual"]


def _normed(node: Node) -> list[str] | None:
    """x, and what is added to it; the weights are of the last axis where that one alone is normed."""
    return ["x", "addend"] if node.attributes["axes"] == 1 else None


def _pointwise(node: Node) -> list[str] | None:
    """Every operand of the result's shape; another one must look the same from each row."""
    operands = {name: node.operand(name) for name in node.op.input_names}
    wide = [name for name, v in operands.items() if same(v.shape, node.output.shape)]
    return wide if all(len(v.shape) <= 1 for name, v in operands.items() if name not in wide) else None


ROW_BY_ROW: dict[str, Callable[[Node], list[str] | None]] = {
    "linear": _product,
    "layer_norm": _normed,
    "rms_norm": _normed,
}
"""Op -> which of its inputs have the result's rows; None where this node does not work row by row."""


def _picks_rows(node: Node) -> bool:
    """Whether `node` takes whole rows (along the last axis) of x, and no more than there are."""
    if node.op.name not in ("slice", "index"):
        return False
    x = node.operand("x")
    if len(x.shape) < 2:
        return False
    last = len(x.shape) - 1
    if node.op.name == "slice":
        return bool(node.attributes["axis"] != last)
    return last not in node.attributes["axes"] and at_most(node.output.type.size, x.type.size)


def _alike(a: Node, b: Node) -> bool:
    return a.op is b.op and a.inputs == b.inputs and same(_attributes(a), _attributes(b))


def _attributes(node: Node) -> tuple[object, ...]:
    return tuple(node.attributes[name] for name in sorted(node.attributes))


def _move(graph: Graph, pick: Node, users: dict[Value, list[Node]]) -> bool:
    """Take rows of what the op in front of `pick` reads. True where that was done."""
    source = pick.operand("x")
    maker, picks = source.node, users[source]
    if maker is None or len(maker.outputs) != 1 or source in graph.outputs:
        return False
    rule = ROW_BY_ROW.get(maker.op.name, _pointwise if maker.op.family == "pointwise" else None)
    if rule is None or not all(_alike(pick, other) for other in picks):
        return False
    names = rule(maker)
    if not names:
        return False
    operands = {name: value for name in names if (value := maker[name]) is not None}
    picked = {name: graph.emit_again(pick, {"x": value}) for name, value in operands.items()}
    new = graph.emit_again(maker, picked, before=pick)
    for other in picks:
        graph.replace(other.output, new)
    graph.remove([*picks, maker])
    return True


def run(graph: Graph) -> int:
    """Number of ops that work on fewer rows."""
    count, moved = 0, True
    while moved:
        users = graph.users()
        moved = any(_picks_rows(node) and _move(graph, node, users) for node in graph.candidates())
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
