"""Tables of single operations beside eager PyTorch, from records alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from suites.harness.present import units
from suites.harness.present.report import Paragraph, Part
from suites.harness.present.table import Table
from suites.harness.record.launches import OperationRecord
from suites.harness.record.schema import Speed

SLOW = 1 / 1.25
"""Below this speed a case is slow."""
WORST = 40
"""Cases in the table."""
LEGEND = (
    "Speed of the engine against eager PyTorch in one process, with the 95% interval of its rounds; above 1 the engine "
    "is faster. Times are of one thread, the median of interleaved rounds. Of roof: the least time that a copy of as "
    "many bytes, or the multiply-adds at the peak of one core, take, over the time. Below half of it, blame names "
    "the decomposition (the launches move or compute more than the case needs), the kernel of the longest launch, or "
    "the call. Kernels promise a share of their roof in csrc/kernels.inc."
)


def describe_operations(lines: Sequence[OperationRecord]) -> list[Part]:
    """The families, the slowest cases, and those that were not timed."""
    timed = sort_worst_first(lines)
    slow = sum((line.speed or 0) < SLOW for line in timed)
    means = [_mean([line.speed for line in group if line.speed]) for group in group_families(timed).values()]
    text = f"{len(timed)} operations are timed; {slow} of them run at less than {SLOW:g} of eager's speed."
    parts: list[Part] = [
        Paragraph(f"{text} Mean over families: {units.times(_mean(means))}." if means else text, "bold"),
        Table.of([tabulate_family(name, group) for name, group in group_families(lines).items()]),
    ]
    if timed:
        parts += [Paragraph(f"The slowest {min(WORST, len(timed))}:"), Table.of(tabulate_operations(timed[:WORST]))]
    parts += [
        Paragraph(f"{line.family}: {line.name} {', '.join(line.operands)}: {line.problem}", is_note=True)
        for line in lines
        if line.problem is not None
    ]
    lapses = [f"{lapse} in {line.family}: {line.name}" for line in lines for lapse in line.lapses]
    if lapses:
        parts.append(
            Paragraph(
                f"Launches below half of the share that their kernels promise: {'; '.join(lapses)}.", is_note=True
            )
        )
    return [*parts, Paragraph(LEGEND, "dim")]


def sort_worst_first(lines: Sequence[OperationRecord]) -> list[OperationRecord]:
    """Those that were timed."""
    return sorted((line for line in lines if line.speed is not None), key=lambda line: line.speed or 0.0)


def group_families(lines: Sequence[OperationRecord]) -> dict[str, list[OperationRecord]]:
    """Family -> its cases."""
    groups: dict[str, list[OperationRecord]] = {}
    for line in lines:
        groups.setdefault(line.family, []).append(line)
    return groups


def tabulate_family(name: str, lines: Sequence[OperationRecord]) -> dict[str, str]:
    """A row: how many cases, their geometric mean, how many are slow, how many have no time."""
    speeds = [line.speed for line in lines if line.speed is not None]
    return {
        "family": name,
        "cases": str(len(lines)),
        "mean speed": units.times(_mean(speeds)) if speeds else "-",
        f"below {SLOW:g}x": str(sum(speed < SLOW for speed in speeds)),
        "below 0.5x": str(sum(speed < 0.5 for speed in speeds)),
        "not timed": str(len(lines) - len(speeds)),
    }


def tabulate_operations(lines: Sequence[OperationRecord]) -> list[dict[str, str]]:
    """A row for each case that was timed."""
    has_compile = any(line.compile_speed is not None for line in lines)
    return [
        {
            "operation": f"{line.family}: {line.name}",
            "speed": _write_speed(line),
            "time": units.seconds(line.seconds),
            "eager": units.seconds(line.eager_seconds),
            **({"torch.compile": _write_compile(line)} if has_compile else {}),
            "of roof": "-" if line.roof_share is None else f"{line.roof_share:.0%}",
            "blame": line.blame or "",
            "kernel": line.kernel or "",
            "operands": ", ".join(line.operands),
        }
        for line in lines
    ]


def _write_speed(line: OperationRecord) -> str:
    speed = Speed(line.speed or 0.0, line.speed_low or 0.0, line.speed_high or 0.0)
    return f"{units.times(speed.value)} {units.interval(speed)}"


def _write_compile(line: OperationRecord) -> str:
    return "-" if line.compile_speed is None else units.times(line.compile_speed)


def _mean(speeds: Sequence[float | None]) -> float:
    return math.exp(statistics.fmean(math.log(speed) for speed in speeds if speed))
