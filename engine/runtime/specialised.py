"""An artifact whose sizes are known, on this machine: checks of arguments, memory plan, executor; profile and trace.

`runtime.Program` has one, or one for each of the latest sizes that it was called with.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from engine import dtypes
from engine.config import Config
from engine.errors import ConfigError
from engine.ops import TABLE, TensorType
from engine.program import Artifact, Instruction
from engine.runtime.boundary import Boundary, Rebuild, as_array
from engine.runtime.report import NodeProfile, NodeTrace, Profile, TensorStatistics, ThreadProfile, Trace
from engine.runtime.state import State
from engine.targets import interpreter
from engine.targets.bind import BoundPlan, Step, bind, threads_of
from engine.targets.cpu import native
from engine.targets.cpu.call import UNUSUAL, short_way
from engine.targets.cpu.weights import Weights

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]
States = Sequence[np.ndarray]
"""What outlives a call, in the order of `Artifact.states`."""


class Specialised:
    """Immutable; may be called from any number of threads at once.

    Args:
        artifact: all of its sizes are known.
        config: the switches.
        weights: the constants as kernels want them; shared by everything made of one artifact.
        rebuild: makes the user's own output structure from leaves; None uses plain containers.

    Raises:
        ProgramError: no kernel can run an instruction.
        ConfigError: a variant was asked for that nothing here can use.
    """

    def __init__(self, artifact: Artifact, config: Config, weights: Weights, rebuild: Rebuild | None) -> None:
        self.artifact = artifact
        # The plan has scratch for so many threads, so the executor must not count processors again.
        self.config = replace(config, threads=threads_of(config)) if config.threads == "auto" else config
        self.boundary = Boundary(artifact, rebuild, recycle=config.outputs == "recycled")
        self.plan = _NO_PLAN
        self._weights = weights
        if config.executor == "native":
            self.plan = bind(artifact, self.config, keep=config.dispatch == "per_node")
            weights.prepare(self.plan)
        self._execute = self._executor()

    def _executor(self) -> Callable[[list[Any], list[Any]], None]:
        """Fills outputs from inputs: dense arrays or CPU tensors of the artifact's types."""
        if self.config.executor == "interpreter":
            return self._interpret
        return self.native.run if self.config.dispatch == "whole" else self.native.run_steps

    def _interpret(self, inputs: list[Any], outputs: list[Any]) -> None:
        results = interpreter.run(self.artifact, [as_array(i) for i in inputs])
        states = inputs[len(self.artifact.call_inputs) :]
        for target, result in zip((*outputs, *states), results, strict=True):
            as_array(target)[...] = result

    @cached_property
    def native(self) -> native.NativeExecutor:
        """The executor of the plan."""
        return native.NativeExecutor(self.artifact, self.plan, self._weights, threads_of(self.config))

    @cached_property
    def short_way(self) -> Callable[[Args], Any]:
        """From usual arguments to the result; answers `UNUSUAL` to others."""
        if self.config.executor != "native" or self.config.dispatch != "whole" or self.artifact.states:
            return lambda _args: UNUSUAL
        return short_way(self.boundary, self.native)

    def __call__(self, args: Args, kwargs: Kwargs, states: States = (), state: State | None = None) -> Any:
        """Run once, which changes `states`: the arrays of `state`, or copies of them. Raises ShapeError and
        ExecutionError.
        """
        if not kwargs:
            result = self.short_way(args)
            if result is not UNUSUAL:
                return result
        inputs = self.boundary.unpack(args, kwargs, state)
        outputs = self.boundary.allocate(inputs)
        self._execute([*inputs, *states], outputs)
        return self.boundary.pack(outputs)

    @cached_property
    def run_digest(self) -> str:
        """Hash of everything that decides what runs: structure, kernels, memory, threads, dispatch, executor."""
        steps = [(s.op, s.kernel.name, [None if p is None else repr(p) for p in s.operands]) for s in self.plan.steps]
        config = (self.config.executor, self.config.dispatch, threads_of(self.config), any(self.boundary.recycled))
        facts = [self.artifact.structure_digest, steps, self.plan.arena_offsets, config]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    # --- profiling -------------------------------------------------------------------------------------------------

    def profile(self, args: Args, kwargs: Kwargs, states: States, runs: int, *, roofs: bool) -> Profile:
        """As `Program.profile`."""
        if self.config.executor != "native":
            raise ConfigError("profile measures inside of the native executor; the interpreter's times are in trace()")
        inputs = self.boundary.unpack(args, kwargs)
        outputs = self.boundary.allocate(inputs)
        inputs += states
        executor = self.native
        samples, calls = [], []
        executor.run_timed(inputs, outputs)
        for _ in range(runs):
            samples.append(executor.run_timed(inputs, outputs))
            start = time.perf_counter()
            self(args, kwargs, states)
            calls.append(time.perf_counter() - start)
        times = sorted(samples, key=lambda s: s.wall)[(runs - 1) // 2]
        isa = self.config.isa or native.isas()[-1]
        flops, bandwidth = (native.peak_flops(isa), native.read_bandwidth()) if roofs else (0.0, 0.0)
        tick = native.tick_seconds()
        total = float(times.busy.sum()) * tick
        nodes = tuple(
            self._node_profile(number, float(ticks) * tick, total, flops, bandwidth)
            for number, ticks in enumerate(times.busy.sum(0))
        )
        threads = tuple(
            ThreadProfile(float(busy) * tick, float(times.wall - busy) * tick) for busy in times.busy.sum(1)
        )
        call = statistics.median(calls)
        return Profile(nodes, threads, times.wall * tick, call, runs, flops, bandwidth, native.clock())

    def _node_profile(self, number: int, seconds: float, total: float, peak: float, bandwidth: float) -> NodeProfile:
        step = self.plan.steps[number]
        output = step.operands[step.n_inputs]
        shape = () if output is None else output.layout.shape
        if step.instruction is None:
            nbytes = 0 if output is None else 2 * TensorType(output.dtype, shape).nbytes
            flops, source, module = 0, "", ""
        else:
            instruction = self.artifact.instructions[step.instruction]
            flops, nbytes = counts(self.artifact, instruction)
            nbytes -= _untouched(step)
            source, module = instruction.source, instruction.module
        executed = step.operations or flops
        limits = {"compute": executed / peak if peak else 0.0, "memory": nbytes / bandwidth if bandwidth else 0.0}
        bound = max(limits, key=lambda k: limits[k])
        # Data that fits a cache can be read faster than memory: no share of that roof is claimed for it.
        in_cache = bound == "memory" and nbytes < _CACHE_BYTES
        share = None if in_cache or not seconds or not limits[bound] else limits[bound] / seconds
        return NodeProfile(
            step.op,
            step.kernel.name,
            source,
            shape,
            seconds,
            flops,
            executed,
            nbytes,
            seconds / total if total else 0.0,
            share,
            bound,
            module,
        )

    # --- tracing -----------------------------------------------------------------------------------------------------

    def trace(self, args: Args, kwargs: Kwargs, states: States, keep: Iterable[int] | None) -> Trace:
        """As `Program.trace`; `states` stay as they are."""
        inputs = [*self.boundary.unpack(args, kwargs), *states]
        kept = frozenset(keep or ())
        recorder = _Recorder(self.artifact, kept)
        if self.config.executor == "interpreter":
            interpreter.run(self.artifact, [as_array(i) for i in inputs], recorder)
        else:
            plan = bind(self.artifact, self.config, keep=True)
            self._weights.prepare(plan)
            executor = native.NativeExecutor(self.artifact, plan, self._weights, threads_of(self.config))
            _trace_native(executor, inputs, recorder)
        return Trace(tuple(recorder.nodes))


def _untouched(step: Step) -> int:
    """Bytes that the op's count has and the step does not move: of a value some elements of which are replaced where it
    lies, the others.
    """
    x, output = step.operands[0], step.operands[step.n_inputs]
    if TABLE[step.op].family != "write" or x is None or output is None or x.storage != output.storage:
        return 0
    replaced = [p for p in step.operands[1 : step.n_inputs] if p is not None and p.dtype == x.dtype]
    whole, part = (sum(TensorType(p.dtype, p.layout.shape).nbytes for p in group) for group in ((x, output), replaced))
    return max(whole - part, 0)


# What the interpreter has: arrays of NumPy's own.
_NO_PLAN = BoundPlan((), (), (), (), 0, 0, 0)
# Below this many bytes an operand set may stay in a last-level cache.
_CACHE_BYTES = 64 << 20


def counts(artifact: Artifact, instruction: Instruction) -> tuple[int, int]:
    """(FLOPs, bytes) of one instruction."""
    op = TABLE[instruction.op]
    inputs = [None if v is None else artifact.types[v] for v in instruction.inputs]
    outputs = [artifact.types[v] for v in instruction.outputs]
    if op.view is not None:
        return 0, 0
    return op.flops(inputs, outputs, instruction.attributes), op.nbytes(inputs, outputs, instruction.attributes)


# --- tracing ---------------------------------------------------------------------------------------------------


class _Recorder:
    """Collects NodeTraces in instruction order."""

    def __init__(self, artifact: Artifact, kept: frozenset[int]) -> None:
        self.artifact = artifact
        self.kept = kept
        self.nodes: list[NodeTrace] = []

    def __call__(
        self,
        index: int,
        instruction: Instruction,
        inputs: list[np.ndarray | None],
        outputs: list[np.ndarray],
        seconds: float,
    ) -> None:
        keep = index in self.kept
        self.nodes.append(
            NodeTrace(
                index,
                instruction.op,
                self.artifact.names[instruction.outputs[0]],
                instruction.source,
                seconds,
                tuple(None if a is None else summarise(a) for a in inputs),
                tuple(map(summarise, outputs)),
                tuple(None if a is None else a.copy() for a in inputs) if keep else None,
                tuple(a.copy() for a in outputs) if keep else None,
                instruction.module,
            )
        )


def _trace_native(executor: native.NativeExecutor, inputs: list[Any], recorder: _Recorder) -> None:
    """Run with an arena in which every value keeps its memory, then read the values after each instruction."""
    artifact, plan = executor.artifact, executor.plan
    types = (artifact.types[v] for v in artifact.call_outputs)
    outputs = [np.empty(t.shape, dtypes.dtype(t.dtype).numpy) for t in types]
    states = [state.copy() for state in inputs[len(artifact.call_inputs) :]]  # the run writes to them
    known: dict[int, np.ndarray] = dict(artifact.constants)
    known |= zip(artifact.inputs, (as_array(i) for i in inputs), strict=True)
    seconds: dict[int, float] = {}
    clock = time.perf_counter()

    def observe(number: int) -> None:
        nonlocal clock
        step, now = plan.steps[number], time.perf_counter()
        if step.instruction is not None:
            seconds[step.instruction] = now - clock
        clock = time.perf_counter()

    roots = {("input", n): known[v] for n, v in enumerate(artifact.call_inputs)}
    roots |= {("state", n): known[v] for n, v in enumerate(artifact.state_inputs)}
    roots |= {("constant", v): a for v, a in artifact.constants.items()}
    with executor.reading([*inputs[: len(artifact.call_inputs)], *states], outputs, roots, observe) as read:
        for index, instruction in enumerate(artifact.instructions):
            before = [None if v is None else read(plan.places[v]) for v in instruction.inputs]
            after = [read(plan.places[v]) for v in instruction.outputs]
            recorder(index, instruction, before, after, seconds.get(index, 0.0))


def summarise(array: np.ndarray) -> TensorStatistics:
    """Statistics of one array."""
    kind = dtypes.from_numpy(array.dtype)
    wide = array.astype(np.float64 if kind.kind == "float" else np.int64)
    finite = wide[np.isfinite(wide)]
    some = finite.size > 0
    return TensorStatistics(
        dtype=kind.name,
        shape=array.shape,
        minimum=float(finite.min()) if some else None,
        maximum=float(finite.max()) if some else None,
        mean=float(finite.mean()) if some else None,
        nans=int(np.isnan(wide).sum()),
        infinities=int(np.isinf(wide).sum()),
    )
