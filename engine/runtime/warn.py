"""Warnings to the user: where they point to, and which appear once per process. Knows no program."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from pathlib import Path

from engine.config import Config
from engine.errors import (
    DecodedWeightsWarning,
    PlainWeightsWarning,
    SlowKernelWarning,
    SlowPrecisionWarning,
)
from engine.runtime.report import Counts

_ENGINE = str(Path(__file__).parents[1])
_ISSUED: set[type[Warning]] = set()


MOST_NAMED = 4
"""Names in a warning; a model may have hundreds."""


def name_some(names: Sequence[str]) -> str:
    """The first names, and three dots if there are more."""
    return ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")


def warn(message: str, category: type[Warning], *, once: bool = False) -> None:
    """Issue a warning that points to the line that called the engine; with `once`, the first of its category only."""
    if once and category in _ISSUED:
        return
    _ISSUED.add(category)
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(_ENGINE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_of_decoded(name: str, weights: Sequence[str]) -> None:
    """A `DecodedWeightsWarning` for the weights that the model has quantised and program `name` stores decoded."""
    if weights:
        warn(
            f"{name}: {len(weights)} quantised weight(s) are stored as floats, because their ops have no fast kernel "
            "for integers, or because the engine does not recognise how the model decodes them: "
            f"{name_some(weights)}. Results do not change; these weights use the memory of unquantised ones.",
            DecodedWeightsWarning,
        )


def warn_of_left(name: str, weights: Sequence[str]) -> None:
    """A `PlainWeightsWarning` for the weights of program `name` that the chosen precision does not reach, if any."""
    if weights:
        warn(
            f"{name}: {len(weights)} weight(s) stay in float32, whatever precision or recipe say, because their ops "
            f"read floats alone: {name_some(weights)}",
            PlainWeightsWarning,
        )


_NOTABLE = 0.01
"""A larger share of the FLOPs or bytes is notable. Many models have one small op that only a slow kernel runs."""


def warn_of_speed(name: str, counts: Counts, config: Config) -> None:
    """Issue a `SlowKernelWarning` if slow kernels, for which `config` does not ask, do a notable part of the work
    of program `name`, and a `SlowPrecisionWarning` if the processor lacks instructions for its bfloat16.
    """
    is_asked_for = "reference" in config.variant.values()
    if counts.slow_share[0] > _NOTABLE and not is_asked_for:
        warn(
            f"{name}: {counts.describe_slow_launches()}, because there are no fast kernels for these operations "
            "and element types yet. report() names them, and profile() marks the launches. Of a "
            "decoder, call decoder.entry('prefill').profile() or decoder.entry('decode').profile().",
            SlowKernelWarning,
            once=True,
        )
    if counts.emulated_launches and config.isa is None:
        warn(f"{name}: {counts.describe_emulated_launches()}.", SlowPrecisionWarning, once=True)
