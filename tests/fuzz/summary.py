"""What a run of the fuzzer covered, as text: a line of progress, a table, a list of findings."""

from __future__ import annotations

from pathlib import Path

from engine.ops import TABLE
from engine.targets.cpu import native
from tests.fuzz import extremes, samples
from tests.fuzz.campaign import Results

_ACCEPTED = ("bound", "ran", "failed", "refused call")


def line(results: Results) -> str:
    """One line of progress."""
    ran = sum(count for (_, stage), count in results.stages.items() if stage == "ran")
    return (
        f"{results.seconds:6.0f} s: {results.programs} programs, {ran} ran, {len(results.findings)} different findings"
    )


def table(results: Results) -> str:
    """What was covered, as a table in Markdown."""
    available = {kernel.name for rows in native.kernels_for(None).values() for kernel in rows}
    valid = results.ops.get("valid", set())
    mutated = set().union(*(ops for kind, ops in results.ops.items() if kind in ("attribute", "structure")))
    rows = [
        ("time", f"{results.seconds / 60:.1f} minutes"),
        ("programs", f"{results.programs:,}"),
        *((f"{kind} programs", _stages(results, kind)) for kind in ("valid", "attribute", "structure", "bytes")),
        ("ops in valid programs", f"{len(valid)} of {len(samples.OPS)}"),
        ("ops in changed programs", f"{len(mutated)} of {len(TABLE)}"),
        ("extremes of attributes tried", f"{len(results.extremes):,} of {len(extremes.ALL):,}"),
        ("of them accepted by loading", f"{len(results.accepted_extremes):,}"),
        ("kernels that ran", f"{len(results.kernels & available)} of {len(available)}"),
        ("findings", f"{len(results.findings)}"),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def _stages(results: Results, kind: str) -> str:
    counts = {stage: count for (of, stage), count in results.stages.items() if of == kind}
    total = sum(counts.values())
    if not total:
        return "0"
    accepted = sum(counts.get(stage, 0) for stage in _ACCEPTED)
    return f"{total:,}: {accepted / total:.0%} accepted, {counts.get('ran', 0) / total:.0%} ran to a result"


def findings(results: Results, folder: Path) -> str:
    """Each finding with the seeds that show it and where the first is saved."""
    lines = []
    for signature, verdicts in sorted(results.findings.items(), key=lambda item: -len(item[1])):
        first = verdicts[0]
        lines.append(f"{signature}\n    {len(verdicts)} x, {first.about.get('label', '')}, {folder / str(first.seed)}")
    return "\n".join(lines)
