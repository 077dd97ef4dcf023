"""The answer that outputs are checked against: the model in float64, eager, in a process of its own. Knows no backend.

`model.double()` alone leaves float32 inside: casts written in `forward` (``.float()``, ``.to(torch.float32)``,
``dtype=torch.float32``), new tensors of the default dtype, plain tensor attributes. `Upcast` lifts all of these to
float64; integers and booleans stay as they are. Where float64 is impossible, the model's own dtype is the reference.

A rounded case has the float64 outputs of the rounded weights and inputs, and eager's error is that of eager in the
rounded type. A quantised case has those of the float64 model with its weights encoded and decoded again
(`quantised.py`), and beside them those of the model as it is, for its accuracy. A case with a recipe is quantised.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
import torch

from engine.exporter.torch_internals import TorchDispatchMode, tree_map, writes
from suites import models
from suites.backends import stepwise
from suites.backends._buffers import Buffers
from suites.backends.base import flatten, to_numpy
from suites.harness.declare.case import Case
from suites.harness.declare.precision import PRECISIONS, choose_rule, convert_inputs, convert_model
from suites.harness.judge import fused, onnx_reference
from suites.harness.judge.layers import Layers
from suites.harness.judge.quantised import Quantised
from suites.harness.judge.verify import Reference, check, describe_change, describe_incomparable
from suites.torch_internals import version_of

_IMPOSSIBLE = (RuntimeError, TypeError, NotImplementedError)
"""What a model raises that cannot run in float64."""
Result = TypeVar("Result")
_LOWER = frozenset({torch.float32, torch.float16, torch.bfloat16})


class Upcast(TorchDispatchMode):
    """While entered, every operator that is asked for a smaller floating dtype, or given one, works in float64."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        lift = _lift_dtype if writes(func) else _lift  # a written tensor must stay itself
        return func(*tree_map(lift, args), **tree_map(lift, kwargs or {}))


def outputs_of(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """Flat outputs of one eager call without gradients."""
    with torch.inference_mode():
        return flatten(model(*inputs))


class Place(Protocol):
    """Where models can run in float64: a device, as `suites.harness.measure.device` describes it."""

    def place_model(self, model: Any) -> Any:
        """`model` with its parameters and buffers there."""

    def place(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Tensors of the CPU as tensors there."""


def compute(case: Case, seeds: int, where: Place | None = None) -> list[Reference]:
    """One `Reference` for each of the input sets 0 .. seeds-1 of `case`.

    Args:
        case: what is computed.
        seeds: number of input sets.
        where: where the model runs; None: on the processors. Quantised models and models of the format ONNX always run
            there.

    Raises:
        ModelError: no answer could be verified; says why.
    """
    references = _compute(case, seeds, where)
    spec = models.get(case.model)
    notes = [spec.describe_kept(**case.build_arguments)]
    first = references[0]
    if (
        spec.sets is not None
        and seeds > 1
        and all(check(r.outputs, r.dtypes, first).reason is None for r in references)
    ):
        notes.append("all input sets have the same answer, so that one kept from an earlier call would not be found")
    references = [replace(r, note="; ".join(filter(None, (r.note, *notes))) or None) for r in references]
    if reason := describe_incomparable(references):
        raise models.ModelError(f"model {case.model!r}: {reason}")
    return references


def _compute(case: Case, seeds: int, where: Place | None) -> list[Reference]:
    precision = PRECISIONS[case.precision]
    spec = models.get(case.model)
    sets = [spec.inputs(seed, **case.build_arguments) for seed in range(seeds)]
    inputs = [convert_inputs(tensors, case.precision) for tensors in sets]
    if precision.kind == "quantised" or case.recipe:
        with fused.switched_off():  # one call would take all weights of a layer, and read them as they are
            return _quantised(case, inputs)
    model, _ = spec.build(**case.build_arguments)
    if spec.form == "onnx":
        return onnx_reference.compute(model, [[to_numpy(tensor) for tensor in tensors] for tensors in inputs])
    model = convert_model(model, case.precision)
    size = _count_bytes(model)
    if where is not None:
        model, inputs = where.place_model(model), [where.place(tensors) for tensors in inputs]
    state, first = _call_once(case.model, model, inputs[0])
    ready = Buffers(model, state).ready
    own = _of_each(case, inputs, lambda tensors: _own(model, tensors, ready))
    unfused, has_fused = [], fused.may_run(model)
    if has_fused:
        with fused.switched_off():
            unfused = [_plain(_own(model, tensors, ready))[0] for tensors in inputs]
    exact, note = [], None
    try:
        wide = _double(case, model, inputs, state)
        if has_fused:
            with fused.switched_off():
                unfused = _double(case, model, inputs, state)
        exact = wide
    except _IMPOSSIBLE as error:
        note = onnx_reference.describe_narrow(error)
    references = _make_references(own, exact, note, precision.rule, state, size)
    if has_fused:
        references = [_accept(*pair) for pair in zip(references, unfused, strict=True)]
    if first is not None and (change := describe_change(_plain(first)[0], _plain(own[0])[0], references[0])):
        raise models.ModelError(
            f"model {case.model!r}: {change}, so nothing can be verified; forward draws random numbers, or counts its "
            "calls in a Python attribute"
        )
    return references


def _quantised(case: Case, inputs: list[tuple[torch.Tensor, ...]]) -> list[Reference]:
    """The references of a quantised case."""
    rule, build = choose_rule(case.precision, case.recipe), models.get(case.model).build

    @contextmanager
    def read(lifted: tuple[torch.Tensor, ...], run: torch.nn.Module) -> Iterator[None]:
        with ExitStack() as stack:
            layers = stack.enter_context(Layers(run, case.recipe, case.precision)) if case.recipe else None
            stack.enter_context(Quantised(case.precision, lifted, layers))
            yield

    model = build(**case.build_arguments)[0]
    size = _count_bytes(model)
    state, _ = _call_once(case.model, model, inputs[0])
    ready = Buffers(model, state).ready
    exact, note = [], None
    try:
        wide = build(**case.build_arguments)[0]
        unquantised = _double(case, wide, inputs, state)
        exact = _double(case, wide, inputs, state, lambda lifted: read(lifted, wide))
    except _IMPOSSIBLE as error:
        note = onnx_reference.describe_narrow(error)
        outputs = _of_each(case, inputs, lambda tensors: _own(model, tensors, ready))
        unquantised = [_plain(tensors)[0] for tensors in outputs]
    own = []
    for tensors in inputs:
        with read(tensors, model):
            own.append(_own(model, tensors, ready))
    references = _make_references(own, exact, note, rule, state, size)
    return [replace(one, unquantised=plain) for one, plain in zip(references, unquantised, strict=True)]


def _count_bytes(model: torch.nn.Module) -> int:
    """Bytes of the parameters and buffers of `model`, each counted once."""
    return sum(tensor.nbytes for tensor in itertools.chain(model.parameters(), model.buffers()))


def _make_references(
    own: list[list[torch.Tensor]],
    exact: list[list[np.ndarray]],
    note: str | None,
    rule: str,
    state: tuple[str, ...],
    size: int,
) -> list[Reference]:
    """A reference for each input set, from eager's outputs and those in float64; without these, `note` says why."""
    references = [Reference(*_plain(one), None, note, rule, state=state, weight_bytes=size) for one in own]
    return [onnx_reference.widen(*pair) for pair in zip(references, exact, strict=True)] if exact else references


def _accept(reference: Reference, unfused: list[np.ndarray]) -> Reference:
    """The reference; if the outputs without torch's fused encoder layer are others, they count as right, too."""
    if check(unfused, reference.dtypes, reference).reason is None:
        return reference
    note = "; ".join(filter(None, (reference.note, fused.NOTE)))
    return replace(reference, unfused=unfused, note=note)


def _call_once(
    name: str, model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]
) -> tuple[tuple[str, ...], list[torch.Tensor] | None]:
    """The buffers that a call writes to, which hold their first values again, and the outputs of that call.

    The outputs are None for a model that generates, whose definition keeps nothing.

    Raises:
        ModelError: the call changes its inputs or tensors that are no buffers, so that no call could be repeated.
    """
    if stepwise.generates(model):
        return (), None
    buffers, others = Buffers(model), _tensors(model)
    before = [to_numpy(tensor).tobytes() for tensor in inputs]
    outputs = [tensor.clone() for tensor in outputs_of(model, inputs)]  # one of them may be a buffer
    written = [
        n for n, (tensor, kept) in enumerate(zip(inputs, before, strict=True)) if to_numpy(tensor).tobytes() != kept
    ]
    if written:
        raise models.ModelError(
            f"model {name!r}: forward writes to its inputs (number {', '.join(map(str, written))}), so two calls with "
            "the same inputs differ; let forward clone the input first, and write to the clone"
        )
    now = _tensors(model)
    changed = [key for key, (tensor, version) in others.items() if now.get(key, (None, 0)) != (tensor, version)]
    if changed:
        raise models.ModelError(
            f"model {name!r}: forward changes {', '.join(changed)}, so two calls differ; expected buffers: register "
            "each with register_buffer, or leave it unchanged"
        )
    state = buffers.written()
    buffers.restore()
    return state, outputs


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
    outputs = outputs_of(model, inputs)
    if ready is not None:
        outputs = [tensor.clone() for tensor in outputs]
        ready()
    return outputs


def _plain(tensors: list[torch.Tensor]) -> tuple[list[np.ndarray], list[str]]:
    """Arrays and names of dtypes."""
    return [to_numpy(one) for one in tensors], [str(one.dtype).removeprefix("torch.") for one in tensors]


def _of_each(
    case: Case, inputs: Sequence[tuple[torch.Tensor, ...]], call: Callable[[tuple[torch.Tensor, ...]], Result]
) -> list[Result]:
    """The result of `call` for each input set."""
    spec, results = models.get(case.model), []
    for seed, tensors in enumerate(inputs):
        with spec.explaining(seed, **case.build_arguments):
            results.append(call(tensors))
    return results


def _double(
    case: Case,
    model: torch.nn.Module,
    inputs: list[tuple[torch.Tensor, ...]],
    state: tuple[str, ...],
    read: Callable[[tuple[torch.Tensor, ...]], AbstractContextManager[Any]] = lambda _inputs: nullcontext(),
) -> list[list[np.ndarray]]:
    """Outputs in float64; `read` gives what is entered for each input set."""
    # New tensors of the model must be float64, too. The worker of references runs nothing else meanwhile.
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        model = model.double()
        ready = Buffers(model, state).ready

        def call(one: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
            lifted = tuple(map(_lift, one))
            with Upcast(), read(lifted):
                return _own(model, lifted, ready)

        results = _of_each(case, inputs, call)
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
