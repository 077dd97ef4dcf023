"""A graph of which the engine runs what it can and torch the rest: segments, one after the other, over shared memory.

Programs read torch's memory and return dense torch tensors; those that torch reads, and results, are copied if torch
would give them other strides. All sizes are known: others need another `Segmented`. Everything runs where programs of
the target run: what a call brings is moved there, and its results to where a program would have put them.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import torch
from torch.fx import GraphModule, Node

from engine import passes, targets
from engine.config import Config
from engine.errors import UnsupportedByTarget
from engine.exporter.sources import from_trace, module_of, shorten
from engine.exporter.walk import FindObstacle
from engine.exporter.weights import to_bytes
from engine.graph import Node as GraphNode
from engine.graph import Value, compute_checksum, share_constants
from engine.passes import fold_constants
from engine.runtime.program import Program
from engine.runtime.report import (
    Counts,
    NodeProfile,
    Profile,
    Report,
    ThreadProfile,
    add_counts,
    build_report,
)
from engine.runtime.trace import Keep, NodeTrace, Trace, ValueTrace, list_names, renumber
from engine.runtime.warn import warn_of_decoded, warn_of_left, warn_of_speed
from engine.targets.base import Device, Target
from engine.targets.instruments import Roofs
from engine.torch_backend import traced
from engine.torch_backend.failures import name_failures
from engine.torch_backend.layouts import copy_with_strides, ensure_strides, evaluate_all, strides_of
from engine.torch_backend.pieces import Piece, hold, pieces, substitute_sizes
from engine.torch_backend.placement import bring, find_place, move, move_calls
from engine.torch_backend.traced import Numbers, Traced, Weights
from engine.torch_backend.tracing import count_calls, list_calls, trace_calls, trace_input


def compile_flat(traced_graph: Traced, config: Config, counts: list[Counts] | None = None) -> Program:
    """A program from tensors to a list of them. With `counts`, its own are appended, and no slow kernel is reported."""
    graph = traced_graph.graph
    warn_of_decoded(graph.name, passes.precision.find_decoded(graph))
    passes.run_common(graph, config, is_whole=False)
    warn_of_left(graph.name, passes.precision.find_left(graph))
    share_constants([graph])
    return Program(graph, config, counts=counts)


def _hand_out(program: Program, traced_graph: Traced) -> Callable[..., list[Any]]:
    """A call of `program` with a result for each result of the graph: two of these may be one value, by an alias."""
    places = [one[0] if isinstance(one, list) else None for one in traced_graph.results]
    if places == list(range(len(places))):
        return program

    def call(*inputs: Any) -> list[Any]:
        made = program(*inputs)
        return [
            result if place is None else made[place] for place, result in zip(places, traced_graph.results, strict=True)
        ]

    return call


def make_find_obstacle(target: Target, config: Config) -> FindObstacle:
    """What tells of each node of a graph, in order and before all passes, why programs of `target` cannot run it.

    A node that a pass computes when compiling is no obstacle. A program may still refuse nodes that passes make.
    """
    folds = any(one.name == fold_constants.PASS.name for one in passes.stages(config)[0])
    folded: set[Value] = set()

    def find(node: GraphNode) -> str | None:
        if folds and fold_constants.will_fold(node, folded):
            folded.update(node.outputs)
            return None
        reason = target.supports(node.op.name, node.input_types, node.attributes, node.outputs[0].type)
        return None if reason is None else f"target {target.name} cannot run {node.op.name}: {reason}"

    return find


class Part(NamedTuple):
    """A segment. The engine runs it as `program`, or torch as `module`; the other is None.

    `reads`, `writes` and `drops` are slots, the last those that nobody reads behind it. `strides` maps a slot that it
    makes to the strides that torch wants there and a program does not give.
    """

    program: Program | None
    call: Callable[..., Sequence[Any]]
    calls: tuple[str, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    drops: tuple[int, ...]
    module: GraphModule | None
    strides: Mapping[int, tuple[int, ...]]

    @property
    def code(self) -> str:
        """What torch runs, as text."""
        return "" if self.module is None else self.module.code

    def list_names(self) -> list[tuple[str, ...]]:
        """The names of each value that a trace has of it."""
        if self.program is not None:
            return list_names(self.program.lowered)
        return [] if self.module is None else [(call.name, module_of(call)) for call in list_calls(self.module)]

    def count_nodes(self) -> int:
        """Number of nodes that a trace has of it."""
        if self.program is not None:
            return len(self.program.lowered.nodes)
        return 0 if self.module is None else count_calls(self.module)


class Segmented:
    """A graph in segments. Immutable; may be called from any number of threads at once.

    `module` is functional, with ``meta["val"]`` of its nodes, and `known` has every symbol of sizes. If `own`, torch,
    too, is to read weights as they are now, whatever becomes of the model's. `reasons` has a line for each call that
    the engine cannot compile, or the target cannot run. `results` has what it answers: ``[slot]``, or the number
    itself. `held` are the weights that torch reads or the graph returns.

    Raises ConfigError if this machine cannot run programs of the target, and UnsupportedByTarget if the target cannot
    run what the passes have made of calls that it can run.
    """

    def __init__(
        self, module: GraphModule, weights: Weights, known: Numbers, config: Config, name: str, *, own: bool
    ) -> None:
        started = time.perf_counter()
        self.name = name
        self.config = config
        module, weights = substitute_sizes(module, weights, known)
        target = targets.require(config.target)
        self._device = target.device
        self._place = find_place(self._device)
        refused, results_of_calls = traced.find_refused(module, weights, known, make_find_obstacle(target, config))
        weights = {**weights, **hold(module, results_of_calls)}
        self.reasons = tuple(dict.fromkeys(filter(None, refused.values())))
        cut = list(pieces(module, refused))
        results = cast("Sequence[Any]", module.graph.output_node().args[0])  # AOT's and export's are tuples
        self._slots: dict[Node, int] = {}
        placeholders = module.graph.find_nodes(op="placeholder")
        self._inputs = [
            self._slot(n) for n in placeholders if n not in weights and isinstance(n.meta.get("val"), torch.Tensor)
        ]
        kept = {n for n in (*placeholders, *results) if isinstance(n, Node)}
        seen = {n for piece in cut if not piece.native for n in piece.reads}
        seen.update(r for r in results if isinstance(r, Node))
        last = {n: number for number, piece in enumerate(cut) for n in (*piece.writes, *piece.reads)}
        self.parts: list[Part] = []
        self._counts: list[Counts] = []  # of the programs
        for number, piece in enumerate(cut):
            gone = [n for n in dict.fromkeys((*piece.reads, *piece.writes)) if last[n] == number and n not in kept]
            strides = _strides([n for n in piece.writes if piece.native and n in seen], known)
            part = self._part(piece, weights, known, config, gone)
            self.parts.append(part._replace(strides={self._slot(n): s for n, s in strides.items()}))
        self.results = [[self._slot(r)] if isinstance(r, Node) else r for r in results]
        self.held = {s: self._hold(weights[n], own=own) for n, s in self._slots.items() if n in weights}
        self._first: list[Any] = [self.held.get(slot) for slot in range(len(self._slots))]
        self.compile_seconds = time.perf_counter() - started
        warn_of_speed(name, add_counts([self._count_torch(), *self._counts]), config)

    def _slot(self, node: Node) -> int:
        return self._slots.setdefault(node, len(self._slots))

    def _hold(self, tensor: torch.Tensor, *, own: bool) -> torch.Tensor:
        moved = bring(self._device, tensor)
        if moved is not tensor:
            return moved.detach()
        return copy_with_strides(tensor) if own else tensor

    def _part(self, piece: Piece, weights: Weights, known: Numbers, config: Config, gone: Sequence[Node]) -> Part:
        writes, drops = tuple(map(self._slot, piece.writes)), tuple(map(self._slot, gone))
        calls = tuple(str(node.target) for node in piece.calls)
        if not piece.native:
            reads = tuple(map(self._slot, piece.reads))
            if self._place.type != "cpu":
                move_calls(piece.module, self._place)
            return Part(None, name_failures(piece.module), calls, reads, writes, drops, piece.module, {})
        inner = piece.module.graph.find_nodes(op="placeholder")
        constants = {p: weights[n] for p, n in zip(inner, piece.reads, strict=True) if n in weights}
        try:
            translated = traced.translate(piece.module, constants, self.name, {}, known)
            program = compile_flat(translated, config, self._counts)
        except UnsupportedByTarget as error:
            raise UnsupportedByTarget(f"{error}\n{_AFTER_PASSES}") from None
        reads = tuple(self._slot(n) for n in piece.reads if n not in weights)
        return Part(program, _hand_out(program, translated), calls, reads, writes, drops, None, {})

    @torch.no_grad()
    def __call__(self, *tensors: torch.Tensor) -> list[Any]:
        """The results of the graph, numbers among them; torch's tensors may be views of inputs and weights."""
        values = self._begin(tensors)
        for part in self.parts:
            self.step(part, values)
        results = [values[r[0]] if isinstance(r, list) else r for r in self.results]
        place = self._device.place_of_results(tensors) or "cpu"
        return [move(one, place) if isinstance(one, torch.Tensor) else one for one in results]

    def _begin(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """The slots before the first segment."""
        values = self._first.copy()
        for slot, tensor in zip(self._inputs, tensors, strict=True):
            values[slot] = bring(self._device, tensor)
        return values

    def _read(self, part: Part, values: Sequence[Any]) -> list[Any]:
        """What a segment reads. A program without inputs has put its results on the host: torch gets them moved."""
        read = [values[slot] for slot in part.reads]
        if part.program is not None:
            return read
        return [bring(self._device, one) if isinstance(one, torch.Tensor) else one for one in read]

    # --- reading it ----------------------------------------------------------------------------------------------

    @cached_property
    def digest(self) -> str:
        """Of programs, of what torch runs and of the weights that it reads."""
        weights = [compute_checksum(to_bytes(tensor)) for tensor in self.held.values()]
        return _hash([[p.program.digest if p.program else p.code for p in self.parts], weights])

    @cached_property
    def run_digest(self) -> str:
        """Of what decides what runs; of torch's part, the calls and the threads."""
        runs = [p.program.run_digest if p.program else [p.code, torch.get_num_threads()] for p in self.parts]
        return _hash([self.digest, runs])

    def report(
        self, sizes: tuple[str, ...] = (), guards: tuple[str, ...] = (), export_seconds: float | None = None
    ) -> Report:
        """Of all segments together; the arguments are fields of `Report`."""
        return build_report(
            [self._count_torch(), *self._counts],
            name=self.name,
            sizes=sizes,
            guards=guards,
            export_seconds=export_seconds,
            compile_seconds=self.compile_seconds,
            config=self.config,
            digest=self.digest,
            run_digest=self.run_digest,
            segments=tuple(
                ("torch" if p.program is None else "engine", len(p.calls), ", ".join(dict.fromkeys(p.calls)))
                for p in self.parts
            ),
        )

    def _count_torch(self) -> Counts:
        """Of what torch runs."""
        calls = [call for part in self.parts if part.program is None for call in part.calls]
        return Counts(
            nodes=len(calls),
            launches=len(calls),
            fallback_nodes=len(calls),
            weight_bytes=sum(tensor.nbytes for tensor in self.held.values()),
            kernels=tuple(Counter(f"torch {call}" for call in calls).items()),
        )

    @torch.no_grad()
    def profile(self, tensors: Sequence[torch.Tensor], runs: int, call_seconds: float, *, roofs: bool) -> Profile:
        """Of all segments, one after the other, each measured by itself."""
        values = self._begin(tensors)
        profiles = []
        for part in self.parts:
            inputs = self._read(part, values)
            if part.program is None:
                profiles.append(_profile_of_torch(part, inputs, runs, self._device))
            else:
                profiles.append(part.program.profile(*inputs, runs=runs, roofs=roofs))
            self.step(part, values)
        # Each program measures the roofs; where torch runs everything, nothing has measured them yet.
        alone = roofs and all(part.program is None for part in self.parts)
        limits = targets.get(self.config.target).instruments.roofs(self.config) if alone else Roofs()
        busy = sum(node.seconds for profile in profiles for node in profile.nodes)
        nodes = [n for profile in profiles for n in profile.nodes]
        widest = max(len(profile.threads) for profile in profiles)
        threads = [[p.threads[n] for p in profiles if n < len(p.threads)] for n in range(widest)]
        return Profile(
            nodes=tuple(replace(n, time_share=n.seconds / busy if busy else 0.0) for n in nodes),
            threads=tuple(
                ThreadProfile(sum(t.busy_seconds for t in one), sum(t.idle_seconds for t in one)) for one in threads
            ),
            seconds=sum(profile.seconds for profile in profiles),
            call_seconds=call_seconds,
            runs=runs,
            peak_flops=max([limits.flops, *(profile.peak_flops for profile in profiles)]),
            bandwidth=max([limits.bandwidth, *(profile.bandwidth for profile in profiles)]),
            clock=", ".join(dict.fromkeys(profile.clock for profile in profiles)),
        )

    @torch.no_grad()
    def trace(self, tensors: Sequence[torch.Tensor], keep: Keep) -> Trace:
        """Of all segments in order: nodes of programs, and calls of torch."""
        names = [part.list_names() for part in self.parts]
        keep.select([one for own in names for one in own], self.count_nodes())
        values = self._begin(tensors)
        nodes, weights = list[NodeTrace](), list[ValueTrace]()
        for part, own in zip(self.parts, names, strict=True):
            inputs, first = self._read(part, values), len(nodes)
            inside = keep.within(first, own, part.count_nodes())
            if part.module is not None:
                found = trace_calls(part.module, inputs, Keep.read(inside))
            else:
                found = part.program.trace(*inputs, keep=inside) if part.program is not None else Trace(())
            nodes += [renumber(node, first) for node in found.nodes]
            weights += found.weights
            self.step(part, values)
        given = tuple(trace_input(f"input {number}", tensor) for number, tensor in enumerate(tensors))
        return Trace(tuple(nodes), given, tuple(weights))

    def count_nodes(self) -> int:
        return sum(part.count_nodes() for part in self.parts)

    def step(self, part: Part, values: list[Any]) -> None:
        """Run one segment over the slots."""
        for slot, value in zip(part.writes, part.call(*self._read(part, values)), strict=True):
            values[slot] = value
        for slot, strides in part.strides.items():
            values[slot] = ensure_strides(values[slot], strides)
        for slot in part.drops:
            values[slot] = None


def _strides(nodes: Sequence[Node], known: Numbers) -> dict[Node, tuple[int, ...]]:
    """The strides that torch gives each of `nodes` whose rows it does not make dense."""
    symbolic = {n: strides for n in nodes if (strides := strides_of(n.meta["val"])) is not None}
    return {n: evaluate_all(strides, known.__getitem__) for n, strides in symbolic.items()}


def _profile_of_torch(part: Part, inputs: Sequence[Any], runs: int, device: Device) -> Profile:
    """One line for all that torch runs here: it is timed from its start to its end."""
    samples = []
    for _ in range(runs):
        start = time.perf_counter()
        results = part.call(*inputs)
        device.wait()
        samples.append(time.perf_counter() - start)
    seconds = statistics.median(samples)
    shape = next((tuple(r.shape) for r in results if isinstance(r, torch.Tensor)), ())
    names = [f"{name} x{times}" if times > 1 else name for name, times in Counter(part.calls).items()]
    called = [] if part.module is None else list_calls(part.module)
    sources = [shorten(from_trace(call.meta.get("stack_trace"))) for call in called]
    node = NodeProfile(
        op="torch",
        kernel=", ".join(names),
        source=_join_once(sources),
        shape=shape,
        seconds=seconds,
        flops=0,
        executed_flops=0,
        bytes=0,
        time_share=1.0,
        roof_share=None,
        bound="memory",
        module=_join_once(map(module_of, called)),
        launches=len(part.calls),
    )
    return Profile((node,), (ThreadProfile(seconds, 0.0),), seconds, seconds, runs, 0.0, 0.0, "perf_counter")


def _join_once(texts: Iterable[str]) -> str:
    """Each text that is not empty, once."""
    return ", ".join(dict.fromkeys(filter(None, texts)))


_AFTER_PASSES = (
    "fallback: torch runs calls of the model. These nodes are what the passes and the precision have made of "
    "calls that the target can run."
)


def _hash(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
