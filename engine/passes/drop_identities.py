"""Drop ops with a constant that changes nothing: x * 1, x / 1, x - 0, x & true, x | false, where of one truth value.

Adding 0 is not among them: it changes -0 to 0.
"""

from __future__ import annotations

import numpy as np

from engine.graph import Graph, Node, Value
from engine.passes.base import Pass
from engine.sizes import same

# Op -> the constant that changes nothing, and whether it may stand on the left.
_NEUTRAL: dict[str, tuple[float | bool, bool]] = {
    "mul": (1, True),
    "div": (1, False),
    "sub": (0, False),
    "bitwise_and": (True, True),
    "bitwise_or": (False, True),
    "logical_and": (True, True),
    "logical_or": (False, True),
}


def _kept(node: Node) -> Value | None:
    """The operand that alone decides the result, or None."""
    if node.op.name == "where":
        chosen = node.operand("condition").data
        if chosen is None or not chosen.size or np.any(chosen != chosen.flat[0]):
            return None
        return node.operand("a" if chosen.flat[0] else "b")
    if node.op.name not in _NEUTRAL:
        return None
    neutral, either = _NEUTRAL[node.op.name]
    left, right = node.operand("a"), node.operand("b")
    for kept, other in ((left, right), (right, left)) if either else ((left, right),):
        data = other.data
        if data is None or kept.dtype != node.output.dtype:
            continue
        # For integers, `& true` would keep only the lowest bit; -0.0 subtracted is +0.0 added.
        if isinstance(neutral, bool) and other.dtype != "bool":
            continue
        if data.size and np.all(data == neutral) and not (neutral == 0 and np.any(np.signbit(data))):
            return kept
    return None


def run(graph: Graph) -> int:
    """Number of nodes dropped, or replaced by the broadcast that remains."""
    count = 0
    for node in graph.candidates():
        kept = _kept(node)
        if kept is None:
            continue
        if not same(kept.shape, node.output.shape):
            kept = graph.emit("expand", [kept], before=node, source=node.source, shape=node.output.shape)
        graph.replace(node.output, kept)
        graph.remove([node])
        count += 1
    return count


PASS = Pass(
    "drop_identities",
    run,
    after={
        "fold_constants": "it compares constants with 0 and 1",
    },
)
