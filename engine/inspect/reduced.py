"""Parts of an exported graph as modules of their own: what `minify` tries. Its tasks run in the process of a trial.

Imported where trials run, since it needs torch.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

from engine import compiler, exporter
from engine.errors import ComparisonError
from engine.exporter.torch_internals import tree_leaves
from engine.inspect.diff import diff
from engine.inspect.exported import Exported, Noise, Ref
from engine.inspect.forking import Case
from engine.inspect.observe import inputs_of, read_config

_VALUES = "values.pt"
_ULPS, _TIMES = 16, 4
"""A result is wrong beyond so many units in the last place of the largest element and times the error of eager."""
SEED = 0


class Reduction(NamedTuple):
    """What is left of an exported graph.

    Attributes:
        nodes: names of the calls that are computed, in order; what they read besides is given.
        sizes: pairs of a size of given tensors, and the one that it is cut to.
        forms: name of a given tensor -> how it is made.
    """

    nodes: Sequence[str]
    sizes: Sequence[tuple[int, int]] = ()
    forms: Mapping[str, str] = {}


class Piece(NamedTuple):
    """A reduction as a module, and its inputs, by name. Weights are buffers of the module."""

    module: fx.GraphModule
    inputs: dict[str, Tensor]


def prepare_trials() -> None:
    """Let torch import what it imports at its first export, which no trial then has to."""
    torch.export.export(torch.nn.Identity(), (torch.zeros(1),))


def record(case: Case) -> dict[str, Any]:
    """Run the model once and write what every call makes.

    Returns ``units``, the calls that can be left out, each a list of names: a call, and those that take one of its
    results.
    """
    calls = Exported(exporter.export_with_torch(case.program, inputs_of(case)), wide=False)
    names = [*calls.calls]
    values = dict(calls.compute(names, calls.name_inputs(inputs_of(case)), Noise()))
    torch.save({name: _detach(value) for name, value in values.items()}, case.folder / _VALUES)
    units: dict[str, list[str]] = {}
    for name in calls.names:
        call = calls.calls[name]
        units.setdefault(call.inputs[0] if call.function is operator.getitem else name, []).append(name)
    return {"units": list(units.values())}


def _detach(value: Any) -> Any:
    return (
        [_detach(one) for one in value]
        if isinstance(value, list | tuple)
        else getattr(value, "detach", lambda: value)()
    )


def make_piece(case: Case, reduction: Reduction) -> Piece:
    """The module that computes the nodes, and returns what none of them reads."""
    calls = Exported(exporter.export_with_torch(case.program, inputs_of(case)), wide=False).calls
    values = torch.load(case.folder / _VALUES, weights_only=False)
    sizes, graph, root = dict(reduction.sizes), fx.Graph(), torch.nn.Module()
    given = dict.fromkeys(one for name in reduction.nodes for one in calls[name].inputs)
    env: dict[str, Any] = {}
    inputs: dict[str, Tensor] = {}
    for name in given:
        if name in reduction.nodes:
            continue
        value = values[name]
        if not isinstance(value, Tensor):
            env[name] = value
            continue
        tensor = remake(_cut(value, sizes), reduction.forms.get(name, ""), len(env))
        if calls[name].function is None and calls[name].args is not None:
            root.register_buffer(_as_identifier(name), tensor)
            env[name] = graph.get_attr(_as_identifier(name))
        else:
            env[name] = graph.placeholder(_as_identifier(name))
            inputs[_as_identifier(name)] = tensor
    read = {one for name in reduction.nodes for one in calls[name].inputs}
    for name in reduction.nodes:
        call = calls[name]
        args, kwargs = (_fill(one, env, sizes) for one in (call.args, call.kwargs))
        assert call.function is not None  # noqa: S101  (it is computed)
        called = _as_identifier(name)
        env[name] = graph.create_node("call_function", call.function, tuple(args), dict(kwargs), called)
    graph.output(tuple(env[name] for name in reduction.nodes if name not in read and calls[name].is_tensor))
    graph.lint()
    return Piece(fx.GraphModule(root, graph).eval(), inputs)


def describe(case: Case, reduction: Sequence[Any]) -> dict[str, Any]:
    """``shapes`` of the tensors that a piece is given, by name."""
    kept = Reduction(*reduction)
    calls = Exported(exporter.export_with_torch(case.program, inputs_of(case)), wide=False).calls
    values = torch.load(case.folder / _VALUES, weights_only=False)
    given = dict.fromkeys(one for name in kept.nodes for one in calls[name].inputs if one not in kept.nodes)
    tensors = {name: _cut(values[name], dict(kept.sizes)) for name in given if isinstance(values[name], Tensor)}
    return {"shapes": {name: list(one.shape) for name, one in tensors.items()}}


def _as_identifier(name: str) -> str:
    return "".join(one if one.isalnum() else "_" for one in name).strip("_")


def _fill(value: Any, env: Mapping[str, Any], sizes: Mapping[int, int]) -> Any:
    """Arguments with nodes in place of references, and sizes that are cut."""
    if isinstance(value, Ref):
        return env[value.name]
    if isinstance(value, list | tuple):
        return type(value)(_fill(one, env, sizes) for one in value)
    if isinstance(value, Mapping):
        return {key: _fill(one, env, sizes) for key, one in value.items()}
    return sizes.get(value, value) if type(value) is int else value


def _cut(tensor: Tensor, sizes: Mapping[int, int]) -> Tensor:
    """The first elements along each axis whose size is cut."""
    for axis, size in enumerate(tensor.shape):
        if size in sizes:
            tensor = tensor.narrow(axis, 0, sizes[size])
    return tensor.contiguous()


def remake(tensor: Tensor, form: str, seed: int) -> Tensor:
    """A tensor of the same shape and type in one of `engine.inspect.minify.FORMS`.

    These are ones; whole numbers from -3 to 3; normal numbers of a seed, about as large as those of `tensor`; and its
    own ones rounded to two digits.
    """
    if not form:
        return tensor
    if form == "ones":
        return torch.ones_like(tensor)
    if form == "whole":
        return ((torch.arange(tensor.numel()) * 5) % 7 - 3).reshape(tensor.shape).to(tensor.dtype)
    if not tensor.is_floating_point():
        return tensor
    if form == "seed":
        scale = float(f"{float(tensor.double().std(correction=0)) or 1.0:.1g}")
        made = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(SEED + seed)) * scale
        return made.to(tensor.dtype)
    digits = 1 - int(torch.floor(torch.log10(tensor.double().abs().max().clamp(min=1e-30))))
    return tensor.double().round(decimals=digits).to(tensor.dtype)


# --- trying one -------------------------------------------------------------------------------------------------------


def check(
    case: Case, reduction: Sequence[Any], kind: str, subject: str, options: Mapping[str, Any], number: int
) -> dict[str, Any]:
    """Run a piece, and say whether it has failed by ``wrong`` or ``nan``: ``failed``, and why: ``text``.

    `subject` is ``engine``, of which `options` are the fields of a Config, or ``module:function``, which is called with
    the module, its inputs and `options`, and returns the results.

    Raises:
        ComparisonError: eager torch cannot run the piece.
    """
    del number
    piece = make_piece(case, Reduction(*reduction))
    inputs = tuple(piece.inputs.values())
    try:
        with torch.no_grad():
            eager = [one for one in piece.module(*inputs) if isinstance(one, Tensor)]
    except Exception as error:
        raise ComparisonError(f"eager torch cannot run it: {type(error).__name__}") from error
    if not eager or not any(one.numel() for one in eager):
        raise ComparisonError("it makes nothing")
    if subject == "engine" and kind == "wrong":
        first = diff(piece.module, inputs, candidate=read_config(options)).first_wrong
        return {"failed": first is not None, "text": str(first), "name": first and first.name}
    results = run_subject(piece, subject, options)
    exact = Exported(exporter.export_with_torch(piece.module, inputs), wide=True)
    names = [name for name in exact.results if name is not None]
    known = dict(exact.compute(names, exact.name_inputs(inputs), Noise()))
    for number, (ours, theirs, name) in enumerate(zip(results, eager, names, strict=True)):
        text = find_difference(ours, theirs, known[name]) if kind == "wrong" else _find_bad(ours, known[name])
        if text:
            return {"failed": True, "text": f"result {number}: {text}", "name": name}
    return {"failed": False, "text": "", "name": None}


def run_subject(piece: Piece, subject: str, options: Mapping[str, Any]) -> list[Tensor]:
    """The results of a piece in a way to run it, as of `check`."""
    inputs = tuple(piece.inputs.values())
    if subject == "engine":
        results = compiler.compile(piece.module, inputs, read_config(options))(*inputs)
    else:
        module, _, function = subject.partition(":")
        results = getattr(importlib.import_module(module), function)(piece.module, inputs, options)
    return [torch.as_tensor(one) for one in tree_leaves(results) if hasattr(one, "dtype")]


def find_difference(ours: Tensor, eager: Tensor, exact: Tensor) -> str:
    """What is wrong with a result, or "": it has to be about as near to the exact one as that of eager torch."""
    if ours.shape != eager.shape:
        return f"{list(ours.shape)} instead of {list(eager.shape)}"
    if not eager.is_floating_point():
        wrong = ours.to(eager.dtype) != eager
        return f"{int(wrong.sum())} of {wrong.numel()} elements differ" if wrong.any() else ""
    right, former, found = exact.double(), eager.double(), ours.double()
    plain = right.isfinite() & former.isfinite()
    scale = float(right[plain].abs().max()) if plain.any() else 0.0
    worst = float((former - right)[plain].abs().max()) if plain.any() else 0.0
    allowed = _ULPS * torch.finfo(eager.dtype).eps * scale + _TIMES * worst
    near = ((found - right).abs() <= allowed) | (found == right) | (found == former) | (found.isnan() & former.isnan())
    if near.all():
        return ""
    off = torch.where(near, 0.0, (found - right).abs().nan_to_num(torch.inf))
    at = tuple(int(one) for one in torch.unravel_index(off.argmax(), off.shape))
    return f"element {list(at)} is {found[at]:.6g}, expected {right[at]:.6g}"


def _find_bad(ours: Tensor, exact: Tensor) -> str:
    bad = ~ours.double().isfinite() & exact.double().isfinite()
    return f"{int(bad.sum())} of {bad.numel()} elements are no numbers" if bad.any() else ""
