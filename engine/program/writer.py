"""Writes graphs to a file: the document of each, over one table of values, and the constants. Digests of graphs.

A file is a form of a graph. Knows graphs; knows no target.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from engine import tree
from engine.errors import ProgramError
from engine.graph import Constant, Form, Graph, Origin, Value, compute_checksum, elements
from engine.ops import TensorType
from engine.program import container, formulas, origins
from engine.program.versions import FORMAT, VERSION

_FOREIGN = TensorType("bool", (0,))
"""The type of a value of another graph: of several graphs in one file, each lists the values of all."""


class Table:
    """Numbers of the values of several graphs. Constants of one type with equal forms have one number."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.constants: dict[int, Form] = {}
        self._known: dict[Hashable, int] = {}

    def add(self, graph: Graph) -> dict[Value, int]:
        """The number of each value of `graph`, in order of first use."""
        numbers: dict[Value, int] = {}
        for value in graph.inputs:
            self._number(value, numbers)
        for node in graph.nodes:
            for operand in (*node.inputs, *node.outputs):
                if operand is not None:
                    self._number(operand, numbers)
        initial = (value for _name, value in graph.states if value is not None)
        for value in (*graph.outputs, *initial):
            self._number(value, numbers)
        return numbers

    def _number(self, value: Value, numbers: dict[Value, int]) -> None:
        if value in numbers:
            return
        for part in value.components.values():
            self._number(part, numbers)
        new = len(self.values)
        key = None if value.form is None else value.key
        numbers[value] = new if key is None else self._known.setdefault(key, new)
        if numbers[value] == new:
            self.values.append(value)
            if value.form is not None and not value.components:
                self.constants[new] = value.form


def _describe(graph: Graph, table: Table, numbers: Mapping[Value, int]) -> dict[str, Any]:
    """`graph` without weights, sources, origins and log, as JSON-able values. The digest covers it."""
    own = {number: value for value, number in reversed(list(numbers.items()))}
    listed = [own.get(number, value) for number, value in enumerate(table.values)]
    is_known = [number in own or number in table.constants for number in range(len(listed))]
    signature = graph.signature
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        "lowered": graph.lowered,
        "sizes": {name: list(symbol) for name, symbol in graph.scope.symbols.items()},
        "guards": formulas.encode_guards(graph.scope),
        "states": [[name, None if value is None else numbers[value]] for name, value in graph.states],
        "types": [_encode_type(v.type if known else _FOREIGN) for v, known in zip(listed, is_known, strict=True)],
        "names": [value.name for value in listed],
        "inputs": [numbers[value] for value in graph.inputs],
        "outputs": [numbers[value] for value in graph.outputs],
        "instructions": [
            {
                "op": node.op.name,
                "inputs": [None if value is None else numbers[value] for value in node.inputs],
                "attributes": {name: formulas.encode(value) for name, value in node.attributes.items()},
                "outputs": [numbers[value] for value in node.outputs],
            }
            for node in graph.nodes
        ],
        "constants": {str(number): tensor_name(number) for number in table.constants},
        "components": {
            str(number): {name: numbers[part] for name, part in value.components.items()}
            for number, value in own.items()
            if value.components
        },
        "signature": {
            "input_tree": tree.encode(signature.input_tree),
            "output_tree": tree.encode(signature.output_tree),
            "input_slots": list(signature.input_slots),
            "output_slots": list(signature.output_slots),
            "input_names": list(signature.input_names),
        },
    }


def _document(graph: Graph, table: Table, numbers: Mapping[Value, int]) -> dict[str, Any]:
    """What a file says of `graph`: its description, sources, log, origins, names of parameters, switches."""
    named: dict[str, Any] = {}
    traced: dict[int, Origin] = {}
    for value, number in numbers.items():
        known = traced.get(number)
        if value.origin is not None and (known is None or len(value.origin.view) < len(known.view)):
            traced[number] = value.origin
    if traced:
        named["origins"] = origins.encode(traced, [node.source.module for node in graph.nodes])
    if graph.signature.parameters:
        named["parameters"] = list(graph.signature.parameters)
    if graph.switches:
        named["switches"] = dict(graph.switches)
    return _describe(graph, table, numbers) | {
        "sources": [node.source.line for node in graph.nodes],
        "passes": [list(one) for one in graph.log],
        **named,
    }


def document_of(graph: Graph) -> tuple[dict[str, Any], dict[int, Form]]:
    """What a file says of `graph` alone, and its constants by their numbers."""
    table = Table()
    numbers = table.add(graph)
    return _document(graph, table, numbers), table.constants


def structure_digest(graph: Graph) -> str:
    """Hash of the graph without its weights: fast, and enough to compare two compilations of one model."""
    table = Table()
    numbers = table.add(graph)
    return hashlib.sha256(_canonical(_describe(graph, table, numbers))).hexdigest()


def digest(graph: Graph) -> str:
    """Hash of structure and weights; the same on every machine."""
    table = Table()
    table.add(graph)
    return hashlib.sha256(_canonical([structure_digest(graph), _checksums(table.constants)])).hexdigest()


def save(path: str | Path, graph: Graph) -> None:
    """Write one graph. ProgramError if this fails, or a mapped file has changed."""
    _write(path, *document_of(graph))


def save_entries(path: str | Path, graphs: Mapping[str, Graph], facts: Mapping[str, Any]) -> None:
    """Write several graphs, whose equal constants are stored once, and `facts` about them. Raises as `save`."""
    table = Table()
    numbers = {name: table.add(graph) for name, graph in graphs.items()}
    entries = {name: _document(graph, table, numbers[name]) for name, graph in graphs.items()}
    document = {"format": FORMAT, "version": VERSION, "entries": entries, "facts": dict(facts)}
    _write(path, document, table.constants)


def _write(path: str | Path, document: Mapping[str, Any], constants: Mapping[int, Form]) -> None:
    for number, form in constants.items():
        if isinstance(form, Constant) and form.is_mapped and compute_checksum(form()) != form.checksum:
            raise ProgramError(f"constant {number} has changed in the mapped file since its checksum was computed")
    text = _canonical({**document, "checksums": _checksums(constants)})
    container.write(container.path_of(path), {tensor_name(n): elements(form) for n, form in constants.items()}, text)


def _checksums(constants: Mapping[int, Form]) -> dict[str, str]:
    """SHA-256 of each constant's elements, by tensor name."""
    return {
        tensor_name(number): form.checksum if isinstance(form, Constant) else compute_checksum(elements(form))
        for number, form in constants.items()
    }


def tensor_name(number: int) -> str:
    """Name of a constant's tensor in a file."""
    return f"constant.{number}"


def _encode_type(type_: TensorType) -> list[Any]:
    """Element type and shape, and the encoding where there is one, as JSON-able values."""
    encoding = [] if type_.encoding is None else [str(type_.encoding)]
    return [type_.dtype, formulas.encode(type_.shape), *encoding]


def _canonical(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
