"""What runs a model and shows its values: torch, a program, or another runtime."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from engine import dtypes, targets
from engine.config import Config
from engine.graph import Graph, Node, Origin, Value
from engine.inspect.exported import Exported
from engine.memory import as_array
from engine.runtime.program import Program
from engine.tree import split_arguments

if TYPE_CHECKING:
    from numpy.typing import NDArray

Arrays = Mapping[str, "NDArray[Any]"]


class Runner(Protocol):
    """What runs a model in a way of its own, such as another runtime, and can show values that it computes.

    Attributes:
        label: its name, for tables.
        notes: what a reader should know of its values, such as that showing them changed its fusions.
    """

    label: str
    notes: tuple[str, ...]

    def values(self, names: Collection[str], inputs: Arrays) -> Arrays:
        """Those of the values with these names that it can show. Names are those of nodes of torch's exported graph;
        inputs have the names of its placeholders.
        """


class TorchRunner:
    """torch's exported program."""

    notes: tuple[str, ...] = ()

    def __init__(self, label: str, exported: Exported) -> None:
        self.label, self._exported = label, exported

    def values(self, names: Collection[str], inputs: Arrays) -> Arrays:
        """As `Runner.values`."""
        return self._exported.values({name for name in names if name in self._exported}, inputs)


class ProgramRunner:
    """Shows the values of a program whose origin has no view but permutations, which can be undone."""

    notes: tuple[str, ...] = ()

    def __init__(self, label: str, program: Program) -> None:
        self.label, self._program = label, program

    def values(self, names: Collection[str], inputs: Arrays) -> Arrays:
        """As `Runner.values`."""
        found: dict[str, NDArray[Any]] = {}
        run = Run(self._program, inputs)

        def observe(_index: int, node: Node, read: Callable[[Value], NDArray[Any]], _seconds: float) -> None:
            for value in node.outputs:
                origin = value.origin
                if origin is None or origin.value not in names or origin.value in found:
                    continue
                if (order := _permutation(origin, len(value.shape))) is not None:
                    found[origin.value] = np.array(np.transpose(read(value), np.argsort(order)), copy=True)

        run.trace(observe)
        return found


def _permutation(origin: Origin, rank: int) -> tuple[int, ...] | None:
    """The order of axes that the view of an origin gives; None if it is another view."""
    order = tuple(range(rank))
    for op, attributes in origin.view:
        if op != "permute":
            return None
        order = tuple(order[axis] for axis in attributes["axes_order"])
    return order


class Run:
    """A program for one set of inputs and states, which have the names of the exported placeholders."""

    def __init__(self, program: Program, inputs: Arrays) -> None:
        graph = program.lowered
        self.specialised = program.for_arguments([inputs[name_of(value)] for value in graph.call_inputs])
        self.graph: Graph = self.specialised.graph
        self.inputs, self.states = (
            [np.asarray(round_to(inputs[name_of(value)], value.dtype), order="C") for value in group]
            for group in (graph.call_inputs, graph.state_inputs)
        )
        self.specialised.boundary.check(self.inputs)

    @property
    def kernels(self) -> dict[Node | None, str]:
        """Node -> the kernel that runs it; empty for a target without kernels."""
        plan = self.specialised.executable.plan
        return {} if plan is None else {step.node: step.kernel.name for step in plan.steps}

    def trace(self, observe: Callable[..., None]) -> None:
        """Show `observe` every node (see `engine.targets.base.Observer`)."""
        self.specialised.executable_of(self.graph, keep=True).trace(self.inputs, self.states, observe)

    def call(self) -> list[NDArray[Any]]:
        """The results of an ordinary run, which changes `states`."""
        outputs = allocate(self.graph.call_outputs)
        self.specialised.executable.run(self.inputs, outputs, self.states)
        return outputs


def list_changes(config: Config) -> dict[str, Any]:
    """The fields of `config` that are not as in ``Config()`` for its target."""
    config = targets.resolve(config)
    usual = targets.resolve(Config(target=config.target))
    changed = {name: value for name, value in vars(config).items() if value != getattr(usual, name)}
    return changed | ({} if config.target == Config().target else {"target": config.target})


def allocate(values: Iterable[Value]) -> list[NDArray[Any]]:
    """An uninitialised array for each value."""
    return [np.empty(value.shape, dtypes.dtype(value.dtype).numpy) for value in values]


def name_of(value: Value) -> str:
    """The exported value that it equals, or its own name."""
    return value.name if value.origin is None else value.origin.value


def round_to(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    """`array` in the element type `dtype`."""
    with np.errstate(over="ignore"):
        return array.astype(dtypes.dtype(dtype).numpy)


def name_inputs(program: Program, inputs: Any) -> dict[str, NDArray[Any]]:
    """The tensors of `inputs` by the names of the exported placeholders."""
    args, kwargs = split_arguments(inputs)
    names = [name_of(value) for value in program.lowered.call_inputs]
    return dict(zip(names, map(as_array, program.list_arguments(*args, **kwargs)), strict=True))
