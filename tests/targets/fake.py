"""A device that NumPy cannot reach: opaque handles, runs that happen when somebody waits for them, fixed addresses.

It is the example of docs/add-a-target.md, and proves that the stages that all targets share ask for nothing else: its
kernels are the definitions of the op table, so results equal those of the interpreter bit for bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from engine import dtypes
from engine.config import Config
from engine.errors import ExecutionError
from engine.graph import Graph, find_constant_of
from engine.ops import TABLE, TensorType
from engine.targets.base import Buffer, Context, Device, Prepared, StepPlanner, Target
from engine.targets.bind import bind
from engine.targets.bound import BoundExecutable
from engine.targets.plan import NEEDS_DENSE, BoundPlan, Kernel, NeedsDense, Place, Planned, Step

DENSE_ONLY = ("linear", "matmul", "conv")
"""Ops whose kernels take dense inputs alone."""
SCRATCH = {"softmax": 100}
"""Bytes of working memory that a kernel fills with garbage."""


class FakeValue(NamedTuple):
    """A dense value on the device. It says where, and nothing of what is there."""

    handle: int
    start: int
    type: TensorType


class FakeBuffer(Buffer):
    """Bytes on the device."""

    space = "fake"

    def __init__(self, handle: int, nbytes: int) -> None:
        self.handle, self.nbytes = handle, nbytes

    def value(self, start: int, type_: TensorType) -> FakeValue:
        """A handle and a place."""
        assert start + type_.nbytes <= self.nbytes
        return FakeValue(self.handle, start, type_)

    def shares_memory_with(self, value: Any) -> bool:
        """No memory of the user's is on the device."""
        del value
        return False


class FakeDevice(Device):
    """Its memory is behind handles. `queue` is what was enqueued and has not run."""

    name = "fake"

    def __init__(self) -> None:
        self._memory: dict[int, np.ndarray] = {}
        self._handles = itertools.count(1000)
        self.queue: list[Callable[[], None]] = []

    def allocate(self, nbytes: int) -> FakeBuffer:
        """New bytes, none of them 0."""
        handle = next(self._handles)
        self._memory[handle] = np.full(nbytes, 0xA5, np.uint8)
        return FakeBuffer(handle, nbytes)

    def read(self, value: FakeValue) -> np.ndarray:
        """A copy, once all that was enqueued has run."""
        self.synchronize()
        return self.view(value.handle, value.start, value.type.dtype, value.type.shape).copy()

    def write(self, value: FakeValue, elements: np.ndarray | int) -> None:
        """Enqueued behind what is there; what is copied is what `elements` are now."""
        taken = np.array(elements)
        view = self.view(value.handle, value.start, value.type.dtype, value.type.shape)
        self.queue.append(lambda: np.copyto(view, taken, casting="unsafe"))

    def synchronize(self) -> None:
        """Run what was enqueued. What fails takes the rest with it, as on real devices."""
        while self.queue:
            try:
                self.queue.pop(0)()
            except BaseException:
                self.queue.clear()
                raise

    def view(
        self, handle: int, start: int, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...] | None = None
    ) -> np.ndarray:
        """For kernels alone: what lies there."""
        kind = dtypes.dtype(dtype).numpy
        steps = None if strides is None else [stride * kind.itemsize for stride in strides]
        return np.ndarray(shape, kind, self._memory[handle].data, start, steps)


class FakeConstants(Prepared):
    """Constants on the device; what was there before is not referred to any longer."""

    def __init__(self, device: FakeDevice) -> None:
        self._device = device
        self._values: dict[Hashable, FakeValue] = {}

    def upload(self, plan: BoundPlan) -> list[FakeValue]:
        """The constants of `plan` on the device, by number."""
        keys = {value: value.key for value in plan.constants}
        for value, key in keys.items():
            if key not in self._values:
                there = self._values[key] = self._device.allocate(value.type.nbytes).value(0, value.type)
                self._device.write(there, value.elements)
                constant, views = find_constant_of(value)
                constant.pack(partial(self._device.read, there), views)
        return [self._values[key] for key in keys.values()]


class _Planner(StepPlanner):
    def plan(self, step: Step, *, copied: bool) -> Planned | NeedsDense | None:
        dense = all(place is None or place.layout.is_dense for place in step.operands[: step.n_inputs])
        if step.op in DENSE_ONLY and not dense and not copied:
            return NEEDS_DENSE
        return Planned(Kernel(f"fake_{step.op}", step.op, "definition"), scratch_bytes=SCRATCH.get(step.op, 0))


class _CallContext(Context):
    """An arena; `warm_up` captures the steps with the addresses of inputs and outputs."""

    def __init__(self, executable: FakeExecutable, states: Sequence[FakeValue]) -> None:
        self._device = executable.device
        self.arena = self._device.allocate(executable.plan.arena_bytes).handle
        self._executable, self._states = executable, states
        self._fixed: Mapping[str, Sequence[FakeValue]] = {}
        self._captured: list[Callable[[], None]] = []

    def warm_up(self, fixed: Mapping[str, Sequence[FakeValue]]) -> None:
        self._fixed = fixed
        steps = range(len(self._executable.plan.steps))
        self._captured = [self._executable.kernel(number, self) for number in steps]

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        assert self._captured or not self._executable.plan.steps, "nothing was captured"
        for kind, values in (("input", inputs), ("output", outputs)):
            assert list(values) == list(self._fixed[kind]), "not the values that were captured"
        self._device.queue += self._captured

    def synchronize(self) -> None:
        """As `Context.synchronize`: only now does anything run, and fail."""
        self._device.synchronize()

    def locate(self, place: Place) -> np.ndarray:
        """For kernels alone: the elements of an operand."""
        kind, number = place.storage
        if kind == "arena":
            handle, start = self.arena, self._executable.plan.arena_offsets[number]
        else:
            there = {
                **self._fixed,
                "state": self._states,
                "constant": self._executable.constants,
            }[kind][number]
            handle, start = there.handle, there.start
        start += place.layout.offset * dtypes.dtype(place.dtype).size
        return self._device.view(handle, start, place.dtype, place.layout.shape, place.layout.strides)

    def look(self, place: Place) -> np.ndarray:
        self._device.synchronize()
        return self.locate(place).copy()

    def spoil(self, start: int, nbytes: int) -> None:
        """For kernels alone: fill working memory."""
        self._device.view(self.arena, start, "uint8", (nbytes,))[...] = 0x5A


class FakeExecutable(BoundExecutable):
    """Steps as closures over places of the device."""

    fixed = frozenset({"input", "output"})

    def __init__(self, graph: Graph, plan: BoundPlan, constants: FakeConstants, device: FakeDevice) -> None:
        super().__init__(graph, plan, 1, device)
        self.constants = constants.upload(plan)

    def context(self, states: Sequence[FakeValue] = ()) -> _CallContext:
        return _CallContext(self, states)

    def kernel(self, number: int, context: _CallContext) -> Callable[[], None]:
        """What runs step `number`."""
        step = self.plan.steps[number]
        attributes = {} if step.node is None else step.node.attributes
        operands = [None if place is None else context.locate(place) for place in step.operands]

        def run() -> None:
            if step.planned.scratch_bytes:
                context.spoil(step.scratch_offset, step.planned.scratch_bytes)
            inputs = [None if array is None else array.copy() for array in operands[: step.n_inputs]]
            try:
                result = inputs[0] if step.op == "copy" else TABLE[step.op].reference(*inputs, **attributes)
            except (IndexError, ZeroDivisionError) as error:
                raise ExecutionError(f"{self.name_of(number)}: {error}") from None
            for target, made in zip(
                operands[step.n_inputs :], result if isinstance(result, tuple) else (result,), strict=True
            ):
                target[...] = made

        return run


class FakeTarget(Target):
    """The target: one entry of the table."""

    name = "fake"
    summary = "the definitions of ops on a device that NumPy cannot reach"

    def __init__(self) -> None:
        self.device: FakeDevice = FakeDevice()

    def new_prepared(self) -> FakeConstants:
        """As `Target.new_prepared`: all are copied to the device."""
        return FakeConstants(self.device)

    def executable(self, graph: Graph, config: Config, prepared: Prepared, *, keep: bool = False) -> FakeExecutable:
        assert isinstance(prepared, FakeConstants)
        plan = bind(graph, _Planner(), strategy=config.planner, keep=keep)
        return FakeExecutable(graph, plan, prepared, self.device)


FAKE = FakeTarget()
