"""How many worker processes fit into memory at once. Knows no backend."""

from __future__ import annotations

from suites.harness.record import machine

WORKER_BYTES = 700_000_000
"""What a process holds beside its weights (measured: 0.5 GB)."""
COPIES = 2
"""Copies of the weights that a process holds at most once it is prepared: the model's and those that it packed."""


def count_that_fit(weight_bytes: int) -> int | None:
    """How many processes with weights of this size fit into memory; None if the available memory is unknown."""
    available = machine.available_bytes()
    return None if available is None else available // (WORKER_BYTES + COPIES * weight_bytes)
