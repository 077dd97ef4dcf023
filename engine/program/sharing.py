"""Several artifacts over one table of values: equal constants are stored and packed once, also in a file.

Knows artifacts; knows no target.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine import program
from engine.errors import ProgramError
from engine.graph import Form, identity
from engine.ops import TensorType
from engine.program import FORMAT, VERSION, Artifact, Constants, Instruction, Slot, reader


def shared(artifacts: Mapping[str, Artifact]) -> dict[str, Artifact]:
    """The artifacts with values numbered in one table. A constant of several artifacts has one number. All artifacts
    have the same mapping of constants. In each artifact, values of other artifacts have a type without elements.
    """
    tables = _Tables()
    numbered = {name: tables.add(artifact) for name, artifact in artifacts.items()}
    constants = Constants(tables.constants)
    found = {}
    for name, (artifact, own) in numbered.items():
        types = tuple(t if v in own or v in constants else _FOREIGN for v, t in enumerate(tables.types))
        found[name] = replace(artifact, types=types, names=tuple(tables.names), constants=constants)
    return found


_FOREIGN = TensorType("bool", (0,))


class _Tables:
    def __init__(self) -> None:
        self.types: list[TensorType] = []
        self.names: list[str] = []
        self.constants: dict[int, Form] = {}
        self._known: dict[Hashable, int] = {}

    def add(self, artifact: Artifact) -> tuple[Artifact, set[int]]:
        """`artifact` with the numbers of these tables, and the set of its numbers."""
        to: dict[int, int] = {}
        for value, (type_, name) in enumerate(zip(artifact.types, artifact.names, strict=True)):
            form = artifact.constants.form(value) if value in artifact.constants else None
            parts = {name: to[part] for name, part in artifact.components.get(value, {}).items()}
            key = (type_, *parts.items()) if form is None else (type_, identity(form))
            if (form is not None or parts) and key in self._known:
                to[value] = self._known[key]
                continue
            to[value] = len(self.types)
            self.types.append(type_)
            self.names.append(name)
            if form is not None:
                self.constants[to[value]] = form
            if form is not None or parts:
                self._known[key] = to[value]
        numbered = replace(
            artifact,
            inputs=tuple(to[v] for v in artifact.inputs),
            outputs=tuple(to[v] for v in artifact.outputs),
            instructions=tuple(_renumbered(i, to) for i in artifact.instructions),
            states=tuple(Slot(s.name, None if s.initial is None else to[s.initial]) for s in artifact.states),
            origins={to[v]: origin for v, origin in artifact.origins.items()},
            components={to[v]: {n: to[p] for n, p in parts.items()} for v, parts in artifact.components.items()},
        )
        return numbered, set(to.values())


def _renumbered(instruction: Instruction, to: Mapping[int, int]) -> Instruction:
    inputs = tuple(None if v is None else to[v] for v in instruction.inputs)
    return instruction._replace(inputs=inputs, outputs=tuple(to[v] for v in instruction.outputs))


def save(path: str | Path, artifacts: Mapping[str, Artifact], facts: Mapping[str, Any]) -> None:
    """Write artifacts that `shared` made, and `facts` about them, as one file."""
    entries = {name: artifact.document() for name, artifact in artifacts.items()}
    document = {"format": FORMAT, "version": VERSION, "entries": entries, "facts": dict(facts)}
    program.write(path, document, next(iter(artifacts.values())))


@contextmanager
def opened(path: str | Path, verify: str, *, mapped: bool) -> Iterator[tuple[dict[str, Artifact], dict[str, Any]]]:
    """Open a file of `save`, as `reader.opened`; yield its artifacts by name, over shared constants, and its facts."""
    with reader.opened_document(path, mapped=mapped) as (header, tensors):
        if "entries" not in header:
            raise ProgramError("the file holds one program; load it with engine.load")
        entries = header["entries"]
        named = [entry["constants"] for entry in entries.values()]
        if any(one != named[0] for one in named):
            raise ValueError("the entries name different constants")
        constants = reader.find_constants(header, named[0], tensors, verify)
        yield {name: reader.parse(entry, constants) for name, entry in entries.items()}, dict(header["facts"])
