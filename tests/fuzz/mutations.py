"""Changes of a program's document that a hostile file may have: attributes, types, wiring, states, signature, scope.

Each changes the document in place and answers what it did. Hashes are computed afterwards, so a change gets past them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np

from engine import dtypes
from engine.ops import TABLE, TensorType
from engine.program import formulas
from tests.fuzz.extremes import INTS, MISSING, Extreme, of_attribute
from tests.fuzz.programs import Draft

Document = dict[str, Any]
_SIZES = (
    0,
    1,
    2,
    3,
    5,
    64,
    1 << 15,
    1 << 20,
    1 << 24,
    (1 << 31) - 1,
    1 << 31,
    1 << 40,
    (1 << 47),
    1 << 48,
    1 << 62,
    -1,
)
_JUNK: tuple[Any, ...] = (
    *(None, True, False, "", "x", "*", [], [[]], {}, {"x": 1}, {"size": []}, 1.5, math.nan, math.inf, -1, 0, 1, 7, 999),
    *INTS.values(),
)


def infer_again(document: Document) -> bool:
    """Let the types of results follow from the changed inputs. False where an op refuses them: nothing is changed then.

    Without it nearly every mutation would be refused because the types do not follow, and nothing behind that check
    would be reached.
    """
    try:
        scope = formulas.decode_scope(document["sizes"], document["guards"])
        types = [TensorType(dtype, formulas.decode(shape, scope)) for dtype, shape in document["types"]]
        with scope.deciding():
            for instruction in document["instructions"]:
                op = TABLE[instruction["op"]]
                given = {name: formulas.decode(value, scope) for name, value in instruction["attributes"].items()}
                inputs = [None if value is None else types[value] for value in instruction["inputs"]]
                for value, inferred in zip(
                    instruction["outputs"], op.infer_types(inputs, op.complete(given)), strict=True
                ):
                    types[value] = inferred
    except Exception:  # noqa: BLE001  # the op's rule refuses it, or breaks: loading must find that out by itself
        return False
    document["types"] = [[t.dtype, formulas.encode(t.shape)] for t in types]
    document["guards"] = formulas.encode_guards(scope)
    return True


# --- attributes -------------------------------------------------------------------------------------------------------


def put_extreme(rng: Random, draft: Draft, extreme: Extreme) -> str:
    """Give the op's attribute an extreme value, and others of its attributes values with which the op accepts it."""
    document = draft.document
    instruction = rng.choice([i for i in document["instructions"] if i["op"] == extreme.op])
    attributes = _put(instruction, extreme)
    instruction["attributes"] = attributes
    labels, accepted = [str(extreme)], infer_again(document)
    others = [one for name in attributes if name != extreme.attribute for one in of_attribute(extreme.op, name)]
    rng.shuffle(others)
    same = [one for one in others if one.label == extreme.label]
    if same and rng.random() < 0.5:
        return "; ".join([*labels, *_balance(rng, draft, instruction, same)])
    for one in (*same, *others)[: rng.choice((0, 2, 8))]:
        before, instruction["attributes"] = instruction["attributes"], _put(instruction, one)
        if infer_again(document):
            accepted = True
            labels.append(str(one))
        elif accepted or rng.random() < 0.5:
            instruction["attributes"] = before
    return "; ".join(labels)


def _balance(rng: Random, draft: Draft, instruction: Document, same: list[Extreme]) -> list[str]:
    """Give some other attributes the same extreme, so that the op accepts it and the result stays small.

    What padding adds to an axis a dilation takes away: such programs look harmless to a check of sizes.
    """
    document, before = draft.document, instruction["attributes"]
    for _ in range(16):
        chosen = [one for one in same if rng.random() < 0.5]
        instruction["attributes"] = before
        for one in chosen:
            instruction["attributes"] = _put(instruction, one)
        if infer_again(document):
            sizes_now = [n for v in instruction["outputs"] for n in document["types"][v][1] if isinstance(n, int)]
            if math.prod(max(n, 1) for n in sizes_now) <= 1 << 16:
                return list(map(str, chosen))
    return ["not balanced"]


def _put(instruction: Document, extreme: Extreme) -> Document:
    """The instruction's attributes with the extreme value."""
    attributes = dict(instruction["attributes"])
    value = extreme.of(attributes.get(extreme.attribute))
    if value is MISSING:
        attributes.pop(extreme.attribute, None)
    else:
        attributes[extreme.attribute] = value
    return attributes


def add_attribute(rng: Random, draft: Draft) -> str:
    """An attribute that the op does not have."""
    instruction = rng.choice(draft.document["instructions"])
    instruction["attributes"][rng.choice(("evil", "", "axis", "shape", "\0"))] = rng.choice(_JUNK)
    return f"{instruction['op']}: another attribute"


# --- types ------------------------------------------------------------------------------------------------------------


def change_type(rng: Random, draft: Draft) -> str:
    """Another element type or shape of an input or a constant; constants keep elements that fit."""
    document = draft.document
    results = {value for i in document["instructions"] for value in i["outputs"]}
    sources = [value for value in range(len(document["types"])) if value not in results]
    if not sources or rng.random() < 0.1:  # of a result: loading must see that it does not follow
        value = rng.randrange(len(document["types"]))
        document["types"][value][rng.randrange(2)] = rng.choice((_JUNK, _SIZES))[0]
        return f"type of value {value}"
    value = rng.choice(sources)
    dtype, shape = document["types"][value]
    old = str(shape)
    if rng.random() < 0.25:
        dtype = rng.choice(list(dtypes.BY_NAME))
    else:
        shape = _other_shape(rng, shape)
    document["types"][value] = [dtype, shape]
    _fit_constants(draft)
    infer_again(document)
    return f"type of value {value}: {old} -> {dtype}{shape}"


def _fit_constants(draft: Draft) -> None:
    """Let constants have the types that the document says, where such arrays are small."""
    for name, array in draft.tensors.items():
        dtype, shape = draft.document["types"][int(name.removeprefix("constant."))]
        known = all(isinstance(n, int) and n >= 0 for n in shape)
        if known and math.prod(max(n, 1) for n in shape) <= 1 << 20:
            with np.errstate(all="ignore"):
                draft.tensors[name] = np.resize(array.astype(dtypes.BY_NAME[dtype].numpy), shape)


def _other_shape(rng: Random, shape: list[Any]) -> list[Any]:
    shape = list(shape)
    match rng.randrange(6):
        case 0 | 1 if shape:
            shape[rng.randrange(len(shape))] = rng.choice(_SIZES)
        case 2 if shape:
            shape.pop(rng.randrange(len(shape)))
        case 3:
            shape.insert(rng.randint(0, len(shape)), rng.choice(_SIZES))
        case 4:
            shape = [*[1] * (rng.choice((7, 8, 9)) - len(shape)), *shape]
        case _:
            shape = [rng.choice(_SIZES) for _ in shape]
    return shape


def scale_all(rng: Random, draft: Draft) -> str:
    """One size, wherever it stands, becomes another one: operands keep fitting each other."""
    document = draft.document
    known = sorted({n for _, shape in document["types"] for n in shape if isinstance(n, int)})
    if not known:
        return change_type(rng, draft)
    old, new = rng.choice(known), rng.choice(_SIZES)
    for entry in document["types"]:
        entry[1] = [new if n == old else n for n in entry[1]]
    for instruction in document["instructions"]:
        for name, attribute in TABLE[instruction["op"]].attributes.items():
            if attribute.kind == "shape" and name != "axes_order":
                instruction["attributes"][name] = [new if n == old else n for n in instruction["attributes"][name]]
            elif name in ("stop", "length") and instruction["attributes"][name] == old:
                instruction["attributes"][name] = new
    _fit_constants(draft)
    infer_again(document)
    return f"size {old} -> {new} everywhere"


# --- wiring -----------------------------------------------------------------------------------------------------------


def change_wiring(rng: Random, draft: Draft) -> str:
    """An instruction that reads another value, or one that is not there; instructions in another order."""
    document = draft.document
    instructions, count = document["instructions"], len(document["types"])
    instruction = rng.choice(instructions)
    values = (*range(count), *range(count), count, -1, 1 << 31, 1 << 47, 1 << 62, None)
    field = rng.choice(("inputs", "inputs", "inputs", "outputs", "arity", "order", "duplicate", "delete", "op"))
    match field:
        case "inputs" | "outputs" if instruction[field]:
            instruction[field][rng.randrange(len(instruction[field]))] = rng.choice(values)
        case "arity":
            extra = rng.choice(values)
            if rng.random() < 0.5 and instruction["inputs"]:
                instruction["inputs"].pop(rng.randrange(len(instruction["inputs"])))
            else:
                instruction[rng.choice(("inputs", "outputs"))].append(extra)
        case "order":
            rng.shuffle(instructions)
        case "duplicate":
            document["instructions"].append({**instruction})
            document["sources"].append("")
        case "delete":
            document["instructions"].remove(instruction)
            document["sources"].pop()
        case _:
            instruction["op"] = rng.choice(sorted(TABLE))
            if rng.random() < 0.8:
                declared = TABLE[instruction["op"]].attributes
                instruction["attributes"] = {n: a for n, a in instruction["attributes"].items() if n in declared}
    infer_again(document)
    return f"wiring: {field}"


def change_ends(rng: Random, draft: Draft) -> str:
    """Inputs and outputs of the program: repeated, missing, of other values."""
    document = draft.document
    count = len(document["types"])
    field = rng.choice(("inputs", "outputs", "outputs"))
    values, other = document[field], rng.choice((*range(count), count, -1, 1 << 47))
    match rng.randrange(4):
        case 0 if values:
            values[rng.randrange(len(values))] = other
        case 1:
            values.append(other)
        case 2 if values:
            values.pop(rng.randrange(len(values)))
        case _:
            document[field] = []
    signature = document["signature"]
    if rng.random() < 0.8:  # a signature that fits them
        states = len(document["states"])
        brought, returned = len(document["inputs"]) - states, len(document["outputs"]) - states
        signature["input_tree"] = {"tuple": [{"tuple": ["*"] * brought}, {"dict": {}}]}
        signature["input_slots"], signature["output_slots"] = list(range(brought)), list(range(returned))
        signature["input_names"] = [f"x{number}" for number in range(brought)]
        signature["output_tree"] = {"tuple": ["*"] * returned}
    return f"ends: {field}"


# --- states, signature, scope -----------------------------------------------------------------------------------------


def change_states(rng: Random, draft: Draft) -> str:
    """States that are too many, have one name, another type or another beginning."""
    document = draft.document
    states, count = document["states"], len(document["types"])
    initial = rng.choice((None, *range(count), count, -1, True, "x"))
    match rng.randrange(3):
        case 0 if states:
            states[rng.randrange(len(states))][rng.randrange(2)] = rng.choice((initial, "buffer0", "state"))
        case 1 if states:
            states.append(list(rng.choice(states)))
        case _:
            states.append([rng.choice(("buffer0", "state", "", "\0")), initial])
            if rng.random() < 0.7:  # an input and an output that fit
                dtype, shape = rng.choice(document["types"])
                document["types"].append([dtype, shape])
                document["names"].append("state")
                document["inputs"].append(count)
                document["outputs"].append(rng.choice([count, *range(count)]))
    return "states"


def change_signature(rng: Random, draft: Draft) -> str:
    """Trees that are deep, empty or none, slots that repeat or lead nowhere."""
    signature = draft.document["signature"]
    field = rng.choice(sorted(signature))
    if field.endswith("slots"):
        slots = signature[field]
        junk: Any = rng.choice(
            (*_JUNK, {"constant": []}, {"constant": math.nan}, {"constant": "x"}, {"constant": 1 << 70})
        )
        slots[rng.randint(0, len(slots)) :] = [junk]
    elif field == "input_names":
        signature[field] = rng.choice((*_JUNK, [["x"]], ["x"] * 3, [None]))
    else:
        deep: Any = signature[field]
        for _ in range(rng.choice((1, 63, 65, 300))):
            deep = rng.choice(({"tuple": [deep]}, {"list": [deep]}, {"dict": {"": deep}}))
        fields = rng.choice(
            (["x", "x"], [["x", "*"]], {"class": "*"}, {"_x": "*"}, {"__new__": "*"}, {"index": "*"}, [])
        )
        name = rng.choice(("Result", "class", "", "a b", "é", 1, None, "count"))
        signature[field] = rng.choice((deep, {"namedtuple": name, "fields": fields}, rng.choice(_JUNK)))
    return f"signature: {field}"


def change_scope(rng: Random, draft: Draft) -> str:
    """Ranges, formulas and guards that are extreme, circular in their size, or divide by zero."""
    document = draft.document
    numbers = (*INTS.values(), 0, 1, 2, 3, 5)
    what = rng.choice(("range", "guard", "guard", "size", "size", "attribute", "input"))
    _make_symbolic(rng, document)
    match what:
        case "range":
            document["sizes"][rng.choice(("s", "t", ""))] = [rng.choice(numbers) for _ in range(3)]
        case "guard":
            document["guards"].append(
                [rng.choice(("==", "<", "!=", None)), _formula(rng, 0), rng.choice((True, False, 1))]
            )
        case "size":
            shapes = [shape for _, shape in document["types"] if shape]
            if shapes:
                shape = rng.choice(shapes)
                shape[rng.randrange(len(shape))] = {"size": _formula(rng, 0)}
        case "attribute":
            attributes = rng.choice(document["instructions"])["attributes"]
            if attributes:
                attributes[rng.choice(sorted(attributes))] = {"size": _formula(rng, 0)}
        case _:
            types = [document["types"][value] for value in document["inputs"] if document["types"][value][1]]
            for type_ in types:
                type_[1][rng.randrange(len(type_[1]))] = {"size": _formula(rng, 0)}
    infer_again(document)
    return f"scope: {what}"


def _make_symbolic(rng: Random, document: Document) -> None:
    """Let the size of an input's axis, and others that are as large, differ from call to call."""
    known = [n for v in document["inputs"] for n in document["types"][v][1] if isinstance(n, int)]
    if document["sizes"] or not known:
        return
    example = rng.choice(known)
    low, high = rng.choice((0, example)), rng.choice((example, example + 8, 1 << 20, (1 << 48) - 1))
    document["sizes"]["s"] = [low, max(high, example), example]
    for value in document["inputs"]:
        type_ = document["types"][value]
        type_[1] = [{"size": [[["s"], 1]]} if n == example else n for n in type_[1]]
    infer_again(document)


def _formula(rng: Random, depth: int) -> Any:
    """Terms of a size as a file has them; some are none."""
    if depth > rng.choice((2, 9)):
        return [[["s"], 1]]
    terms: list[Any] = []
    for _ in range(rng.choice((0, 1, 1, 2))):
        atoms: list[Any] = []
        for _ in range(rng.choice((0, 1, 1, 2, 40) if not depth else (0, 1, 1, 2))):
            operation = [rng.choice(("//", "%", "/")), _formula(rng, depth + 1), _formula(rng, depth + 1)]
            atoms.append(rng.choice(("s", "s", "s", "t", operation)))
        terms.append([atoms, rng.choice((1, 1, 2, -1, 0, 3, (1 << 48) - 1, 1 << 48, 1.5, None))])
    return terms


# --- anything ---------------------------------------------------------------------------------------------------------


def put_junk(rng: Random, draft: Draft) -> str:
    """Any place of the document: another value, nothing, or the same twice."""
    places = list(_places(draft.document))
    container, key = rng.choice(places)
    path = f"{type(container).__name__}[{key!r}]"
    match rng.randrange(3):
        case 0:
            del container[key]
        case 1 if isinstance(container, list):
            container.insert(key, container[key])
        case _:
            container[key] = rng.choice(_JUNK)
    return f"junk at {path}"


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of everything inside of `data`."""
    for key, value in list(enumerate(data) if isinstance(data, list) else data.items()):
        yield data, key
        if isinstance(value, list | dict):
            yield from _places(value)


STRUCTURAL: tuple[Callable[[Random, Draft], str], ...] = (
    change_type,
    change_type,
    scale_all,
    scale_all,
    change_wiring,
    change_wiring,
    change_ends,
    change_states,
    change_signature,
    change_scope,
    change_scope,
    add_attribute,
    put_junk,
)
