"""The graph: values, nodes, text form, and functions that change it. Knows the op table; knows no pass and no torch.

A graph is functional: a node never changes its inputs. Nodes are kept in a valid execution order at all times.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from engine import dtypes, sizes
from engine.encodings import Encoding, Stored
from engine.graph import origin as origins
from engine.graph.forms import (
    Component,
    Cut,
    Decoded,
    Encoded,
    Form,
    Joined,
    Permuted,
    Reshaped,
    can_cut,
    can_join,
    can_reshape,
    elements,
    identity,
    permuted,
)
from engine.graph.origin import NOWHERE, Origin, Source, common_module
from engine.graph.rewrites import Rewrites
from engine.graph.signature import Signature, sign_flat
from engine.ops import TABLE, Op, TensorType


class Value:
    """One tensor of a graph: an input, a constant (then `form` is set) or an output of a node.

    Attributes:
        components: of an encoded constant, the constant of each component, by name; otherwise empty. `form` then
            computes the decoded elements.
        origin: the exported value that it equals, with the view between them; None if it equals none. Only `trace_to`
            and `inherit` set it.
        precision: what a recipe chooses for a constant, and for constants that are made from it; None if it chooses
            none.
        is_parameter: True for a parameter of the model and constants made from one; False for buffers, such as masks.
    """

    __slots__ = ("components", "form", "is_parameter", "name", "node", "origin", "precision", "type")

    def __init__(self, name: str, type_: TensorType, form: Form | None = None, node: Node | None = None) -> None:
        self.name = name
        self.type = type_
        self.form = form
        self.node = node
        self.components: Mapping[str, Value] = {}
        self.origin: Origin | None = None
        self.precision: str | None = None
        self.is_parameter = False

    def trace_to(self, origin: Origin | None) -> None:
        """Record `origin` for this value and, if it is a view, for the value under it, with that view undone.

        A value keeps the origin with fewer views; the first one if both have the same number.
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

    @property
    def label(self) -> str:
        """Name of the exported value that it equals, under a view or not; its own after ``%`` if it equals none."""
        return f"%{self.name}" if self.origin is None else self.origin.value

    def inherit(self, other: Value) -> None:
        """Record the origin of `other` for this value, which equals `other` and replaces it."""
        self.trace_to(other.origin)

    @property
    def key(self) -> Hashable:
        """Equal for constants of one type whose elements are the same memory, or made of it in the same way."""
        assert self.form is not None  # noqa: S101  (it is a constant)
        return self.type, identity(self.form)

    @property
    def data(self) -> np.ndarray | None:
        """The elements of a constant that is not encoded, as `elements` computes them; None for every other value."""
        return self.elements if self.is_plain else None

    @property
    def elements(self) -> np.ndarray:
        """The elements of a constant, computed at each access if `form` is a function.

        Raises ValueError if it is no constant, or an encoded one, which a pass that needs elements leaves alone.
        """
        if not self.is_plain:
            raise ValueError(f"{self}: expected a constant that is not encoded")
        assert self.form is not None  # noqa: S101  (said above; a type checker does not follow a property)
        return elements(self.form)

    @property
    def stored(self) -> np.ndarray | Stored:
        """A constant as it is stored: its elements, or its components if it is encoded. ValueError if it is none."""
        encoding = self.type.encoding
        if encoding is None:
            return self.elements
        parts = {name: part.elements for name, part in self.components.items()}
        return Stored(encoding, parts, self.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def is_constant(self) -> bool:
        """True if the value is known when compiling."""
        return self.form is not None

    @property
    def is_plain(self) -> bool:
        """True for a constant that is not encoded, whose elements passes may read."""
        return self.form is not None and self.type.encoding is None

    @property
    def axes_order(self) -> tuple[int, ...] | None:
        """Of a constant that `Graph.permuted` made, axis i is axis axes_order[i] of its source; None for others."""
        form = (self.components["data"] if self.components else self).form
        return form.order if isinstance(form, Permuted) else None

    @property
    def scalar(self) -> float | int | bool | None:
        """The value of a constant with one element; None for everything else."""
        if not self.is_plain or self.type.size != 1:
            return None
        return self.elements.reshape(-1)[0].item()

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


class Node:
    """One application of an op. Passes do not change it: they emit another node (`Graph.emit_again`) and replace it.

    ``node["bias"]`` is the input that the op declares as ``bias``. `source` is the call of the user's model whose work
    it does; a fused node has that of the node that does most of the work, such as the product.
    """

    __slots__ = ("_attributes", "_inputs", "op", "outputs", "source")

    def __init__(self, op: Op, inputs: Sequence[Value | None], attributes: Mapping[str, Any], source: Source) -> None:
        self.op = op
        self._inputs = tuple(inputs)
        self._attributes = MappingProxyType(attributes)
        self.source = source
        self.outputs: list[Value] = []

    @property
    def inputs(self) -> tuple[Value | None, ...]:
        """Values in declared order; None for an absent optional input."""
        return self._inputs

    @property
    def attributes(self) -> Mapping[str, Any]:
        """All attributes of the op, defaults filled in; read-only."""
        return self._attributes

    @property
    def output(self) -> Value:
        """The only output; ValueError if there are several."""
        (value,) = self.outputs
        return value

    def __getitem__(self, name: str) -> Value | None:
        """The input that the op declares as `name`, or None if it is absent.

        Raises KeyError if the op declares no such input, or a variadic one; read variadic inputs from `inputs`.
        """
        return self._inputs[self.op.single_position(name)]

    def operand(self, name: str) -> Value:
        """``node[name]``, which must be present; ValueError if it is absent."""
        value = self[name]
        if value is None:
            raise ValueError(f"{self.op.name}: input {name!r} is absent")
        return value

    @property
    def decodes(self) -> bool:
        """True for a view of an encoded constant. It makes elements, so passes must not look through it."""
        x = self._inputs[0] if self.op.view is not None else None
        return x is not None and x.type.encoding is not None

    @property
    def input_types(self) -> list[TensorType | None]:
        return _types(self._inputs)

    def flops(self) -> int:
        """Arithmetic operations of one run; 0 for a view."""
        if self.op.view is not None:
            return 0
        return self.op.flops(self.input_types, [v.type for v in self.outputs], self.attributes)

    def nbytes(self) -> int:
        """Bytes read and written by one run, each operand once; 0 for a view."""
        if self.op.view is not None:
            return 0
        return self.op.nbytes(self.input_types, [v.type for v in self.outputs], self.attributes)

    def __repr__(self) -> str:
        inputs = ", ".join("none" if v is None else f"%{v.name}" for v in self.inputs)
        attributes = "".join(f", {k}={v}" for k, v in self.attributes.items())
        outputs = ", ".join(map(repr, self.outputs))
        return f"{outputs} = {self.op.name}({inputs}{attributes})"


def _types(values: Iterable[Value | None]) -> list[TensorType | None]:
    return [None if v is None else v.type for v in values]


class Graph:
    """Inputs, nodes in execution order, outputs. Constants are values with data; nodes refer to them.

    It changes while a model is compiled. A graph of a program, or of one that is specialised, does not change any more.

    Attributes:
        scope: the sizes that differ from call to call, and their guards.
        states: buffers that the model writes to, each with the constant of its initial elements (None: zeros). The last
            inputs are their contents before a call and the last outputs their contents after it, in the same order.
        precision: default precision of weights; `Value.precision` overrides it. None: weights keep the model's types.
        log: ``(pass, number of changes)`` of each pass that has run, in order.
        lowered: the target whose own passes have run and changed the graph; "" for none.
        switches: the fields of the Config that had an effect before these passes, as `engine.passes` lists them; empty
            if not known, as in files of earlier engines.
        rewrites: what passes have replaced since the model was exported or the file read.
    """

    def __init__(self, name: str = "graph", signature: Signature | None = None) -> None:
        self.name = name
        self.scope = sizes.Scope()
        self.precision: str | None = None
        self.states: list[tuple[str, Value | None]] = []
        self.log: tuple[tuple[str, int], ...] = ()
        self.lowered = ""
        self.switches: Mapping[str, Any] = {}
        self.rewrites = Rewrites()
        self.kinds: Any = None  # what `copies.specialise` has found out
        self._signature = signature
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.nodes: list[Node] = []
        self._names: dict[str, int] = {}
        self._stems: dict[str, str] = {}

    def empty_copy(self, scope: sizes.Scope) -> Graph:
        """A graph without values and nodes, with the names and facts of this one, for values with sizes in `scope`."""
        made = Graph(self.name, self._signature)
        made.scope, made.precision, made.log = scope, self.precision, self.log
        made.lowered, made.switches = self.lowered, self.switches
        made.rewrites = Rewrites(self.rewrites.made)
        made._names, made._stems = dict(self._names), dict(self._stems)  # same class
        return made

    @property
    def signature(self) -> Signature:
        """How arguments and results map to inputs and outputs; by default, positional tensors and a list of results."""
        names = [value.name for value in self.call_inputs]
        return self._signature or sign_flat(names, len(self.call_outputs))

    @signature.setter
    def signature(self, signature: Signature | None) -> None:
        self._signature = signature

    @property
    def call_inputs(self) -> list[Value]:
        """The inputs that a call passes: those before the states."""
        return self.inputs[: len(self.inputs) - len(self.states)]

    @property
    def call_outputs(self) -> list[Value]:
        """The outputs that a call returns: those before the states."""
        return self.outputs[: len(self.outputs) - len(self.states)]

    @property
    def state_inputs(self) -> list[Value]:
        """The contents of each state before a call."""
        return self.inputs[len(self.inputs) - len(self.states) :]

    @property
    def state_outputs(self) -> list[Value]:
        """The contents of each state after a call."""
        return self.outputs[len(self.outputs) - len(self.states) :]

    @property
    def is_fixed(self) -> bool:
        """True if every call has the same sizes."""
        return not self.scope.symbols

    @property
    def weight_bytes(self) -> int:
        """Bytes of all constants, as they are stored."""
        return sum(value.type.nbytes for value in self.stored_constants())

    # --- making values and nodes -------------------------------------------------------------------------------

    def unique(self, stem: str) -> str:
        """A name that no value has yet, made from `stem`."""
        count = self._names.get(stem, 0)
        self._names[stem] = count + 1
        if count == 0:
            return stem
        name = self.unique(f"{stem}_{count}")
        self._stems[name] = self.stem(stem)
        return name

    def stem(self, name: str) -> str:
        """The name from which `unique` made `name`: that of a weight of the model, for a copy of it."""
        return self._stems.get(name, name)

    def add_input(self, name: str, type_: TensorType) -> Value:
        """Add a graph input after the existing ones."""
        value = Value(self.unique(name), type_)
        self.inputs.append(value)
        return value

    def constant(self, data: np.ndarray, name: str = "const", sources: Iterable[Value] = ()) -> Value:
        """A constant. The array is shared, not copied, and must not change. `sources` as of `later`."""
        data = np.asarray(data)
        return self.later(data, TensorType(dtypes.from_numpy(data.dtype).name, data.shape), name, sources)

    def later(self, form: Form, type_: TensorType, name: str, sources: Iterable[Value] = ()) -> Value:
        """A constant with the elements of `form`. A function computes them at each access; they are not kept in memory.

        For constants that passes compute from large weights: packing reads each of them once, one at a time. `name`
        becomes unique. `sources` are the values that the elements are made from: the constant has their precision, None
        if they differ.
        """
        value, made_of = Value(self.unique(name), type_, form), list(sources)
        value.is_parameter = any(source.is_parameter for source in made_of)
        precisions = {source.precision for source in made_of} - {None}
        value.precision = precisions.pop() if len(precisions) == 1 else None
        return value

    def encoded(self, components: Mapping[str, Value], encoding: Encoding, type_: TensorType, name: str) -> Value:
        """A constant of `type_` stored as `components`; ValueError if the encoding wants others for that shape."""
        types = {part: (value.dtype, value.shape) for part, value in components.items() if value.is_plain}
        if types != encoding.component_types(type_.shape):
            raise ValueError(f"encoding {encoding} of {type_}: expected other components than {types}")
        forms = {part: value.form for part, value in components.items() if value.form is not None}
        whole = self.later(Decoded(forms, encoding, type_.dtype), type_._replace(encoding=encoding), name)
        whole.components = dict(components)
        return whole

    def encode(self, constant: Value, encoding: Encoding, runs: tuple[int, ...] = ()) -> Value:
        """`constant` stored as `encoding` says, each component made `later`; ValueError if it cannot be stored so.

        `runs`: numbers of neighbouring channels that get the same scale (`Encoding.encode`).
        """
        types = encoding.component_types(constant.shape)
        form = constant.form
        if form is None or constant.type.encoding is not None:
            raise ValueError(f"{constant!r}: expected a constant that is not encoded")
        whole = Encoded(form, encoding, runs)
        components = {
            part: self.later(Component(whole, part), TensorType(*type_), f"{constant.name}.{part}")
            for part, type_ in types.items()
        }
        return self.encoded(components, encoding, constant.type, constant.name)

    def joined(self, parts: Sequence[Value], axis: int) -> Value:
        """A constant, made as by `later`: `parts` concatenated along `axis`, the only axis whose sizes may differ.

        Raises ValueError if one of `parts` is no constant, or `can_join` says that they cannot be joined.
        """
        forms = [part.form for part in parts if part.form is not None]
        if len(forms) != len(parts) or not can_join([part.type for part in parts], axis):
            raise ValueError(f"{', '.join(map(repr, parts))}: expected constants that can be joined")
        shape, encoding = list(parts[0].shape), parts[0].type.encoding
        shape[axis] = sum(part.shape[axis] for part in parts)
        type_, name = TensorType(parts[0].dtype, tuple(shape)), "+".join(part.name for part in parts)
        axes = None if encoding is None else encoding.joined_axes(axis)
        if encoding is None or axes is None:
            return self.later(Joined(forms, axis), type_, name, parts)
        components = {part: self.joined([one.components[part] for one in parts], at) for part, at in axes.items()}
        return self.encoded(components, encoding, type_, name)

    def cut(self, constant: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        """The elements of `constant` from `start` to `stop` of `axis`, each `step`-th one, as a constant `later`.

        Raises ValueError if it is no constant, or `can_cut` says that it cannot be cut so.
        """
        encoding = constant.type.encoding
        cuts = {} if encoding is None else encoding.cuts(axis, start, stop)
        if constant.form is None or cuts is None or not can_cut(constant.type, axis, start, stop, step):
            raise ValueError(f"{constant!r}: expected a constant that can be cut at {start} and {stop} of axis {axis}")
        shape = (*constant.shape[:axis], -(-(stop - start) // step), *constant.shape[axis + 1 :])
        type_ = TensorType(constant.dtype, shape)
        if encoding is None:
            return self.later(Cut(constant.form, axis, start, stop, step), type_, constant.name, [constant])
        components = {
            part: value if (where := cuts[part]) is None else self.cut(value, *where)
            for part, value in constant.components.items()
        }
        return self.encoded(components, encoding, type_, constant.name)

    def reshaped(self, constant: Value, shape: tuple[int, ...]) -> Value:
        """A constant, made as by `later`: the elements of `constant` in another shape. Reads no elements now.

        Raises ValueError if it is no constant, or `can_reshape` says that it cannot be reshaped.
        """
        if constant.form is None or not can_reshape(constant.type, shape):
            raise ValueError(f"{constant!r}: expected a constant that can be reshaped to {list(shape)}")
        type_, encoding = TensorType(constant.dtype, shape), constant.type.encoding
        if encoding is None:
            return self.later(Reshaped(constant.form, constant.shape, shape), type_, constant.name, [constant])
        types = encoding.component_types(shape)
        components = {part: self.reshaped(value, types[part][1]) for part, value in constant.components.items()}
        return self.encoded(components, encoding, type_, constant.name)

    def permuted(self, constant: Value, order: Sequence[int]) -> Value:
        """A constant, made as by `later`: axis i is axis order[i] of `constant`. Reads no elements now.

        Raises ValueError if it is no constant, or `order` does not name each of its axes once.
        """
        if constant.form is None or sorted(order) != list(range(len(constant.shape))):
            raise ValueError(f"{constant!r}: expected a constant with the axes {list(order)}")
        type_, encoding = TensorType(constant.dtype, tuple(constant.shape[a] for a in order)), constant.type.encoding
        if encoding is None:
            return self.later(permuted(constant.form, tuple(order)), type_, constant.name, [constant])
        turned, scales = encoding.permuted(order)
        components = {
            part: self.permuted(value, order) if part == "data" or scales else value
            for part, value in constant.components.items()
        }
        return self.encoded(components, turned, type_, constant.name)

    def scalar(self, value: float, dtype: str) -> Value:
        """A constant of rank 0."""
        return self.constant(np.asarray(value, dtype=dtypes.dtype(dtype).numpy), "scalar")

    def emit(
        self,
        op: str,
        inputs: Sequence[Value | None] | Mapping[str, Value | None],
        *,
        before: Node | None = None,
        source: Source = NOWHERE,
        name: str = "",
        **attributes: Any,
    ) -> Value:
        """Add a node (at the end, or before another), infer its types, return its first output.

        `inputs` are as of `Op.arrange`. `source` is that of the node whose work it does. `name` is the stem of the
        outputs' names; "" means the op's name.

        Raises KeyError if `inputs` has a name that the op does not declare, ValueError if the op refuses the rest.
        """
        declared = TABLE[op]
        operands = declared.arrange(inputs)
        node = Node(declared, operands, declared.complete(attributes), source)
        types = declared.infer_types(_types(operands), node.attributes)
        node.outputs = [Value(self.unique(name or op), t, node=node) for t in types]
        if before is None:
            self.nodes.append(node)
        else:
            self.nodes.insert(self.nodes.index(before), node)
        if declared.view is not None and (viewed := node.operand("x").origin) is not None:
            node.outputs[0].trace_to(viewed.through(origins.step_of(op, node.attributes)))
        return node.outputs[0]

    def emit_in_order(
        self,
        nodes: Iterable[Node],
        read: Callable[[Node, str, Value], Value],
        attributes: Callable[[Node], Mapping[str, Any]],
    ) -> Iterator[tuple[Node, Node]]:
        """Emit each of `nodes` again at the end, one after the other, and yield it with the new one.

        The nodes are no longer in the graph. `read` says what a new node reads: from the old node, the name of an input
        and its value there. `attributes` gives those of the new node.
        """
        for node in nodes:
            names = node.op.input_names
            inputs = [
                None if value is None else read(node, names[min(n, len(names) - 1)], value)
                for n, value in enumerate(node.inputs)
            ]
            name, given = node.outputs[0].name, attributes(node)
            made = self.emit(node.op.name, inputs, source=node.source, name=name, **given).node
            assert made is not None  # noqa: S101  (a value that emit returns has a node)
            for old, new in zip(node.outputs, made.outputs, strict=True):
                new.inherit(old)
            yield node, made

    def emit_again(
        self,
        node: Node,
        inputs: Mapping[str, Value | None] | None = None,
        *,
        before: Node | None = None,
        source: Source | None = None,
        **attributes: Any,
    ) -> Value:
        """Emit `node` once more with some inputs and attributes changed; return the new node's first output.

        `node` itself does not change; the caller replaces and removes it. `inputs` are those that change, by their
        declared names, None for one that becomes absent. By default, `before` is `node` and `source` is its source.

        Raises KeyError if `inputs` has a name that the op does not declare, or a variadic one, and ValueError if the
        op, which infers its types again, refuses the changes.
        """
        operands = list(node.inputs)
        for name, value in (inputs or {}).items():
            operands[node.op.single_position(name)] = value
        source, attributes = source or node.source, {**node.attributes, **attributes}
        return self.emit(node.op.name, operands, before=before or node, source=source, **attributes)

    # --- reading -----------------------------------------------------------------------------------------------

    def users(self) -> dict[Value, list[Node]]:
        """For each value the nodes that read it, once for each use. Computed at each call."""
        users: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None:
                    users.setdefault(value, []).append(node)
        return users

    def constants(self) -> Iterator[Value]:
        """Each constant that a node reads, the graph returns or a state begins with, once, in order of first use."""
        seen: set[Value] = set()
        initial = (value for _name, value in self.states)
        for value in (*(v for n in self.nodes for v in n.inputs), *self.outputs, *initial):
            if value is not None and value.is_constant and value not in seen:
                seen.add(value)
                yield value

    def stored_constants(self) -> Iterator[Value]:
        """As `constants`, with the components of those that are encoded, and one value for equal forms of one type."""
        seen: set[Hashable] = set()
        for value in self.constants():
            for one in value.components.values() or (value,):
                if one.key not in seen:
                    seen.add(one.key)
                    yield one

    # --- changing ----------------------------------------------------------------------------------------------

    def candidates(self) -> list[Node]:
        """The nodes whose results the running pass may replace: all but those that `Config.disable` leaves out."""
        return [node for node in self.nodes if self.admits(node)]

    def admits(self, node: Node) -> bool:
        """True if `node` is one of `candidates`."""
        return self.rewrites.admit(value.label for value in node.outputs)

    def replace(self, old: Value, new: Value) -> None:
        """Replace `old` by `new`, which equals it, in the inputs of all nodes and in the graph's outputs."""
        self.replace_all({old: new})

    def replace_all(self, new: Mapping[Value, Value]) -> None:
        """Replace each key of `new` by its value, which equals it, in the inputs of all nodes and in the outputs.

        A key and its value have the same type, so the types of nodes do not change. No value of `new` is itself a key.
        """
        for old, equal in new.items():
            module = old.origin.module if old.origin is not None else old.node.source.module if old.node else ""
            self.rewrites.add(old.label, module)
            equal.inherit(old)
        for node in self.nodes:
            if not new.keys().isdisjoint(node.inputs):
                node._inputs = tuple(v if v is None else new.get(v, v) for v in node.inputs)  # noqa: SLF001  # same module
        self.outputs = [new.get(v, v) for v in self.outputs]

    def locate_nodes(self) -> None:
        """Give each node without a source the module of its first result with an origin, or that of all its readers."""
        readers: dict[Value, list[str]] = {}
        for node in reversed(self.nodes):
            if node.source == NOWHERE:
                named = [value.origin.module for value in node.outputs if value.origin is not None]
                read = [module for value in node.outputs for module in readers.get(value, ())]
                node.source = Source("", named[0] if named else common_module(read))
            for value in node.inputs:
                if value is not None:
                    readers.setdefault(value, []).append(node.source.module)

    def remove(self, nodes: Iterable[Node]) -> None:
        """Remove `nodes`. The caller has made sure that no node reads their outputs."""
        gone = set(map(id, nodes))
        self.nodes = [n for n in self.nodes if id(n) not in gone]

    def __str__(self) -> str:
        lines = [f"graph {self.name}({', '.join(map(repr, self.inputs))}):"]
        lines += [f"  const {v!r}" for v in self.constants() if v.type.size > 1]
        lines += [f"  {n!r}" for n in self.nodes]
        lines.append(f"  return {', '.join(f'%{v.name}' for v in self.outputs)}")
        return "\n".join(lines)
