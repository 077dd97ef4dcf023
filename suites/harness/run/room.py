"""How many processes may hold a model at once, and which case is too large for any. Knows memory, no backend."""

from __future__ import annotations

import re
from math import prod

from suites import models
from suites.harness.declare.case import Case
from suites.harness.record import machine

WORKER_BYTES = 700_000_000
"""What a process holds beside its weights (measured: 0.5 GB)."""
COPIES = 2
"""Copies of the weights that a process holds at most once it is prepared: the model's and those that it packed."""


def count_that_fit(weight_bytes: int) -> int | None:
    """How many processes with weights of this size memory has room for; None if the available memory is unknown."""
    available = machine.available_bytes()
    return None if available is None else available // (WORKER_BYTES + COPIES * weight_bytes)


USUAL_SIZE = 1 << 16
"""A case whose sizes have a larger product, or whose options have a larger number, may be too large for memory."""


def explain_excess(case: Case, memory_bytes: int) -> str | None:
    """Why a case of a known model cannot run in so much memory; None if it can, or if that is not known cheaply.

    Weights and inputs alone are counted, so a case may need far more. Nothing is computed, and of a case of usual size
    and of a user's own file nothing is executed.
    """
    numbers = [int(text) for value in case.options.values() for text in re.findall(r"\d+", str(value))]
    if models.is_path(case.model) or max(prod(case.shape.values()), *numbers, 0) <= USUAL_SIZE:
        return None
    from suites.torch_internals import count_bytes

    spec = models.get(case.model)
    if spec.unavailable() is not None:
        return None
    try:
        needed = count_bytes(lambda: spec.build(**case.shape, **case.options))
    except Exception as error:  # noqa: BLE001  # a model may ask for values, which tensors without memory do not have
        is_larger = "overflow" in str(error).lower()
        return "its weights or inputs have more elements than can be counted" if is_larger else None
    if needed <= memory_bytes:
        return None
    needs = f"its weights and inputs take {needed / 1e9:,.0f} GB"
    return f"{needs}, and this machine has {memory_bytes / 1e9:,.0f} GB of memory"
