"""Tables of kernels by themselves and of the launches of a profile, from records alone."""

from __future__ import annotations

from collections.abc import Sequence

from suites.harness.present import units
from suites.harness.present.report import Paragraph, Part
from suites.harness.present.table import Table
from suites.harness.record.launches import KernelRecord, NodeRecord

KERNEL_LEGEND = (
    "Times are of one thread, the median of interleaved rounds. Of roof: the least time that the roof of the same "
    "round allows for the work of the op, over the time; where the kernel executes fewer operations than the op has, "
    "also by what it executes. FMA: multiply-adds with the instruction set of the run. vs torch and vs OpenBLAS: our "
    "speed against theirs, above 1 is faster."
)
NODE_LEGEND = (
    "One profiled call, in the order of execution. Times are core times, summed over the threads. GFLOP/s is by the "
    "operations that are executed. Of roof: the share of the roof of one core that binds the launch."
)
_ROOFS = {"compute": "FMA", "memory": "memory", None: ""}


def tabulate_kernels(lines: Sequence[KernelRecord]) -> list[dict[str, str]]:
    """A row for each kernel and size."""
    return [
        {
            "kernel": line.kernel,
            "shape": line.name,
            "time": units.seconds(line.seconds),
            "GFLOP/s": _write_rate(line.flops, line.seconds),
            "GB/s": _write_rate(line.bytes, line.seconds),
            "of roof": write_share(line),
            "vs OpenBLAS": _write_speed(line.openblas_speed),
            "vs torch": _write_speed(line.torch_speed),
        }
        for line in lines
    ]


def tabulate_nodes(lines: Sequence[NodeRecord]) -> list[dict[str, str]]:
    """A row for each launch."""
    return [
        {
            "launch": str(line.index),
            "op": line.op,
            "kernel": line.kernel,
            "output": "x".join(map(str, line.shape)) or "scalar",
            "core time": units.seconds(line.seconds),
            "of time": f"{line.time_share:.1%}",
            "GFLOP/s": _write_rate(line.executed_flops, line.seconds),
            "GB/s": _write_rate(line.bytes, line.seconds),
            "of roof": "-" if line.roof_share is None else f"{line.roof_share:.0%} {_ROOFS[line.bound]}",
            "module": line.module,
        }
        for line in lines
    ]


def write_share(line: KernelRecord) -> str:
    """The share of the roof that binds the kernel: ``105% FMA (80% executed)``."""
    if line.roof_share is None:
        return "-"
    share = f"{line.roof_share:.0%} {_ROOFS[line.bound]}"
    if line.executed_share in (None, line.roof_share):
        return share
    return f"{share} ({line.executed_share:.0%} executed)"


def describe_kernel_roofs(lines: Sequence[KernelRecord]) -> str:
    """The best roofs of all rounds, in one sentence without its end."""
    fma = max(line.peak_flops for line in lines)
    read, copy = max(line.read_bandwidth for line in lines), max(line.copy_bandwidth for line in lines)
    rates = f"{fma / 1e9:.1f} GFLOP/s of multiply-adds, {read / 1e9:.1f} GB/s of reading memory"
    return f"{lines[0].isa}: at best {rates} and {copy / 1e9:.1f} GB/s of copying it"


def describe_node_roofs(lines: Sequence[NodeRecord]) -> str:
    """The roofs of one core at the time of the profile."""
    first = lines[0]
    if not first.peak_flops:
        return "roofs of one core: not measured"
    return f"roofs of one core: {first.peak_flops / 1e9:.1f} GFLOP/s, {first.bandwidth / 1e9:.1f} GB/s"


def describe_kernels(lines: Sequence[KernelRecord]) -> list[Part]:
    """The kernels of a run below their roofs."""
    return [
        Paragraph(f"{describe_kernel_roofs(lines)}."),
        Table.of(tabulate_kernels(lines)),
        Paragraph(KERNEL_LEGEND, "dim"),
    ]


def describe_nodes(lines: Sequence[NodeRecord]) -> list[Part]:
    """The launches of each case and backend."""
    groups: dict[str, list[NodeRecord]] = {}
    for line in lines:
        groups.setdefault(f"{line.case}  {line.backend}", []).append(line)
    parts: list[Part] = []
    for title, group in groups.items():
        parts += [
            Paragraph(f"{title}; {describe_node_roofs(group)}.", "bold"),
            Table.of(tabulate_nodes(group)),
        ]
    return [*parts, Paragraph(NODE_LEGEND, "dim")]


def _write_rate(amount: float, seconds: float) -> str:
    return f"{amount / seconds / 1e9:.1f}" if amount and seconds else "-"


def _write_speed(speed: float | None) -> str:
    return "-" if speed is None else f"{speed:.2f}"
