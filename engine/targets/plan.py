"""A bound plan as data: steps in order, the places of their operands, the size of the arena. Knows no target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine import planner
from engine.encodings import Encoding
from engine.graph import Node, Value
from engine.ops import Layout, TensorType


class Kernel(NamedTuple):
    """A kernel of a target, whose `name` is unique there. Only the target uses `row`.

    Attributes:
        variant: its name in `Config.variant`; unique among the kernels of an op for one instruction set and types.
        types: of operands that it accepts, in the target's words; "" if its planner decides.
        isa: the instruction set that it is written for; "" if the target has only one.
        transforms: it computes with transformed weights (Winograd), so that a NaN spreads to its neighbours.
        share: percent of the roof that it reaches at its worst; 0: it promises nothing.
    """

    name: str
    op: str
    variant: str
    types: str = ""
    isa: str = ""
    transforms: bool = False
    row: int = 0
    share: int = 1

    @property
    def is_slow(self) -> bool:
        """True if it promises no share of the roof; programs warn of such kernels."""
        return self.share == 0


class PackedLayout(NamedTuple):
    """How a kernel wants the elements of a constant to lie: equal `packing` and `numbers` are equal layouts.

    The constant can be packed in `pieces`. `moves` is False if packing computes new numbers (Winograd).
    """

    packing: str
    numbers: tuple[int, ...]
    nbytes: int
    pieces: int
    moves: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """How a kernel will run a step. It depends on the types and layouts of the operands, never on their places.

    Attributes:
        scratch_bytes: working memory of each lane; `shared_bytes` is that of all lanes together.
        operations: arithmetic operations of the kernel; 0 if they are those of the op.
        packed: input position -> layout of the packed copy, for each constant that the kernel takes packed.
        handle: data that only the target reads.
    """

    kernel: Kernel
    tiles: int = 1
    scratch_bytes: int = 0
    shared_bytes: int = 0
    operations: int = 0
    packed: Mapping[int, PackedLayout] = field(default_factory=dict)
    handle: Any = None


class NeedsDense:
    """The answer of a `StepPlanner` if a kernel could run the step with dense inputs."""


NEEDS_DENSE = NeedsDense()


UNPLANNED = Planned(Kernel("", "", ""))
"""`Step.planned` before a kernel has planned the step."""


class Storage(NamedTuple):
    """A buffer: its kind (``input``, ``output``, ``state``, ``constant``, ``arena``) and its number in the kind."""

    kind: str
    number: int


@dataclass(slots=True)
class Place:
    """The place of a value: its storage and its layout in it."""

    storage: Storage
    dtype: str
    layout: Layout


class EncodedOperand(NamedTuple):
    """How to read an input whose place holds the data of an encoded constant.

    Input `parts` has its scales, the next one its zero points, if it has any; 0 if the encoding has no scales.
    """

    encoding: Encoding
    parts: int = 0


@dataclass(slots=True)
class Step:
    """One kernel call.

    Attributes:
        node: whose work it does, or None for a copy that the binder inserted.
        operands: the inputs of the op, scales and zero points of encoded ones, then outputs; None for an absent input.
        n_inputs: number of inputs, scales and zero points included.
        ints: the op's attributes that kernels read as whole numbers; `reals` are those that they read as real ones.
        scratch_offset: bytes from the arena's start; lane t uses the t-th share.
        overlap: number of steps directly before it that may run at the same time.
        encoded: position of an encoded input -> how to read it.
    """

    node: Node | None
    op: str
    operands: list[Place | None]
    n_inputs: int
    ints: list[int]
    reals: list[float]
    planned: Planned = UNPLANNED
    scratch_offset: int = 0
    overlap: int = 0
    encoded: Mapping[int, EncodedOperand] = field(default_factory=dict)

    @property
    def kernel(self) -> Kernel:
        return self.planned.kernel

    @property
    def copied_bytes(self) -> int:
        """Bytes that a copy reads and writes, twice the size of its output; 0 for a step of a node."""
        output = self.operands[self.n_inputs]
        if self.node is not None or output is None:
            return 0
        return 2 * TensorType(output.dtype, output.layout.shape).nbytes

    def parts_of(self, position: int) -> list[Place]:
        """Places of the scales and zero points of an encoded input; none for one that is not encoded."""
        how = self.encoded.get(position)
        if how is None or not how.parts:
            return []
        count = len(how.encoding.component_names) - 1
        return [place for place in self.operands[how.parts : how.parts + count] if place is not None]

    def again(self, node: Node | None, operands: list[Place | None]) -> Step:
        """The step on other operands of the same types and layouts, with the same plan; before memory is planned."""
        return Step(node, self.op, operands, self.n_inputs, self.ints, self.reals, self.planned, encoded=self.encoded)

    def working_memory(self, lanes: int) -> int:
        """Bytes of working memory: the part that lanes share, then the scratch of each lane, each part aligned."""
        planned = self.planned
        if not planned.shared_bytes and not planned.scratch_bytes:  # most steps
            return 0
        return planner.aligned(planned.shared_bytes) + planner.aligned(planned.scratch_bytes) * lanes


@dataclass(frozen=True)
class BoundPlan:
    """A graph bound for one machine and one set of shapes.

    Attributes:
        places: value -> place, final (arena offsets are in `arena_offsets`); encoded constants have none.
        constants: those that steps or results read, by the number of their storage; none is encoded.
        arena_offsets: arena storage index -> bytes from the arena's start; `arena_sizes` has their sizes.
        lower_bound: a lower bound of the arena's size for these buffers.
        in_place: number of steps that write to the buffer of an input.
    """

    steps: tuple[Step, ...]
    places: Mapping[Value, Place]
    constants: tuple[Value, ...]
    arena_offsets: tuple[int, ...]
    arena_sizes: tuple[int, ...]
    arena_bytes: int
    lower_bound: int
    in_place: int
