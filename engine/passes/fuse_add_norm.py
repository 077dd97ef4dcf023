"""Let layer_norm and rms_norm add a residual themselves: the sum is neither written to memory nor read again.

Only for values of one type and shape: a norm reads its addend row by row beside x.
"""

from __future__ import annotations

from engine.graph import Graph, Value
from engine.passes.base import Pass
from engine.passes.pattern import Match, Rule, Var, apply, call
from engine.sizes import same

NORMS = ("layer_norm", "rms_norm")


def _fits(found: Match) -> bool:
    """The norm has no addend yet, and nothing is broadcast."""
    norm, x, other = found.calls["norm"], found.values["x"], found.values["other"]
    return norm["addend"] is None and same(x.type, other.type) and same(x.type, norm.output.type)


def _rewrite(graph: Graph, found: Match) -> Value:
    return graph.emit_again(found.calls["norm"], {"x": found.values["x"], "addend": found.values["other"]})


RULES = tuple(Rule(call(op, call("add", Var("x"), Var("other")), name="norm"), _rewrite, (_fits,)) for op in NORMS)


def run(graph: Graph) -> int:
    """Number of residuals taken in."""
    return apply(graph, RULES)


PASS = Pass("fuse_add_norm", run)
