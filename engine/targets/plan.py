"""A bound plan as data: steps in order, where their operands lie, how large the arena is. Knows no target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine import planner
from engine.ops import Layout


class Kernel(NamedTuple):
    """A kernel of a target.

    Attributes:
        name: unique within the target.
        variant: what `Config.variant` calls it, among the kernels of its op.
        isa: the instruction set that it is written for; "" where a target has only one.
        transforms: its packed weights are computed from the plain ones, not moved.
        row: a number for the target's own use.
    """

    name: str
    op: str
    variant: str
    dtype: str = ""
    isa: str = ""
    transforms: bool = False
    row: int = 0


@dataclass(frozen=True, slots=True)
class Planned:
    """How a kernel will run a step. It depends on how operands look, never on where they lie.

    Attributes:
        kernel: the chosen kernel.
        tiles: independent pieces of work.
        scratch_bytes: working memory of a lane.
        shared_bytes: working memory of all lanes together.
        operations: arithmetic that the kernel carries out, where that is not the op's; 0 otherwise.
        packed: input position -> bytes of the packed copy of a constant that the kernel wants.
        handle: what the target needs to run the step; nobody else looks at it.
    """

    kernel: Kernel
    tiles: int = 1
    scratch_bytes: int = 0
    shared_bytes: int = 0
    operations: int = 0
    packed: Mapping[int, int] = field(default_factory=dict)
    handle: Any = None


class NeedsDense:
    """What a planner answers where a kernel would run the step if its inputs were dense."""


NEEDS_DENSE = NeedsDense()


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
