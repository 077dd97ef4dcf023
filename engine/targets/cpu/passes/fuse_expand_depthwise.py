"""Compute a depthwise convolution on a linear's result while it is in the cache, as in blocks of mobile networks.

x -> linear (1 x 1, more channels) -> depthwise conv, both with bias and activation, on images with channels last. The
tensor between them is the largest of such a block and is read once.
"""

from __future__ import annotations

from engine.graph import Graph, Value
from engine.passes.base import Pass
from engine.passes.pattern import Match, Rule, Var, apply, call
from engine.sizes import is_fixed

# Bytes between: less stays in a second-level cache by itself, and a linear alone rereads x from the first level.
# EfficientNet-Lite0 at 224 x 224 (fused over apart, thread time): 0.92 for 4.8 MB between, 1.00 for 1.8, 1.02 to 1.04
# for 0.4.
WORTH = 1 << 20


def _fits(found: Match) -> bool:
    """A plain product of constants, and a kernel for each of its columns that leaves no place between unread."""
    linear, conv = found.calls["linear"], found.calls["conv"]
    x, expand, weight, a = linear.operand("x"), linear.operand("weight"), conv.operand("weight"), conv.attributes
    return (
        x.dtype == "float32"
        and len(x.shape) == 4
        and all(v is None or v.is_plain for v in (expand, linear["bias"], weight, conv["bias"]))
        and linear["residual"] is None
        and conv["residual"] is None
        and linear.attributes["transpose_weight"]
        and linear.attributes["alpha"] == 1
        and a["channels_last"]
        and a["groups"] == expand.shape[0] == weight.shape[0]
        and all(step <= size for step, size in zip(a["stride"], weight.shape[2:], strict=True))
        and _is_large(linear.output)
    )


def _is_large(between: Value) -> bool:
    """Of a size that differs from call to call: yes, for nothing is lost that would count where it is small."""
    return not is_fixed(between.shape) or between.type.nbytes >= WORTH


def _fuse(graph: Graph, found: Match) -> Value:
    linear, conv = found.calls["linear"], found.calls["conv"]
    inputs = {
        "x": linear["x"],
        "expand": linear["weight"],
        "expand_bias": linear["bias"],
        "weight": conv["weight"],
        "bias": conv["bias"],
    }
    how = {name: conv.attributes[name] for name in ("stride", "low", "high", "dilation", "activation")}
    how["expand_activation"] = linear.attributes["activation"]
    return graph.emit("expand_depthwise", inputs, before=conv, source=conv.source, **how)


_LINEAR = call("linear", Var("x"), Var("expand"), compute="element", name="linear")
RULES = (Rule(call("conv", _LINEAR, Var("weight"), compute="element", name="conv"), _fuse, (_fits,)),)


def run(graph: Graph) -> int:
    """Number of convolutions that make what they read themselves."""
    return apply(graph, RULES)


PASS = Pass(
    "fuse_expand_depthwise",
    run,
    after={
        "dead_code": "a permute that nothing reads counts as a reader of the linear",
    },
    target="cpu",
)
