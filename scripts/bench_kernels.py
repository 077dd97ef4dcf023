"""Times the C kernels against OpenBLAS and torch at the same shapes: one row a kernel and shape, one thread.

    python scripts/bench_kernels.py [--isa avx512] [--filter linear] [--markdown | --json | --into docs/kernels.md]

A run of all kernels is stored as a run of the suite `kernels`: `enginebench show last:kernels` prints it again, and the
results site has a page of it.
Builds the C test program, which has the kernels and the list of cases (tests/kernels/cases.c), and goes through the
timed ones in rounds: each kernel, OpenBLAS, then torch, and again. Time is the thread's own on its core, so that
processes that push it aside do not count; the median round is shown. What is timed has just run once: operands lie in
the caches that hold them. A row's roof is what it is bound by: multiply-adds with the kernel's instruction set for
products (of bfloat16 where the instruction set adds those), memory for operands of 64 MB and more; in between there
is none. Memory allows no less time than reading what is read takes, nor than moving all bytes at the better rate of
reading and of copying past the caches: a core that both reads and writes moves more than one that reads. Roofs are
measured in each round, since a neighbour on the machine takes memory from them and from the kernels alike; a share is
the median over the rounds.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Literal, NamedTuple

import scipy_openblas32
import torch
from torch import Tensor
from torch.nn import functional

import engine
from engine import dtypes, torch_ops
from suites.cli import guard
from suites.cli.scripts import check_page, read_path
from suites.cli.stdout import print_markdown
from suites.harness.measure import roofs
from suites.harness.present import markdown
from suites.harness.present.launches import tabulate_kernels, write_markdown
from suites.harness.record import store
from suites.harness.record.launches import KernelRecord
from suites.harness.record.schema import Plan
from suites.harness.run import launches

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 9
BEYOND_CACHES = 60e6  # bytes of operands
PRODUCTS = ("linear", "gated_linear", "matmul", "attention", "conv", "conv_transpose", "expand_depthwise")
CHANNELS_LAST = 34  # of the numbers of conv and conv_transpose: EB_INT_CONV_CHANNELS_LAST of csrc/ops.h
INDEXED = ("embedding", "index_select", "index", "gather", "scatter")  # by their second operand
POSITIVE = ("log", "pow")  # no result below 0; torch, too, is given what the test program gives itself
MARKER = "kernels {isa}"
SUITE = "kernels"


@dataclass(frozen=True)
class Case:
    """What one line `case` of the test program says."""

    op: str
    name: str
    flops: float
    read: float  # bytes
    written: float
    ints: tuple[int, ...]
    operands: tuple[str, ...]  # "f32:2,3", "bool:4" or "-"

    @classmethod
    def parse(cls, line: str) -> Case:
        """The case of a line."""
        _, op, name, flops, read, written, ints, operands = line.split("\t")
        numbers = tuple(int(i) for i in ints.split(",") if i)
        taken = written if op in INDEXED else read  # of a table as much as comes out
        return cls(
            op,
            name,
            float(flops),
            float(taken),
            float(written),
            numbers,
            tuple(filter(None, operands.strip().split(";"))),
        )

    @property
    def bytes(self) -> float:
        """Read and written."""
        return self.read + self.written


class Roofs(NamedTuple):
    """What the machine did at most in a second: multiply-adds with the kernels' instruction set, bytes read, copied."""

    fma: float = 0.0
    read: float = 0.0
    copy: float = 0.0

    def best(self, other: Roofs) -> Roofs:
        """The higher of each."""
        return Roofs(*map(max, self, other))

    def of(self, case: Case) -> tuple[Literal["compute", "memory"] | None, float]:
        """(which roof binds the case, the least seconds that it allows); (None, 0) where none is known."""
        if case.bytes >= BEYOND_CACHES:
            return "memory", max(case.read / self.read, case.bytes / max(self.read, self.copy))
        return ("compute", case.flops / self.fma) if case.op in PRODUCTS and self.fma else (None, 0.0)


class Times(NamedTuple):
    """Median over the rounds: the seconds, and the share of the roof; what part of the op's FLOPs was executed."""

    seconds: float
    share: float
    executed: float = 1.0


def list_kernels(isa: str) -> list[str]:
    """Names of the kernels that the sources may have for an instruction set, or for every machine."""
    text = (ROOT / "csrc" / "kernels.inc").read_text()
    rows = re.findall(r"^\s*EB_KERNEL\((\w+), (\w+), (\w+), (\w+)\)", text, re.MULTILINE)
    places = {"isa": isa, isa: isa, "generic": "generic"}  # "isa" is the parameter of a macro
    return [f"{types}_{op}__{places[place]}_{variant}" for types, op, place, variant in rows if place in places]


def build(folder: str) -> Path:
    """The test program, built in `folder`."""
    cmake = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
    if cmake is None:
        sys.exit("bench_kernels: cmake is not installed")
    for command in (
        [cmake, "-S", str(ROOT), "-B", folder, "-DENGINE_PYTHON=OFF", "-DENGINE_TESTS=ON"],
        [cmake, "--build", folder, "-j", "2", "--target", "test_kernels"],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Path(folder) / "tests" / "kernels" / "test_kernels"


def _linear(c: Case, x: Tensor, weight: Tensor, bias: Tensor, _residual: None, scale: Tensor | None = None) -> Tensor:
    if scale is not None:
        return torch._weight_int8pack_mm(x, weight, scale) + bias  # noqa: SLF001  # torch has no public name for it
    y = functional.linear(x, weight if c.ints[0] else weight.T, bias)
    return functional.gelu(y) if c.ints[1] else y


def _gated_linear(c: Case, x: Tensor, weight: Tensor, bias: Tensor | None, scale: Tensor | None = None) -> Tensor:
    if scale is not None:
        both = torch._weight_int8pack_mm(x, weight, scale)  # noqa: SLF001  # torch has no public name for it
    else:
        both = functional.linear(x, weight if c.ints[0] else weight.T, bias)
    gate, up = both.chunk(2, -1)
    return functional.silu(gate) * up


def _conv(c: Case, x: Tensor, weight: Tensor, bias: Tensor, _residual: None) -> Tensor:
    """Of an image as it lies, with its channels last or first; `high` equals `low`. Lists are of eight."""
    first = x.permute(0, 3, 1, 2) if c.ints[CHANNELS_LAST] else x
    groups = first.shape[1] // weight.shape[1]
    return functional.conv2d(first, weight, bias, c.ints[0:2], c.ints[8:10], groups=groups).relu_()


def _pool(c: Case, x: Tensor, function: Callable[..., Tensor]) -> Tensor:
    """Of an image as `_conv`; channels_last is the last of the numbers."""
    first = x.permute(0, 3, 1, 2) if c.ints[-1] else x
    return function(first, c.ints[0:2], c.ints[8:10], c.ints[16:18])


def _expand_depthwise(c: Case, x: Tensor, expand: Tensor, before: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """As `_conv`, twice; both with ReLU6."""
    between = functional.hardtanh_(functional.conv2d(x.permute(0, 3, 1, 2), expand[:, :, None, None], before), 0.0, 6.0)
    y = functional.conv2d(between, weight, bias, c.ints[0:2], c.ints[8:10], groups=weight.shape[0])
    return functional.hardtanh_(y, 0.0, 6.0)


def _conv_transpose(c: Case, x: Tensor, weight: Tensor, bias: Tensor, _residual: None) -> Tensor:
    """As `_conv`; what `low` has more than `high` is torch's output padding."""
    stride, low, high = c.ints[0:2], c.ints[8:10], c.ints[16:18]
    more, groups = [a - b for a, b in zip(low, high, strict=True)], c.ints[32]
    first = x.permute(0, 3, 1, 2)
    return functional.conv_transpose2d(first, weight, bias, stride, low, more, groups).relu_()


def _channels_first(x: Tensor, axis: int) -> Tensor:
    """An image that is turned along or padded at `axis`: of those cases 3 is the one with channels on axis 1."""
    return x if axis == 3 else x.permute(0, 3, 1, 2)


def _resample(c: Case, x: Tensor, index: Tensor, _weight: Tensor) -> Tensor:
    first, axis = _channels_first(x, c.ints[0]), c.ints[0]
    size = list(first.shape[2:])
    size[axis - 2 if axis == 3 else axis - 1] = index.shape[0]
    return functional.interpolate(first, size, mode="bicubic" if index.shape[1] == 4 else "bilinear")


def _pad(c: Case, x: Tensor) -> Tensor:
    """One pixel around pictures."""
    first = _channels_first(x, 3 if c.ints[3] else 1)
    return functional.pad(first, (1, 1, 1, 1), ("constant", "reflect", "replicate", "circular")[c.ints[16]])


def _matmul(c: Case, a: Tensor, b: Tensor) -> Tensor:
    return (a.mT if c.ints[0] else a) @ (b.mT if c.ints[1] else b)


def _attention(c: Case, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    grouped = q.shape[-3] != k.shape[-3]
    return functional.scaled_dot_product_attention(q, k, v, mask, is_causal=bool(c.ints[0]), enable_gqa=grouped)


def _rope(_c: Case, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    return x * cosines + torch.cat([-high, low], -1) * sines


def _selective_scan(c: Case, x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c_: Tensor, *others: Tensor) -> Tensor:
    skip, gate, bias = others
    first = [t.mT for t in (x, delta, b, c_, gate)]
    return torch_ops.selective_scan(*first[:2], a, *first[2:4], skip, first[4], bias, bool(c.ints[0]))


def _axes(c: Case, x: Tensor) -> list[int]:
    return [axis for axis in range(x.ndim) if c.ints[0] >> axis & 1]


def _sum(x: Tensor, addend: Tensor | None) -> Tensor:
    return x if addend is None else x + addend


def _created(case: Case) -> int:
    """How many int64 an op without operands writes."""
    return int(case.written) // 8


# What torch is asked for where the op has no function of the same name that takes the operands alone.
TORCH: dict[str, Callable[..., Tensor]] = {
    "linear": _linear,
    "gated_linear": _gated_linear,
    "matmul": _matmul,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "max_pool": partial(_pool, function=functional.max_pool2d),
    "avg_pool": partial(_pool, function=functional.avg_pool2d),
    "expand_depthwise": _expand_depthwise,
    "resample": _resample,
    "pad": _pad,
    "attention": _attention,
    "layer_norm": lambda _c, x, weight, bias, more: functional.layer_norm(_sum(x, more), weight.shape, weight, bias),
    "rms_norm": lambda _c, x, weight, more: functional.rms_norm(_sum(x, more), weight.shape, weight),
    "rope": _rope,
    "selective_scan": _selective_scan,
    "softmax": lambda c, x: torch.softmax(x, c.ints[0]),
    "gelu": lambda _c, x: functional.gelu(x),
    "pointwise": lambda _c, x, scale, bias, gate: torch.relu(x * scale + bias) * gate - x,
    "copy": lambda _c, x: x.clone(),
    "sum": lambda c, x: x.sum(_axes(c, x)),
    "amax": lambda c, x: x.amax(_axes(c, x)),
    "var": lambda c, x: x.var(_axes(c, x)),
    "argmax": lambda c, x: x.argmax(c.ints[0]),
    "full": lambda c: torch.full((_created(c),), 1, dtype=torch.int64),
    "arange": lambda c: torch.arange(1, _created(c) + 1),
    "embedding": lambda _c, table, ids: functional.embedding(ids, table),
    "index_select": lambda c, x, ids: x.index_select(c.ints[0], ids),
    "index": lambda _c, x, ids: x[ids],
    "gather": lambda c, x, ids: x.gather(c.ints[0], ids),
    "index_put": lambda _c, x, values, *ids: x.index_put(ids, values),
    "scatter": lambda c, x, ids, source: x.scatter(c.ints[0], ids, source),
    "cast": lambda c, x: x.to(getattr(torch, dtypes.DTYPES[c.ints[0]].name)),
}


def operand(text: str) -> Tensor | None:
    """A tensor of ordinary numbers of the dtype and shape of `text`; a mask lets everything through."""
    if text == "-":
        return None
    dtype, _, axes = text.partition(":")
    shape = [int(n) for n in axes.split(",") if n]
    if dtype == "bool":
        return torch.ones(shape, dtype=torch.bool)
    found = next(d for d in dtypes.DTYPES if d.code.lower() == dtype)
    x = torch.rand(shape) * 2 - 1
    return x.to(getattr(torch, found.name)) if found.kind == "float" else (x * 100).to(getattr(torch, found.name))


def present(found: Tensor | None) -> Tensor:
    """A tensor that the op always has."""
    if found is None:
        raise ValueError("the case lacks an operand")
    return found


def clock() -> float:
    """Seconds of this thread on a core."""
    return time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)


def keep_memory() -> None:
    """Let the allocator keep what it frees (glibc): our outputs have their pages, so torch's results shall too."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        m_trim_threshold, m_mmap_max = -1, -4
        library.mallopt(m_mmap_max, 0)
        library.mallopt(m_trim_threshold, (1 << 31) - 1)


def torch_timer(case: Case) -> Callable[[], float]:
    """A function that answers the seconds of a warm run by torch: the mean of as many as take two milliseconds."""
    operands = [operand(text) for text in case.operands]
    if case.op in ("conv", "conv_transpose") and case.ints[CHANNELS_LAST]:  # the weight, as torch wants it beside that
        operands[1] = present(operands[1]).contiguous(memory_format=torch.channels_last)
    if case.op in INDEXED:
        data, ids = present(operands[0]), present(operands[1])
        axis = case.ints[0] if case.op in ("index_select", "gather", "scatter") else 0
        operands[1] = torch.randint(data.shape[axis], ids.shape)
    if case.op == "index_put":
        sizes = present(operands[0]).shape
        operands[2:] = [torch.randint(n, present(ids).shape) for n, ids in zip(sizes, operands[2:], strict=False)]
    for name, dtype in (("bf16:", torch.bfloat16), ("f16:", torch.float16)):
        if case.op in PRODUCTS and any(text.startswith(name) for text in case.operands):
            operands = [None if x is None else x.to(dtype) for x in operands]  # torch multiplies factors of one type
    if case.op in POSITIVE:
        operands = [None if x is None else x.abs() for x in operands]
    function = TORCH.get(case.op)
    call = partial(function, case, *operands) if function else partial(getattr(torch, case.op), *operands)

    def seconds() -> float:
        repeats = 1
        with torch.inference_mode():
            call()
            while True:
                start = clock()
                for _ in range(repeats):
                    call()
                spent = clock() - start
                if spent >= 2e-3:
                    return spent / repeats
                repeats *= 2

    return seconds


def rounds(case: Case, program: subprocess.Popen[str]) -> tuple[Roofs, dict[str, Times]]:
    """The best roofs, and times by kernel's name and by "torch"."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    other, best = torch_timer(case), Roofs()
    for _ in range(ROUNDS):
        _write(program.stdin, "go\n")
        line = _read(program.stdout).split("\t")[1:]
        now = Roofs(*map(float, line[:3]))
        best, (_, least) = best.best(now), now.of(case)
        ours = zip(line[3::3], map(float, line[4::3]), map(float, line[5::3]), strict=True)
        for name, seconds, executed in [*ours, ("torch", other(), 0.0)]:
            share = executed / case.flops if executed else 1.0
            found.setdefault(name, []).append((seconds, least / seconds, share))
    _write(program.stdin, "\n")
    return best, {name: Times(*map(statistics.median, zip(*pairs, strict=True))) for name, pairs in found.items()}


def lines_of(case: Case, isa: str, best: Roofs, times: dict[str, Times]) -> Iterator[KernelRecord]:
    """A line a kernel of ours."""
    openblas = next((t for name, t in times.items() if name.endswith("_openblas")), None)
    bound, _ = Roofs(1, 1, 1).of(case)
    for name, (seconds, share, executed) in times.items():
        if name == "torch" or name.endswith("_openblas"):
            continue
        yield KernelRecord(
            op=case.op,
            name=case.name,
            kernel=name,
            isa=isa,
            seconds=seconds,
            flops=case.flops,
            bytes=case.bytes,
            bound=bound,
            roof_share=share if bound else None,
            executed_share=share * executed if bound else None,
            torch_ratio=seconds / times["torch"].seconds,
            openblas_ratio=seconds / openblas.seconds if openblas else None,
            peak_flops=best.fma,
            read_bandwidth=best.read,
            copy_bandwidth=best.copy,
        )


def measure(isa: str, part: str, program: Path) -> list[KernelRecord]:
    """All lines; each is reported on standard error as it comes."""
    library = str(next(Path(scipy_openblas32.get_lib_dir()).glob("libscipy_openblas*")))
    environment = {**os.environ, "KERNELS_OPENBLAS": library, "OPENBLAS_NUM_THREADS": "1"}
    found = list[KernelRecord]()
    with subprocess.Popen(
        [str(program), "bench", isa, part], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        while text := _read(process.stdout):
            case = Case.parse(text)
            for line in lines_of(case, isa, *rounds(case, process)):
                print("  ".join(tabulate_kernels([line])[0].values()), file=sys.stderr, flush=True)
                found.append(line)
    return found


def make_plan(isa: str, part: str) -> Plan:
    """What a run of kernels asks for."""
    options = ["--isa", isa, *(["--filter", part] if part else [])]
    text = "each kernel at the sizes that its test program times, beside torch and OpenBLAS"
    return launches.make_plan(SUITE, text, "torch", options, ROUNDS)


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", default="avx512", help="instruction set, a row of csrc/isas.txt")
    parser.add_argument("--filter", default="", help="part of a kernel's name")
    parser.add_argument(
        "--record",
        action=argparse.BooleanOptionalAction,
        help="store the run, or do not; by default a run of all kernels is stored and one with --filter is not",
    )
    parser.add_argument("--results", type=read_path, help="where runs lie, instead of results/")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--into", type=read_path, help="write the Markdown between the markers of this file")
    options = parser.parse_args()
    if options.into and options.filter:
        parser.error("--into replaces the whole table, so it needs all kernels: leave out --filter")
    engine.Config(isa=options.isa)  # refuses an unknown name before the kernels are built
    if not any(options.filter in name for name in list_kernels(options.isa)):
        parser.error(
            f"--filter {options.filter!r}: no kernel of {options.isa} in csrc/kernels.inc has this in its name"
        )
    check_page(options.into, MARKER.format(isa=options.isa))
    if options.record is None:
        options.record = not options.filter
    return options


def main() -> None:
    """Measure, store the run, then print or write the table."""
    options = read_options()
    torch.set_num_threads(1)
    keep_memory()
    plan = make_plan(options.isa, options.filter)
    new = launches.begin(store.results_folder(options.results), plan, 1, roofs.measure)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options.isa, options.filter, build(folder))
    if not found:
        named = f" whose name contains {options.filter!r}" if options.filter else ""
        sys.exit(f"bench_kernels: this machine runs no kernel of {options.isa}{named}")
    if options.record:
        print(f"stored: {new.write(found)}", file=sys.stderr)
    if options.json:
        print(json.dumps([store.to_json(line) for line in found], indent=1))
    elif options.into:
        markdown.write_between(options.into, MARKER.format(isa=options.isa), write_markdown(found, new.environment))
    elif options.markdown:
        print_markdown(write_markdown(found, new.environment))


def _write(stream: IO[str] | None, text: str) -> None:
    if stream is None:
        raise ValueError("the program has no such stream")
    stream.write(text)
    stream.flush()


def _read(stream: IO[str] | None) -> str:
    if stream is None:
        raise ValueError("the program has no such stream")
    return stream.readline().rstrip("\n")


if __name__ == "__main__":
    guard(main, "bench_kernels")
