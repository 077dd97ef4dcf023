"""Reads program files: makes an `Artifact` of the document and the tensors of a file, and checks every rule.

Knows artifacts and the op table; knows no target. A file may be damaged or hostile, so everything in it is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine import sizes, tree
from engine.encodings import encoding
from engine.errors import ProgramError
from engine.graph import Form
from engine.ops import MAX_RANK, TABLE, Op, TensorType
from engine.program import (
    Artifact,
    Constants,
    Instruction,
    Signature,
    Slot,
    container,
    formulas,
    origins,
    tensor_name,
    with_modules,
)
from engine.program.versions import FORMAT, upgrade


def load(path: str | Path, verify: str = "full") -> Artifact:
    """Read an artifact with all of its weights, and close the file.

    `verify` ``full`` checks the header's hash and each weight's checksum, ``header`` only the former. ProgramError if
    the file is missing, damaged, foreign, of another version, or breaks a rule of the op table.
    """
    with opened(path, verify, mapped=False) as artifact:
        for value in artifact.constants:
            artifact.constants.keep(value, artifact.constants[value])
        return artifact


@contextmanager
def opened(path: str | Path, verify: str, *, mapped: bool) -> Iterator[Artifact]:
    """Open a file and yield its artifact. Every error in this block that a file can cause becomes a ProgramError.

    If `mapped`, the constants are memory-mapped. Otherwise each access reads and verifies the constant, which works
    only inside of this block: call `Constants.keep` for constants that are needed later. `verify` is as for `load`.
    """
    with opened_document(path, mapped=mapped) as (header, tensors):
        if "entries" in header:
            raise ProgramError("the file holds a decoder; load it with engine.load_decoder")
        yield parse(header, find_constants(header, header["constants"], tensors, verify))


@contextmanager
def opened_document(path: str | Path, *, mapped: bool) -> Iterator[tuple[dict[str, Any], Mapping[str, Form]]]:
    """Open a file and yield its document and tensors. Raises as `opened`."""
    file = container.path_of(path)
    with container.convert_errors(path), container.opened(file, mapped=mapped) as (text, tensors):
        header = container.parse_json(text)
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise ProgramError("not a program of this engine")
        yield upgrade(header), tensors


def find_constants(
    header: Mapping[str, Any], named: Mapping[str, str], tensors: Mapping[str, Form], verify: str
) -> Constants:
    """The constants that a document names, compared with its checksums if `verify` is ``full``. ProgramError,
    ValueError or LookupError if a tensor is missing or belongs to two constants, or a checksum differs.
    """
    values = {_size(int(value)): name for value, name in named.items()}
    if len(set(values.values())) < len(named):
        raise ValueError("two constants name the same tensor, or one value has two tensors")
    constants = Constants({value: tensors[name] for value, name in values.items()})
    if verify == "full":
        checksums = header["checksums"]
        if set(checksums) != set(map(tensor_name, values)):
            raise ValueError("checksums and constants have different names")
        for value in values:
            constants.verify(value, checksums[tensor_name(value)])
    return constants


def parse(header: Mapping[str, Any], constants: Constants) -> Artifact:
    """The artifact that a document describes. A broken rule raises one of many errors; `convert_errors` converts it."""
    s, scope = header["signature"], formulas.decode_scope(header["sizes"], header["guards"])
    stored = header.get("origins", origins.encode({}))  # absent where no value has one
    artifact = Artifact(
        name=str(header["name"]),
        types=tuple(_type(*parts, scope=scope) for parts in header["types"]),
        names=tuple(map(str, header["names"])),
        inputs=tuple(map(_size, header["inputs"])),
        outputs=tuple(map(_size, header["outputs"])),
        instructions=tuple(
            Instruction(
                i["op"],
                tuple(None if v is None else _size(v) for v in i["inputs"]),
                _attributes(TABLE[i["op"]], i["attributes"], scope),
                tuple(map(_size, i["outputs"])),
                str(source),
            )
            for i, source in zip(header["instructions"], header["sources"], strict=True)
        ),
        constants=constants,
        signature=Signature(
            tree.decode(s["input_tree"]),
            tree.decode(s["output_tree"]),
            tuple(s["input_slots"]),
            tuple(s["output_slots"]),
            tuple(map(str, s["input_names"])),
            tuple(map(_name, header.get("parameters", ()))),
        ),
        passes=tuple((str(name), int(n)) for name, n in header["passes"]),
        scope=scope,
        states=tuple(Slot(str(name), None if v is None else _size(v)) for name, v in header["states"]),
        origins=origins.decode(stored, len(header["types"]), scope, _attributes),
        lowered=_name(header["lowered"]),
        components={
            _size(int(value)): {str(name): _size(part) for name, part in parts.items()}
            for value, parts in header["components"].items()
        },
        switches=_switches(header.get("switches", {})),
    )
    _check(artifact)
    modules = origins.decode_modules(stored, len(artifact.instructions))
    return replace(artifact, instructions=with_modules(artifact.instructions, artifact.origins, modules))


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
    varying = [name for name, value in decoded.items() if not sizes.is_fixed(value)]
    if any(name not in op.attributes or op.attributes[name].kind not in ("int", "shape") for name in varying):
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


def _check(artifact: Artifact) -> None:
    """Check every rule that targets rely on. ValueError or ProgramError if one is broken."""
    types = artifact.types
    if len(artifact.names) != len(types):
        raise ValueError("the numbers of names and types differ")
    known = set(artifact.inputs)
    if len(known) != len(artifact.inputs) or any(value >= len(types) for value in known):
        raise ValueError("an input is listed twice, or has no type")
    for value in artifact.constants:
        fixed = sizes.is_fixed(types[value].shape)
        if value in known or not fixed or artifact.constants.type_of(value) != types[value]:
            raise ValueError(f"constant {value} does not fit its type")
        known.add(value)
    _check_components(artifact, known)
    for i in artifact.instructions:
        op = TABLE[i.op]
        op.check_arity(len(i.inputs))
        if any(v is None and not op.inputs[p].endswith("?") for p, v in enumerate(i.inputs)):
            raise ValueError(f"{i.op}: a required input is absent")
        if any(v is not None and v not in known for v in i.inputs):
            raise ValueError(f"{i.op}: reads a value before it is computed")
        if known & set(i.outputs) or len(set(i.outputs)) < len(i.outputs):
            raise ValueError(f"{i.op}: computes a value twice")
        known.update(i.outputs)
    if not known.issuperset(artifact.outputs):
        raise ValueError("an output is never computed")
    _check_states(artifact)
    artifact.at(artifact.scope.example)  # other sizes are checked when a call has them
    _check_signature(artifact)


def _check_components(artifact: Artifact, known: set[int]) -> None:
    """Encoded constants have the components that their encoding wants, and nothing else is encoded."""
    encoded = {value for value, type_ in enumerate(artifact.types) if type_.encoding is not None}
    if encoded != set(artifact.components) or encoded & known:
        raise ValueError("encoded values and values with components differ")
    for value, parts in artifact.components.items():
        type_ = artifact.types[value]
        if not sizes.is_fixed(type_.shape) or not all(p in artifact.constants and p < value for p in parts.values()):
            raise ValueError(f"encoded constant {value}: a component is no constant in front of it")
        found = {name: (artifact.types[part].dtype, artifact.types[part].shape) for name, part in parts.items()}
        if type_.encoding is None or found != type_.encoding.component_types(type_.shape):
            raise ValueError(f"encoded constant {value}: its components do not fit {type_}")
        known.add(value)


def _check_states(artifact: Artifact) -> None:
    if len(artifact.states) > min(len(artifact.inputs), len(artifact.outputs)):
        raise ValueError("more states than inputs or outputs")
    if len({slot.name for slot in artifact.states}) < len(artifact.states):
        raise ValueError("two states have one name")
    for slot, before, after in zip(artifact.states, artifact.state_inputs, artifact.state_outputs, strict=True):
        kept, later = artifact.types[before], artifact.types[after]
        # is_fixed comes first: a comparison of formulas would record a guard.
        if not sizes.is_fixed(kept.shape) or not sizes.is_fixed(later.shape) or kept != later:
            raise ValueError(f"state {slot.name} changes its type, or its size from call to call")
        if slot.initial is not None and (
            slot.initial not in artifact.constants or artifact.types[slot.initial] != kept
        ):
            raise ValueError(f"the initial value of state {slot.name} is no constant of its type")


def _check_signature(artifact: Artifact) -> None:
    s = artifact.signature
    for t, slots, limit in (
        (s.input_tree, s.input_slots, len(artifact.call_inputs)),
        (s.output_tree, s.output_slots, len(artifact.call_outputs)),
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
    if len({slot for slot in s.input_slots if not isinstance(slot, dict)}) < len(artifact.call_inputs):
        raise ValueError("an input has no argument")
    if len(s.input_names) != len(artifact.call_inputs):
        raise ValueError("the numbers of input names and inputs differ")
