"""Move a permute from the input of a linear to its result, so that the linear reads dense rows.

linear(permute(x)) -> permute(linear(x)) if the permute does not move the last axis, also through a reshape that joins
heads. A linear needs dense rows, but attention reads heads in any layout. torch's own multi-head attention moves the
batch to the second axis and back, and both permutes become views.
"""

from __future__ import annotations

from engine.graph import Graph, Node, Value
from engine.passes.base import Pass
from engine.passes.simplify_views import parts

VIEWS = frozenset({"reshape", "permute", "slice"})


def _of_permute(_graph: Graph, _linear: Node, permute: Node) -> tuple[Value, tuple[int, ...]] | None:
    """Rows as they lie, and which axis of them is which of the model's."""
    order = permute.attributes["axes_order"]
    return (permute.operand("x"), order) if order[-1] == len(order) - 1 else None


def _of_joined(graph: Graph, linear: Node, reshape: Node) -> tuple[Value, tuple[int, ...]] | None:
    """The same where a reshape joins permuted axes: whole rows trade places, what is joined stays joined."""
    permute = reshape.operand("x").node
    if permute is None or permute.decodes or permute.op.name != "permute":
        return None
    order, shape = permute.attributes["axes_order"], reshape.output.shape
    joined = parts(shape, permute.output.shape)
    if joined is None or not all(joined):
        return None
    rows = sorted(range(len(shape) - 1), key=lambda row: order[joined[row][0]])
    axes = (*rows, len(shape) - 1)
    if axes == tuple(range(len(shape))):
        return None
    order_of_x = tuple(order[axis] for row in axes for axis in joined[row])
    x = graph.emit("permute", [permute.operand("x")], before=linear, source=permute.source, axes_order=order_of_x)
    x = graph.emit("reshape", [x], before=linear, source=reshape.source, shape=tuple(shape[row] for row in axes))
    return x, tuple(axes.index(row) for row in range(len(axes)))


RULES = {"permute": _of_permute, "reshape": _of_joined}


def run(graph: Graph) -> int:
    """Number of linears that read rows as they lie."""
    count = 0
    users = graph.users()
    for node in graph.candidates():
        if node.op.name != "linear" or node["residual"] is not None or node.output in graph.outputs:
            continue
        maker = node.operand("x").node
        if (
            maker is None
            or maker.decodes
            or maker.op.name not in RULES
            or not all(u.op.name in VIEWS for u in users.get(node.output, ()))
        ):
            continue
        found = RULES[maker.op.name](graph, node, maker)
        if found is None:
            continue
        x, order = found
        y = graph.emit_again(node, {"x": x})
        permuted = graph.emit("permute", [y], before=node, source=node.source, axes_order=order)
        graph.replace(node.output, permuted)
        graph.remove([node])
        users = graph.users()
        count += 1
    return count


PASS = Pass(
    "move_permute",
    run,
    before={
        "fuse_gated_linear": "a permute between two nodes hides the pattern",
        "merge_linear": "a permute between two nodes hides the pattern",
        "fuse_epilogue": "a permute between two nodes hides the pattern",
        "simplify_views": "permutes that cancel each other have to go",
        "dead_code": "absorb_transpose wants one reader behind an attention, and what nothing reads counts as one",
        "absorb_transpose": "what is moved behind an attention becomes part of it",
    },
)
