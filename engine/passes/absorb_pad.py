"""Let convolutions and mean pooling pad with zeros themselves instead of a `pad` op, and drop padding that is not read.

If other nodes read the `pad`, it stays for them; the node that absorbs it reads the input of the `pad`. Models write
causal convolutions as a convolution that pads both ends and a `slice` that drops the outputs of the padding at the end.
"""

from __future__ import annotations

from typing import Any

from engine.graph import Graph, Node
from engine.passes.base import Pass
from engine.sizes import is_fixed


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


def _absorb_pad(graph: Graph, node: Node) -> bool:
    """Let `node` read what a `pad` in front reads, and pad itself. False where a window could lie in padding alone."""
    may = _READERS.get(node.op.name)
    pad = node.operand("x").node if may and may(node) else None
    if pad is None or pad.op.name != "pad" or not _zeros_around_places(pad):
        return False
    low = tuple(map(sum, zip(node.attributes["low"], pad.attributes["low"][2:], strict=True)))
    high = tuple(map(sum, zip(node.attributes["high"], pad.attributes["high"][2:], strict=True)))
    changed: dict[str, Any] = {"low": low, "high": high}
    if node.op.name == "avg_pool":
        kernel = node.attributes["kernel"]
        if any(n >= taps for n, taps in zip((*low, *high), kernel * 2, strict=True)):
            return False
        changed["count_padding"] = True
    graph.replace(node.output, graph.emit_again(node, {"x": pad.operand("x")}, **changed))
    graph.remove([node])
    return True


_READERS = {"conv": _may_pad, "avg_pool": _may_count}


def _absorb_slice(graph: Graph, node: Node) -> bool:
    """Let a convolution that nobody else reads pad less in place of `node`, which slices its places."""
    conv, a = node.operand("x").node, node.attributes
    if conv is None or conv.op.name != "conv" or conv.attributes["channels_last"] or conv["residual"] is not None:
        return False
    if a["axis"] < 2 or a["step"] != 1 or len(graph.users()[conv.output]) > 1 or conv.output in graph.outputs:
        return False
    how, axis = conv.attributes, a["axis"] - 2
    first, last = a["start"], conv.output.shape[a["axis"]] - a["stop"]
    if not is_fixed((first, last)):
        return False
    low, high = (how[end][axis] - places * how["stride"][axis] for end, places in (("low", first), ("high", last)))
    if low < 0 or high < 0:
        return False
    padding = {"low": low, "high": high}
    for end, amount in padding.items():
        padding[end] = (*how[end][:axis], amount, *how[end][axis + 1 :])
    new = graph.emit_again(conv, before=node, **padding)
    graph.replace(node.output, new)
    graph.remove([node, conv])
    return True


def run(graph: Graph) -> int:
    """Number of pads and slices absorbed."""
    count = sum(_absorb_slice(graph, node) for node in graph.candidates() if node.op.name == "slice")
    while absorbed := sum(_absorb_pad(graph, node) for node in graph.candidates()):  # a pad may read another one
        count += absorbed
    return count


PASS = Pass(
    "absorb_pad",
    run,
    before={
        "channels_last": "it would have to permute the pads, too",
    },
)
