"""Which of torch's own decompositions are used beyond those that torch.export uses by default. Knows no Graph.

torch keeps the calls of its core set whole, so the default table has no rule for them. Where torch has one
nevertheless, and it says the call in others that the engine has, with nothing lost in speed or accuracy, it is named
here in place of a handler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.exporter.registry import overload
from engine.exporter.torch_internals import OpOverload, can_decompose, decomposition

CHOSEN = frozenset(map(overload, ("elu", "grid_sampler_2d", "leaky_relu")))


def chosen(unknown: Iterable[OpOverload]) -> dict[OpOverload, Any]:
    """The rules for those of `unknown` that torch keeps whole by default."""
    return {op: decomposition(op) for op in CHOSEN.intersection(unknown)}


def composite(unknown: Iterable[OpOverload]) -> set[OpOverload]:
    """Those of `unknown` that torch defines by other calls alone; it replaces them whatever the table says."""
    return {op for op in unknown if can_decompose(op)}
