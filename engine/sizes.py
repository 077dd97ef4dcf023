"""Sizes that depend on the sizes of a call: formulas over symbols, and guards on them.

In shapes and attributes, a `Size` takes the place of an int, and a `Real` that of a float. Adding, multiplying and
dividing gives another formula. If the bounds of the sizes decide a comparison, it has that answer, and no side effect.
For other comparisons there are two cases:

- Inside of ``with scope.deciding():``, which the exporter and the passes open around all of their work, the answer is
  that for the example's sizes, and the scope records it as a guard, which the sizes of every call must satisfy. If it
  finds, by trying sizes, that all do, it records no guard: ``(n + 1) // 2 == -(-n // 2)``. Code that needs a number (a
  range, an index, a float) gets the example's number, with the guard that the size equals it.
- Elsewhere (a cache, a set, a file that is read, a report) the comparison is an `UndecidedSizeError`, and no guard is
  recorded.

So no code can treat a size as fixed without a record of it: rules of ops compare shapes as if they were numbers, and
the report lists the guards. `same` and `at_most` never record a guard and never raise. They are for code that only
loses an optimisation if two sizes are not known to be equal, and for code outside of these two stages.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from engine.errors import ConfigError, ShapeError, UndecidedSizeError
from engine.terms import (
    Atom,
    Monomial,
    Terms,
    add,
    constant,
    divide,
    evaluate,
    multiply,
    number_of,
    period_of,
    remainder,
    symbols_of,
    text_of,
)

MOST = 1 << 48
"""Every size of a call is smaller."""
UNBOUNDED = 1 << 31
"""Upper bound of a size without another bound: larger sizes do not fit the attributes of every kernel."""
_MOST_TRIED = 4096
"""The most sizes for which a condition is tried."""


class Symbol(NamedTuple):
    """A size of a call: its minimum and maximum (inclusive), and its value in the example."""

    low: int
    high: int
    example: int


class Guard(NamedTuple):
    """A condition on the sizes of every call: the truth of ``terms == 0`` (or ``terms < 0``) is `holds`."""

    relation: str
    terms: Terms
    holds: bool

    def is_met(self, values: Mapping[str, int]) -> bool:
        """Whether these sizes satisfy the guard."""
        value = evaluate(self.terms, values)
        return (value == 0 if self.relation == "==" else value < 0) == self.holds

    def __str__(self) -> str:
        text = text_of(self.terms)
        return f"{text} {self.relation if self.holds else {'==': '!=', '<': '>='}[self.relation]} 0"


# --- what is known of symbols ----------------------------------------------------------------------------------------


class Scope:
    """The symbols of one program, and the guards collected while it was made.

    `conditions` are comparisons of floats that depend on sizes, which each call must meet, too. `unchecked` has the
    conditions on the inputs that the program relies on and that no call can check.
    """

    def __init__(self) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.guards: dict[Guard, None] = {}
        self.conditions: tuple[Real, ...] = ()
        self.unchecked: tuple[str, ...] = ()
        self._deciding = 0

    def copy(self) -> Scope:
        """A scope with the same symbols and guards. A guard added to one of the scopes is not added to the other."""
        copy = Scope()
        copy.symbols, copy.guards, copy.conditions = dict(self.symbols), dict(self.guards), self.conditions
        return copy

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """A block in which comparisons that ranges do not decide are answered by `assume`.

        Only one thread at a time may use it. Blocks may be nested.
        """
        self._deciding += 1
        try:
            yield
        finally:
            self._deciding -= 1

    @property
    def is_deciding(self) -> bool:
        """True inside of `deciding`."""
        return self._deciding > 0

    @property
    def example(self) -> dict[str, int]:
        """The example's sizes."""
        return {name: s.example for name, s in self.symbols.items()}

    def size(self, terms: Terms) -> int:
        """A formula as a `Size`, or as an int if it has no symbol."""
        number = number_of(terms)
        return cast("int", Size(self, terms)) if number is None else number

    def known(self, relation: str, terms: Terms) -> bool | None:
        """Whether ``terms == 0`` or ``< 0`` for all sizes; None if that depends on the sizes or is not known."""
        low, high = self.bounds(terms)
        if relation == "==":
            return low == high == 0 if low > 0 or high < 0 or low == high == 0 else None
        return high < 0 if high < 0 or low >= 0 else None

    def assume(self, relation: str, terms: Terms) -> bool:
        """Whether ``terms == 0`` or ``< 0`` in the example. Records a guard, unless all sizes are known to meet it."""
        holds = Guard(relation, terms, holds=True).is_met(self.example)
        guard = Guard(relation, terms, holds)
        if guard not in self.guards and not self._is_certain(guard):
            self.guards[guard] = None
        return holds

    def _is_certain(self, guard: Guard) -> bool:
        """Whether all sizes meet a guard on one symbol, found by trying them; False if that is not known.

        ``(n + 1) // 2`` grows by 1 whenever n grows by 2: the sizes of one period decide, with the step to the next.
        """
        names = symbols_of(guard.terms)
        if len(names) != 1:
            return False
        (name,) = names
        low, high = self.symbols[name].low, self.symbols[name].high
        period = period_of(guard.terms)
        tried = range(low, min(high + 1, low + period.length) if period else high + 1)
        if len(tried) > _MOST_TRIED:
            return False
        try:
            if not all(guard.is_met({name: size}) for size in tried):
                return False
        except ShapeError:  # a division by 0
            return False
        step = period.step if period and tried[-1] < high else 0
        # A falling value stays below 0, and a growing one stays above. Whether either becomes 0 is not decided.
        return step == 0 or (guard.relation == "<" and (step < 0) == guard.holds)

    def bounds(self, terms: Terms) -> tuple[float, float]:
        """Lower and upper bound of the value, not always tight. They follow from the bounds of every product, and, if
        the sum is monotone, from its value where every symbol is least or largest.
        """
        low, high = self._loose_bounds(terms)
        for end in (0, 1):
            constant, rest = self._from_end(terms, end)
            if all(factor >= 0 for factor in rest):
                low = max(low, constant)
            if all(factor <= 0 for factor in rest):
                high = min(high, constant)
        return low, high

    def _from_end(self, terms: Terms, end: int) -> tuple[float, list[float]]:
        """The sum in terms of each atom's distance from its least (largest) value: the constant, the other factors."""
        sums: dict[Monomial, float] = {}
        for monomial, factor in terms:
            parts: dict[Monomial, float] = {(): factor}
            for atom in monomial:
                edge, sign = self._atom_bounds(atom)[end], (1, -1)[end]
                grown: dict[Monomial, float] = {}
                for chosen, f in parts.items():
                    grown[chosen] = grown.get(chosen, 0) + f * edge
                    longer = tuple(sorted((*chosen, atom), key=repr))
                    grown[longer] = grown.get(longer, 0) + f * sign
                parts = grown
            for chosen, f in parts.items():
                sums[chosen] = sums.get(chosen, 0) + f
        return sums.pop((), 0), list(sums.values())

    def _loose_bounds(self, terms: Terms) -> tuple[float, float]:
        low: float = 0
        high: float = 0  # an int as long as all bounds are: a float would round a sum near 2**80
        for monomial, factor in terms:
            ends = [self._atom_bounds(atom) for atom in monomial]
            least, most = math.prod(e[0] for e in ends), math.prod(e[1] for e in ends)
            low, high = (
                (low + factor * least, high + factor * most)
                if factor > 0
                else (
                    low + factor * most,
                    high + factor * least,
                )
            )
        return low, high

    def _atom_bounds(self, atom: Atom) -> tuple[float, float]:
        """Lower and upper bound of an atom; -MOST and MOST if the divisor may be 0 or negative."""
        if isinstance(atom, str):
            return self.symbols[atom].low, self.symbols[atom].high
        operation, a, b = atom
        (a_low, a_high), (b_low, b_high) = self.bounds(a), self.bounds(b)
        if b_low <= 0:
            return -MOST, MOST
        if operation == "%":
            if a_low >= 0 and self.bounds(add(b, a, -1))[0] > 0:  # a < b, so a % b is a
                return a_low, a_high
            return 0, b_high - 1 if a_low < 0 else min(a_high, b_high - 1)
        ends = [end // by for end in (a_low, a_high) for by in (b_low, b_high)]
        return min(ends), max(ends)

    @property
    def settled(self) -> dict[str, int]:
        """Symbols for which a guard allows only the example's size, with that size."""
        only = [g.terms for g in self.guards if g.relation == "==" and g.holds]
        names = [{atom for monomial, _ in terms for atom in monomial} for terms in only]
        return {n: self.symbols[n].example for found in names if len(found) == 1 for n in found if n in self.symbols}

    def chosen(self, given: Mapping[str, Any]) -> dict[str, int]:
        """The example's sizes, with the sizes in `given` in place of some of them, for a report.

        Raises:
            ConfigError: `given` has an unknown name, or a value that is no whole number.
        """
        if unknown := sorted(set(given) - set(self.symbols)):
            known = ", ".join(self.symbols) or "none"
            raise ConfigError(f"report: no size {', '.join(unknown)} differs from call to call; known sizes: {known}")
        return self.example | {name: _whole_number(name, value) for name, value in given.items()}

    def check(self, values: Mapping[str, int]) -> None:
        """ShapeError unless these sizes are in their ranges and satisfy all guards."""
        for name, (low, high, _example) in self.symbols.items():
            if not low <= values[name] <= high:
                raise ShapeError(f"{name} = {values[name]}: compiled for {_write_limits(values[name], low, high)}")
        met = {guard: guard.is_met(values) for guard in self.guards}
        for guard, is_met in (*met.items(), *((one, one.evaluate(values)) for one in self.conditions)):
            if not is_met:
                here = ", ".join(f"{n} = {v}" for n, v in values.items())
                way = "for others, compile another program, whose example has them (0 and 1 as fixed sizes)"
                raise ShapeError(f"{here}: compiled for sizes with {guard}; {way}")


def _write_limits(size: int, low: int, high: int) -> str:
    """The range of a symbol, which does not have `size`; says for sizes of 0 and 1 how torch comes to begin at 2."""
    if high < UNBOUNDED:
        return f"{low} to {high}"
    is_small = low == 2 and 0 <= size < low  # the least size that torch takes as dynamic by itself
    why = "; torch begins there for Dim.AUTO and Dim.DYNAMIC, and torch.export.Dim(..., min=0) begins at 0"
    return f"sizes from {low} on{why if is_small else ''}"


def _whole_number(name: str, value: Any) -> int:
    """`value` as an int; ConfigError if it is no whole number. Nothing is rounded or parsed."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise ConfigError(f"report: {name}: expected a whole number, got {value!r}")


class Size:
    """A formula of a `Scope`, in place of an int. Made by `Scope.size`."""

    __slots__ = ("scope", "terms")

    def __init__(self, scope: Scope, terms: Terms) -> None:
        self.scope = scope
        self.terms = terms

    @property
    def key(self) -> Hashable:
        return self.terms

    def evaluate(self, values: Mapping[str, int]) -> int:
        return evaluate(self.terms, values)

    def move(self, scope: Scope) -> int:
        return scope.size(self.terms)

    def pin(self) -> int:
        number = evaluate(self.terms, self.scope.example)
        self._decide("==", add(self.terms, constant(-number)), self, "as a number")
        return number

    def _decide(self, relation: str, terms: Terms, *question: object) -> bool:
        """Whether ``terms == 0`` or ``< 0``. UndecidedSizeError, with the question, if no guard may be recorded."""
        answer = self.scope.known(relation, terms)
        if answer is None and not self.scope.is_deciding:
            raise UndecidedSizeError(
                f"{' '.join(map(str, question))}: it depends on the sizes of a call, and no guard may be recorded "
                "outside of the exporter and the passes"
            )
        return self.scope.assume(relation, terms) if answer is None else answer

    __index__ = __int__ = pin

    def __float__(self) -> float:
        return float(self.pin())

    def __bool__(self) -> bool:
        return not self._decide("==", self.terms, self, "!= 0")

    def __hash__(self) -> int:
        return hash(self.terms)

    def __repr__(self) -> str:
        return text_of(self.terms)

    def __eq__(self, other: object) -> bool:
        terms = _terms_of(other)
        return terms is not None and self._decide("==", add(self.terms, terms, -1), self, "==", other)

    def __lt__(self, other: Any) -> bool:
        return self._less(other, strict=True)

    def __ge__(self, other: Any) -> bool:
        return not self._less(other, strict=True)

    def __le__(self, other: Any) -> bool:
        return self._less(other, strict=False)

    def __gt__(self, other: Any) -> bool:
        return not self._less(other, strict=False)

    def _less(self, other: Any, *, strict: bool) -> bool:
        terms = _terms_of(other)
        if terms is None:  # a float, or infinity
            return self.pin() < other if strict else self.pin() <= other
        less = add(add(self.terms, terms, -1), constant(0 if strict else -1))
        return self._decide("<", less, self, "<" if strict else "<=", other)

    def __add__(self, other: Any) -> Any:
        terms = _terms_of(other)
        return self.pin() + other if terms is None else self.scope.size(add(self.terms, terms))

    def __sub__(self, other: Any) -> Any:
        terms = _terms_of(other)
        return self.pin() - other if terms is None else self.scope.size(add(self.terms, terms, -1))

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __neg__(self) -> int:
        return self.scope.size(add((), self.terms, -1))

    def __abs__(self) -> int:
        return -self if self < 0 else cast("int", self)

    def __mul__(self, other: Any) -> Any:
        terms = _terms_of(other)
        return self.pin() * other if terms is None else self.scope.size(multiply(self.terms, terms))

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, other: Any) -> Any:
        terms = _terms_of(other)
        return self.pin() // other if terms is None else self.scope.size(divide(self.terms, terms))

    def __rfloordiv__(self, other: Any) -> Any:
        terms = _terms_of(other)
        return other // self.pin() if terms is None else self.scope.size(divide(terms, self.terms))

    def __mod__(self, other: Any) -> Any:
        terms = _terms_of(other)
        return self.pin() % other if terms is None else self.scope.size(remainder(self.terms, terms))

    def __rmod__(self, other: Any) -> Any:
        terms = _terms_of(other)
        return other % self.pin() if terms is None else self.scope.size(remainder(terms, self.terms))

    def __truediv__(self, other: Any) -> float:
        return self.pin() / float(other)

    def __rtruediv__(self, other: Any) -> float:
        return float(other) / self.pin()


_OPERATIONS: dict[str, Callable[..., float]] = {
    "+": lambda *numbers: sum(numbers),
    "*": lambda *numbers: math.prod(numbers),
    "/": operator.truediv,
    "**": operator.pow,
    "sqrt": math.sqrt,
    "trunc": math.trunc,
    "max": max,
    "min": min,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
"""What a `Real` may compute, as Python does; "+" and "*" take any number of operands, and comparisons are 0 or 1."""
_MOST_PARTS = 128
"""Of one `Real`: operations, numbers and formulas."""


class Real:
    """A float that is computed from sizes, such as ``1 / n``: an operation on numbers and formulas.

    It takes the place of a float where an attribute may be a formula. Whoever computes with it or compares it gets the
    example's number, with guards that the sizes equal the example's.
    """

    __slots__ = ("operands", "operation", "parts")

    def __init__(self, operation: str, operands: tuple[Any, ...]) -> None:
        if operation not in _OPERATIONS or any(type(one) not in (int, float, Size, Real) for one in operands):
            raise ValueError(f"not an operation on numbers: {operation!r} of {list(operands)!r}")
        self.operation = operation
        self.operands = operands
        self.parts: int = 1 + sum(one.parts if isinstance(one, Real) else 1 for one in operands)
        if self.parts > _MOST_PARTS:
            raise ValueError(f"a number that depends on sizes has over {_MOST_PARTS} parts")

    @property
    def key(self) -> Hashable:
        return self.operation, key_of(self.operands)

    def evaluate(self, values: Mapping[str, int]) -> float:
        return self._apply(at(self.operands, values))

    def move(self, scope: Scope) -> Real:
        return Real(self.operation, in_scope(self.operands, scope))

    def pin(self) -> float:
        return self._apply([one.pin() if isinstance(one, Formula) else one for one in self.operands])

    __float__ = pin

    def _apply(self, numbers: Sequence[float]) -> float:
        try:
            return float(_OPERATIONS[self.operation](*numbers))
        except (ArithmeticError, ValueError, TypeError) as error:  # TypeError: a complex number
            raise ShapeError(f"{self} has no value where its operands are {list(numbers)}: {error}") from None

    def __repr__(self) -> str:
        if self.operation.isalpha():
            return f"{self.operation}({', '.join(map(str, self.operands))})"
        texts = [f"({one})" if isinstance(one, Size) and len(one.terms) > 1 else str(one) for one in self.operands]
        return f"({f' {self.operation} '.join(texts)})"


def _on_number(name: str) -> Callable[..., Any]:
    return lambda self, *others: getattr(float(self), name)(*others)


for _name in (
    "eq",
    "lt",
    "le",
    "gt",
    "ge",
    "bool",
    "abs",
    "neg",
    "add",
    "radd",
    "sub",
    "rsub",
    "mul",
    "rmul",
    "truediv",
    "rtruediv",
):
    setattr(Real, f"__{_name}__", _on_number(f"__{_name}__"))

Formula = Size | Real
"""What takes the place of a number that depends on the sizes of a call."""


def _terms_of(value: object) -> Terms | None:
    if isinstance(value, Size):
        return value.terms
    return constant(value) if isinstance(value, int) else None


# --- sizes inside of other things ------------------------------------------------------------------------------------


def whole(value: Any) -> int:
    """`value` as an int; a formula is returned as it is."""
    return cast("int", value) if isinstance(value, Size) else int(value)


def is_fixed(value: Any) -> bool:
    """True if `value` (a size, a shape, an attribute) is the same for every call."""
    return not any(isinstance(leaf, Formula) for leaf in _leaves(value))


def is_whole(value: Any) -> bool:
    """True unless a number in `value` (a size, a shape, an attribute) is a `Real`."""
    return not any(isinstance(leaf, Real) for leaf in _leaves(value))


def find_largest(size: Any) -> int:
    """The number that a size does not exceed."""
    return int(size.scope.bounds(size.terms)[1]) if isinstance(size, Size) else int(size)


def is_bounded(value: Any) -> bool:
    """True if every number in `value` (a size, a shape, an attribute) fits into 64 bits. Formulas are not checked."""
    return all(not isinstance(leaf, int) or -(1 << 63) <= leaf < 1 << 63 for leaf in _leaves(value))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def same(a: Any, b: Any) -> bool:
    """Whether two sizes, shapes or types are known to be equal for every call. Records no guard."""
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    return key_of(a) == key_of(b) if isinstance(a, Formula) or isinstance(b, Formula) else bool(a == b)


def key_of(value: Any) -> Hashable:
    """Equal for the same sizes, shapes or attributes, also of formulas. ``0.0``, ``-0.0``, ``0`` and False differ."""
    if isinstance(value, Formula):
        return value.key
    return tuple(map(key_of, value)) if isinstance(value, tuple | list) else repr(value)


def at_most(a: Any, b: Any) -> bool:
    """Whether size `a` is known to be at most `b` for every call. Records no guard."""
    either = a if isinstance(a, Size) else b
    terms, most = _terms_of(a), _terms_of(b)
    if not isinstance(either, Size) or terms is None or most is None:
        return bool(a <= b)
    return either.scope.bounds(add(most, terms, -1))[0] >= 0


def as_line(value: Any) -> tuple[str, int, int] | None:
    """(symbol, factor, shift) of a size ``factor * symbol + shift`` with a factor over 0; None for other sizes."""
    terms = dict(value.terms) if isinstance(value, Size) else {}
    shift = terms.pop((), 0)
    match list(terms.items()):
        case [((str(name),), factor)] if factor > 0:
            return name, factor, shift
    return None


def at(value: Any, values: Mapping[str, int]) -> Any:
    """`value` with each formula in it replaced by its number for these sizes."""
    if isinstance(value, Formula):
        return value.evaluate(values)
    # Called for each size of a plan: a list is built faster than by a generator.
    return tuple([at(one, values) for one in value]) if isinstance(value, tuple) else value


def in_scope(value: Any, scope: Scope) -> Any:
    """`value` (a size, a shape, an attribute) with its formulas moved to `scope`, which has the same symbols."""
    if isinstance(value, Formula):
        return value.move(scope)
    return tuple(in_scope(one, scope) for one in value) if isinstance(value, tuple) else value
