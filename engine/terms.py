"""Formulas of sizes: sums of products of whole numbers, symbols, quotients and remainders. Knows no range or guard."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from engine.errors import ShapeError

Atom: TypeAlias = Any
"""A symbol's name, or ``("//" | "%", dividend, divisor)``, where both operands are Terms."""
Monomial: TypeAlias = tuple[Atom, ...]
"""A product of atoms; () is 1."""
Terms: TypeAlias = tuple[tuple[Monomial, int], ...]
"""A sum of monomials with nonzero factors, in a canonical order, so equal formulas are equal tuples."""


def sum_monomials(sums: Mapping[Monomial, int]) -> Terms:
    """The formula of these monomials and their factors; a factor may be 0."""
    return tuple(sorted(((m, f) for m, f in sums.items() if f), key=repr))


def constant(number: int) -> Terms:
    """A number as a formula."""
    return (((), number),) if number else ()


def symbol(name: str) -> Terms:
    """A symbol as a formula."""
    return (((name,), 1),)


def number_of(terms: Terms) -> int | None:
    """The value of a formula without symbols; None for other formulas."""
    match terms:
        case ():
            return 0
        case (((), number),):
            return number
    return None


def add(a: Terms, b: Terms, factor: int = 1) -> Terms:
    """A + factor * b."""
    sums = dict(a)
    for monomial, coefficient in b:
        sums[monomial] = sums.get(monomial, 0) + factor * coefficient
    return sum_monomials(sums)


def multiply(a: Terms, b: Terms) -> Terms:
    """A * b."""
    sums: dict[Monomial, int] = {}
    for left, f in a:
        for right, g in b:
            monomial = tuple(sorted((*left, *right), key=repr))
            sums[monomial] = sums.get(monomial, 0) + f * g
    return sum_monomials(sums)


def divide(a: Terms, b: Terms) -> Terms:
    """A // b. Formulas that are equal for one of these reasons get one form.

    - Whole multiples of b are taken out: ``(n - 2) // 2`` is ``n // 2 - 1``.
    - The first factor of a symbol is positive if b is a number d over 0: ``(-n) // d`` is ``-((n + d - 1) // d)``.
    - A quotient of a quotient by numbers is one quotient: ``(n // c + 1) // d`` is ``(n + c) // (c * d)``.
    """
    whole, rest = _split(a, b)
    divisor = _positive(b)
    if not rest or (divisor and number_of(rest) is not None):
        return whole
    if divisor and _begins_below_zero(rest):
        return add(whole, divide(add(constant(divisor - 1), rest, -1), b), -1)
    if divisor and (inner := _find_quotient(rest)) is not None:
        dividend, by, added = inner
        return add(whole, divide(add(dividend, constant(added * by)), constant(by * divisor)))
    return add(whole, (((("//", rest, b),), 1),))


def remainder(a: Terms, b: Terms) -> Terms:
    """A % b, without the parts of a that are whole multiples of b."""
    divisor = _positive(b)
    rest = sum_monomials({m: factor % divisor for m, factor in a}) if divisor else _split(a, b)[1]
    if not rest or (divisor and number_of(rest) is not None):
        return rest
    return (((("%", rest, b),), 1),)


def _positive(terms: Terms) -> int | None:
    """The value of a formula that is a number over 0; None for others."""
    number = number_of(terms)
    return number if number is not None and number > 0 else None


def _split(a: Terms, b: Terms) -> tuple[Terms, Terms]:
    """(q, r) with a == q * b + r, where r has no whole multiple of b as a part.

    If b is a positive number, each factor in r is nearer to 0 than b, and the number in r is one of 0 to b - 1.
    """
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    divisor = _positive(b)
    for monomial, factor in a:
        part, times = monomial, 0
        if exact := _divide_monomial(monomial, factor, b):
            part, times = exact
        elif divisor:
            times = factor // divisor if not monomial or factor > 0 else -(-factor // divisor)
        whole[part] = whole.get(part, 0) + times
        if not exact:
            rest[monomial] = factor - times * (divisor or 0)
    return sum_monomials(whole), sum_monomials(rest)


def _divide_monomial(monomial: Monomial, factor: int, b: Terms) -> tuple[Monomial, int] | None:
    """``factor * monomial / b`` if b is one product that divides it; None otherwise."""
    if len(b) != 1:
        return None
    ((below, divisor),) = b
    rest = list(monomial)
    for atom in below:
        if atom not in rest:
            return None
        rest.remove(atom)
    return None if factor % divisor else (tuple(rest), factor // divisor)


def _find_quotient(terms: Terms) -> tuple[Terms, int, int] | None:
    """(a, c, n) of a formula ``a // c + n`` with numbers c over 0 and n; None for others."""
    parts = dict(terms)
    added = parts.pop((), 0)
    match list(parts.items()):
        case [((("//", dividend, by),), 1)] if divisor := _positive(by):
            return dividend, divisor, added
    return None


def _begins_below_zero(terms: Terms) -> bool:
    """Whether the first factor of a symbol is negative."""
    return next((factor < 0 for monomial, factor in terms if monomial), False)


def evaluate(terms: Terms, values: Mapping[str, int]) -> int:
    """The value of a formula for these sizes."""
    total = 0
    for monomial, factor in terms:
        for atom in monomial:
            factor *= _atom_value(atom, values)
        total += factor
    return total


def _atom_value(atom: Atom, values: Mapping[str, int]) -> int:
    if isinstance(atom, str):
        return values[atom]
    operation, a, b = atom
    dividend, divisor = evaluate(a, values), evaluate(b, values)
    if divisor == 0:
        raise ShapeError(f"{text_of(a)} is divided by {text_of(b)}, which is 0 here")
    return dividend // divisor if operation == "//" else dividend % divisor


def symbols_of(terms: Terms) -> set[str]:
    """The symbols in a formula."""
    found: set[str] = set()
    for monomial, _factor in terms:
        for atom in monomial:
            found |= {atom} if isinstance(atom, str) else symbols_of(atom[1]) | symbols_of(atom[2])
    return found


class Period(NamedTuple):
    """The value of a formula of one symbol grows by `step` whenever the symbol grows by `length`."""

    length: int
    step: int


def period_of(terms: Terms) -> Period | None:
    """The period of a formula of one symbol; None if it has none or none is known."""
    length, step = 1, 0
    for monomial, factor in terms:
        if len(monomial) > 1:
            return None
        own = _period_of_atom(monomial[0]) if monomial else Period(1, 0)
        if own is None:
            return None
        common = math.lcm(length, own.length)
        length, step = common, step * (common // length) + factor * own.step * (common // own.length)
    return Period(length, step)


def _period_of_atom(atom: Atom) -> Period | None:
    """As `period_of`. A dividend that grows by a multiple of the divisor adds a fixed number to the quotient."""
    if isinstance(atom, str):
        return Period(1, 1)
    operation, dividend, by = atom
    own, divisor = period_of(dividend), number_of(by)
    if own is None or divisor is None or divisor <= 0:
        return None
    times = divisor // math.gcd(own.step, divisor)
    return Period(own.length * times, own.step * times // divisor if operation == "//" else 0)


def text_of(terms: Terms) -> str:
    """A formula as readable text."""
    parts = []
    for monomial, factor in sorted(terms, key=lambda t: -len(t[0])):
        shown = "*".join(map(_atom_text, monomial))
        if not monomial:
            shown = str(abs(factor))
        elif abs(factor) != 1:
            shown = f"{abs(factor)}*{shown}"
        parts.append(f"{'-' if factor < 0 else '+'} {shown}")
    return " ".join(parts).removeprefix("+ ") or "0"


def _atom_text(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    operation, a, b = atom
    return f"({_operand_text(a)} {operation} {_operand_text(b, is_divisor=True)})"


def _operand_text(terms: Terms, *, is_divisor: bool = False) -> str:
    """A dividend or divisor, in brackets where Python's precedence would read another formula."""
    text = text_of(terms)
    is_product = any(len(monomial) + (abs(factor) != 1) > 1 for monomial, factor in terms if monomial)
    return f"({text})" if len(terms) > 1 or (is_divisor and is_product) else text
