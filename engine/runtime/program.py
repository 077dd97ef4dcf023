"""The program a user holds: an artifact, and what it became for the sizes that it was called with."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from engine import targets
from engine.config import Config
from engine.errors import ProgramError, ShapeError
from engine.ops import TensorType
from engine.program import Artifact
from engine.runtime.boundary import Boundary, Rebuild
from engine.runtime.report import Profile, Report, Trace
from engine.runtime.specialised import Specialised, counts
from engine.runtime.state import State
from engine.targets.base import UNUSUAL, Prepared, Target
from engine.targets.lowering import lower


class Program:
    """A compiled model. Immutable; may be called from any number of threads at once.

    Made by `engine.compile` and `engine.load`. Calling it takes what the model takes (torch tensors or NumPy arrays)
    and returns what the model returns, in memory that nobody else has. Where sizes may differ from call to call, a
    memory plan is made for each combination of them at its first call, and the latest `Config.plans` are kept. Buffers
    that the model writes to are in a `State`, which every call is given and changes; profile and trace work on a copy
    of it.

    Raises (when called):
        ShapeError: the arguments differ from what it was compiled for, or the state is missing.
        ExecutionError: an index out of range, an integer division by zero.
    """

    def __init__(
        self,
        artifact: Artifact,
        config: Config,
        *,
        rebuild: Rebuild | None = None,
        borrowed: bool = False,
        lowered: Artifact | None = None,
        prepared: Prepared | None = None,
        export_seconds: float | None = None,
        started: float | None = None,
    ) -> None:
        started = time.perf_counter() if started is None else started
        self.artifact = artifact
        self.config = config
        self.lowered = lower({"": artifact}, config, borrowed=borrowed)[""] if lowered is None else lowered
        self._rebuild = rebuild
        self._boundary = Boundary(self.lowered, rebuild)
        self._export_seconds = export_seconds
        self._target = targets.get(config.target)
        _check_supported(self.lowered, self._target)
        self._prepared = self._target.prepare(self.lowered, borrowed=borrowed) if prepared is None else prepared
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, ...], Specialised] = OrderedDict()
        self._example = self._at(tuple(self.lowered.scope.example.values()))
        self._compile_seconds = time.perf_counter() - started

    # --- for known sizes -----------------------------------------------------------------------------------------

    def _at(self, sizes: tuple[int, ...]) -> Specialised:
        """What runs for these sizes, in the order of the artifact's symbols."""
        found = self._kept.get(sizes) or self._specialise(sizes)
        with self._lock:
            found = self._kept.setdefault(sizes, found)  # another thread may have been faster
            self._kept.move_to_end(sizes)
            if len(self._kept) > self.config.plans:
                self._kept.popitem(last=False)
        return found

    def _specialise(self, sizes: tuple[int, ...]) -> Specialised:
        artifact = self.lowered
        if not artifact.is_fixed:
            artifact = artifact.at(dict(zip(artifact.scope.symbols, sizes, strict=True)))
        return Specialised(artifact, self.config, self._target, self._prepared, self._rebuild)

    def _for(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Specialised:
        """What runs for the sizes of these arguments. Raises ShapeError where there can be nothing."""
        return self._example if self.artifact.is_fixed else self._at(self._boundary.sizes(args, kwargs))

    @cached_property
    def _short_way(self) -> Callable[[tuple[Any, ...]], Any]:
        return self._example.short_way if self.artifact.is_fixed else lambda _args: UNUSUAL

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One call: what the model takes, and what it returns."""
        if not kwargs:
            result = self._short_way(args)
            if result is not UNUSUAL:
                return result
        if not self.artifact.states:
            return self._for(args, kwargs)(args, kwargs)
        state, values, kwargs = self._state_of(kwargs)
        chosen = self._for(args, kwargs)
        with state.lock:
            return chosen(args, kwargs, values, state)

    # --- what outlives a call ------------------------------------------------------------------------------------

    def new_state(self) -> State:
        """What the model's buffers hold at first, in memory of its own, for ``program(..., state=...)``."""
        return State(self.artifact, self._target.device)

    def _state_of(self, kwargs: Mapping[str, Any]) -> tuple[State, list[Any], dict[str, Any]]:
        """The argument `state`, its buffers in the artifact's order, the other arguments.

        Raises:
            ShapeError: it is missing or another program's.
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
        """What outlives a call, in the artifact's order."""
        slots = zip(self.artifact.states, self.artifact.state_inputs, strict=True)
        return {slot.name: self.artifact.types[value] for slot, value in slots}

    def _foreign(self, state: State) -> ShapeError:
        return ShapeError(f"state: expected one of this program, with {self._buffers}, got one with {state.types}")

    def _copied(self, kwargs: Mapping[str, Any]) -> tuple[list[Any], Mapping[str, Any]]:
        """What the argument `state` holds, copied, and the other arguments."""
        if not self.artifact.states:
            return [], kwargs
        state, _values, others = self._state_of(kwargs)
        return state.copies_of(self._buffers), others

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

    @property
    def run_digest(self) -> str:
        """Hash of everything that decides what runs: structure, kernels, memory, threads, dispatch, target.

        Where sizes differ from call to call: for those of the example.
        """
        return self._example.run_digest

    def save(self, path: str | Path) -> None:
        """Write the artifact to `path` (suffix ``.engine`` by custom): one safetensors file.

        Raises:
            ProgramError: the file cannot be written.
        """
        self.artifact.save(path)

    # --- reading it ----------------------------------------------------------------------------------------------

    def report(self, **sizes: int) -> Report:
        """Passes, kernels, memory, arithmetic, times. Costs no run.

        Args:
            **sizes: the sizes to report for, where they differ from call to call; by default those of the example.

        Raises:
            ConfigError: a size that the program does not have, or that is no whole number.
            ShapeError: a size out of its range.
        """
        wanted = self.lowered.scope.chosen(sizes)
        chosen = self._at(tuple(wanted.values())) if sizes else self._example
        artifact, summary = chosen.artifact, chosen.executable.summary()
        counted = [counts(artifact, i) for i in artifact.instructions]
        return Report(
            name=artifact.name,
            sizes=tuple(f"{n}={wanted[n]} of {s.low}..{s.high}" for n, s in self.lowered.scope.symbols.items()),
            guards=tuple(map(str, self.lowered.scope.guards)),
            nodes=len(artifact.instructions),
            launches=summary.launches,
            fallback_nodes=0,
            copies=summary.copies,
            in_place=summary.in_place,
            arena_bytes=summary.arena_bytes,
            arena_lower_bound_bytes=summary.lower_bound,
            weight_bytes=artifact.weight_bytes,
            packed_bytes=self._prepared.packed_bytes,
            flops=sum(f for f, _ in counted),
            executed_flops=sum(summary.operations.get(number, flops) for number, (flops, _) in enumerate(counted)),
            bytes=sum(b for _, b in counted),
            export_seconds=self._export_seconds,
            compile_seconds=self._compile_seconds,
            packing_seconds=self._prepared.packing_seconds,
            passes=artifact.passes,
            kernels=tuple(Counter(summary.kernels).most_common()),
            switches=self.config.to_dict(),
            digest=self.artifact.structure_digest,
            run_digest=chosen.run_digest,
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
        states, others = self._copied(kwargs)
        return self._for(args, others).profile(args, others, states, runs, roofs=roofs)

    def trace(self, *args: Any, keep: Iterable[int] | None = None, **kwargs: Any) -> Trace:
        """Run once, instruction by instruction, and record statistics of every input and output.

        Args:
            *args: as for a call.
            **kwargs: as for a call.
            keep: positions of instructions whose arrays are kept; None keeps none.
        """
        states, others = self._copied(kwargs)
        return self._for(args, others).trace(args, others, states, keep)


def _check_supported(artifact: Artifact, target: Target) -> None:
    """ProgramError that lists every instruction that `target` cannot run."""
    asked = ((i, target.supports(i, artifact)) for i in artifact.instructions)
    if reasons := [f"{i.op}{i.where}: {reason}" for i, reason in asked if reason is not None]:
        raise ProgramError(f"target {target.name} cannot run this program:\n" + "\n".join(f"  {r}" for r in reasons))
