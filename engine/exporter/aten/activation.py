"""Activations with arguments, softmax, dropout at rest, and the calls that return their argument."""

from __future__ import annotations

from engine.exporter.context import CallContext, Missing
from engine.exporter.handlers import FROM_META, aten
from engine.graph import Value


@aten("gelu")
def gelu(x: CallContext, self: Value, approximate: str) -> Value:
    return x.emit("gelu", self, approximate=approximate)


@aten("rrelu_with_noise_functional", harmless={"noise": "only training reads it", "generator": "as noise"})
def rrelu(x: CallContext, self: Value, lower: float, upper: float, training: bool) -> Value | list[Value | Missing]:
    """At rest the mean of the slopes."""
    if training:
        x.refuse("training=True draws random numbers; pass training=self.training, or call eval() of this layer")
    below = x.arithmetic("mul", self, (lower + upper) / 2, self.dtype)
    return x.alone(x.emit("where", x.emit("lt", self, x.scalar(0, self.dtype)), below, self), "it is noise of training")


def _softmax(op: str) -> None:
    @aten(f"{op}.int", f"_{op}", harmless={"dtype": FROM_META, "half_to_float": FROM_META})
    def translate(x: CallContext, self: Value, dim: int) -> Value:
        """Cast first, as torch does; a tensor of rank 0 is a vector of one element."""
        value = x.lifted(x.cast(self, x.result.dtype))
        return x.reshape(x.emit(op, value, axis=x.axis(dim, len(value.shape))), x.result.shape)


_softmax("softmax")
_softmax("log_softmax")


@aten("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
def dropout(x: CallContext, input: Value, p: float, train: bool) -> Value:
    if train and p != 0:
        advice = "pass training=self.training, or call eval() of this layer"
        x.refuse(f"train=True with p={p} draws random numbers; {advice}")
    return input


@aten("contiguous", "clone", "detach", "detach_", "alias", "lift_fresh_copy")
def same(x: CallContext, self: Value) -> Value:
    """Values of a graph are immutable, dense and without gradients: there is nothing to copy or to detach."""
    return x.cast(self, x.result.dtype)
