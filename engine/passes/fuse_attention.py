"""Rewrite softmax(Q K^T * scale + mask) V into one attention node that never stores the scores.

Expects the result of earlier passes: transposes and scalars are part of matmul, and softmax is one node.
"""

from __future__ import annotations

import math

import numpy as np

from engine.graph import Graph, Value
from engine.passes.base import Pass
from engine.passes.pattern import Match, OneOf, Rule, Scalar, Var, apply, call
from engine.sizes import same

_SCORES = call("matmul", Var("query"), Var("key"), transpose_a=False, compute="element", name="scores")
_MASKED = OneOf(
    (
        _SCORES,
        call("add", _SCORES, Var("mask"), name="added"),
        call("where", Var("keep"), _SCORES, Scalar("fill"), name="where"),
        call("where", Var("drop"), Scalar("fill"), _SCORES, name="where"),
    )
)
_PATTERN = call(
    "matmul",
    call("softmax", _MASKED, name="softmax"),
    Var("value"),
    transpose_a=False,
    transpose_b=False,
    compute="element",
)


def _over_keys(found: Match) -> bool:
    node = found.calls["softmax"]
    return bool(node.attributes["axis"] == len(node.output.shape) - 1)


def _same_batch(found: Match) -> bool:
    """One head axis at least, and no broadcasting between query, key and value."""
    query, key, value = (found.values[n].shape for n in ("query", "key", "value"))
    return len(query) >= 3 and query[:-2] == key[:-2] == value[:-2]


def _is_not_encoded(found: Match) -> bool:
    """`matmul` reads encoded constants, `attention` does not."""
    return all(found.values[name].type.encoding is None for name in ("key", "value"))


def _plain_product(found: Match) -> bool:
    return bool(found.nodes[0].attributes["alpha"] == 1.0)


def _mask_fits(found: Match) -> bool:
    """The mask must not widen the scores; a filled score must be -inf, or softmax would still weigh it."""
    scores = found.calls["scores"].output
    if "added" in found.calls:
        mask = found.values["mask"]
        return same(found.calls["added"].output.type, scores.type) and mask.dtype == scores.dtype
    if "where" in found.calls:
        return found.scalar("fill") == -math.inf and same(found.calls["where"].output.type, scores.type)
    return True


def _mask(graph: Graph, found: Match) -> Value | None:
    root = found.nodes[0]
    if "drop" in found.values:
        drop = found.values["drop"]
        if (dropped := drop.data) is not None:
            return graph.constant(np.logical_not(dropped), drop.name)
        return graph.emit("logical_not", [drop], before=root, source=root.source)
    return found.values.get("mask") or found.values.get("keep")


def _rewrite(graph: Graph, found: Match) -> Value:
    root, scores = found.nodes[0], found.calls["scores"]
    key = found.values["key"]
    if not scores.attributes["transpose_b"]:
        rank = len(key.shape)
        order = (*range(rank - 2), rank - 1, rank - 2)
        key = graph.emit("permute", [key], before=root, source=scores.source, axes_order=order)
    return graph.emit(
        "attention",
        {"query": found.values["query"], "key": key, "value": found.values["value"], "mask": _mask(graph, found)},
        before=root,
        source=root.source,
        scale=scores.attributes["alpha"],
        causal=False,
        masked_rows="nan",
    )


RULES = (Rule(_PATTERN, _rewrite, (_over_keys, _same_batch, _is_not_encoded, _plain_product, _mask_fits)),)


def run(graph: Graph) -> int:
    """Number of attentions fused."""
    return apply(graph, RULES)


PASS = Pass(
    "fuse_attention",
    run,
    after={
        "absorb_transpose": "the pattern then has one spelling of transposed keys",
        "absorb_scalar": "the pattern then has one spelling of the scale",
    },
    before={
        "absorb_groups": "it looks for attention",
        "absorb_mask": "it looks for attention",
    },
)
