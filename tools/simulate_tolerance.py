"""How far right implementations of one network may be from eager, and how far wrong ones are, in every precision.

    python -m tools.simulate_tolerance

The network: three layers y = relu(x W + b) of width K, normal inputs and weights. Everything is NumPy; bfloat16 is of
ml_dtypes. "Eager" sums in float32, in blocks, and rounds after the product, after the bias and after the activation.
Other right implementations sum in other orders, round less often, or round partial sums. Errors are relative, against
float64 of the same rounded or decoded weights. The factors and floors of `suites/harness/judge/verify.py` have to allow
what right implementations do, and should not allow the planted faults. Takes about two minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from engine.dtypes import dtype
from engine.encodings import INT4, INT8_CHANNEL, Encoding
from suites.cli.scripts import make_parser
from suites.harness.declare.precision import PRECISIONS
from suites.harness.judge.verify import Reference, compare
from suites.harness.present import markdown

NAMES = ("fp32", "bf16", "fp16", "int8_weight", "int8_dynamic", "int4_weight")
WIDTHS = (16, 64, 256, 1024, 4096)
LAYERS, ROWS, TRIALS = 3, 8, 10
"""Wide networks have fewer trials, at least 2."""
PER_COLUMN = INT8_CHANNEL.along(1)
HEADINGS = [
    "precision",
    "right implementations: largest error over eager's",
    "largest error over the bound",
    "planted faults: smallest error over the bound",
    "not detected",
]
Sum = Callable[[np.ndarray, np.ndarray], np.ndarray]


def in_blocks(size: int) -> Sum:
    """X @ W summed over blocks of so many products, one block after the other, in float32."""

    def product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        total = np.zeros((len(x), w.shape[1]), np.float32)
        for k in range(0, w.shape[0], size):
            total += x[:, k : k + size] @ w[k : k + size]
        return total

    return product


def reversed_blocks(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The same from the last product to the first."""
    return in_blocks(64)(x[:, ::-1], w[::-1])


def pairwise(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Sums of halves, in float32."""
    half = w.shape[0] // 2
    if half < 16:
        return x @ w
    return pairwise(x[:, :half], w[:half]) + pairwise(x[:, half:], w[half:])


_USUAL = in_blocks(256)


@dataclass(frozen=True)
class Way:
    """One implementation. Without arguments it is eager's.

    Attributes:
        product: sums in float32.
        parts: sums of so many parts of K are rounded to the element type before they are added; 1: none is.
        fused: the bias and the activation are applied before anything is rounded.
        rounds: numbers between layers have the element type; outputs have it in any case.
        scaled: scales multiply sums and not weights (quantised weights).
        fault: what is wrong, one of `FAULTS`; most are in the first layer alone.
    """

    product: Sum = _USUAL
    parts: int = 1
    fused: bool = False
    rounds: bool = True
    scaled: bool = False
    fault: str = ""


_EAGER = Way()
_SUMS = {
    "one product after the other": Way(in_blocks(1)),
    "blocks of 16": Way(in_blocks(16)),
    "backwards": Way(reversed_blocks),
    "halves": Way(pairwise),
}
_FLOAT = {**_SUMS, "fused": Way(fused=True), "4 rounded partial sums": Way(parts=4)}
_STORED = {**_SUMS, "scales after sums": Way(scaled=True)}
RIGHT: dict[str, dict[str, Way]] = {
    "exact": _FLOAT,
    "rounded": {**_FLOAT, "float32, only the output cast": Way(rounds=False)},
    "quantised": _STORED,
    "dynamic": _STORED,
}
"""Rule of the precision -> right implementations."""
_ANY = ("a product left out", "16 products left out", "a bias left out", "a column of zeros", "rows exchanged")
_OF_WEIGHTS = ("weights not quantised", "weights rounded towards zero", "a scale of another block")
_OF_ACTIVATIONS = ("activations not quantised", "activations rounded towards zero")
_OF_SCALES = ("one scale for all rows", "scales of 128 steps")
FAULTS: dict[str, tuple[str, ...]] = {
    "exact": _ANY,
    "rounded": (*_ANY, "rounded towards zero", "sums in the type itself"),
    "quantised": (*_ANY, *_OF_WEIGHTS),
    "dynamic": (*_ANY, *_OF_WEIGHTS, *_OF_ACTIVATIONS, *_OF_SCALES),
}
"""Rule of the precision -> what is wrong with implementations that sum and round as eager does."""


@dataclass(frozen=True)
class Layer:
    """Weights [K, N] as they are multiplied and as they were drawn, the bias [N], and how the weights are stored."""

    weight: np.ndarray
    drawn: np.ndarray
    bias: np.ndarray
    encoding: Encoding | None = None
    components: Mapping[str, np.ndarray] = field(default_factory=dict)


class Finding(NamedTuple):
    """Error of one implementation of one network, over eager's own and over the bound."""

    way: str
    width: int
    is_right: bool
    over_eager: float
    over_bound: float


def draw_network(name: str, width: int, seed: int) -> tuple[np.ndarray, list[Layer]]:
    """Inputs [ROWS, K] and layers, with the element type or the encoding of a precision."""
    generator, kind = np.random.default_rng(seed), dtype(PRECISIONS[name].dtype or "float32").numpy
    layers = []
    for _ in range(LAYERS):
        weight = generator.standard_normal((width, width), np.float32) * np.float32(np.sqrt(2 / width))
        bias = generator.standard_normal(width, np.float32) * np.float32(0.1)
        if PRECISIONS[name].kind == "quantised":
            encoding = INT4[32].along(0) if name == "int4_weight" and width % 32 == 0 else PER_COLUMN
            components = encoding.encode(weight)
            layers.append(Layer(encoding.decode(components, "float32"), weight, bias, encoding, components))
        else:
            layers.append(Layer(rounded(weight, kind), weight, rounded(bias, kind)))
    return rounded(generator.standard_normal((ROWS, width), np.float32), kind), layers


def rounded(x: np.ndarray, kind: np.dtype, way: Way = _EAGER) -> np.ndarray:
    """`x` as float32 with values of the element type."""
    if not way.rounds:
        return x
    near: np.ndarray = x.astype(kind)
    if way.fault == "rounded towards zero":
        near = np.where(np.abs(near.astype(np.float32)) > np.abs(x), np.nextafter(near, kind.type(0)), near)
    return near.astype(np.float32)


def quantise(x: np.ndarray, fault: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows [M, K] as integers, and their scales [M, 1], in float32."""
    most = np.abs(x).max(None if fault == "one scale for all rows" else 1, keepdims=True)
    scale = most / np.float32(128 if fault == "scales of 128 steps" else 127)
    steps = x * (1 / scale)
    whole = np.trunc(steps) if fault == "activations rounded towards zero" else np.rint(steps)
    return np.clip(whole, -127, 127), scale


def multiply(x: np.ndarray, w: np.ndarray, way: Way, kind: np.dtype) -> np.ndarray:
    """X [M, K] @ W [K, N] in float32, as `way` sums."""
    if way.fault == "sums in the type itself":
        narrow: np.ndarray = np.zeros((len(x), w.shape[1]), kind)
        for k in range(w.shape[0]):
            narrow = (narrow.astype(np.float32) + x[:, k : k + 1] * w[k]).astype(kind)
        return narrow.astype(np.float32)
    if way.parts == 1:
        return way.product(x, w)
    parts = zip(np.split(x, way.parts, axis=1), np.split(w, way.parts), strict=True)
    return np.sum([rounded(way.product(*part), kind, way) for part in parts], axis=0)


def spoil(layer: Layer, fault: str) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias with a planted fault; other faults leave them as they are."""
    weight, bias = layer.weight.copy(), layer.bias.copy()
    if fault == "a product left out":
        weight[-1:] = 0
    elif fault == "16 products left out":
        weight[-16:] = 0
    elif fault == "a bias left out":
        bias[:] = 0
    elif fault == "a column of zeros":
        weight[:, 0], bias[0] = 0, 0
    elif fault == "weights not quantised":
        weight = layer.drawn
    elif fault == "a scale of another block" and layer.encoding:
        scale = layer.components["scale"].copy()
        scale[0] = scale[1]
        weight = layer.encoding.decode({**layer.components, "scale": scale}, "float32")
    elif fault == "weights rounded towards zero" and layer.encoding:
        ones = np.full_like(layer.components["data"], 1 if layer.encoding == PER_COLUMN else 0x11)
        steps = layer.encoding.decode({**layer.components, "data": ones}, "float32")
        weight = np.trunc(layer.drawn / steps) * steps
    return weight, bias


def outputs_of(x: np.ndarray, layers: Sequence[Layer], way: Way, kind: np.dtype, *, dynamic: bool) -> np.ndarray:
    """Outputs of one implementation, in float32; dynamic: activations are quantised."""
    for number, layer in enumerate(layers):
        fault = "" if number else way.fault
        weight, bias = spoil(layer, fault) if fault else (layer.weight, layer.bias)
        if dynamic and way.fault != "activations not quantised":
            whole, scale = quantise(x, fault)
            y = scale * way.product(whole, weight)
        elif way.scaled and layer.encoding == PER_COLUMN:
            y = way.product(x, PER_COLUMN.integers(layer.components).astype(np.float32)) * layer.components["scale"]
        else:
            y = multiply(x, weight, way, kind)
        y = y + bias if way.fused else rounded(rounded(y, kind, way) + bias, kind, way)
        x = rounded(np.maximum(y, 0), kind, way)
    x = rounded(x, kind)
    return x[::-1] if way.fault == "rows exchanged" else x


def exact_outputs(x: np.ndarray, layers: Sequence[Layer], *, dynamic: bool) -> np.ndarray:
    """Outputs in float64."""
    x = x.astype(np.float64)
    for layer in layers:
        whole, scale = quantise(x.astype(np.float32), "") if dynamic else (x, np.ones(1))
        x = scale.astype(np.float64) * (whole.astype(np.float64) @ layer.weight.astype(np.float64))
        x = np.maximum(x + layer.bias, 0)
    return x


def simulate(name: str, width: int, trials: int) -> Iterator[Finding]:
    """All implementations of networks of one precision and width."""
    kind, rule = dtype(PRECISIONS[name].dtype or "float32").numpy, PRECISIONS[name].rule
    dynamic = rule == "dynamic"
    for seed in range(trials):
        x, layers = draw_network(name, width, seed)
        exact = exact_outputs(x, layers, dynamic=dynamic)
        eager = compare(outputs_of(x, layers, _EAGER, kind, dynamic=dynamic), exact).relative
        bound = Reference([exact], [PRECISIONS[name].dtype or "float32"], [eager], None, rule).tolerance(0)
        for label, way in (RIGHT[rule] | {name: Way(fault=name) for name in FAULTS[rule]}).items():
            error = compare(outputs_of(x, layers, way, kind, dynamic=dynamic), exact).relative
            yield Finding(label, width, way.fault == "", error / eager, error / bound)


def write_row(name: str, findings: Sequence[Finding]) -> list[str]:
    """One precision: the right implementation that is worst, and the faults that are hardest to see."""
    right = [one for one in findings if one.is_right]
    worst = max(right, key=lambda one: one.over_eager)
    least: dict[tuple[str, int], float] = {}
    for one in findings:
        if not one.is_right:
            least[one.way, one.width] = min(one.over_bound, least.get((one.way, one.width), np.inf))
    missed = [f"{way} at K = {width}" for (way, width), share in least.items() if share < 1]
    over_eager = f"{worst.over_eager:.1f} ({worst.way})"
    over_bound = f"{max(one.over_bound for one in right):.2f}"
    return [name, over_eager, over_bound, f"{min(least.values()):.2g}", "; ".join(missed) or "none"]


def main() -> None:
    """Print the table; the bound is `Reference.tolerance`."""
    make_parser(__doc__).parse_args()
    lines = [HEADINGS]
    for name in NAMES:
        runs = (simulate(name, width, max(2, TRIALS * 256 // max(width, 256))) for width in WIDTHS)
        lines.append(write_row(name, [one for run in runs for one in run]))
    print(markdown.pipes(lines))


if __name__ == "__main__":
    main()
