"""Functions of the C library: its kernels, this machine's instruction sets, the clock, packing, measured roofs.

Only this module and `executable.py` use `engine._native`. Knows steps; knows no graph and no passes.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from engine import dtypes
from engine._native import ffi, lib
from engine.errors import ConfigError
from engine.ops.arithmetic import COMPUTE
from engine.switches import Switch, register
from engine.targets.instruments import Roof
from engine.targets.plan import NEEDS_DENSE, Kernel, NeedsDense, PackedLayout, Place, Planned, Step

OK: int = lib.EB_OK
_FLOPS_SECONDS, _READ_SECONDS = 0.02, 0.05  # of each measurement of a roof
_READ_BYTES = 128 << 20
_LEAST_REPEATS, _MOST_REPEATS = 3, 10
_AGREES_WITHIN = 0.1
_ROOF_BUDGET_S = 0.5  # of all repeats of one roof
_CODES = {d.name: getattr(lib, f"EB_{d.code}") for d in dtypes.DTYPES}
address_of: Callable[[np.ndarray], Any] = ffi.from_buffer
"""The memory of a contiguous array, as C takes it. ValueError if the buffer protocol has no format for its dtype."""


@cache
def kernels() -> tuple[Kernel, ...]:
    """The registry, best first."""
    rows = []
    for index in range(lib.eb_kernel_count()):
        info = lib.eb_kernel_describe(index)
        name, types, op, isa, variant = (
            ffi.string(getattr(info, f)).decode() for f in ("name", "types", "op", "isa", "variant")
        )
        rows.append(Kernel(name, op, variant, types, isa, bool(info.transforms), index, info.share))
    return tuple(rows)


@cache
def encodings() -> Mapping[str, int]:
    """Name of every encoding that kernels know -> its number; 0 is ``plain``."""
    rows = (lib.eb_encoding_describe(number) for number in range(lib.eb_encoding_count()))
    return {ffi.string(row.name).decode(): number for number, row in enumerate(rows)}


def accepts(kernel: Kernel, family: str, compute: str) -> bool:
    """True if the types of `kernel` permit operands in the encoding `family` and the arithmetic `compute`."""
    number = encodings().get(family)
    return number is not None and bool(lib.eb_kernel_accepts(kernel.row, number, COMPUTE.choices.index(compute)))


def _register_switches() -> None:
    """Register instruction sets and kernel variants; ablations use reference kernels only if they are named."""
    used = kernel_isas()
    for isa in isa_table():
        summary = f"no instructions beyond {isa}"
        register(Switch("isa", isa, "", summary, usual=isa in used, available=isa in isas()))
    for op, variant in sorted({(k.op, k.variant): None for k in kernels()}, key=lambda pair: pair[0]):
        summary = f"run {op} by the {variant} kernel where it applies"
        register(Switch("kernel", f"{op}={variant}", "", summary, usual=variant != "reference"))


@cache
def isa_table() -> Mapping[str, int]:
    """Name of every instruction set, least capable first -> the features that it requires, a bit each."""
    rows = (lib.eb_isa_describe(index) for index in range(lib.eb_isa_count()))
    return {ffi.string(row.name).decode(): row.requires for row in rows}


def features() -> dict[str, bool]:
    """Name of every processor feature that an instruction set requires -> whether this machine has it."""
    found: dict[str, bool] = {}
    while (name := lib.eb_feature_name(len(found))) != ffi.NULL:
        found[ffi.string(name).decode()] = bool(machine_mask() >> len(found) & 1)
    return found


def machine_mask() -> int:
    """The features of this machine, bit i for name i of `features`."""
    mask: int = lib.eb_machine_features()
    return mask


def is_within(isa: str, allowed: int) -> bool:
    """True if `isa` requires no feature but those of the mask `allowed`."""
    return not isa_table()[isa] & ~allowed


def isas() -> tuple[str, ...]:
    """Instruction sets of this machine, least capable first."""
    return tuple(isa for isa in isa_table() if is_within(isa, machine_mask()))


def isas_within(isa: str | None) -> tuple[str, ...]:
    """Those of `isas` that require nothing beyond `isa`; None: all of them."""
    return isas() if isa is None else tuple(one for one in isas() if is_within(one, isa_table()[isa]))


def kernel_isas(types: str | None = None) -> tuple[str, ...]:
    """Those of `isas` that the registry has a kernel of; with `types` (``f32``), a kernel of that signature."""
    used = {kernel.isa for kernel in kernels() if types in (None, kernel.types)}
    return tuple(isa for isa in isas() if isa in used)


@cache
def kernels_for(isa: str | None) -> Mapping[str, tuple[Kernel, ...]]:
    """Op -> rows that this machine can run, within `isa` if it is given; ConfigError if the machine lacks it."""
    if isa is not None and isa not in isas():
        raise ConfigError(f"isa {isa!r}: this machine has {', '.join(isas())}")
    allowed = machine_mask() if isa is None else isa_table()[isa]
    found: dict[str, tuple[Kernel, ...]] = {}
    for kernel in kernels():
        if is_within(kernel.isa, allowed):
            found[kernel.op] = (*found.get(kernel.op, ()), kernel)
    return found


def clock() -> str:
    """The clock that counts the ticks of a run: ``rdtsc``, ``cntvct`` or ``clock_gettime``."""
    name: str = ffi.string(lib.eb_clock()).decode()
    return name


def tick_seconds() -> float:
    """Seconds of one tick."""
    return float(lib.eb_tick_seconds())


def make_dense(target: int, source: int, size: int, shape: Sequence[int], strides: Sequence[int]) -> None:
    """Copy elements of `size` bytes, at most MAX_RANK axes of them, to the address `target` row by row."""
    lib.eb_make_dense(ffi.cast("void *", target), ffi.cast("void *", source), size, len(shape), shape, strides)


@cache
def offer_openblas() -> bool:
    """Give OpenBLAS's sgemm to the C library. False if the package scipy_openblas32 is not installed."""
    try:
        import scipy_openblas32
    except ImportError:
        return False
    library = scipy_openblas32.dll
    # The engine calls OpenBLAS from its own threads. The setting applies to the library in the package
    # scipy_openblas32; NumPy and SciPy have their own copies of OpenBLAS, whose settings do not change.
    library.scipy_openblas_set_num_threads(1)
    lib.eb_set_sgemm(ffi.cast("void *", ctypes.cast(library.scipy_cblas_sgemm, ctypes.c_void_p).value))
    return True


Handle = tuple[Any, Any, tuple[Any, ...]]
"""A planned step as a C struct without the places of operands, the operands, and memory that the struct refers to."""


def plan(step: Step, kernel: Kernel, *, requested: bool = False) -> Planned | NeedsDense | None:
    """How `kernel` will run `step`; NEEDS_DENSE if it needs dense inputs; None if it cannot run it.

    A `requested` kernel, which the configuration names, runs the step even if another kernel is faster.
    """
    handle = node, operands, _kept = _node(step, kernel, requested=requested)
    packed: dict[int, PackedLayout] = {}
    for position, place in enumerate(step.operands[: step.n_inputs]):
        if place is not None and place.storage.kind == "constant" and place.layout.is_dense:
            layout = lib.eb_layout_of(node, position)
            if layout.packing != ffi.NULL:
                name = ffi.string(layout.packing).decode()
                numbers = tuple(layout.numbers)
                packed[position] = PackedLayout(name, numbers, layout.bytes, layout.pieces, bool(layout.moves))
                operands[position].is_packed = 1
    status: int = lib.eb_plan_node(node)
    if status == OK:
        return Planned(kernel, node.tiles, node.scratch_bytes, node.shared_bytes, node.operations, packed, handle)
    return NEEDS_DENSE if status == lib.EB_NEEDS_DENSE else None


def _node(step: Step, kernel: Kernel, *, requested: bool = False) -> Handle:
    """An eb_node for `step`, not planned yet."""
    node, operands = ffi.new("eb_node *"), ffi.new("eb_tensor[]", len(step.operands))
    for tensor, place in zip(operands, step.operands, strict=True):
        _describe(tensor, place)
    for position, how in step.encoded.items():
        operands[position].encoding = encodings()[how.encoding.family]
        operands[position].axis, operands[position].parts = how.encoding.axis, how.parts
    ints, reals = ffi.new("int64_t[]", step.ints or [0]), ffi.new("double[]", step.reals or [0.0])
    node.kernel, node.wanted = kernel.row, requested
    node.n_inputs, node.n_outputs = step.n_inputs, len(step.operands) - step.n_inputs
    node.n_ints, node.n_reals = len(step.ints), len(step.reals)
    node.operands, node.ints, node.reals = operands, ints, reals
    return node, operands, (ints, reals)


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
    """Pack constant operand `position` of a planned step, dense at address `source`, into the bytes of `target`."""
    node, _operands, _kept = _node(step, step.kernel)
    pieces = step.planned.packed[position].pieces
    lib.eb_pack(node, position, ffi.cast("void *", source), ffi.from_buffer(target), 0, pieces)


def peak_flops(isa: str | None, what: str = "fp32") -> float:
    """Measured operations/s of multiply-adds on one core, by what `isa` allows; None allows all. 0: there are none.

    `what` is as of `Instruments.measure_roof`.
    """
    name = ffi.NULL if isa is None else isa.encode()
    return measure_undisturbed(lambda: float(lib.eb_measure_arithmetic(what.encode(), name, _FLOPS_SECONDS)))


def read_bandwidth() -> float:
    """Measured bytes/s of reading the same 128 MiB repeatedly on one core."""
    data = np.zeros(_READ_BYTES, np.uint8)
    data[:] = 1
    address = ffi.cast("void *", data.ctypes.data)
    return measure_undisturbed(lambda: float(lib.eb_measure_read(address, _READ_BYTES, _READ_SECONDS)))


def measure_undisturbed(measure: Callable[[], float]) -> float:
    """The largest rate of several measurements: other processes can only lower it.

    Measures at least `_LEAST_REPEATS` times, and until the two largest rates agree within `_AGREES_WITHIN`, but at most
    `_MOST_REPEATS` times, and begins no measurement after `_ROOF_BUDGET_S`.
    """
    began, rates = time.perf_counter(), list[float]()
    while len(rates) < _MOST_REPEATS and (not rates or time.perf_counter() - began < _ROOF_BUDGET_S):
        rates = sorted([*rates, measure()], reverse=True)
        if len(rates) >= _LEAST_REPEATS and rates[1] >= (1 - _AGREES_WITHIN) * rates[0]:
            break
    return rates[0]


def unpack(step: Step, position: int, packed: np.ndarray, target: np.ndarray) -> None:
    """Undo `pack` of all of a constant, into the dense `target`, for a layout that moves elements."""
    node, _operands, _kept = _node(step, step.kernel)
    destination = ffi.cast("void *", target.ctypes.data)
    lib.eb_unpack(node, position, ffi.from_buffer(packed), destination)


def measure_handover(first: int, second: int, seconds: float = 0.002) -> float | None:
    """As `Instruments.measure_handover`; None where threads cannot be put on both processors."""
    return float(lib.eb_measure_handover(first, second, seconds)) or None


def measure_roof(what: str, threads: int, nbytes: int = 0, seconds: float = 0.05) -> Roof | None:
    """As `Instruments.measure_roof`; `nbytes` is at least 4096."""
    found = lib.eb_measure_roof(what.encode(), nbytes, threads, seconds)
    if not found.rate:
        return None
    return Roof(found.rate, found.clock, found.per_instruction, ffi.string(found.isa).decode())


_register_switches()
