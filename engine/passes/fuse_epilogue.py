"""Let linear add its bias and a residual and apply an activation while the result is still in registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.ir import Graph, Node, Value
from engine.passes.pattern import Match, Rule, Var, apply, call

_LINEAR = call("linear", Var("x"), Var("weight"), name="linear")
# Pointwise op and the attributes it must have -> linear's name for it.
ACTIVATIONS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("relu", {}, "relu"),
    ("gelu", {"approximate": "none"}, "gelu"),
    ("gelu", {"approximate": "tanh"}, "gelu_tanh"),
    ("silu", {}, "silu"),
    ("tanh", {}, "tanh"),
    ("sigmoid", {}, "sigmoid"),
)


def _linear(found: Match) -> Node:
    return found.calls["linear"]


def _no_activation(found: Match) -> bool:
    return bool(_linear(found).attributes["activation"] == "none")


def _is_bias(found: Match) -> bool:
    """One constant value a column, of rank 1, and a free slot. Bias and residual commute: either may come first."""
    linear, other = _linear(found), found.values["other"]
    return (
        linear.inputs[2] is None
        and other.is_constant
        and other.shape == linear.output.shape[-1:]
        and other.dtype == linear.output.dtype
    )


def _is_residual(found: Match) -> bool:
    """A value of exactly the result's type. The linear must come after what it adds, or the order would break."""
    linear, other = _linear(found), found.values["other"]
    return linear.inputs[3] is None and other.type == linear.output.type and other is not linear.output


def _fill(position: int) -> Callable[[Graph, Match], Value]:
    def rewrite(graph: Graph, found: Match) -> Value:
        linear, root = _linear(found), found.nodes[0]
        inputs = list(linear.inputs)
        inputs[position] = found.values["other"]
        return graph.emit("linear", inputs, before=root, source=linear.source, **linear.attributes)

    return rewrite


def _activate(activation: str) -> Callable[[Graph, Match], Value]:
    def rewrite(graph: Graph, found: Match) -> Value:
        linear, root = _linear(found), found.nodes[0]
        attributes = linear.attributes | {"activation": activation}
        return graph.emit("linear", linear.inputs, before=root, source=linear.source, **attributes)

    return rewrite


_ADD = call("add", _LINEAR, Var("other"))
RULES = (
    Rule(_ADD, _fill(2), (_no_activation, _is_bias)),
    Rule(_ADD, _fill(3), (_no_activation, _is_residual)),
    *(
        Rule(call(op, _LINEAR, **attributes), _activate(name), (_no_activation,))
        for op, attributes, name in ACTIVATIONS
    ),
)


def run(graph: Graph) -> int:
    """Number of biases, residuals and activations taken in."""
    return apply(graph, RULES)
