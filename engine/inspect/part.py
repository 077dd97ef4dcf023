"""A part of a program's graph that runs alone, and how far its result may be from the exact one.

The bound is derived from what the ops declare, `Op.rounding` and `Op.flops`, not from measured errors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from engine import dtypes
from engine.graph import Graph, Node, Value
from engine.inspect.compare import widen
from engine.inspect.exported import Noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

PROBES = 4
"""Evaluations with noise, from which the sensitivity of each element is estimated. With noise in values there are as
many with the opposite noise: an element at a jump, such as one that is rounded to an integer, crosses it in one of two.
"""
_SAFETY = 64
"""Units of roundoff beside one for each term of a sum: for the estimate, and for functions such as exp."""
_SPREAD = 8
"""Standard deviations, about, that the rounding of stored numbers may move a result."""
_FINE = 2.0**-20
"""Numbers that are stored with a smaller error than this count as exact."""
_ELEMENTWISE = ("pointwise", "shape", "create", "index", "write", "order")


@dataclass(frozen=True)
class Part:
    """Some nodes of a graph, as a graph of their own.

    Attributes:
        graph: whose inputs stand for `leaves`, and outputs for `made`. Constants are those of the whole graph.
        leaves: the values of the whole graph that the part begins at.
        made: the values of the whole graph that it computes.
        nodes: those of the whole graph, in order.
    """

    graph: Graph
    leaves: tuple[Value, ...]
    made: tuple[Value, ...]
    nodes: tuple[Node, ...]

    @property
    def last(self) -> Node:
        """The last node that computes something, or the last one if none does."""
        return [node for node in self.nodes if node.op.view is None or self.moves_only][-1]

    @property
    def moves_only(self) -> bool:
        """True if no node computes anything."""
        return all(node.op.view is not None for node in self.nodes)


def cut(graph: Graph, made: tuple[Value, ...], known: Collection[Value]) -> Part:
    """The nodes that compute `made`, results of one node, from values in `known` and inputs of the graph."""
    leaves: dict[Value, None] = {}
    nodes: set[Node] = set()
    waiting = [made[0].node]
    while waiting:
        node = waiting.pop()
        if node is None or node in nodes:
            continue
        nodes.add(node)
        for value in node.inputs:
            if value is None or value.is_constant:
                continue
            if value in known or value.node is None:
                leaves[value] = None
            else:
                waiting.append(value.node)
    ordered = tuple(node for node in graph.nodes if node in nodes)
    return Part(_copy(graph.name, ordered, tuple(leaves), made), tuple(leaves), made, ordered)


def _copy(name: str, nodes: tuple[Node, ...], leaves: tuple[Value, ...], made: tuple[Value, ...]) -> Graph:
    graph = Graph(name)
    values = {value: Value(value.name, value.type) for value in leaves}
    graph.inputs = list(values.values())
    for node in nodes:
        inputs = [None if v is None else values.get(v, v) for v in node.inputs]
        new = Node(node.op, inputs, node.attributes, node.source)
        new.outputs = [Value(value.name, value.type, node=new) for value in node.outputs]
        values |= zip(node.outputs, new.outputs, strict=True)
        graph.nodes.append(new)
    graph.outputs = [values[value] for value in made]
    return graph


# --- the bound ------------------------------------------------------------------------------------------------------


class Bound:
    """How far results of `part` may be from those of exact arithmetic on the same leaves.

    Of an element y:

        bound = 2 d + u" |y| + 8 m

    d is the most that y moves in a few evaluations in which every value that it is computed from is changed at random
    by about a share (K + 64) u + 4 u' of itself: a sum of large terms that cancel may be wrong by more than its size
    tells, and an element at a jump by the whole jump. K is the number of terms of a node's longest sum, u the unit
    roundoff of the type in which its kernels sum, u' and u" that of the element types at its rounding points, the
    last of which is that of the result; (K + 64) u and u' are summed over nodes and points. Where there are sums, d
    is at least its root mean square over the tensor, and the share of that of y. m, likewise, is how far y moves if
    the weights, and what the part quantises, are rounded at random as coarsely as they are stored.

    `stored` is how coarsely `find_storage` says that weights of the program are stored. A pass may have decoded them.
    """

    def __init__(self, part: Part, stored: Noise) -> None:
        self._has_sums = any(node.op.family not in _ELEMENTWISE for node in part.nodes if node.op.view is None)
        self._sums = self._points = given = 0.0
        reads_weights = False
        for node in part.nodes:
            kind = _float_type(node)
            if node.op.view is not None or kind is None:
                continue
            self._sums += (_terms(node) + _SAFETY) * roundoff(node.op.rounding.accumulation.get(kind, kind))
            self._points += max(0, len(node.op.rounding.points) - (node is part.last)) * roundoff(kind)
            compute = node.attributes.get("compute")
            self._points += roundoff("bfloat16") if compute == "bfloat16" else 0.0
            given = max(given, 1 / 254 if compute == "int8" else 0.0)
            reads_weights |= any(one is not None and one.is_constant and len(one.shape) > 1 for one in node.inputs)
        self.storage = stored._replace(quantised=stored.quantised if reads_weights else 0.0, given=given)
        self._least = max((8 * roundoff(value.dtype) for value in part.leaves), default=0.0)

    @property
    def is_coarse(self) -> bool:
        """True if weights, or what the part quantises, are stored with fewer digits than float32 has."""
        return self.storage != Noise()

    def compute(
        self, expected: NDArray[Any], dtype: str, evaluate: Callable[[Noise], NDArray[Any]], *, stored: bool
    ) -> NDArray[Any]:
        """The bound of each element of `expected`, which `evaluate` computes with noise; the result has type `dtype`.

        Without `stored`, `expected` is of the weights as they are stored, and m is 0.
        """
        share = self._sums + 4 * self._points
        # Where values have few digits, smaller noise would be rounded away; the move is then taken to be proportional.
        step = share if stored else max(share, self._least)
        scale = 2 * share / step if step else 0.0
        bound = self._find_largest(expected, evaluate, Noise(step)) * scale
        found = dtypes.dtype(dtype)
        if found.kind != "float":
            return np.where(bound > 0, np.inf, 0.0)  # an integer that rounding may change is not judged
        if self._has_sums:
            bound = np.maximum(bound, share * _mean_square(expected))
        size = np.where(np.isfinite(expected), np.abs(expected), 0.0)
        bound += 2.02 * roundoff(dtype) * size + float(ml_dtypes.finfo(found.numpy).smallest_normal)
        if stored and self.is_coarse:
            bound += _SPREAD * self._find_largest(expected, evaluate, self.storage)
        return np.asarray(bound)

    def _find_largest(
        self, expected: NDArray[Any], evaluate: Callable[[Noise], NDArray[Any]], noise: Noise
    ) -> NDArray[Any]:
        """How far each element moves at most in a few evaluations; infinite for one that becomes no number."""
        found = np.zeros(expected.shape)
        with np.errstate(all="ignore"):
            for seed, sign in product(range(1, PROBES + 1), (1, -1) if noise.values else (1,)):
                other = evaluate(noise._replace(seed=seed, values=sign * noise.values)).astype(np.float64)
                change = np.abs(other - expected)
                same = (other == expected) | (np.isnan(other) & np.isnan(expected))
                found = np.maximum(found, np.where(same, 0.0, np.where(np.isnan(change), np.inf, change)))
        return np.maximum(found, _mean_square(found)) if self._has_sums else found


def find_storage(graph: Graph) -> Noise:
    """How coarsely the floating-point constants of a program are stored."""
    rounded = quantised = 0.0
    for value in graph.constants():
        encoding = value.type.encoding
        if encoding is not None and encoding.is_integer:
            quantised = max(quantised, 1 / (encoding.high - encoding.low))
        else:
            rounded = max(rounded, roundoff(value.dtype if encoding is None else encoding.stored))
    return Noise(rounded=rounded if rounded > _FINE else 0.0, quantised=quantised)


def _mean_square(array: NDArray[Any]) -> float:
    """The root of the mean square of the finite elements."""
    finite = array[np.isfinite(array)].astype(np.float64)
    return float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0


def exceed(result: NDArray[Any], expected: NDArray[Any], bound: NDArray[Any]) -> NDArray[Any]:
    """The error of each element over its bound; infinite where only one has a NaN, or this infinity.

    What is beyond the range of the result's type is infinite in it.
    """
    ours, theirs = widen(result), widen(expected)
    if dtypes.from_numpy(result.dtype).kind == "float":
        most = float(ml_dtypes.finfo(result.dtype).max)
        theirs = np.where(np.abs(theirs) > most, np.copysign(np.inf, theirs), theirs)
    with np.errstate(all="ignore"):
        equal = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        ratio = np.abs(ours - theirs) / bound
    return np.where(equal | np.isinf(bound), 0.0, np.where(np.isnan(ratio), np.inf, ratio))


def roundoff(dtype: str) -> float:
    """Half the spacing of numbers near 1; 0 for integers."""
    found = dtypes.dtype(dtype)
    return float(ml_dtypes.finfo(found.numpy).eps) / 2 if found.kind == "float" else 0.0


def _terms(node: Node) -> int:
    """Terms of the longest sum of one element of the result."""
    if node.op.family in _ELEMENTWISE:
        return len(node.attributes.get("program", ())) or 1
    made = max(1, sum(value.type.size for value in node.outputs))
    longest = max((size for v in (*node.inputs, *node.outputs) if v is not None for size in v.shape), default=1)
    return max(longest, -(-node.flops() // (2 * made)))


def _float_type(node: Node) -> str | None:
    """The floating-point type that a node computes in; None for integers."""
    kinds = [value.dtype for value in (*node.outputs, *node.inputs) if value is not None]
    return next((kind for kind in kinds if dtypes.dtype(kind).kind == "float"), None)
