"""Converts torch tensors to NumPy arrays, without a copy if possible. Knows no graph."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's values, row-major. A contiguous tensor is not copied: later changes of it change the array.

    Raises:
        TypeError: NumPy and ml_dtypes have no such element type.
    """
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def identity(tensor: torch.Tensor) -> tuple[Any, ...]:
    """A key that is equal for tensors with the same memory, type, shape and strides (tied weights)."""
    return (
        tensor.untyped_storage().data_ptr(),
        tensor.storage_offset(),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.dtype,
    )
