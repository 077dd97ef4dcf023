"""How near each kernel comes to the roof, by size and instruction set, and its time beside torch and OpenBLAS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from suites.harness.present.launches import KERNEL_LEGEND, describe_kernel_roofs, tabulate_kernels
from suites.harness.record import lookup
from suites.harness.record.launches import KernelRecord
from suites.harness.record.store import Run
from suites.site.entries import describe_machines
from suites.site.page import Page, Site
from suites.site.places import describe_run

NAME = "kernels"


def describe(site: Site) -> Iterator[Page]:
    """The page."""
    chosen = _choose_runs(site)
    yield Page(
        name=NAME,
        title="How near the roof are the kernels?",
        template="kernels.html",
        data={
            "groups": [_describe_run(run, isa, lines) for run, isa, lines in chosen],
            "machines": describe_machines(site, {run.environment.machine for run, _, _ in chosen}),
        },
        tables={"kernels": [row for run, _, lines in chosen for row in _list_numbers(run, lines)]},
        texts={"empty": not chosen, "legend": KERNEL_LEGEND},
    )


def _choose_runs(site: Site) -> list[tuple[Run, str, list[KernelRecord]]]:
    """The newest run of every instruction set on every machine, newest first.

    A run that measured only some kernels is chosen if there is no other one.
    """
    found: dict[tuple[str, str], tuple[bool, Run, list[KernelRecord]]] = {}
    for run in sorted(site.collection.runs, key=lambda run: run.name):
        is_whole = "--filter" not in (run.environment.plan.options or ())
        lines: dict[str, list[KernelRecord]] = {}
        if lookup.get_launch_kind(run) is KernelRecord:
            for line in run.of(KernelRecord):
                lines.setdefault(line.isa, []).append(line)
        for isa, members in lines.items():
            key = run.environment.machine, isa
            if key not in found or is_whole or not found[key][0]:
                found[key] = is_whole, run, members
    chosen = [(run, isa, lines) for (_, isa), (_, run, lines) in found.items()]
    return sorted(chosen, key=lambda one: one[0].name, reverse=True)


def _describe_run(run: Run, isa: str, lines: Sequence[KernelRecord]) -> dict[str, Any]:
    return {
        **describe_run(run),
        "isa": isa,
        "roofs": describe_kernel_roofs(lines),
        "rows": [
            {
                "op": line.op,
                "name": line.name,
                "kernel": line.kernel,
                "seconds": line.seconds,
                "flops": line.flops,
                "bytes": line.bytes,
                "bound": line.bound,
                "share": line.roof_share,
                "executed": line.executed_share,
                "torch": line.torch_speed,
                "openblas": line.openblas_speed,
                "cells": cells,
            }
            for line, cells in zip(lines, tabulate_kernels(lines), strict=True)
        ],
    }


def _list_numbers(run: Run, lines: Sequence[KernelRecord]) -> Iterator[Mapping[str, Any]]:
    for line in lines:
        yield {"machine": run.environment.machine, "run": run.name, **line.model_dump(exclude={"kind"})}
