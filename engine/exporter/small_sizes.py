"""Finds the sizes 0 and 1 at which a model takes another path than the one that torch captured.

torch captures each dynamic size as 2 or more and records no condition for a comparison with 0 or 1. Whether the path is
right for them can only be tried: a copy of the model and the program run with each size at 1 and at 0, the others as in
the example, and their results are compared.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]  # it has no annotations
import torch
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.fx import Interpreter, Node

from engine.exporter.signature import list_user_inputs
from engine.exporter.symbols import get_example, get_expression
from engine.exporter.torch_internals import tree_flatten, tree_unflatten

_TOLERANCES = {
    **dict.fromkeys((torch.float64, torch.complex128), 1e-6),
    **dict.fromkeys((torch.float32, torch.complex64), 1e-3),
    **dict.fromkeys((torch.float16, torch.bfloat16), 5e-2),
}
"""Of each value of a result, and of the value that a quarter of the others are smaller than. Decompositions of one path
round differently; another path gives other values."""

Sizes = Mapping[Any, Any]
"""sympy symbol -> its value."""


def find_least_sizes(model: nn.Module, program: ExportedProgram, args: Any, kwargs: Any) -> dict[Any, int]:
    """Symbol -> 1 or 2, the size from which on the model has the results of `program`, its functional program.

    Only symbols whose range begins below are listed. A size at which the model raises is not excluded. A copy of the
    model runs, on the beginning of the example inputs; a model that has no copy counts as different at 1.
    """
    leaves, spec = tree_flatten((args, kwargs))
    inputs = list_user_inputs(program)
    example: dict[Any, int] = {}
    for node in inputs:
        for size in (one for one in getattr(node.meta.get("val"), "shape", ()) if isinstance(one, torch.SymInt)):
            symbols = size.node.expr.free_symbols
            example |= {symbol: get_example(size, symbol) for symbol in symbols if len(symbols) == 1}
    found: dict[Any, int] = {}
    for symbol, usual in example.items():
        least = max(0, int(program.range_constraints[symbol].lower)) if symbol in program.range_constraints else 0
        for small in range(min(1, usual - 1), least - 1, -1):
            sizes = {**example, symbol: small}
            if _differ(model, program, spec, lambda sizes=sizes: _cut(leaves, inputs, sizes), sizes):
                found[symbol] = small + 1
                break
    return found


def _cut(leaves: Sequence[Any], inputs: Sequence[Node], sizes: Sizes) -> list[Any]:
    """The beginning of each example input, of these sizes."""
    found = []
    for leaf, node in zip(leaves, inputs, strict=True):
        if isinstance(leaf, torch.Tensor):
            for axis in range(leaf.dim()):
                if (size := get_expression(node, axis)) is not None:
                    leaf = leaf.narrow(axis, 0, int(size.xreplace({s: sympy.Integer(n) for s, n in sizes.items()})))
            leaf = leaf.clone()
        found.append(leaf)
    return found


def _differ(model: nn.Module, program: ExportedProgram, spec: Any, cut: Any, sizes: Sizes) -> bool:
    """True if the program gives other results than the model, or other buffers; False if the model raises."""
    with torch.no_grad(), torch.random.fork_rng(), warnings.catch_warnings(action="ignore"):
        try:
            copied = copy.deepcopy(model)
        except Exception:  # noqa: BLE001  # attributes may have no copy, such as results with gradients
            return True
        torch.manual_seed(0)
        try:
            args, kwargs = tree_unflatten(cut(), spec)
            expected, structure = tree_flatten(copied(*args, **kwargs))
        except Exception:  # noqa: BLE001  # whatever the user's code raises at this size
            return False
        buffers = dict(copied.named_buffers())
        torch.manual_seed(0)
        try:
            got, written = _run(program, cut(), sizes)
            held = dict(model.named_buffers()) | written
            pairs = [*zip(expected, got, strict=True), *((buffers[name], held[name]) for name in buffers)]
            return structure != program.call_spec.out_spec or not all(_agree(*pair) for pair in pairs)
        except Exception:  # noqa: BLE001  # whatever torch raises where captured calls do not take the size
            return True


def _run(program: ExportedProgram, leaves: Sequence[Any], sizes: Sizes) -> tuple[list[Any], dict[str, Any]]:
    """The results of the program, and the buffers that it writes to, by name."""
    signature, given = program.graph_signature, iter(leaves)
    held: Any = program.constants | program.state_dict
    inputs = []
    for one in signature.input_specs:
        value = next(given) if one.kind is InputKind.USER_INPUT else held[one.target]
        inputs.append(one.arg.value if isinstance(one.arg, ConstantArgument) else value)
    results = _CheckedInterpreter(program.graph_module, sizes).run(*inputs)
    pairs = list(zip(results, signature.output_specs, strict=True))
    written = {str(spec.target): one for one, spec in pairs if spec.kind is OutputKind.BUFFER_MUTATION}
    return [one for one, spec in pairs if spec.kind is OutputKind.USER_OUTPUT], written


class _CheckedInterpreter(Interpreter):
    """Raises a ValueError at a call whose result has another shape than captured, such as `squeeze` at a size of 1."""

    def __init__(self, module: torch.fx.GraphModule, sizes: Sizes) -> None:
        super().__init__(module)
        self._sizes = {symbol: sympy.Integer(value) for symbol, value in sizes.items()}

    def run_node(self, n: Node) -> Any:
        result, captured = super().run_node(n), n.meta.get("val")
        if isinstance(result, torch.Tensor) and isinstance(captured, torch.Tensor):
            expected = [self._evaluate(size) for size in captured.shape]
            if len(expected) != result.dim() or any(
                size is not None and size != found for size, found in zip(expected, result.shape, strict=True)
            ):
                raise ValueError(f"{n.name}: captured as {expected}, got {list(result.shape)}")
        return result

    def _evaluate(self, size: Any) -> int | None:
        """The size, a number or torch's formula of one; None if it follows from values of tensors."""
        if not isinstance(size, torch.SymInt):
            return int(size)
        found = size.node.expr.xreplace(self._sizes)
        return int(found) if found.is_Integer else None


def _agree(expected: Any, got: Any) -> bool:
    if not isinstance(expected, torch.Tensor) or not isinstance(got, torch.Tensor):
        return type(expected) is type(got) and bool(expected == got)
    if (expected.shape, expected.dtype) != (got.shape, got.dtype):
        return False
    tolerance = _TOLERANCES.get(expected.dtype)
    if tolerance is None:
        return torch.equal(expected, got)
    sizes = expected[expected.isfinite() & (expected != 0)].abs().float()
    # A typical element sets the tolerance. The largest may be a mask, such as -1e9, and would hide all differences.
    allowed = tolerance * float(sizes.kthvalue((sizes.numel() + 3) // 4).values) if sizes.numel() else 0.0
    return torch.allclose(expected, got, rtol=tolerance, atol=allowed, equal_nan=True)
