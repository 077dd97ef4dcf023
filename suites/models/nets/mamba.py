"""Mamba of transformers, whose scan the engine sees as one operator and everybody else as transformers wrote it.

transformers scans by a Python loop over the positions, 1,400 calls a layer at 128 tokens when exported. It keeps that
loop in one function of its module, for whoever has a kernel to put in its place. The engine does, so while it captures
the model, that function is the engine's operator; all else, and all else's exporters, run transformers' definition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from engine import torch_ops
from suites.models.nets.causal import CausalLM


def scan(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    use_mambapy: bool = False,  # noqa: ARG001  # this and the next choose among spellings of the same scan
    use_associative_scan: bool = False,  # noqa: ARG001  # as above
) -> Tensor:
    """The engine's operator behind the arguments of transformers' `mamba_selective_scan`. It keeps no state."""
    if return_last_state:
        raise ValueError("the scan's last state is asked for: build the model with use_cache=False")
    return torch_ops.selective_scan(hidden_states, dt, A, B, C, D, z, delta_bias, delta_softplus)


@contextmanager
def _scan_as_operator() -> Iterator[None]:
    """Let transformers call `scan` in the block. Other threads keep transformers' own loop."""
    from transformers.models.mamba import modeling_mamba

    loop = modeling_mamba.mamba_selective_scan

    def choose(*args: Any, **kwargs: Any) -> Any:
        return (scan if torch_ops.is_capturing() else loop)(*args, **kwargs)

    modeling_mamba.mamba_selective_scan = choose
    try:
        yield
    finally:
        modeling_mamba.mamba_selective_scan = loop


class Mamba(CausalLM):
    """ids [B, S] int64 -> logits, as `CausalLM`."""

    def __init__(self, config: Mapping[str, Any], *, last_only: bool = False) -> None:
        super().__init__("mamba", config, "eager", last_only=last_only)

    def forward(self, ids: Tensor) -> Tensor:
        if torch.compiler.is_exporting() and torch_ops.is_capturing():
            with _scan_as_operator():
                return super().forward(ids)
        return super().forward(ids)
