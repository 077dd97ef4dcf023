"""Converts torch's pytree specifications to the engine's trees, and results to the user's classes."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import torch

from engine import tree
from engine.errors import UnsupportedOp
from engine.exporter.torch_internals import TreeSpec, tree_unflatten

_CONTAINERS = {tuple: "tuple", torch.Size: "tuple", list: "list", deque: "list"}
"""Class -> its kind in a tree, which a loaded program returns."""
_OWN = (tuple, list, dict)
"""Classes that `tree.unflatten` makes itself."""


def describe(spec: TreeSpec) -> tree.Tree:
    """`spec` as a tree. Dict subclasses and registered classes become objects named by their class, deques lists.
    UnsupportedOp if a structure has keys that are no strings.
    """
    if spec.is_leaf():
        return tree.LEAF
    children = [describe(child) for child in spec.children()]
    if spec.type in _CONTAINERS:
        return {_CONTAINERS[spec.type]: children}
    keys = _fields(spec, len(children))
    if not all(isinstance(key, str) for key in keys):
        raise UnsupportedOp([f"a {spec.type.__name__} with the keys {keys}: keys must be strings"])
    fields = dict(zip(keys, children, strict=True))
    if spec.type is dict:
        return {"dict": fields}
    if kind := _named(spec):
        return {"namedtuple": kind.__name__, "fields": fields}
    return {"object": f"{spec.type.__module__}.{spec.type.__qualname__}", "fields": fields}


def _named(spec: TreeSpec) -> type | None:
    """The class of a namedtuple (torch stores it in the context) or of a result type of torch; None for others."""
    kind = spec.context if isinstance(spec.context, type) else spec.type
    return kind if tree.field_names(kind) else None


def _fields(spec: TreeSpec, count: int) -> list[Any]:
    """Keys of a dict, names of the children of a namedtuple or of a class whose context lists them."""
    if spec.type in (dict, OrderedDict):
        return list(spec.context)
    if spec.type is defaultdict:
        return list(spec.context[1])  # of [default_factory, keys]
    kind = _named(spec)
    names = spec.context if kind is None else tree.field_names(kind)
    if isinstance(names, list | tuple) and len(names) == 2 and isinstance(names[0], list | tuple):
        names = names[0]  # torch keeps two lists of a dataclass: fields that have values, and fields that are None
    listed = list(names) if isinstance(names, list | tuple) else []
    return listed if len(listed) == count else [f"field_{i}" for i in range(count)]


def rebuilder(spec: TreeSpec) -> Callable[[list[Any]], Any] | None:
    """A function that makes the user's structure from leaves; None if it has only tuples, lists and dicts."""
    return None if _is_plain(spec) else lambda leaves: tree_unflatten(leaves, spec)


def _is_plain(spec: TreeSpec) -> bool:
    return spec.is_leaf() or (spec.type in _OWN and all(map(_is_plain, spec.children())))
