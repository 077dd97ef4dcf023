"""Turn a matmul by a constant matrix into linear, whose weights are packed when the program is loaded."""

from __future__ import annotations

from engine.ir import Graph, Value
from engine.passes.pattern import Match, Rule, Var, apply, call


def _constant_matrix(found: Match) -> bool:
    weight = found.values["weight"]
    return weight.is_constant and len(weight.shape) == 2


def _rewrite(graph: Graph, found: Match) -> Value:
    root = found.nodes[0]
    return graph.emit(
        "linear",
        [found.values["x"], found.values["weight"], None, None],
        before=root,
        source=root.source,
        transpose_weight=root.attributes["transpose_b"],
        alpha=root.attributes["alpha"],
    )


RULES = (Rule(call("matmul", Var("x"), Var("weight"), transpose_a=False), _rewrite, (_constant_matrix,)),)


def run(graph: Graph) -> int:
    """Number of matmuls turned."""
    return apply(graph, RULES)
