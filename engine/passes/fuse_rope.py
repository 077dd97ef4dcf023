"""Recognise the rotary position embedding: x * cos + [-x2, x1] * sin, where x1 and x2 are the halves of x."""

from __future__ import annotations

from engine.graph import Graph, Node, Value
from engine.passes.base import Pass
from engine.passes.pattern import Match, Rule, Var, apply, call
from engine.sizes import same

_X = Var("x")
_TURNED = call("concat", call("neg", call("slice", _X, name="second")), call("slice", _X, name="first"), name="turned")
_PATTERN = call("add", call("mul", _X, Var("cos")), call("mul", _TURNED, Var("sin")))


def _is_half(node: Node, start: int, stop: int) -> bool:
    a = node.attributes
    return (a["axis"], a["start"], a["stop"], a["step"]) == (len(node.output.shape) - 1, start, stop, 1)


def _halves(found: Match) -> bool:
    """Of the last axis and nothing else: the second in front."""
    turned, width = found.calls["turned"], found.values["x"].shape[-1]
    return (
        len(turned.inputs) == 2
        and turned.attributes["axis"] == len(turned.output.shape) - 1
        and width % 2 == 0
        and _is_half(found.calls["first"], 0, width // 2)
        and _is_half(found.calls["second"], width // 2, width)
    )


def _angles_fit(found: Match) -> bool:
    """One angle for each column, and nothing that would widen x."""
    x = found.values["x"]
    angles = [found.values[name] for name in ("cos", "sin")]
    columns = all(v.dtype == x.dtype and v.shape[-1:] == x.shape[-1:] for v in angles)
    return columns and same(found.nodes[0].output.type, x.type)


def _rewrite(graph: Graph, found: Match) -> Value:
    root = found.nodes[0]
    inputs = {name: found.values[name] for name in ("x", "cos", "sin")}
    return graph.emit("rope", inputs, before=root, source=root.source)


RULES = (Rule(_PATTERN, _rewrite, (_halves, _angles_fit)),)


def run(graph: Graph) -> int:
    """Number of rotations recognised."""
    return apply(graph, RULES)


PASS = Pass(
    "fuse_rope",
    run,
    after={
        "fold_constants": "the cosines and sines of known positions are then constants",
    },
    before={
        "drop_identities": "at position 0 the cosines are all 1, and it would drop their product, part of the pattern",
    },
)
