"""Recognise LayerNorm written by hand, then make its scale and shift part of it."""

from __future__ import annotations

from engine.graph import Graph, Value
from engine.passes.base import Pass
from engine.passes.pattern import Match, OneOf, Pattern, Rule, Scalar, Var, apply, call

_X = Var("x")
_CENTRED = call("sub", _X, call("mean", _X, keepdims=True, name="mean"), name="centred")
_SQUARE = OneOf((call("pow", _CENTRED, Scalar(value=2.0)), call("mul", _CENTRED, _CENTRED)))
_VARIANCE = OneOf(
    (
        call("mean", _SQUARE, keepdims=True, name="variance"),
        call("var", _X, keepdims=True, correction=0.0, name="variance"),
    )
)
_SHIFTED = call("add", _VARIANCE, Scalar("epsilon"))
_NORM = OneOf(
    (
        call("div", _CENTRED, call("sqrt", _SHIFTED)),
        call("mul", _CENTRED, call("rsqrt", _SHIFTED)),
        call("mul", _CENTRED, call("reciprocal", call("sqrt", _SHIFTED))),
    )
)


def _trailing_axes(found: Match) -> bool:
    """Mean and variance over the same trailing axes of x."""
    axes = found.calls["mean"].attributes["axes"]
    rank = len(found.values["x"].shape)
    trailing = axes == tuple(range(rank - len(axes), rank))
    return bool(axes) and trailing and axes == found.calls["variance"].attributes["axes"]


def _norm(graph: Graph, found: Match) -> Value:
    root = found.nodes[0]
    return graph.emit(
        "layer_norm",
        {"x": found.values["x"]},
        before=root,
        source=root.source,
        axes=len(found.calls["mean"].attributes["axes"]),
        epsilon=found.scalar("epsilon"),
    )


def _affine(op: str, name: str) -> Rule:
    """layer_norm * weight, or layer_norm + bias, where the slot is free and the other has exactly its shape."""
    pattern: Pattern = call(op, call("layer_norm", _X, name="norm"), Var("other"))

    def fits(found: Match) -> bool:
        norm, other = found.calls["norm"], found.values["other"]
        shape = norm.output.shape[len(norm.output.shape) - norm.attributes["axes"] :]
        # A weight after a bias would scale the bias too.
        free = norm[name] is None and norm["bias"] is None
        return free and other.shape == shape and other.dtype == norm.output.dtype and other.is_constant

    def rewrite(graph: Graph, found: Match) -> Value:
        return graph.emit_again(found.calls["norm"], {name: found.values["other"]}, before=found.nodes[0])

    return Rule(pattern, rewrite, (fits,))


RULES = (Rule(_NORM, _norm, (_trailing_axes,)), _affine("mul", "weight"), _affine("add", "bias"))


def run(graph: Graph) -> int:
    """Number of nodes recognised or taken in."""
    return apply(graph, RULES)


PASS = Pass(
    "fuse_layer_norm",
    run,
    after={
        "fold_constants": "epsilon and the number of columns are constants only then",
    },
    before={
        "fuse_embedding_norm": "it looks for norms as one node",
        "fuse_add_norm": "it looks for norms as one node",
    },
)
