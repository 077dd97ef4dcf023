"""Let convolutions and mean pooling pad with zeros themselves in place of a `pad` in front.

A `pad` that others read too stays for them: who absorbs it reads what is beneath.
"""

from __future__ import annotations

from engine.ir import Graph, Node


def _zeros_around_places(node: Node) -> bool:
    """A `pad` [N, C, *S] that adds zeros, and those along spatial axes alone."""
    a = node.attributes
    return bool(a["mode"] == "constant" and a["value"] == 0 and not any((*a["low"][:2], *a["high"][:2])))


def _may_pad(node: Node) -> bool:
    return not node.attributes["channels_last"]


def _may_count(node: Node) -> bool:
    """Means over windows of which every element counts, and none begins past the end of what there is."""
    a = node.attributes
    counts = a["count_padding"] or a["divisor"] or not any((*a["low"], *a["high"]))
    return bool(_may_pad(node) and counts and not a["ceil_mode"])


def _absorb(node: Node, pad: Node) -> bool:
    """Let `node` read what `pad` reads, and pad itself. False where its windows could lie in the padding alone."""
    low = tuple(map(sum, zip(node.attributes["low"], pad.attributes["low"][2:], strict=True)))
    high = tuple(map(sum, zip(node.attributes["high"], pad.attributes["high"][2:], strict=True)))
    if node.op.name == "avg_pool":
        kernel = node.attributes["kernel"]
        if any(n >= taps for n, taps in zip((*low, *high), kernel * 2, strict=True)):
            return False
        node.attributes["count_padding"] = True
    node.attributes |= {"low": low, "high": high}
    node.inputs[0] = pad.input(0)
    return True


_READERS = {"conv": _may_pad, "avg_pool": _may_count}


def run(graph: Graph) -> int:
    """Number of pads absorbed."""
    count = 0
    for node in graph.nodes:
        may = _READERS.get(node.op.name)
        while may and may(node):
            pad = node.input(0).node
            if pad is None or pad.op.name != "pad" or not _zeros_around_places(pad) or not _absorb(node, pad):
                break
            count += 1
    return count
