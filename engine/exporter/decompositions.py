"""Finds torch's decompositions of calls, and selects some that torch.export does not use by default. Knows no Graph.

torch does not decompose the calls of its core set, so the default table has no rule for them. This module names such
a call, in place of a handler, if torch has a rule for it that gives calls that the engine translates, without loss of
speed or accuracy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from torch.export import default_decompositions

from engine.exporter.handlers import overload
from engine.exporter.torch_internals import OpOverload, can_decompose, decomposition

CHOSEN: Mapping[OpOverload, Any] = {op: decomposition(op) for op in map(overload, ("elu", "leaky_relu"))}
KEPT = frozenset(
    map(
        overload,
        (
            "inverse",
            *(f"linalg_{name}" for name in ("cholesky", "inv", "ldl_factor", "lu_factor", "solve", "tensorinv")),
        ),
    )
)
"""Calls that stay whole, although torch decomposes them into a computation and a check for errors. The check has only a
side effect, with which nothing could be done; torch can run the whole call (`Config.fallback`)."""


def chosen(unknown: Iterable[OpOverload]) -> dict[OpOverload, Any]:
    """The rules for those calls of `unknown` that torch does not decompose by default."""
    return {op: CHOSEN[op] for op in CHOSEN.keys() & set(unknown)}


_default_rules: dict[OpOverload, Any] = {}
_looked_up: set[OpOverload] = set()
"""Calls of other packages for which the rules were listed."""


def find_default_rules(unknown: AbstractSet[OpOverload]) -> dict[OpOverload, Any]:
    """The rules by which torch.export decomposes by default, for those calls of `unknown` that have one.

    torch needs a third of a second to list them. They are listed once, and again for a call of another package, which
    may have been registered since.
    """
    added = {op for op in unknown if op.namespace != "aten"} - _looked_up
    if added or not _default_rules:
        _default_rules.update(default_decompositions().items())
        _looked_up.update(added)
    return {op: _default_rules[op] for op in unknown - KEPT if op in _default_rules}


def composite(unknown: AbstractSet[OpOverload]) -> set[OpOverload]:
    """The calls of `unknown` that torch defines only by other calls; it decomposes them even without a rule."""
    return {op for op in unknown - KEPT if can_decompose(op)}
