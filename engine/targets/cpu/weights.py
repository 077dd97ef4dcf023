"""The constants of a program in the forms that its kernels read: plain, or packed once for all bound plans.

Knows artifacts, steps of bound plans and packing; does not know how a plan runs.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np

from engine import dtypes
from engine.graph import Form, Reshaped
from engine.memory import ALIGNMENT, aligned_empty
from engine.ops import TensorType
from engine.program import Artifact
from engine.program.container import StoredTensor
from engine.targets.base import Prepared
from engine.targets.cpu import native
from engine.targets.plan import BoundPlan, Step


class PackedKey(NamedTuple):
    """Everything that determines the packed bytes. That includes attributes: a weight may be read transposed or not."""

    value: int
    kernel: str
    ints: tuple[int, ...]
    first: int  # byte of the constant where the operand begins
    shape: tuple[int, ...]


# The number of a plain constant, or the key of a packed constant.
BufferKey = int | PackedKey


class Packed(NamedTuple):
    """A packed operand: the step and the position for which it was packed, and its bytes."""

    step: Step
    position: int
    data: np.ndarray


def _packed_key(step: Step, position: int) -> PackedKey:
    place = step.operands[position]
    assert place is not None  # noqa: S101  # an absent operand is never packed
    first = place.layout.offset * dtypes.dtype(place.dtype).size
    return PackedKey(place.storage.number, step.kernel.name, tuple(step.ints), first, place.layout.shape)


def _unpack(packed: Packed, type_: TensorType) -> np.ndarray:
    """The constant before it was packed, bit for bit.

    Packing moves elements and pads with zeros. So packing the numbers of the elements, from 1 on, gives the position of
    each element. If a number needs more bits than an element has, its digits are packed one after the other.
    """
    kind = dtypes.dtype(type_.dtype).numpy
    bits = 8 * kind.itemsize
    digit_type = np.dtype(f"uint{bits}")
    numbers = np.arange(1, type_.size + 1, dtype=np.uint64)
    order = np.zeros(packed.data.size // kind.itemsize, np.uint64)
    for shift in range(0, type_.size.bit_length(), bits):
        digits, moved = (numbers >> np.uint64(shift)).astype(digit_type), np.empty_like(packed.data)
        native.pack(packed.step, packed.position, digits.ctypes.data, moved)
        order |= moved.view(digit_type).astype(np.uint64) << np.uint64(shift)
    is_element = order > 0
    array = np.empty(type_.shape, kind)
    array.reshape(-1)[order[is_element] - np.uint64(1)] = packed.data.view(kind)[is_element]
    return array


def _stored(form: Form) -> StoredTensor | None:
    """The tensor in a file that has the elements of `form`, perhaps in another shape; None if there is none."""
    while isinstance(form, Reshaped):
        form = form.base
    return form if isinstance(form, StoredTensor) else None


class Weights(Prepared):
    """Constants in the forms that kernels take: plain, or packed once and shared by all bound plans of a program.

    A packed constant is not also kept plain, and is unpacked at each access if it was borrowed. Exceptions are
    constants whose packed form is computed from them (Winograd) or has only a part of them; these are also kept plain.
    Pages of a mapped file are given back to the system after packing.

    Args:
        artifact: the artifact with the constants.
        borrowed: constants may be memory of the model, which the model can change, or in a file that will be closed.
            After `prepare`, nothing refers to this memory or file.
    """

    def __init__(self, artifact: Artifact, *, borrowed: bool = False) -> None:
        self.artifact = artifact
        self.packed: dict[PackedKey, Packed] = {}
        self.packing_seconds = 0.0
        self._borrowed = borrowed
        self._gathering = False
        self._plain: dict[int, np.ndarray] = {}
        self._addresses: dict[BufferKey, tuple[int, int]] = {}  # address and number of bytes
        self._independent: set[int] = set()  # constants whose form refers to nothing borrowed
        self._lock = threading.Lock()

    def prepare(self, plan: BoundPlan) -> None:
        """Make all constants that `plan` reads. Called before an executable of the plan is made.

        Raises:
            ProgramError, OSError: the constants are in a file that is damaged or cannot be read.
        """
        wanted: dict[PackedKey, tuple[Step, int]] = {}
        plain: set[int] = set()
        for step in plan.steps:
            for position, place in enumerate(step.operands):
                if place is None or place.storage.kind != "constant":
                    continue
                if position in step.planned.packed:
                    wanted.setdefault(_packed_key(step, position), (step, position))
                else:
                    plain.add(place.storage.number)
        with self._lock:
            for value in plain:
                self._keep_plain(value)
            self._pack({key: use for key, use in wanted.items() if key not in self.packed})
            if self._borrowed and not self._gathering:
                self._detach()

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """A block in which several plans are prepared. Borrowed constants may be referred to until its end."""
        self._gathering = True
        try:
            yield
        finally:
            self._gathering = False
        with self._lock:
            if self._borrowed:
                self._detach()

    @property
    def packed_bytes(self) -> int:
        """As `Prepared.packed_bytes`."""
        return sum(packed.data.nbytes for packed in self.packed.values())

    def _keep_plain(self, value: int) -> None:
        if value in self._plain:
            return
        self._independent.add(value)
        form = self.artifact.constants.form(value)
        array = np.asarray(form() if callable(form) else form, order="C")
        if self._borrowed and array.base is not None and _stored(form) is None:
            array = array.copy()
        self._plain[value] = array
        self._addresses[value] = array.ctypes.data, array.nbytes
        self.artifact.constants.keep(value, array)

    def _pack(self, wanted: Mapping[PackedKey, tuple[Step, int]]) -> None:
        began = time.perf_counter()
        uses: dict[int, list[PackedKey]] = {}
        for key in wanted:
            uses.setdefault(key.value, []).append(key)
        sizes = {key: -(-step.planned.packed[at] // ALIGNMENT) * ALIGNMENT for key, (step, at) in wanted.items()}
        # All packed weights share one buffer, because large pages make first-touch page faults several times
        # cheaper. Reads from a file reuse one buffer, to avoid page faults for each constant.
        slab, start = aligned_empty(sum(sizes.values())), 0
        stored = filter(None, (_stored(self.artifact.constants.form(value)) for value in uses))
        buffer = aligned_empty(max((one.nbytes for one in stored), default=0))
        for value, keys in uses.items():
            source = self._source(value, buffer)
            for key in keys:
                step, position = wanted[key]
                packed = Packed(step, position, slab[start : start + step.planned.packed[position]])
                native.pack(step, position, source.ctypes.data + key.first, packed.data)
                self.packed[key] = packed
                self._addresses[key] = packed.data.ctypes.data, packed.data.nbytes
                start += sizes[key]
            del source  # frees its memory before the next one is made
            self.artifact.constants.release(value)
        self.packing_seconds += time.perf_counter() - began

    def _source(self, value: int, buffer: np.ndarray) -> np.ndarray:
        """The dense elements of a constant, in `buffer` if they are read from a file."""
        form = self.artifact.constants.form(value)
        if (stored := _stored(form)) is not None:
            return stored.read_into(buffer)  # packing reads dense elements; the shape does not matter
        return np.asarray(form() if callable(form) else form, order="C")

    def _detach(self) -> None:
        """Replace borrowed constants: those that are packed whole are unpacked at each access, others are copied."""
        if len(self._independent) == len(self.artifact.constants):
            return  # done by an earlier call
        for key, packed in self.packed.items():
            type_ = self.artifact.types[key.value]
            moved = math.prod(key.shape) == type_.size and not packed.step.kernel.transforms
            if key.value not in self._independent and moved:
                self.artifact.constants.keep(key.value, partial(_unpack, packed, type_))
                self._independent.add(key.value)
        for value in self.artifact.constants:
            if value not in self._independent:
                self._keep_plain(value)

    def address(self, step: Step, position: int) -> tuple[BufferKey, int, int]:
        """(key of the buffer, its address, its bytes) for constant operand `position` of `step`, after `prepare`."""
        place = step.operands[position]
        assert place is not None  # noqa: S101  # callers pass constant operands only
        key: BufferKey = _packed_key(step, position) if position in step.planned.packed else place.storage.number
        return key, *self._addresses[key]
