"""Binds the arguments of a call, given by position or by name, to the parameters of a model. Knows no values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from engine import tree
from engine.errors import ShapeError
from engine.graph import Signature
from engine.ops import TensorType
from engine.suggest import find_nearest


def bind_arguments(
    signature: Signature, types: Sequence[TensorType], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments in the form of the signature: positional ones in order, and those that have only a name.

    `types` are those of the inputs. Raises a ShapeError that lists all parameters, if an argument is missing, unknown,
    or given twice.
    """
    positional, only = (next(iter(part.values())) for part in signature.input_tree["tuple"])
    names = signature.parameters or _names_of_tensors(signature, positional)
    later = names[len(args) :]
    missing = [name or f"number {number}" for number, name in enumerate(later, len(args)) if name not in kwargs]
    missing += [name for name in only if name not in kwargs]
    twice = [name for name in names[: len(args)] if name is not None and name in kwargs]
    unknown = [name for name in kwargs if name not in names and name not in only]
    if not (len(args) > len(names) or missing or twice or unknown):
        by_name = {name: kwargs[name] for name in only}
        return (*args, *(kwargs[name] for name in later if name is not None)), by_name
    nearest = find_nearest(unknown[0], list(filter(None, (*names, *only)))) if unknown else None
    hint = f" (did you mean {nearest!r}?)" if nearest is not None else ""
    faults = [
        f"got {len(args)} by position, at most {len(names)} are allowed" if len(args) > len(names) else "",
        f"missing {', '.join(missing)}" if missing else "",
        f"given twice, by position and by name: {', '.join(twice)}" if twice else "",
        f"unknown {', '.join(unknown)}{hint}" if unknown else "",
    ]
    takes = _describe_parameters(signature, types, names) or "no arguments"
    raise ShapeError(f"wrong arguments: {'; '.join(filter(None, faults))}; the program takes {takes}")


def _describe_parameters(signature: Signature, types: Sequence[TensorType], names: Sequence[str | None]) -> str:
    positional, only = (next(iter(part.values())) for part in signature.input_tree["tuple"])
    slots = iter(signature.input_slots)
    parts = [list(islice(slots, tree.count(part))) for part in (*positional, *only.values())]
    listed = [*(name or "unnamed" for name in names), *only]
    texts = [_describe(name, part, types) for name, part in zip(listed, parts, strict=True)]
    forms = ((texts[: len(names)], "by position or by name"), (texts[len(names) :], "by name only"))
    return "; ".join(f"{', '.join(some)}, {how}" for some, how in forms if some)


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
