"""The engine's program of a model that a command names, to be looked at in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import engine
from suites import backends as registry
from suites import models
from suites.backends.engine import Engine
from suites.cli.output import stdout_as_stderr
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.precision import convert_inputs, convert_model
from suites.harness.errors import Unavailable, UsageError
from suites.harness.measure import device as devices
from suites.harness.run import checks


class Compiled(NamedTuple):
    """A program, and arguments of its calls: `inputs` by position, `options` by name."""

    program: engine.Program
    inputs: tuple[Any, ...]
    options: Mapping[str, Any]


def compile_model(
    model: str, arguments: Mapping[str, Any], threads: int, precision: str, ref: BackendRef, device: str
) -> Compiled:
    """The engine's program; an option ``precision`` of `ref` goes before `precision`. UsageError if there is none."""
    import torch  # here, because it takes seconds, and a command that is given wrong options needs no torch

    precision = ref.options.get("precision", precision)
    found, place = models.get(model), devices.load(device)
    reason = (
        place.unavailable()
        or registry.unable(ref, Case(model, {}, threads, precision, device=device))
        or checks.cannot_convert(found, precision)
    )
    with stdout_as_stderr():
        try:
            if reason is not None:
                raise Unavailable(reason)
            module, inputs = found.build(**arguments)
            module, inputs = convert_model(module, precision), convert_inputs(inputs, precision)
            backend = Engine(threads, ref.options)
            backend.precision, backend.device = precision, device
            module, inputs = place.place_model(module), place.place(inputs)
            torch.set_num_threads(threads)  # of the calls that Config(fallback="torch") leaves to torch
            program = backend.compiled(module, inputs)
            state = program.new_state()
        except (SystemExit, Unavailable) as error:
            raise UsageError(f"model {model}: {type(error).__name__}: {error}") from None
    return Compiled(program, tuple(inputs), {"state": state} if len(state) else {})
