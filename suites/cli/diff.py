"""``enginebench diff``: two executions of one model, value by value, and the first node that is wrong by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import engine
from engine.errors import EngineError
from suites import models
from suites.cli import sides, targets
from suites.cli.output import JsonFlag, console, path_option, print_json, print_table, stdout_as_stderr, whole_number
from suites.harness.errors import Refused, UsageError
from suites.harness.present.terminal import write_paragraph


def command(
    model: Annotated[str, typer.Argument(help=f"{targets.MODULE}.")],
    reference: Annotated[
        str,
        typer.Option(
            help="What is right: eager64, eager, interpreter, engine\\[...], engine@REV or a runtime.", metavar="LABEL"
        ),
    ] = "eager64",
    candidate: Annotated[
        str,
        typer.Option(
            help="What is looked at: engine\\[precision=bf16,isa=avx2], or a runtime, such as onnxruntime.",
            metavar="LABEL",
        ),
    ] = "engine",
    chosen: targets.SetOption = None,
    sets: Annotated[int, whole_number("--sets", 1, help="Sets of inputs, each with a seed of its own.")] = 1,
    threads: Annotated[int, whole_number("--threads", 1, help="Threads of a call.")] = 1,
    plot: Annotated[Path | None, path_option("--plot", help="Draw the errors of all values, PNG or SVG.")] = None,
    heatmap: Annotated[
        Path | None, path_option("--heatmap", help="Draw the errors of the worst value, element by element.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare every value that two executions of a model have in common, through all fusions.

    error: of the value in the run, with what it inherits; own: of its node alone, given the reference's values. A node
    whose own error is beyond the bound that its arithmetic explains is wrong, and the first one is named.
    """
    if candidate in sides.PLAIN:
        raise UsageError(f"--candidate {candidate}: it is a reference; the candidate is engine[...] or a runtime")
    found, arguments = models.get(model), targets.read_arguments(model, chosen or [])
    if found.form != "module":
        raise UsageError(f"model {model}: diff needs a PyTorch module, because values have the names of its graph")
    with stdout_as_stderr():
        import torch  # here, because it takes seconds, and a command that is given wrong options needs no torch

        from engine import exporter

        torch.set_num_threads(threads)
        module, inputs = found.build(**arguments)
        given = [tuple(inputs), *(tuple(found.inputs(seed, **arguments)) for seed in range(1, sets))]
        try:
            program = exporter.export_with_torch(module, given[0]).program
            case = sides.Case(module, program, given[0], threads)
            two = [
                sides.read(one, f"--{name}", case) for name, one in (("reference", reference), ("candidate", candidate))
            ]
            result = engine.diff(program, given, *two, labels=(reference, candidate))
        except (EngineError, Refused) as error:
            raise UsageError(str(error)) from None
    for option, path, draw in (("--plot", plot, result.plot), ("--heatmap", heatmap, result.heatmap)):
        try:
            if path is not None:
                draw(path)
        except (OSError, ValueError) as error:
            raise UsageError(f"{option} {path}: {error}") from None
    if as_json:
        print_json({"model": model, "arguments": arguments, **result.to_dict()})
        return
    print_table(result.tabulate())
    for line in result.explain():
        write_paragraph(console(), line)
