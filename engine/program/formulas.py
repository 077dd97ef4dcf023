"""Sizes and formulas of sizes in a program file: their JSON form, and the checks of what a file holds."""

from __future__ import annotations

from typing import Any

from engine.sizes import MOST, Guard, Real, Scope, Size, Symbol
from engine.terms import Atom, Monomial, Terms, sum_monomials

# Limits of a formula in a file. Without them a short file could contain numbers of millions of digits, and products of
# n atoms, for which `Scope._from_end` makes 2**n terms. The largest formula of all models in the tests has products of
# 3 atoms, 9 atoms in all, and quotients nested 5 deep.
_MOST_FACTORS = 8
_MOST_ATOMS = 128
_MOST_DEPTH = 8


def encode(value: Any) -> Any:
    """`value` as JSON-able values: a Size is ``{"size": formula}``, a Real ``{"real": [operation, *operands]}``."""
    if isinstance(value, Size):
        return {"size": encode_terms(value.terms)}
    if isinstance(value, Real):
        return {"real": [value.operation, *encode(value.operands)]}
    return [encode(one) for one in value] if isinstance(value, tuple | list) else value


def encode_terms(terms: Terms) -> list[Any]:
    """A formula as JSON-able values."""
    return [
        [[a if isinstance(a, str) else [a[0], encode_terms(a[1]), encode_terms(a[2])] for a in monomial], factor]
        for monomial, factor in terms
    ]


def encode_guards(scope: Scope) -> list[Any]:
    """Guards and conditions as JSON-able values."""
    guards = [[guard.relation, encode_terms(guard.terms), guard.holds] for guard in scope.guards]
    return [*guards, *map(encode, scope.conditions)]


def decode_scope(symbols: Any, guards: Any) -> Scope:
    """The scope that a file describes. ValueError if it is malformed."""
    scope = Scope()
    for name, numbers in symbols.items():
        low, high, example = numbers
        if not all(type(n) is int for n in numbers) or not 0 <= low <= example <= high < MOST:
            raise ValueError(f"not a range of sizes: {name} {numbers!r}")
        scope.symbols[str(name)] = Symbol(low, high, example)
    for guard in guards:
        if isinstance(guard, dict):
            scope.conditions += (decode(guard, scope),)
            continue
        relation, terms, holds = guard
        if relation not in ("==", "<") or not isinstance(holds, bool):
            raise ValueError(f"not a guard: {relation!r} {holds!r}")
        scope.guards[Guard(relation, decode_terms(terms, scope), holds)] = None
    return scope


def decode(value: Any, scope: Scope) -> Any:
    """The value that `encode` encoded. ValueError if a formula is malformed or has a symbol that is not in `scope`."""
    if isinstance(value, dict):
        if set(value) == {"real"}:
            operation, *operands = value["real"]
            return Real(operation, tuple(decode(one, scope) for one in operands))
        if set(value) != {"size"}:
            raise ValueError(f"not a size: {value!r}")
        return scope.size(decode_terms(value["size"], scope))
    return tuple(decode(one, scope) for one in value) if isinstance(value, list) else value


def decode_terms(data: Any, scope: Scope) -> Terms:
    """Terms from their JSON form. ValueError if they are malformed or exceed the limits above."""
    terms = _decode_sum(data, scope, 0)
    if _count_atoms(terms) > _MOST_ATOMS:
        raise ValueError(f"a formula of over {_MOST_ATOMS} sizes")
    return terms


def _decode_sum(data: Any, scope: Scope, depth: int) -> Terms:
    if depth > _MOST_DEPTH or not isinstance(data, list):
        raise ValueError("not a formula")
    sums: dict[Monomial, int] = {}
    for monomial, factor in data:
        if not isinstance(factor, int) or isinstance(factor, bool) or abs(factor) >= 1 << 63:
            raise ValueError(f"not a factor: {factor!r}")
        if len(monomial) > _MOST_FACTORS:
            raise ValueError(f"a product of over {_MOST_FACTORS} sizes")
        atoms = tuple(sorted((_decode_atom(atom, scope, depth) for atom in monomial), key=repr))
        sums[atoms] = sums.get(atoms, 0) + factor
    return sum_monomials(sums)


def _count_atoms(terms: Terms) -> int:
    """Number of symbols, quotients and remainders in a formula, including those inside of quotients and remainders."""
    atoms = [atom for monomial, _ in terms for atom in monomial]
    inner = (_count_atoms(part) for atom in atoms if not isinstance(atom, str) for part in atom[1:])
    return len(atoms) + sum(inner)


def _decode_atom(atom: Any, scope: Scope, depth: int) -> Atom:
    if isinstance(atom, str):
        if atom not in scope.symbols:
            raise ValueError(f"unknown size {atom!r}")
        return atom
    operation, a, b = atom
    if operation not in ("//", "%"):
        raise ValueError(f"not an operation on sizes: {operation!r}")
    return operation, _decode_sum(a, scope, depth + 1), _decode_sum(b, scope, depth + 1)
