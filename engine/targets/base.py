"""What the engine asks of a target: the protocols between the shared stages and what runs a program.

A target is reached through the table of `engine.targets`, never by its name. What crosses this seam are graphs,
steps, buffers and values; a value is whatever the device of the target says it is, an array or an opaque handle.
"""

from __future__ import annotations

import operator
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from engine.config import Config
from engine.errors import ConfigError, InternalError
from engine.graph import Graph, Node, Value
from engine.memory import as_array
from engine.ops import TABLE, TensorType
from engine.targets.instruments import Instruments
from engine.targets.plan import BoundPlan, Kernel, NeedsDense, Place, Planned, Step

# --- memory ----------------------------------------------------------------------------------------------------------


class Buffer(ABC):
    """Bytes in one memory of a device, which `space` names; this process can address those in ``"host"``."""

    nbytes: int
    space: str

    @abstractmethod
    def value(self, start: int, type_: TensorType) -> Any:
        """The dense value of `type_` whose first byte is byte `start`, as the device's programs take it."""

    @abstractmethod
    def shares_memory_with(self, value: Any) -> bool:
        """True where a user's dense array or tensor lies in these bytes, at least in part."""


class Device(ABC):
    """Where a target's programs run, and the memory that they read and write; messages use its `name`."""

    name: str

    @abstractmethod
    def allocate(self, nbytes: int) -> Buffer:
        """Uninitialised bytes, aligned to `engine.memory.ALIGNMENT`; ProgramError if the device has no such memory."""

    @abstractmethod
    def read(self, value: Any) -> np.ndarray:
        """The elements of a value of this device: a view of them where the host can address them, else a copy."""

    @abstractmethod
    def write(self, value: Any, elements: np.ndarray | int) -> None:
        """Make `elements`, which are broadcast, those of a value of this device."""

    def copy_in(self, value: Any, given: Any) -> None:
        """Copy a user's dense array or tensor, which the device admits, to a value of this device."""
        self.write(value, as_array(given))

    def copy_out(self, value: Any, requested: Any) -> None:
        """Copy a value of this device to a dense array or tensor for the user."""
        as_array(requested)[...] = self.read(value)

    def wait(self) -> None:
        """Wait until the device has done what this thread has enqueued, such as calls whose results stay there."""
        return

    def admits(self, tensor: Any) -> bool:
        """True for a torch tensor that programs take without being asked to move it to another device."""
        return bool(tensor.is_cpu)

    def bring(self, array: Any) -> Any:
        """A user's array or tensor, moved to where programs of this device need not fetch it at each call."""
        return array

    def make_dense(self, tensor: Any) -> Any:
        """A strided torch tensor that the device admits, row by row."""
        return tensor.contiguous()

    def choose_most_likely(self, logits: Any) -> np.ndarray | None:
        """Where the first of the largest elements of each row is, int64 [rows]; None for a result in host memory."""
        del logits
        return None

    def place_of_results(self, inputs: Sequence[Any]) -> Any:
        """Where torch makes the results of a call with these inputs, if that is not host memory; otherwise None."""
        del inputs
        return None

    def new_result(self, type_: TensorType, place: Any) -> Any:
        """An uninitialised torch tensor at the `place` that `place_of_results` answered. Raises as `allocate`."""
        raise InternalError(f"device {self.name}: it makes no result of {type_} at {place}")

    def new_array(self, type_: TensorType, *, recycle: bool) -> Callable[[], np.ndarray] | None:
        """What makes memory for a result of `type_`, in which no size is a formula; None: NumPy and torch make it
        themselves.

        With `recycle`, it may be memory of earlier results that nobody refers to any longer.
        """
        del type_, recycle
        return None


# --- steps -----------------------------------------------------------------------------------------------------------


class StepPlanner(ABC):
    """Plans the steps of one program."""

    @abstractmethod
    def plan(self, step: Step, *, copied: bool) -> Planned | NeedsDense | None:
        """How `step` will run; None where no kernel can run it.

        With `copied`, inputs that were not dense have been copied already, so that `NEEDS_DENSE` is no answer.
        """

    def check_used(self) -> None:
        """ConfigError where the configuration asks for a kernel that no step of the program can use."""
        return


# --- running ---------------------------------------------------------------------------------------------------------


class RunTimes(NamedTuple):
    """Times of one run by the target's own clock, in ticks of `tick_seconds`.

    `busy`, int64 [lanes, steps], is what each lane spent in each step, and `wall` the time from the first to the last
    thing that the run does.
    """

    busy: np.ndarray
    wall: int
    tick_seconds: float
    clock: str


class Summary(NamedTuple):
    """What a report says of an executable.

    Attributes:
        launches: steps that run, copies included.
        copies: steps that the binder inserted.
        copied_bytes: bytes that the copies read and write.
        in_place: steps that write over an input which dies there.
        arena_bytes: working memory of a call.
        lower_bound: no memory plan for these values can need less.
        kernels: name of the kernel of each launch.
        operations: node -> arithmetic that its kernel carries out, where that is not the op's.
        slow: for each launch of a slow kernel its node, or None for a copy.
    """

    launches: int
    copies: int = 0
    copied_bytes: int = 0
    in_place: int = 0
    arena_bytes: int = 0
    lower_bound: int = 0
    kernels: tuple[str, ...] = ()
    operations: Mapping[Node, int] = {}  # never written to
    slow: tuple[Node | None, ...] = ()


Observer = Callable[[int, Node, Callable[[Value], np.ndarray], float], None]
"""Called after each node with its position, itself, a function that reads its inputs and outputs, and its seconds."""


_LOCK = threading.Lock()
_MOST_IDLE = 8
"""Contexts of an executable that are kept for later calls; each has an arena, and keeps its states alive."""


class Context(ABC):
    """What one call at a time uses, such as working memory. Its states are fixed, so it may keep their addresses."""

    @abstractmethod
    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Enqueue one run; `outputs` are written by the time that `synchronize` returns.

        All values are dense; inputs are the user's own where the device admits them. Those that `BoundExecutable.fixed`
        names are the values that `warm_up` was given. ExecutionError if a kernel failed, with op and source;
        `synchronize` may raise it instead.
        """

    def synchronize(self) -> None:
        """Wait for what `run` enqueued. Raises ExecutionError as `run`, for the step that failed."""
        return

    def warm_up(self, fixed: Mapping[str, Sequence[Any]]) -> None:
        """Do what only the first run would do, such as compiling kernels or capturing them; computes nothing.

        `fixed` has the values of the device that every run will be given, for each kind of storage in
        `BoundExecutable.fixed`; it is empty for other executables.
        """
        del fixed

    def look(self, place: Place) -> np.ndarray:
        """The elements of a value after a run whose plan keeps every value; ConfigError where nobody can see them."""
        raise ConfigError(f"trace: this target does not show what lies in {place.storage}")


class Executable(ABC):
    """A program ready for one target and one set of shapes. Any number of threads may call `run` at once.

    `plan` is None for a target that does not bind (the interpreter).
    """

    plan: BoundPlan | None = None

    @abstractmethod
    def context(self, states: Sequence[Any] = ()) -> Context:
        """What a call needs that changes `states`: values of the device, in the order of `Graph.states`."""

    def ready_context(self, states: Sequence[Any] = ()) -> Context:
        """A new context after its warm-up, whose `run` takes the user's own dense arrays and tensors."""
        context = self.context(states)
        context.warm_up({})
        return context

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any], states: Sequence[Any] = ()) -> None:
        """One run to its end, in an idle context of the same states if there is one. Raises as `Context.run`."""
        context = self._idle_context(states)
        if context is None:
            context = self.ready_context(states)
        try:
            context.run(inputs, outputs)
            context.synchronize()
        finally:
            self._keep_idle(states, context)

    def _keep_idle(self, states: Sequence[Any], context: Context) -> None:
        with _LOCK:
            self._idle.append((states, context))
            del self._idle[:-_MOST_IDLE]

    def _idle_context(self, states: Sequence[Any]) -> Context | None:
        with _LOCK:
            for number, (known, context) in enumerate(self._idle):
                if len(known) == len(states) and all(map(operator.is_, known, states)):
                    del self._idle[number]
                    return context
        return None

    @cached_property
    def _idle(self) -> list[tuple[Sequence[Any], Context]]:
        """Contexts that no call uses, with their states; those that have been idle longest come first."""
        return []

    @abstractmethod
    def trace(self, inputs: Sequence[Any], states: Sequence[Any], observe: Observer) -> None:
        """Show `observe` every node of one run, in order. Raises as `Context.run`.

        `states` are copies, which the run changes.
        """

    @abstractmethod
    def summary(self) -> Summary:
        """For the report."""

    def run_timed(self, inputs: Sequence[Any], outputs: Sequence[Any], states: Sequence[Any] = ()) -> RunTimes:
        """One run, measured by the target's clock. Raises as `Context.run`; ConfigError where it has none."""
        del inputs, outputs, states
        raise ConfigError("profile: this target has no clock of its own; trace() has the time of each node")

    def identity(self) -> Any:
        """JSON-able facts that decide what runs, for the digest."""
        return None

    def fast_path(self, boundary: Any) -> Callable[[tuple[Any, ...]], Any] | None:
        """A faster way from positional arguments to the model's result, or None.

        It answers `UNUSUAL`, before anything has run, to arguments that are not for it. `boundary` is the
        `engine.runtime.boundary.Boundary` of the graph.
        """
        del boundary
        return None  # one answer of two


UNUSUAL: Any = object()
"""What a fast path answers to arguments that are not for it."""


class Prepared:
    """The constants of a program in the forms that a target's kernels read; shared by all of its plans.

    `packing_seconds` is the time spent so far on putting constants into other layouts.
    """

    packing_seconds: float = 0.0

    @property
    def packed_bytes(self) -> int:
        """Bytes of constants that were put into another layout."""
        return 0


class Target(ABC):
    """One way to run programs, which `Config.target` calls `name`; `summary` is one line for people.

    `activations` is what `Config.activations` means if it is None; `instruments` measure its machine.
    """

    name: str
    summary: str
    activations: str = "float32"
    instruments: Instruments = Instruments()
    device: Device

    def unavailable(self) -> str | None:
        """Why this machine cannot run programs of the target, such as a missing device; None where it can."""
        return None

    def supports(
        self,
        op: str,
        inputs: Sequence[TensorType | None],
        attributes: Mapping[str, Any],
        output: TensorType | None = None,
    ) -> str | None:
        """Why the target cannot run an op, in a few words; None if it can.

        Programs ask about each node, after all passes. The types of `inputs` say how constants are encoded; sizes may
        be formulas, and attributes have their defaults. The fallback to torch asks before all passes, with the type of
        the `output`; all sizes are known then, so that a target may look at them more closely.
        """
        del output
        families = {one.encoding.family for one in inputs if one is not None and one.encoding is not None}
        if not families and (TABLE[op].view is not None or not (inputs or TABLE[op].has_kernels)):
            return None  # a node of the latter kind is computed when sizes are known
        compute = attributes.get("compute", "element")
        if self.has_kernel(op, families, compute):
            return None
        what = f"reads {', '.join(sorted(families))} operands" if families else "runs it"
        return f"no kernel {what}" + (f" and computes in {compute}" if compute != "element" else "")

    def has_kernel(self, op: str, families: AbstractSet[str], compute: str) -> bool:
        """True if a kernel runs `op` on constants in these families of encodings, with products in `compute`.

        Unless a target overrides this, it reads no encoded constants and computes products in ``element`` alone.
        """
        del op
        return not families and compute == "element"

    def new_prepared(self) -> Prepared:
        """What the executables of one program share; each of them adds the constants that it reads."""
        return Prepared()

    @abstractmethod
    def executable(self, graph: Graph, config: Config, prepared: Prepared, *, keep: bool = False) -> Executable:
        """`graph`, all of whose sizes are known, ready to run.

        With `keep`, every value has memory of its own, so that all can be read after the run. ProgramError if it cannot
        run here, or takes more memory than there is; ConfigError if `config` asks for what nothing here can use.
        """

    def lanes(self, config: Config) -> int:
        """Number of workers of one call, each with working memory of its own."""
        del config
        return 1

    def kernels(self) -> Sequence[Kernel]:
        """Every kernel that this build has, best first."""
        return ()

    def available(self, switch: str) -> tuple[str, ...]:
        """Values of `switch` that this machine can run, the least capable first; () where the switch has no meaning."""
        del switch
        return ()
