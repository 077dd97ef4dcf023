"""Converts torch tensors to NumPy arrays, without a copy if possible; tells which weights change. Knows no graph."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import torch
from torch.export import ExportedProgram

from engine.exporter.torch_internals import is_wrapper, parts_of, version


class Held(NamedTuple):
    """What a placeholder of a traced graph is in every call. A `tensor` of another class is no value of a graph."""

    tensor: Any
    name: str
    is_parameter: bool


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """The values, row-major; shares memory if contiguous on the cpu. TypeError if NumPy and ml_dtypes lack the type."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def to_bytes(tensor: torch.Tensor) -> np.ndarray:
    """The bytes of the tensor's values, row-major, for element types that NumPy does not have, too."""
    dense = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return dense.reshape(-1).view(torch.uint8).numpy()


def identity(tensor: torch.Tensor) -> tuple[Any, ...]:
    """A key that is equal for tensors with the same memory, type, shape and strides (tied weights)."""
    return (
        tensor.untyped_storage().data_ptr(),
        tensor.storage_offset(),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.dtype,
    )


def with_parts(tensors: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """`tensors` with their names; in place of a tensor that consists of others, such as a quantised weight, these."""
    for name, tensor in tensors:
        if is_wrapper(tensor):
            yield from with_parts((f"{name}.{part}", inner) for part, inner in parts_of(tensor).items())
        else:
            yield name, tensor


def watch_weights(model: Any, ignored: Collection[str]) -> Callable[[], tuple[str, ...]]:
    """A function that names the parameters and buffers of a model that have changed since. It holds no memory of them.

    Changes that torch counts are noticed (in place, by an optimiser, by `load_state_dict`), and replaced tensors;
    changes through `Tensor.data` or a NumPy array are not. The model itself writes to the buffers in `ignored`.
    """
    module = weakref.ref(model) if isinstance(model, torch.nn.Module) else lambda: None
    named = {name: tensor for name, tensor in _named_tensors(model).items() if name not in ignored}
    known = {name: (weakref.ref(tensor), _count_writes(tensor)) for name, tensor in named.items()}

    def find_changed() -> tuple[str, ...]:
        present = {} if (found := module()) is None else _named_tensors(found)
        changed = []
        for name, (reference, count) in known.items():
            tensor = reference()
            is_replaced = name in present and present[name] is not tensor
            if is_replaced or (tensor is not None and _count_writes(tensor) != count):
                changed.append(name)
        return tuple(changed)

    return find_changed


def _named_tensors(model: Any) -> dict[str, torch.Tensor]:
    """The parameters and buffers of a model, each under all of its names; of a quantised weight the parts."""
    if isinstance(model, ExportedProgram):
        return {name: t for name, t in with_parts(model.state_dict.items()) if isinstance(t, torch.Tensor)}
    parameters, buffers = (f(remove_duplicate=False) for f in (model.named_parameters, model.named_buffers))
    return dict(with_parts((*parameters, *buffers)))


def _count_writes(tensor: torch.Tensor) -> int:
    """How often torch has seen a write to a tensor; 0 for tensors of inference mode, whose writes it does not count."""
    return 0 if tensor.is_inference() else version(tensor)
