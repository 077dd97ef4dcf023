"""A program beside a reference, node by node: what error a value has in the run, and what its node adds alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from engine.graph import Graph, Node, Origin, Value
from engine.inspect.compare import Comparison, compare, widen
from engine.inspect.exported import Exported, Noise
from engine.inspect.part import Bound, Part, cut, exceed, find_storage
from engine.inspect.sides import Arrays, Run, Runner, allocate, name_inputs, name_of, round_to
from engine.runtime.program import Program
from engine.targets import run_definitions

if TYPE_CHECKING:
    from numpy.typing import NDArray

Cause = Literal["kernel", "rewrite", "run"]
Key = tuple[int, str]
"""Position of a node, and the exported name of a value that it makes."""
_EQUAL = 1e-12
"""Relative difference in float64 of two exported values that are said to be equal."""


@dataclass(frozen=True)
class ValueDiff:
    """One value of the exported graph in both executions.

    Where there are several sets of inputs, each number is that of the worst one.

    Attributes:
        name: the node of torch's exported graph.
        module, source: where the model makes it.
        node: the position in the program's graph of the node that makes it; None where the candidate is no program.
        op: that of the node, with the steps of a fused one; "" likewise.
        kernel: that runs it; "" if not known.
        error: of the value in the run: root of the mean squared difference from the reference, over that of the
            reference. What earlier nodes do wrong is in it.
        own: the same for the node alone, given the reference's values; None if it was not run alone.
        over_bound: the largest own error of an element over the bound of this element; above 1 the node is wrong.
        cause: of a node that is wrong: ``kernel`` if its result differs from the definition of its op, ``rewrite`` if
            the definition itself computes something else than the model, ``run`` if it makes other bits in the run than
            alone from the same values; None for others.
        sets: numbers of the sets of inputs for which it is wrong.
        worst: of the element with the largest own error over its bound: index, result and expected.
    """

    name: str
    module: str
    source: str
    node: int | None
    op: str
    kernel: str
    error: float
    own: float | None = None
    over_bound: float | None = None
    cause: Cause | None = None
    sets: tuple[int, ...] = ()
    worst: tuple[tuple[int, ...], float, float] | None = None

    @property
    def is_wrong(self) -> bool:
        """True if the node's own error is beyond its bound."""
        return bool(self.sets)

    def __str__(self) -> str:
        where = "".join(f" {word} {text}" for word, text in (("in", self.module), ("at", self.source)) if text)
        index, result, expected = self.worst or ((), 0.0, 0.0)
        element = f"element {list(index)} is {result:.6g}, expected {expected:.6g}"
        because = {
            "kernel": f"its kernel {self.kernel} differs from the definition of {self.op} on the same inputs",
            "rewrite": "its definition gives the same, so a pass or the stored weights changed what is computed",
            "run": "alone it makes this of the same values, so where its operands lie or threads are to be looked at",
        }
        reason = because.get(self.cause or "", "")
        return f"node {self.node}, {self.op}, which makes {self.name}{where}: {element}; {reason}"


class Judge:
    """Compares `program` with `reference`, for one set of inputs after the other.

    `exact` computes what a node should make, in float64; None: the definitions of the program's own ops do.

    Attributes:
        rows: what was found, by the node that makes a value and the value's exported name.
        comparison: of the first wrong value alone, or else of the one with the largest error in the run.
        is_repeatable: as of `Diff`.
    """

    def __init__(self, program: Program, reference: Runner, exact: Exported | None) -> None:
        self._program, self._reference, self._exact = program, reference, exact
        self._storage = find_storage(program.graph)
        self._names = {one.origin.value for n in program.lowered.nodes for one in n.outputs if one.origin is not None}
        self.rows: dict[Key, ValueDiff] = {}
        self.comparison: Comparison | None = None
        self._shown = (-1, 0.0)  # whether a wrong value is in `comparison`, and its error
        self.is_repeatable = True
        self._seen: set[int] = set()

    def judge(self, sets: Sequence[Any]) -> None:
        """Fill the attributes. Each set begins with the states that the one before it leaves, on both sides."""
        graph = self._program.lowered
        names = [name_of(value) for value in graph.state_inputs]
        ours: dict[str, NDArray[Any]] = dict(zip(names, self._program.new_state().values(), strict=True))
        theirs = dict(ours)
        for number, inputs in enumerate(sets):
            given = name_inputs(self._program, inputs)
            run = Run(self._program, {**ours, **given})  # which checks the inputs
            reference = {**self._reference.values(self._names, {**theirs, **given}), **theirs, **given}
            parts = _list_parts(run.graph, reference)
            self._compare_run(run, parts, reference, number)
            for part in parts:
                self._seen.update(run.graph.nodes.index(node) for node in part.nodes)
                self._judge_part(part, run, reference, number)
            self._judge_results(run, reference, number)
            ours = dict(zip(names, run.states, strict=True))
            after = [reference.get(name_of(value)) for value in graph.state_outputs]
            theirs = {name: ours[name] if one is None else one for name, one in zip(names, after, strict=True)}

    @property
    def unseen(self) -> int:
        """Nodes that compute something and are in no part."""
        nodes = enumerate(self._program.lowered.nodes)
        return len({number for number, node in nodes if node.op.view is None} - self._seen)

    def _compare_run(self, run: Run, parts: Iterable[Part], reference: Arrays, number: int) -> None:
        """The errors in the run, and whether it has the bits of each part alone, and of an ordinary run."""
        owners = {value: part for part in parts for value in part.made if not part.moves_only}
        uses = Counter(leaf for part in dict.fromkeys(owners.values()) for leaf in part.leaves)
        results: dict[Value, NDArray[Any]] = {}
        # Leaves of parts, whose memory may be gone when the last node of a part has run.
        leaves = dict(zip((*run.graph.call_inputs, *run.graph.state_inputs), (*run.inputs, *run.states), strict=True))

        def observe(_index: int, node: Node, read: Callable[[Value], NDArray[Any]], _seconds: float) -> None:
            for value in node.outputs:
                if value in run.graph.call_outputs:
                    results[value] = np.array(read(value), copy=True)
                if value in uses:
                    leaves[value] = np.array(read(value), order="C", copy=True)
                if value in owners:
                    expected, result = _view(value, reference[name_of(value)], run), read(value)
                    key, row = self._find_row(owners[value].last, value.origin, run)
                    error = measure(result, expected)
                    self.rows[key] = replace(row, error=max(row.error, error))
                    self._show(0, error, result, expected)
            for part in {owners[value]: None for value in node.outputs if value in owners}:
                given = [leaves[leaf] for leaf in part.leaves]
                uses.subtract(part.leaves)
                for leaf in part.leaves:
                    if not uses[leaf]:
                        del leaves[leaf]
                for value, alone in zip(part.made, _run_alone(part, given, run), strict=True):
                    if (result := read(value)).tobytes() != alone.tobytes():
                        judged = _Judged(result, alone, exceed(result, alone, np.zeros(alone.shape)))
                        self._note(self._find_row(part.last, value.origin, run), number, judged, "run")

        run.trace(observe)
        ordinary = dict(zip(run.graph.call_outputs, run.call(), strict=True))
        self.is_repeatable &= all(one.tobytes() == ordinary[value].tobytes() for value, one in results.items())

    def _find_row(self, node: Node, origin: Origin | None, run: Run) -> tuple[Key, ValueDiff]:
        assert origin is not None  # noqa: S101  (only such values are in parts)
        key = run.graph.nodes.index(node), origin.value
        if key not in self.rows:
            op = "+".join([node.op.name, *(step[0] for step in node.attributes.get("program", ()))])
            kernel = run.kernels.get(node, "")
            self.rows[key] = ValueDiff(origin.value, origin.module, origin.source, key[0], op, kernel, 0.0)
        return key, self.rows[key]

    def _show(self, is_wrong: int, error: float, result: NDArray[Any], expected: NDArray[Any]) -> None:
        """Keep the comparison of the first wrong node, or else that of the largest error in the run."""
        if is_wrong > self._shown[0] or (not is_wrong and not self._shown[0] and error > self._shown[1]):
            self._shown = is_wrong, error
            self.comparison = compare(np.array(result, copy=True), np.array(expected, copy=True), 0.0, 0.0)

    def _judge_part(self, part: Part, run: Run, reference: Arrays, number: int) -> None:
        """Run a part alone on the reference's values, rounded to the types of the program."""
        given = {name_of(value): reference[name_of(value)] for value in run.graph.inputs}
        given |= {name_of(leaf): round_to(reference[name_of(leaf)], leaf.dtype) for leaf in part.leaves}
        leaves = [np.asarray(_view(leaf, given[name_of(leaf)], run), order="C") for leaf in part.leaves]
        results = _run_alone(part, leaves, run)
        bound = Bound(part, self._storage)
        for position, value in enumerate(part.made):
            result = results[position]
            define = partial(_evaluate_definition, part.graph, leaves, position)
            evaluate: Callable[[Noise], NDArray[Any]] | None = None
            if self._exact is not None and name_of(value) in self._exact:
                compute = partial(self._exact.evaluate, name_of(value), given)
                evaluate = lambda noise: _view(value, compute(noise), run)  # noqa: B023, E731  # called in this turn
            judged = None if evaluate is None else _judge(result, evaluate, bound, stored=True)
            cause: Cause = "rewrite"
            if judged is None or judged.is_wrong or bound.is_coarse:
                defined = _judge(result, define, bound, stored=False)
                if judged is None or defined.is_wrong:
                    judged, cause = defined, "kernel"
            if judged.is_wrong or not part.moves_only:
                self._note(self._find_row(part.last, value.origin, run), number, judged, cause)

    def _judge_results(self, run: Run, reference: Arrays, number: int) -> None:
        """Results of the program that are said to equal another exported value than the model returns."""
        exact = self._exact
        for name, slot in zip(exact.results if exact else (), run.graph.signature.output_slots, strict=False):
            value = run.graph.call_outputs[slot] if isinstance(slot, int) else None
            if exact is None or name is None or value is None or value.origin is None or value.node is None:
                continue
            if name == value.origin.value or value.origin.value not in reference:
                continue
            given = {name_of(one): reference[name_of(one)] for one in (*run.graph.inputs, value)}
            expected = exact.evaluate(name, given)
            result = _view(value, widen(reference[name_of(value)]), run)
            judged = _Judged(result, expected, exceed(result, expected, _EQUAL * (1 + np.abs(expected))))
            if expected.size and judged.is_wrong:
                place = Origin(name, *exact.locate(name))
                self._note(self._find_row(value.node, place, run), number, judged, "rewrite")

    def _note(self, found: tuple[Key, ValueDiff], number: int, judged: _Judged, cause: Cause) -> None:
        key, row = found
        result, expected, over = judged.result, judged.expected, judged.over
        own, most = measure(result, expected), float(over.max())
        if row.over_bound is None or most > row.over_bound:
            at = tuple(map(int, np.unravel_index(int(over.argmax()), over.shape)))
            row = replace(row, over_bound=most, worst=(at, float(result[at]), float(expected[at])))
        if judged.is_wrong:
            row = replace(row, sets=tuple(dict.fromkeys((*row.sets, number))), cause=cause)
            self._show(1, own, result, expected)
        self.rows[key] = replace(row, own=max(row.own or 0.0, own))


class _Judged(NamedTuple):
    """What a part made of the reference's values; `over` is the error of each element over its bound."""

    result: NDArray[Any]
    expected: NDArray[Any]
    over: NDArray[Any]

    @property
    def is_wrong(self) -> bool:
        return bool(self.over.max() > 1)


def _judge(result: NDArray[Any], evaluate: Callable[[Noise], NDArray[Any]], bound: Bound, *, stored: bool) -> _Judged:
    expected = evaluate(Noise())
    limits = bound.compute(expected, str(result.dtype), evaluate, stored=stored)
    return _Judged(result, expected, exceed(result, expected, limits))


def _run_alone(part: Part, leaves: Sequence[NDArray[Any]], run: Run) -> list[NDArray[Any]]:
    results = allocate(part.graph.outputs)
    run.specialised.executable_of(part.graph).run(leaves, results)
    return results


def _list_parts(graph: Graph, reference: Arrays) -> list[Part]:
    """Each part of a graph that computes values which the reference has, from others that it has."""
    made = [
        [one for one in node.outputs if one.origin is not None and name_of(one) in reference] for node in graph.nodes
    ]
    known = {value for values in made for value in values}
    return [cut(graph, tuple(values), known) for values in made if values and values[0].type.size]


def _view(value: Value, exported: NDArray[Any], run: Run) -> NDArray[Any]:
    """The elements of a graph's value, from those of the exported one."""
    return exported if value.origin is None else value.origin.apply(exported, run.specialised.sizes)


def _evaluate_definition(graph: Graph, leaves: Sequence[NDArray[Any]], position: int, noise: Noise) -> NDArray[Any]:
    """What the definitions of the ops give, in the types of the program, with noise in the leaves alone."""
    generator = np.random.default_rng(noise.seed)
    moved = [
        one * (1 + noise.values * generator.standard_normal(one.shape)) if one.dtype.kind not in "iub" else one
        for one in leaves
    ]
    rounded = [one.astype(leaf.dtype) for one, leaf in zip(moved, leaves, strict=True)]
    return run_definitions(graph, rounded)[position].astype(np.float64)


def measure(result: NDArray[Any], expected: NDArray[Any]) -> float:
    """Root of the mean squared difference over that of `expected`; infinite if NaNs and infinities differ."""
    ours, theirs = widen(result), widen(expected)
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True) or not np.isfinite(ours[finite]).all():
        return float("inf")
    size = float(np.linalg.norm(theirs[finite]))
    error = float(np.linalg.norm(ours[finite] - theirs[finite]))
    return error / size if size else error
