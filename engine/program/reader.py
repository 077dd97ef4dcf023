"""Reads program files: makes a graph of the document and the tensors of a file, and checks every rule.

Knows graphs and the op table; knows no target. A file may be damaged or hostile, so everything in it is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from engine import sizes, tree
from engine.encodings import encoding
from engine.errors import ProgramError
from engine.graph import NOWHERE, Constant, Decoded, Graph, Node, Signature, Source, Value, own_borrowed, specialise
from engine.ops import MAX_RANK, TABLE, Op, TensorType
from engine.program import container, formulas, origins
from engine.program.container import StoredTensor, Tensor
from engine.program.versions import FORMAT, upgrade
from engine.program.writer import tensor_name


def load(path: str | Path, verify: str = "full") -> Graph:
    """Read a graph with all of its weights, and close the file.

    `verify` ``full`` checks the header's hash and each weight's checksum, ``header`` only the former. ProgramError if
    the file is missing, damaged, foreign, of another version, or breaks a rule of the op table.
    """
    with opened(path, verify, mapped=False) as graph:
        own_borrowed([graph])
        return graph


@contextmanager
def opened(path: str | Path, verify: str, *, mapped: bool) -> Iterator[Graph]:
    """Open a file and yield its graph. Every error in this block that a file can cause becomes a ProgramError.

    If `mapped`, the constants are memory-mapped, and owned. Otherwise they are borrowed: each access reads and verifies
    the constant, which works only inside of this block. `verify` is as for `load`.
    """
    with _opened_document(path, mapped=mapped) as (header, tensors):
        if "entries" in header:
            raise ProgramError("the file holds a decoder; load it with engine.load_decoder")
        yield _parse(header, _find_constants(header, header["constants"], tensors, verify))


@contextmanager
def opened_entries(path: str | Path, verify: str, *, mapped: bool) -> Iterator[tuple[dict[str, Graph], dict[str, Any]]]:
    """Open a file of several graphs, as `opened`; yield them by name, over shared constants, and the file's facts."""
    with _opened_document(path, mapped=mapped) as (header, tensors):
        if "entries" not in header:
            raise ProgramError("the file holds one program; load it with engine.load")
        entries = header["entries"]
        named = [entry["constants"] for entry in entries.values()]
        if any(one != named[0] for one in named):
            raise ValueError("the entries name different constants")
        constants = _find_constants(header, named[0], tensors, verify)
        yield {name: _parse(entry, constants) for name, entry in entries.items()}, dict(header["facts"])


@contextmanager
def _opened_document(path: str | Path, *, mapped: bool) -> Iterator[tuple[dict[str, Any], Mapping[str, Tensor]]]:
    """Open a file and yield its document and tensors. Raises as `opened`."""
    file = container.path_of(path)
    with container.convert_errors(path), container.opened(file, mapped=mapped) as (text, tensors):
        header = container.parse_json(text)
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise ProgramError("not a program of this engine")
        yield upgrade(header), tensors


def _find_constants(
    header: Mapping[str, Any], named: Mapping[str, str], tensors: Mapping[str, Tensor], verify: str
) -> dict[int, Constant]:
    """The constants that a document names, compared with its checksums if `verify` is ``full``: now, or at each read.

    ProgramError, ValueError or LookupError if a tensor is missing or belongs to two constants, or a checksum differs.
    """
    names = {_size(int(number)): name for number, name in named.items()}
    if len(set(names.values())) < len(named):
        raise ValueError("two constants name the same tensor, or one value has two tensors")
    checksums = header["checksums"] if verify == "full" else {}
    if verify == "full" and set(checksums) != set(map(tensor_name, names)):
        raise ValueError("checksums and constants have different names")
    return {n: _constant(n, tensors[name], checksums.get(tensor_name(n))) for n, name in names.items()}


def _constant(number: int, tensor: Tensor, checksum: str | None) -> Constant:
    """A tensor as a constant: borrowed from an open file, or in a mapped one."""
    described = tensor if isinstance(tensor, np.ndarray) else tensor.entry
    type_ = TensorType(str(described.dtype.name), described.shape)
    if not isinstance(tensor, StoredTensor):
        constant = Constant(tensor, type_, "owned")
        if checksum is not None and constant.checksum != checksum:
            raise ProgramError(f"the checksum of constant {number} does not match: the file is damaged")
        return constant
    constant = Constant(replace(tensor, checksum=checksum), type_)
    if checksum is not None:
        constant.expect(checksum)
    return constant


def _parse(header: Mapping[str, Any], constants: Mapping[int, Constant]) -> Graph:
    """The graph that a document describes. A broken rule raises one of many errors; `convert_errors` converts it."""
    s, scope = header["signature"], formulas.decode_scope(header["sizes"], header["guards"])
    graph = Graph(
        str(header["name"]),
        Signature(
            tree.decode(s["input_tree"]),
            tree.decode(s["output_tree"]),
            tuple(s["input_slots"]),
            tuple(s["output_slots"]),
            tuple(map(str, s["input_names"])),
            tuple(map(_name, header.get("parameters", ()))),
        ),
    )
    graph.scope = scope
    graph.lowered = _name(header["lowered"])
    graph.log = tuple((str(name), int(n)) for name, n in header["passes"])
    graph.switches = _switches(header.get("switches", {}))
    types = [_type(*parts, scope=scope) for parts in header["types"]]
    values = _read_values(header, graph, types, constants)
    stored = header.get("origins", origins.NONE)
    for number, origin in origins.decode(stored, len(types), scope, _attributes).items():
        if number in values:
            values[number].origin = origin
    modules = origins.decode_modules(stored, len(graph.nodes))
    if modules is None:  # as in files of earlier engines
        graph.locate_nodes()
        modules = [node.source.module for node in graph.nodes]
    for node, line, module in zip(graph.nodes, header["sources"], modules, strict=True):
        node.source = Source(str(line), module)
    specialise(graph, scope.example)  # other sizes are checked when a call has them
    _check_signature(graph)
    return graph


def _read_values(
    header: Mapping[str, Any], graph: Graph, types: list[TensorType], constants: Mapping[int, Constant]
) -> dict[int, Value]:
    """Fill `graph` with inputs, nodes, outputs and states. Returns every value by its number."""
    names, values = [str(name) for name in header["names"]], dict[int, Value]()
    if len(names) != len(types):
        raise ValueError("the numbers of names and types differ")

    def add(number: Any, form: Any = None, node: Node | None = None) -> Value:
        if _size(number) in values:
            raise ValueError(f"value {number} is an input, a constant or a result twice")
        graph.unique(names[number])  # names of later values differ from it; it keeps its own
        values[number] = Value(names[number], types[number], form, node)
        return values[number]

    def find(number: Any) -> Value:
        if _size(number) not in values:
            raise ValueError(f"value {number} is read before it is computed")
        return values[number]

    graph.inputs = [add(number) for number in header["inputs"]]
    for number, constant in constants.items():
        # is_fixed comes first: a comparison of formulas would record a guard.
        if not sizes.is_fixed(types[number].shape) or constant.type != types[number]:
            raise ValueError(f"constant {number} does not fit its type")
        add(number, constant)
    for key, parts in header["components"].items():
        components = {str(name): find(part) for name, part in parts.items()}
        _add_encoded(add(int(key)), components)
    for described in header["instructions"]:
        op = TABLE[described["op"]]
        op.check_arity(len(described["inputs"]))
        inputs = [None if number is None else find(number) for number in described["inputs"]]
        if any(value is None and not op.inputs[p].endswith("?") for p, value in enumerate(inputs)):
            raise ValueError(f"{op.name}: a required input is absent")
        node = Node(op, inputs, _attributes(op, described["attributes"], graph.scope), NOWHERE)
        node.outputs = [add(number, node=node) for number in described["outputs"]]
        graph.nodes.append(node)
    graph.outputs = [find(number) for number in header["outputs"]]
    graph.states = [(str(name), None if n is None else find(n)) for name, n in header["states"]]
    if any((value.type.encoding is None) != (not value.components) for value in values.values()):
        raise ValueError("encoded values and values with components differ")
    _check_states(graph)
    return values


def _add_encoded(value: Value, components: Mapping[str, Value]) -> None:
    """Make `value` an encoded constant of these components. ValueError if its encoding wants others."""
    type_, encoding = value.type, value.type.encoding
    if not sizes.is_fixed(type_.shape) or not all(isinstance(part.form, Constant) for part in components.values()):
        raise ValueError(f"{value.name}: a component of an encoded constant is no constant")
    found = {name: (part.dtype, part.shape) for name, part in components.items()}
    if encoding is None or found != encoding.component_types(type_.shape):
        raise ValueError(f"{value.name}: the components of an encoded constant do not fit {type_}")
    forms = {name: part.form for name, part in components.items() if part.form is not None}
    value.form, value.components = Decoded(forms, encoding, type_.dtype), components


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a name: {value!r}")
    return value


def _switches(data: Mapping[str, Any]) -> dict[str, Any]:
    """The switches with which a program was compiled, from their JSON form. Nothing but their text is checked."""
    found: dict[str, Any] = {name: _name(data[name]) for name in ("precision", "activations", "states") if name in data}
    if "disable" in data:
        found["disable"] = tuple(map(_name, data["disable"]))
    if "recipe" in data:
        found["recipe"] = tuple((_name(pattern), _name(precision)) for pattern, precision in data["recipe"])
    return found


def _type(dtype: str, shape: Any, text: str | None = None, *, scope: sizes.Scope) -> TensorType:
    """A type from its JSON form: element type, shape, and the encoding if there is one."""
    found = None if text is None else encoding(text)
    return TensorType(dtype, tuple(_extent(size, scope) for size in shape), found)


def _attributes(op: Op, data: Mapping[str, Any], scope: sizes.Scope) -> dict[str, Any]:
    """Attributes from their JSON form. ValueError for a value that `op` or no program can have."""
    decoded = {name: formulas.decode(value, scope) for name, value in data.items()}
    # The checks of other kinds compare formulas, which can add guards and is done only when compiling.
    for name, value in decoded.items():
        kind = op.attributes[name].kind if name in op.attributes else None
        if not (sizes.is_fixed(value) or (sizes.is_whole(value) and kind in ("int", "shape")) or kind == "float"):
            raise ValueError(f"{op.name}: an attribute is a formula, expected a number")
    complete = op.complete(decoded)
    for name, value in complete.items():
        kind = op.attributes[name].kind
        if kind in ("shape", "axes", "ints") and len(value) > MAX_RANK:
            raise ValueError(f"{op.name}: attribute {name} has {len(value)} elements, over {MAX_RANK}")
        if kind != "float" and not sizes.is_bounded(value):
            raise ValueError(f"{op.name}: attribute {name} has a number over 64 bits")
    return complete


def _extent(data: Any, scope: sizes.Scope) -> int:
    """A number or a formula. A formula that can be negative is refused later, when the sizes are known."""
    size: int = formulas.decode(data, scope) if isinstance(data, dict) else _size(data)
    return size


def _size(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 48:
        raise ValueError(f"not a size: {value!r}")
    return value


def _check_states(graph: Graph) -> None:
    if len(graph.states) > min(len(graph.inputs), len(graph.outputs)):
        raise ValueError("more states than inputs or outputs")
    if len({name for name, _initial in graph.states}) < len(graph.states):
        raise ValueError("two states have one name")
    for (name, initial), before, after in zip(graph.states, graph.state_inputs, graph.state_outputs, strict=True):
        # is_fixed comes first: a comparison of formulas would record a guard.
        if not sizes.is_fixed(before.shape) or not sizes.is_fixed(after.shape) or before.type != after.type:
            raise ValueError(f"state {name} changes its type, or its size from call to call")
        if initial is not None and (not isinstance(initial.form, Constant) or initial.type != before.type):
            raise ValueError(f"the initial value of state {name} is no constant of its type")


def _check_signature(graph: Graph) -> None:
    s = graph.signature
    for t, slots, limit in (
        (s.input_tree, s.input_slots, len(graph.call_inputs)),
        (s.output_tree, s.output_slots, len(graph.call_outputs)),
    ):
        tree.check(t)
        if tree.count(t) != len(slots):
            raise ValueError("the numbers of leaves and slots differ")
        for slot in slots:
            if not (isinstance(slot, dict) and set(slot) == {"constant"}) and not 0 <= _size(slot) < limit:
                raise ValueError(f"slot {slot!r} is out of range")
    match s.input_tree:
        case {"tuple": [{"tuple": _}, {"dict": _}]}:
            pass
        case _:
            raise ValueError("the input tree is not one of positional and keyword arguments")
    count = len(s.input_tree["tuple"][0]["tuple"])
    if s.parameters and (len(s.parameters) != count or len(set(s.parameters)) < count):
        raise ValueError("the names of parameters do not fit the positional arguments")
    if len({slot for slot in s.input_slots if not isinstance(slot, dict)}) < len(graph.call_inputs):
        raise ValueError("an input has no argument")
    if len(s.input_names) != len(graph.call_inputs):
        raise ValueError("the numbers of input names and inputs differ")
