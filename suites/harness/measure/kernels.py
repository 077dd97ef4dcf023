"""Times the C kernels beside OpenBLAS and torch at the same shapes, on one thread.

Builds the C test program, which has the kernels and the list of cases (tests/kernels/cases.c), and goes through the
timed ones in rounds: each kernel, OpenBLAS, then torch, and again. Time is the thread's own on its core, so that
processes that push it aside do not count; the median round counts. What is timed has just run once: operands lie in
the caches that hold them. The roof of a case is what binds it: multiply-adds with the kernel's instruction set for
products (of bfloat16 where the instruction set adds those), memory for operands of 60 MB and more; others have none.
Memory allows no less time than reading what is read takes, nor than moving all bytes at the better rate of
reading and of copying past the caches: a core that both reads and writes moves more than one that reads. Roofs are
measured in each round, since a neighbour on the machine takes memory from them and from the kernels alike; a share is
the median over the rounds.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal, NamedTuple

import scipy_openblas32
import torch

from suites.harness.errors import UsageError
from suites.harness.measure.kernel_peers import PRODUCTS, Case, torch_timer
from suites.harness.record import machine
from suites.harness.record.launches import KernelRecord

ROUNDS = 9
BEYOND_CACHES = 60e6  # bytes of operands


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


def measure(isa: str, part: str) -> Iterator[KernelRecord]:
    """A line for each kernel of an instruction set whose name contains `part`, and for each of its sizes.

    Raises:
        UsageError: there is no checkout to build the kernels from, or no cmake.
    """
    torch.set_num_threads(1)
    _keep_memory()
    library = str(next(Path(scipy_openblas32.get_lib_dir()).glob("libscipy_openblas*")))
    environment = {**os.environ, "KERNELS_OPENBLAS": library, "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [str(build_program(folder)), "bench", isa, part]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stdin is not None  # noqa: S101  # asked for above
            assert process.stdout is not None  # noqa: S101  # as above
            while text := process.stdout.readline().rstrip("\n"):
                case = Case.parse(text)
                yield from _list_lines(case, isa, *_time_rounds(case, process.stdin, process.stdout))


def build_program(folder: str) -> Path:
    """The C test program, built in `folder`."""
    root = machine.checkout()
    cmake = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
    if root is None or cmake is None:
        raise UsageError("kernels are built from csrc/ with cmake: this needs a git checkout, and cmake")
    for command in (
        [cmake, "-S", str(root), "-B", folder, "-DENGINE_PYTHON=OFF", "-DENGINE_TESTS=ON"],
        [cmake, "--build", folder, "-j", "2", "--target", "test_kernels"],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Path(folder) / "tests" / "kernels" / "test_kernels"


def _keep_memory() -> None:
    """Let the allocator keep what it frees (glibc): our outputs have their pages, so torch's results shall too."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        m_trim_threshold, m_mmap_max = -1, -4
        library.mallopt(m_mmap_max, 0)
        library.mallopt(m_trim_threshold, (1 << 31) - 1)


def _time_rounds(case: Case, asked: IO[str], answers: IO[str]) -> tuple[Roofs, dict[str, Times]]:
    """The best roofs, and times by kernel's name and by "torch"; the test program reads `asked`, writes `answers`."""
    measured: dict[str, list[tuple[float, float, float]]] = {}
    other, best = torch_timer(case), Roofs()
    for _ in range(ROUNDS):
        print("go", file=asked, flush=True)
        line = answers.readline().split("\t")[1:]
        now = Roofs(*map(float, line[:3]))
        best, (_, least) = best.best(now), now.of(case)
        ours = zip(line[3::3], map(float, line[4::3]), map(float, line[5::3]), strict=True)
        for name, seconds, executed in [*ours, ("torch", other(), 0.0)]:
            share = executed / case.flops if executed else 1.0
            measured.setdefault(name, []).append((seconds, least / seconds, share))
    print(file=asked, flush=True)
    return best, {name: Times(*map(statistics.median, zip(*pairs, strict=True))) for name, pairs in measured.items()}


def _list_lines(case: Case, isa: str, best: Roofs, times: dict[str, Times]) -> Iterator[KernelRecord]:
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
            torch_speed=times["torch"].seconds / seconds,
            openblas_speed=openblas.seconds / seconds if openblas else None,
            peak_flops=best.fma,
            read_bandwidth=best.read,
            copy_bandwidth=best.copy,
        )
