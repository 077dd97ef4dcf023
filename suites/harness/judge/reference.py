"""The answer that outputs are checked against: the model in float64, eager, in a process of its own. Knows no backend.

`model.double()` alone leaves float32 inside: casts written in `forward` (``.float()``, ``.to(torch.float32)``,
``dtype=torch.float32``), new tensors of the default dtype, plain tensor attributes. `Upcast` lifts all of these to
float64; integers and booleans stay as they are. Where float64 is impossible, the model's own dtype is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from engine.exporter.torch_internals import TorchDispatchMode, is_mutable, tree_map
from suites import models
from suites.backends import stepwise
from suites.backends._buffers import Buffers, restorer
from suites.backends.base import flatten, to_numpy
from suites.harness.declare.case import Case
from suites.harness.judge import onnx_reference
from suites.harness.judge.verify import Reference, compare
from suites.torch_internals import version_of

_LOWER = frozenset({torch.float32, torch.float16, torch.bfloat16})


class Upcast(TorchDispatchMode):
    """While entered, every operator that is asked for a smaller floating dtype, or given one, works in float64."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        lift = _lift_dtype if is_mutable(func) else _lift  # a written tensor must stay itself
        return func(*tree_map(lift, args), **tree_map(lift, kwargs or {}))


def outputs_of(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """Flat outputs of one eager call without gradients."""
    with torch.inference_mode():
        return flatten(model(*inputs))


def compute(case: Case, seeds: int) -> list[Reference]:
    """One `Reference` for each of the input sets 0 .. seeds-1 of `case`."""
    spec = models.get(case.model)
    model, _ = spec.build(**case.build_arguments)
    inputs = [spec.inputs(seed, **case.build_arguments) for seed in range(seeds)]
    if spec.form == "onnx":
        return onnx_reference.compute(model, [[to_numpy(tensor) for tensor in one] for one in inputs])
    state = _written(case.model, model, inputs[0])
    ready = restorer(model, state)
    own = [_own(model, one, ready) for one in inputs]
    dtypes = [[str(tensor.dtype).removeprefix("torch.") for tensor in tensors] for tensors in own]
    plain = [[to_numpy(tensor) for tensor in tensors] for tensors in own]
    try:
        exact = _double(model, inputs, state)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        note = f"reference in the model's own dtype: {type(error).__name__}: {str(error).splitlines()[0]}"
        return [Reference(arrays, kinds, None, note, state) for arrays, kinds in zip(plain, dtypes, strict=True)]
    found = []
    for arrays, kinds, mine in zip(exact, dtypes, plain, strict=True):
        errors = [compare(one, other).relative for one, other in zip(mine, arrays, strict=True)]
        found.append(Reference(arrays, kinds, errors, None, state))
    return found


def _written(name: str, model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[str, ...]:
    """The buffers that a call writes to; they hold their first values again.

    Raises:
        ModelError: the call changes tensors that are no buffers, so that no call could be repeated.
    """
    if stepwise.generates(model):  # its definition keeps nothing
        return ()
    buffers, others = Buffers(model), _tensors(model)
    outputs_of(model, inputs)
    now = _tensors(model)
    changed = [key for key, (tensor, version) in others.items() if now.get(key, (None, 0)) != (tensor, version)]
    if changed:
        raise models.ModelError(
            f"model {name!r}: forward changes {', '.join(changed)}, so two calls differ; expected buffers: register "
            "each with register_buffer, or leave it unchanged"
        )
    found = buffers.written()
    buffers.restore()
    return found


def _tensors(model: torch.nn.Module) -> dict[str, tuple[int, int | None]]:
    """Identity and version of each parameter, and of each tensor that is a plain attribute of a module."""
    held: dict[str, torch.Tensor] = dict(model.named_parameters())
    for name, module in model.named_modules():
        plain = {key: value for key, value in vars(module).items() if isinstance(value, torch.Tensor)}
        held |= {f"{name}.{key}".lstrip("."): value for key, value in plain.items()}
    return {name: (id(tensor), version_of(tensor)) for name, tensor in held.items()}


def _own(
    model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], ready: Callable[..., None] | None
) -> list[torch.Tensor]:
    """Outputs of one call that starts from the first state; they share no memory with that."""
    found = outputs_of(model, inputs)
    if ready is None:
        return found
    found = [tensor.clone() for tensor in found]
    ready()
    return found


def _double(
    model: torch.nn.Module, inputs: list[tuple[torch.Tensor, ...]], state: tuple[str, ...]
) -> list[list[np.ndarray]]:
    # New tensors of the model must be float64, too. The worker of references runs nothing else meanwhile.
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        model = model.double()
        ready = restorer(model, state)
        with Upcast():
            results = [_own(model, tuple(map(_lift, one)), ready) for one in inputs]
    finally:
        torch.set_default_dtype(before)
    for tensor in results[0]:
        if tensor.dtype in _LOWER:
            raise TypeError(f"an output stayed {tensor.dtype} in the float64 run")
    return [[to_numpy(tensor) for tensor in tensors] for tensors in results]


def _lift_dtype(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _LOWER else value


def _lift(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype in _LOWER else value
    return _lift_dtype(value)
