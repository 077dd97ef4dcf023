"""Fold a multiplication or division by a scalar into matmul's alpha or attention's scale."""

from __future__ import annotations

import math

from engine import dtypes
from engine.graph import Graph, Value
from engine.passes.base import Pass
from engine.passes.pattern import Match, OneOf, Pattern, Rule, Scalar, Var, apply, call
from engine.sizes import same

# Op -> the attribute that takes a factor in, and the operands whose factor it may be.
_FACTORS = {"matmul": ("alpha", ("a", "b")), "attention": ("scale", ("query", "key"))}


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
    return graph.emit_again(node, before=root, alpha=node.attributes["alpha"] * _factor(found))


def _before(op: str, attribute: str, names: tuple[str, ...]) -> Rule:
    """The scalar is applied to the last of `names`, the first operands of `op`."""

    def rewrite(graph: Graph, found: Match) -> Value:
        root = found.nodes[0]
        factor = root.attributes[attribute] * _factor(found)
        return graph.emit_again(root, {names[-1]: found.values["operand"]}, **{attribute: factor})

    return Rule(call(op, *map(Var, names[:-1]), _scaled(Var("operand"))), rewrite, (_finite,))


RULES = (
    Rule(_scaled(call("matmul", Var("a"), Var("b"), name="product")), _after, (_finite,)),
    *(_before(op, attribute, names[:count]) for count in (1, 2) for op, (attribute, names) in _FACTORS.items()),
)


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
