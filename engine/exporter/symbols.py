"""Translates torch's symbolic sizes to the engine's formulas. Knows torch's sympy expressions; knows no graph."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sympy  # type: ignore[import-untyped]  # it has no annotations
import torch
from torch.fx import Node

from engine import sizes, terms
from engine.errors import InternalError
from engine.exporter.handlers import Refusal
from engine.exporter.torch_internals import FloorDiv, Max, Min, Mod, PythonMod

_RELATIONS: dict[Any, Any] = {
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
}
_OPERATIONS = (sympy.Add, sympy.Mul, FloorDiv, Mod, PythonMod, Max, sympy.Max, Min, sympy.Min)
_REALS = {
    "Add": "+",
    "Mul": "*",
    "FloatTrueDiv": "/",
    "IntTrueDiv": "/",
    "ToFloat": "*",
    "FloatPow": "**",
    "Pow": "**",
    "OpaqueUnaryFn_sqrt": "sqrt",
    "Max": "max",
    "Min": "min",
}
"""Classes of formulas of torch with float results, by name -> operation of a `sizes.Real`."""
_MOST_EXACT = 1 << 20
"""Of a factor of a size in floats: a float64 has the bits of both."""
Ranges = Mapping[Any, Any]
"""sympy symbol -> torch's range of values."""


class Range(NamedTuple):
    """A range of values, as torch's."""

    lower: Any
    upper: Any


class Symbols:
    """The symbols of one traced program, declared in `scope` under the names that the user gave them.

    `ranges` bounds them, and `names` maps (input, axis) to the user's name. `known` symbols are numbers in this program
    and are not declared. `inputs` are the program's placeholders for arguments of a call.
    """

    def __init__(
        self,
        scope: sizes.Scope,
        ranges: Ranges,
        inputs: Iterable[Node],
        names: Mapping[tuple[str, int], str] | None = None,
        known: Mapping[sympy.Symbol, int] | None = None,
    ) -> None:
        self.scope = scope
        self._known = known or {}
        self._names: dict[sympy.Symbol, str] = {}
        names = names or {}
        for node in inputs:
            value = node.meta.get("val")
            shape: Sequence[Any] = value.shape if isinstance(value, torch.Tensor) else ()
            for axis, size in enumerate(shape):
                symbols: set[sympy.Symbol] = size.node.expr.free_symbols if isinstance(size, torch.SymInt) else set()
                if len(symbols) == 1:  # with several, torch has found each as a size of its own, too
                    self._declare(ranges, size, symbols.pop(), names.get((node.name, axis)))

    def _declare(self, ranges: Ranges, size: torch.SymInt, symbol: sympy.Symbol, name: str | None) -> None:
        if symbol in self._names or symbol in self._known:
            return
        allowed = ranges.get(symbol)
        low = 0 if allowed is None else max(_bounded(allowed.lower, 0), 0)  # no size is negative
        high = sizes.UNBOUNDED if allowed is None else _bounded(allowed.upper, sizes.UNBOUNDED)
        if name is None or name in self.scope.symbols:
            name = str(symbol)
        self._names[symbol] = name
        self.scope.symbols[name] = sizes.Symbol(low, high, get_example(size, symbol))

    def find_numbers(self, values: Iterable[int]) -> dict[sympy.Symbol, int]:
        """The number that each of torch's symbols stands for, where the scope's symbols, in order, have `values`."""
        return dict(zip(self._names, values, strict=True))

    def size(self, size: Any) -> int:
        """A size in torch as an int or a formula. Refusal if it depends on data, or is no sum, product or quotient."""
        if isinstance(size, int) and not isinstance(size, torch.SymInt):
            return size
        found: int = self._of(size.node.expr)
        return found

    def number(self, expression: Any) -> Any:
        """A float in torch that is computed from sizes, as a float or a formula. Raises as `size`."""
        name = type(expression).__name__
        if isinstance(expression, sympy.Float):
            return float(expression)
        if expression.is_integer:
            return self._of(expression)
        if name not in _REALS:
            raise Refusal(
                f"the number {expression} is no formula of sums, products, quotients, powers and square roots"
            )
        operands = (*map(self.number, expression.args), *((1.0,) if name == "ToFloat" else ()))
        try:
            made = sizes.Real(_REALS[name], operands)
        except ValueError as error:
            raise Refusal(str(error)) from None
        return float(made) if sizes.is_fixed(operands) else made

    def _rounded(self, expression: Any) -> Any:
        """A float that is computed from sizes without rounding, such as ``1.5 * n``, as a whole number."""
        name = type(expression).__name__
        above, below = self._ratio_of(expression.args[0])
        is_up = name == "CeilToInt" or (name == "TruncToInt" and above < 0)
        return -(-above // below) if is_up else above // below

    def _ratio_of(self, expression: Any) -> tuple[Any, int]:
        """A float as a formula and a number by which it is divided, a power of 2."""
        if isinstance(expression, sympy.Float):
            ratio = float(expression).as_integer_ratio()
            if max(map(abs, ratio)) <= _MOST_EXACT:
                return ratio
        elif expression.is_integer:
            return self._of(expression), 1
        elif type(expression).__name__ == "ToFloat":
            return self._ratio_of(expression.args[0])
        elif isinstance(expression, sympy.Mul):
            parts = list(map(self._ratio_of, expression.args))
            return math.prod(above for above, _below in parts), math.prod(below for _above, below in parts)
        raise Refusal(f"a size is computed with {expression}, which rounds; a fraction such as 0.5 does not")

    def note(self, condition: Any) -> None:
        """Record an assertion of the program about sizes as a guard. Does nothing for an assertion about data."""
        expression: Any = condition.node.expr if isinstance(condition, torch.SymBool) else None
        relation = _RELATIONS.get(type(expression))
        if relation and all(symbol in self._names or symbol in self._known for symbol in expression.free_symbols):
            relation(*map(self._of, expression.args))

    def _of(self, expression: Any) -> Any:
        if isinstance(expression, sympy.Integer):
            return int(expression)
        if self._known and expression.free_symbols <= self._known.keys():
            return int(expression.xreplace(self._known))
        if isinstance(expression, sympy.Symbol):
            if expression not in self._names:
                raise Refusal(f"the size {expression} depends on the values of tensors")
            return self.scope.size(terms.symbol(self._names[expression]))
        if type(expression).__name__ in ("TruncToInt", "FloorToInt", "CeilToInt"):
            return self._rounded(expression)
        parts = [self._of(part) for part in expression.args]
        if not _is_formula(expression):
            raise Refusal(f"the size {expression} is no formula of sums, products and quotients of whole numbers")
        return _combined(expression, parts)


def _is_formula(expression: sympy.Basic) -> bool:
    """Whether `_combined` knows the operation of a formula of torch."""
    if isinstance(expression, sympy.Pow):
        return bool(expression.exp.is_Integer and expression.exp.is_positive)
    return isinstance(expression, _OPERATIONS)


def _combined(expression: sympy.Basic, parts: Sequence[Any]) -> Any:
    match expression:
        case sympy.Add():
            return sum(parts)
        case sympy.Mul():
            product = 1
            for part in parts:
                product = part * product
            return product
        case sympy.Pow():
            product = parts[0]
            for _ in range(parts[1] - 1):
                product = product * parts[0]
            return product
        case FloorDiv():
            return parts[0] // parts[1]
        case Mod() | PythonMod():
            return parts[0] % parts[1]
        case Max() | sympy.Max():
            return max(parts)
        case Min() | sympy.Min():
            return min(parts)
    raise InternalError(f"{expression} is no formula")


def get_example(size: torch.SymInt, symbol: sympy.Symbol) -> int:
    """The value of `symbol` in the example inputs, where `size` is ``factor * symbol + shift``."""
    shift, factor = _find_line(_in_terms_of(size.node.expr, symbol))
    return (int(size.node.hint) - shift) // factor


def _in_terms_of(formula: Any, symbol: sympy.Symbol) -> Callable[[int], Any]:
    return lambda number: formula.xreplace({symbol: sympy.Integer(number)})


def _find_line(formula: Callable[[int], Any]) -> tuple[int, int]:
    """(shift, factor) of a linear formula of one number, ``factor * number + shift``."""
    shift = int(formula(0))
    return shift, int(formula(1)) - shift


def _bounded(bound: Any, otherwise: int) -> int:
    return min(int(bound), sizes.UNBOUNDED) if isinstance(bound, int | sympy.Integer) else otherwise


def names_of(dynamic_shapes: Mapping[str, Any] | None, inputs: Sequence[Node]) -> dict[tuple[str, int], str]:
    """(input, axis) -> the name for the symbol in its size: that of its `torch.export.Dim`, or of the Dim's root.

    A size that is left to torch, as `Dim.AUTO`, is named by the first input and axis whose size it is: ``x_0``. So is
    each size of a program of torch.export, which does not keep the names of Dims. `dynamic_shapes` go by input name.
    """
    places = {(node.name, axis): get_expression(node, axis) for node in inputs for axis in range(_rank(node))}
    first: dict[Any, str] = {}
    for (name, axis), size in places.items():
        first.setdefault(size, f"{name}_{axis}")
    symbols = {place: next(iter(size.free_symbols), None) for place, size in places.items() if size is not None}
    found = {place: first[symbol] for place, symbol in symbols.items() if symbol in first}
    for node, axis, dim in list_dims(dynamic_shapes, inputs):
        size = get_expression(node, axis)
        if isinstance(dim, torch.export.Dim) and size is not None and len(size.free_symbols) == 1:
            root, formula = getattr(dim, "root", dim), getattr(dim, "fn", int)
            (symbol,) = size.free_symbols
            if _find_line(_in_terms_of(size, symbol)) == _find_line(formula):
                found[node.name, axis] = root.__name__
    return found


def _rank(node: Node) -> int:
    value = node.meta.get("val")
    return value.dim() if isinstance(value, torch.Tensor) else 0


def get_expression(node: Node, axis: int) -> Any:
    """Torch's formula of the size of an axis of an input; None if it is a number."""
    value = node.meta.get("val")
    size: Any = value.shape[axis] if isinstance(value, torch.Tensor) else None
    return size.node.expr if isinstance(size, torch.SymInt) else None


def list_dims(dynamic_shapes: Mapping[str, Any] | None, inputs: Sequence[Node]) -> Iterator[tuple[Node, int, Any]]:
    """(input, axis, what `dynamic_shapes` has for it), of each axis that it names. Arguments as of `names_of`."""
    nodes = {node.name: node for node in inputs}
    for name, axes in _parts("", dynamic_shapes or {}):
        for axis, dim in list_parts(axes) if name in nodes else ():
            if isinstance(axis, int):
                yield nodes[name], axis, dim


def _parts(name: str, shapes: Any) -> Iterator[tuple[str, Any]]:
    """The dynamic shapes of the axes of each tensor in a structure, with torch.export's name of the tensor."""
    parts = list_parts(shapes)
    by_axis = isinstance(shapes, Mapping) and not any(isinstance(key, str) for key in shapes)
    if name and (by_axis or not any(isinstance(part, Mapping | tuple | list) for _key, part in parts)):
        yield name, shapes
        return
    for key, part in parts:
        inner = f"{name}_{re.sub(r'[^a-z0-9]', '_', str(key).lower())}" if name else str(key)
        yield from _parts(inner, part)


def list_parts(shapes: Any) -> list[tuple[Any, Any]]:
    """(key or position, part) for each part; [] if `shapes` has no parts."""
    listed = shapes if isinstance(shapes, tuple | list) else ()
    return list(shapes.items() if isinstance(shapes, Mapping) else enumerate(listed))
