"""Rewrite a matmul by a constant matrix into linear, whose weights are packed when the program is loaded.

So are products with transposes: x^T @ W permutes x first, and W @ x^T is the transpose of x @ W^T.
"""

from __future__ import annotations

from engine import sizes
from engine.graph import Graph, Node, Value, can_reshape
from engine.passes.base import Pass
from engine.passes.pattern import Match, Rule, Var, apply, call


def _constant_matrix(found: Match) -> bool:
    """True if the weight is a constant matrix, or a batch of one (torch.einsum) that adds no axes to the result."""
    x, weight = found.values["x"], found.values["weight"]
    rank = len(weight.shape)
    is_matrix = rank == 2 or (2 < rank <= len(x.shape) and all(sizes.same(size, 1) for size in weight.shape[:-2]))
    return weight.is_constant and is_matrix and (rank == 2 or can_reshape(weight.type, weight.shape[-2:]))


def _matrix(graph: Graph, weight: Value) -> Value:
    return weight if len(weight.shape) == 2 else graph.reshaped(weight, weight.shape[-2:])


def _swap(graph: Graph, x: Value, root: Node) -> Value:
    """`x` with its last two axes exchanged."""
    rank = len(x.shape)
    order = (*range(rank - 2), rank - 1, rank - 2)
    return graph.emit("permute", [x], before=root, source=root.source, axes_order=order)


def _rewrite(graph: Graph, found: Match) -> Value:
    root, x = found.nodes[0], found.values["x"]
    if root.attributes["transpose_a"]:
        x = _swap(graph, x, root)
    return graph.emit(
        "linear",
        {"x": x, "weight": _matrix(graph, found.values["weight"])},
        before=root,
        source=root.source,
        transpose_weight=root.attributes["transpose_b"],
        alpha=root.attributes["alpha"],
    )


def _from_left(graph: Graph, found: Match) -> Value:
    root = found.nodes[0]
    product = graph.emit(
        "linear",
        {"x": found.values["x"], "weight": _matrix(graph, found.values["weight"])},
        before=root,
        source=root.source,
        transpose_weight=not root.attributes["transpose_a"],
        alpha=root.attributes["alpha"],
    )
    return _swap(graph, product, root)


RULES = (
    Rule(call("matmul", Var("x"), Var("weight"), compute="element"), _rewrite, (_constant_matrix,)),
    Rule(call("matmul", Var("weight"), Var("x"), transpose_b=True, compute="element"), _from_left, (_constant_matrix,)),
)


def run(graph: Graph) -> int:
    """Number of matmuls rewritten."""
    return apply(graph, RULES)


PASS = Pass(
    "use_linear",
    run,
    before={
        "move_reshape": "it looks for linear",
        "move_permute": "it looks for linear",
        "fuse_gated_linear": "it looks for linear",
        "merge_linear": "it looks for linear",
        "fuse_epilogue": "it looks for linear",
    },
)
