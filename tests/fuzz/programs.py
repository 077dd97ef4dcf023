"""Valid programs: one op of the table on operands of every layout, other ops before and behind it, states, symbols.

`build` draws everything from one `random.Random`, so a seed always makes the same program.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

import numpy as np

from engine import dtypes, program, sizes, tree
from engine.graph import Graph, Signature, Value, elements
from engine.ops import TABLE, TensorType
from tests.fuzz.operands import MOST_ELEMENTS, REFUSALS, RUNNABLE, Application, draw

_SYMBOL = "s"


class Draft(NamedTuple):
    """A program and what to call it with.

    Attributes:
        document: the file's JSON header without checksums.
        tensors: name -> constant.
        arrays: one array per call input, of the example's sizes.
    """

    document: dict[str, Any]
    tensors: dict[str, np.ndarray]
    arrays: list[np.ndarray]


def build(rng: Random, op: str, *, simple: bool = False) -> Draft:
    """A program that has `op`; with `simple`, no other op than that and views of its operands."""
    application = draw(rng, op)
    if not simple and rng.random() < 0.15:
        draft = _symbolic(rng, application)
        if draft is not None:
            return draft
    builder = _Builder(rng, op)
    if not simple and rng.random() < 0.3:
        builder.apply(draw(rng, rng.choice(RUNNABLE)))
    builder.apply(application)
    if not simple:
        for _ in range(rng.choice((0, 0, 1, 2, 3))):
            builder.apply(draw(rng, rng.choice(RUNNABLE)))
    return builder.finish(simple=simple)


def _symbolic(rng: Random, application: Application) -> Draft | None:
    """The op with one size of its operands as a symbol; None where its rules do not allow that."""
    present = [a for a in application.arrays if a is not None]
    candidates = sorted({n for a in present for n in a.shape if n > 1})
    if not candidates:
        return None
    example = rng.choice(candidates)
    builder = _Builder(rng, application.op)
    low, high = rng.randint(0, example), rng.choice((example, example + 3, 2 * example, 1 << 20))
    builder.graph.scope.symbols[_SYMBOL] = sizes.Symbol(low, high, example)
    builder.symbol = (example, builder.graph.scope.size((((_SYMBOL,), 1),)))
    try:
        with builder.graph.scope.deciding():
            builder.apply(application)
            if rng.random() < 0.5 and dtypes.dtype(builder.made[-1].dtype).kind == "float":
                builder.made.append(builder.graph.emit(rng.choice(("relu", "tanh", "neg")), [builder.made[-1]]))
            return builder.finish(simple=True)
    except REFUSALS:
        return None


class _Builder:
    """A graph that grows by one application of an op at a time."""

    def __init__(self, rng: Random, name: str) -> None:
        self.rng = rng
        self.graph = Graph(name)
        self.symbol: tuple[int, int] | None = None
        self.given: dict[Value, np.ndarray] = {}
        self.made: list[Value] = []

    def apply(self, application: Application) -> None:
        """Add the op with its operands placed."""
        operands = [None if a is None else self.place(a) for a in application.arrays]
        attributes = dict(application.attributes)
        if self.symbol is not None:
            example, size = self.symbol
            for name, attribute in TABLE[application.op].attributes.items():
                if attribute.kind == "shape" and name != "axes_order":
                    attributes[name] = tuple(size if n == example else n for n in attributes[name])
        self.made.append(self.graph.emit(application.op, operands, **attributes))

    # --- operands -----------------------------------------------------------------------------------------------------

    def place(self, array: np.ndarray, depth: int = 0) -> Value:
        """A value of the array's type: an input, a constant, a view of either, or elements of an earlier result."""
        if self.symbol is not None:
            return self._input(array)
        made = self._from_made(array) if not depth and self.rng.random() < 0.6 else None
        if made is not None:
            return made
        if depth < 2 and self.rng.random() < 0.45:
            return self.rng.choice(_LAYOUTS)(self, array, depth + 1)
        return self._input(array) if self.rng.random() < 0.6 else self.graph.constant(np.array(array, order="C"))

    def _input(self, array: np.ndarray) -> Value:
        shape = array.shape
        if self.symbol is not None:
            example, size = self.symbol
            shape = tuple(size if n == example else n for n in shape)
        value = self.graph.add_input("x", TensorType(dtypes.from_numpy(array.dtype).name, shape))
        self.given[value] = np.array(array, order="C")
        return value

    def _from_made(self, array: np.ndarray) -> Value | None:
        """Elements of an earlier result; only floats, because integers may be indices with a range."""
        name = dtypes.from_numpy(array.dtype).name
        if dtypes.dtype(name).kind != "float":
            return None
        fitting = [v for v in self.made if v.dtype == name and v.type.size >= array.size]
        if not fitting:
            return None
        value = self.rng.choice(fitting)
        if value.shape == array.shape:
            return value
        flat = self.graph.emit("reshape", [value], shape=(value.type.size,))
        start = self.rng.randint(0, value.type.size - array.size)
        part = self.graph.emit("slice", [flat], axis=0, start=start, stop=start + array.size)
        return self.graph.emit("reshape", [part], shape=array.shape)

    def permuted(self, array: np.ndarray, depth: int) -> Value:
        """A view with its axes in another order in memory."""
        order = self.rng.sample(range(array.ndim), array.ndim)
        stored = np.array(array.transpose(np.argsort(order)), order="C") if order else array
        return self.graph.emit("permute", [self.place(stored, depth)], axes_order=order)

    def sliced(self, array: np.ndarray, depth: int) -> Value:
        """Every n-th element of a longer axis."""
        if not array.ndim:
            return self.place(array, depth)
        axis, start, step = self.rng.randrange(array.ndim), self.rng.randint(0, 3), self.rng.randint(1, 3)
        size = array.shape[axis]
        length = start + max(size - 1, 0) * step + 1 + self.rng.randint(0, 2)
        if array.size // max(size, 1) * length > 4 * MOST_ELEMENTS:
            return self.place(array, depth)
        at = np.clip((np.arange(length) - start) // step, 0, max(size - 1, 0))
        wide = np.take(array, at, axis) if size else np.zeros(_with(array.shape, axis, length), array.dtype)
        stop = start + (size - 1) * step + 1 if size else start
        return self.graph.emit("slice", [self.place(wide, depth)], axis=axis, start=start, stop=stop, step=step)

    def expanded(self, array: np.ndarray, depth: int) -> Value:
        """The first element of an axis, repeated with stride zero."""
        axes = [axis for axis, size in enumerate(array.shape) if size]
        if not axes:
            return self.place(array, depth)
        base = np.take(array, [0], self.rng.choice(axes))
        return self.graph.emit("expand", [self.place(base, depth)], shape=array.shape)

    def reshaped(self, array: np.ndarray, depth: int) -> Value:
        """The same elements stored under another shape."""
        shape = self.rng.choice(((array.size,), (1, array.size), (*array.shape[::-1],), (*array.shape, 1)))
        if len(shape) > 8:
            return self.place(array, depth)
        return self.graph.emit("reshape", [self.place(array.reshape(shape), depth)], shape=array.shape)

    def copied(self, array: np.ndarray, depth: int) -> Value:
        """The result of another kernel."""
        return self.graph.emit("copy", [self.place(array, depth)])

    # --- the whole program --------------------------------------------------------------------------------------------

    def finish(self, *, simple: bool) -> Draft:
        """The program with outputs, states and a signature."""
        rng, graph = self.rng, self.graph
        graph.outputs = [self.made[-1]]
        if not simple:
            others = [*self.made, *graph.inputs, *graph.constants()]
            graph.outputs += rng.choices(others, k=rng.choice((0, 0, 1, 2)))
            if rng.random() < 0.2:
                self._add_states()
        count = len(graph.inputs) - len(graph.states)
        arrays = [self.given[value] for value in graph.inputs[:count]]
        outputs = len(graph.outputs) - len(graph.states)
        graph.signature = _signature(rng, count, outputs, simple=simple)
        document, constants = program.document_of(graph)
        tensors = {program.tensor_name(number): elements(form) for number, form in constants.items()}
        return Draft(json.loads(json.dumps(document)), tensors, arrays)

    def _add_states(self) -> None:
        """Let one or two inputs outlive a call. The new elements are a result of the same type, or computed from it."""
        graph, rng = self.graph, self.rng
        for number in range(rng.choice((1, 1, 2))):
            candidates = graph.inputs[: len(graph.inputs) - len(graph.states)]
            if not candidates:
                return
            state = rng.choice(candidates)
            same = [value for value in self.made if value.type == state.type]
            new = rng.choice(same) if same and rng.random() < 0.8 else self._updated(state)
            graph.inputs.remove(state)
            graph.inputs.append(state)
            graph.outputs.append(new)
            initial = rng.choice((None, graph.constant(self.given[state])))
            graph.states.append((f"buffer{number}", initial))

    def _updated(self, state: Value) -> Value:
        if self.rng.random() < 0.3:
            return state
        op = "logical_not" if state.dtype == "bool" else self.rng.choice(("neg", "relu", "copy"))
        return self.graph.emit(op, [state])


_LAYOUTS: tuple[Callable[[_Builder, np.ndarray, int], Value], ...] = (
    _Builder.permuted,
    _Builder.sliced,
    _Builder.expanded,
    _Builder.reshaped,
    _Builder.copied,
)


def _with(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _signature(rng: Random, inputs: int, outputs: int, *, simple: bool) -> Signature:
    """How a caller passes the inputs and gets the outputs: flat for `simple` programs, nested for some others."""
    names = tuple(f"x{number}" for number in range(inputs))
    leaf = tree.LEAF
    if simple or rng.random() < 0.5:
        input_tree = {"tuple": [{"tuple": [leaf] * inputs}, {"dict": {}}]}
        input_slots: list[Any] = list(range(inputs))
    else:
        keywords = rng.randint(0, inputs)
        nested = {"list": [leaf] * (inputs - keywords)}
        input_tree = {"tuple": [{"tuple": [nested, leaf]}, {"dict": {f"k{n}": leaf for n in range(keywords)}}]}
        input_slots = [*range(inputs - keywords), {"constant": 3}, *range(inputs - keywords, inputs)]
    output_slots: list[Any] = list(range(outputs))
    if outputs == 1 and (simple or rng.random() < 0.5):
        output_tree: tree.Tree = leaf
    else:
        output_slots += [{"constant": None}, 0] if outputs else [{"constant": 1.5}]
        leaves = [leaf] * len(output_slots)
        fields: Mapping[str, Any] = {f"field{number}": leaf for number in range(len(leaves))}
        trees = ({"tuple": leaves}, {"list": leaves}, {"dict": fields}, {"namedtuple": "Result", "fields": fields})
        output_tree = rng.choice(trees)
    return Signature(input_tree, output_tree, tuple(input_slots), tuple(output_slots), names)
