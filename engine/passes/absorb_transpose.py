"""Let matmul, linear and attention read or write transposed operands in place of separate transposes."""

from __future__ import annotations

from engine.graph import Graph, Node, Value
from engine.passes.base import Pass


def _swaps_last_two(order: tuple[int, ...]) -> bool:
    rank = len(order)
    return rank >= 2 and order == (*range(rank - 2), rank - 1, rank - 2)


def _swaps_sequence_and_heads(order: tuple[int, ...]) -> bool:
    rank = len(order)
    return rank >= 3 and order == (*range(rank - 3), rank - 2, rank - 3, rank - 1)


def _transposed(value: Value | None) -> Value | None:
    """What `value` is the transpose (of the last two axes) of, or None."""
    node = None if value is None else value.node
    if node is not None and node.op.name == "permute" and _swaps_last_two(node.attributes["axes_order"]):
        return node.input(0)
    return None


def _matmul(node: Node) -> int:
    count = 0
    for position, flag in enumerate(("transpose_a", "transpose_b")):
        source = _transposed(node.inputs[position])
        if source is not None:
            node.inputs[position] = source
            node.attributes[flag] = not node.attributes[flag]
            count += 1
    return count


def _linear(node: Node) -> int:
    source = _transposed(node.inputs[1])
    if source is None:
        return 0
    node.inputs[1] = source
    node.attributes["transpose_weight"] = not node.attributes["transpose_weight"]
    return 1


_READERS = {"matmul": _matmul, "linear": _linear}


def run(graph: Graph) -> int:
    """Number of transposes absorbed."""
    read = sum(_READERS[node.op.name](node) for node in graph.nodes if node.op.name in _READERS)
    return read + _attention_outputs(graph)


def _attention_outputs(graph: Graph) -> int:
    """permute(attention) where nothing else reads the attention: let it write in that order."""
    count = 0
    users = graph.users()
    for node in list(graph.nodes):
        if node.op.name != "permute" or not _swaps_sequence_and_heads(node.attributes["axes_order"]):
            continue
        source = node.input(0)
        maker = source.node
        if maker is None or maker.op.name != "attention" or maker.attributes["transpose_output"]:
            continue
        if len(users[source]) > 1 or source in graph.outputs:
            continue
        new = graph.emit(
            "attention",
            maker.inputs,
            before=maker,
            source=maker.source,
            **(maker.attributes | {"transpose_output": True}),
        )
        graph.replace(node.output, new)
        graph.remove([maker, node])
        count += 1
    return count


PASS = Pass("absorb_transpose", run)
