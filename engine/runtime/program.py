"""The program a user holds: a graph, and what it became for the sizes that it was called with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from engine import targets
from engine.config import Config
from engine.errors import ExecutionError, ShapeError, UnsupportedByTarget
from engine.graph import Graph, Rewrite, own_borrowed, specialise
from engine.memory import NO_MEMORY_MODE, are_tensors_fake
from engine.ops import TensorType
from engine.program import digest, save, structure_digest
from engine.runtime.model import CompiledModel
from engine.runtime.report import Counts, Profile, Report, build_report
from engine.runtime.requests import check_profile, tuning_options
from engine.runtime.specialised import Specialised
from engine.runtime.state import State
from engine.runtime.trace import Keep, Trace
from engine.runtime.warn import warn_of_speed
from engine.targets.base import UNUSUAL, Prepared, Target
from engine.targets.lowering import lower
from engine.targets.tuned import Tuning


class Program(CompiledModel[Specialised]):
    """A compiled model that the engine runs as a whole. Immutable; may be called from any number of threads at once.

    Made by `engine.compile` and `engine.load`. Calling it takes what the model takes (torch tensors or NumPy arrays)
    and returns what the model returns, in memory that no other call uses. Where sizes may differ from call to call, a
    plan is bound for each combination of them at its first call, and the latest `Config.plans` are kept. Buffers that
    the model writes to are in a `State`, which every call is given and changes; profile and trace work on a copy of it.

    Raises (when called):
        ShapeError: the arguments differ from what it was compiled for, or the state is missing.
        ExecutionError: an index out of range, an integer division by zero.

    Attributes:
        graph: what was compiled, before the passes of the target; a file holds it.
        lowered: the graph after the passes of the target, which runs.
    """

    _HOW_TO_KEEP = "use save and engine.load"

    def __init__(
        self,
        graph: Graph,
        config: Config,
        *,
        counts: list[Counts] | None = None,
        lowered: Graph | None = None,
        prepared: Prepared | None = None,
        export_seconds: float | None = None,
        started: float | None = None,
        find_changed: Callable[[], tuple[str, ...]] | None = None,
    ) -> None:
        started = time.perf_counter() if started is None else started
        self.graph = graph
        if lowered is None:
            lacks = targets.get(config.target).instruments.lacks("bfloat16", config)
            lowered = lower({"": graph}, config, widen=lacks)[""]
        self.lowered = lowered
        # Two threads may make the same plan: it is cheap beside the weights, which all plans share.
        super().__init__(self.lowered, config, serial=False, find_changed=find_changed)
        self._export_seconds = export_seconds
        self._target = targets.require(config.target)
        _check_supported(self.lowered, self._target)
        self._prepared = self._target.new_prepared() if prepared is None else prepared
        self._example = self._at_example()
        if prepared is None:  # otherwise its maker does so, when all who share the constants have read them
            own_borrowed([self.graph, self.lowered])
        self._compile_seconds = time.perf_counter() - started
        if counts is not None:  # of all parts of a model, which warns of its speed as a whole
            counts.append(self._example.count())
        elif self._example.has_slow_launches or self._example.has_emulated_launches:
            warn_of_speed(self.lowered.name, self._example.count(), config)

    def _make(self, sizes: tuple[int, ...]) -> Specialised:
        named = dict(zip(self.lowered.scope.symbols, sizes, strict=True))
        graph = self.lowered if self.lowered.is_fixed else specialise(self.lowered, named)
        return Specialised(graph, self.config, self._target, self._prepared, named)

    def list_arguments(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The tensors or arrays of a call in the order of the graph's inputs; types and shapes are not checked."""
        return self._boundary.list_leaves(args, kwargs)

    def for_arguments(self, arguments: Sequence[Any]) -> Specialised:
        """What runs for arguments of these sizes, in the order of `list_arguments`."""
        return self._example if self.lowered.is_fixed else self._at(self._boundary.sizes_of(arguments))

    # --- calling -------------------------------------------------------------------------------------------------

    @cached_property
    def _fast_path(self) -> Callable[[tuple[Any, ...]], Any]:
        return self._example.fast_path if self.lowered.is_fixed else lambda _args: UNUSUAL

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            result = self._fast_path(args)
            if result is not UNUSUAL:
                return result
        if not self.graph.states:
            return self._for(args, kwargs)(args, kwargs)
        state, values, kwargs = self._state_of(kwargs)
        chosen = self._for(args, kwargs)
        with state.lock:
            return chosen(args, kwargs, values, state)

    # --- what outlives a call ------------------------------------------------------------------------------------

    def new_state(self) -> State:
        return State(self.graph, self._target.device)

    def _state_of(self, kwargs: Mapping[str, Any]) -> tuple[State, list[Any], dict[str, Any]]:
        """The argument `state`, its buffers in the graph's order, the other arguments.

        Raises ShapeError if it is missing, or if its buffers have other names or types than this program's.
        """
        state = kwargs.get("state")
        if not isinstance(state, State):
            names = ", ".join(self._buffers)
            raise ShapeError(f"the model writes to {names}: call it with state=program.new_state(), got {state!r}")
        # Every call pays for this, and a decoder has dozens of buffers: nothing is made but what is compared.
        try:
            values = state.values_of(self._buffers)
        except KeyError:
            raise self._foreign(state) from None
        if state.types != self._buffers:
            raise self._foreign(state)
        return state, values, {name: value for name, value in kwargs.items() if name != "state"}

    @cached_property
    def _buffers(self) -> dict[str, TensorType]:
        """What outlives a call, in the graph's order."""
        states = zip(self.graph.states, self.graph.state_inputs, strict=True)
        return {name: value.type for (name, _initial), value in states}

    def _foreign(self, state: State) -> ShapeError:
        return ShapeError(f"state: expected one with the buffers {self._buffers}, got one with {state.types}")

    def _copy_state(self, kwargs: Mapping[str, Any]) -> tuple[list[Any], Mapping[str, Any]]:
        """Copies of what the argument `state` holds, and the other arguments."""
        if not self.graph.states:
            return [], kwargs
        state, _values, others = self._state_of(kwargs)
        return state.copies_of(self._buffers), others

    def __repr__(self) -> str:
        types = zip(self._boundary.names, self._boundary.input_types, strict=True)
        return f"<Program {self.graph.name}({', '.join(f'{n}: {t}' for n, t in types)})>"

    # --- identity ------------------------------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        """Hash of the compiled graph: nodes and weights; the same on every machine."""
        return digest(self.graph)

    @property
    def run_digest(self) -> str:
        """As `CompiledModel.run_digest`: structure, kernels, memory, threads, dispatch, target."""
        return self._example.run_digest

    def save(self, path: str | Path) -> None:
        """As `CompiledModel.save`: the compiled graph."""
        self._warn_of_changed_weights()
        save(path, self.graph)

    # --- reading it ----------------------------------------------------------------------------------------------

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """What passes replaced, in order; of a program from a file, those of the target. As text, each is a switch of
        `Config.disable`.
        """
        return tuple(self.lowered.rewrites.made)

    def report(self, **sizes: int) -> Report:
        self._warn_of_changed_weights()
        chosen, listed = self._for_report(sizes)
        return build_report(
            [chosen.count()],
            name=self.lowered.name,
            sizes=listed,
            guards=tuple(map(str, (*self.lowered.scope.guards, *self.lowered.scope.conditions))),
            export_seconds=self._export_seconds,
            compile_seconds=self._compile_seconds,
            config=self.config,
            compiled=self.graph.switches,
            digest=structure_digest(self.graph),
            run_digest=chosen.run_digest,
        )

    def profile(self, *args: Any, runs: int = 30, roofs: bool = True, **kwargs: Any) -> Profile:
        """As `CompiledModel.profile`, measured inside of the native run."""
        self._warn_of_changed_weights()
        check_profile(runs, roofs)
        states, others = self._copy_state(kwargs)
        return self._for(args, others).profile(args, others, states, runs, roofs=roofs)

    def tune(self, *args: Any, rounds: int = 9, folder: str | Path | None = None, **kwargs: Any) -> Tuning:
        options = tuning_options(rounds, folder)
        states, others = self._copy_state(kwargs)
        return self._for(args, others).tune(args, others, states, options)

    def trace(self, *args: Any, keep: Iterable[int | str] | None = None, **kwargs: Any) -> Trace:
        self._warn_of_changed_weights()
        if are_tensors_fake():
            raise ExecutionError(NO_MEMORY_MODE)
        states, others = self._copy_state(kwargs)
        return self._for(args, others).trace(args, others, states, Keep.read(keep))


def _check_supported(graph: Graph, target: Target) -> None:
    """UnsupportedByTarget that lists every node that `target` cannot run."""
    reasons = [
        f"  {node.op.name}{node.source.where}: {reason}"
        for node in graph.nodes
        if (reason := target.supports(node.op.name, node.input_types, node.attributes)) is not None
    ]
    if reasons:
        raise UnsupportedByTarget("\n".join([f"target {target.name} cannot run this program:", *reasons]))
