"""Whether results are right: as near to those in float64 as eager PyTorch's, or the same if they are no floats."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

FIRST_ONLY = ("topk", "sort", "kthvalue", "median")
"""Of these the positions are not compared: which of equal elements comes first differs from torch's."""

_ULPS = 16
"""Errors of a few units in the last place of the largest element are right, even if eager happens to have none."""
_TIMES = 4
"""How much larger than eager's the largest error may be: sums in another order differ."""


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
    if not eager.is_floating_point():
        wrong = ours != eager
        return f"{int(wrong.sum())} of {wrong.numel()} elements differ" if wrong.any() else None
    if not isinstance(exact, torch.Tensor) or exact.shape != eager.shape or not exact.is_floating_point():
        exact = eager
    ours, right, former = ours.double(), exact.double(), eager.double()
    limits = torch.finfo(eager.dtype)
    plain = right.isfinite() & former.isfinite()
    scale = float(right[right.isfinite()].abs().max()) if right.isfinite().any() else 0.0  # eager may overflow
    worst = float((former - right)[plain].abs().max()) if plain.any() else 0.0
    allowed = _ULPS * (limits.eps * scale + limits.tiny) + _TIMES * worst
    near = [((ours - one).abs() <= allowed) | (ours == one) | (ours.isnan() & one.isnan()) for one in (right, former)]
    wrong = ~(near[0] | near[1])
    if not wrong.any():
        return None
    place = tuple(wrong.nonzero()[0].tolist())
    return (
        f"{int(wrong.sum())} of {wrong.numel()} elements: at {list(place)} {ours[place]:.9g}, eager "
        f"{former[place]:.9g}, in float64 {right[place]:.9g}; allowed {allowed:.3g}"
    )
