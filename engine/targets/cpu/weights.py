"""The constants of a program in the forms that its kernels read: plain, or packed once for all bound plans.

Knows artifacts, steps of bound plans and packing; does not know how a plan runs.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np

from engine import dtypes
from engine.graph import Form, Reshaped
from engine.memory import ALIGNMENT, aligned_empty, release
from engine.ops import TensorType
from engine.program import Artifact
from engine.program.container import StoredTensor
from engine.targets.base import Prepared
from engine.targets.cpu import native
from engine.targets.plan import BoundPlan, PackedLayout, Step


class PackedKey(NamedTuple):
    """Everything that determines the packed bytes, and nothing else: kernels that want one layout share one copy.

    Packed operands are dense, so the shape determines the strides.
    """

    value: int
    parts: tuple[int, ...]  # constants with the scales and zero points of an encoded operand
    packing: str
    numbers: tuple[int, ...]
    first: int  # byte of the constant where the operand begins
    shape: tuple[int, ...]


_LARGE_BYTES = 32 << 20
"""Larger constants are read one after the other, so that at most one of them is in memory beside the packed ones."""
_PARALLEL_BYTES = 1 << 20
"""Fewer bytes are packed by one thread, because starting others would take longer than the work."""

# The number of a plain constant, or the key of a packed constant.
BufferKey = int | PackedKey


class Packed(NamedTuple):
    """A packed operand: the step and the position for which it was packed, and its bytes."""

    step: Step
    position: int
    data: np.ndarray

    @property
    def moves(self) -> bool:
        """True if the elements can be found again in the bytes."""
        return self.step.planned.packed[self.position].moves


def _allocate(requested: Mapping[PackedKey, tuple[Step, int]]) -> dict[PackedKey, Packed]:
    """Memory for each operand, in one buffer: large pages make first-touch page faults several times cheaper."""
    layouts = {key: step.planned.packed[at] for key, (step, at) in requested.items()}
    slab, start, found = aligned_empty(sum(map(_aligned, layouts.values()))), 0, {}
    for key, (step, position) in requested.items():
        found[key] = Packed(step, position, slab[start : start + layouts[key].nbytes])
        start += _aligned(layouts[key])
    return found


def _aligned(layout: PackedLayout) -> int:
    return -(-layout.nbytes // ALIGNMENT) * ALIGNMENT


def _run(tasks: Sequence[Callable[[], None]], lanes: int) -> None:
    """Run `tasks` in `lanes` threads; in this one if that is 1. Raises what the first failing task raises."""
    if lanes == 1:
        for task in tasks:
            task()
        return
    with ThreadPoolExecutor(lanes, thread_name_prefix="engine-pack") as pool:
        for running in [pool.submit(task) for task in tasks]:
            running.result()


class PackedUse:
    """Keeps the packed constants of a bound plan in memory as long as it exists."""

    def __init__(self, packed: list[Packed]) -> None:
        self._packed = packed


def _packed_key(step: Step, position: int) -> PackedKey:
    place, layout = step.operands[position], step.planned.packed[position]
    assert place is not None  # noqa: S101  # an absent operand is never packed
    first = place.layout.offset * dtypes.dtype(place.dtype).size
    parts = (part.storage.number for part in step.parts_of(position))
    return PackedKey(place.storage.number, tuple(parts), layout.packing, layout.numbers, first, place.layout.shape)


def _unpack(packed: Packed, type_: TensorType) -> np.ndarray:
    """The constant before it was packed, bit for bit."""
    array = np.empty(type_.shape, dtypes.dtype(type_.dtype).numpy)
    native.unpack(packed.step, packed.position, packed.data, array)
    return array


def _stored(form: Form) -> StoredTensor | None:
    """The tensor in a file that has the elements of `form`, perhaps in another shape; None if there is none."""
    while isinstance(form, Reshaped):
        form = form.base
    return form if isinstance(form, StoredTensor) else None


class Weights(Prepared):
    """Constants in the forms that kernels take: plain, or packed once and shared by all bound plans of a program.

    Constants that are `borrowed` may be memory of the model, which can change, or in a file that will be closed;
    nothing refers to it after `prepare`. A packed one is unpacked at each access instead of being kept plain, unless
    packing computes new numbers (Winograd) or packs only a part of it. Pages of a mapped file are given back to the
    system after packing, and so is a packed constant that no bound plan uses any more, unless its elements are nowhere
    else.
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
        self._origins: dict[int, PackedKey] = {}  # constant -> the only copy of its elements, if that is packed
        self._uses: Counter[PackedKey] = Counter()  # by bound plans
        self._ended: deque[tuple[PackedKey, ...]] = deque()  # uses that have ended; appended to by any thread
        self._lock = threading.Lock()

    def prepare(self, plan: BoundPlan, lanes: int = 1) -> PackedUse:
        """Make all constants that `plan` reads, in `lanes` threads; its executable holds the use as long as it runs.

        ProgramError or OSError if the constants are in a file that is damaged or cannot be read.
        """
        requested: dict[PackedKey, tuple[Step, int]] = {}
        plain: set[int] = set()
        for step in plan.steps:
            for position, place in enumerate(step.operands):
                if place is None or place.storage.kind != "constant":
                    continue
                if position in step.planned.packed:
                    requested.setdefault(_packed_key(step, position), (step, position))
                else:
                    plain.add(place.storage.number)
        with self._lock:
            self._uses.update(requested.keys())
            self._drop_unused()
            self._make({key: use for key, use in requested.items() if key not in self.packed}, plain, lanes)
            if self._borrowed and not self._gathering:
                self._detach()
            use = PackedUse([self.packed[key] for key in requested])
            weakref.finalize(use, self._ended.append, tuple(requested))
            return use

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
        with self._lock:
            self._drop_unused()
            return sum(packed.data.nbytes for packed in self.packed.values())

    def _drop_unused(self) -> None:
        """Give back packed constants that no bound plan uses, except the only copy of the elements of a constant."""
        while self._ended:
            self._uses.subtract(self._ended.popleft())
        for key in [key for key in self.packed if self._uses[key] <= 0]:
            if self._origins.get(key.value) == key:
                others = (other for other in self.packed if other.value == key.value and other != key)
                copy = next((other for other in others if self._uses[other] > 0 and self._is_whole(other)), None)
                if copy is None:
                    continue
                self._read_from(copy)
            release(self.packed.pop(key).data)
            del self._addresses[key], self._uses[key]

    def _is_whole(self, key: PackedKey) -> bool:
        """True if all elements of a constant can be found in its packed copy."""
        return math.prod(key.shape) == self.artifact.types[key.value].size and self.packed[key].moves

    def _read_from(self, key: PackedKey) -> None:
        """Let a constant be read from its packed copy from now on, at each access."""
        self.artifact.constants.keep(key.value, partial(_unpack, self.packed[key], self.artifact.types[key.value]))
        self._origins[key.value] = key

    def _keep_plain(self, value: int) -> None:
        if value in self._plain:
            return
        self._independent.add(value)
        form = self.artifact.constants.form(value)
        array = np.asarray(form() if callable(form) else form, order="C")
        if self._borrowed and array.base is not None and _stored(form) is None:
            array = array.copy()
        self._plain[value] = array
        self._origins.pop(value, None)
        self._addresses[value] = array.ctypes.data, array.nbytes
        self.artifact.constants.keep(value, array)

    def _make(self, requested: Mapping[PackedKey, tuple[Step, int]], plain: Collection[int], lanes: int) -> None:
        """Pack the operands `requested` and keep the constants `plain`, in `lanes` threads."""
        began = time.perf_counter()
        uses: dict[int, list[PackedKey]] = {}
        for key in requested:
            uses.setdefault(key.value, []).append(key)
        packed = _allocate(requested)
        nbytes = {value: self._source_bytes(value) for value in uses}
        read = {value: nbytes[value] for value in uses if _stored(self.artifact.constants.form(value)) is not None}
        large = [value for value in uses if nbytes[value] > _LARGE_BYTES]
        small = [value for value in uses if nbytes[value] <= _LARGE_BYTES]
        buffers = threading.local()

        def pack(value: int, buffer: np.ndarray) -> None:
            source = self._source(value, buffer)
            for key in uses[value]:
                step, position, data = packed[key]
                native.pack(step, position, source.ctypes.data + key.first, data)
            del source  # frees its memory before the next one is made
            self.artifact.constants.release(value)

        def pack_large() -> None:
            buffer = aligned_empty(max((read.get(value, 0) for value in large), default=0))
            for value in large:
                pack(value, buffer)

        def pack_small(value: int) -> None:
            if not hasattr(buffers, "own"):
                buffers.own = aligned_empty(max(read.get(value, 0) for value in small))
            pack(value, buffers.own)

        tasks = [partial(self._keep_plain, value) for value in plain]
        tasks += [partial(pack_large), *(partial(pack_small, value) for value in small)]
        total = sum(one.data.nbytes for one in packed.values()) + sum(self._source_bytes(value) for value in plain)
        _run(tasks, lanes if total > _PARALLEL_BYTES else 1)
        self.packed |= packed
        self._addresses |= {key: (one.data.ctypes.data, one.data.nbytes) for key, one in packed.items()}
        self.packing_seconds += time.perf_counter() - began

    def _source_bytes(self, value: int) -> int:
        """Bytes of memory that `_source` needs for a constant; 0 for an array that exists."""
        form = self.artifact.constants.form(value)
        if (stored := _stored(form)) is not None:
            return stored.nbytes
        return self.artifact.types[value].nbytes if callable(form) else 0

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
        for key in self.packed:
            if key.value not in self._independent and self._is_whole(key):
                self._read_from(key)
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
