"""Recognise GELU written by hand, in its erf form and in its tanh form."""

from __future__ import annotations

import math

from engine.graph import Graph, Value
from engine.passes.base import Pass
from engine.passes.pattern import Match, OneOf, Pattern, Rule, Scalar, Var, apply, call
from engine.sizes import same

_X = Var("x")
_HALF, _ONE = Scalar(value=0.5), Scalar(value=1.0)

_ERF = call(
    "erf",
    OneOf(
        (
            call("mul", _X, Scalar(value=1 / math.sqrt(2))),
            call("div", _X, Scalar(value=math.sqrt(2))),
        )
    ),
)
_CUBE = OneOf((call("pow", _X, Scalar(value=3.0)), call("mul", call("mul", _X, _X), _X)))
_TANH = call(
    "tanh",
    call("mul", call("add", _X, call("mul", _CUBE, Scalar(value=0.044715))), Scalar(value=math.sqrt(2 / math.pi))),
)


def _spellings(inner: Pattern) -> Pattern:
    """0.5 * x * (1 + inner), whichever product is taken first."""
    gate = call("add", inner, _ONE)
    return OneOf(
        (
            call("mul", call("mul", _X, _HALF), gate),
            call("mul", call("mul", _X, gate), _HALF),
            call("mul", call("mul", gate, _HALF), _X),
        )
    )


def _rewriter(approximate: str) -> Rule:
    def rewrite(graph: Graph, found: Match) -> Value:
        root = found.nodes[0]
        x = found.values["x"]
        return graph.emit("gelu", [x], before=root, source=root.source, approximate=approximate)

    return Rule(_spellings(_ERF if approximate == "none" else _TANH), rewrite, (_same_type,))


def _same_type(found: Match) -> bool:
    """A constant of rank 1 in the formula could add axes."""
    return same(found.values["x"].type, found.nodes[0].output.type)


RULES = (_rewriter("none"), _rewriter("tanh"))


def run(graph: Graph) -> int:
    """Number of GELUs recognised."""
    return apply(graph, RULES)


PASS = Pass(
    "fuse_gelu",
    run,
    after={
        "fold_constants": "the factors of the formula are constants only then",
    },
    before={
        "fuse_gated_linear": "it looks for activations as one node",
        "fuse_epilogue": "it looks for activations as one node",
    },
)
