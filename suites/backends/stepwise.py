"""Generating text with any backend: which steps a call takes, the same for everybody. Knows no runtime and no clock.

A backend says how it prefills and how it decodes (`Backend.generator`); here that becomes what the harness times:

- phase ``prefill``: one call takes a prompt in, from an empty cache, and picks the first token;
- phase ``decode``: the prompt is taken in untimed; one call then takes N steps, each of which picks a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from suites.backends.base import Backend, Generator, NotApplicable, Prepared
from suites.harness.declare.precision import PRECISIONS

if TYPE_CHECKING:
    from torch import Tensor


def generates(model: Any) -> bool:
    """Whether `model` is one that generates text."""
    return hasattr(model, "phase")


def program_facts(
    backend: Backend, model: Any, inputs: tuple[Tensor, ...], options: Mapping[str, str]
) -> Mapping[str, Any]:
    """As `Backend.program_facts`; a backend that has no faster way prepares the model anew.

    Raises:
        NotApplicable: no part of the model can use the options.
    """
    try:
        facts = backend.program_facts(model, inputs, options)
        if facts is not None:
            return facts
        other = type(backend)(backend.threads, options)
        other.io, other.exports, other.wants_facts = backend.io, backend.exports, True
        other.numpy_forward, other.calibration = backend.numpy_forward, backend.calibration
        other.precision, other.device = backend.precision, backend.device
        return (prepare(other, model, inputs) if generates(model) else other.prepare(model, inputs)).facts
    except backend.inapplicable_errors() as error:
        raise NotApplicable(str(error)) from error


def prepare(backend: Backend, model: Any, inputs: tuple[Tensor, ...]) -> Prepared:
    """What `backend` makes of `model`, as the harness calls it. Facts of the work are the model's, for everybody."""
    made = backend.generator(model, inputs)
    shared = {name: getattr(made, name) for name in ("export_s", "compile_s", "late_facts", "precision", "device")}
    shared["facts"] = {**made.facts, **model.facts(PRECISIONS[backend.precision].weight_bits)}
    if model.phase == "prefill":
        return Prepared(_prefill(made), **shared)
    return Prepared(_decode(made), **shared, ready=lambda prompt, _following: made.prefill(prompt))


def _prefill(made: Generator) -> Any:
    def call(prompt: Tensor) -> list[Tensor]:
        logits = made.prefill(prompt)
        _pick(logits)
        return [logits]

    return call


def _decode(made: Generator) -> Any:
    def call(_prompt: Tensor, following: Tensor) -> list[Tensor]:
        found = []
        for token in following.split(1, 1):
            logits = made.decode(token)
            _pick(logits)
            found.append(logits)
        return found

    return call


def _pick(logits: Tensor) -> None:
    """Find the likeliest token of each text: a part of each step, though the text that follows is given."""
    logits.argmax(-1).tolist()
