"""One graph of Dynamo's as programs of the engine: which inputs are weights, when they have changed, which sizes come.

Knows neither how the graph was captured nor how a program is made of its parts.
"""

from __future__ import annotations

import ctypes
import logging
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch.fx import GraphModule, Node

from engine import sizes
from engine.config import Config
from engine.errors import PlainWeightsWarning, ShapeError, UnsupportedByTarget, UnsupportedOp
from engine.exporter.torch_internals import version
from engine.runtime.cache import LatestUsed
from engine.runtime.program import Program
from engine.runtime.report import Report
from engine.runtime.warn import name_some, warn
from engine.torch_backend import optimizer_steps, traced
from engine.torch_backend.layouts import ensure_strides, evaluate_all, strides_of
from engine.torch_backend.placement import move
from engine.torch_backend.segments import Segmented, compile_flat
from engine.torch_backend.views import extract_views, make_views

_LOG = logging.getLogger("engine")
_UNKNOWN = -1  # no tensor has this version
_SMALL = 16384  # bytes; each call compares the contents of a buffer of at most this size, in a microsecond or less


class WatchedWeight(NamedTuple):
    """A weight as it was when it was packed."""

    position: int
    tensor: Callable[[], Any]  # a weak reference: the model decides how long it lives
    version: int
    address: int
    contents: bytes | None  # of a small buffer: some kernels write without a new version, as batch norms in training do


class Watched(NamedTuple):
    """The weights of the present programs; the memory of the small buffers among them, and what it held."""

    weights: list[WatchedWeight]
    memories: list[ctypes.Array[ctypes.c_char]]
    contents: list[bytes]


class SymbolPlace(NamedTuple):
    """Where a call brings a symbol: an axis of a tensor, or (None) a number."""

    position: int
    axis: int | None


class SizedProgram(NamedTuple):
    """A program for some sizes, or for these only if it is `fixed`.

    `program` gives a list for the tensors of a call. `results` has what the graph answers: ``[position]`` in that list,
    a number, a formula of sizes, None; if `plain`, it is that list. `strides` maps the position of a result that the
    program answers row by row to the strides that torch would give it.
    """

    program: Program | Segmented
    results: Sequence[Any]
    plain: bool
    fixed: bool
    strides: Mapping[int, Sequence[Any]]


class CompiledGraph:
    """What AOT autograd calls. Programs are made at the first call, when the weights are there.

    `module` is functional, with ``meta["val"]`` of placeholders; `static` are the positions of those that are weights
    and are not written to. `Config.plans` also bounds how many programs are kept.
    """

    _boxed_call = True  # AOT autograd asks for it: one list of arguments, which the callee empties

    def __init__(self, module: GraphModule, static: Sequence[int], config: Config, name: str) -> None:
        self.name = name
        self._module = module
        self._config = config
        self._views = extract_views(module)
        self._strides = _strides(module, self._views)
        self._devices = _devices(module, self._views)
        self._nodes: list[Node] = module.graph.find_nodes(op="placeholder")
        values = [node.meta.get("val") for node in self._nodes]
        self._static = list(static)
        self._tensors = [p for p, v in enumerate(values) if isinstance(v, torch.Tensor)]
        self._ranges, self._places = _symbols(values)
        self._numbers = [symbol for symbol, place in self._places.items() if place.axis is None]
        self._watched: Watched | None = None
        self._inputs: list[int] = []
        # One thread at a time makes a program: each has packed weights of its own, and none may outlive `clear`.
        self._programs: LatestUsed[tuple[int, ...], SizedProgram] = LatestUsed(config.plans, serial=True)
        self._reasons: tuple[str, ...] = ()
        self._lock = threading.RLock()
        if self._static:
            optimizer_steps.listen(self)

    def __call__(self, args: list[Any]) -> list[Any]:
        """One call, in AOT autograd's boxed convention: `args` is emptied."""
        if self._watched is None or not self._are_unchanged(self._watched, args):
            self._begin(args)
        inputs = [args[position] for position in self._inputs]
        chosen = self._usual(args)
        try:
            results = chosen.program(*inputs)
        except ShapeError:
            if chosen.fixed:
                raise
            # The engine takes more for granted than Dynamo guards: these sizes have a program of their own.
            chosen = self._for(list(self._places), args)
            results = chosen.program(*inputs)
        if not chosen.plain:
            results = self._fill_results(chosen, results, args)
        args.clear()
        return results

    def reports(self) -> list[Report]:
        """Of each program that is kept, the one used last behind the others."""
        return [sized.program.report() for _sizes, sized in self._programs.items()]

    # --- weights ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _are_unchanged(watched: Watched, args: Sequence[Any]) -> bool:
        for position, tensor, known, address, _contents in watched.weights:
            now = args[position]
            if now is not tensor() or now._version != known or now.data_ptr() != address:  # noqa: SLF001  # a call for each weight would be slower
                return False
        # `args` hold the tensors at these addresses, as the loop has seen.
        return [memory.raw for memory in watched.memories] == watched.contents

    def _list_watched(self) -> Sequence[WatchedWeight]:
        return () if self._watched is None else self._watched.weights

    def _begin(self, args: Sequence[Any]) -> None:
        """No program is left; weights are those of this call. A buffer that was written to is a weight no longer."""
        with self._lock:
            for position, _tensor, known, _address, contents in self._list_watched():
                now = args[position]
                if not isinstance(now, torch.nn.Parameter) and (version(now), _read_contents(now)) != (known, contents):
                    self._static.remove(position)
            # An inference tensor does not tell when it is written to, so each call brings it.
            weights = {p: args[p] for p in self._static if not args[p].is_inference()}
            self._warn_of_inputs([p for p in self._static if p not in weights])
            watched = [
                WatchedWeight(p, weakref.ref(t), version(t), t.data_ptr(), _read_contents(t))
                for p, t in weights.items()
            ]
            small = [(w.address, w.contents) for w in watched if w.contents]
            memories = [(ctypes.c_char * len(contents)).from_address(address) for address, contents in small]
            self._watched = Watched(watched, memories, [contents for _address, contents in small])
            self._inputs = [p for p in self._tensors if p not in weights]
            self._programs.clear()

    def _warn_of_inputs(self, positions: Sequence[int]) -> None:
        """Parameters and buffers that are inputs of the programs have no precision but their own."""
        chosen = [name for name in ("precision", "recipe") if getattr(self._config, name) not in (None, "fp32")]
        if positions and chosen:
            warn(
                f"{self.name}: {len(positions)} parameter(s) and buffer(s) stay as they are, whatever {chosen[0]} "
                "says, because they were made under torch.inference_mode(): "
                f"{name_some([self._nodes[p].name for p in positions])}; make the model outside of it",
                PlainWeightsWarning,
            )

    def forget(self, tensors: Collection[int]) -> None:
        """Take the weights with these ids for changed, whatever their versions say."""
        with self._lock:
            if self._watched is not None:
                weights = [
                    w._replace(version=_UNKNOWN) if id(w.tensor()) in tensors else w for w in self._list_watched()
                ]
                self._watched = self._watched._replace(weights=weights)

    # --- sizes -----------------------------------------------------------------------------------------------------

    def _value(self, symbol: Any, args: Sequence[Any]) -> int:
        position, axis = self._places[symbol]
        return int(args[position] if axis is None else args[position].shape[axis])

    def _usual(self, args: Sequence[Any]) -> SizedProgram:
        """The program for any sizes, or for those of this call where the engine cannot let them vary."""
        try:
            return self._for(self._numbers, args)
        except (UnsupportedOp, UnsupportedByTarget):
            if len(self._numbers) == len(self._places):
                raise
            self._numbers = list(self._places)
            return self._for(self._numbers, args)

    def _for(self, symbols: Sequence[Any], args: Sequence[Any]) -> SizedProgram:
        """What runs where `symbols` are the numbers that they are in this call."""
        key = tuple(self._value(symbol, args) for symbol in symbols)
        return self._programs.get(key, lambda values: self._compile(dict(zip(symbols, values, strict=True)), args))

    def _compile(self, known: Mapping[Any, int], args: Sequence[Any]) -> SizedProgram:
        weights = {self._nodes[w.position]: args[w.position] for w in self._list_watched()}
        try:
            translated = traced.translate(self._module, weights, self.name, self._ranges, known)
            outputs = [[n] for n in range(len(translated.graph.outputs))]
            program = compile_flat(translated, self._config)
        except (UnsupportedOp, UnsupportedByTarget):
            if self._config.fallback is None or len(known) < len(self._places):
                raise
            return self._compile_segments(weights, known)
        plain = not (self._views or self._strides or self._devices) and translated.results == outputs
        return SizedProgram(program, translated.results, plain, program.graph.is_fixed, self._strides)

    def _compile_segments(self, weights: traced.Weights, known: traced.Numbers) -> SizedProgram:
        """Segments, some of which torch runs. A warning lists the calls that torch runs, once a graph."""
        program = Segmented(self._module, weights, known, self._config, self.name, own=False)
        if program.reasons != self._reasons:
            self._reasons = program.reasons
            _LOG.warning("%s: %s run(s) on torch: %s", self.name, len(program.reasons), "; ".join(program.reasons))
        results = [[n] for n in range(len(program.results))]
        return SizedProgram(program, results, not (self._views or self._devices), fixed=True, strides={})

    def _fill_results(self, chosen: SizedProgram, tensors: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """The results with tensors and sizes in their places."""
        values = {str(symbol): self._value(symbol, args) for symbol in self._places}
        results = [tensors[r[0]] if isinstance(r, list) else sizes.at(r, values) for r in chosen.results]

        def value(symbol: Any) -> int:
            return self._value(symbol, args)

        for position, device in self._devices.items():
            results[position] = move(results[position], device)
        for position, strides in chosen.strides.items():
            results[position] = ensure_strides(results[position], evaluate_all(strides, value))
        return make_views(results, self._views, args, value)


def _read_contents(tensor: torch.Tensor) -> bytes | None:
    """The memory of a small buffer on the cpu; None for every other tensor."""
    if isinstance(tensor, torch.nn.Parameter) or tensor.nbytes > _SMALL:
        return None
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes) if tensor.is_cpu and tensor.is_contiguous() else None


def _strides(module: GraphModule, others: Collection[int]) -> dict[int, Sequence[Any]]:
    """Position of a result that does not lie row by row -> its strides, without those at the positions of `others`."""
    tensors = {n: fake for n, fake in _fakes_of_results(module, others).items() if fake.layout is torch.strided}
    return {n: strides for n, fake in tensors.items() if (strides := strides_of(fake)) is not None}


def _devices(module: GraphModule, others: Collection[int]) -> dict[int, torch.device]:
    """Position of a result -> where torch would make it, without `others`; empty if all tensors are on the cpu."""
    devices = {n: fake.device for n, fake in _fakes_of_results(module, others).items()}
    inputs = (node.meta.get("val") for node in module.graph.find_nodes(op="placeholder"))
    everywhere = {*devices.values(), *(fake.device for fake in inputs if isinstance(fake, torch.Tensor))}
    return {} if all(device.type == "cpu" for device in everywhere) else devices


def _fakes_of_results(module: GraphModule, others: Collection[int]) -> dict[int, torch.Tensor]:
    """Position of a result that is a tensor -> what stands for it, without those at the positions of `others`."""
    results = cast("Sequence[Any]", module.graph.output_node().args[0])  # AOT autograd's is a tuple
    fakes = {n: r.meta.get("val") for n, r in enumerate(results) if isinstance(r, Node) and n not in others}
    return {n: fake for n, fake in fakes.items() if isinstance(fake, torch.Tensor)}


def _symbols(values: Sequence[Any]) -> tuple[Mapping[Any, Any], dict[Any, SymbolPlace]]:
    """The range of each symbol in what placeholders stand for, and where a call brings it: a tensor's axis if any."""
    ranges: Mapping[Any, Any] = {}
    places: dict[Any, SymbolPlace] = {}
    for position, value in enumerate(values):
        listed = list(enumerate(value.shape)) if isinstance(value, torch.Tensor) else [(None, value)]
        for axis, size in listed:
            if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
                ranges = size.node.shape_env.var_to_range
                known = places.get(size.node.expr)
                if known is None or known.axis is None:
                    places[size.node.expr] = SymbolPlace(position, axis)
    return ranges, places
