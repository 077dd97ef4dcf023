"""Let linear and convolutions add a bias and a residual and apply an activation while results are in registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.graph import Graph, Node, Value
from engine.passes.base import Pass
from engine.passes.fuse_bias import BIAS
from engine.passes.pattern import Match, OneOf, Rule, Scalar, Var, apply, call
from engine.sizes import same

_PRODUCTS = tuple(call(op, Var("x"), Var("weight"), name="product") for op in ("linear", "conv", "conv_transpose"))
_PRODUCT = OneOf(_PRODUCTS)
# Pointwise op and the attributes it must have -> the product's name for it.
ACTIVATIONS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("relu", {}, "relu"),
    ("gelu", {"approximate": "none"}, "gelu"),
    ("gelu", {"approximate": "tanh"}, "gelu_tanh"),
    ("silu", {}, "silu"),
    ("tanh", {}, "tanh"),
    ("sigmoid", {}, "sigmoid"),
)
# As exporters write it: no lower than 0, then no higher than 6.
_RELU6 = call("minimum", call("maximum", _PRODUCT, Scalar(value=0.0)), Scalar(value=6.0))


def _product(found: Match) -> Node:
    return found.calls["product"]


def _no_activation(found: Match) -> bool:
    return bool(_product(found).attributes["activation"] == "none")


def _is_residual(found: Match) -> bool:
    """A value of exactly the result's type. The product must come after what it adds, or the order would break."""
    product, other = _product(found), found.values["other"]
    return product["residual"] is None and same(other.type, product.output.type) and other is not product.output


def _add(graph: Graph, found: Match) -> Value:
    return graph.emit_again(_product(found), {"residual": found.values["other"]}, before=found.nodes[0])


def _activate(activation: str) -> Callable[[Graph, Match], Value]:
    def rewrite(graph: Graph, found: Match) -> Value:
        return graph.emit_again(_product(found), before=found.nodes[0], activation=activation)

    return rewrite


RULES = (
    BIAS,
    Rule(call("add", _PRODUCT, Var("other")), _add, (_no_activation, _is_residual)),
    *(
        Rule(call(op, _PRODUCT, **attributes), _activate(name), (_no_activation,))
        for op, attributes, name in ACTIVATIONS
    ),
    Rule(_RELU6, _activate("relu6"), (_no_activation,)),
)


def run(graph: Graph) -> int:
    """Number of biases, residuals and activations taken in."""
    return apply(graph, RULES)


PASS = Pass(
    "fuse_epilogue",
    run,
    before={
        "fuse_embedding_norm": "a residual costs least where a linear adds it in its registers",
        "fuse_add_norm": "a residual costs least where a linear adds it in its registers",
    },
)
