"""A bound plan as data: steps in order, where their operands lie, how large the arena is. Knows no target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from engine import planner
from engine.ops import Layout
from engine.targets.base import Kernel, Planned

UNPLANNED = Planned(Kernel("", "", ""))
"""Of a step that no kernel has planned yet."""


class Storage(NamedTuple):
    """What a value's bytes belong to: ``input``, ``output``, ``state``, ``constant``, ``arena``; and which of them."""

    kind: str
    number: int


@dataclass(slots=True)
class Place:
    """Where a value lies: its storage and how it lies in it."""

    storage: Storage
    dtype: str
    layout: Layout


@dataclass(slots=True)
class Step:
    """One kernel call.

    Attributes:
        instruction: position in the artifact, or None for a copy that the binder inserted.
        op: name of the op.
        operands: inputs, then outputs; None for an absent input.
        n_inputs: how many of them are inputs.
        ints: the op's attributes that kernels read as whole numbers.
        reals: those that they read as real numbers.
        planned: how a kernel will run it.
        scratch_offset: bytes from the arena's start; lane t uses the t-th share.
        overlap: how many of the steps just before it may still run while it does.
    """

    instruction: int | None
    op: str
    operands: list[Place | None]
    n_inputs: int
    ints: list[int]
    reals: list[float]
    planned: Planned = UNPLANNED
    scratch_offset: int = 0
    overlap: int = 0

    @property
    def kernel(self) -> Kernel:
        """The chosen kernel."""
        return self.planned.kernel

    def again(self, instruction: int | None, operands: list[Place | None]) -> Step:
        """The same on other operands that look alike, planned in the same way; before memory is planned."""
        return Step(instruction, self.op, operands, self.n_inputs, self.ints, self.reals, self.planned)

    def working_memory(self, lanes: int) -> int:
        """Bytes beside the operands: what lanes share, then each lane's scratch, each part aligned."""
        planned = self.planned
        return planner.aligned(planned.shared_bytes) + planner.aligned(planned.scratch_bytes) * lanes


@dataclass(frozen=True)
class BoundPlan:
    """A program made ready for one machine and one set of shapes.

    Attributes:
        steps: kernel calls in order.
        places: value -> place, final (arena offsets are in `arena_offsets`).
        arena_offsets: arena storage index -> bytes from the arena's start.
        arena_sizes: arena storage index -> bytes.
        arena_bytes: size of the arena.
        lower_bound: no plan for these buffers can be smaller.
        in_place: how many steps write over an input that dies there.
    """

    steps: tuple[Step, ...]
    places: tuple[Place, ...]
    arena_offsets: tuple[int, ...]
    arena_sizes: tuple[int, ...]
    arena_bytes: int
    lower_bound: int
    in_place: int
