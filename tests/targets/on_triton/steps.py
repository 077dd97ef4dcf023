"""One step at a time: makes operands with memory of their own, plans the step, runs or compiles its launches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import triton.language as tl

from engine import dtypes
from engine.encodings import Encoding, Stored
from engine.memory import as_tensor
from engine.ops import TABLE, Layout, TensorType
from engine.targets.plan import EncodedOperand, Place, Step, Storage
from engine.targets.triton import kernel_table
from engine.targets.triton.device import as_elements, is_interpreted, torch_type
from engine.targets.triton.launch import Fault, Launch, Launches, Operand, Scratch


class Input(NamedTuple):
    """An input of a case.

    Attributes:
        shape: its sizes.
        dtype: "" is the element type of the case.
        order: the axes as they lie in memory, if they are not in their own order: the input is a permuted view.
        gap: elements between one row (along the last axis in memory) and the next: the input is a slice.
        low, high: range of values; integers and floats alike, floats are normal numbers if both are 0.
        encoding: how the elements are stored.
        special: values that replace every fifth run of elements, in turn.
        run: elements of a run.
    """

    shape: tuple[int, ...]
    dtype: str = ""
    order: tuple[int, ...] = ()
    gap: int = 0
    low: float = 0
    high: float = 0
    encoding: Encoding | None = None
    special: tuple[float, ...] = ()
    run: int = 1


class Case(NamedTuple):
    """A step to check.

    Attributes:
        op: its name.
        inputs: None for absent ones.
        attributes: those without a default, and others that matter.
        dtypes: element types to check it in.
        variant: the kernel that must run it; "" is any.
        multiprocessors: of the device that it is planned for.
        scale: factor of the tolerance, where the sums of a case are longer or its values larger than usual.
        has_products: names of kernel functions that must use warpgroup instructions where they multiply numbers of 16
            bits or TF32.
        over: position of the input over which the result is written; -1: it has memory of its own.
        allow_tf32: float32 products may be rounded to TF32.
        stack: bytes of local memory that a thread may use.
    """

    op: str
    inputs: tuple[Input | None, ...]
    attributes: Mapping[str, Any] = {}
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")
    variant: str = ""
    multiprocessors: int = 4
    scale: float = 1.0
    has_products: tuple[str, ...] = ()
    over: int = -1
    allow_tf32: bool = False
    stack: int = 0

    def __str__(self) -> str:
        sizes = ",".join("-" if one is None else "x".join(map(str, one.shape)) for one in self.inputs)
        extra = ",".join(f"{name}={value}" for name, value in self.attributes.items())
        return f"{self.op}({sizes}){':' + extra if extra else ''}{':tf32' if self.allow_tf32 else ''}".replace(" ", "")


def allow_tf32(*cases: Case) -> tuple[Case, ...]:
    """The cases in float32, where products may be rounded to TF32."""
    return tuple(case._replace(dtypes=("float32",), allow_tf32=True) for case in cases)


class Made(NamedTuple):
    """A step with its operands' memory.

    Attributes:
        step: as the binder would make it.
        attributes: with defaults.
        references: operands of `Op.evaluate`, which decodes encoded ones where the reference wants elements.
        memory: for each operand of the step its whole storage, as a flat CPU tensor.
        outputs: types of the results.
    """

    step: Step
    attributes: dict[str, Any]
    references: list[Any]
    memory: list[torch.Tensor | None]
    outputs: tuple[TensorType, ...]


def _draw(one: Input, dtype: str, random: np.random.Generator) -> np.ndarray:
    kind = dtypes.dtype(dtype)
    if kind.kind == "bool":
        return random.random(one.shape) < 0.5
    if kind.kind == "int":
        return random.integers(int(one.low), int(one.high) or 10, one.shape).astype(kind.numpy)
    spread = one.high - one.low
    drawn = random.standard_normal(one.shape) if not spread else one.low + spread * random.random(one.shape)
    runs = np.arange(drawn.size) // one.run
    for number, value in enumerate(one.special):
        drawn.reshape(-1)[runs % (5 * len(one.special)) == 5 * number] = value
    return drawn.astype(kind.numpy)


def _order(one: Input) -> tuple[int, ...]:
    return one.order or tuple(range(len(one.shape)))


def _layout_of(one: Input) -> Layout:
    """How the elements of an input lie in its storage."""
    sizes = [one.shape[axis] for axis in _order(one)]
    if one.gap:
        sizes[-1] += one.gap
    own = [0] * len(sizes)
    for axis, stride in zip(_order(one), Layout.dense(sizes).strides, strict=True):
        own[axis] = stride
    return Layout(one.shape, tuple(own))


def _lay_out(array: np.ndarray, one: Input) -> np.ndarray:
    """The elements of the whole storage of an input, in order."""
    stored = np.transpose(array, _order(one))
    if one.gap:
        gap = np.zeros((*stored.shape[:-1], one.gap), stored.dtype)
        stored = np.concatenate([stored, gap], -1)
    return np.ascontiguousarray(stored).reshape(-1)


def make(case: Case, dtype: str, seed: int = 0, *, is_outline: bool = False) -> Made:
    """The step of a case with random operands. Results are NaN or 1 before the step.

    With `is_outline`, the operands have types and layouts, but no elements.
    """
    random = np.random.default_rng(seed)
    op = TABLE[case.op]
    operands: list[Place | None] = []
    memory: list[torch.Tensor | None] = []
    references: list[Any] = []
    types: list[TensorType | None] = []
    parts: list[tuple[int, list[tuple[np.ndarray, tuple[int, ...]]]]] = []
    encoded: dict[int, EncodedOperand] = {}

    def add(flat: np.ndarray, kind: str, layout: Layout) -> None:
        operands.append(Place(Storage(kind, len(operands)), dtypes.from_numpy(flat.dtype).name, layout))
        memory.append(None if is_outline else as_tensor(flat).clone())

    for position, one in enumerate(case.inputs):
        if one is None:
            operands.append(None), memory.append(None), references.append(None), types.append(None)
            continue
        name = one.dtype or dtype
        if is_outline:  # one element, seen everywhere
            array = np.broadcast_to(np.ones((), dtypes.dtype(name).numpy), one.shape)
        else:
            array = _draw(one, name, random)
        types.append(TensorType(name, one.shape, one.encoding))
        if one.encoding is None:
            if is_outline:
                add(array.reshape(-1)[:1], "input", _layout_of(one))
            else:
                add(_lay_out(array, one), "input", _layout_of(one))
            references.append(array)
            continue
        types_of = one.encoding.component_types(one.shape)
        if is_outline:
            components = {part: np.ones(1, dtypes.dtype(kind).numpy) for part, (kind, _shape) in types_of.items()}
        else:
            components = one.encoding.encode(array.astype(np.float32))
            references.append(Stored(one.encoding, components, name))
        add(components["data"].reshape(-1), "constant", Layout.dense(one.shape))
        rest = one.encoding.component_names[1:]
        parts.append((position, [(components[part], types_of[part][1]) for part in rest]))
    for position, arrays in parts:
        encoding = types[position].encoding
        assert encoding is not None
        encoded[position] = EncodedOperand(encoding, len(operands) if arrays else 0)
        for array, shape in arrays:
            add(np.asarray(array).reshape(-1), "constant", Layout.dense(shape))
    n_inputs = len(operands)
    attributes = op.complete(case.attributes)
    outputs = tuple(op.infer(types, attributes))
    for type_ in outputs:
        kind = dtypes.dtype(type_.dtype)
        size = 1 if is_outline else type_.size
        flat = np.full(size, np.nan if kind.kind == "float" else 1, kind.numpy)
        add(flat, "output", Layout.dense(type_.shape))
    return Made(
        Step(None, case.op, operands, n_inputs, [], [], encoded=encoded), attributes, references, memory, outputs
    )


def plan(case: Case, made: Made) -> tuple[kernel_table.Declared, Launches]:
    """The kernel and the launches of a made step; an input that must be dense is an error of the case."""
    device = kernel_table.Gpu(multiprocessors=case.multiprocessors, allow_tf32=case.allow_tf32)
    found = kernel_table.plan_step(kernel_table.request_of(made.step, made.attributes, device))
    assert isinstance(found, tuple), f"no kernel accepts {case}: {found}"
    if case.variant:
        assert found[0].variant == case.variant
    return found


def run(case: Case, dtype: str, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray], bool]:
    """What the kernel and what the reference make, and True if the kernel reported a bad index.

    The kernel runs in Triton's interpreter, or on the current CUDA device where kernels are not interpreted.
    """
    device = "cpu" if is_interpreted() else "cuda"
    made = make(case, dtype, seed)
    memories = [None if one is None else one.to(device) for one in made.memory]
    if case.over >= 0:
        memories[made.step.n_inputs] = memories[case.over]
    _declared, launches = plan(case, made)
    scratch = torch.full((launches.scratch_bytes,), 0x5A, dtype=torch.uint8, device=device)
    fault = torch.zeros(1, dtype=torch.int32, device=device)

    def resolve(argument: Any) -> Any:
        if isinstance(argument, Operand):
            place, memory = made.step.operands[argument.position], memories[argument.position]
            assert place is not None
            assert memory is not None
            typed = memory.view(torch_type(argument.view)) if argument.view else memory
            return typed[place.layout.offset + argument.offset :]
        if isinstance(argument, Scratch):
            return scratch[argument.start :].view(torch_type(argument.dtype))
        return fault if isinstance(argument, Fault) else argument

    for launch in launches.launches:
        assert all(size >= 1 for size in launch.grid), launch.grid
        launch.function[launch.grid](**{n: resolve(a) for n, a in launch.arguments.items()}, **launch.options)
    results = [as_elements(memories[made.step.n_inputs + n]).reshape(t.shape) for n, t in enumerate(made.outputs)]
    if fault.item():
        return results, [], True
    expected = TABLE[case.op].evaluate(made.references, made.attributes)
    return results, list(expected) if isinstance(expected, tuple | list) else [expected], False


class Pointer:
    """Stands for a tensor of a GPU while a kernel is compiled: an element type, and an address that 16 divides."""

    def __init__(self, dtype: str) -> None:
        self.dtype = torch_type(dtype)

    def data_ptr(self) -> int:
        """An address."""
        return 4096


def outline(case: Case, dtype: str) -> Made:
    """The step of a case without memory for its operands, of which nothing is read."""
    return make(case, dtype, is_outline=True)


def compile_launch(made: Made, launch: Launch) -> Any:
    """The compiled kernel of one launch, for the target that `aot.set_target` names."""

    def resolve(argument: Any) -> Any:
        if isinstance(argument, Operand):
            place = made.step.operands[argument.position]
            assert place is not None
            return Pointer(argument.view or place.dtype)
        if isinstance(argument, Scratch):
            return Pointer(argument.dtype)
        return Pointer("int32") if isinstance(argument, Fault) else argument

    arguments = {name: resolve(argument) for name, argument in launch.arguments.items()}
    return launch.function.warmup(**arguments, grid=launch.grid, **launch.options)


TOLERANCE = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2, "float64": 1e-10}
"""Relative to the largest expected magnitude: two roundings to the type, or sums of some hundred terms in float32."""
TF32_TOLERANCE = 2e-3
"""The same for products in TF32: both factors lose up to 2^-10 of their size."""


def worst_error(results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest difference over the largest expected magnitude (at least 1); infinite if NaN, infinities or types
    differ.
    """
    worst = 0.0
    for got, want in zip(results, expected, strict=True):
        if got.dtype != want.dtype or got.shape != want.shape:
            return float("inf")
        if not got.size:
            continue
        a, b = got.astype(np.float64), want.astype(np.float64)
        odd, is_nan = ~np.isfinite(b), np.isnan(b)
        if not np.array_equal(np.isnan(a), is_nan) or not np.array_equal(a[odd & ~is_nan], b[odd & ~is_nan]):
            return float("inf")
        if odd.all():
            continue
        worst = max(worst, float(np.max(np.abs(a[~odd] - b[~odd])) / max(1.0, float(np.max(np.abs(b[~odd]))))))
    return worst


def find_wrong_numbers(case: Case, dtype: str) -> str:
    """What is wrong with the result of a case, as one sentence; "" if nothing is."""
    results, expected, is_bad_index = run(case, dtype)
    if is_bad_index:
        return "the kernel reports a bad index, and none is"
    of_types = (TOLERANCE.get(one.dtype.name, 0.0) for one in results)
    tolerance = max(*of_types, TF32_TOLERANCE * case.allow_tf32) * case.scale
    error = worst_error(results, expected)
    return "" if error <= tolerance else f"the result has an error of {error:.3g}; the tolerance is {tolerance:.3g}"


def find_unseen(ragged: Iterable[Launch], real: Iterable[Launch]) -> set[str]:
    """What `ragged` launches and `real` does not: kernel functions, as ``module.name``, and with them the values of
    their constants, other than sizes, and pointers that are absent or there.
    """
    return set().union(*map(describe_code, ragged)).difference(*map(describe_code, real))


def describe_code(launch: Launch) -> set[str]:
    """What decides which lines of a kernel are compiled."""
    function = f"{launch.function.fn.__module__}.{launch.function.fn.__name__}"
    found = {function}
    for name, value in launch.arguments.items():
        if isinstance(value, Operand | Scratch):
            found.add(f"{function}: {name} is a pointer")
        elif value is None or isinstance(value, bool | str | tl.dtype):
            found.add(f"{function}: {name} is {value}")
    return found
