"""Runs a bound plan by the C library: builds its tables, lends arenas to calls.

The only file that talks to `engine._native`. Knows no graph and no passes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from engine import dtypes
from engine._native import ffi, lib
from engine.errors import ExecutionError, InternalError
from engine.memory import aligned_empty
from engine.switches import Switch, register

if TYPE_CHECKING:
    from engine.program import Artifact
    from engine.targets.bind import BoundPlan, Place, Step
    from engine.targets.cpu.weights import BufferKey, Weights

OK: int = lib.EB_OK
NEEDS_DENSE: int = lib.EB_NEEDS_DENSE
_CODES = {d.name: getattr(lib, f"EB_{d.code}") for d in dtypes.DTYPES}
_NODE_BYTES, _TENSOR_BYTES = ffi.sizeof("eb_node"), ffi.sizeof("eb_tensor")
# Bits of eb_isa_mask, from the least to the most capable.
_ISA_BITS = {"generic": 1, "avx2": 2, "avx512": 4, "neon": 8}
# What a call borrows: the C call, base pointers, the same as integers, where a failing step's number goes, the arena.
Context = tuple[Callable[[], int], Any, Any, Any, np.ndarray]
# The memory of a contiguous array, as C takes it. ValueError where the buffer protocol has no letter for the elements.
address_of: Callable[[np.ndarray], Any] = ffi.from_buffer
_FAILURES = {
    lib.EB_INDEX_OUT_OF_RANGE: "an index is out of range",
    lib.EB_DIVISION_BY_ZERO: "an integer is divided by zero",
}


class RunTimes(NamedTuple):
    """Times of one run in ticks of `tick_seconds`.

    Attributes:
        busy: [threads, steps] int64: what each thread spent in each step's tiles. With one thread the readings of the
            clock that divide the steps are shared, so the steps sum to the run.
        wall: from the first to the last thing that the native run does.
    """

    busy: np.ndarray
    wall: int


class Kernel(NamedTuple):
    """One row of the C registry."""

    row: int
    name: str
    dtype: str
    op: str
    isa: str
    variant: str
    transforms: bool  # its packed weights are computed from the plain ones, not moved


@cache
def kernels() -> tuple[Kernel, ...]:
    """The registry, best first."""
    rows = []
    for index in range(lib.eb_kernel_count()):
        info = lib.eb_kernel_describe(index)
        name, dtype, op, isa, variant = (
            ffi.string(getattr(info, f)).decode() for f in ("name", "dtype", "op", "isa", "variant")
        )
        rows.append(Kernel(index, name, dtype, op, isa, variant, bool(info.transforms)))
    return tuple(rows)


def _register_switches() -> None:
    """Register executor, instruction sets and kernel variants; reference kernels are turned only by name."""
    register(Switch("executor", "native", "on", "the C library"))
    for isa in _ISA_BITS:
        register(Switch("isa", isa, "", f"no instructions beyond {isa}", available=isa in isas()))
    for op, variant in sorted({(k.op, k.variant): None for k in kernels()}, key=lambda pair: pair[0]):
        summary = f"run {op} by the {variant} kernel where it applies"
        register(Switch("kernel", f"{op}={variant}", "", summary, usual=variant != "reference"))


def isas() -> tuple[str, ...]:
    """Instruction sets of this machine, least capable first."""
    mask = lib.eb_isa_mask()
    return tuple(name for name, bit in _ISA_BITS.items() if mask & bit)


@cache
def kernels_for(isa: str | None) -> Mapping[str, tuple[Kernel, ...]]:
    """Op -> rows that this machine can run; with `isa`, none beyond it. ConfigError where the machine has it not."""
    from engine.errors import ConfigError

    allowed = isas()
    if isa is not None:
        if isa not in allowed:
            raise ConfigError(f"isa {isa!r}: this machine has {', '.join(allowed)}")
        allowed = tuple(i for i in allowed if _ISA_BITS[i] <= _ISA_BITS[isa])
    found: dict[str, tuple[Kernel, ...]] = {}
    for kernel in kernels():
        if kernel.isa in allowed:
            found[kernel.op] = (*found.get(kernel.op, ()), kernel)
    return found


def clock() -> str:
    """What a run's ticks are counted by: ``rdtsc``, ``cntvct`` or ``clock_gettime``."""
    name: str = ffi.string(lib.eb_clock()).decode()
    return name


def tick_seconds() -> float:
    """Seconds of one tick."""
    return float(lib.eb_tick_seconds())


@cache
def offer_openblas() -> bool:
    """Hand OpenBLAS's sgemm to C. False where the package that carries it is not installed."""
    try:
        import scipy_openblas32
    except ImportError:
        return False
    library = scipy_openblas32.dll
    # OpenBLAS is called from the engine's own threads. The setting holds for the library of the package
    # scipy_openblas32; NumPy and SciPy carry libraries of their own, which keep theirs.
    library.scipy_openblas_set_num_threads(1)
    lib.eb_set_sgemm(ffi.cast("void *", ctypes.cast(library.scipy_cblas_sgemm, ctypes.c_void_p).value))
    return True


class Planned(NamedTuple):
    """A node that its kernel has planned, as C has it. Where its operands lie is not decided yet."""

    node: Any
    operands: Any
    kept: tuple[Any, ...]  # memory that the node refers to


def plan_step(step: Step) -> int:
    """Ask the step's kernel about it. On OK fill `planned`, `tiles`, the bytes that it wants and `packed`.

    Returns:
        The status.
    """
    planned = _node(step)
    node, operands, _kept = planned
    packed: dict[int, int] = {}
    for position, place in enumerate(step.operands[: step.n_inputs]):
        if place is not None and place.storage.kind == "constant" and place.layout.is_dense:
            nbytes = lib.eb_packed_bytes(node, position)
            if nbytes:
                packed[position] = nbytes
                operands[position].is_packed = 1
    status: int = lib.eb_plan_node(node)
    if status == OK:
        step.planned, step.packed, step.operations = planned, packed, node.operations
        step.tiles, step.scratch_bytes, step.shared_bytes = node.tiles, node.scratch_bytes, node.shared_bytes
    return status


def _node(step: Step) -> Planned:
    """`step` as an eb_node that is not planned yet."""
    node, operands = ffi.new("eb_node *"), ffi.new("eb_tensor[]", len(step.operands))
    for tensor, place in zip(operands, step.operands, strict=True):
        _describe(tensor, place)
    ints, reals = ffi.new("int64_t[]", step.ints or [0]), ffi.new("double[]", step.reals or [0.0])
    node.kernel, node.wanted = step.kernel.row, step.wanted
    node.n_inputs, node.n_outputs = step.n_inputs, len(step.operands) - step.n_inputs
    node.n_ints, node.n_reals = len(step.ints), len(step.reals)
    node.operands, node.ints, node.reals = operands, ints, reals
    return Planned(node, operands, (ints, reals))


def _describe(tensor: Any, place: Place | None) -> None:
    if place is None:
        tensor.dtype = -1
        return
    layout = place.layout
    tensor.dtype = _CODES[place.dtype]
    tensor.rank = len(layout.shape)
    tensor.shape, tensor.stride = layout.shape, layout.strides
    tensor.offset = layout.offset * dtypes.dtype(place.dtype).size


def pack(step: Step, position: int, source: int, target: np.ndarray) -> None:
    """Have the step's kernel pack constant operand `position`.

    Args:
        step: a step that its kernel has planned.
        position: an operand in `step.packed`.
        source: address of the operand's dense elements.
        target: uint8, as many bytes as `step.packed` says; written.
    """
    node, _operands, _kept = _node(step)
    lib.eb_pack(node, position, ffi.cast("void *", source), ffi.from_buffer(target))


class NativeExecutor:
    """A bound plan as C tables. Any number of threads may call `run` at once: each call borrows an arena."""

    def __init__(self, artifact: Artifact, plan: BoundPlan, weights: Weights, threads: int) -> None:
        self.plan = plan
        self.artifact = artifact
        self.threads = threads
        self.count = len(plan.steps)
        self._weights = weights  # their memory is what the tables refer to
        self._n_inputs, self._n_outputs = len(artifact.inputs), len(artifact.call_outputs)
        self._addresses = [0] * (1 + self._n_inputs + self._n_outputs)
        types = [artifact.types[value] for value in (*artifact.inputs, *artifact.call_outputs)]
        self._sizes = [plan.arena_bytes, *(t.nbytes for t in types)]  # bytes of each buffer
        self._buffers: dict[BufferKey, int] = {}
        self._nodes = ffi.new("eb_node[]", max(self.count, 1))
        self._operands = ffi.new("eb_tensor[]", sum(len(step.operands) for step in plan.steps))
        first = 0
        for number, step in enumerate(plan.steps):
            self._fill(self._nodes + number, self._operands + first, step)
            first += len(step.operands)
        self._place()
        self.free: list[Context] = []  # contexts that no call has borrowed

    def _fill(self, node: Any, operands: Any, step: Step) -> None:
        """Make `node` and `operands` what the kernel planned, and say where the operands lie."""
        ffi.memmove(node, step.planned.node, _NODE_BYTES)
        ffi.memmove(operands, step.planned.operands, len(step.operands) * _TENSOR_BYTES)
        node.operands = operands
        node.scratch_buffer, node.scratch_offset, node.overlap = 0, step.scratch_offset, step.overlap
        for position, place in enumerate(step.operands):
            if place is None:
                continue
            tensor = operands[position]
            kind, index = place.storage
            if kind == "arena":
                tensor.buffer = -1 - index  # until eb_place_operands
            elif kind == "input":
                tensor.buffer = 1 + index
            elif kind == "state":  # behind the inputs of the call
                tensor.buffer = 1 + len(self.artifact.call_inputs) + index
            elif kind == "output":
                tensor.buffer = 1 + self._n_inputs + index
            else:
                if position in step.packed:  # that part of the constant alone
                    tensor.offset = 0
                key, address, nbytes = self._weights.address(step, position)
                tensor.buffer = self._buffers.setdefault(key, len(self._addresses))
                if tensor.buffer == len(self._addresses):
                    self._addresses.append(address)
                    self._sizes.append(nbytes)

    def _place(self) -> None:
        """Let C decide where operands in the arena lie, and check that every step stays inside its memory.

        C makes the check on the tables that it runs: in Python it would cost a tenth of binding.

        Raises:
            InternalError: a step reaches outside of its memory, so the plan is wrong.
        """
        sizes, offsets, parts = (
            ffi.new("int64_t[]", numbers) for numbers in (self._sizes, self.plan.arena_offsets, self.plan.arena_sizes)
        )
        first_constant = 1 + self._n_inputs + self._n_outputs
        counts = (len(self._sizes), len(self.artifact.call_inputs), first_constant, len(parts))
        memory = ffi.new("eb_memory *", [*counts, sizes, offsets, parts])
        wrong = ffi.new("const char **")
        number = lib.eb_place_operands(self._nodes, self.count, self.threads, memory, wrong)
        if number >= 0:
            raise InternalError(f"{self._name(number)}: {ffi.string(wrong[0]).decode()}")

    def _name(self, number: int) -> str:
        """Step `number` for people: its op, and its line in the user's model."""
        if number >= self.count:
            return "the plan"
        step = self.plan.steps[number]
        where = "" if step.instruction is None else self.artifact.instructions[step.instruction].where
        return f"{step.op}{where}"

    # --- running -----------------------------------------------------------------------------------------------------

    def _borrow(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Context:
        """What one call at a time may use, with the addresses of its inputs and outputs filled in."""
        try:
            context = self.free.pop()
        except IndexError:
            context = self.context()
        _call, pointers, words, _failed, _arena = context
        for position, value in enumerate((*inputs, *outputs), 1):
            if not isinstance(value, np.ndarray):
                words[position] = value.data_ptr()
            else:
                try:
                    pointers[position] = address_of(value)
                except ValueError:  # bfloat16
                    pointers[position] = address_of(value.view(np.int16))
        return context

    def context(self) -> Context:
        """Creates a context; called when all existing ones are in use."""
        arena = aligned_empty(self.plan.arena_bytes)
        words = ffi.new("uintptr_t[]", self._addresses)
        words[0] = arena.ctypes.data
        pointers, failed = ffi.cast("void **", words), ffi.new("int32_t *")
        call = partial(lib.eb_run, self._nodes, 0, self.count, pointers, self.threads, ffi.NULL, failed)
        return call, pointers, words, failed, arena

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One run. `inputs` (states behind them) and `outputs` are dense arrays or CPU tensors of the artifact's types.

        Raises:
            ExecutionError: a kernel failed; names op and source.
        """
        context = self._borrow(inputs, outputs)
        status = context[0]()
        self.free.append(context)
        if status:
            raise self.failure(status, context[3][0])

    def _counters(self) -> tuple[np.ndarray, Any]:
        """Zeros for ticks [threads, steps], and the eb_profile that has a run count into them."""
        busy = np.zeros((self.threads, self.count), np.int64)
        return busy, ffi.new("eb_profile *", [self.count, 0, ffi.from_buffer("int64_t[]", busy)])

    def run_timed(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> RunTimes:
        """One run, measured inside of C. Raises as `run`."""
        context = self._borrow(inputs, outputs)
        _call, pointers, _words, failed, _arena = context
        busy, profile = self._counters()
        status = lib.eb_run(self._nodes, 0, self.count, pointers, self.threads, profile, failed)
        self.free.append(context)
        if status != OK:
            raise self.failure(status, failed[0])
        return RunTimes(busy, profile.wall)

    def plain_and_counted(
        self, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> tuple[Callable[[], int], Callable[[], int], object]:
        """The C call of `run` and that of `run_timed`, to compare what they cost; each answers a status.

        The caller keeps `inputs`, `outputs`, this executor and the third answer alive for as long as it calls.
        """
        context = self._borrow(inputs, outputs)
        busy, profile = self._counters()
        counted = partial(lib.eb_run, self._nodes, 0, self.count, context[1], self.threads, profile, context[3])
        return context[0], counted, (context, busy)

    def run_steps(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """One C call a step."""
        with self.reading(inputs, outputs, {}):
            pass

    @contextmanager
    def reading(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        roots: Mapping[tuple[str, int], np.ndarray],
        observe: Callable[[int], None] | None = None,
    ) -> Iterator[Callable[[Place], np.ndarray]]:
        """Run one C call a step, then lend a reader of what lies in memory.

        Args:
            inputs: as for `run`.
            outputs: as for `run`.
            roots: arrays of the storages that are not the arena, such as ``("input", 0)``.
            observe: called with the number of each step after it ran.

        Yields:
            A function from a place to a strided view of it, valid inside of the block.
        """
        context = self._borrow(inputs, outputs)
        _call, pointers, _words, failed, arena = context

        def read(place: Place) -> np.ndarray:
            kind, layout = dtypes.dtype(place.dtype), place.layout
            root, start = roots.get((place.storage.kind, place.storage.number), arena), layout.offset * kind.size
            if place.storage.kind == "arena":
                start += self.plan.arena_offsets[place.storage.number]
            strides = [s * kind.size for s in layout.strides]
            return np.lib.stride_tricks.as_strided(
                root.reshape(-1).view(np.uint8)[start:][: kind.size * layout.span].view(kind.numpy),
                layout.shape,
                strides,
                writeable=False,
            )

        try:
            for number in range(self.count):
                status = lib.eb_run(self._nodes, number, number + 1, pointers, self.threads, ffi.NULL, failed)
                if status != OK:
                    raise self.failure(status, failed[0])
                if observe is not None:
                    observe(number)
            yield read
        finally:
            self.free.append(context)

    def failure(self, status: int, number: int) -> ExecutionError:
        """What step `number` answered, for the user."""
        what = _FAILURES.get(status, f"kernel {self.plan.steps[number].kernel.name} answered {status}")
        return ExecutionError(f"{self._name(number)}: {what}")


def peak_flops(isa: str, seconds: float = 0.02) -> float:
    """Measured FLOP/s of float32 fused multiply-adds on one core."""
    return float(lib.eb_measure_fma(isa.encode(), seconds))


def read_bandwidth(nbytes: int = 128 << 20, seconds: float = 0.05) -> float:
    """Measured bytes/s of reading `nbytes` again and again on one core."""
    data = np.zeros(nbytes, np.uint8)
    data[:] = 1
    return float(lib.eb_measure_read(ffi.cast("void *", data.ctypes.data), nbytes, seconds))


class Roof(NamedTuple):
    """Measured peak of several threads.

    Attributes:
        rate: operations or bytes a second, all threads together.
        clock: frequency of a processor during the measurement, Hz.
        per_instruction: operations or bytes of one vector instruction.
        isa: its instruction set.
    """

    rate: float
    clock: float
    per_instruction: float
    isa: str


def measure_roof(what: str, threads: int, nbytes: int = 0, seconds: float = 0.05) -> Roof | None:
    """The roof `what` of `threads` threads at once; None where this machine has none.

    Args:
        what: ``fp32``, ``bf16``, ``int8``: operations of that type, two a multiply-add; ``read``: bytes read;
            ``copy``: bytes read and written.
        threads: each runs on a processor of its own where there are enough.
        nbytes: for ``read`` and ``copy``: what each thread reads, or copies half of to the other half, again and again;
            4096 at least.
        seconds: spent on it, beside making the threads and their memory.
    """
    found = lib.eb_measure_roof(what.encode(), nbytes, threads, seconds)
    if not found.rate:
        return None
    return Roof(found.rate, found.clock, found.per_instruction, ffi.string(found.isa).decode())


_register_switches()
