"""Compares the errors of other quantisation schemes with that of the precision's own scheme.

`OWN_FACTOR` and `OWN_ACTIVATIONS_FACTOR` of `suites.harness.judge.verify` come from this script. It prints one row for
each backend with a scheme of its own that can run the model here, and one for each fault that is injected into one
layer of the model, quantised as int8_weight defines. The ratio is the error of an output over the largest error of the
precision's own scheme in the same call; the row has the largest ratio. A fault is detected if it exceeds the factor.

    python -m tools.compare_schemes [MODEL]
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.encodings import INT8_CHANNEL
from suites import backends, models
from suites.backends.base import to_numpy
from suites.cli import guard
from suites.cli.scripts import make_parser
from suites.harness.declare.case import BackendRef, Case
from suites.harness.errors import Refused
from suites.harness.judge import reference
from suites.harness.judge.verify import Reference, compare
from suites.harness.measure.job import Job
from suites.harness.record import outputs

SEEDS = 4
"""Input sets, as many as the harness verifies with."""
CASES: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "mlp": ({"batch": 4}, {"widths": "256-1024-256"}),
    "minilm": ({"batch": 1, "sequence": 128}, {}),
    "bert": ({"batch": 1, "sequence": 128}, {}),
    "stories15m": ({"batch": 1, "sequence": 64}, {"phase": "decode", "steps": 4}),
    "smollm2": ({"batch": 1, "sequence": 64}, {"phase": "decode", "steps": 4}),
    "gpt2-tiny": ({"batch": 1, "sequence": 32}, {"phase": "decode", "steps": 4}),
    "qwen3-tiny": ({"batch": 1, "sequence": 32}, {"phase": "decode", "steps": 4}),
}
NAMES = ("torchao", "llama_cpp", "onnxruntime", "onnxruntime_dynamic", "openvino", "torch_compile")
Fault = Callable[[torch.Tensor], object]


def double_step(weight: torch.Tensor) -> None:
    """Weights of 7 bits in place of 8."""
    scale = weight.abs().amax(1, keepdim=True) / 63
    weight.copy_((weight / scale).round() * scale)


FAULTS: dict[str, Fault] = {
    "a scale off by 5%": lambda weight: weight.mul_(1.05),
    "two rows exchanged": lambda weight: weight[:2].copy_(weight[:2].flip(0).clone()),
    "rows moved by one": lambda weight: weight.copy_(weight.roll(1, 0).clone()),
    "scales moved by one row": lambda weight: weight.mul_(
        weight.abs().amax(1, keepdim=True).roll(1, 0) / weight.abs().amax(1, keepdim=True)
    ),
    "a row of zeros": lambda weight: weight[0].zero_(),
    "7 bits": double_step,
}


def main() -> None:
    """Print one line a model and scheme, then one a model and fault."""
    parser = make_parser(__doc__)
    parser.add_argument("model", nargs="?", choices=[*CASES], help="default: all")
    given = parser.parse_args().model
    print("| model | precision | error as defined | scheme | ratio |\n| --- | --- | --- | --- | --- |")
    for name in [given] if given else CASES:
        for precision in ("int8_weight", "int8_dynamic"):
            options = CASES[name][1] if precision == "int8_weight" else {}  # steps have no fixed scales of activations
            case = Case(name, CASES[name][0], precision=precision, options=options)
            known = reference.compute(case, SEEDS)
            error = max(map(max, map(own_errors, known)))
            for other in NAMES:
                print(f"| {name} | {precision} | {error:.2e} | {other} | {measure(case, other, known)} |", flush=True)
            for fault, change in FAULTS.items() if precision == "int8_weight" else ():
                ratio = largest_ratio(plant(case, change), known)
                print(f"| {name} | {precision} | {error:.2e} | {fault} | {ratio:.2f} |", flush=True)


def measure(case: Case, name: str, known: Sequence[Reference]) -> str:
    """The ratio of a backend, or why there is none."""
    ref = BackendRef(name)
    try:
        if reason := backends.unavailable(ref) or backends.unable(ref, case):
            return reason
        return f"{largest_ratio(run(case, ref), known):.2f}"
    except Refused as refused:
        return str(refused)


def own_errors(one: Reference) -> list[float]:
    """Errors of the model that is quantised as the precision defines, one for each output."""
    plain = one.unquantised or ()
    return [compare(mine, other).relative for mine, other in zip(one.outputs, plain, strict=True)]


def largest_ratio(results: Sequence[Sequence[np.ndarray]], known: Sequence[Reference]) -> float:
    """The largest error of an output over the largest one of the reference in the same call."""
    return max(
        compare(output, plain).relative / max(own_errors(one))
        for result, one in zip(results, known, strict=True)
        for output, plain in zip(result, one.unquantised or (), strict=True)
    )


def run(case: Case, ref: BackendRef) -> list[list[np.ndarray]]:
    """The outputs of a backend for each input set."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(case, ref, Path(folder))
        job.load()
        job.prepare()
        return [list(outputs.read(Path(folder) / file)[0]) for file in job.verify()["files"]]


def plant(case: Case, change: Fault) -> list[list[np.ndarray]]:
    """The outputs of the model quantised as int8_weight defines, with a fault in the middle one of its layers."""
    from transformers.pytorch_utils import Conv1D

    spec = models.get(case.model)
    model, _ = spec.build(**case.build_arguments)
    layers = [one for one in model.modules() if isinstance(one, torch.nn.Linear | torch.nn.Embedding | Conv1D)]
    weights: dict[int, torch.Tensor] = {}
    for layer in layers:
        weight = layer.weight.data
        weights.setdefault(weight.data_ptr(), weight.t() if isinstance(layer, Conv1D) else weight)
    for weight in weights.values():  # rows are output channels
        encoding = INT8_CHANNEL.along(0)
        decoded = encoding.decode(encoding.encode(to_numpy(weight)), "float32")
        weight.copy_(torch.from_numpy(np.ascontiguousarray(decoded)))
    products = [one for one in layers if not isinstance(one, torch.nn.Embedding)]
    middle = products[len(products) // 2]
    change(middle.weight.data.t() if isinstance(middle, Conv1D) else middle.weight.data)
    sets = [spec.inputs(seed, **case.build_arguments) for seed in range(SEEDS)]
    return [[to_numpy(one) for one in reference.outputs_of(model, inputs)] for inputs in sets]


if __name__ == "__main__":
    guard(main, "compare_schemes")
