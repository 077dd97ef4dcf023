"""Replace a constant attention mask by what it says: nothing, or causal."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from engine.ir import Graph, Node, Value


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
    rows, keys = node.input(0).shape[-2], node.input(1).shape[-2]
    everything = bool(allowed.all())
    triangle = allowed.shape[-2:] == (rows, keys) and bool((allowed == np.tri(rows, keys, dtype=bool)).all())
    if not everything and not triangle:
        return None
    causal = node.attributes["causal"] or (triangle and not everything)
    inputs = [*node.inputs[:3], None]
    return graph.emit("attention", inputs, before=node, source=node.source, **(node.attributes | {"causal": causal}))


def run(graph: Graph) -> int:
    """Number of masks replaced."""
    count = 0
    for node in list(graph.nodes):
        mask = node.inputs[3] if node.op.name == "attention" else None
        if mask is None or not mask.is_constant or mask.type.size == 0:
            continue
        new = _without(graph, node, mask)
        if new is not None:
            graph.replace(node.output, new)
            graph.remove([node])
            count += 1
    return count
