"""Fold a factor and a summand of each channel (batch norm in eval mode) into the convolution before it."""

from __future__ import annotations

import math

import numpy as np

from engine.graph import Form, Graph, Node, Value, identity
from engine.passes.base import Pass
from engine.passes.pattern import Match, OneOf, Rule, Var, apply, call
from engine.passes.precision import has_one_scale
from engine.passes.widen import find_narrow_type

_CONV = OneOf(tuple(call(op, Var("x"), Var("weight"), name="conv") for op in ("conv", "conv_transpose")))
_DTYPES = ("float32", "float64")  # of shorter types a product of two constants would be rounded once more


class Folded:
    """The elements of a weight after a factor was folded into it.

    `base`, the weight without it, is the only base: a weight that a model has in bfloat16 can still be stored so.
    """

    def __init__(self, elements: np.ndarray, base: Form) -> None:
        self.elements = elements
        self.bases = (base,)
        self.identity = ("folded", identity(elements))

    def __call__(self) -> np.ndarray:
        return self.elements


def _conv(found: Match) -> Node:
    return found.calls["conv"]


def _constant(found: Match) -> bool:
    """Weight and bias are known now, and nothing follows the sum inside of the convolution."""
    conv = _conv(found)
    constants = [v for v in (conv.operand("weight"), conv["bias"]) if v is not None]
    bare = conv["residual"] is None and conv.attributes["activation"] == "none"
    return bare and conv.output.dtype in _DTYPES and all(v.is_plain for v in constants)


def _a_channel(found: Match) -> bool:
    """A constant with one element, or one a channel, that leaves the result's shape as it is."""
    conv, other = _conv(found).output, found.values["other"]
    shape = (*[1] * (len(conv.shape) - len(other.shape)), *other.shape)
    others = shape[:1] + shape[2:]
    fits = len(shape) == len(conv.shape) and math.prod(others) == 1 and shape[1] in (1, conv.shape[1])
    return fits and other.is_plain and other.dtype == conv.dtype


def _vector(value: Value, channels: int) -> np.ndarray:
    """One float64 a channel."""
    return np.broadcast_to(value.elements.astype(np.float64).reshape(-1), (channels,))


def _scaled(conv: Node, factor: np.ndarray) -> np.ndarray:
    """The weight times `factor` [O], float64. A transposed one is [C, O / groups, *K], rows of one group together."""
    weight = conv.operand("weight")
    wide, kernel = weight.elements.astype(np.float64), weight.shape[2:]
    ones = [1] * len(kernel)
    if conv.op.name == "conv":
        return wide * factor.reshape(-1, 1, *ones)
    groups, out = conv.attributes["groups"], weight.shape[1]
    apart = wide.reshape(groups, -1, out, *kernel) * factor.reshape(groups, 1, out, *ones)
    return apart.reshape(weight.shape)


def _with(graph: Graph, found: Match, weight: np.ndarray | None, bias: np.ndarray | None) -> Value | None:
    """The convolution with other constants; None declines, where they overflow."""
    conv, root = _conv(found), found.nodes[0]
    folded: dict[str, Value | None] = {}
    for name, made in (("weight", weight), ("bias", bias)):
        if made is None:
            continue
        with np.errstate(over="ignore"):
            rounded = made.astype(conv.output.type.dtype)
        if not np.isfinite(rounded).all():
            return None
        old = conv[name]
        folded[name] = _constant_from(graph, rounded, name, old)
    return graph.emit_again(conv, folded, before=root)


def _constant_from(graph: Graph, rounded: np.ndarray, name: str, old: Value | None) -> Value:
    """`rounded` in place of the constant `old`."""
    if old is None:
        return graph.constant(rounded, f"folded {name}")
    if name == "bias" or old.form is None or find_narrow_type(old) is None:
        return graph.constant(rounded, old.name, [old])
    return graph.later(Folded(rounded, old.form), old.type, old.name, [old])


def _multiply(graph: Graph, found: Match) -> Value | None:
    """As `_with`. None, too, if all channels of the weight are to share a scale and their factors differ.

    The largest factor would then decide how exact the other channels are.
    """
    conv = _conv(found)
    factor, bias = _vector(found.values["other"], conv.output.shape[1]), conv["bias"]
    if has_one_scale(graph, conv.operand("weight")) and np.unique(factor).size > 1:
        return None
    return _with(graph, found, _scaled(conv, factor), None if bias is None else _vector(bias, factor.size) * factor)


def _add(graph: Graph, found: Match) -> Value | None:
    conv = _conv(found)
    summand, bias = _vector(found.values["other"], conv.output.shape[1]), conv["bias"]
    return _with(graph, found, None, summand if bias is None else _vector(bias, summand.size) + summand)


RULES = tuple(
    Rule(call(op, _CONV, Var("other")), rewrite, (_constant, _a_channel))
    for op, rewrite in (("mul", _multiply), ("add", _add))
)


def run(graph: Graph) -> int:
    """Number of factors and summands folded."""
    return apply(graph, RULES)


PASS = Pass(
    "fold_batch_norm",
    run,
    before={
        "fold_norm_forward": "a convolution behind may pad, and then nothing can be folded into it",
        "fuse_epilogue": "nothing can be folded into a convolution that has an activation",
    },
)
