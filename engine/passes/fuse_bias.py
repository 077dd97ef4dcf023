"""Let a linear add a constant bias that the model adds after it. Linears with different biases can then be merged."""

from __future__ import annotations

from engine.graph import Graph, Value
from engine.passes.base import Pass
from engine.passes.pattern import Match, Rule, Var, apply, call


def _is_bias(found: Match) -> bool:
    """One constant value a column, of rank 1, and a free slot. Bias and residual commute: either may come first.

    Those of conv's channels are `fold_batch_norm`'s.
    """
    linear, other = found.calls["product"], found.values["other"]
    return (
        linear.attributes["activation"] == "none"
        and linear["bias"] is None
        and other.is_constant
        and other.shape == linear.output.shape[-1:]
        and other.dtype == linear.output.dtype
    )


def _fill(graph: Graph, found: Match) -> Value:
    return graph.emit_again(found.calls["product"], {"bias": found.values["other"]}, before=found.nodes[0])


BIAS = Rule(call("add", call("linear", Var("x"), Var("weight"), name="product"), Var("other")), _fill, (_is_bias,))


def run(graph: Graph) -> int:
    """Number of biases taken in."""
    return apply(graph, (BIAS,))


PASS = Pass(
    "fuse_bias",
    run,
    after={"use_linear": "it makes the linears"},
    before={
        "fuse_gated_linear": "it joins the biases of both linears",
        "merge_linear": "it joins the biases of the linears",
    },
)
