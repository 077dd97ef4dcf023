"""The constants of a program in the forms that its kernels read: plain, or packed once for all bound plans.

Knows constants, steps of bound plans and packing; does not know how a plan runs.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

from engine import dtypes
from engine.graph import Constant, Reshaped, Value, elements, find_constant_of, identity
from engine.memory import ALIGNMENT, aligned_empty, release
from engine.program.container import StoredTensor
from engine.targets.base import Prepared
from engine.targets.cpu import native
from engine.targets.plan import BoundPlan, PackedLayout, Place, Step

_LARGE_BYTES = 32 << 20
"""Larger constants are read one after the other, so that at most one of them is in memory beside the packed ones."""
_PARALLEL_BYTES = 1 << 20
"""Fewer bytes are packed by one thread, because starting others would take longer than the work."""


class Packed:
    """A packed operand: the step and the position for which it was packed, its bytes, the executables that read it.

    Calling it returns the elements of the value that was packed, bit for bit; only one that `is_whole` has all of them.
    """

    def __init__(self, value: Value, step: Step, position: int, data: np.ndarray) -> None:
        self.value, self.position, self.data = value, position, data
        self.step = replace(step, node=None)  # which would keep its graph
        self.users: weakref.WeakSet[object] = weakref.WeakSet()
        shape = _place_of(step, position).layout.shape
        self.is_whole = step.planned.packed[position].moves and math.prod(shape) == value.type.size

    def __call__(self) -> np.ndarray:
        array = np.empty(self.value.shape, dtypes.dtype(self.value.dtype).numpy)
        native.unpack(self.step, self.position, self.data, array)
        return array


def _place_of(step: Step, position: int) -> Place:
    place = step.operands[position]
    assert place is not None  # noqa: S101  # a constant operand is there
    return place


def _first_byte(place: Place) -> int:
    """Where an operand begins in its constant."""
    return place.layout.offset * dtypes.dtype(place.dtype).size


def list_operands(plan: BoundPlan) -> list[tuple[Step, int, Value, Hashable]]:
    """Each constant operand of the steps of `plan`: step, position, value, and a key of what the kernel reads.

    The key has everything that determines the bytes, and nothing else: kernels that want one layout share one copy.
    Packed operands are dense, so the shape determines the strides.
    """
    forms = [identity(value.form) for value in plan.constants if value.form is not None]
    found: list[tuple[Step, int, Value, Hashable]] = []
    for step in plan.steps:
        for position, place in enumerate(step.operands):
            if place is None or place.storage.kind != "constant":
                continue
            number = place.storage.number
            key: tuple[Hashable, ...] = (forms[number],)
            if (layout := step.planned.packed.get(position)) is not None:
                parts = tuple(forms[part.storage.number] for part in step.parts_of(position))
                key = (*key, parts, layout.packing, layout.numbers, _first_byte(place), place.layout.shape)
            found.append((step, position, plan.constants[number], key))
    return found


Task = dict[Hashable, "Value | Packed"]
"""What is to be made of one constant: by key, a value that is read plain, or a packed operand."""


def _count_bytes(constant: Constant, task: Task) -> int:
    """Bytes of memory that reading the constant needs; 0 for an array that exists, in the order in which it is read."""
    values = [one.value if isinstance(one, Packed) else one for one in task.values()]
    if isinstance(constant.form, np.ndarray) and all(map(_is_in_order, values)):
        return 0
    return max(value.type.nbytes for value in values)


class Weights(Prepared):
    """Constants in the forms that kernels take: plain, or packed once and shared by all bound plans of a program.

    A borrowed constant becomes owned if a kernel reads it plain, and packed if a packed copy has all of its elements.
    Pages of a mapped file are given back to the system after packing, and so is a packed operand that no executable
    uses any more, unless a constant is read from it.
    """

    def __init__(self) -> None:
        self.packed: dict[Hashable, Packed] = {}
        self.packing_seconds = 0.0
        self._plain: weakref.WeakValueDictionary[Hashable, np.ndarray] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def add(self, plan: BoundPlan, user: object, lanes: int = 1) -> list[tuple[Hashable, np.ndarray]]:
        """Make all constants that `plan` reads, in `lanes` threads. Returns the key and the memory of each operand.

        The operands are those of `list_operands`. Packed ones stay in memory as long as the executable `user` exists,
        plain ones as long as somebody keeps the array.
        ProgramError or OSError if a constant is in a file that is damaged or cannot be read.
        """
        operands = list_operands(plan)
        with self._lock:
            self._drop_unused()
            plain = dict(self._plain)
            self._make(operands, lanes, plain)
            self._plain.update(plain)
            found = []
            for _step, _position, _value, key in operands:
                if (packed := self.packed.get(key)) is not None:
                    packed.users.add(user)
                found.append((key, plain[key] if packed is None else packed.data))
            return found

    @property
    def packed_bytes(self) -> int:
        with self._lock:
            self._drop_unused()
            return sum(packed.data.nbytes for packed in self.packed.values())

    def _drop_unused(self) -> None:
        """Give back packed operands that nobody uses. A constant moves to another whole copy; without one it stays."""
        for key, packed in list(self.packed.items()):
            if packed.users:
                continue
            constant, _views = find_constant_of(packed.value)
            if constant.copy is packed:
                others = (one for one in self.packed.values() if one.users and one.is_whole)
                other = next((one for one in others if find_constant_of(one.value)[0] is constant), None)
                if other is None:
                    continue
                _read_from(other)
            release(packed.data)
            del self.packed[key]

    def _make(
        self, operands: Sequence[tuple[Step, int, Value, Hashable]], lanes: int, plain: dict[Hashable, np.ndarray]
    ) -> None:
        """Pack and keep, or add to `plain`, what is not there yet, constant by constant, in `lanes` threads."""
        began = time.perf_counter()
        fresh = {one[3]: one for one in operands if one[3] not in self.packed and one[3] not in plain}
        layouts = {key: step.planned.packed.get(position) for key, (step, position, _value, _key) in fresh.items()}
        memory = _allocate({key: layout for key, layout in layouts.items() if layout is not None})
        tasks: dict[Constant, Task] = {}
        for key, (step, position, value, _key) in fresh.items():
            task = tasks.setdefault(find_constant_of(value)[0], {})
            task[key] = Packed(value, step, position, memory[key]) if key in memory else value
        sizes = {constant: _count_bytes(constant, task) for constant, task in tasks.items()}
        large = [constant for constant, nbytes in sizes.items() if nbytes > _LARGE_BYTES]
        small = [constant for constant, nbytes in sizes.items() if nbytes <= _LARGE_BYTES]
        buffers = threading.local()

        def run_large() -> None:
            buffer = _buffer_for(tasks[constant] for constant in large)
            for constant in large:
                self._run(constant, tasks[constant], buffer, plain)

        def run_small(constant: Constant) -> None:
            if not hasattr(buffers, "own"):
                buffers.own = _buffer_for(tasks[constant] for constant in small)
            self._run(constant, tasks[constant], buffers.own, plain)

        total = sum(data.nbytes for data in memory.values())
        total += sum(value.type.nbytes for key, (_step, _position, value, _key) in fresh.items() if key not in memory)
        _run_all([run_large, *(partial(run_small, one) for one in small)], lanes if total > _PARALLEL_BYTES else 1)
        for task in tasks.values():
            self.packed |= {key: one for key, one in task.items() if isinstance(one, Packed)}
        self.packing_seconds += time.perf_counter() - began

    def _run(self, constant: Constant, task: Task, buffer: np.ndarray, plain: dict[Hashable, np.ndarray]) -> None:
        """Make what `task` lists. `buffer` has room for a constant that is in a file."""
        for key, value in task.items():
            if isinstance(value, Value):
                plain[key] = constant.own(find_constant_of(value)[1])
        packed = [one for one in task.values() if isinstance(one, Packed)]
        for value in dict.fromkeys(one.value for one in packed):
            source = _source(value, buffer)
            for one in packed:
                if one.value is value:
                    start = source.ctypes.data + _first_byte(_place_of(one.step, one.position))
                    native.pack(one.step, one.position, start, one.data)
            del source  # frees its memory before the next one is made
        whole = next((one for one in packed if one.is_whole), None)
        if constant.state == "borrowed" and whole is not None:
            _read_from(whole)
        constant.release()


def _read_from(packed: Packed) -> None:
    """Let a constant be read from its packed copy from now on, at each access."""
    constant, views = find_constant_of(packed.value)
    constant.pack(packed, views)


def _stored(value: Value) -> StoredTensor | None:
    """The tensor in a file that has the elements of a constant, perhaps in another shape; None if there is none."""
    form = find_constant_of(value)[0].form
    return form if isinstance(form, StoredTensor) and _is_in_order(value) else None


def _is_in_order(value: Value) -> bool:
    """True if a value has the elements of its constant in their order, perhaps in another shape."""
    return all(isinstance(view, Reshaped) for view in find_constant_of(value)[1])


def _buffer_for(tasks: Iterable[Task]) -> np.ndarray:
    """Memory for the largest constant of `tasks` that is read from a file to be packed."""
    values = (one.value for task in tasks for one in task.values() if isinstance(one, Packed))
    return aligned_empty(max((stored.nbytes for value in values if (stored := _stored(value)) is not None), default=0))


def _source(value: Value, buffer: np.ndarray) -> np.ndarray:
    """The dense elements of a constant, in `buffer` if they are read from a file."""
    if (stored := _stored(value)) is not None:
        return stored.read_into(buffer)  # packing reads dense elements; the shape does not matter
    assert value.form is not None  # noqa: S101  # it is a constant
    return np.asarray(elements(value.form), order="C")


def _allocate(layouts: Mapping[Hashable, PackedLayout]) -> dict[Hashable, np.ndarray]:
    """Memory for each operand, in one buffer: large pages make first-touch page faults several times cheaper."""
    slab, start, found = aligned_empty(sum(map(_aligned, layouts.values()))), 0, {}
    for key, layout in layouts.items():
        found[key] = slab[start : start + layout.nbytes]
        start += _aligned(layout)
    return found


def _aligned(layout: PackedLayout) -> int:
    return -(-layout.nbytes // ALIGNMENT) * ALIGNMENT


def _run_all(tasks: Sequence[Callable[[], None]], lanes: int) -> None:
    """Run `tasks` in `lanes` threads; in this one if that is 1. Raises what the first failing task raises."""
    if lanes == 1:
        for task in tasks:
            task()
        return
    with ThreadPoolExecutor(lanes, thread_name_prefix="engine-pack") as pool:
        for running in [pool.submit(task) for task in tasks]:
            running.result()
