"""The program a user holds: artifact + configuration + executor. Calls, reports, profiles, traces, saves."""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np

from engine import dtypes
from engine.bind import BoundPlan, bind, threads_of
from engine.boundary import Boundary, Rebuild, as_array
from engine.call import UNUSUAL, short_way
from engine.config import Config
from engine.errors import ConfigError
from engine.executors import interpreter, native
from engine.ops import TABLE, TensorType
from engine.program import Artifact, Instruction
from engine.report import NodeProfile, NodeTrace, Profile, Report, TensorStatistics, ThreadProfile, Trace


class Executor(Protocol):
    """Fills `outputs` from `inputs`: dense arrays or CPU tensors of the artifact's types."""

    def __call__(self, inputs: list[Any], outputs: list[Any]) -> None:
        """Run once."""


class Program:
    """A compiled model. Immutable; may be called from any number of threads at once.

    Made by `engine.compile` and `engine.load`. Calling it takes what the model takes (torch tensors or NumPy arrays)
    and returns what the model returns, in fresh memory.

    Raises (when called):
        ShapeError: the arguments differ from what it was compiled for.
        ExecutionError: an index out of range, an integer division by zero.
    """

    def __init__(
        self,
        artifact: Artifact,
        config: Config,
        *,
        rebuild: Rebuild | None = None,
        borrowed: bool = False,
        export_seconds: float | None = None,
        started: float | None = None,
    ) -> None:
        started = time.perf_counter() if started is None else started
        self.artifact = artifact
        self.config = config
        self._boundary = Boundary(artifact, rebuild)
        self._export_seconds = export_seconds
        self._weights = native.Weights(artifact, borrowed=borrowed)
        self._plan = _NO_PLAN
        if config.executor == "native":
            self._plan = bind(artifact, config, keep=config.dispatch == "per_node")
            self._weights.prepare(self._plan)
        else:
            self._weights.own()
        self._execute = self._executor()
        self._compile_seconds = time.perf_counter() - started

    def _executor(self) -> Executor:
        if self.config.executor == "interpreter":
            return self._interpret
        return self._native.run if self.config.dispatch == "whole" else self._native.run_steps

    def _interpret(self, inputs: list[Any], outputs: list[Any]) -> None:
        results = interpreter.run(self.artifact, [as_array(i) for i in inputs])
        for target, result in zip(outputs, results, strict=True):
            as_array(target)[...] = result

    @cached_property
    def _native(self) -> native.NativeExecutor:
        return native.NativeExecutor(self.artifact, self._plan, self._weights, threads_of(self.config))

    @cached_property
    def _short_way(self) -> Callable[[tuple[Any, ...]], Any]:
        if self.config.executor != "native" or self.config.dispatch != "whole":
            return lambda _args: UNUSUAL
        return short_way(self._boundary, self._native)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One call: what the model takes, and what it returns."""
        if not kwargs:
            result = self._short_way(args)
            if result is not UNUSUAL:
                return result
        inputs = self._boundary.unpack(args, kwargs)
        outputs = self._boundary.allocate(inputs)
        self._execute(inputs, outputs)
        return self._boundary.pack(outputs)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Program holds memory of the machine: it cannot be pickled or copied; use save and engine.load"
        )

    def __repr__(self) -> str:
        types = zip(self._boundary.names, self._boundary.input_types, strict=True)
        return f"<Program {self.artifact.name}({', '.join(f'{n}: {t}' for n, t in types)})>"

    # --- identity ------------------------------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        """Hash of the artifact: instructions and weights; the same on every machine."""
        return self.artifact.digest

    @cached_property
    def run_digest(self) -> str:
        """Hash of everything that decides what runs: structure, kernels, memory plan, threads, dispatch, executor."""
        steps = [(s.op, s.kernel.name, [None if p is None else repr(p) for p in s.operands]) for s in self._plan.steps]
        config = (self.config.executor, self.config.dispatch, threads_of(self.config))
        facts = [self.artifact.structure_digest, steps, self._plan.arena_offsets, config]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the artifact to `path` (suffix ``.engine`` by custom): one safetensors file.

        Raises:
            ProgramError: the file cannot be written.
        """
        self.artifact.save(path)

    # --- reading it ----------------------------------------------------------------------------------------------

    def report(self) -> Report:
        """Passes, kernels, memory, arithmetic, times. Costs no run."""
        plan, artifact = self._plan, self.artifact
        kernels = Counter(s.kernel.name for s in plan.steps)
        counts = [_counts(artifact, i) for i in artifact.instructions]
        executed = {s.instruction: s.operations for s in plan.steps if s.operations}
        return Report(
            name=artifact.name,
            nodes=len(artifact.instructions),
            launches=len(plan.steps) if self.config.executor == "native" else len(artifact.instructions),
            fallback_nodes=0,
            copies=sum(s.instruction is None for s in plan.steps),
            in_place=plan.in_place,
            arena_bytes=plan.arena_bytes,
            arena_lower_bound_bytes=plan.lower_bound,
            weight_bytes=artifact.weight_bytes,
            packed_bytes=sum(p.data.nbytes for p in self._weights.packed.values()),
            flops=sum(f for f, _ in counts),
            executed_flops=sum(executed.get(number, flops) for number, (flops, _) in enumerate(counts)),
            bytes=sum(b for _, b in counts),
            export_seconds=self._export_seconds,
            compile_seconds=self._compile_seconds,
            passes=artifact.passes,
            kernels=tuple(kernels.most_common()),
            switches=self.config.to_dict(),
            digest=artifact.structure_digest,
            run_digest=self.run_digest,
        )

    def profile(self, *args: Any, runs: int = 30, roofs: bool = True, **kwargs: Any) -> Profile:
        """Time of each launch, measured inside of the native run.

        Args:
            *args: as for a call.
            **kwargs: as for a call.
            runs: how many runs to measure, one or more; the one of median length is shown.
            roofs: measure the machine's roofs too (0.1 s), for the share that each launch reaches.

        Raises:
            ConfigError: the program runs in the interpreter, whose times `trace` has.
        """
        if self.config.executor != "native":
            raise ConfigError("profile measures inside of the native executor; the interpreter's times are in trace()")
        inputs = self._boundary.unpack(args, kwargs)
        outputs = self._boundary.allocate(inputs)
        executor = self._native
        samples, calls = [], []
        executor.run_timed(inputs, outputs)
        for _ in range(runs):
            samples.append(executor.run_timed(inputs, outputs))
            start = time.perf_counter()
            self(*args, **kwargs)
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
        step = self._plan.steps[number]
        output = step.operands[step.n_inputs]
        shape = () if output is None else output.layout.shape
        if step.instruction is None:
            nbytes = 0 if output is None else 2 * TensorType(output.dtype, shape).nbytes
            flops, source = 0, ""
        else:
            instruction = self.artifact.instructions[step.instruction]
            flops, nbytes = _counts(self.artifact, instruction)
            source = instruction.source
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
        )

    def trace(self, *args: Any, keep: Iterable[int] | None = None, **kwargs: Any) -> Trace:
        """Run once, instruction by instruction, and record statistics of every input and output.

        Args:
            *args: as for a call.
            **kwargs: as for a call.
            keep: positions of instructions whose arrays are kept; None keeps none.
        """
        inputs = self._boundary.unpack(args, kwargs)
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


# What the interpreter has: arrays of NumPy's own.
_NO_PLAN = BoundPlan((), (), (), 0, 0, 0)
# Below this many bytes an operand set may stay in a last-level cache.
_CACHE_BYTES = 64 << 20


def _counts(artifact: Artifact, instruction: Instruction) -> tuple[int, int]:
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
            )
        )


def _trace_native(executor: native.NativeExecutor, inputs: list[Any], recorder: _Recorder) -> None:
    """Run with an arena in which every value keeps its memory, then read the values after each instruction."""
    artifact, plan = executor.artifact, executor.plan
    outputs = [np.empty(t.shape, dtypes.dtype(t.dtype).numpy) for t in (artifact.types[v] for v in artifact.outputs)]
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

    roots = {("input", n): known[v] for n, v in enumerate(artifact.inputs)}
    roots |= {("constant", v): a for v, a in artifact.constants.items()}
    with executor.reading(inputs, outputs, roots, observe) as read:
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
