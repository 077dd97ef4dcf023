"""Torch tensors as NumPy arrays, shared where possible. Knows no graph."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's values, row-major. No copy is made of a contiguous tensor: the array sees later changes of it.

    Raises:
        TypeError: NumPy and ml_dtypes have no such element type.
    """
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def identity(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Equal for tensors that are one and the same piece of memory, seen in the same way (tied weights)."""
    return (
        tensor.untyped_storage().data_ptr(),
        tensor.storage_offset(),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.dtype,
    )
