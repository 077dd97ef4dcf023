"""Compute nodes whose inputs are all constants.

A view of a constant, of any size, becomes a form of the constant (`engine.graph.forms`) and its elements are not read:
nothing large is copied, and two graphs of one model have the same constant. Elements of small constants are read
several times by later passes; a view of them costs no more than an array, because it is computed without a copy.

A view of an encoded constant becomes an encoded constant if the encoding allows the view, the view is not an output,
and all readers accept encoded constants and compute the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from engine import sizes
from engine.graph import VIEWS, Graph, Node, Value
from engine.passes.base import Pass

# Folding `dequantize` would store floats in place of integers; folding `quantize` would discard the float constant.
# Removing a pair would drop a rounding that the user has chosen.
KEPT = frozenset({"quantize", "dequantize"})
# A folded value may be larger than what it is made of (an expanded mask, say). Past this it stays a node.
LARGEST_GROWTH_BYTES = 4 << 20


def run(graph: Graph) -> int:
    """Number of nodes folded."""
    folded: list[Node] = []
    new: dict[Value, Value] = {}
    users = graph.users()
    for node in graph.candidates():
        inputs = [v if v is None else new.get(v, v) for v in node.inputs]
        if not all(v is None or v.is_constant for v in inputs) or _varies(node):
            continue
        made = _view(graph, node, inputs, users.get(node.outputs[0], []), new)
        made = made or _computed(graph, node, inputs)
        if made:
            new |= zip(node.outputs, made, strict=True)
            folded.append(node)
    graph.remove(folded)
    graph.replace_all(new)
    return len(folded)


def will_fold(node: Node, folded: Collection[Value]) -> bool:
    """True if the pass computes `node`, of a graph in which it also computes the values `folded`."""
    if not all(v is None or v.is_constant or v in folded for v in node.inputs) or _varies(node):
        return False
    return node.op.name in VIEWS or not (node.op.name in KEPT or _grows(node))


def _view(
    graph: Graph, node: Node, inputs: list[Value | None], readers: list[Node], new: Mapping[Value, Value]
) -> list[Value]:
    """The result as a form of the input; empty if the node is no such view."""
    x = inputs[0] if inputs else None
    if x is None or node.op.name not in VIEWS:
        return []
    made = VIEWS[node.op.name](graph, x, node.attributes)
    if made is None or (made.type.encoding is not None and not _is_read_alike(graph, node.output, made, readers, new)):
        return []
    return [made]


def _is_read_alike(graph: Graph, value: Value, made: Value, readers: list[Node], new: Mapping[Value, Value]) -> bool:
    """True if all readers of `value` can read the encoded constant `made` instead, and so compute the same."""
    if value in graph.outputs:
        return False
    for node in readers:
        operands = [made if v is value else v if v is None else new.get(v, v) for v in node.inputs]
        try:
            node.op.infer_types([None if v is None else v.type for v in operands], node.attributes)
        except ValueError:
            return False
    return True


def _computed(graph: Graph, node: Node, inputs: list[Value | None]) -> list[Value]:
    """The results as arrays; empty if the node is better left as it is."""
    if node.op.name in KEPT or not all(v is None or v.is_plain for v in inputs) or _grows(node):
        return []
    arrays = [None if v is None else v.elements for v in inputs]
    try:
        result = node.op.reference(*arrays, **node.attributes)
    except (IndexError, ZeroDivisionError):
        # Wrong at every call: left for the call to report, with its source line.
        return []
    results = result if isinstance(result, tuple) else (result,)
    return [
        graph.constant(
            np.ascontiguousarray(array).reshape(value.shape), value.name, [v for v in inputs if v is not None]
        )
        for value, array in zip(node.outputs, results, strict=True)
    ]


def _varies(node: Node) -> bool:
    """True where the result depends on the sizes of a call."""
    return not sizes.is_fixed([*node.attributes.values(), *(v.shape for v in node.outputs)])


def _grows(node: Node) -> bool:
    made = sum(v.type.nbytes for v in node.outputs)
    read = sum(v.type.nbytes for v in node.inputs if v is not None)
    return made > read + LARGEST_GROWTH_BYTES


PASS = Pass("fold_constants", run)
