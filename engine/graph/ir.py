"""The graph: values, nodes, text form, and the few ways to change it. Knows the op table; knows no pass and no torch.

A graph is functional: a node never changes its inputs. Nodes are kept in a valid execution order at all times.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from engine import dtypes, sizes
from engine.graph import origin as origins
from engine.graph.origin import Origin
from engine.ops import TABLE, Op, TensorType

Form = np.ndarray | Callable[[], np.ndarray]
"""A constant's elements, or what makes them whenever somebody looks."""


def identity(form: Form) -> Hashable:
    """Equal for forms that are the same elements of the same memory, or made of such in the same way."""
    if callable(form):
        return getattr(form, "identity", id(form))
    return (form.ctypes.data, form.shape, form.strides, str(form.dtype))


class Joined:
    """Constants one after the other along an axis; made when called."""

    def __init__(self, parts: Sequence[Value], axis: int) -> None:
        self.parts = parts
        self.axis = axis
        self.identity = ("joined", axis, *(identity(part.form) for part in parts if part.form is not None))

    def __call__(self) -> np.ndarray:
        """The elements."""
        return np.concatenate([part.elements for part in self.parts], self.axis)


class Reshaped:
    """A constant's elements in row-major order, seen in another shape; made when called.

    Args:
        base: the constant.
        shape: as many elements as it has.
    """

    def __init__(self, base: Form, shape: tuple[int, ...]) -> None:
        self.base = base
        self.shape = shape
        self.identity = ("reshaped", shape, identity(base))

    def __call__(self) -> np.ndarray:
        """The elements."""
        return np.asarray(self.base() if callable(self.base) else self.base).reshape(self.shape)


class Value:
    """One tensor of a graph: an input, a constant (then `form` is set) or an output of a node.

    Attributes:
        origin: the exported value that it equals, with the view between them; None where it equals none. Read-only:
            `trace_to` and `inherit` set it.
    """

    __slots__ = ("form", "name", "node", "origin", "type")

    def __init__(self, name: str, type_: TensorType, form: Form | None = None, node: Node | None = None) -> None:
        self.name = name
        self.type = type_
        self.form = form
        self.node = node
        self.origin: Origin | None = None

    def trace_to(self, origin: Origin | None) -> None:
        """Record that this value equals `origin`, and so does what it is a view of, with that view undone.

        Of two origins the one with fewer views between is kept; the first where they have as many.
        """
        value: Value = self
        while origin is not None and (value.origin is None or len(origin.view) < len(value.origin.view)):
            value.origin = origin
            node = value.node
            if node is None or node.op.view is None:
                return
            below = node.operand("x")
            origin = origin.through(origins.undo(node.op.name, node.attributes, below.shape, value.shape))
            value = below

    def inherit(self, other: Value) -> None:
        """Record that this value equals what `other` equals, in whose place it is read."""
        self.trace_to(other.origin)

    @property
    def data(self) -> np.ndarray | None:
        """The elements of a constant; made anew at each look where `form` is what makes them."""
        return None if self.form is None else self.elements

    @property
    def elements(self) -> np.ndarray:
        """`data` of what must be a constant; ValueError where it is none."""
        if self.form is None:
            raise ValueError(f"{self}: expected a constant")
        return self.form() if callable(self.form) else self.form

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.type.shape

    @property
    def dtype(self) -> str:
        """The name of the element type."""
        return self.type.dtype

    @property
    def is_constant(self) -> bool:
        """True where the value is known when compiling."""
        return self.form is not None

    @property
    def scalar(self) -> float | int | bool | None:
        """The value of a constant with one element; None for everything else."""
        if self.form is None or self.type.size != 1:
            return None
        return self.elements.reshape(-1)[0].item()

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


class Node:
    """One application of an op. Passes do not change it: they emit another node (`Graph.emit_again`) and replace it.

    ``node["bias"]`` is the input of that declared name, None where it is absent.

    Attributes:
        op: the declaration.
        outputs: the values that it makes.
        source: ``file:line`` in the user's model, or "".
    """

    __slots__ = ("_attributes", "_inputs", "op", "outputs", "source")

    def __init__(self, op: Op, inputs: Sequence[Value | None], attributes: dict[str, Any], source: str) -> None:
        self.op = op
        self._inputs = tuple(inputs)
        self._attributes = attributes
        self.source = source
        self.outputs: list[Value] = []

    @property
    def inputs(self) -> tuple[Value | None, ...]:
        """Values in declared order; None for an absent optional input."""
        return self._inputs

    @property
    def attributes(self) -> MappingProxyType[str, Any]:
        """All attributes of the op, defaults filled in; read-only."""
        return MappingProxyType(self._attributes)

    @property
    def output(self) -> Value:
        """The only output; ValueError where there are several."""
        (value,) = self.outputs
        return value

    def __getitem__(self, name: str) -> Value | None:
        """The input that the op declares as `name`, or None where it is absent.

        Raises:
            KeyError: the op declares no such input, or the name is variadic: those are read from `inputs`.
        """
        return self._inputs[self.op.single_position(name)]

    def operand(self, name: str) -> Value:
        """The input that the op declares as `name`, which must be present.

        Raises:
            KeyError: as for ``node[name]``.
            ValueError: it is absent.
        """
        value = self[name]
        if value is None:
            raise ValueError(f"{self.op.name}: input {name!r} is absent")
        return value

    def flops(self) -> int:
        """Arithmetic operations of one run."""
        return self.op.flops(_types(self.inputs), [v.type for v in self.outputs], self.attributes)

    def nbytes(self) -> int:
        """Bytes read and written by one run, each operand once."""
        return self.op.nbytes(_types(self.inputs), [v.type for v in self.outputs], self.attributes)

    def __repr__(self) -> str:
        inputs = ", ".join("none" if v is None else f"%{v.name}" for v in self.inputs)
        attributes = "".join(f", {k}={v}" for k, v in self.attributes.items())
        outputs = ", ".join(map(repr, self.outputs))
        return f"{outputs} = {self.op.name}({inputs}{attributes})"


def _types(values: Iterable[Value | None]) -> list[TensorType | None]:
    return [None if v is None else v.type for v in values]


class Graph:
    """Inputs, nodes in execution order, outputs. Constants are values with data, found through the nodes.

    Attributes:
        scope: the sizes that differ from call to call, and what is taken for granted about them.
        states: buffers that the model writes to, each with its first elements (None: zeros). The last inputs are what
            they hold before a call and the last outputs what they hold after it, in the same order.
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.scope = sizes.Scope()
        self.states: list[tuple[str, np.ndarray | Value | None]] = []
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.nodes: list[Node] = []
        self._names: dict[str, int] = {}

    # --- making values and nodes -------------------------------------------------------------------------------

    def unique(self, stem: str) -> str:
        """A name not given before, made from `stem`."""
        count = self._names.get(stem, 0)
        self._names[stem] = count + 1
        return stem if count == 0 else self.unique(f"{stem}_{count}")

    def add_input(self, name: str, type_: TensorType) -> Value:
        """A new graph input, after the present ones."""
        value = Value(self.unique(name), type_)
        self.inputs.append(value)
        return value

    def constant(self, data: np.ndarray, name: str = "const") -> Value:
        """A value known now. The array is shared, not copied, and must not change."""
        data = np.asarray(data)
        return Value(self.unique(name), TensorType(dtypes.from_numpy(data.dtype).name, data.shape), data)

    def later(self, make: Callable[[], np.ndarray], type_: TensorType, name: str) -> Value:
        """A constant that is made when somebody looks, and again for the next one: nobody keeps it meanwhile.

        For what passes make of large weights: packing looks once, at one of them after the other.
        """
        return Value(self.unique(name), type_, make)

    def joined(self, parts: Sequence[Value], axis: int) -> Value:
        """The constants `parts`, which differ in size along `axis` alone, one after the other, as a constant `later`.

        Raises:
            ValueError: one of them is no constant.
        """
        if not all(part.is_constant for part in parts):
            raise ValueError(f"{', '.join(map(repr, parts))}: expected constants")
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        name = "+".join(part.name for part in parts)
        return self.later(Joined(parts, axis), TensorType(parts[0].dtype, tuple(shape)), name)

    def reshaped(self, constant: Value, shape: tuple[int, ...]) -> Value:
        """The elements of `constant` in another shape, as a constant `later`, which reads none of them now.

        Raises:
            ValueError: it is no constant.
        """
        if constant.form is None:
            raise ValueError(f"{constant!r}: expected a constant")
        return self.later(Reshaped(constant.form, shape), TensorType(constant.dtype, shape), constant.name)

    def scalar(self, value: float, dtype: str) -> Value:
        """A constant of rank 0."""
        return self.constant(np.asarray(value, dtype=dtypes.dtype(dtype).numpy), "scalar")

    def emit(
        self,
        op: str,
        inputs: Sequence[Value | None] | Mapping[str, Value | None],
        *,
        before: Node | None = None,
        source: str = "",
        name: str = "",
        **attributes: Any,
    ) -> Value:
        """Add a node (at the end, or before another), infer its types, return its first output.

        Args:
            op: a name of the op table.
            inputs: all in declared order, None for absent ones; or by their declared names, absent ones omitted.
            before: the node in front of which the new one stands; None: at the end.
            source: ``file:line`` in the user's model.
            name: stem of the outputs' names; "": the op's name.
            attributes: those that differ from their defaults.

        Raises:
            KeyError: an input's name that the op does not declare.
            ValueError: the op refuses these inputs or attributes.
        """
        declared = TABLE[op]
        operands = declared.arrange(inputs) if isinstance(inputs, Mapping) else inputs
        declared.check_arity(len(operands))
        node = Node(declared, operands, declared.complete(attributes), source)
        types = declared.infer(_types(operands), node.attributes)
        node.outputs = [Value(self.unique(name or op), t, node=node) for t in types]
        if before is None:
            self.nodes.append(node)
        else:
            self.nodes.insert(self.nodes.index(before), node)
        if declared.view is not None and (viewed := node.operand("x").origin) is not None:
            node.outputs[0].trace_to(viewed.through(origins.step_of(op, node.attributes)))
        return node.outputs[0]

    def emit_again(
        self,
        node: Node,
        inputs: Mapping[str, Value | None] | None = None,
        *,
        before: Node | None = None,
        **attributes: Any,
    ) -> Value:
        """Emit `node` once more with some inputs and attributes changed; return the new node's first output.

        The op infers its types again, so a change that it does not accept is an error here. `node` itself stays as it
        is, until the caller replaces and removes it.

        Args:
            node: what the new node is like: op, source and everything that is not given.
            inputs: those that change, by their declared names; None for one that becomes absent.
            before: the node in front of which the new one stands; None: in front of `node`.
            attributes: those that change.

        Raises:
            KeyError: an input's name that the op does not declare, or a variadic one.
            ValueError: the op refuses the changed inputs or attributes.
        """
        operands = list(node.inputs)
        for name, value in (inputs or {}).items():
            operands[node.op.single_position(name)] = value
        return self.emit(
            node.op.name, operands, before=before or node, source=node.source, **(node.attributes | attributes)
        )

    # --- reading -----------------------------------------------------------------------------------------------

    def users(self) -> dict[Value, list[Node]]:
        """For each value the nodes that read it, once a use. Made anew at each call."""
        users: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None:
                    users.setdefault(value, []).append(node)
        return users

    def constants(self) -> Iterator[Value]:
        """Each constant that a node reads or the graph returns, once, in order of first use."""
        seen: set[Value] = set()
        for value in (*(v for n in self.nodes for v in n.inputs), *self.outputs):
            if value is not None and value.is_constant and value not in seen:
                seen.add(value)
                yield value

    # --- changing ----------------------------------------------------------------------------------------------

    def replace(self, old: Value, new: Value) -> None:
        """Let every reader of `old`, and the graph's outputs, read `new` instead, which equals it."""
        self.replace_all({old: new})

    def replace_all(self, new: Mapping[Value, Value]) -> None:
        """Let every reader of a key of `new`, and the graph's outputs, read the key's value instead, which equals it.

        Each has the type of what it replaces: readers keep theirs. No value of `new` is itself a key.
        """
        for old, equal in new.items():
            equal.inherit(old)
        for node in self.nodes:
            if not new.keys().isdisjoint(node.inputs):
                node._inputs = tuple(v if v is None else new.get(v, v) for v in node.inputs)  # noqa: SLF001
        self.outputs = [new.get(v, v) for v in self.outputs]

    def remove(self, nodes: Iterable[Node]) -> None:
        """Take `nodes` out. Whoever calls has made sure that nothing reads them."""
        gone = set(map(id, nodes))
        self.nodes = [n for n in self.nodes if id(n) not in gone]

    def __str__(self) -> str:
        lines = [f"graph {self.name}({', '.join(map(repr, self.inputs))}):"]
        lines += [f"  const {v!r}" for v in self.constants() if v.type.size > 1]
        lines += [f"  {n!r}" for n in self.nodes]
        lines.append(f"  return {', '.join(f'%{v.name}' for v in self.outputs)}")
        return "\n".join(lines)
