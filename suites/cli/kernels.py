"""``enginebench kernels``: the C kernels by themselves, beside OpenBLAS, torch and the roof of the machine."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import engine
from engine import targets
from suites.cli import show
from suites.cli.output import JsonFlag, ResultsOption
from suites.harness.errors import UsageError
from suites.harness.measure import roofs
from suites.harness.present.launches import tabulate_kernels
from suites.harness.record import store
from suites.harness.run import launches

SUITE = "kernels"


def command(
    isa: Annotated[str, typer.Option(help="Instruction set, a row of csrc/isas.txt.")] = "avx512",
    part: Annotated[str, typer.Option("--filter", metavar="TEXT", help="Only kernels whose name contains this.")] = "",
    results: ResultsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Time each C kernel at the sizes of its test program, beside OpenBLAS, torch and the roof, and store the times.

    Builds the C test program of a checkout. The results site has a page of the newest run of all kernels.
    """
    engine.Config(isa=isa)  # refuses an unknown name before the kernels are built
    if not any(part in one.name for one in targets.get("cpu").kernels() if one.isa in (isa, "generic")):
        raise UsageError(f"--filter {part!r}: no kernel of {isa} has this in its name")
    from suites.harness.measure import kernels  # here, because it imports torch, as few commands do

    options = ["--isa", isa, *(["--filter", part] if part else [])]
    text = "each kernel at the sizes that its test program times, beside torch and OpenBLAS"
    plan = launches.make_plan(SUITE, text, "torch", options, kernels.ROUNDS)
    new = launches.begin(store.results_folder(results), plan, 1, roofs.measure)
    found = []
    for line in kernels.measure(isa, part):
        print("  ".join(tabulate_kernels([line])[0].values()), file=sys.stderr, flush=True)
        found.append(line)
    if not found:
        raise UsageError(f"this machine runs no kernel of {isa} whose name contains {part!r}")
    show.show_run(store.read(new.write(found)), as_json=as_json)
