"""Let attention read each key head once for a group of query heads, instead of a repeated copy for each query head."""

from __future__ import annotations

from engine.graph import Graph, Node, Value
from engine.passes.base import Pass
from engine.sizes import same


def _shared(value: Value) -> Value | None:
    """What the heads of `value` [..., G * n, T, D] repeat n times each, [..., G, T, D]; None where it is no repetition.

    Two spellings: reshape(expand(reshape(x))) with an axis behind the heads, and expand(x) of a single head.
    """
    node = value.node
    if node is None or len(value.shape) < 3:
        return None
    if node.op.name == "expand":
        one = node.operand("x")
        heads = len(value.shape) - 3
        alike = same(one.shape, (*value.shape[:heads], 1, *value.shape[heads + 1 :]))
        return one if alike else None
    return _repeated(node, value)


def _repeated(node: Node, value: Value) -> Value | None:
    expand = node.operand("x").node if node.op.name == "reshape" else None
    apart = expand.operand("x").node if expand is not None and expand.op.name == "expand" else None
    if expand is None or apart is None or apart.decodes or apart.op.name != "reshape":
        return None
    x, (*batch, heads, rows, width) = apart.operand("x"), value.shape
    if len(x.shape) != len(value.shape):
        return None
    groups, wide = x.shape[-3], expand.output.shape
    fits = (
        same(x.shape, (*batch, groups, rows, width))
        and same(apart.output.shape, (*batch, groups, 1, rows, width))
        and same((*wide[:-3], *wide[-2:]), (*batch, groups, rows, width))
        and groups * wide[-3] == heads
    )
    return x if fits else None


def run(graph: Graph) -> int:
    """Number of attentions that share heads now."""
    count = 0
    for node in graph.candidates():
        if node.op.name != "attention":
            continue
        key, value = _shared(node.operand("key")), _shared(node.operand("value"))
        if key is not None and value is not None and same(key.shape[-3], value.shape[-3]):
            graph.replace(node.output, graph.emit_again(node, {"key": key, "value": value}))
            graph.remove([node])
            count += 1
    return count


PASS = Pass("absorb_groups", run)
