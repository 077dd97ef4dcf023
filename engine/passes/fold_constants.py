"""Compute nodes whose inputs are all constants."""

from __future__ import annotations

import numpy as np

from engine import sizes
from engine.graph import Graph, Node, Value
from engine.passes.base import Pass

# A folded value may be larger than what it is made of (an expanded mask, say). Past this it stays an instruction.
LARGEST_GROWTH_BYTES = 4 << 20


def run(graph: Graph) -> int:
    """Number of nodes folded."""
    folded: list[Node] = []
    new: dict[Value, Value] = {}
    for node in graph.nodes:
        inputs = [v if v is None else new.get(v, v) for v in node.inputs]
        if not all(v is None or v.is_plain for v in inputs) or _varies(node) or _grows(node):
            continue
        arrays = [None if v is None else v.elements for v in inputs]
        try:
            result = node.op.reference(*arrays, **node.attributes)
        except (IndexError, ZeroDivisionError):
            # Wrong at every call: left for the call to report, with its source line.
            continue
        results = result if isinstance(result, tuple) else (result,)
        for value, array in zip(node.outputs, results, strict=True):
            new[value] = graph.constant(np.ascontiguousarray(array).reshape(value.shape), value.name)
        folded.append(node)
    graph.remove(folded)
    graph.replace_all(new)
    return len(folded)


def _varies(node: Node) -> bool:
    """True where the result depends on the sizes of a call."""
    return not sizes.is_fixed([*node.attributes.values(), *(v.shape for v in node.outputs)])


def _grows(node: Node) -> bool:
    made = sum(v.type.nbytes for v in node.outputs)
    read = sum(v.type.nbytes for v in node.inputs if v is not None)
    return made > read + LARGEST_GROWTH_BYTES


PASS = Pass("fold_constants", run)
