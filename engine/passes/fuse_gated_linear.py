"""Compute activation(gate) * up in one node where gate and up are linears of one value (SwiGLU, GeGLU, GLU)."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine import dtypes
from engine.graph import Graph, Node, Value, can_join, join_sources
from engine.ops import TensorType
from engine.passes.base import Pass
from engine.passes.fuse_epilogue import ACTIVATIONS
from engine.passes.pattern import Match, NodePattern, Rule, Var, apply, call


def _is_plain(node: Node) -> bool:
    """A product and at most a bias, all constant: what the packed pair of weights can express."""
    bias, a = node["bias"], node.attributes
    constant = node.operand("weight").is_constant and (bias is None or bias.is_constant)
    return constant and node["residual"] is None and a["activation"] == "none" and bool(a["alpha"] == 1)


# --- two linears ---------------------------------------------------------------------------------------------------


def _can_pair(found: Match) -> bool:
    gate, up = found.calls["gate"], found.calls["up"]
    return (
        gate is not up
        and _is_plain(gate)
        and _is_plain(up)
        and gate.operand("weight").type == up.operand("weight").type
        and gate.operand("weight").precision == up.operand("weight").precision
        and can_join([gate.operand("weight").type], 0 if gate.attributes["transpose_weight"] else 1)
        and gate.attributes == up.attributes
    )


def _bias(graph: Graph, node: Node) -> Value:
    zeros = np.zeros(node.output.shape[-1:], dtypes.dtype(node.operand("weight").dtype).numpy)
    return node["bias"] or graph.constant(zeros, "0")


def _pair(activation: str) -> Any:
    def rewrite(graph: Graph, found: Match) -> Value:
        gate, up, root = found.calls["gate"], found.calls["up"], found.nodes[0]
        transposed = gate.attributes["transpose_weight"]
        weight = graph.joined([gate.operand("weight"), up.operand("weight")], 0 if transposed else 1)
        biases = [_bias(graph, node) for node in (gate, up)] if gate["bias"] or up["bias"] else []
        inputs = {"x": gate["x"], "weight": weight, "bias": graph.joined(biases, 0) if biases else None}
        return graph.emit(
            "gated_linear",
            inputs,
            before=root,
            source=join_sources([gate.source, up.source]),
            transpose_weight=transposed,
            activation=activation,
            compute=gate.attributes["compute"],
        )

    return rewrite


# --- one linear whose halves are gate and up -------------------------------------------------------------------------


def _is_half(node: Node, whole: Value) -> bool:
    features, last = whole.shape[-1], len(whole.shape) - 1
    a = node.attributes
    return (
        a["axis"] == last
        and a["step"] == 1
        and (a["start"], a["stop"]) in {(0, features // 2), (features // 2, features)}
    )


def _can_split(found: Match) -> bool:
    linear, gate, up = (found.calls[name] for name in ("linear", "gate", "up"))
    whole = linear.output
    return (
        _is_plain(linear)
        and whole.shape[-1] % 2 == 0
        and _is_half(gate, whole)
        and _is_half(up, whole)
        and gate.attributes["start"] != up.attributes["start"]
        and _can_swap_halves(linear.operand("weight").type, 0 if linear.attributes["transpose_weight"] else 1)
    )


def _can_swap_halves(weight: TensorType, axis: int) -> bool:
    half, encoding = weight.shape[axis] // 2, weight.encoding
    return can_join([weight], axis) and (encoding is None or encoding.cuts(axis, 0, half) is not None)


def _split(activation: str) -> Any:
    def rewrite(graph: Graph, found: Match) -> Value:
        linear, gate, root = found.calls["linear"], found.calls["gate"], found.nodes[0]
        transposed = linear.attributes["transpose_weight"]
        weight, bias = linear.operand("weight"), linear["bias"]
        if gate.attributes["start"] > 0:
            weight = _swap_halves(graph, weight, 0 if transposed else 1)
            bias = None if bias is None else _swap_halves(graph, bias, 0)
        return graph.emit(
            "gated_linear",
            {"x": linear["x"], "weight": weight, "bias": bias},
            before=root,
            source=linear.source,
            transpose_weight=transposed,
            activation=activation,
            compute=linear.attributes["compute"],
        )

    return rewrite


def _swap_halves(graph: Graph, value: Value, axis: int) -> Value:
    half = value.shape[axis] // 2
    return graph.joined([graph.cut(value, axis, half, 2 * half), graph.cut(value, axis, 0, half)], axis)


def _rules() -> tuple[Rule, ...]:
    rules = []
    gate, up = (call("linear", Var("x"), Var(f"{name} weight"), name=name) for name in ("gate", "up"))
    whole = call("linear", Var("x"), Var("weight"), name="linear")
    first, second = (call("slice", whole, name=name) for name in ("gate", "up"))
    for op, attributes, name in ACTIVATIONS:

        def product(
            a: NodePattern, b: NodePattern, op: str = op, attributes: dict[str, Any] = attributes
        ) -> NodePattern:
            return call("mul", call(op, a, **attributes), b)

        rules.append(Rule(product(gate, up), _pair(name), (_can_pair,)))
        rules.append(Rule(product(first, second), _split(name), (_can_split,)))
    return tuple(rules)


RULES = _rules()


def run(graph: Graph) -> int:
    """Number of gated pairs."""
    return apply(graph, RULES)


PASS = Pass(
    "fuse_gated_linear",
    run,
    before={
        "merge_linear": "it would merge gate and up, which the pattern needs apart",
    },
)
