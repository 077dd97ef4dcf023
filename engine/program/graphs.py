"""Converts graphs to artifacts and artifacts to graphs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np

from engine import sizes
from engine.graph import NOWHERE, Form, Graph, Node, Origin, Source, Value, identity
from engine.ops import TABLE
from engine.program.artifact import Artifact, Constants, Instruction, Signature, Slot, with_modules


def from_graph(graph: Graph, signature: Signature, passes: tuple[tuple[str, int], ...] = ()) -> Artifact:
    """The artifact of `graph`. Constants of one type with the same identity have one number: passes make views of a
    constant independently.
    """
    numbers: dict[Value, int] = {}
    distinct: list[Value] = []
    known: dict[Hashable, int] = {}
    constants: dict[int, Form] = {}
    components: dict[int, dict[str, int]] = {}

    def number(value: Value) -> int:
        if value not in numbers:
            parts = {name: number(part) for name, part in value.components.items()}
            new = len(distinct)
            numbers[value] = new if value.form is None else known.setdefault((value.type, identity(value.form)), new)
            if numbers[value] < new:
                return numbers[value]
            distinct.append(value)
            if parts:
                components[new] = parts
            elif value.form is not None:
                constants[new] = value.form
        return numbers[value]

    inputs = tuple(number(v) for v in graph.inputs)
    instructions = tuple(
        Instruction(
            node.op.name,
            tuple(None if v is None else number(v) for v in node.inputs),
            dict(node.attributes),
            tuple(number(v) for v in node.outputs),
            shorten_source(node.source.line),
        )
        for node in graph.nodes
    )
    outputs = tuple(number(v) for v in graph.outputs)
    initial = {
        name: graph.constant(data, name) if isinstance(data, np.ndarray) else data for name, data in graph.states
    }
    states = tuple(Slot(name, None if value is None else number(value)) for name, value in initial.items())
    traced: dict[int, Origin] = {}
    for value, n in numbers.items():
        if value.origin is not None and (n not in traced or len(value.origin.view) < len(traced[n].view)):
            traced[n] = _without_folders(value.origin)
    return Artifact(
        graph.name,
        tuple(v.type for v in distinct),
        tuple(v.name for v in distinct),
        inputs,
        outputs,
        with_modules(instructions, traced, [None if n.source == NOWHERE else n.source.module for n in graph.nodes]),
        Constants(constants),
        signature,
        passes,
        graph.scope,
        states,
        traced,
        components=components,
    )


def _without_folders(origin: Origin) -> Origin:
    return replace(origin, source=shorten_source(origin.source))


def shorten_source(source: str) -> str:
    """The last two parts of a path: enough to find the line, without folders of the compiling machine."""
    return "/".join(source.split("/")[-2:])


def to_graph(artifact: Artifact) -> Graph:
    """A new graph of `artifact`, which passes may change. It has its own copy of the scope; constants are shared."""
    graph = Graph(artifact.name)
    graph.scope = artifact.scope.copy()

    def own(value: Any) -> Any:
        return value if artifact.is_fixed else sizes.in_scope(value, graph.scope)

    values: dict[int, Value] = {}

    def value(number: int, node: Node | None = None) -> Value:
        if number not in values:
            type_, name = artifact.types[number], graph.unique(artifact.names[number])
            if type_.encoding is not None:
                parts = {part: value(component) for part, component in artifact.components[number].items()}
                found = graph.encoded(parts, type_.encoding, type_.plain, name)
            else:
                form = artifact.constants.form(number) if number in artifact.constants else None
                found = Value(name, type_._replace(shape=own(type_.shape)), form, node)
            found.origin = artifact.origins.get(number)
            values[number] = found
        return values[number]

    graph.inputs = [value(number) for number in artifact.inputs]
    for i in artifact.instructions:
        attributes = {name: own(attribute) for name, attribute in i.attributes.items()}
        operands = [None if v is None else value(v) for v in i.inputs]
        node = Node(TABLE[i.op], operands, attributes, Source(i.source, i.module))
        node.outputs = [value(number, node) for number in i.outputs]
        graph.nodes.append(node)
    graph.outputs = [value(number) for number in artifact.outputs]
    graph.states = [(s.name, None if s.initial is None else value(s.initial)) for s in artifact.states]
    return graph
