"""Parts of an exported graph as modules of their own: what `minify` tries. Its tasks run in the process of a trial.

Imported where trials run, since it needs torch.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, fx

from engine import compiler, exporter
from engine.config import Config
from engine.dtypes import from_numpy
from engine.errors import ComparisonError, EngineError
from engine.exporter.torch_internals import tree_leaves
from engine.inspect.capsule import EXPECTED, INPUTS, PROGRAM, SCRIPT
from engine.inspect.diff import diff
from engine.inspect.exported import Exported, Noise, Ref
from engine.inspect.forking import Case
from engine.inspect.observe import inputs_of
from engine.inspect.script import evaluate, spell, write_script
from engine.memory import as_array
from engine.program.writer import save

_VALUES = "values.pt"
_ULPS = 16
"""Errors of a few units in the last place of the largest element are right, even if eager happens to have none."""
_TIMES = 4
"""How much larger than eager's the largest error may be: sums in another order differ."""
_HUGE = 1e30


class Reduction(NamedTuple):
    """What is left of an exported graph.

    Attributes:
        nodes: names of the calls that are computed, in order; what they read besides is given.
        sizes: pairs of a size of given tensors, and the one that it is cut to.
        forms: name of a given tensor -> one of `engine.inspect.minify.FORMS`; others are as recorded.
    """

    nodes: Sequence[str]
    sizes: Sequence[tuple[int, int]] = ()
    forms: Mapping[str, str] = {}


class Piece(NamedTuple):
    """A reduction as a module, and its inputs, by name. Weights are buffers of the module.

    `spelled` is an expression for each input and buffer; "" for those that are as recorded.
    """

    module: fx.GraphModule
    inputs: dict[str, Tensor]
    spelled: dict[str, str]


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
    spelled: dict[str, str] = {}
    for name in given:
        if name in reduction.nodes:
            continue
        value = values[name]
        if not isinstance(value, Tensor):
            env[name] = value
            continue
        called = _as_identifier(name)
        tensor, form = _cut(value, sizes), reduction.forms.get(name, "")
        spelled[called] = spell(tensor, form, len(env)) if form else ""
        if spelled[called]:
            tensor = evaluate(spelled[called])
        if calls[name].function is None and calls[name].args is not None:
            root.register_buffer(called, tensor)
            env[name] = graph.get_attr(called)
        else:
            env[name] = graph.placeholder(called)
            inputs[called] = tensor
    read = {one for name in reduction.nodes for one in calls[name].inputs}
    for name in reduction.nodes:
        call = calls[name]
        args, kwargs = (_fill(one, env, sizes) for one in (call.args, call.kwargs))
        assert call.function is not None  # noqa: S101  (it is computed)
        called = _as_identifier(name)
        env[name] = graph.create_node("call_function", call.function, tuple(args), dict(kwargs), called)
    graph.output(tuple(env[name] for name in reduction.nodes if name not in read and calls[name].is_tensor))
    graph.lint()
    return Piece(fx.GraphModule(root, graph).eval(), inputs, spelled)


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


# --- trying one -------------------------------------------------------------------------------------------------------


def check(case: Case, reduction: Sequence[Any], kind: str, subject: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Run a piece, and say whether it has failed by ``wrong`` or ``nan``: ``failed``, and why: ``text``. Of a node that
    `diff` accuses, ``over_bound`` is its error over its bound.

    `subject` has the fields of `engine.inspect.minify.Subject`.

    Raises:
        ComparisonError: eager torch cannot run the piece.
    """
    del number
    piece = make_piece(case, Reduction(*reduction))
    inputs = tuple(piece.inputs.values())
    eager = _run_eagerly(piece)
    if not subject["task"] and kind == "wrong":
        first = diff(piece.module, inputs, candidate=Config.from_dict(subject["options"])).first_wrong
        return {"failed": first is not None, "text": str(first), "over_bound": first and first.over_bound}
    results = _run_subject(piece, subject)
    exact = Exported(exporter.export_with_torch(piece.module, inputs), wide=True)
    names = [name for name in exact.results if name is not None]
    known = dict(exact.compute(names, exact.name_inputs(inputs), Noise()))
    for number, (ours, theirs, name) in enumerate(zip(results, eager, names, strict=True)):
        text = find_difference(ours, theirs, known[name]) if kind == "wrong" else _find_bad(ours, theirs, known[name])
        if text:
            return {"failed": True, "text": f"result {number}: {text}"}
    return {"failed": False, "text": ""}


def _run_eagerly(piece: Piece) -> list[Tensor]:
    try:
        with torch.no_grad():
            eager = [one for one in piece.module(*piece.inputs.values()) if isinstance(one, Tensor)]
    except Exception as error:
        raise ComparisonError(f"eager torch cannot run it: {type(error).__name__}") from error
    if not eager or not any(one.numel() for one in eager):
        raise ComparisonError("it makes nothing")
    return eager


def _run_subject(piece: Piece, subject: Mapping[str, Any]) -> list[Tensor]:
    """The results of a piece in a way to run it, as of `check`."""
    inputs = tuple(piece.inputs.values())
    if subject["task"]:
        module, _, function = subject["task"].partition(":")
        results = getattr(importlib.import_module(module), function)(piece.module, inputs, subject["options"])
    else:
        results = compiler.compile(piece.module, inputs, Config.from_dict(subject["options"]))(*inputs)
    return [torch.as_tensor(one) for one in tree_leaves(results) if hasattr(one, "dtype")]


def find_difference(ours: Tensor, eager: Tensor, exact: Tensor) -> str:
    """What is wrong with a result, or "": it has to be about as near to the exact one as that of eager torch."""
    if ours.shape != eager.shape:
        return f"{list(ours.shape)} instead of {list(eager.shape)}"
    if not eager.is_floating_point():
        wrong = ours.to(eager.dtype) != eager
        return f"{int(wrong.sum())} of {wrong.numel()} elements differ" if wrong.any() else ""
    limits = torch.finfo(eager.dtype)
    found, right, former = ours.double(), exact.double(), eager.double()
    plain = right.isfinite() & former.isfinite()
    scale = float(right[right.isfinite()].abs().max()) if right.isfinite().any() else 0.0  # eager may overflow
    worst = float((former - right)[plain].abs().max()) if plain.any() else 0.0
    allowed = _ULPS * (limits.eps * scale + limits.tiny) + _TIMES * worst
    near = [
        ((found - one).abs() <= allowed) | (found == one) | (found.isnan() & one.isnan()) for one in (right, former)
    ]
    wrong = ~(near[0] | near[1])
    if not wrong.any():
        return ""
    at = tuple(wrong.nonzero()[0].tolist())
    numbers = f"{found[at]:.9g}, eager {former[at]:.9g}, in float64 {right[at]:.9g}; allowed {allowed:.3g}"
    return f"{int(wrong.sum())} of {wrong.numel()} elements: at {list(at)} {numbers}"


def _find_bad(ours: Tensor, *others: Tensor) -> str:
    bad = ~ours.isfinite()
    for one in others:
        bad &= one.isfinite()
    return f"{int(bad.sum())} of {bad.numel()} elements are no numbers" if bad.any() else ""


# --- writing one ------------------------------------------------------------------------------------------------------


def write(
    case: Case,
    reduction: Sequence[Any],
    kind: str,
    subject: Mapping[str, Any],
    title: str,
    name: str,
    limit: float | None = None,
) -> dict[str, Any]:
    """Write a piece to files of the folder `name`, for `engine.inspect.capsule`.

    Returns ``script``; element types of ``inputs`` and ``results``; and ``limit``: a larger error is the failure. It is
    `limit` where this is given, and None where the failure is of another kind.
    """
    piece = make_piece(case, Reduction(*reduction))
    folder = case.folder / name
    folder.mkdir(exist_ok=True)
    eager, lines = _run_eagerly(piece), ""
    if kind in ("wrong", "nan"):
        limit = _find_limit(_run_subject(piece, subject), eager) if limit is None else limit
        lines = (
            "results = [torch.as_tensor(one) for one in results]\n"
            f"torch.testing.assert_close(results, list(model(*inputs)), rtol=0, atol={limit}, equal_nan=True, "
            "check_dtype=False)"
        )
    elif kind == "command":
        lines = "print(results)"
    tensors = {**dict(piece.module.named_buffers()), **piece.inputs}
    spelled = {key: text or spell(tensors[key], "", 0) for key, text in piece.spelled.items()}
    text = write_script(piece.module, list(piece.inputs), spelled, title, subject["script"], lines)
    (folder / SCRIPT).write_text(text)
    inputs = tuple(piece.inputs.values())
    if not subject["task"]:
        with suppress(EngineError):
            save(folder / PROGRAM, exporter.export(piece.module, inputs))  # before any pass
        for file, group in ((INPUTS, inputs), (EXPECTED, eager)):
            np.savez(folder / file, *map(as_array, group))
    kinds = [[from_numpy(as_array(one).dtype).name for one in group] for group in (inputs, eager)]
    return {"script": text, "limit": limit, "inputs": kinds[0], "results": kinds[1]}


def _find_limit(ours: Sequence[Tensor], eager: Sequence[Tensor]) -> float:
    """Half of the largest error: what is less is another one. Very much where this is infinite, or no number."""
    pairs = [(a.double(), b.double()) for a, b in zip(ours, eager, strict=True) if a.shape == b.shape]
    errors = [torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs()) for a, b in pairs]
    largest = max((float(one.max().nan_to_num(torch.inf)) for one in errors if one.numel()), default=torch.inf)
    return float(f"{min(largest / 2, _HUGE):.2g}")
