"""The artifact: a program as linear instructions and weights. Torch-free, target-independent; save, load, digest.

Knows the op table and origins; knows no target, no kernel and no memory plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engine import sizes, tree
from engine.encodings import Stored
from engine.errors import ProgramError, ShapeError, UnsupportedOp
from engine.graph import Form, View, roots
from engine.graph.origin import common_module
from engine.ops import TABLE, TensorType
from engine.ops.check import bounded_type
from engine.ops.table import Types
from engine.program import container, formulas, origins
from engine.program.container import StoredTensor
from engine.program.versions import FORMAT, VERSION


class Instruction(NamedTuple):
    """One op applied to values, which are positions in `Artifact.types`.

    `source` is ``file:line`` and `module` the path of the module of the call whose work it does, "" where that is not
    known. Of an op that passes have fused, that is the call that does most of the work, such as the product.
    """

    op: str
    inputs: tuple[int | None, ...]
    attributes: Mapping[str, Any]
    outputs: tuple[int, ...]
    source: str
    module: str = ""

    @property
    def where(self) -> str:
        """`` at file:line in module`` of the user's model, for messages; unknown parts are left out."""
        return (f" at {self.source}" if self.source else "") + (f" in {self.module}" if self.module else "")


class _Kind(NamedTuple):
    """Instructions with equal op, attributes and types, these by number: one check does for all repeated layers."""

    op: str
    inputs: tuple[int | None, ...]
    attributes: Mapping[str, Any]
    outputs: tuple[int, ...]
    varying: tuple[str, ...]  # names of the attributes that are formulas

    def at(self, values: Mapping[str, int], types: Sequence[TensorType]) -> Mapping[str, Any]:
        """The attributes for these sizes. ValueError if the op infers other output types from them."""
        own = {**self.attributes, **{name: sizes.at(self.attributes[name], values) for name in self.varying}}
        inputs = [None if number is None else types[number] for number in self.inputs]
        _check_follows(self.op, inputs, own, [types[number] for number in self.outputs])
        return own


class _Kinds(NamedTuple):
    """The different types and instructions of an artifact, each once.

    Types without formulas have been checked; `formulas` has the positions of the others. `type_of` has the position of
    each value's type, `varying` those of an instruction with formulas among its attributes and of its kind.
    """

    types: tuple[TensorType, ...]
    formulas: tuple[int, ...]
    type_of: tuple[int, ...]
    kinds: tuple[_Kind, ...]
    varying: tuple[tuple[int, int], ...]


class Slot(NamedTuple):
    """A buffer that keeps its contents between calls: its name in the model, and its initial constant; None: zeros."""

    name: str
    initial: int | None


class Linked:
    """A constant that is the constant `value` of another artifact, or a view of it by `views`, the last one first."""

    def __init__(self, constants: Constants, value: int, views: Sequence[View]) -> None:
        self._constants, self._value, self._views = constants, value, views

    def __call__(self) -> np.ndarray:
        array = self._constants[self._value]
        for view in self._views:
            array = view.undo(array)
        return array

    @property
    def bases(self) -> tuple[Form]:
        """The form in which the other artifact stores it."""
        return (self._constants.form(self._value),)


class Constants(Mapping[int, np.ndarray]):
    """Value -> array, which must not change. A constant may be stored as a function; each access then calls it."""

    def __init__(self, forms: Mapping[int, Form]) -> None:
        self._kept: dict[int, Form] = dict(forms)
        self._checksums: dict[int, str] = {}

    def __getitem__(self, value: int) -> np.ndarray:
        kept = self._kept[value]
        return kept() if callable(kept) else kept

    def __contains__(self, value: object) -> bool:
        return value in self._kept  # the look-up of Mapping would compute the array

    def __iter__(self) -> Iterator[int]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def form(self, value: int) -> Form:
        return self._kept[value]

    def type_of(self, value: int) -> TensorType:
        """Element type and shape. Does not read a constant that is in a file."""
        form = self._kept[value]
        described = form.entry if isinstance(form, StoredTensor) else self[value]
        return TensorType(str(described.dtype.name), described.shape)

    def keep(self, value: int, form: Form) -> None:
        """Store `value` as `form` from now on; `form` has or returns the same elements."""
        self._kept[value] = form

    def release(self, value: int) -> None:
        """Give the pages of a mapped constant back to the system, which reads them again at the next access."""
        for root in roots(self._kept[value]):
            if isinstance(root, np.ndarray):
                container.release(root)

    def checksum(self, value: int) -> str:
        """SHA-256 of the elements, in hexadecimal digits. It is computed once."""
        if value not in self._checksums:
            self._checksums[value] = container.checksum(self[value])
            self.release(value)
        return self._checksums[value]

    def confirm(self, value: int) -> None:
        """Compute the checksum of a mapped constant again. ProgramError if another process has written to its file."""
        mapped = (isinstance(root, np.ndarray) and container.is_mapped(root) for root in roots(self._kept[value]))
        if any(mapped) and container.checksum(self[value]) != self.checksum(value):
            raise ProgramError(f"constant {value} has changed in the mapped file since its checksum was computed")

    def verify(self, value: int, expected: str) -> None:
        """Compare with a SHA-256 now, or at each read if it is in an open file. ProgramError if the elements differ."""
        form = self._kept[value]
        if isinstance(form, StoredTensor):
            self._kept[value] = replace(form, checksum=expected)
            self._checksums[value] = expected
        elif self.checksum(value) != expected:
            raise ProgramError(f"the checksum of constant {value} does not match: the file is damaged")


@dataclass(frozen=True)
class Signature:
    """How a user's arguments and results map to values.

    A slot is, for a leaf of a tree, the position among `Artifact.inputs` or `outputs`, or ``{"constant": value}``.
    `input_names` has a name for each value that a call passes. `parameters` has that of each positional argument; it is
    empty if not known, as in files of earlier engines.
    """

    input_tree: tree.Tree
    output_tree: tree.Tree
    input_slots: tuple[Any, ...]
    output_slots: tuple[Any, ...]
    input_names: tuple[str, ...]
    parameters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        slots = (s["constant"] for s in (*self.input_slots, *self.output_slots) if isinstance(s, Mapping))
        strange = [c for c in slots if not isinstance(c, bool | int | float | str | None)]
        if strange:
            raise UnsupportedOp([f"{c!r} as an argument or a result: only None, numbers and strings" for c in strange])


@dataclass(frozen=True)
class Artifact:
    """A compiled model, ready to be bound to a machine.

    `types` and `names` are of every value. `inputs` are the values that a call passes, then the contents of each state
    before it; `outputs` those that it returns (may repeat, may be inputs or constants), then the contents of each state
    after it. `passes` has ``(pass, number of changes)`` in order. Shapes and attributes may be formulas of the sizes in
    `scope`. `origins` has each value that equals an exported value. `components` maps an encoded constant, which is not
    among `constants`, to the constant of each of its components, by name. `lowered` is the target whose own passes have
    been applied; "" for none. `switches` are the fields of the Config that had an effect before these passes, as
    `engine.passes` lists them; empty if not known, as in files of earlier engines.
    """

    name: str
    types: tuple[TensorType, ...]
    names: tuple[str, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    instructions: tuple[Instruction, ...]
    constants: Constants
    signature: Signature
    passes: tuple[tuple[str, int], ...] = field(default=())
    scope: sizes.Scope = field(default_factory=sizes.Scope)
    states: tuple[Slot, ...] = ()
    origins: origins.Origins = field(default_factory=dict)
    lowered: str = ""
    components: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    switches: Mapping[str, Any] = field(default_factory=dict)

    def stored(self, value: int) -> np.ndarray | Stored:
        """A constant: its elements, or its components if it is encoded. KeyError for every other value."""
        if value not in self.components:
            return self.constants[value]
        type_, parts = self.types[value], self.components[value]
        encoding = type_.encoding
        assert encoding is not None  # noqa: S101  (checked when the artifact was made)
        return Stored(encoding, {name: self.constants[part] for name, part in parts.items()}, type_.dtype)

    def elements(self, value: int) -> np.ndarray:
        """The elements of a constant, decoded if it is encoded. KeyError for every other value."""
        found = self.stored(value)
        return found.elements() if isinstance(found, Stored) else found

    @property
    def call_inputs(self) -> tuple[int, ...]:
        return self.inputs[: len(self.inputs) - len(self.states)]

    @property
    def call_outputs(self) -> tuple[int, ...]:
        return self.outputs[: len(self.outputs) - len(self.states)]

    @property
    def state_inputs(self) -> tuple[int, ...]:
        return self.inputs[len(self.inputs) - len(self.states) :]

    @property
    def state_outputs(self) -> tuple[int, ...]:
        return self.outputs[len(self.outputs) - len(self.states) :]

    @property
    def is_fixed(self) -> bool:
        """True if every call has the same sizes."""
        return not self.scope.symbols

    @cached_property
    def _kinds(self) -> _Kinds:
        numbers: dict[bytes, int] = {}
        distinct: list[TensorType] = []
        type_of: list[int] = []
        for t in self.types:
            key = _canonical(_encode_type(t))  # == of formulas could record a guard
            if key not in numbers:
                numbers[key] = len(distinct)
                distinct.append(t)
            type_of.append(numbers[key])
        known: dict[tuple[Any, ...], int] = {}
        kinds: list[_Kind] = []
        varying: list[tuple[int, int]] = []
        for position, i in enumerate(self.instructions):
            inputs = tuple(None if v is None else type_of[v] for v in i.inputs)
            outputs = tuple(type_of[v] for v in i.outputs)
            saying = _canonical([i.op, {name: formulas.encode(value) for name, value in i.attributes.items()}])
            number = known.setdefault((saying, inputs, outputs), len(kinds))
            if number == len(kinds):
                names = tuple(name for name, value in i.attributes.items() if not sizes.is_fixed(value))
                kinds.append(_Kind(i.op, inputs, i.attributes, outputs, names))
            if kinds[number].varying:
                varying.append((position, number))
        with_formulas = [number for number, t in enumerate(distinct) if not sizes.is_fixed(t.shape)]
        _check_sizes(t for t in distinct if sizes.is_fixed(t.shape))
        return _Kinds(tuple(distinct), tuple(with_formulas), tuple(type_of), tuple(kinds), tuple(varying))

    def at(self, values: Mapping[str, int]) -> Artifact:
        """The artifact for these sizes. Checks every rule of the op table; the constants are shared. ShapeError if a
        size is out of its range, or the sizes break a guard.
        """
        self.scope.check(values)
        try:
            kinds = self._kinds
            distinct = list(kinds.types)
            for number in kinds.formulas:
                distinct[number] = distinct[number]._replace(shape=sizes.at(distinct[number].shape, values))
            _check_sizes([distinct[number] for number in kinds.formulas])
            attributes = [kind.at(values, distinct) for kind in kinds.kinds]
            for before, after in zip(self.state_inputs, self.state_outputs, strict=True):
                if distinct[kinds.type_of[before]] != distinct[kinds.type_of[after]]:
                    raise ValueError("a state changes its type")
        except ValueError as error:
            here = ", ".join(f"{name} = {size}" for name, size in values.items()) or "its sizes"
            raise ShapeError(f"the program does not work for {here}: {error}") from None
        instructions = list(self.instructions)
        for position, kind in kinds.varying:
            instructions[position] = instructions[position]._replace(attributes=attributes[kind])
        types = tuple([distinct[number] for number in kinds.type_of])
        return replace(self, types=types, instructions=tuple(instructions), scope=sizes.Scope())

    @property
    def weight_bytes(self) -> int:
        return sum(self.types[v].nbytes for v in self.constants)

    def header(self) -> dict[str, Any]:
        """The artifact without weights, sources, origins and log, as JSON-able values. The digest covers it."""
        s = self.signature
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "lowered": self.lowered,
            "sizes": {name: list(symbol) for name, symbol in self.scope.symbols.items()},
            "guards": [[g.relation, formulas.encode_terms(g.terms), g.holds] for g in self.scope.guards],
            "states": [list(slot) for slot in self.states],
            "types": [_encode_type(t) for t in self.types],
            "names": list(self.names),
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "instructions": [
                {
                    "op": i.op,
                    "inputs": list(i.inputs),
                    "attributes": {name: formulas.encode(value) for name, value in i.attributes.items()},
                    "outputs": list(i.outputs),
                }
                for i in self.instructions
            ],
            "constants": {str(v): tensor_name(v) for v in self.constants},
            "components": {str(v): dict(parts) for v, parts in self.components.items()},
            "signature": {
                "input_tree": tree.encode(s.input_tree),
                "output_tree": tree.encode(s.output_tree),
                "input_slots": list(s.input_slots),
                "output_slots": list(s.output_slots),
                "input_names": list(s.input_names),
            },
        }

    @cached_property
    def checksums(self) -> dict[str, str]:
        """SHA-256 of each constant's bytes, by tensor name."""
        return {tensor_name(value): self.constants.checksum(value) for value in self.constants}

    @cached_property
    def structure_digest(self) -> str:
        """Hash of the header: fast, and enough to compare two compilations of one model."""
        return hashlib.sha256(_canonical(self.header())).hexdigest()

    @cached_property
    def digest(self) -> str:
        """Hash of structure and weights; the same on every machine."""
        return hashlib.sha256(_canonical([self.structure_digest, self.checksums])).hexdigest()

    def document(self) -> dict[str, Any]:
        """The contents of a file except the weights: header, sources, log, origins, names of parameters, switches."""
        named: dict[str, Any] = {}
        if self.origins:
            modules = [i.module for i in self.instructions]
            derived = [i.module for i in with_modules(self.instructions, self.origins)]
            named["origins"] = origins.encode(self.origins, None if modules == derived else modules)
        if self.signature.parameters:
            named["parameters"] = list(self.signature.parameters)
        if self.switches:
            named["switches"] = dict(self.switches)
        return self.header() | {
            "sources": [i.source for i in self.instructions],
            "passes": [list(p) for p in self.passes],
            **named,
        }

    def save(self, path: str | Path) -> None:
        """Write one safetensors file: tensors are the weights, metadata is the header."""
        write(path, self.document(), self)


def write(path: str | Path, document: Mapping[str, Any], artifact: Artifact) -> None:
    """Write `document` and the constants as one file. ProgramError if this fails, or a mapped file has changed."""
    for value in artifact.constants:
        artifact.constants.confirm(value)
    text = _canonical({**document, "checksums": artifact.checksums})
    container.write(container.path_of(path), {tensor_name(v): a for v, a in artifact.constants.items()}, text)


def tensor_name(value: int) -> str:
    """Name of a constant's tensor in a file."""
    return f"constant.{value}"


def _encode_type(type_: TensorType) -> list[Any]:
    """Element type and shape, and the encoding where there is one, as JSON-able values."""
    encoding = [] if type_.encoding is None else [str(type_.encoding)]
    return [type_.dtype, formulas.encode(type_.shape), *encoding]


def _canonical(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def with_modules(
    instructions: Sequence[Instruction], traced: origins.Origins, modules: Sequence[str | None] | None = None
) -> tuple[Instruction, ...]:
    """The instructions, each with its module: that in `modules`; if it is None there, that of its first result with an
    origin, or the innermost that contains those of all readers. Without `modules`, as in earlier files, none is known.
    """
    modules = [None] * len(instructions) if modules is None else modules
    readers: dict[int, list[str]] = {}
    placed: list[Instruction] = []
    for instruction, known in zip(reversed(instructions), reversed(modules), strict=True):
        named = [traced[v].module for v in instruction.outputs if v in traced]
        read = [module for v in instruction.outputs for module in readers.get(v, ())]
        module = known if known is not None else named[0] if named else common_module(read)
        for value in instruction.inputs:
            if value is not None:
                readers.setdefault(value, []).append(module)
        placed.append(instruction._replace(module=module))
    return tuple(reversed(placed))


def _check_follows(op: str, inputs: Types, attributes: Mapping[str, Any], outputs: Sequence[TensorType]) -> None:
    if tuple(outputs) != tuple(TABLE[op].infer_types(inputs, attributes)):
        raise ValueError(f"{op}: output types do not follow from its inputs")


def _check_sizes(types: Iterable[TensorType]) -> None:
    for t in types:
        bounded_type("types", "a value", t)
