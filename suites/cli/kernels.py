"""``enginebench kernels``: the C kernels by themselves, or single operations beside eager PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

import engine
from engine import targets
from suites.cli import show
from suites.cli.output import JsonFlag, ResultsOption
from suites.harness.errors import UsageError
from suites.harness.measure import roofs
from suites.harness.present.launches import tabulate_kernels
from suites.harness.present.operations import tabulate_operations
from suites.harness.record import store
from suites.harness.run import launches

ISA = "avx512"
SUITE = "kernels"
SWEEP = "operations"
"""Suites of the runs."""


def command(
    isa: Annotated[
        str | None,
        typer.Option(
            help="Instruction set, a row of csrc/isas.txt.", show_default=f"{ISA}; with --sweep that of this machine"
        ),
    ] = None,
    part: Annotated[
        str, typer.Option("--filter", metavar="TEXT", help="Only kernels or operations whose name contains this.")
    ] = "",
    is_sweep: Annotated[
        bool, typer.Option("--sweep", help="Time single operations by the engine beside eager PyTorch, worst first.")
    ] = False,
    compiles: Annotated[
        bool, typer.Option("--compile", help="With --sweep: time the worst 40 with torch.compile, too.")
    ] = False,
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Time each C kernel at the sizes of its test program, beside OpenBLAS, torch and the roof, and store the times.

    Builds the C test program of a checkout. With --sweep, time the operations of suites/operations instead, as models
    would call them. The results site has a page of the newest run of each kind.
    """
    folder = store.results_folder(results)
    path = _sweep(isa, part, folder, compiles=compiles) if is_sweep else _measure(isa or ISA, part, folder)
    show.show_run(store.read(path), as_json=as_json)


def _measure(isa: str, part: str, folder: Path) -> Path:
    """The record of the kernels of an instruction set."""
    engine.Config(isa=isa)  # refuses an unknown name before the kernels are built
    if not any(part in one.name for one in targets.get("cpu").kernels() if one.isa in (isa, "generic")):
        raise UsageError(f"--filter {part!r}: no kernel of {isa} has this in its name")
    from suites.harness.measure import kernels  # here, because it imports torch, as few commands do

    text = "each kernel at the sizes that its test program times, beside torch and OpenBLAS"
    plan = launches.make_plan(SUITE, text, "torch", _list_options(isa, part), kernels.ROUNDS)
    new = launches.begin(folder, plan, 1, roofs.measure)
    lines = []
    for line in kernels.measure(isa, part):
        _print_row(tabulate_kernels([line])[0])
        lines.append(line)
    if not lines:
        raise UsageError(f"this machine runs no kernel of {isa} whose name contains {part!r}")
    return new.write(lines)


def _sweep(isa: str | None, part: str, folder: Path, *, compiles: bool) -> Path:
    """The record of the operations."""
    from suites import operations as cases  # these import torch, too
    from suites.harness.run import operations

    chosen = cases.list_operations(part)
    if not chosen:
        raise UsageError(f"--filter {part!r}: no operation has this in its name")
    config = engine.Config(threads=1, isa=isa)
    text = "single operations at the sizes of models, by the engine and by eager PyTorch"
    plan = launches.make_plan(SWEEP, text, "eager", _list_options(isa, part), operations.ROUNDS)
    new = launches.begin(folder, plan, 1, roofs.measure)
    lines = []
    for operation in chosen:
        line = operations.measure(operation, config)
        lines.append(line)
        _print_row({"": operation.title, "problem": line.problem} if line.problem else tabulate_operations([line])[0])
    if compiles:
        lines = operations.add_compiled(chosen, lines)
    return new.write(lines)


def _list_options(isa: str | None, part: str) -> list[str]:
    return [*(["--isa", isa] if isa else []), *(["--filter", part] if part else [])]


def _print_row(row: Mapping[str, str]) -> None:
    print("  ".join(row.values()), file=sys.stderr, flush=True)
