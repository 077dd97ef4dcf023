"""Recognise RMSNorm written by hand, then make its scale part of it.

Models of bfloat16 and float16 compute the norm in float32 and round its result. The op does so by itself: it reads and
writes the narrow type and computes in float32. A scale behind the rounding becomes part of it, too, which leaves out
that rounding.
"""

from __future__ import annotations

from engine.graph import Graph, Value
from engine.passes.base import Pass
from engine.passes.pattern import Match, OneOf, Rule, Scalar, Var, apply, call
from engine.passes.widen import NARROW
from engine.sizes import same

_X = Var("x")
_SQUARE = OneOf((call("pow", _X, Scalar(value=2.0)), call("mul", _X, _X)))
_SHIFTED = call("add", call("mean", _SQUARE, keepdims=True, name="mean"), Scalar("epsilon"))
_NORM = OneOf(
    (
        call("mul", _X, call("rsqrt", _SHIFTED)),
        call("mul", _X, call("reciprocal", call("sqrt", _SHIFTED))),
        call("div", _X, call("sqrt", _SHIFTED)),
    )
)


def _trailing_axes(found: Match) -> bool:
    axes = found.calls["mean"].attributes["axes"]
    rank = len(found.values["x"].shape)
    return bool(axes) and axes == tuple(range(rank - len(axes), rank))


def _same_type(found: Match) -> bool:
    """An epsilon of a higher rank than x could add axes."""
    return same(found.values["x"].type, found.nodes[0].output.type)


def _norm(graph: Graph, found: Match) -> Value:
    root = found.nodes[0]
    return graph.emit(
        "rms_norm",
        {"x": found.values["x"]},
        before=root,
        source=root.source,
        axes=len(found.calls["mean"].attributes["axes"]),
        epsilon=found.scalar("epsilon"),
    )


def _is_round_trip(found: Match) -> bool:
    """From a narrow type to float32 and back to the same; nothing of the norm has the type float32."""
    x, norm = found.values["x"], found.calls["norm"]
    is_plain = norm["weight"] is None and norm["addend"] is None
    return is_plain and x.dtype in NARROW and found.nodes[0].output.dtype == x.dtype


def _norm_narrow(graph: Graph, found: Match) -> Value:
    return graph.emit_again(found.calls["norm"], {"x": found.values["x"]}, before=found.nodes[0])


def _weight_fits(found: Match) -> bool:
    """The slot is free and the constant has exactly the shape of what is normalised."""
    norm, other = found.calls["norm"], found.values["other"]
    shape = norm.output.shape[len(norm.output.shape) - norm.attributes["axes"] :]
    free = norm["weight"] is None and other.is_constant
    return free and other.shape == shape and other.dtype == norm.output.dtype


def _scale(graph: Graph, found: Match) -> Value:
    return graph.emit_again(found.calls["norm"], {"weight": found.values["other"]}, before=found.nodes[0])


_WIDENED = call("cast", _X, dtype="float32")

RULES = (
    Rule(_NORM, _norm, (_trailing_axes, _same_type)),
    Rule(call("cast", call("rms_norm", _WIDENED, name="norm")), _norm_narrow, (_is_round_trip,)),
    Rule(call("mul", call("rms_norm", _X, name="norm"), Var("other")), _scale, (_weight_fits,)),
)


def run(graph: Graph) -> int:
    """Number of nodes recognised or taken in."""
    return apply(graph, RULES)


PASS = Pass(
    "fuse_rms_norm",
    run,
    after={
        "fold_constants": "epsilon is a constant only then",
    },
    before={
        "fuse_embedding_norm": "it looks for norms as one node",
        "fuse_add_norm": "it looks for norms as one node",
    },
)
