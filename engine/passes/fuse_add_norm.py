"""Let layer_norm and rms_norm add a residual themselves: the sum is neither written to memory nor read again.

Only for values of one type and shape: a norm reads its addend row by row beside x.
"""

from __future__ import annotations

from engine.graph import Graph, Value
from engine.passes.base import Pass
from engine.passes.pattern import Match, Rule, Var, apply, call
from engine.sizes import same

# Norm and the position of its addend, the last of its inputs.
NORMS: tuple[tuple[str, int], ...] = (("layer_norm", 3), ("rms_norm", 2))


def _rule(op: str, position: int) -> Rule:
    def fits(found: Match) -> bool:
        """The slot is free, and nothing is broadcast."""
        norm, x, other = found.calls["norm"], found.values["x"], found.values["other"]
        return norm.inputs[position] is None and same(x.type, other.type) and same(x.type, norm.output.type)

    def rewrite(graph: Graph, found: Match) -> Value:
        norm = found.calls["norm"]
        inputs = [found.values["x"], *norm.inputs[1:position], found.values["other"]]
        return graph.emit(op, inputs, before=norm, source=norm.source, **norm.attributes)

    return Rule(call(op, call("add", Var("x"), Var("other")), name="norm"), rewrite, (fits,))


RULES = tuple(_rule(op, position) for op, position in NORMS)


def run(graph: Graph) -> int:
    """Number of residuals taken in."""
    return apply(graph, RULES)


PASS = Pass("fuse_add_norm", run)
