"""Whether results are right: as near to those in float64 as eager PyTorch's, or the same if they are no floats."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from engine.inspect import reduced

FIRST_ONLY = ("topk", "sort", "kthvalue", "median")
"""Of these the positions are not compared: which of equal elements comes first differs from torch's."""


def find_difference(found: Any, eager: Any, exact: Any) -> str | None:
    """What is wrong with `found`, if anything.

    Args:
        found: what the program returned.
        eager: what PyTorch returned for the same inputs.
        exact: what PyTorch returned for inputs in float64; None if it does not take such.
    """
    ours, theirs = pytree.tree_leaves(found), pytree.tree_leaves(eager)
    precise = pytree.tree_leaves(exact) if exact is not None else theirs
    if len(ours) != len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    if len(precise) != len(theirs):
        precise = theirs
    for number, (one, other, right) in enumerate(zip(ours, theirs, precise, strict=True)):
        difference = _compare(one, other, right)
        if difference is not None:
            return f"result {number}: {difference}"
    return None


def are_same(one: Any, other: Any) -> bool:
    """True if two calls of a model have the same results, bit for bit."""
    pairs = zip(pytree.tree_leaves(one), pytree.tree_leaves(other), strict=True)
    return all(
        torch.equal(a, b) or (a.is_floating_point() and torch.equal(a.isnan(), b.isnan()) and a.isnan().any())
        if isinstance(a, torch.Tensor)
        else a == b
        for a, b in pairs
    )


def _compare(ours: Any, eager: Any, exact: Any) -> str | None:
    if not isinstance(eager, torch.Tensor):
        return None if ours == eager else f"{ours!r} instead of {eager!r}"
    ours = torch.as_tensor(ours)
    if ours.dtype != eager.dtype or ours.shape != eager.shape:
        return f"{ours.dtype}{list(ours.shape)} instead of {eager.dtype}{list(eager.shape)}"
    if not isinstance(exact, torch.Tensor) or exact.shape != eager.shape or not exact.is_floating_point():
        exact = eager
    return reduced.find_difference(ours, eager, exact) or None
