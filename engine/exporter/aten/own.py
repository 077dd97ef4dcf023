"""The engine's own operators for torch (`engine.torch_ops`), which models call where ATen has none."""

from __future__ import annotations

from functools import reduce

import torch

from engine import torch_ops as _operators  # noqa: F401  # imported for what it registers with torch
from engine.exporter.context import CallContext, dtype_name, torch_dtype
from engine.exporter.handlers import aten
from engine.graph import Value


@aten("engine::selective_scan")
def selective_scan(
    x: CallContext,
    u: Value,
    delta: Value,
    A: Value,
    B: Value,
    C: Value,
    D: Value | None,
    z: Value | None,
    delta_bias: Value | None,
    delta_softplus: bool,
) -> Value:
    """Channels last, as the kernels want them and the layers around make them. One type for all, the widest."""
    given = {"x": u, "delta": delta, "a": A, "b": B, "c": C, "skip": D, "gate": z, "bias": delta_bias}
    dtypes = (torch_dtype(v.dtype) for v in given.values() if v is not None)
    dtype = dtype_name(reduce(torch.promote_types, dtypes))

    def operand(value: Value | None) -> Value | None:
        wide = None if value is None else x.cast(value, dtype)
        return wide if wide is None or len(wide.shape) != 3 else x.permute(wide, (0, 2, 1))

    operands = {name: operand(value) for name, value in given.items()}
    y = x.emit_named("selective_scan", operands, softplus=delta_softplus)
    return x.cast(x.permute(y, (0, 2, 1)), x.result.dtype)
