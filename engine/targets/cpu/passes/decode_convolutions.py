"""Decode the weights of convolutions that no fast kernel reads encoded: their kernels of floats then run them.

Decoded elements equal the encoded values, rounded once to float32. A file keeps the weight encoded. Convolutions read
each element many times, so a smaller weight would save little time. A convolution in bfloat16 rounds its other factor,
too; where no kernel does that, a pair of casts rounds it.
"""

from __future__ import annotations

from engine.encodings import BFLOAT16
from engine.graph import Graph, Node, Value
from engine.passes import precision
from engine.passes.base import Pass


def _has_kernel(node: Node) -> bool:
    """True if a fast kernel reads the encoded weight of `node` (bd16_bf16w in csrc/kernels.inc)."""
    a = node.attributes
    in_bfloat16 = a["compute"] == "bfloat16" and node.operand("weight").type.encoding == BFLOAT16
    return in_bfloat16 and a["groups"] == 1 and a["channels_last"]


def _is_decodable(node: Node) -> bool:
    """True if the kernels of floats compute the same from the elements of the weight."""
    weight, compute = node.operand("weight"), node.attributes["compute"]
    if node.operand("x").dtype != "float32" or weight.type.encoding is None:
        return False
    return compute == "element" or (compute == "bfloat16" and weight.type.encoding == BFLOAT16)


def _rounded(graph: Graph, x: Value, node: Node) -> Value:
    """The elements of `x` rounded to bfloat16, as float32."""
    narrow = graph.emit("cast", [x], before=node, source=node.source, dtype="bfloat16")
    return graph.emit("cast", [narrow], before=node, source=node.source, dtype="float32")


def run(graph: Graph) -> int:
    """Number of convolutions whose weight was decoded."""
    decoded: dict[Value, Value] = {}
    convolutions = [node for node in graph.candidates() if node.op.name == "conv"]
    nodes = [node for node in convolutions if _is_decodable(node) and not _has_kernel(node)]
    for node in nodes:
        weight, x = precision.decode(graph, node.operand("weight"), decoded), node.operand("x")
        if node.attributes["compute"] == "bfloat16":
            x = _rounded(graph, x, node)
        new = graph.emit_again(node, {"x": x, "weight": weight}, compute="element")
        graph.replace(node.output, new)
    graph.remove(nodes)
    return len(nodes)


PASS = Pass(
    "decode_convolutions",
    run,
    after={"channels_last": "a 1 x 1 convolution has then become a linear, which has kernels for encoded weights"},
    before={"fuse_expand_depthwise": "it takes plain weights"},
    target="cpu",
)
