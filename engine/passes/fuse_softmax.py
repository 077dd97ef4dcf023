"""Recognise softmax written by hand: exp(x - max) / sum(exp(x - max)).

Without the subtraction the results differ where exp overflows, so that form is not rewritten.
"""

from __future__ import annotations

from engine.graph import Graph, Value
from engine.passes.base import Pass
from engine.passes.pattern import Match, Rule, Var, apply, call

_EXP = call("exp", call("sub", Var("x"), call("amax", Var("x"), keepdims=True, name="max")), name="exp")
_PATTERN = call("div", _EXP, call("sum", _EXP, keepdims=True, name="sum"))


def _one_axis(found: Match) -> bool:
    """Both reductions over the same single axis."""
    axes = found.calls["max"].attributes["axes"]
    return len(axes) == 1 and axes == found.calls["sum"].attributes["axes"]


def _rewrite(graph: Graph, found: Match) -> Value:
    root = found.nodes[0]
    (axis,) = found.calls["max"].attributes["axes"]
    return graph.emit("softmax", [found.values["x"]], before=root, source=root.source, axis=axis)


RULES = (Rule(_PATTERN, _rewrite, (_one_axis,)),)


def run(graph: Graph) -> int:
    """Number of softmaxes recognised."""
    return apply(graph, RULES)


PASS = Pass(
    "fuse_softmax",
    run,
    before={
        "fuse_attention": "its pattern contains softmax as one node",
    },
)
