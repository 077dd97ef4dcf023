"""``enginebench tune``: which configuration of each kernel is the fastest on this GPU, measured and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.runtime.decoder import Decoder
from engine.suggest import unknown
from engine.targets.tuned import Tuned, Tuning
from suites import backends as registry
from suites import models
from suites.backends import stepwise
from suites.backends.engine import Engine
from suites.cli import targets
from suites.cli.output import JsonFlag, path_option, print_json, print_table, stdout_as_stderr, whole_number
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.device import CUDA
from suites.harness.declare.precision import PRECISIONS, convert_inputs, convert_model
from suites.harness.errors import Unavailable, UsageError
from suites.harness.measure import device
from suites.harness.present import units
from suites.harness.record.schema import Speed
from suites.harness.run import checks

ENGINE = "engine"
ROUNDS = 9


def command(
    model: Annotated[str, typer.Argument(help=f"{targets.MODULE}.")],
    chosen: targets.SetOption = None,
    precision: Annotated[
        str, typer.Option(help=f"Precision of the model, as in a case of run: {', '.join(PRECISIONS)}.")
    ] = "fp32",
    backend: targets.BackendOption = ENGINE,
    rounds: Annotated[int, whole_number("--rounds", 1, help="How many times to measure each configuration.")] = ROUNDS,
    into: Annotated[
        Path | None,
        path_option(
            "--into",
            help="Folder for the table (default: the user's cache, which programs read).",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure the configurations of the engine's GPU kernels for the sizes of a model, and keep the fastest.

    Programs that are compiled afterwards use them on GPUs of this kind. A model that generates text is measured with
    its prompt and with one more token.
    """
    ref = targets.read_engine(backend)
    targets.check_form(model, ref, "tune is for PyTorch modules")
    arguments = targets.read_arguments(model, chosen or [])
    if into is not None and into.is_file():
        raise UsageError(f"--into {into}: is a file; expected a folder")
    reason = _explain_refusal(model, precision, ref)
    if reason is not None:
        raise UsageError(f"tune {model}: {reason}")
    found = _tune(model, arguments, precision, ref, rounds, into)
    if as_json:
        print_json([one.to_dict() for one in found])
        return
    rows = [row for one in found for row in one.rows]
    print_table([_tabulate(row) for row in rows])
    changed = sum(row.configuration != row.rule for row in rows)
    print(f"{changed} of {len(rows)} differ from what the kernels' rules choose; others were not faster by 2%")
    print(f"stored: {found[0].path}")


def _explain_refusal(model: str, precision: str, ref: BackendRef) -> str | None:
    """Why the kernels of the model cannot be measured on the GPU of this machine; None if they can be."""
    if precision not in PRECISIONS:
        return unknown("precision", precision, PRECISIONS)
    return (
        device.load(CUDA).unavailable()
        or registry.unable(ref, Case(model, {}, 1, precision, device=CUDA))
        or checks.cannot_convert(models.get(model), precision)
    )


def _tune(
    model: str, arguments: Mapping[str, Any], precision: str, ref: BackendRef, rounds: int, into: Path | None
) -> Sequence[Tuning]:
    """What the programs of the model answer, one or two."""
    found = models.get(model)
    place = device.load(CUDA)
    with stdout_as_stderr():
        try:
            module, inputs = found.build(**arguments)
            module, inputs = convert_model(module, precision), convert_inputs(inputs, precision)
            backend = Engine(1, ref.options)
            backend.precision, backend.device = precision, CUDA
            module, inputs = place.place_model(module), place.place(inputs)
            if stepwise.generates(module):
                decoder: Decoder = backend.decoder(module)
                return decoder.tune(inputs[0], rounds=rounds, folder=into)
            program = backend.compiled(module, inputs)
            state = program.new_state()
            more = {"state": state} if len(state) else {}
            return [program.tune(*inputs, rounds=rounds, folder=into, **more)]
        except Unavailable as error:
            raise UsageError(f"model {model}: {error}") from None


def _tabulate(row: Tuned) -> dict[str, Any]:
    """A row for people. Speeds above 1 are faster than the rule's configuration."""
    is_changed = row.configuration != row.rule
    return {
        "kernel": row.kernel,
        "sizes": row.sizes,
        "rule": _describe(row.rule),
        "fastest": _describe(row.configuration) if is_changed else "the same",
        "speed vs rule's": units.factor(Speed(1 / row.ratio, 1 / row.high, 1 / row.low)) if is_changed else "1.00x",
        "tried": row.candidates,
    }


def _describe(configuration: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in configuration.items())
