"""Every value of one run: what it is, where the model makes it, its numbers."""

from __future__ import annotations

import fnmatch
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from engine import dtypes
from engine.errors import ConfigError
from engine.graph import Graph, Node, Value
from engine.runtime.report import shortened, table
from engine.suggest import find_nearest

Kind = Literal["input", "weight", "constant", "state", "computed", "output"]


_STORED = ("weight", "constant")


@dataclass(frozen=True)
class TensorStatistics:
    """Of one tensor. Minimum, maximum, mean and standard deviation are over finite elements; None if there are none."""

    dtype: str
    shape: tuple[int, ...]
    minimum: float | None
    maximum: float | None
    mean: float | None
    std: float | None
    nans: int
    infinities: int

    def exceeds(self, limit: float) -> bool:
        """True if a finite element is larger than `limit` in magnitude. Integers, such as ids, never are."""
        if dtypes.dtype(self.dtype).kind != "float":
            return False
        return any(bound is not None and abs(bound) > limit for bound in (self.minimum, self.maximum))


def summarise(array: np.ndarray) -> TensorStatistics:
    """Statistics of an array; its sums are in float64."""
    kind = dtypes.from_numpy(array.dtype)
    wide = array.astype(np.float64 if kind.kind == "float" else np.int64).reshape(-1)
    nans = infinities = 0
    with np.errstate(invalid="ignore"):
        is_finite = np.isfinite(wide.sum(dtype=np.float64))
    if not is_finite:
        nans, infinities = int(np.isnan(wide).sum()), int(np.isinf(wide).sum())
        wide = wide[np.isfinite(wide)]
    if not wide.size:
        return TensorStatistics(kind.name, array.shape, None, None, None, None, nans, infinities)
    mean = float(wide.mean())
    apart = wide - mean
    std = float(np.sqrt(np.dot(apart, apart) / wide.size))
    least, most = float(wide.min()), float(wide.max())
    return TensorStatistics(kind.name, array.shape, least, most, mean, std, nans, infinities)


@dataclass(frozen=True, eq=False)
class ValueTrace:
    """One value of a traced run.

    Attributes:
        name: of the exported value that it equals; of the others of these, and of those that equal none, the name in
            the program's graph behind a ``%``. Inputs and weights have their own names.
        kind: a ``weight`` is a parameter of the model or made of one; other constants, such as masks, are ``constant``.
            A value that the program returns is an ``output``, also where nodes read it.
        dtype, shape: of its elements.
        exported: the node of torch's exported graph whose value it equals but for its axes; "" if none is known.
        module, source: where the model makes that value: the path of the module, and ``file:line``; or "".
        array: the elements, if they were asked to be kept.
    """

    name: str
    kind: Kind
    dtype: str
    shape: tuple[int, ...]
    exported: str = ""
    module: str = ""
    source: str = ""
    array: np.ndarray | None = None
    _summarise: Callable[[], TensorStatistics] = field(default=lambda: summarise(np.empty(0)), repr=False)

    @cached_property
    def statistics(self) -> TensorStatistics:
        """Of its elements. Those of weights and constants are computed when they are first asked for."""
        return self._summarise()

    def to_dict(self) -> dict[str, Any]:
        """JSON-able values, without the array, and of weights and constants without statistics."""
        named = {key: getattr(self, key) for key in ("name", "kind", "dtype", "shape", "exported", "module", "source")}
        numbers = {} if self.kind in _STORED else asdict(self.statistics)
        return named | {key: numbers[key] for key in numbers if key not in named}


@dataclass(frozen=True, eq=False)
class NodeTrace:
    """One node of a traced run, or one call that torch runs.

    Attributes:
        index: its position in the trace.
        op, attributes: as `docs/ops.md` has them; a call of torch has no attributes.
        steps: the ops of a fused pointwise node, first to last; otherwise empty.
        inputs: what it reads; None for an absent optional input.
        outputs: what it makes.
        parents, children: positions of the nodes that make its inputs, and that read its outputs.
        device: where it ran.
        seconds: of its steps.
        module, source: as in `NodeProfile`.
    """

    index: int
    op: str
    attributes: Mapping[str, Any]
    steps: tuple[str, ...]
    inputs: tuple[ValueTrace | None, ...]
    outputs: tuple[ValueTrace, ...]
    parents: tuple[int, ...]
    children: tuple[int, ...]
    device: str
    seconds: float
    module: str = ""
    source: str = ""

    @property
    def name(self) -> str:
        """That of its first output."""
        return self.outputs[0].name

    def to_dict(self) -> dict[str, Any]:
        """JSON-able values, without arrays; inputs by name."""
        simple = {key: getattr(self, key) for key in ("index", "op", "steps", "parents", "children", "device")}
        return {
            **simple,
            "attributes": {name: _plain(value) for name, value in self.attributes.items()},
            "seconds": self.seconds,
            "module": self.module,
            "source": self.source,
            "inputs": [None if one is None else one.name for one in self.inputs],
            "outputs": [one.to_dict() for one in self.outputs],
        }


class Bad(NamedTuple):
    """The first bad value of a run.

    Attributes:
        node: that makes it; None for an input, a state or a weight of the program.
        value: the value.
        what: ``NaN``, ``Inf``, or ``a magnitude above ...``.
    """

    node: NodeTrace | None
    value: ValueTrace
    what: str

    def __str__(self) -> str:
        if self.node is None:
            return f"{self.value.kind} {self.value.name} has {self.what}"
        where = "".join(
            f" {word} {text}" for word, text in (("in", self.node.module), ("at", self.node.source)) if text
        )
        return f"node {self.node.index}, {self.node.op}, makes {self.what}: {self.value.name}{where}"


@dataclass(frozen=True)
class Trace:
    """One run.

    Attributes:
        nodes: every node, in order.
        inputs: inputs and states of the program that a node reads, as they were before the run.
        weights: weights and constants that nodes read.
    """

    nodes: tuple[NodeTrace, ...]
    inputs: tuple[ValueTrace, ...] = ()
    weights: tuple[ValueTrace, ...] = ()

    @property
    def kept(self) -> dict[str, np.ndarray]:
        """Name of a value -> its elements, of all that are kept."""
        made = (value for node in self.nodes for value in node.outputs)
        return {one.name: one.array for one in (*self.inputs, *self.weights, *made) if one.array is not None}

    def first_bad(self, limit: float | None = None) -> Bad | None:
        """The first value with a NaN or an infinity that what it is made of has not; None if there is none.

        A mask of infinities, a constant, is not bad.

        Args:
            limit: a finite magnitude above this is bad, too.
        """
        for given in self.inputs:
            if found := _faults(given, limit):
                return Bad(None, given, found)
        for node in self.nodes:
            for value in node.outputs:
                if not _faults(value, limit):
                    continue
                read = [one for one in node.inputs if one is not None]
                for stored in read:
                    damage = _faults(stored, limit) if stored.kind in _STORED else ""
                    if damage == "NaN" or (damage and stored.kind == "weight"):
                        return Bad(None, stored, damage)
                if found := _faults(value, limit, read):
                    return Bad(node, value, found)
        return None

    def to_dict(self) -> dict[str, Any]:
        """JSON-able values, without arrays."""
        return {
            "inputs": [one.to_dict() for one in self.inputs],
            "weights": [one.to_dict() for one in self.weights],
            "nodes": [one.to_dict() for one in self.nodes],
        }

    def __str__(self) -> str:
        rows = []
        for n in self.nodes:
            s = n.outputs[0].statistics
            shape = "x".join(map(str, s.shape)) or "scalar"
            measured = (s.minimum, s.maximum, s.mean, s.std, s.nans, s.infinities)
            rows.append((n.index, n.op, n.name, s.dtype, shape, *measured, shortened(n.module)))
        return table(("#", "op", "value", "dtype", "shape", "min", "max", "mean", "std", "NaN", "Inf", "module"), rows)


def _faults(value: ValueTrace, limit: float | None, read: Sequence[ValueTrace] = ()) -> str:
    """What is bad about a value that nothing of `read` has; "" if nothing is."""
    own, others = value.statistics, [one.statistics for one in read]
    if own.nans and not any(one.nans for one in others):
        return "NaN"
    if own.infinities and not any(one.infinities for one in others):
        return "Inf"
    if limit is not None and own.exceeds(limit) and not any(one.exceeds(limit) for one in others):
        return f"a magnitude above {limit:g}"
    return ""


# --- what is kept ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Keep:
    """What arrays a trace keeps.

    Attributes:
        positions: nodes whose inputs and outputs are kept.
        patterns: names of values and modules, and patterns of them.
    """

    positions: frozenset[int] = frozenset()
    patterns: tuple[str, ...] = ()

    @staticmethod
    def read(keep: Iterable[int | str] | None) -> Keep:
        """The argument `keep` of `trace`. ConfigError if it is no iterable of whole numbers and text."""
        refused = ConfigError(f"trace: keep: expected names or positions, such as ['encoder.*', 3], got {keep!r}")
        if isinstance(keep, str):
            raise refused
        try:
            wanted = [one if isinstance(one, str) else _whole_number(one) for one in (() if keep is None else keep)]
        except TypeError:
            raise refused from None
        patterns = tuple(one for one in wanted if isinstance(one, str))
        return Keep(frozenset(one for one in wanted if isinstance(one, int)), patterns)

    def within(self, first: int, names: Sequence[Collection[str]], count: int) -> list[int | str]:
        """The argument `keep` for a part of a trace: `count` nodes from position `first` on, with these names."""
        inside = [one - first for one in self.positions if first <= one < first + count]
        return [*inside, *(one for one in self.patterns if any(_matches(own, one) for own in names))]

    def matches(self, names: Collection[str]) -> bool:
        """True if a name or pattern is one of `names`."""
        return any(_matches(names, pattern) for pattern in self.patterns)

    def select(self, names: Collection[Collection[str]], count: int) -> set[int]:
        """Which values are kept by name: positions in `names`, which has all names of each value.

        Raises:
            ConfigError: a position that none of `count` nodes has, or a name or pattern that matches nothing.
        """
        for position in sorted(self.positions):
            if not 0 <= position < count:
                nearest = f"the nearest is {0 if position < 0 else count - 1}" if count else "there are none"
                raise ConfigError(
                    f"trace: keep: no node has the position {position}; the trace has {count} nodes, and {nearest}"
                )
        selected: set[int] = set()
        for pattern in self.patterns:
            found = {number for number, own in enumerate(names) if _matches(own, pattern)}
            if not found:
                near = find_nearest(pattern, {name for own in names for name in own if name})
                hint = f"; did you mean {near!r}?" if near else ""
                raise ConfigError(f"trace: keep: no value or module is called {pattern!r}{hint}")
            selected |= found
        return selected


def _matches(names: Collection[str], pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in names)


def _whole_number(value: Any) -> int:
    """`value` as an int. TypeError if it is a truth value or no whole number."""
    if isinstance(value, bool):
        raise TypeError(value)
    return operator.index(value)


def name_values(graph: Graph) -> dict[Value, str]:
    """The name of each value that a node makes: that of the exported value that it equals.

    Where several equal one, the first with the fewest views has its name. Other values have their own name in the graph
    behind a ``%``, because the same word may be the name of an exported value.
    """
    nearest: dict[str, Value] = {}
    made = [value for node in graph.nodes for value in node.outputs]
    for value in made:
        if (origin := value.origin) is not None:
            known = nearest.setdefault(origin.value, value).origin
            if known is not None and len(origin.view) < len(known.view):
                nearest[origin.value] = value
    named = {value: name for name, value in nearest.items()}
    return {value: named.get(value, f"%{value.name}") for value in made}


def names_of(value: Value, name: str, node: Node | None) -> tuple[str, ...]:
    """All names that `keep` may have for a value of a graph called `name`, which `node` makes."""
    origin = value.origin
    exported = () if origin is None else (origin.value, origin.module)
    return (name, *exported, *(() if node is None else (node.source.module,)))


# --- recording a graph ----------------------------------------------------------------------------------------------


class Recorder:
    """Observes a run of `graph` on `device` (see `engine.targets.base.Observer`)."""

    def __init__(self, graph: Graph, device: str, keep: Keep) -> None:
        self._graph, self._device = graph, device
        makers = {value: (number, node) for number, node in enumerate(graph.nodes) for value in node.outputs}
        self._makers = {value: number for value, (number, _) in makers.items()}
        values = [*graph.inputs, *makers]
        self._names = name_values(graph)
        names = [
            names_of(value, self._names.get(value, value.name), makers[value][1] if value in makers else None)
            for value in values
        ]
        self._kept = {values[number] for number in keep.select(names, len(graph.nodes))}
        for position in keep.positions:
            node = graph.nodes[position]
            self._kept |= {value for value in (*node.inputs, *node.outputs) if value is not None}
        readers: dict[int, dict[int, None]] = {}
        for number, node in enumerate(graph.nodes):
            for value in node.inputs:
                if value in self._makers:
                    readers.setdefault(self._makers[value], {})[number] = None
        self._children = {number: tuple(found) for number, found in readers.items()}
        self._known: dict[Value, ValueTrace] = {}
        self._nodes: list[NodeTrace] = []

    def __call__(self, index: int, node: Node, read: Callable[[Value], np.ndarray], seconds: float) -> None:
        inputs = tuple(None if value is None else self._record(value, read) for value in node.inputs)
        outputs = tuple(self._record(value, read) for value in node.outputs)
        parents = dict.fromkeys(self._makers[value] for value in node.inputs if value in self._makers)
        program = node.attributes.get("program", ())
        self._nodes.append(
            NodeTrace(
                index,
                node.op.name,
                node.attributes,
                tuple(step[0] for step in program),
                inputs,
                outputs,
                tuple(parents),
                self._children.get(index, ()),
                self._device,
                seconds,
                node.source.module,
                node.source.line,
            )
        )

    def trace(self) -> Trace:
        """What was observed."""
        given = [one for value, one in self._known.items() if value not in self._makers]
        inputs, weights = (
            tuple(one for one in given if (one.kind in _STORED) == is_stored) for is_stored in (False, True)
        )
        return Trace(tuple(self._nodes), inputs, weights)

    def _record(self, value: Value, read: Callable[[Value], np.ndarray]) -> ValueTrace:
        if value not in self._known:
            kind = self._kind(value)
            array = np.array(read(value), copy=True) if value in self._kept else None
            if kind in _STORED:
                statistics: Callable[[], TensorStatistics] = lambda: summarise(value.elements)  # noqa: E731
            else:
                made = summarise(read(value))
                statistics = lambda: made  # noqa: E731
            origin = value.origin
            self._known[value] = ValueTrace(
                self._names.get(value, value.name),
                kind,
                value.dtype,
                tuple(value.shape),
                "" if origin is None else origin.value,
                "" if origin is None else origin.module,
                "" if origin is None else origin.source,
                array,
                statistics,
            )
        return self._known[value]

    def _kind(self, value: Value) -> Kind:
        if value.is_constant:
            return "weight" if value.is_parameter or value.type.encoding is not None else "constant"
        if value in self._graph.state_inputs:
            return "state"
        if value in self._graph.call_outputs:
            return "output"
        return "computed" if value in self._makers else "input"


def list_names(graph: Graph) -> list[tuple[str, ...]]:
    """The names of what each node of `graph` makes, for `Keep.select`."""
    names = name_values(graph)
    return [names_of(value, names[value], node) for node in graph.nodes for value in node.outputs]


def renumber(node: NodeTrace, first: int) -> NodeTrace:
    """`node` in a longer trace, in which its part begins at position `first`."""
    parents, children = (tuple(first + one for one in part) for part in (node.parents, node.children))
    return replace(node, index=first + node.index, parents=parents, children=children)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | tuple | list | None) else str(value)
