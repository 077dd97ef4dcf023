"""Operators for models that torch lacks: what it can only say as a loop, as one call that the engine compiles.

Importing this needs torch and registers the operators under ``torch.ops.engine``. A model that calls one runs in torch
as well, slowly, by the definition here. Knows nothing of the engine: the exporter has a handler for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["is_capturing", "selective_scan"]

_capturing: ContextVar[bool] = ContextVar("capturing", default=False)


@contextmanager
def capturing() -> Iterator[None]:
    """Let `is_capturing` answer True in the block; the exporter enters it around torch.export."""
    token = _capturing.set(True)
    try:
        yield
    finally:
        _capturing.reset(token)


def is_capturing() -> bool:
    """Whether the engine is capturing a model now.

    For models that say something by an operator of this module to the engine alone, and as ever to eager torch and to
    other exporters. Ask ``torch.compiler.is_exporting()`` first: torch.compile can look through that, not through this.
    """
    return _capturing.get()


@torch.library.custom_op("engine::selective_scan", mutates_args=())
def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
) -> Tensor:
    """The scan of a selective state-space model (Gu and Dao 2023, Mamba), as its authors' function has it.

    At each position ``h = exp(d * A) * h + d * B * u`` and ``y = (C . h + D * u) * silu(z)``, where d is delta +
    delta_bias, its softplus if `delta_softplus`, and h starts at 0. For inference: it has no gradient.

    Args:
        u: [batch, channels, length], floating; the result has its element type and device.
        delta: like u, the step sizes.
        A: [channels, states].
        B: [batch, states, length].
        C: like B.
        D: [channels], or None.
        z: like u, or None.
        delta_bias: [channels], or None.
        delta_softplus: whether the steps are softplus of delta + delta_bias.

    Returns:
        y, like u. Computed in float32, or in float64 where any operand is, and rounded once.
    """
    given = [t for t in (u, delta, A, B, C, D, z, delta_bias) if t is not None]
    wide = reduce(torch.promote_types, (t.dtype for t in given), torch.float32)
    x, step, decay, into, out_of = (t.to(wide) for t in (u, delta, A, B, C))
    if delta_bias is not None:
        step = step + delta_bias.to(wide)[:, None]
    if delta_softplus:
        step = functional.softplus(step)
    y = torch.empty(u.shape, dtype=wide, device=u.device)
    state = torch.zeros((u.shape[0], *A.shape), dtype=wide, device=u.device)
    for t in range(u.shape[2]):
        taken = (step * x)[:, :, t, None] * into[:, None, :, t]
        state = torch.exp(step[:, :, t, None] * decay) * state + taken
        y[:, :, t] = (state * out_of[:, None, :, t]).sum(-1)
    if D is not None:
        y = y + D.to(wide)[:, None] * x
    if z is not None:
        y = y * functional.silu(z.to(wide))
    return y.to(u.dtype)


@selective_scan.register_fake
def _type_of_selective_scan(u: Tensor, *_others: Any, **_keywords: Any) -> Tensor:
    return torch.empty(u.shape, dtype=u.dtype, device=u.device)
