"""The reference semantics: runs every node by the NumPy definition of its op. Slow, exact, readable."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import numpy as np

from engine.config import Config
from engine.encodings import Stored
from engine.errors import ExecutionError, ProgramError
from engine.graph import Graph, Node, Value, list_constants
from engine.memory import as_array, check_total
from engine.targets.base import Context, Executable, Observer, Prepared, Summary, Target
from engine.targets.host import HOST


def run(graph: Graph, inputs: Sequence[np.ndarray], observe: Observer | None = None) -> list[np.ndarray]:
    """Run the graph. The outputs are dense and share no memory with the inputs or with each other.

    Inputs have the exact types of the graph and are never written to. A value is released after the last node that
    reads it. ExecutionError if an index is out of range, or an integer is divided by zero; ProgramError if the values
    that exist at the same time take more memory than there is.
    """
    unread = _last_uses(graph)
    check_total(_peak_bytes(graph, unread), "a call in the interpreter")
    values = dict(zip(graph.inputs, inputs, strict=True))
    for position, node in enumerate(graph.nodes):
        _execute(position, node, values, observe)
        for value in (*node.outputs, *(v for v in node.inputs if v is not None)):
            if unread.get(value) is node:
                values.pop(value, None)
    results = (_read(values, v) for v in graph.outputs)
    plain = (one.elements() if isinstance(one, Stored) else one for one in results)
    return [np.array(one, order="C", copy=True) for one in plain]


def _last_uses(graph: Graph) -> dict[Value, Node]:
    """For each value except outputs, the last node that reads or computes it."""
    uses: dict[Value, Node] = {}
    for node in graph.nodes:
        uses |= dict.fromkeys(node.outputs, node)
        uses |= {value: node for value in node.inputs if value is not None}
    for value in graph.outputs:
        uses.pop(value, None)
    return uses


def _peak_bytes(graph: Graph, unread: Mapping[Value, Node]) -> int:
    """Maximum bytes of results that exist at the same time, including the copies that the call returns."""
    live = peak = 0
    for node in graph.nodes:
        live += sum(value.type.nbytes for value in node.outputs)
        peak = max(peak, live)
        made = {v for v in (*node.inputs, *node.outputs) if v is not None and v.node is not None}
        live -= sum(value.type.nbytes for value in made if unread.get(value) is node)
    return max(peak, live + sum(value.type.nbytes for value in graph.outputs))


def _read(values: Mapping[Value, np.ndarray], value: Value) -> np.ndarray | Stored:
    """An input, a result or a constant. Constants are not among `values`: some are computed at each access."""
    found = values.get(value)
    return value.stored if found is None else found


def _elements(values: Mapping[Value, np.ndarray], value: Value) -> np.ndarray:
    found = _read(values, value)
    return found.elements() if isinstance(found, Stored) else found


def _execute(position: int, node: Node, values: dict[Value, np.ndarray], observe: Observer | None) -> None:
    """Add the results of one node to `values`. No local variable of `run` keeps them alive."""
    operands = [None if v is None else _read(values, v) for v in node.inputs]
    start = time.perf_counter()
    try:
        result = node.op.evaluate(operands, node.attributes)
    except (IndexError, ZeroDivisionError) as e:
        what = str(e).removeprefix(f"{node.op.name}: ")
        raise ExecutionError(f"{node.op.name}{node.source.where}: {what}") from None
    except MemoryError as e:
        raise ProgramError(f"{node.op.name}{node.source.where}: {e}") from None
    seconds = time.perf_counter() - start
    results = list(result) if isinstance(result, tuple) else [result]
    values |= zip(node.outputs, results, strict=True)
    if observe is not None:
        observe(position, node, partial(_elements, values), seconds)


class _CallContext(Context):
    def __init__(self, graph: Graph, states: Sequence[Any]) -> None:
        self._graph, self._states = graph, states

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """As `Context.run`; the run has ended when it returns."""
        results = run(self._graph, [as_array(value) for value in (*inputs, *self._states)])
        for target, result in zip((*outputs, *self._states), results, strict=True):
            as_array(target)[...] = result


class InterpreterExecutable(Executable):
    """Runs a graph without binding it. Constants that are made of others are computed once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        for constant in list_constants([graph]):
            constant.own()

    def context(self, states: Sequence[Any] = ()) -> Context:
        return _CallContext(self._graph, states)

    def trace(self, inputs: Sequence[Any], states: Sequence[Any], observe: Observer) -> None:
        run(self._graph, [as_array(value) for value in (*inputs, *states)], observe)

    def summary(self) -> Summary:
        """As `Executable.summary`: a launch is a node."""
        return Summary(launches=len(self._graph.nodes))


class InterpreterTarget(Target):
    """Runs the NumPy definitions of the op table, node by node."""

    name = "interpreter"
    summary = "the NumPy definition of each op: slow, exact, readable"
    device = HOST

    def has_kernel(self, op: str, families: AbstractSet[str], compute: str) -> bool:
        """As `Target.has_kernel`: it runs every op, encoding and arithmetic."""
        del op, families, compute
        return True

    def executable(self, graph: Graph, config: Config, prepared: Prepared, *, keep: bool = False) -> Executable:
        del config, prepared, keep
        return InterpreterExecutable(graph)


INTERPRETER = InterpreterTarget()
