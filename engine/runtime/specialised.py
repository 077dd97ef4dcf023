"""A graph whose sizes are known, on this machine: checks of arguments, memory plan, target; profile and trace.

`runtime.Program` has one, or one for each of the latest sizes that it was called with.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from engine import logs
from engine.config import Config
from engine.errors import ConfigError
from engine.graph import NOWHERE, Graph, Node
from engine.ops import TABLE, TensorType
from engine.program import structure_digest
from engine.runtime.boundary import Boundary
from engine.runtime.report import Counts, NodeProfile, Profile, ThreadProfile
from engine.runtime.state import State
from engine.runtime.trace import Keep, Recorder, Trace
from engine.targets.base import UNUSUAL, Executable, Prepared, Target
from engine.targets.instruments import Call, Roofs
from engine.targets.plan import Step
from engine.targets.tuned import Tuning, TuningOptions

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]
States = Sequence[Any]
"""What outlives a call: values of the device, in the order of `Graph.states`."""


class Specialised:
    """Immutable; may be called from any number of threads at once.

    All sizes of `graph` are known; `sizes` has those that differ from call to call, by symbol. `prepared` has the
    constants as the target wants them; all graphs of one program share it.

    Raises ProgramError if no kernel can run a node, and ConfigError for a variant that nothing here can use.
    """

    def __init__(
        self, graph: Graph, config: Config, target: Target, prepared: Prepared, sizes: Mapping[str, int] | None = None
    ) -> None:
        self.graph, self.sizes = graph, dict(sizes or {})
        # The plan has working memory for so many lanes, so processors must not be counted again.
        self.config = replace(config, threads=target.lanes(config)) if config.threads == "auto" else config
        self.boundary = Boundary(graph, device=target.device, recycle=config.outputs == "recycled")
        self._target, self._prepared = target, prepared
        self.executable = target.executable(graph, self.config, prepared)
        types = ", ".join(map(str, self.boundary.input_types))
        logs.RUN.info("%s: ready for %s on %s", graph.name, types, target.name)
        self.fast_path = self.executable.fast_path(self.boundary) or (lambda _args: UNUSUAL)

    def __call__(self, args: Args, kwargs: Kwargs, states: States = (), state: State | None = None) -> Any:
        """Run once, which changes `states`: the arrays of `state`, or copies of them.

        Raises ShapeError and ExecutionError.
        """
        if not kwargs:
            result = self.fast_path(args)
            if result is not UNUSUAL:
                return result
        inputs = self.boundary.unpack(args, kwargs, state)
        outputs = self.boundary.allocate(inputs)
        self.executable.run(inputs, outputs, states)
        return self.boundary.pack(outputs)

    @cached_property
    def run_digest(self) -> str:
        """Hash of everything that decides what runs: structure, kernels, memory, threads, dispatch, target."""
        facts = [
            structure_digest(self.graph),
            self._target.name,
            self.executable.identity(),
            any(self.boundary.recycled),
            *(name for name, _changes in self.graph.log if "@" in name),  # versions of a user's own passes
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @property
    def has_slow_launches(self) -> bool:
        """True if a slow kernel runs some step."""
        plan = self.executable.plan
        return plan is not None and any(step.kernel.is_slow for step in plan.steps)

    @property
    def has_emulated_launches(self) -> bool:
        """True if this machine has no instructions for the type in which some product is computed."""
        return any(map(self._is_emulated, self.graph.nodes))

    def _is_emulated(self, node: Node) -> bool:
        return self._target.instruments.lacks(node.attributes.get("compute", "element"), self.config)

    def count(self) -> Counts:
        """What a report counts."""
        graph, summary = self.graph, self.executable.summary()
        flops = {node: node.flops() for node in graph.nodes}
        slow = [node for node in summary.slow if node is not None]
        return Counts(
            nodes=len(graph.nodes),
            launches=summary.launches,
            copies=summary.copies,
            copied_bytes=summary.copied_bytes,
            in_place=summary.in_place,
            arena_bytes=summary.arena_bytes,
            arena_lower_bound_bytes=summary.lower_bound,
            weight_bytes=graph.weight_bytes,
            packed_bytes=self._prepared.packed_bytes,
            flops=sum(flops.values()),
            executed_flops=sum(summary.operations.get(node, count) for node, count in flops.items()),
            bytes=sum(node.nbytes() for node in graph.nodes),
            packing_seconds=self._prepared.packing_seconds,
            passes=graph.log,
            emulated_launches=sum(map(self._is_emulated, graph.nodes)),
            slow_launches=len(summary.slow),
            slow_flops=sum(flops[node] for node in slow),
            slow_bytes=sum(node.nbytes() for node in slow),
            kernels=tuple(Counter(summary.kernels).most_common()),
            slow_operations=tuple(Counter(map(_describe_operation, summary.slow)).most_common()),
        )

    def profile(self, args: Args, kwargs: Kwargs, states: States, runs: int, *, roofs: bool) -> Profile:
        inputs = self.boundary.unpack(args, kwargs)
        outputs = self.boundary.allocate(inputs)
        samples, calls = [], []
        self.executable.run_timed(inputs, outputs, states)
        for _ in range(runs):
            samples.append(self.executable.run_timed(inputs, outputs, states))
            start = time.perf_counter()
            self(args, kwargs, states)
            self._target.device.wait()  # results may stay on the device
            calls.append(time.perf_counter() - start)
        times = sorted(samples, key=lambda s: s.wall)[(runs - 1) // 2]
        computes = {str(node.attributes.get("compute")) for node in self.graph.nodes}
        limits = self._target.instruments.roofs(self.config, computes) if roofs else Roofs()
        tick = times.tick_seconds
        total = float(times.busy.sum()) * tick
        nodes = tuple(
            self._node_profile(number, float(ticks) * tick, total, limits)
            for number, ticks in enumerate(times.busy.sum(0))
        )
        threads = tuple(
            ThreadProfile(float(busy) * tick, float(times.wall - busy) * tick) for busy in times.busy.sum(1)
        )
        call = statistics.median(calls)
        return Profile(nodes, threads, times.wall * tick, call, runs, limits.flops, limits.bandwidth, times.clock)

    def _node_profile(self, number: int, seconds: float, total: float, roofs: Roofs) -> NodeProfile:
        plan = self.executable.plan
        if plan is None:
            raise ConfigError("profile: this target has no plan of steps")
        step = plan.steps[number]
        output = step.operands[step.n_inputs]
        shape = () if output is None else output.layout.shape
        node = step.node
        flops = 0 if node is None else node.flops()
        nbytes = step.copied_bytes if node is None else node.nbytes() - count_unchanged(step)
        source = NOWHERE if node is None else node.source
        executed = step.planned.operations or flops
        compute = "" if node is None else str(node.attributes.get("compute", ""))
        peak = roofs.products.get(compute, roofs.flops)
        limits = {
            "compute": executed / peak if peak else 0.0,
            "memory": nbytes / roofs.bandwidth if roofs.bandwidth else 0.0,
        }
        bound = max(limits, key=lambda k: limits[k])
        # Data that fits a cache can be read faster than memory: no share of that roof is claimed for it.
        in_cache = bound == "memory" and nbytes < roofs.cache_bytes
        share = None if in_cache or not seconds or not limits[bound] else limits[bound] / seconds
        return NodeProfile(
            step.op,
            step.kernel.name,
            source.line,
            shape,
            seconds,
            flops,
            executed,
            nbytes,
            seconds / total if total else 0.0,
            share,
            bound,
            source.module,
            step.kernel.is_slow,
            peak_flops=peak,
            compute=compute,
        )

    def tune(self, args: Args, kwargs: Kwargs, states: States, options: TuningOptions) -> Tuning:
        """As `Program.tune`; `states` stay as they are if they are copies."""
        call = Call(self.boundary.unpack(args, kwargs), states)
        return self._target.instruments.tune(self.graph, self.config, self._prepared, call, options)

    def trace(self, args: Args, kwargs: Kwargs, states: States, keep: Keep) -> Trace:
        """As `CompiledModel.trace`; `states` stay as they are."""
        inputs = self.boundary.unpack(args, kwargs)
        recorder = Recorder(self.graph, self._target.device.name, keep)
        self.executable_of(self.graph, keep=True).trace(inputs, states, recorder)
        return recorder.trace()

    def executable_of(self, graph: Graph, *, keep: bool = False) -> Executable:
        """`graph`, which is this one or made of its nodes, for the same target; `keep` as of `Target.executable`."""
        return self._target.executable(graph, self.config, self._prepared, keep=keep)


def count_unchanged(step: Step) -> int:
    """Number of bytes that an in-place write leaves unchanged, which the op's count includes; 0 for other steps."""
    x, output = step.operands[0], step.operands[step.n_inputs]
    if TABLE[step.op].family != "write" or x is None or output is None or x.storage != output.storage:
        return 0
    replaced = [p for p in step.operands[1 : step.n_inputs] if p is not None and p.dtype == x.dtype]
    whole, part = (sum(TensorType(p.dtype, p.layout.shape).nbytes for p in group) for group in ((x, output), replaced))
    return max(whole - part, 0)


def _describe_operation(node: Node | None) -> str:
    """The op of a node and the element types that it reads, such as ``sum of int64``; None is a copy."""
    if node is None:
        return "copy"
    types = [value.type for value in node.inputs if value is not None]
    names = dict.fromkeys(one.dtype if one.encoding is None else one.encoding.family for one in types)
    compute = node.attributes.get("compute", "element")
    text = f"{node.op.name} of {' and '.join(names)}" if names else node.op.name
    return text if compute == "element" else f"{text} in {compute}"
