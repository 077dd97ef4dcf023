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


def _quotient(a: Terms, b: Terms) -> Terms | None:
    """A / b if b is one product that divides every term of a; None otherwise."""
    if len(b) != 1:
        return None
    ((below, divisor),) = b
    sums: dict[Monomial, int] = {}
    for monomial, factor in a:
        rest = list(monomial)
        for atom in below:
            if atom not in rest:
                return None
            rest.remove(atom)
        if factor % divisor:
            return None
        sums[tuple(rest)] = factor // divisor
    return sum_monomials(sums)


def divide(a: Terms, b: Terms) -> Terms:
    """A // b, in one form for formulas that differ by whole multiples of b or in which a ceiling is written.

    ``(n - 2) // 2`` is ``n // 2 - 1``, and ``(-n) // 2`` is ``-((n + 1) // 2)``.
    """
    whole, rest = _split(a, b)
    divisor = number_of(b) or 0
    if not rest or (divisor > 0 and number_of(rest) is not None):
        return whole
    if divisor > 0 and _begins_below_zero(rest):  # x // d == -((-x + d - 1) // d)
        return add(whole, divide(add(constant(divisor - 1), rest, -1), b), -1)
    return add(whole, (((("//", rest, b),), 1),))


def remainder(a: Terms, b: Terms) -> Terms:
    """A % b, where whole multiples of b are left out of a."""
    rest = _split(a, b)[1]
    if not rest or ((number_of(b) or 0) > 0 and number_of(rest) is not None):
        return rest
    return (((("%", rest, b),), 1),)


def _split(a: Terms, b: Terms) -> tuple[Terms, Terms]:
    """(q, r) with a == q * b + r, where r has no whole multiple of b as a part.

    If b is a positive number, each factor in r is nearer to 0 than b, and the number in r is one of 0 to b - 1.
    """
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    divisor = number_of(b) or 0
    for monomial, factor in a:
        if exact := _quotient(((monomial, factor),), b):
            for part, times in exact:
                whole[part] = whole.get(part, 0) + times
            continue
        times = 0
        if divisor > 0:
            times = factor // divisor if not monomial or factor > 0 else -(-factor // divisor)
        whole[monomial] = whole.get(monomial, 0) + times
        rest[monomial] = factor - times * divisor
    return sum_monomials(whole), sum_monomials(rest)


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
