"""Binds the arguments of a call, given by position or by name, to the parameters of a model. Knows no values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from engine import tree
from engine.errors import ShapeError
from engine.ops import TensorType
from engine.program import Signature
from engine.suggest import find_nearest


class Arguments:
    """The parameters of a model: what a call gives by position or by name, and what it gives by name only."""

    def __init__(self, signature: Signature, types: Sequence[TensorType]) -> None:
        positional, keywords = (next(iter(part.values())) for part in signature.input_tree["tuple"])
        self._names = signature.parameters or _names_of_tensors(signature, positional)
        self._keywords = tuple(keywords)
        slots = iter(signature.input_slots)
        parts = [list(islice(slots, tree.count(part))) for part in (*positional, *keywords.values())]
        listed = [*(name or "unnamed" for name in self._names), *self._keywords]
        self._texts = [_describe(name, part, types) for name, part in zip(listed, parts, strict=True)]

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments in the form of the signature: positional ones in order, and those that have only a name.

        Raises a ShapeError that lists all parameters, if an argument is missing, unknown, or given twice.
        """
        names = self._names
        later = names[len(args) :]
        missing = [name or f"number {number}" for number, name in enumerate(later, len(args)) if name not in kwargs]
        missing += [name for name in self._keywords if name not in kwargs]
        twice = [name for name in names[: len(args)] if name is not None and name in kwargs]
        unknown = [name for name in kwargs if name not in names and name not in self._keywords]
        if len(args) > len(names) or missing or twice or unknown:
            raise ShapeError(self._explain(len(args), missing, twice, unknown))
        by_name = {name: kwargs[name] for name in self._keywords}
        return (*args, *(kwargs[name] for name in later if name is not None)), by_name

    def _explain(self, count: int, missing: list[str], twice: list[str], unknown: list[str]) -> str:
        names = [name for name in (*self._names, *self._keywords) if name is not None]
        nearest = find_nearest(unknown[0], names) if unknown else None
        hint = f" (did you mean {nearest!r}?)" if nearest is not None else ""
        faults = [
            f"got {count} by position, at most {len(self._names)} are allowed" if count > len(self._names) else "",
            f"missing {', '.join(missing)}" if missing else "",
            f"given twice, by position and by name: {', '.join(twice)}" if twice else "",
            f"unknown {', '.join(unknown)}{hint}" if unknown else "",
        ]
        either, only = self._texts[: len(self._names)], self._texts[len(self._names) :]
        forms = [
            f"{', '.join(either)}, by position or by name" if either else "",
            f"{', '.join(only)}, by name only" if only else "",
        ]
        takes = "; ".join(filter(None, forms)) or "no arguments"
        return f"wrong arguments: {'; '.join(filter(None, faults))}; the program takes {takes}"


def _names_of_tensors(signature: Signature, positional: Sequence[tree.Tree]) -> tuple[str | None, ...]:
    """Names of positional parameters in a file without `parameters`: tensors have the names of their parameters."""
    slots, found = iter(signature.input_slots), list[str | None]()
    for part in positional:
        own = list(islice(slots, tree.count(part)))
        is_tensor = part == tree.LEAF and isinstance(own[0], int)
        found.append(signature.input_names[own[0]] if is_tensor else None)
    return tuple(found)


def _describe(name: str, slots: Sequence[Any], types: Sequence[TensorType]) -> str:
    """A parameter with the types of its tensors, or with the constant that it must be."""
    parts = [s["constant"] if isinstance(s, Mapping) else types[s] for s in slots]
    if len(slots) == 1:
        is_constant = isinstance(slots[0], Mapping)
        return f"{name} = {parts[0]!r}" if is_constant else f"{name}: {parts[0]}"
    inner = [str(part) if isinstance(part, TensorType) else repr(part) for part in parts]
    return f"{name}: ({', '.join(inner)})"
