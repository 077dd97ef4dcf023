"""Replace constant attention masks by no mask or a causal flag, and the added mask of a cache by a bool mask.

torch adds a bool mask as 0 and -inf, so a masked NaN stays NaN. Cache slots past the current length hold stale values;
with a bool mask, kernels do not read them.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from engine.graph import Graph, Node, Value
from engine.passes.base import Pass


def _allowed(mask: np.ndarray) -> np.ndarray | None:
    """Which keys take part, where the mask says nothing but that; None where it also weighs them.

    The lowest finite number is what many models write for -inf. Added to a score it leaves a weight of exactly 0 beside
    any key that takes part, and each row of the masks that are replaced has one.
    """
    if mask.dtype == np.bool_:
        return mask
    keep = mask == 0
    lowest = ml_dtypes.finfo(mask.dtype).min
    return keep if bool(np.all(keep | (mask == -np.inf) | (mask == lowest))) else None


def _without(graph: Graph, node: Node, mask: Value) -> Value | None:
    allowed = _allowed(mask.elements)
    if allowed is None:
        return None
    rows, keys = node.operand("query").shape[-2], node.operand("key").shape[-2]
    everything = bool(allowed.all())
    triangle = allowed.shape[-2:] == (rows, keys) and bool((allowed == np.tri(rows, keys, dtype=bool)).all())
    if not everything and not triangle:
        return None
    causal = node.attributes["causal"] or (triangle and not everything)
    return graph.emit_again(node, {"mask": None}, causal=causal)


def _of_state(graph: Graph, value: Value) -> bool:
    """Whether `value` is a state of the graph, with some of its elements written anew or not."""
    while value.node is not None and (value.node.op.view is not None or value.node.op.name in _WRITES):
        value = value.node.operand("x")
    return value in graph.state_inputs


_WRITES = frozenset({"index_put", "scatter"})


def _kept(mask: Value) -> Value | None:
    """Which keys take part in ``where(kept, 0, -inf)``; None for other masks."""
    node = mask.node
    if node is None or node.op.name != "where":
        return None
    kept, zero, fill = (node.operand(name) for name in ("condition", "a", "b"))
    return kept if zero.scalar == 0 and fill.scalar == -math.inf and kept.shape == mask.shape else None


def _of_bools(graph: Graph, node: Node, mask: Value) -> Value | None:
    kept = _kept(mask)
    if kept is None or not (_of_state(graph, node.operand("key")) and _of_state(graph, node.operand("value"))):
        return None
    return graph.emit_again(node, {"mask": kept})


def run(graph: Graph) -> int:
    """Number of masks replaced."""
    count = 0
    for node in graph.candidates():
        mask = node["mask"] if node.op.name == "attention" else None
        if mask is None or mask.type.size == 0:
            continue
        new = _without(graph, node, mask) if mask.is_plain else _of_bools(graph, node, mask)
        if new is not None:
            graph.replace(node.output, new)
            graph.remove([node])
            count += 1
    return count


PASS = Pass(
    "absorb_mask",
    run,
    after={
        "fold_constants": "it reads the elements of masks that are constants",
    },
)
