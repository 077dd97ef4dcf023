"""``enginebench trace``: every value of one call in numbers, the first bad one by name, arrays in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import engine
from engine.errors import EngineError
from engine.runtime.report import format_cell, shortened
from engine.runtime.trace import NodeTrace
from suites import models
from suites.cli import targets
from suites.cli.compiled import compile_model
from suites.cli.output import JsonFlag, console, path_option, print_json, print_table, stdout_as_stderr, whole_number
from suites.harness.declare.device import CPU, CUDA
from suites.harness.declare.precision import PRECISIONS
from suites.harness.errors import UsageError
from suites.harness.present.terminal import write_paragraph

ENGINE = "engine"
EXACT = "eager64"
"""What stands for torch's exported program in float64."""


def command(
    model: Annotated[str, typer.Argument(help=f"{targets.MODULE}.")],
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only what has this name or matches it: a value, a module, encoder.layer.0.*. Repeatable.",
        ),
    ] = None,
    limit: Annotated[float | None, typer.Option(help="A magnitude above this is bad, as NaN and Inf are.")] = None,
    npz: Annotated[
        Path | None, path_option("--npz", help="Write the arrays of what --keep names, or of all, to this file.")
    ] = None,
    threads: Annotated[int, whole_number("--threads", 1, help="Threads of the call.")] = 1,
    chosen: targets.SetOption = None,
    precision: Annotated[
        str, typer.Option(help=f"Precision of the model, as in a case of run: {', '.join(PRECISIONS)}.")
    ] = "fp32",
    backend: targets.BackendOption = ENGINE,
    device: Annotated[
        str, typer.Option(help=f"Where the program runs: {CPU}, or {CUDA} for the GPU kernels of target triton.")
    ] = CPU,
    as_json: JsonFlag = False,
) -> None:
    """Run a model's program once, node by node, and print the numbers of what each node makes.

    The program and its fusions are those of every other run, and so are the bits; --backend eager64 is torch's exported
    program in float64. The last line names the first value
    with a NaN or an infinity that what it is made of has not.
    """
    ref = targets.read_engine(ENGINE if backend == EXACT else backend)
    targets.check_form(model, ref, "trace looks into programs of the engine")
    targets.check_precision(precision)
    arguments = targets.read_arguments(model, chosen or [])
    wanted = keep or (["*"] if npz is not None else [])
    try:
        if backend == EXACT:
            with stdout_as_stderr():
                module, inputs = models.get(model).build(**arguments)
                trace = engine.trace(module, tuple(inputs), wanted)
        else:
            compiled = compile_model(model, arguments, threads, precision, ref, device)
            trace = compiled.program.trace(*compiled.inputs, keep=wanted, **compiled.options)
    except EngineError as error:
        raise UsageError(str(error)) from None
    bad = trace.first_bad(limit)
    kept = trace.kept
    if npz is not None:
        try:
            with npz.open("wb") as file:
                np.savez(file, **kept)  # type: ignore[arg-type]  # whose named parameters no value is called like
        except OSError as error:
            raise UsageError(f"--npz {npz}: {error.strerror}") from None
    if as_json:
        found = {"first_bad": None if bad is None else {"what": bad.what, "value": bad.value.name, "text": str(bad)}}
        print_json({"model": model, "precision": precision, **trace.to_dict(), **found})
        return
    if rows := [_tabulate(node) for node in trace.nodes if not keep or node.name in kept]:
        print_table(rows)
    if npz is not None:
        print(f"wrote {len(kept)} arrays to {npz}")
    write_paragraph(console(), f"First bad value: {bad}." if bad else "No value has a NaN or an infinity of its own.")


def _tabulate(node: NodeTrace) -> dict[str, str]:
    s = node.outputs[0].statistics
    cells = {
        "#": node.index,
        "op": "+".join((node.op, *node.steps)),
        "value": node.name,
        "shape": "x".join(map(str, s.shape)) or "scalar",
        "min": s.minimum,
        "max": s.maximum,
        "mean": s.mean,
        "std": s.std,
        "NaN": s.nans,
        "Inf": s.infinities,
        "module": shortened(node.module),
    }
    return {name: format_cell(cell) for name, cell in cells.items()}
