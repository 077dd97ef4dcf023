"""Runs a bound plan with the C library: builds its tables, lends arenas to calls. Knows no passes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from engine import dtypes
from engine._native import ffi, lib
from engine.errors import ExecutionError, InternalError
from engine.graph import Graph, Node, Value, elements
from engine.memory import aligned_empty, as_array, release
from engine.targets.base import Context, Observer, RunTimes
from engine.targets.bound import BoundExecutable
from engine.targets.cpu import call, native
from engine.targets.cpu.weights import Weights
from engine.targets.host import operand
from engine.targets.plan import BoundPlan, Step

_NODE_BYTES, _TENSOR_BYTES = ffi.sizeof("eb_node"), ffi.sizeof("eb_tensor")
_FAILURES = {
    lib.EB_INDEX_OUT_OF_RANGE: "an index is out of range",
    lib.EB_DIVISION_BY_ZERO: "an integer is divided by zero",
}
CallMemory = tuple[Callable[[], int], Any, Any, Any, np.ndarray]
"""Working memory of one call: the C call, base pointers, the same as integers, number of the failed step, arena."""


class _CallContext(Context):
    """One call at a time with the same states. Memory is borrowed for each run, so that idle contexts hold none."""

    def __init__(self, executable: CpuExecutable, states: Sequence[Any]) -> None:
        self._executable, self._states = executable, states

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """As `Context.run`; the run has ended when it returns."""
        self._executable.run(inputs, outputs, self._states)


class CpuExecutable(BoundExecutable):
    """A bound plan as C tables. Any number of threads may call `run` at once: each call borrows an arena.

    The plan has working memory for `threads`. With `per_node`, each step is a C call, instead of each run.
    """

    def __init__(
        self, graph: Graph, plan: BoundPlan, weights: Weights, threads: int, *, per_node: bool = False
    ) -> None:
        super().__init__(graph, plan, threads)
        self.threads = threads
        self._per_node = per_node
        self.count = len(plan.steps)
        constants = weights.add(plan, self, threads)
        self._constants = dict(constants)  # the memory to which the tables refer
        self._n_inputs, self._n_outputs = len(graph.inputs), len(graph.call_outputs)
        first_constant = 1 + self._n_inputs + self._n_outputs
        self._addresses = [0] * first_constant + [memory.ctypes.data for memory in self._constants.values()]
        values = (*graph.inputs, *graph.call_outputs)
        nbytes = [*(value.type.nbytes for value in values), *(memory.nbytes for memory in self._constants.values())]
        self._sizes = [plan.arena_bytes, *nbytes]  # bytes of each buffer
        buffers = {key: number for number, key in enumerate(self._constants, first_constant)}
        numbers = iter([buffers[key] for key, _memory in constants])
        self._nodes = ffi.new("eb_node[]", max(self.count, 1))
        self._operands = ffi.new("eb_tensor[]", sum(len(step.operands) for step in plan.steps))
        first = 0
        for number, step in enumerate(plan.steps):
            self._fill(self._nodes + number, self._operands + first, step, numbers)
            first += len(step.operands)
        self._place()
        self.free: list[CallMemory] = []  # working memory that no call uses

    def _fill(self, node: Any, operands: Any, step: Step, constants: Iterator[int]) -> None:
        """Copy the kernel's plan to `node` and `operands`, and set the places of the operands.

        `constants` has the buffers of the plan's constant operands, from the first one of this step on.
        """
        planned, its_operands, _kept = step.planned.handle
        ffi.memmove(node, planned, _NODE_BYTES)
        ffi.memmove(operands, its_operands, len(step.operands) * _TENSOR_BYTES)
        node.operands = operands
        node.scratch_buffer, node.scratch_offset, node.overlap = 0, step.scratch_offset, step.overlap
        for position, place in enumerate(step.operands):
            if place is None:
                continue
            tensor = operands[position]
            kind, index = place.storage
            if kind == "arena":
                tensor.buffer = -1 - index  # eb_place_operands replaces it
            elif kind == "input":
                tensor.buffer = 1 + index
            elif kind == "state":  # after the inputs of the call
                tensor.buffer = 1 + len(self.graph.call_inputs) + index
            elif kind == "output":
                tensor.buffer = 1 + self._n_inputs + index
            else:
                if position in step.planned.packed:  # the packed copy has only this part of the constant
                    tensor.offset = 0
                tensor.buffer = next(constants)

    def _place(self) -> None:
        """Compute the places of operands in the arena; InternalError if a step accesses memory outside of its buffers.

        Both happen in C, on the tables that will run: in Python the check would take 10% of the time of binding.
        """
        sizes, offsets, parts = (
            ffi.new("int64_t[]", numbers) for numbers in (self._sizes, self.plan.arena_offsets, self.plan.arena_sizes)
        )
        first_constant = 1 + self._n_inputs + self._n_outputs
        counts = (len(self._sizes), len(self.graph.call_inputs), first_constant, len(parts))
        memory = ffi.new("eb_memory *", [*counts, sizes, offsets, parts])
        wrong = ffi.new("const char **")
        number = lib.eb_place_operands(self._nodes, self.count, self.threads, memory, wrong)
        if number >= 0:
            what = self.name_of(number) if number < self.count else "the plan"
            raise InternalError(f"{what}: {ffi.string(wrong[0]).decode()}")

    # --- running -----------------------------------------------------------------------------------------------------

    def context(self, states: Sequence[Any] = ()) -> Context:
        return _CallContext(self, states)

    def _take_memory(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> CallMemory:
        """Take free working memory, and set the addresses of inputs (states after them) and outputs in it."""
        try:
            memory = self.free.pop()
        except IndexError:
            memory = self.make_memory()
        _call, pointers, words, _failed, _arena = memory
        for position, value in enumerate((*inputs, *outputs), 1):
            if not isinstance(value, np.ndarray):
                words[position] = value.data_ptr()
            else:
                try:
                    pointers[position] = native.address_of(value)
                except ValueError:  # bfloat16
                    pointers[position] = native.address_of(value.view(np.int16))
        return memory

    def make_memory(self) -> CallMemory:
        """Create working memory for a call; called when all existing ones are in use."""
        arena = aligned_empty(self.plan.arena_bytes)
        words = ffi.new("uintptr_t[]", self._addresses)
        words[0] = arena.ctypes.data
        pointers, failed = ffi.cast("void **", words), ffi.new("int32_t *")
        call = partial(lib.eb_run, self._nodes, 0, self.count, pointers, self.threads, ffi.NULL, failed)
        return call, pointers, words, failed, arena

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any], states: Sequence[Any] = ()) -> None:
        """As `Executable.run`: dense arrays or CPU tensors of the graph's types."""
        if self._per_node:
            self._run_per_node((*inputs, *states), outputs)
            return
        memory = self._take_memory((*inputs, *states), outputs)
        status = memory[0]()
        self.free.append(memory)
        if status:
            raise self.failure(status, memory[3][0])

    def _run_per_node(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        memory = self._take_memory(inputs, outputs)
        try:
            for number in range(self.count):
                self._run_step(memory, number)
        finally:
            self.free.append(memory)

    def _counters(self) -> tuple[np.ndarray, Any]:
        """Zeros for ticks [threads, steps], and an eb_profile with which a run adds its ticks to them."""
        busy = np.zeros((self.threads, self.count), np.int64)
        return busy, ffi.new("eb_profile *", [self.count, 0, ffi.from_buffer("int64_t[]", busy)])

    def run_timed(self, inputs: Sequence[Any], outputs: Sequence[Any], states: Sequence[Any] = ()) -> RunTimes:
        """As `Executable.run_timed`. With one thread the steps sum to the run: they share clock readings."""
        memory = self._take_memory((*inputs, *states), outputs)
        _call, pointers, _words, failed, _arena = memory
        busy, profile = self._counters()
        status = lib.eb_run(self._nodes, 0, self.count, pointers, self.threads, profile, failed)
        self.free.append(memory)
        if status != native.OK:
            raise self.failure(status, failed[0])
        return RunTimes(busy, profile.wall, native.tick_seconds(), native.clock())

    def _run_step(self, memory: CallMemory, number: int) -> None:
        _call, pointers, _words, failed, _arena = memory
        status = lib.eb_run(self._nodes, number, number + 1, pointers, self.threads, ffi.NULL, failed)
        if status != native.OK:
            raise self.failure(status, failed[0])

    def failure(self, status: int, number: int) -> ExecutionError:
        """The error for the `status` that step `number` returned."""
        what = _FAILURES.get(status, f"kernel {self.plan.steps[number].kernel.name} returned status {status}")
        return ExecutionError(f"{self.name_of(number)}: {what}")

    # --- reading it --------------------------------------------------------------------------------------------------

    def trace(self, inputs: Sequence[Any], states: Sequence[Any], observe: Observer) -> None:
        """As `Executable.trace`. The plan must give every value memory of its own.

        Pages of values that no later node reads go back to the system, so a trace needs about the memory of live
        values.
        """
        graph, plan = self.graph, self.plan
        outputs = [np.empty(v.shape, dtypes.dtype(v.dtype).numpy) for v in graph.call_outputs]
        states = [state.copy() for state in states]  # the run writes to them
        roots = {("input", n): as_array(value) for n, value in enumerate(inputs)}
        # The contents of states before the run, which a trace shows as inputs: the run overwrites the copies above.
        roots |= {("state", n): state.copy() for n, state in enumerate(states)}
        # A step writes what a node makes, or, for a view that is no view of memory, the binder's copy does.
        written = {
            place.storage: number
            for number, step in enumerate(plan.steps)
            for place in step.operands[step.n_inputs :]
            if place is not None
        }
        unread = _parts_by_last_use(graph, plan)
        memory, ran = self._take_memory([*inputs, *states], outputs), 0
        arena = memory[4]

        def read(value: Value) -> np.ndarray:
            if value.form is not None:
                return elements(value.form)
            place = plan.places[value]
            kind, part = place.storage
            if kind == "constant":  # a view of one
                return operand(np.asarray(plan.constants[part].elements, order="C"), 0, place)
            start = plan.arena_offsets[part] if kind == "arena" else 0
            found = operand(roots.get((kind, part), arena), start, place)
            found.flags.writeable = False
            return found

        try:
            for index, node in enumerate(graph.nodes):
                seconds = 0.0
                until = max(written.get(plan.places[value].storage, -1) for value in node.outputs)
                for number in range(ran, until + 1):
                    start = time.perf_counter()
                    self._run_step(memory, number)
                    if plan.steps[number].node is node:
                        seconds = time.perf_counter() - start
                    ran = number + 1
                observe(index, node, read, seconds)
                for part in unread.get(node, ()):
                    release(arena[plan.arena_offsets[part] :][: plan.arena_sizes[part]])
        finally:
            self.free.append(memory)

    def identity(self) -> Any:
        return [super().identity(), self._per_node]

    def fast_path(self, boundary: Any) -> Callable[[tuple[Any, ...]], Any] | None:
        """As `Executable.fast_path`; none for a program with states."""
        return None if self._per_node or self.graph.states else call.fast_path(boundary, self)


def _parts_by_last_use(graph: Graph, plan: BoundPlan) -> dict[Node, list[int]]:
    """Node -> the parts of the arena that it makes or reads, and no later one."""
    last: dict[int, Node] = {}
    for node in graph.nodes:
        for value in (*node.inputs, *node.outputs):
            place = None if value is None else plan.places.get(value)
            if place is not None and place.storage.kind == "arena":
                last[place.storage.number] = node
    found: dict[Node, list[int]] = {}
    for part, node in last.items():
        found.setdefault(node, []).append(part)
    return found
