"""The table of Triton kernels. Each file in `kernels` is a family and adds its own; nothing else lists them.

A kernel is a function from a step to its launches. Kernels of one op are asked in the order in which they were
declared: the first one that accepts the step runs it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from engine.encodings import Encoding
from engine.errors import InternalError
from engine.ops import Layout, TensorType
from engine.targets.plan import NeedsDense, Step
from engine.targets.triton.configurations import Finder, Question, RuleOnly, hash_source
from engine.targets.triton.device import is_interpreted
from engine.targets.triton.launch import Launches, Operand

Answer = Launches | NeedsDense | None
Tiling = TypeVar("Tiling")
"""A named tuple of whole numbers."""


class Tensor(NamedTuple):
    """An operand of a step as a kernel sees it, at `position` of `Step.operands`.

    `dtype` is the type of what is in memory. `encoding` is None for elements of their own type, and `scale` has the
    float32 scales of an encoded operand, if it has any.
    """

    position: int
    dtype: str
    layout: Layout
    encoding: Encoding | None = None
    scale: Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self.layout.strides

    @property
    def is_dense(self) -> bool:
        return self.layout.is_dense

    @property
    def family(self) -> str:
        """Name of the encoding's family; "" for plain elements."""
        return "" if self.encoding is None else self.encoding.family

    def pointer(self, offset: int = 0, view: str = "") -> Operand:
        """A pointer to its first element, or to the element `offset` places further."""
        return Operand(self.position, offset, view)


class Gpu(NamedTuple):
    """What plans depend on.

    Attributes:
        name: as the driver says it; "" for the interpreter.
        allow_tf32: float32 products may be rounded to TF32.
        configurations: chooses among the configurations of a kernel.
        variants: op -> the variant of its kernels that is asked first.
    """

    name: str = ""
    multiprocessors: int = 132
    allow_tf32: bool = False
    configurations: Finder = RuleOnly()
    variants: Mapping[str, str] = {}  # never written to


class Request(NamedTuple):
    """A step that a kernel may accept; absent inputs are None, and scales are part of the `Tensor` of their input.

    `attributes` have their defaults. If `copied`, inputs that were not dense have been copied already.
    """

    op: str
    inputs: tuple[Tensor | None, ...]
    output: Tensor
    attributes: Mapping[str, Any]
    device: Gpu
    copied: bool = False

    def need(self, position: int) -> Tensor:
        """An input that is never absent."""
        found = self.inputs[position]
        if found is None:
            raise InternalError(f"{self.op}: input {position} is missing")
        return found

    def find(self, position: int) -> Tensor | None:
        """An input that may be absent."""
        return self.inputs[position] if position < len(self.inputs) else None

    def choose(self, function: Any, sizes: str, candidates: Sequence[Tiling], rule: Tiling) -> Tiling:
        """The configuration of a kernel: the fastest one measured on the device, `rule` where nothing was measured.

        `function` is what `triton.jit` has made, and `sizes` is written by `configurations.describe_sizes`.
        """
        question = Question(function.fn.__name__, hash_source(function), sizes)
        chosen: Tiling = self.device.configurations.find(question, candidates, rule)
        return chosen


class Declared(NamedTuple):
    """A kernel of the table, for operands of the families `encodings` and values `compute` of the attribute.

    Its `plan` makes launches of a request, or answers `NEEDS_DENSE` or None as `StepPlanner.plan`.
    """

    name: str
    op: str
    variant: str
    encodings: frozenset[str]
    compute: frozenset[str]
    plan: Callable[[Request], Answer]


_TABLE: dict[str, list[Declared]] = {}


def kernel(
    *ops: str, variant: str, encodings: Sequence[str] = (), compute: Sequence[str] = ("element",)
) -> Callable[[Callable[[Request], Answer]], Callable[[Request], Answer]]:
    """Declare a kernel of each of `ops`, as in `Declared`; the decorated function makes the launches of a step."""

    def declare(plan: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
        for op in ops:
            one = Declared(f"triton_{op}_{variant}", op, variant, frozenset(encodings), frozenset(compute), plan)
            known = _TABLE.setdefault(op, [])
            if any(other.variant == variant for other in known):
                raise InternalError(f"kernel {one.name} is declared twice")
            known.append(one)
        return plan

    return declare


@cache
def kernels() -> Mapping[str, Sequence[Declared]]:
    """Op -> its kernels. The first call imports the files of `kernels`, and with them triton."""
    if is_interpreted():
        importlib.import_module("engine.targets.triton.strict").install()
    package = importlib.import_module("engine.targets.triton.kernels")
    for module in sorted(found.name for found in pkgutil.iter_modules(package.__path__)):
        if not module.startswith("_"):
            importlib.import_module(f"{package.__name__}.{module}")
    return _TABLE


def request_of(step: Step, attributes: Mapping[str, Any], device: Gpu, *, copied: bool = False) -> Request:
    """The request of a step."""
    tensors: list[Tensor | None] = []
    for position, place in enumerate(step.operands):
        if place is None:
            tensors.append(None)
            continue
        how = step.encoded.get(position)
        scale = None
        if how is not None and how.parts and (there := step.operands[how.parts]) is not None:
            scale = Tensor(how.parts, there.dtype, there.layout)
        tensors.append(Tensor(position, place.dtype, place.layout, None if how is None else how.encoding, scale))
    parts = {how.parts for how in step.encoded.values() if how.parts}
    first_part = min(parts, default=step.n_inputs)
    output = tensors[step.n_inputs]
    if output is None:
        raise InternalError(f"{step.op}: no result")
    return Request(step.op, tuple(tensors[:first_part]), output, attributes, device, copied)


def request_of_types(
    op: str, inputs: Sequence[TensorType | None], output: TensorType, attributes: Mapping[str, Any]
) -> Request:
    """The request of an op on dense operands of these types, none of them encoded."""
    tensors = [
        None if one is None else Tensor(position, one.dtype, Layout.dense(one.shape))
        for position, one in enumerate((*inputs, output))
    ]
    return Request(
        op,
        tuple(tensors[:-1]),
        Tensor(len(inputs), output.dtype, Layout.dense(output.shape)),
        attributes,
        Gpu(),
        copied=True,
    )


def plan_step(request: Request) -> tuple[Declared, Launches] | NeedsDense | None:
    """The first kernel that accepts the request, and its launches. A variant that the device names is asked first."""
    families = {one.family for one in request.inputs if one is not None and one.family}
    compute = request.attributes.get("compute", "element")
    requested = request.device.variants.get(request.op)
    for declared in sorted(kernels().get(request.op, ()), key=lambda one: one.variant != requested):
        if not families <= declared.encodings or compute not in declared.compute:
            continue
        answer = declared.plan(request)
        if isinstance(answer, Launches):
            return declared, answer
        if answer is not None and not request.copied:
            return answer
    return None
