"""How a user's arguments and results map to the inputs and outputs of a graph. Knows trees; knows no graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine import tree
from engine.errors import UnsupportedOp


@dataclass(frozen=True)
class Signature:
    """How a user's arguments and results map to values.

    A slot is, for a leaf of a tree, the position among the inputs or outputs of a graph, or ``{"constant": value}`` for
    what is no tensor: the graph is valid for this value of an argument only. `input_names` has a name for each value
    that a call passes. `parameters` has that of each positional argument; it is empty if not known, as in files of
    earlier engines. `rebuild` makes the model's own structure of results from leaves; None, as for a program from a
    file: plain containers.
    """

    input_tree: tree.Tree
    output_tree: tree.Tree
    input_slots: tuple[Any, ...]
    output_slots: tuple[Any, ...]
    input_names: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    rebuild: Callable[[list[Any]], Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        slots = (s["constant"] for s in (*self.input_slots, *self.output_slots) if isinstance(s, Mapping))
        strange = [c for c in slots if not isinstance(c, bool | int | float | str | None)]
        if strange:
            raise UnsupportedOp([f"{c!r} as an argument or a result: only None, numbers and strings" for c in strange])


def sign_flat(input_names: Sequence[str], outputs: int) -> Signature:
    """The signature of a function of positional tensors with a list of results."""
    count = len(input_names)
    arguments = {"tuple": [{"tuple": [tree.LEAF] * count}, {"dict": {}}]}
    slots = tuple(range(count)), tuple(range(outputs))
    return Signature(arguments, {"list": [tree.LEAF] * outputs}, *slots, tuple(input_names), rebuild=list)
