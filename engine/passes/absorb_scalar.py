"""Fold a multiplication or division by a scalar into matmul's alpha or attention's scale."""

from __future__ import annotations

import math

from engine import dtypes
from engine.graph import Graph, Value
from engine.passes.base import Pass
from engine.passes.pattern import Match, OneOf, Pattern, Rule, Scalar, Var, apply, call
from engine.sizes import same

_KINDS = {"matmul": "alpha", "attention": "scale"}


def _scaled(inner: Pattern) -> Pattern:
    return OneOf((call("mul", inner, Scalar("factor"), name="mul"), call("div", inner, Scalar("factor"), name="div")))


def _factor(found: Match) -> float:
    factor = found.scalar("factor")
    return 1 / factor if "div" in found.calls else factor


def _finite(found: Match) -> bool:
    """A factor of 0 or infinity would hide or make NaN differently; a broadcasting scalar would change the shape."""
    scale = found.calls.get("mul") or found.calls["div"]
    tensor = next(v for v in scale.inputs if v is not None and v is not found.values["factor"])
    factor = found.scalar("factor")
    alike = same(tensor.type, scale.output.type) and dtypes.dtype(tensor.dtype).kind == "float"
    return factor != 0 and math.isfinite(factor) and alike


def _after(graph: Graph, found: Match) -> Value:
    node = found.calls["product"]
    root = found.nodes[0]
    attributes = node.attributes | {"alpha": node.attributes["alpha"] * _factor(found)}
    return graph.emit("matmul", node.inputs, before=root, source=node.source, **attributes)


def _before(position: int) -> Rule:
    """The scalar is applied to operand `position` of a matmul or to the query or key of an attention."""
    operand = _scaled(Var("operand"))
    inputs: tuple[Pattern, ...] = (operand,) if position == 0 else (Var("first"), operand)

    def rewrite(graph: Graph, found: Match) -> Value:
        root = found.nodes[0]
        attribute = _KINDS[root.op.name]
        operands = list(root.inputs)
        operands[position] = found.values["operand"]
        attributes = root.attributes | {attribute: root.attributes[attribute] * _factor(found)}
        return graph.emit(root.op.name, operands, before=root, source=root.source, **attributes)

    return Rule(OneOf(tuple(call(op, *inputs) for op in _KINDS)), rewrite, (_finite,))


RULES = (Rule(_scaled(call("matmul", Var("a"), Var("b"), name="product")), _after, (_finite,)), _before(0), _before(1))


def run(graph: Graph) -> int:
    """Number of scalars absorbed."""
    return apply(graph, RULES)


PASS = Pass(
    "absorb_scalar",
    run,
    after={
        "fold_constants": "a scale is a constant only then",
    },
)
