"""Nested inputs and outputs as JSON-able trees. Knows neither torch nor graphs.

A tree is ``"*"`` (a leaf), ``{"tuple": [...]}``, ``{"list": [...]}``, ``{"dict": {key: tree}}``,
``{"namedtuple": "Class", "fields": {key: tree}}`` or ``{"object": "module.Class", "fields": {key: tree}}``. None,
numbers and strings are leaves. Leaves are in the order of the keys, which `encode` keeps in files that sort theirs.
"""

from __future__ import annotations

from collections import deque, namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import cache
from typing import Any

from engine.errors import ConfigError

Tree = Any
LEAF = "*"


def count(tree: Tree) -> int:
    """Number of leaves."""
    return 1 if tree == LEAF else sum(count(child) for _, child in _children(tree))


def paths(tree: Tree, prefix: str = "") -> Iterator[str]:
    """A name for each leaf, in order, such as ``[0]['mask']``."""
    if tree == LEAF:
        yield prefix
        return
    for key, child in _children(tree):
        yield from paths(child, f"{prefix}[{key!r}]")


def _children(tree: Tree) -> list[tuple[Any, Tree]]:
    for kind in ("tuple", "list"):
        if kind in tree:
            return list(enumerate(tree[kind]))
    return list((tree["dict"] if "dict" in tree else tree["fields"]).items())


def flatten(tree: Tree, value: Any, where: str = "inputs") -> list[Any]:
    """Leaves of `value` in the order of `tree`. A deque serves as a list.

    Raises:
        ValueError: the structure differs; says where, what was expected and what came.
    """
    leaves: list[Any] = []
    _flatten(tree, value, where, leaves)
    return leaves


def _flatten(tree: Tree, value: Any, where: str, leaves: list[Any]) -> None:
    if tree == LEAF:
        leaves.append(value)
        return
    if "tuple" in tree or "list" in tree:
        kind = tuple if "tuple" in tree else list
        children = tree["tuple"] if kind is tuple else tree["list"]
        if not isinstance(value, kind) and not (kind is list and isinstance(value, deque)):
            raise ValueError(  # wrong data, not a wrong call
                f"{where}: expected a {kind.__name__}, got {type(value).__name__}"
            )
        if len(value) != len(children):
            raise ValueError(f"{where}: expected {len(children)} element(s), got {len(value)}")
        for index, (child, element) in enumerate(zip(children, value, strict=True)):
            _flatten(child, element, f"{where}[{index}]", leaves)
        return
    fields: Mapping[str, Tree] = tree["dict"] if "dict" in tree else tree["fields"]
    if "namedtuple" in tree and isinstance(value, tuple) and list(field_names(type(value))) == list(fields):
        value = dict(zip(fields, value, strict=True))
    if "object" in tree and is_dataclass(value) and not isinstance(value, type | Mapping):
        named = {one.name: getattr(value, one.name) for one in dataclass_fields(value)}
        value = {name: found for name, found in named.items() if found is not None}  # as torch flattens it
    if not isinstance(value, Mapping):
        requested = f"a {tree['namedtuple']}" if "namedtuple" in tree else "a dict"
        raise ValueError(  # noqa: TRY004  # as above
            f"{where}: expected {requested} with keys {list(fields)}, got {type(value).__name__}"
        )
    missing, extra = [k for k in fields if k not in value], [k for k in value if k not in fields]
    if missing or extra:
        raise ValueError(f"{where}: expected keys {list(fields)}; missing {missing}, unknown {extra}")
    for key, child in fields.items():
        _flatten(child, value[key], f"{where}[{key!r}]", leaves)


def unflatten(tree: Tree, leaves: list[Any]) -> Any:
    """`leaves` in the structure of `tree`.

    A namedtuple comes back as one of a class made here, of that name and these fields; an object as a dict.
    """
    iterator = iter(leaves)
    return _unflatten(tree, iterator)


def field_names(kind: Any) -> tuple[str, ...]:
    """The fields of a class of named tuples, of Python's or of C's as torch's results are; () of other classes."""
    named = kind.__match_args__ if hasattr(kind, "n_sequence_fields") else getattr(kind, "_fields", ())
    return tuple(named)


@cache
def _named(name: str, fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """ValueError where Python allows no such names; nothing is executed that they say."""
    return namedtuple(name, fields, module=__name__)  # noqa: PYI024  # fields that are known now


def _unflatten(tree: Tree, leaves: Iterator[Any]) -> Any:
    if tree == LEAF:
        return next(leaves)
    if "tuple" in tree:
        return tuple(_unflatten(c, leaves) for c in tree["tuple"])
    if "list" in tree:
        return [_unflatten(c, leaves) for c in tree["list"]]
    fields = tree["dict"] if "dict" in tree else tree["fields"]
    found = {key: _unflatten(child, leaves) for key, child in fields.items()}
    return _named(tree["namedtuple"], tuple(found))(*found.values()) if "namedtuple" in tree else found


def encode(tree: Tree) -> Any:
    """`tree` for a file that sorts the keys of its objects: those in another order become a list of pairs."""
    if tree == LEAF:
        return tree
    found: dict[str, Any] = {}
    for kind, part in tree.items():
        if isinstance(part, list):
            found[kind] = [encode(child) for child in part]
        elif isinstance(part, str):
            found[kind] = part
        elif list(part) == sorted(part):
            found[kind] = {key: encode(child) for key, child in part.items()}
        else:
            found[kind] = [[key, encode(child)] for key, child in part.items()]
    return found


def decode(data: Any) -> Tree:
    """What `encode` made, back; it is still to be checked. ValueError or TypeError where it cannot have been that."""
    if not isinstance(data, dict):
        return data
    found: dict[str, Any] = {}
    for kind, part in data.items():
        if kind in ("dict", "fields"):
            pairs = part.items() if isinstance(part, dict) else part
            found[kind] = {key: decode(child) for key, child in pairs}
            if len(found[kind]) < len(part) or not all(isinstance(key, str) for key in found[kind]):
                raise ValueError(f"keys twice, or no strings: {list(found[kind])}")
        else:
            found[kind] = [decode(child) for child in part] if isinstance(part, list) else part
    return found


def check(tree: Tree, depth: int = 0) -> None:
    """ValueError unless `tree` is well formed (for trees read from a file)."""
    if depth > 64:
        raise ValueError("tree is nested too deeply")
    if tree == LEAF:
        return
    if not isinstance(tree, dict):
        raise ValueError(f"not a tree: {type(tree).__name__}")  # noqa: TRY004  # wrong data, not a wrong call
    if set(tree) in ({"tuple"}, {"list"}) and isinstance(next(iter(tree.values())), list):
        children = next(iter(tree.values()))
    elif set(tree) == {"dict"} and isinstance(tree["dict"], dict):
        children = tree["dict"].values()
    elif set(tree) == {"object", "fields"} and isinstance(tree["fields"], dict) and isinstance(tree["object"], str):
        children = tree["fields"].values()
    elif set(tree) == {"namedtuple", "fields"} and isinstance(tree["fields"], dict):
        _named(tree["namedtuple"], tuple(tree["fields"]))
        children = tree["fields"].values()
    else:
        raise ValueError(f"not a tree: keys {sorted(map(str, tree))}")
    for child in children:
        check(child, depth + 1)


def split_arguments(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments, of a tuple of arguments or ``(tuple, dict)``; ConfigError for anything else."""
    if isinstance(example_inputs, list):
        example_inputs = tuple(example_inputs)
    if not isinstance(example_inputs, tuple):
        kind = type(example_inputs).__name__
        raise ConfigError(f"example_inputs: expected a tuple of arguments, or (tuple, dict), got {kind}")
    match example_inputs:
        case (tuple() as args, dict() as kwargs):
            return args, kwargs
        case _:
            return example_inputs, {}
