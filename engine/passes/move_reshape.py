"""Remove a reshape that flattens the input of a linear to rows, and the reshape that restores the axes of its result.

reshape(linear(reshape(x))) -> linear(reshape(x)), or linear(x) if x already has those axes. An addition or activation
then directly follows the linear, and can become its epilogue. Several linears may read the inner reshape.
"""

from __future__ import annotations

from engine.graph import Graph, Value
from engine.passes.base import Pass
from engine.passes.pattern import Match, Rule, Var, apply, call
from engine.sizes import same

_PATTERN = call(
    "reshape", call("linear", call("reshape", Var("x"), name="rows"), Var("weight"), name="linear"), name="restored"
)
# The rows have other readers, too, so that the inner reshape is no part of the match.
_SHARED = call("reshape", call("linear", Var("rows"), Var("weight"), name="linear"), name="restored")


def _is_reshaped(found: Match) -> bool:
    node = found.values["rows"].node
    return node is not None and node.op.name == "reshape" and not node.decodes


def _keeps_columns(found: Match) -> bool:
    """Rows are what is restored, columns stay as they are. A residual would have to be reshaped as well."""
    linear, restored = found.calls["linear"], found.calls["restored"]
    shape = restored.output.shape
    return len(shape) > 0 and shape[-1] == linear.output.shape[-1] and linear["residual"] is None


def _rewrite(graph: Graph, found: Match) -> Value:
    linear, restored = found.calls["linear"], found.calls["restored"]
    rows = linear.operand("x").node
    assert rows is not None  # noqa: S101  (it is the inner reshape)
    x = rows.operand("x")
    shape = (*restored.output.shape[:-1], linear.operand("x").shape[-1])
    if not same(x.shape, shape):
        x = graph.emit("reshape", [x], before=restored, source=linear.source, shape=shape)
    return graph.emit_again(linear, {"x": x}, before=restored)


RULES = (Rule(_PATTERN, _rewrite, (_keeps_columns,)), Rule(_SHARED, _rewrite, (_is_reshaped, _keeps_columns)))


def run(graph: Graph) -> int:
    """Number of linears that need no flattened rows."""
    return apply(graph, RULES)


PASS = Pass(
    "move_reshape",
    run,
    before={
        "fuse_bias": "a reshape between two nodes hides the pattern",
        "fuse_gated_linear": "a reshape between two nodes hides the pattern",
        "merge_linear": "a reshape between two nodes hides the pattern",
        "fuse_epilogue": "a reshape between two nodes hides the pattern",
    },
)
