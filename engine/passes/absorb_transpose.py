"""Let matmul, linear and attention read or write transposed operands in place of separate transposes.

The transpose of a constant is a constant (`fold_constants`). It is absorbed, too: a table that a model reads both as
rows and, transposed, as the weight of a product is then stored once.
"""

from __future__ import annotations

from typing import Any

from engine.graph import Graph, Node, Value
from engine.passes.base import Pass


def _swaps_last_two(order: tuple[int, ...]) -> bool:
    rank = len(order)
    return rank >= 2 and order == (*range(rank - 2), rank - 1, rank - 2)


def _swaps_sequence_and_heads(order: tuple[int, ...]) -> bool:
    rank = len(order)
    return rank >= 3 and order == (*range(rank - 3), rank - 2, rank - 3, rank - 1)


def _transposed(graph: Graph, value: Value | None) -> Value | None:
    """What `value` is the transpose (of the last two axes) of, or None."""
    if value is None:
        return None
    node = value.node
    if node is None:
        order = value.axes_order
        return graph.permuted(value, order) if order is not None and _swaps_last_two(order) else None
    swaps = node.op.name == "permute" and not node.decodes and _swaps_last_two(node.attributes["axes_order"])
    return node.operand("x") if swaps else None


# Op -> the operands that it can read transposed, each with the attribute that says so.
_FLAGS = {"matmul": {"a": "transpose_a", "b": "transpose_b"}, "linear": {"weight": "transpose_weight"}}


def _absorb(graph: Graph, node: Node) -> int:
    """Let `node` read what its transposed operands are transposes of; how many there were."""
    flags = _FLAGS.get(node.op.name, {})
    sources = {name: source for name in flags if (source := _transposed(graph, node[name])) is not None}
    if sources:
        flipped: dict[str, Any] = {flags[name]: not node.attributes[flags[name]] for name in sources}
        graph.replace(node.output, graph.emit_again(node, sources, **flipped))
        graph.remove([node])
    return len(sources)


def run(graph: Graph) -> int:
    """Number of transposes absorbed."""
    return sum(_absorb(graph, node) for node in graph.candidates()) + _attention_outputs(graph)


def _attention_outputs(graph: Graph) -> int:
    """permute(attention) where nothing else reads the attention: let it write in that order."""
    count = 0
    users = graph.users()
    for node in graph.candidates():
        if node.op.name != "permute" or not _swaps_sequence_and_heads(node.attributes["axes_order"]):
            continue
        source = node.operand("x")
        maker = source.node
        if maker is None or maker.op.name != "attention" or maker.attributes["transpose_output"]:
            continue
        if len(users[source]) > 1 or source in graph.outputs:
            continue
        new = graph.emit_again(maker, transpose_output=True)
        graph.replace(node.output, new)
        graph.remove([maker, node])
        count += 1
    return count


PASS = Pass(
    "absorb_transpose",
    run,
    after={
        "fold_constants": "transposes of constants are constants only then",
    },
)
