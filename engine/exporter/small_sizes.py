"""Finds the sizes 0 and 1 at which a model takes another path than the one that torch captured.

While torch captures, it takes each dynamic size as 2 or more and records no condition for a comparison of a size with
0 or 1, even if the range has smaller sizes. Whether the captured path is right for them can only be tried: the model
itself and its captured program run once with each of these sizes, and their results are compared.
"""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sympy  # type: ignore[import-untyped]  # it has no annotations
import torch
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.fx import Interpreter, Node

from engine.exporter.signature import list_user_inputs
from engine.exporter.symbols import get_example, get_expression
from engine.exporter.torch_internals import OpOverload, is_wrapper, tree_flatten, tree_unflatten

SMALL = (0, 1)
_MOST_SYMBOLS = 3
"""Up to this number of symbols, every choice of small sizes is tried: 26 choices for three symbols."""
_TOLERANCES = {
    **dict.fromkeys((torch.float64, torch.complex128), 1e-6),
    **dict.fromkeys((torch.float32, torch.complex64), 1e-3),
    **dict.fromkeys((torch.float16, torch.bfloat16), 5e-2),
}
"""Of each value of a result, and of the value that a quarter of the others are smaller than. Another path gives other
values; decompositions of one path round differently.
"""

Sizes = Mapping[Any, int]
"""sympy symbol -> its value."""


class _Axis(NamedTuple):
    """An axis of an input whose size follows from a symbol."""

    leaf: int
    node: Node
    axis: int
    size: sympy.Expr


def find_other_paths(
    model: nn.Module, program: ExportedProgram, args: Any, kwargs: Any, *, has_guards: bool
) -> list[str]:
    """Conditions that exclude the sizes at which the model gives other results than its program.

    A size at which the model itself raises is not excluded. Every choice of 0, 1 or neither is tried for up to three
    dynamic sizes; of more, each alone, each two, and all together. The other sizes are as in the example inputs, or
    small to save time: without guards, all sizes from 2 on take one path. For each choice of sizes two inputs are
    tried, because the values of one may hide a path: the beginning of the example, and its end with floats negated and
    masks inverted.

    Args:
        model: the captured model. Its state stays as it is: a copy runs.
        program: the functional program of `model`.
        args: the positional example inputs.
        kwargs: the example inputs by keyword.
        has_guards: torch captured the model for some of the sizes from 2 on only.

    Returns:
        conditions in torch's notation, such as ``L['x'].size()[0] != 1``.
    """
    leaves, spec = tree_flatten((args, kwargs))
    axes = list(_list_axes(program, leaves))
    example = _find_example(axes)
    trials = list(_choose_trials(program, example))
    if not trials:
        return []
    smallest = example if has_guards else {s: min(n, _least(program, s, 2)) for s, n in example.items()}
    contest = _Contest(model, program, spec)
    found: dict[str, None] = {}
    for changed in trials:
        if any(_exclude(axes, dict(some)) in found for some in _list_parts(changed)):
            continue  # excluded already, with any of the other sizes
        for others in (smallest, example):  # small sizes may not fit the values of an input, such as indices
            sizes = {**others, **changed}
            differ = contest.differ([_cut(leaf, axes, n, sizes) for n, leaf in enumerate(leaves)], sizes)
            if differ is False:
                turned = [_turn(_cut(leaf, axes, n, sizes, from_end=True)) for n, leaf in enumerate(leaves)]
                differ = bool(contest.differ(turned, sizes))
            if differ:
                found[_exclude(axes, changed)] = None
            if differ is not None or smallest == example:
                break
    return list(found)


def _list_axes(program: ExportedProgram, leaves: Sequence[Any]) -> Iterator[_Axis]:
    for number, (node, leaf) in enumerate(zip(list_user_inputs(program), leaves, strict=True)):
        for axis in range(leaf.dim() if isinstance(leaf, torch.Tensor) else 0):
            size = get_expression(node, axis)
            if size is not None and len(size.free_symbols) == 1:
                yield _Axis(number, node, axis, size)


def _find_example(axes: Sequence[_Axis]) -> dict[Any, int]:
    """The symbols and their values in the example inputs."""
    found: dict[Any, int] = {}
    for one in axes:
        (symbol,) = one.size.free_symbols
        found.setdefault(symbol, get_example(one.node.meta["val"].shape[one.axis], symbol))
    return found


def _least(program: ExportedProgram, symbol: Any, least: int) -> int:
    """The least value of a symbol, but `least` or more."""
    ranges = program.range_constraints
    return max(least, int(ranges[symbol].lower)) if symbol in ranges else least


def _choose_trials(program: ExportedProgram, example: Sizes) -> Iterator[Sizes]:
    """The small values of each symbol alone, then of several symbols that may have them."""
    small = [(s, value) for value in SMALL for s in example if _least(program, s, value) == value < example[s]]
    yield from ({symbol: value} for symbol, value in small)
    symbols = list(dict.fromkeys(symbol for symbol, _value in small))
    is_whole = len(symbols) <= _MOST_SYMBOLS
    for count in range(2, len(symbols) + 1 if is_whole else 3):
        for some in itertools.combinations(small, count):
            if len(dict(some)) == count:  # no symbol twice
                yield dict(some)
    if not is_whole:
        yield from ({s: v for s, v in small if v == value} for value in SMALL)


def _list_parts(sizes: Sizes) -> Iterator[tuple[tuple[Any, int], ...]]:
    """Each choice of some of the sizes."""
    for count in range(1, len(sizes)):
        yield from itertools.combinations(sizes.items(), count)


def _cut(leaf: Any, axes: Sequence[_Axis], number: int, sizes: Sizes, *, from_end: bool = False) -> Any:
    """The beginning of an example input, or its end, of the sizes of a trial."""
    for one in axes:
        if one.leaf == number:
            size = int(one.size.xreplace({s: sympy.Integer(n) for s, n in sizes.items()}))
            leaf = leaf.narrow(one.axis, leaf.shape[one.axis] - size if from_end else 0, size)
    return _tell_apart(leaf) if isinstance(leaf, torch.Tensor) else leaf


def _turn(leaf: Any) -> Any:
    """A mask inverted, floats negated, other inputs as they are."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return ~leaf if leaf.dtype == torch.bool else -leaf if leaf.is_floating_point() else leaf


def _tell_apart(leaf: torch.Tensor) -> torch.Tensor:
    """The input, or random values in place of one repeated number, for which two paths might give the same results."""
    if not leaf.is_floating_point() or leaf.numel() == 0 or not bool((leaf == leaf.flatten()[0]).all()):
        return leaf.clone()
    generator = torch.Generator().manual_seed(0)
    return torch.rand(leaf.shape, generator=generator).add_(0.5).to(leaf.device, leaf.dtype)


def _exclude(axes: Sequence[_Axis], sizes: Sizes) -> str:
    """The condition that not all symbols have these values at once.

    The sum of the sizes of 0, and the product of those of 1, is that of these values for no other sizes. If there are
    both, it is the sum and the squared difference of the product that is 0 for no others.
    """
    zeros: list[str] = []
    ones: list[str] = []
    total, product = 0, 1
    for symbol, value in sizes.items():
        one = min((one for one in axes if one.size.free_symbols == {symbol}), key=lambda one: one.size != symbol)
        text = f"L[{one.node.name!r}].size()[{one.axis}]"
        size = int(one.size.xreplace({symbol: sympy.Integer(value)}))
        if value == 0:
            zeros.append(text)
            total += size
        else:
            ones.append(text)
            product *= size
    if not ones:
        return f"{' + '.join(zeros)} != {total}"
    if not zeros:
        return f"{' * '.join(ones)} != {product}"
    return f"{' + '.join(zeros)} + ({' * '.join(ones)} - {product})**2 != {total}"


class _Contest:
    """Runs a model and its program with the same inputs."""

    def __init__(self, model: nn.Module, program: ExportedProgram, spec: Any) -> None:
        self._program, self._spec = program, spec
        signature = program.graph_signature
        self._written = {*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()}
        self._model = _copy_with_its_weights(model)
        held = (*self._model.named_parameters(), *self._model.named_buffers())
        self._held = {name: one for name, one in held if not is_wrapper(one) or name in self._written}
        self._state = _copy_state(self._held)
        self._is_random = _draws_random_numbers(program)

    def differ(self, leaves: Sequence[Any], sizes: Sizes) -> bool | None:
        """True if the program has not the results that the model has for these inputs; None if the model raises.

        True as well if the model writes to a weight or buffer to which its program does not, or if a call in the
        program gives another shape than captured, which no backend can compute.

        Where the program draws random numbers, only shapes and element types of the results are compared.
        """
        with torch.no_grad(), torch.random.fork_rng(), warnings.catch_warnings(action="ignore"):
            try:
                expected = self._run_model(leaves)
            except Exception:  # noqa: BLE001  # whatever the user's code raises at this size
                return None
            if expected is None:
                return True
            try:
                got = _run_with_python_warnings(lambda: self._run_program(leaves, sizes))
            except Exception:  # noqa: BLE001  # whatever torch raises where captured calls do not take the size
                return True
        agree = _have_one_form if self._is_random else _agree
        return len(expected) != len(got) or not all(map(agree, expected, got))

    def _run_model(self, leaves: Sequence[Any]) -> list[Any] | None:
        """The results of the model, followed by the weights and buffers to which the program writes.

        None if the model does something that its program does not: it writes to an input, or to another weight or
        buffer, or returns another structure of results.
        """
        given = [one.clone() if isinstance(one, torch.Tensor) else one for one in leaves]
        args, kwargs = tree_unflatten(given, self._spec)
        attributes = {module: dict(vars(module)) for module in self._model.modules()}
        written: dict[str, torch.Tensor] = {}
        try:
            found = torch.func.functional_call(self._model, self._state, args, kwargs)
        finally:
            for module, before in attributes.items():  # of the model itself, if it has no copy
                vars(module).clear()
                vars(module).update(before)
            written = self._restore_state()
        results, structure = tree_flatten(found)
        writes_to_inputs = any(
            isinstance(one, torch.Tensor) and not _have_same_values(one, other)
            for one, other in zip(leaves, given, strict=True)
        )
        if writes_to_inputs or not written.keys() <= self._written or structure != self._program.call_spec.out_spec:
            return None
        return [*results, *(written.get(name, self._held.get(name)) for name in sorted(self._written))]

    def _restore_state(self) -> dict[str, torch.Tensor]:
        """Reset the copies of weights and buffers. Returns the values of those that the model had changed, by name."""
        changed = {n: self._state[n] for n, one in self._held.items() if not _have_same_values(one, self._state[n])}
        self._state.update(_copy_state({name: self._held[name] for name in changed}))
        return changed

    def _run_program(self, leaves: Sequence[Any], sizes: Sizes) -> list[Any]:
        signature, given = self._program.graph_signature, iter(leaves)
        held: Any = self._program.constants | self._program.state_dict
        inputs = []
        for one in signature.input_specs:
            value = next(given) if one.kind is InputKind.USER_INPUT else held[one.target]
            inputs.append(one.arg.value if isinstance(one.arg, ConstantArgument) else value)
        results = _CheckedInterpreter(self._program.graph_module, sizes).run(*inputs)
        pairs = list(zip(results, signature.output_specs, strict=True))
        written = {str(spec.target): one for one, spec in pairs if spec.target in self._written}
        return [
            *(one for one, spec in pairs if spec.kind is OutputKind.USER_OUTPUT),
            *(written[name] for name in sorted(self._written)),
        ]


class _CheckedInterpreter(Interpreter):
    """Raises a ValueError at a call whose result has another shape than captured, such as `squeeze` at a size of 1."""

    def __init__(self, module: torch.fx.GraphModule, sizes: Sizes) -> None:
        super().__init__(module)
        self._sizes = {symbol: sympy.Integer(value) for symbol, value in sizes.items()}

    def run_node(self, n: Node) -> Any:
        """The result of the node."""
        result = super().run_node(n)
        captured = n.meta.get("val")
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


def _copy_state(held: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies of weights and buffers. Weights remain parameters, because models ask for the class."""
    copies = {name: one.detach().clone() for name, one in held.items()}
    return {
        name: nn.Parameter(one, requires_grad=held[name].requires_grad) if isinstance(held[name], nn.Parameter) else one
        for name, one in copies.items()
    }


def _copy_with_its_weights(model: nn.Module) -> nn.Module:
    """A copy, so that attributes that the model assigns while it runs stay as they are; the model if it has no copy."""
    shared: dict[int, Any] = {id(one): one for one in (*model.parameters(), *model.buffers())}
    try:
        with warnings.catch_warnings(action="ignore"):  # torch calls the making of parts of a GraphModule deprecated
            return copy.deepcopy(model, shared)
    except Exception:  # noqa: BLE001  # attributes may have no copy, such as results with gradients
        return model


def _draws_random_numbers(program: ExportedProgram) -> bool:
    calls = (node.target for node in program.graph.nodes if isinstance(node.target, OpOverload))
    return any(torch.Tag.nondeterministic_seeded in call.tags for call in calls)


def _run_with_python_warnings(run: Callable[[], list[Any]]) -> list[Any]:
    """The result of `run`; warnings of the ATen calls in it become Python's.

    ATen calls by overload, as in captured programs, print their warnings on the standard error output, unless a method
    of a tensor is running.
    """
    results: list[list[Any]] = []

    def append(value: float) -> float:
        results.append(run())
        return value

    torch.zeros(1, device="cpu").apply_(append)
    return results[0]


def _have_one_form(expected: Any, got: Any) -> bool:
    if not isinstance(expected, torch.Tensor) or not isinstance(got, torch.Tensor):
        return type(expected) is type(got)
    return expected.shape == got.shape and expected.dtype == got.dtype


def _have_same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one, other) or torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)  # with NaN


def _agree(expected: Any, got: Any) -> bool:
    if not _have_one_form(expected, got):
        return False
    if not isinstance(expected, torch.Tensor):
        return bool(expected == got)
    if expected.dtype == torch.complex32:  # torch.equal does not take it
        return _agree(*(torch.view_as_real(one.resolve_conj()) for one in (expected, got)))
    tolerance = _TOLERANCES.get(expected.dtype)
    if tolerance is None:
        return torch.equal(expected, got)
    sizes = expected[expected.isfinite() & (expected != 0)].detach().abs().float()
    # A typical element sets the tolerance. The largest may be a mask, such as -1e9, and would hide all differences.
    allowed = tolerance * float(sizes.kthvalue((sizes.numel() + 3) // 4).values) if sizes.numel() else 0.0
    return torch.allclose(expected, got, rtol=tolerance, atol=allowed, equal_nan=True)
