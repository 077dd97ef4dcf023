"""Runs a bound plan on the device: resolves places to memory once, then starts the kernels in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from engine import dtypes
from engine.errors import ExecutionError
from engine.graph import Graph
from engine.ops import TensorType
from engine.targets.base import Context, RunTimes, Summary
from engine.targets.bound import BoundExecutable
from engine.targets.plan import BoundPlan, Place, Step
from engine.targets.staging import StagedContext
from engine.targets.triton.capture import Start, capture, run_in_order
from engine.targets.triton.clock import StepTimes, time_steps
from engine.targets.triton.constants import Constants
from engine.targets.triton.device import (
    TritonDevice,
    as_elements,
    describe_cuda_error,
    is_interpreted,
    is_on_device,
    torch_type,
)
from engine.targets.triton.launch import Fault, Launch, Launches, Operand, Scratch


class TritonContext(Context):
    """One call at a time: an arena, and the launches with their addresses."""

    def __init__(self, executable: TritonExecutable, states: Sequence[Any]) -> None:
        self._executable, self._states = executable, states
        device, plan = executable.device, executable.plan
        self._arena = device.allocate(plan.arena_bytes)
        count = max(len(plan.steps), 1)
        self._faults = device.allocate(4 * count).value(0, TensorType("int32", (count,)))
        device.write(self._faults, 0)
        self._seen = device.host_copy(self._faults)
        self._fixed: Mapping[str, Sequence[Any]] = {}
        self._run: Callable[[], None] = run_in_order(())
        self._is_timed = False
        self._times: StepTimes | None = None

    def warm_up(self, fixed: Mapping[str, Sequence[Any]]) -> None:
        """As `Context.warm_up`: resolve every address, and capture the launches."""
        self._fixed = fixed
        starts = [start for of_step in self._starts_of_steps() for start in of_step]
        self._run = run_in_order(starts) if is_interpreted() else capture(starts, self._executable.device.place)

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Runs in this block start the kernels one by one, wait for them, and measure them; `times` has the results."""
        self._is_timed = True
        try:
            yield
        finally:
            self._is_timed = False

    @property
    def times(self) -> StepTimes:
        """Of the latest run that was measured."""
        assert self._times is not None  # noqa: S101  # callers have run it
        return self._times

    def _time(self) -> None:
        host_seconds = None if self._times is None else self._times.host_seconds
        times = time_steps(self._starts_of_steps(), self._executable.device.place, host_seconds)
        # A queue that is full makes the host wait for the device, so the shortest time counts.
        self._times = times._replace(host_seconds=min(host_seconds or times.host_seconds, times.host_seconds))

    def _starts_of_steps(self) -> list[list[Start]]:
        steps = enumerate(self._executable.plan.steps)
        return [self.starts(n, launches_of(step), self._arena.memory[step.scratch_offset :]) for n, step in steps]

    def starts(self, number: int, launches: Launches, scratch: Any) -> list[Start]:
        """The launches of step `number`, planned for it or others, with their addresses; `scratch` is uint8."""
        step = self._executable.plan.steps[number]
        name = self._executable.name_of(number)
        found = []
        for launch in launches.launches:
            if not is_shared(step, launch):
                arguments = {n: self._resolve(number, step, one, scratch) for n, one in launch.arguments.items()}
                found.append(Start(launch.function, launch.grid, arguments, launch.options, name))
        return found

    def _resolve(self, number: int, step: Step, argument: Any, scratch: Any) -> Any:
        """A tensor at the address of a pointer; anything else is itself."""
        if isinstance(argument, Operand):
            place = step.operands[argument.position]
            assert place is not None  # noqa: S101  # kernels point to operands that are there
            return self._pointer(place, argument)
        if isinstance(argument, Scratch):
            return scratch[argument.start :].view(torch_type(argument.dtype))
        return self._faults[number:] if isinstance(argument, Fault) else argument

    def _pointer(self, place: Place, argument: Operand) -> Any:
        memory = self._storage(place).view(torch_type(argument.view or place.dtype))
        return memory[place.layout.offset + argument.offset :]

    def _storage(self, place: Place) -> Any:
        """The elements of the storage of a place, one after the other."""
        kind, number = place.storage
        if kind == "arena":
            start = self._executable.plan.arena_offsets[number]
            nbytes = self._executable.plan.arena_sizes[number]
            return self._arena.memory[start : start + nbytes].view(torch_type(place.dtype))
        if kind == "constant":
            return self._executable.constants[number].reshape(-1)
        values = self._states if kind == "state" else self._fixed[kind]
        return values[number].reshape(-1)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        del inputs, outputs  # they are the fixed values
        self._raise_faults()  # of an earlier run whose results have stayed on the device, so that nobody has waited
        if self._is_timed:
            self._time()
        else:
            self._run()
        self._seen.copy_(self._faults, non_blocking=True)

    def synchronize(self) -> None:
        with self.naming_errors():
            self._executable.device.wait()
        self._raise_faults()

    @contextmanager
    def naming_errors(self) -> Iterator[None]:
        """ExecutionError with the name of the program if CUDA reports an error in the block."""
        try:
            yield
        except RuntimeError as error:  # torch.AcceleratorError is one
            raise ExecutionError(f"{self._executable.graph.name}: {describe_cuda_error(error)}") from error

    def _raise_faults(self) -> None:
        """ExecutionError if a run that has ended met an index out of range."""
        faults = np.flatnonzero(as_elements(self._seen))
        if faults.size:
            self._executable.device.write(self._faults, 0)
            self._seen.zero_()
            raise ExecutionError(f"{self._executable.name_of(int(faults[0]))}: an index is out of range")

    def look(self, place: Place) -> np.ndarray:
        layout, kind = place.layout, dtypes.dtype(place.dtype).numpy
        elements = np.ascontiguousarray(self._executable.device.read(self._storage(place)))
        strides = [stride * kind.itemsize for stride in layout.strides]
        return np.ndarray(layout.shape, kind, elements.data, layout.offset * kind.itemsize, strides)


def is_shared(step: Step, launch: Launch) -> bool:
    """True for a copy from a place to itself."""
    if launch.unless_shared is None:
        return False
    first, second = (step.operands[position] for position in launch.unless_shared)
    return first is not None and second is not None and first.storage == second.storage


class _OrderedContext(StagedContext):
    """A context whose runs follow each other on the device, whichever stream and thread they come from.

    A call whose results stay on the device does not wait, so its context may be lent to the next call while it runs.
    """

    def __init__(self, context: Context, device: TritonDevice, types: Mapping[str, Sequence[TensorType]]) -> None:
        super().__init__(context, device, types)
        assert isinstance(context, TritonContext)  # noqa: S101  # what `TritonExecutable` makes
        self._ordered, self._order = context, device.new_order()

    def copies_at_once(self, requested: Any) -> bool:
        return is_on_device(requested)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """As `Context.run`. CUDA may report an error of an earlier call at any of the copies and the launch."""
        with self._ordered.naming_errors(), self._order:
            super().run(inputs, outputs)

    def synchronize(self) -> None:
        with self._ordered.naming_errors():
            super().synchronize()

    def run_timed(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> StepTimes:
        """One run, to its end, and the times of its steps."""
        with self._ordered.timing():
            self.run(inputs, outputs)
        self.synchronize()
        return self._ordered.times


class TritonExecutable(BoundExecutable):
    """A bound plan on the device."""

    fixed = frozenset({"input", "output"})
    device: TritonDevice
    staging = _OrderedContext

    def __init__(self, graph: Graph, plan: BoundPlan, constants: Constants, device: TritonDevice) -> None:
        super().__init__(graph, plan, 1, device)
        self.constants = constants.upload(plan)

    def context(self, states: Sequence[Any] = ()) -> TritonContext:
        return TritonContext(self, states)

    def run_timed(self, inputs: Sequence[Any], outputs: Sequence[Any], states: Sequence[Any] = ()) -> RunTimes:
        """As `Executable.run_timed`: kernels are started one by one, and copies of inputs and results do not count."""
        context = self._idle_context(states) or self.ready_context(states)
        try:
            times = _timed(context).run_timed(inputs, outputs)
        finally:
            self._keep_idle(states, context)
        return RunTimes(np.array([times.steps], np.int64), times.wall, 1e-9, times.clock)

    def run_for_trace(self, context: Context, inputs: Sequence[Any], outputs: Sequence[Any]) -> Sequence[float]:
        """As `BoundExecutable.run_for_trace`, measured as by `run_timed`."""
        return [1e-9 * ticks for ticks in _timed(context).run_timed(inputs, outputs).steps]

    def summary(self) -> Summary:
        """As `Executable.summary`; a step may have several launches."""
        steps = self.plan.steps
        launches = sum(len(launches_of(step).launches) for step in steps)
        return super().summary()._replace(launches=launches)

    def identity(self) -> Any:
        """As `Executable.identity`, with the configuration of each launch."""
        return [
            super().identity(),
            [_describe(launch) for step in self.plan.steps for launch in launches_of(step).launches],
        ]


def _describe(launch: Launch) -> list[Any]:
    """What decides how a launch computes, but for the places of its operands."""
    numbers = {name: repr(one) for name, one in launch.arguments.items() if not isinstance(one, _POINTERS)}
    return [launch.function.fn.__name__, launch.grid, numbers, dict(launch.options)]


_POINTERS = Operand | Scratch | Fault


def _timed(context: Context) -> _OrderedContext:
    assert isinstance(context, _OrderedContext)  # noqa: S101  # `TritonExecutable.staging`
    return context


def launches_of(step: Step) -> Launches:
    """The launches that were planned for a step."""
    found: Launches = step.planned.handle
    return found
