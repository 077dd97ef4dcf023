"""How far right implementations of one network may be from eager, and how far wrong ones are, in every precision.

    python scripts/simulate_tolerance.py [--trials N] [--into docs/measurement.md]

The network: three layers y = relu(x W + b) of width K, normal inputs and weights. Everything is NumPy; bfloat16 is of
ml_dtypes. "Eager" sums in float32, in blocks, and rounds after the product, after the bias and after the activation.
Other right implementations sum in other orders, round less often, or round partial sums. Errors are relative, against
float64 of the same rounded or decoded weights. The factors and floors of `suites/harness/judge/verify.py` have to allow
what right implementations do, and should not allow the planted faults. Takes about two minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np

from engine.encodings import INT4, INT8_CHANNEL
from suites.cli import guard
from suites.cli.scripts import check_page, positive, read_path
from suites.harness.declare.precision import PRECISIONS
from suites.harness.judge.verify import MOST_TOLERANCE, Reference
from suites.harness.present import markdown

WIDTHS = (16, 64, 256, 1024, 4096)
LAYERS, ROWS = 3, 8
TYPES = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16}
NAMES = {"bf16": "bfloat16", "fp16": "float16"}
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


USUAL = in_blocks(256)


@dataclass(frozen=True)
class Way:
    """One implementation.

    Attributes:
        product: sums in float32.
        parts: sums of so many parts of K are rounded to the element type before they are added; 1: none is.
        fused: the bias and the activation are applied before anything is rounded.
        rounds: how numbers become the element type: ``nearest``, ``down`` (to zero), ``never`` but in the last layer.
        narrow: sums are in the element type itself.
        fault: what is wrong, a key of `FAULTS`; "" where nothing is.
        scaled: scales multiply sums and not weights (quantised weights).
    """

    product: Sum = USUAL
    parts: int = 1
    fused: bool = False
    rounds: str = "nearest"
    narrow: bool = False
    fault: str = ""
    scaled: bool = False


EAGER = Way()
RIGHT: dict[str, Way] = {
    "one product after the other": Way(in_blocks(1)),
    "blocks of 16": Way(in_blocks(16)),
    "backwards": Way(reversed_blocks),
    "halves": Way(pairwise),
    "fused": Way(fused=True),
    "4 rounded partial sums": Way(parts=4),
    "float32, only the output cast": Way(rounds="never"),
}
FAULTS: dict[str, Way] = {
    "a product left out": Way(fault="product"),
    "16 products left out": Way(fault="block"),
    "a bias left out": Way(fault="bias"),
    "a column of zeros": Way(fault="column"),
    "rows exchanged": Way(fault="rows"),
    "rounded towards zero": Way(rounds="down"),
    "sums in the type itself": Way(narrow=True),
}
STORED_RIGHT: dict[str, Way] = {
    **{name: RIGHT[name] for name in ("one product after the other", "blocks of 16", "backwards", "halves")},
    "scales after sums": Way(scaled=True),
}
STORED_FAULTS: dict[str, Way] = {
    **{name: FAULTS[name] for name in ("a product left out", "16 products left out", "a bias left out")},
    **{name: FAULTS[name] for name in ("a column of zeros", "rows exchanged")},
    "weights not quantised": Way(fault="unquantised"),
    "weights rounded towards zero": Way(fault="truncated"),
    "a scale of another block": Way(fault="scale"),
}
DYNAMIC_FAULTS: dict[str, Way] = {
    **STORED_FAULTS,
    "activations not quantised": Way(fault="activations"),
    "activations rounded towards zero": Way(fault="floored"),
    "one scale for all rows": Way(fault="tensor"),
    "scales of 128 steps": Way(fault="steps"),
}


@dataclass(frozen=True)
class Layer:
    """Weights [K, N] as they are multiplied, what they are in float64, and the bias [N]."""

    weight: np.ndarray
    bias: np.ndarray
    exact: np.ndarray
    scales: np.ndarray | None = None
    whole: np.ndarray | None = None


@dataclass
class Found:
    """Errors of the trials of one precision and width."""

    eager: list[float] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    right: dict[str, list[float]] = field(default_factory=dict)
    faults: dict[str, list[float]] = field(default_factory=dict)


def towards_zero(x: np.ndarray, kind: type) -> np.ndarray:
    """`x` rounded towards zero."""
    near: np.ndarray = x.astype(kind)
    over = np.abs(near.astype(np.float32)) > np.abs(x)
    return np.where(over, np.nextafter(near, kind(0)), near)


def rounded(x: np.ndarray, kind: type, how: str) -> np.ndarray:
    """`x` as float32 with values of the element type."""
    if how == "never":
        return x
    return (towards_zero(x, kind) if how == "down" else x.astype(kind)).astype(np.float32)


def multiply(x: np.ndarray, w: np.ndarray, way: Way, kind: type) -> np.ndarray:
    """X [M, K] @ W [K, N] in float32, as `way` sums."""
    if way.narrow:
        total: np.ndarray = np.zeros((len(x), w.shape[1]), kind)
        for k in range(w.shape[0]):
            total = (total.astype(np.float32) + x[:, k : k + 1] * w[k]).astype(kind)
        return total.astype(np.float32)
    if way.parts == 1:
        return way.product(x, w)
    step = w.shape[0] // way.parts
    cuts = [slice(k, k + step) for k in range(0, w.shape[0], step)]
    start: np.ndarray = np.zeros((len(x), w.shape[1]), np.float32)
    return sum((rounded(way.product(x[:, cut], w[cut]), kind, way.rounds) for cut in cuts), start)


def spoiled(layer: Layer, fault: str) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias of the first layer with a planted fault."""
    weight, bias = layer.weight, layer.bias
    if fault in ("product", "block"):
        weight = weight.copy()
        weight[-1 if fault == "product" else -16 :] = 0
    elif fault == "bias":
        bias = np.zeros_like(bias)
    elif fault == "column":
        weight, bias = weight.copy(), bias.copy()
        weight[:, 0], bias[0] = 0, 0
    return weight, bias


def float_outputs(x: np.ndarray, layers: list[Layer], way: Way, kind: type) -> np.ndarray:
    """Outputs of a rounded network."""
    for number, layer in enumerate(layers):
        weight, bias = spoiled(layer, way.fault) if number == 0 else (layer.weight, layer.bias)
        y = multiply(x, weight, way, kind)
        y = y + bias if way.fused else rounded(rounded(y, kind, way.rounds) + bias, kind, way.rounds)
        last = way.rounds == "never" and layer is layers[-1]
        x = rounded(np.maximum(y, 0), kind, "nearest" if last else way.rounds)
    return x[::-1] if way.fault == "rows" else x


def exact_outputs(x: np.ndarray, layers: list[Layer], *, dynamic: bool = False) -> np.ndarray:
    """Outputs in float64."""
    x = x.astype(np.float64)
    for layer in layers:
        if dynamic:
            whole, scale = quantised(x.astype(np.float32), "")
            x = scale.astype(np.float64) * (whole.astype(np.float64) @ layer.exact)
        else:
            x = x @ layer.exact
        x = np.maximum(x + layer.bias.astype(np.float64), 0)
    return x


def quantised(x: np.ndarray, fault: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows [M, K] as integers, and their scales [M, 1], in float32."""
    most = np.abs(x).max(None if fault == "tensor" else 1, keepdims=True)
    scale = np.broadcast_to(most / np.float32(128 if fault == "steps" else 127), (len(x), 1)).astype(np.float32)
    quotient = x / scale
    whole = np.trunc(quotient) if fault == "floored" else np.rint(quotient)
    return np.clip(whole, -127, 127).astype(np.float32), scale


def stored_outputs(x: np.ndarray, layers: list[Layer], way: Way, *, dynamic: bool) -> np.ndarray:
    """Outputs of a network with quantised weights, in float32."""
    for number, layer in enumerate(layers):
        weight, bias = spoiled(layer, way.fault) if number == 0 else (layer.weight, layer.bias)
        if dynamic and way.fault != "activations":
            whole, scale = quantised(x, way.fault if number == 0 else "")
            y = scale * way.product(whole, weight)
        elif way.scaled and layer.scales is not None and layer.whole is not None:
            y = way.product(x, layer.whole) * layer.scales
        else:
            y = way.product(x, weight)
        x = np.maximum(y + bias, 0).astype(np.float32)
    return x[::-1] if way.fault == "rows" else x


def draw(generator: np.random.Generator, width: int) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Inputs [ROWS, K] and float32 weights [K, K] with their biases."""
    drawn = []
    for _ in range(LAYERS):
        weight = generator.standard_normal((width, width), np.float32) * np.float32(np.sqrt(2 / width))
        drawn.append((weight, generator.standard_normal(width, np.float32) * np.float32(0.1)))
    return generator.standard_normal((ROWS, width), np.float32), drawn


def stored(weight: np.ndarray, bias: np.ndarray, name: str, fault: str = "") -> Layer:
    """A layer whose weight is encoded and decoded again."""
    groups = name == "int4_weight" and len(weight) % 32 == 0
    encoding = INT4[32].along(0) if groups else INT8_CHANNEL.along(1)
    components = encoding.encode(weight)
    if fault == "scale":
        scale = components["scale"].copy()
        scale[0] = np.roll(scale, 1, axis=0)[0] if groups else scale[1]
        components = {**components, "scale": scale}
    decoded = encoding.decode(components, "float32")
    if fault == "truncated":
        spread = encoding.decode({**components, "data": _ones(components["data"], groups)}, "float32")
        decoded = np.trunc(weight / spread) * spread
    whole = None if groups else encoding.integers(components).astype(np.float32)
    return Layer(decoded, bias, decoded.astype(np.float64), None if groups else components["scale"], whole)


def _ones(data: np.ndarray, pairs: bool) -> np.ndarray:
    """Stored integers that are all 1."""
    return np.full_like(data, 0x11 if pairs else 1)


def error(output: np.ndarray, exact: np.ndarray) -> float:
    """Relative error, as `suites.harness.judge.verify.compare` has it."""
    return float(np.linalg.norm(output.astype(np.float64) - exact) / np.linalg.norm(exact))


def bound(name: str, eager: float) -> float:
    """The error that the harness allows where eager's own is `eager`."""
    return Reference([np.zeros(1)], [NAMES.get(name, "float32")], [eager], None, PRECISIONS[name].rule).tolerance(0)


def trial_rounded(name: str, width: int, seed: int, found: Found) -> None:
    """One network in fp32, bf16 or fp16."""
    kind = TYPES.get(name, np.float32)
    x, drawn = draw(np.random.default_rng(seed), width)
    narrow = [tuple(one.astype(kind).astype(np.float32) for one in pair) for pair in drawn]
    layers = [Layer(weight, bias, weight.astype(np.float64)) for weight, bias in narrow]
    x = x.astype(kind).astype(np.float32)
    exact = exact_outputs(x, layers)
    found.eager.append(error(float_outputs(x, layers, EAGER, kind), exact))
    found.bounds.append(bound(name, found.eager[-1]))
    for ways, errors in ((RIGHT, found.right), (FAULTS, found.faults)):
        for label, way in ways.items():
            if name == "fp32" and (way.narrow or way.rounds != "nearest"):
                continue
            errors.setdefault(label, []).append(error(float_outputs(x, layers, way, kind), exact))


def trial_stored(name: str, width: int, seed: int, found: Found) -> None:
    """One network with quantised weights."""
    dynamic = name == "int8_dynamic"
    x, drawn = draw(np.random.default_rng(seed), width)
    layers = [stored(weight, bias, name) for weight, bias in drawn]
    exact = exact_outputs(x, layers, dynamic=dynamic)
    # Without quantised activations: eager takes the integers of the float64 run, so its error is that of sums alone.
    found.eager.append(error(stored_outputs(x, layers, EAGER, dynamic=False), exact_outputs(x, layers)))
    found.bounds.append(bound(name, found.eager[-1]))
    for ways, errors in ((STORED_RIGHT, found.right), (DYNAMIC_FAULTS if dynamic else STORED_FAULTS, found.faults)):
        for label, way in ways.items():
            used = layers
            if way.fault in ("scale", "truncated"):
                used = [stored(*drawn[0], name, way.fault), *layers[1:]]
            elif way.fault == "unquantised":
                used = [replace(layers[0], weight=drawn[0][0]), *layers[1:]]
            errors.setdefault(label, []).append(error(stored_outputs(x, used, way, dynamic=dynamic), exact))


def simulate(name: str, width: int, trials: int) -> Found:
    """All trials of one precision and width."""
    found = Found()
    one = trial_stored if PRECISIONS[name].kind == "quantised" else trial_rounded
    for seed in range(trials):
        one(name, width, seed, found)
    return found


def right_rows(results: dict[tuple[str, int], Found]) -> list[list[str]]:
    """Per precision and width: eager's error, the bound, and the right implementation that is worst."""
    rows = []
    for (name, width), found in results.items():
        ratios = {
            label: max(e / own for e, own in zip(errors, found.eager, strict=True))
            for label, errors in found.right.items()
        }
        shares = [e / b for errors in found.right.values() for e, b in zip(errors, found.bounds, strict=True)]
        worst = max(ratios, key=ratios.__getitem__)
        numbers = f"{np.median(found.eager):.1e}", f"{np.median(found.bounds):.1e}", f"{ratios[worst]:.1f}"
        rows.append([name, str(width), *numbers, worst, f"{max(shares):.2f}"])
    return rows


def fault_rows(results: dict[tuple[str, int], Found]) -> list[list[str]]:
    """Per precision and fault: the smallest error over its bound, at each width."""
    rows = []
    for name in dict.fromkeys(name for name, _ in results):
        for fault in results[name, WIDTHS[-1]].faults:
            cells = []
            for width in WIDTHS:
                found = results[name, width]
                least = min(e / b for e, b in zip(found.faults[fault], found.bounds, strict=True))
                cells.append(f"{least:.2g}" if least >= 1 else f"**{least:.2g}**")
            rows.append([name, fault, *cells])
    return rows


def main() -> None:
    """Simulate, print, and write the tables where they are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=positive, default=10, help="networks per precision and width")
    parser.add_argument(
        "--into", type=read_path, help="file with the markers <!-- tolerance --> and <!-- /tolerance -->"
    )
    arguments = parser.parse_args()
    check_page(arguments.into, "tolerance")
    results = {}
    for name in (name for name, one in PRECISIONS.items() if one.refused is None):
        for width in WIDTHS:
            results[name, width] = simulate(name, width, max(2, arguments.trials * 256 // max(width, 256)))
    columns = ["precision", "K", "eager's error", "bound", "largest over eager's", "of", "largest over the bound"]
    right = markdown.pipes([columns, *right_rows(results)])
    headings = ["precision", "fault", *(f"K = {width}" for width in WIDTHS)]
    faults = markdown.pipes([headings, *fault_rows(results)])
    heading = f"Planted faults, smallest error over the bound (at most {MOST_TOLERANCE:g} in any case)"
    text = f"Right implementations:\n\n{right}\n\n{heading}; **below 1** a fault is not seen:\n\n{faults}"
    if arguments.into is not None:
        markdown.write_between(arguments.into, "tolerance", text)
    print(text)


if __name__ == "__main__":
    guard(main, "simulate_tolerance")
