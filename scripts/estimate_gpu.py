"""Estimates a decoder layer on a GPU from the plan of the target `triton`: bytes, FLOPs and the time that they need.

    python scripts/estimate_gpu.py [--tokens 512] [--cache 1024] [--precision bf16] [--into docs/gpu.md]

Nothing is timed, and no GPU is needed. A decoder with layers like those of Qwen3-0.6B and random weights is compiled
for the target, once for a prompt of `--tokens` tokens and once for one token with a cache that is full. Compiling plans
the launches for a GPU of 132 multiprocessors; the plan is read and not run. (`engine.compile_decoder` would run a
token, so both steps are compiled by `engine.compile`, with the module that `compile_decoder` takes.)

For each step the op table says which bytes it must read and write and how many FLOPs it has. They are divided by the
published ceilings of the GPU; the larger time is the estimate of the step. What the estimate leaves out: starts of
kernels and gaps between them, how far a kernel stays below a ceiling, the working memory of sums that several programs
share, and the level-2 cache, which may be faster than the memory that the bandwidth is of. So it is neither a
measurement nor a bound. The column "MB shared" is that working memory, which is written once and read once.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from unittest import mock

from engine import Config, dtypes
from engine import compile as compile_model
from engine.ops import TensorType
from engine.runtime.specialised import count_unchanged
from engine.targets.plan import Place, Step
from engine.targets.triton import target
from engine.targets.triton.executable import is_shared, launches_of
from engine.targets.triton.launch import Launch
from suites.cli import guard
from suites.cli.output import count
from suites.cli.scripts import check_page, positive, read_path
from suites.harness.declare.precision import PRECISIONS, convert_model
from suites.harness.present import markdown
from suites.models.qwen3 import SMALL, TINY

MARKER = "estimate"
CONFIGURATIONS = {"small": SMALL, "tiny": TINY}
MULTIPROCESSORS = 132
PLANNED_LAYERS = 3  # a first, a last and one between them, which stands for all others
MIDDLE = ".layers.1."
PRODUCTS = ("linear", "gated_linear", "matmul", "attention")
NARROW = ("bfloat16", "float16")
SOURCE = "https://www.nvidia.com/en-us/data-center/h200"


class Ceilings(NamedTuple):
    """What a GPU can do at most in a second.

    Attributes:
        bandwidth: bytes that memory moves.
        flops: operations of dense products of 16-bit numbers, on tensor cores. Those of TF32 have half of the rate.
        plain_flops: operations of float32, on the ordinary units.
    """

    bandwidth: float = 4.8e12
    flops: float = 989e12
    plain_flops: float = 67e12

    def rate(self, arithmetic: str) -> float:
        """Operations a second; ``two_tf32`` and ``three_tf32`` need two and three products of TF32 for each one."""
        shares = {"narrow": 1.0, "tf32": 0.5, "two_tf32": 0.5 / 2, "three_tf32": 0.5 / 3}
        return self.flops * shares[arithmetic] if arithmetic in shares else self.plain_flops


class Work(NamedTuple):
    """A step of the plan, and what it must do at least.

    Attributes:
        name: of its kernel.
        module: of the model that it belongs to; of a copy, that of the step before it.
        launches: in order.
        read, written: bytes.
        weights: bytes of constants among those that are read.
        shared: bytes of working memory that its launches share.
        flops: floating-point operations.
        arithmetic: of the step's products, as `Ceilings.rate` names it; ``float32`` for a step without products.
    """

    name: str
    module: str
    launches: Sequence[Launch]
    read: int
    written: int
    weights: int
    shared: int
    flops: int
    arithmetic: str

    @property
    def on_tensor_cores(self) -> bool:
        """True if the products of the step run there."""
        return self.arithmetic != "float32"

    @property
    def nbytes(self) -> int:
        """Read and written."""
        return self.read + self.written

    @property
    def is_in_middle(self) -> bool:
        """True for a step of the layer that stands for all."""
        return MIDDLE in f"{self.module}."

    def seconds(self, ceilings: Ceilings) -> tuple[float, float]:
        """What memory, and what arithmetic takes at the ceiling."""
        return self.nbytes / ceilings.bandwidth, self.flops / ceilings.rate(self.arithmetic)


def make_decoder(configuration: Mapping[str, Any], cache: int, precision: str) -> Any:
    """A decoder with random weights and `PLANNED_LAYERS` layers of the configuration, of the type of a precision."""
    from suites.models.nets.cached import CachedLM
    from suites.models.nets.causal import CausalLM, draw_vectors

    network = CausalLM("qwen3", {**configuration, "num_hidden_layers": PLANNED_LAYERS}, "sdpa").network
    draw_vectors(network)  # weights of norms that are 1 would be folded away
    return convert_model(CachedLM(network, 1, cache).eval(), precision)


def plan(decoder: Any, tokens: int, before: int, precision: str) -> list[Work]:
    """The steps for the next `tokens` tokens of a text whose first `before` tokens are in the cache."""
    import torch

    os.environ["TRITON_INTERPRET"] = "1"  # plans without a GPU
    ids = torch.zeros(1, tokens, dtype=torch.int64)
    inputs = (ids, torch.tensor([before]), torch.tensor([before + tokens]))
    with mock.patch.object(target, "INTERPRETED_MULTIPROCESSORS", MULTIPROCESSORS):
        of_weights = precision if PRECISIONS[precision].kind == "quantised" else None
        program: Any = compile_model(decoder, inputs, Config(target="triton", precision=of_weights))
        bound = program._example.executable.plan  # noqa: SLF001  # the plan is no part of the public interface
    return list(_read_steps(bound.steps))


def _read_steps(steps: Sequence[Step]) -> Iterator[Work]:
    module = ""
    for step in steps:
        written, weights = sum(map(_count_bytes, step.operands[step.n_inputs :])), 0
        flops, nbytes = 0, 2 * written  # of a copy
        if step.node is not None:
            module = step.node.source.module
            flops, nbytes = step.node.flops(), step.node.nbytes()
            if unchanged := count_unchanged(step):  # of a write in place: what is written is what is replaced
                written = 2 * written - unchanged
            nbytes -= unchanged
            weights = sum(map(_count_bytes, _find_weights(step)))
        read = nbytes - written
        planned = launches_of(step)
        launches = [one for one in planned.launches if not is_shared(step, one)]
        weights = min(weights, read)  # a lookup reads some rows of its table
        arithmetic, shared = _find_arithmetic(step), planned.scratch_bytes
        yield Work(step.kernel.name, module, launches, read, written, weights, shared, flops, arithmetic)


def _count_bytes(place: Place | None) -> int:
    return 0 if place is None else TensorType(place.dtype, place.layout.shape).nbytes


def _find_weights(step: Step) -> Iterator[Place]:
    """The constants that a step reads, with their scales, and without indices."""
    for position, place in enumerate(step.operands[: step.n_inputs]):
        if place is None or place.storage.kind != "constant":
            continue
        if position in step.encoded or dtypes.dtype(place.dtype).kind == "float":
            yield place


def _find_arithmetic(step: Step) -> str:
    """How products of a step that are multiplied in blocks are computed; ``float32`` for other steps."""
    if step.op not in PRODUCTS or step.kernel.variant == "vector":
        return "float32"
    arguments = launches_of(step).launches[0].arguments
    multiplied, second = arguments.get("TYPE"), step.operands[1]
    if multiplied is None:  # attention
        is_narrow = second is not None and second.dtype in NARROW
    else:
        is_narrow = multiplied.primitive_bitwidth == 16
    return (
        "narrow"
        if is_narrow
        else {"ieee": "float32", "tf32x3": "three_tf32"}.get(arguments["PRECISION"], arguments["PRECISION"])
    )


# --- the table -------------------------------------------------------------------------------------------------------


def sum_up(works: Sequence[Work], ceilings: Ceilings) -> tuple[int, int, float]:
    """Bytes, FLOPs and seconds of some steps, one after the other."""
    return (
        sum(work.nbytes for work in works),
        sum(work.flops for work in works),
        sum(max(work.seconds(ceilings)) for work in works),
    )


def _write(value: float, decimals: int) -> str:
    """A number with so many decimals; one above 0 that these would make 0, with two digits."""
    text = f"{value:,.{decimals}f}"
    return text if value == 0 or text.strip("0.") else f"{value:.2g}"


def _write_lines(works: Sequence[Work], ceilings: Ceilings) -> Iterator[Sequence[str]]:
    for work in works:
        memory, arithmetic = work.seconds(ceilings)
        limit = "memory" if memory >= arithmetic else "tensor cores" if work.on_tensor_cores else "float32 units"
        facts = [
            _write(work.read / 1e6, 3),
            _write(work.written / 1e6, 3),
            _write(work.shared / 1e6, 3) if work.shared else "",
            _write(work.flops / 1e9, 3),
            _write(1e6 * max(memory, arithmetic), 2),
            limit,
        ]
        for launch in work.launches:
            grid = " x ".join(map(str, launch.grid))
            yield (work.name, f"`{launch.function.fn.__name__}`", grid, *facts)
            facts = [""] * len(facts)


def write_table(works: Sequence[Work], layers: int, tokens: int, ceilings: Ceilings) -> str:
    """The launches of one layer, and sums of the layer and of the model, in Markdown."""
    heading = ("kernel", "function", "grid", "MB read", "MB written", "MB shared", "GFLOP", "us", "limited by")
    layer = [work for work in works if work.is_in_middle]
    one, planned = sum_up(layer, ceilings), sum_up(works, ceilings)
    nbytes, flops, seconds = (
        whole + (layers - PLANNED_LAYERS) * part for whole, part in zip(planned, one, strict=True)
    )
    weights = sum(work.weights for work in layer)
    launches = count(sum(len(work.launches) for work in layer), "launch", "es")
    of_layer = (
        f"One layer: {launches}, {_write(one[0] / 1e6, 2)} MB ({_write(weights / 1e6, 2)} MB of them weights), "
        f"{_write(one[1] / 1e9, 2)} GFLOP, {_write(1e6 * one[2], 1)} us."
    )
    of_model = (
        f"The model ({layers} layers, embedding, angles, last norm and head): {_write(nbytes / 1e6, 0)} MB, "
        f"{_write(flops / 1e9, 1)} GFLOP, {_write(1e6 * seconds, 0)} us; for each token "
        f"{_write(1e6 * seconds / tokens, 2)} us."
    )
    table = markdown.pipes([heading, *_write_lines(layer, ceilings)], "lllrrrrr")
    return f"{table}\n\n{of_layer}\n\n{of_model}"


def write_estimate(
    configuration: Mapping[str, Any], tokens: int, cache: int, precision: str, ceilings: Ceilings
) -> str:
    """Both tables, with what they are."""
    decoder, layers = make_decoder(configuration, cache, precision), configuration["num_hidden_layers"]
    rates = (ceilings.bandwidth / 1e12, ceilings.flops / 1e12, ceilings.plain_flops / 1e12)
    types = PRECISIONS[precision]
    what = "a model of float32" if types.dtype is None else f"a model of {types.dtype}"
    if types.kind == "quantised":
        what += f" with {precision} weights"
    label = (
        f"**ESTIMATE, not a measurement.** Ceilings: {rates[0]:g} TB/s, {rates[1]:g} TFLOP/s of products of 16-bit "
        f"numbers, half of it of TF32, and {rates[2]:g} TFLOP/s of float32. By default they are those that NVIDIA "
        f"publishes for the H200 ({SOURCE}; for products, half of the rate with sparsity). Planned for "
        f"{MULTIPROCESSORS} multiprocessors and {what}. The cache has the type of the model. The numbers of a step are "
        "in the row of its first launch."
    )
    prompt = write_table(plan(decoder, tokens, 0, precision), layers, tokens, ceilings)
    token = write_table(plan(decoder, 1, cache - 1, precision), layers, 1, ceilings)
    of_prompt = f"**Prefill of {tokens} tokens**, with a cache for {cache} tokens:"
    return "\n\n".join((label, of_prompt, prompt, f"**Decode of one token**, the last of {cache}:", token))


def _rate(text: str) -> float:
    """An argument in units of 10^12."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return value * 1e12


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configuration", choices=CONFIGURATIONS, default="small", help="small: Qwen3-0.6B")
    parser.add_argument("--tokens", type=positive, default=512, help="of the prompt")
    parser.add_argument("--cache", type=positive, default=1024, help="tokens that the cache holds")
    parser.add_argument(
        "--precision", choices=("fp32", "bf16", "fp16", "int8_weight"), default="bf16", help="as in a case of run"
    )
    parser.add_argument("--bandwidth", type=_rate, default=Ceilings().bandwidth, help="of memory, TB/s")
    parser.add_argument("--flops", type=_rate, default=Ceilings().flops, help="of products of 16 bits, TFLOP/s")
    parser.add_argument("--plain-flops", type=_rate, default=Ceilings().plain_flops, help="of float32, TFLOP/s")
    parser.add_argument("--into", type=read_path, help=f"write the tables between the markers {MARKER} of this file")
    arguments = parser.parse_args()
    if not 2 <= arguments.tokens <= arguments.cache:
        parser.error("--tokens: expected at least 2, and at most as many as --cache")
    check_page(arguments.into, MARKER)
    return arguments


def main() -> None:
    """Prints both tables, or writes them to a page."""
    given = _read_arguments()
    ceilings = Ceilings(given.bandwidth, given.flops, given.plain_flops)
    text = write_estimate(CONFIGURATIONS[given.configuration], given.tokens, given.cache, given.precision, ceilings)
    if given.into:
        markdown.write_between(given.into, MARKER, text)
    else:
        print(text)


if __name__ == "__main__":
    guard(main, "estimate_gpu")
