"""The input sets of a user's model: those that it gives, or made of the one that it gives.

Calls take the sets in turn, so that an answer kept from an earlier call is caught. Whatever makes an input valid stays:
integers and truth values (offsets, orders, masks) are the same in all sets, and floats are multiplied by one positive
factor for each set, which keeps signs, zeros, upper limits, symmetry and order. Sizes, strides and shared memory are
those of the first set.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

INPUT_SETS = 4
"""Different inputs that calls take in turn."""
CALIBRATION_SETS = range(1000, 1016)
"""Seeds of further ones, on which backends with fixed scales of activations measure these."""
_GOLDEN = 0.6180339887498949
"""Multiples of it, without their whole parts, are all different and far from each other."""


class InputSets:
    """The sets, by number.

    Args:
        given: one set, or all of them, with the same `describe_layout`; they are copied.
    """

    def __init__(self, given: Sequence[tuple[torch.Tensor, ...]]) -> None:
        self._given = [_copy(one) for one in given]

    def make(self, seed: int) -> tuple[torch.Tensor, ...]:
        """A copy of the set of this number; 0 is the first one that was given."""
        found = _copy(self._given[seed % len(self._given)])
        if len(self._given) == 1:
            memories = {one.untyped_storage().data_ptr(): one for one in found if _varies(one)}
            for one in memories.values():
                one.new_empty(0).set_(one.untyped_storage()).mul_(_factor(seed))
        return found

    def describe(self, seed: int) -> str:
        """How the set of this number is made."""
        count = len(self._given)
        if count > 1:
            return f"number {seed % count + 1} of the {count} that the factory gives"
        return f"the floats of the first one times {_factor(seed):.3f} (a factory may return a list of sets instead)"

    def count(self, most: int) -> int:
        """How many different sets there are, of which `most` are wanted."""
        if len(self._given) > 1:
            return min(most, len(self._given))
        return most if any(map(_varies, self._given[0])) else 1

    def describe_kept(self) -> str | None:
        """Which inputs are the same in all sets, since the factory gives one set; None if each varies."""
        kept = [f"input {n}" for n, one in enumerate(self._given[0]) if not _varies(one)]
        if not kept or len(self._given) > 1:
            return None
        return f"the same in every call, because only floats of 16 bits or more are varied: {', '.join(kept)}"


def describe_layout(tensors: Sequence[torch.Tensor]) -> list[Any]:
    """What is equal in sets that look alike, for each tensor: type, shape, strides, and whose memory it shares."""
    memories = [one.untyped_storage().data_ptr() for one in tensors]
    return [
        (str(one.dtype).removeprefix("torch."), tuple(one.shape), one.stride(), memories.index(memory))
        for one, memory in zip(tensors, memories, strict=True)
    ]


def _copy(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Copies with the same strides that share memory where the tensors do."""
    return tuple(copy.deepcopy([one.detach() for one in tensors]))


def _varies(one: torch.Tensor) -> bool:
    return one.is_complex() or (one.is_floating_point() and one.dtype.itemsize > 1)  # torch has no products of 8 bits


def _factor(seed: int) -> float:
    """Between 1/2 and 1, another one for each seed, and 1 for seed 0."""
    return 1 - seed * _GOLDEN % 1 / 2
