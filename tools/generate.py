"""Writes what follows from the tables of ops, element types and encodings. Run as `python -m tools.generate`.

`csrc/ops.h` and `docs/ops.md` follow from the ops, `csrc/encodings.h` from element types and encodings.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine import dtypes, encodings
from engine.ops import FAMILIES, MAX_RANK, TABLE, Attribute, Op
from engine.ops.rounding import ACCUMULATION
from engine.ops.table import REQUIRED

ROOT = Path(__file__).resolve().parents[1]
HEADER = "csrc/ops.h"
ENCODINGS = "csrc/encodings.h"
PAGE = "docs/ops.md"
_BY = "by `python -m tools.generate`; do not edit."
_MARK = f"Generated from the op table {_BY}"

GROUPS: dict[str, tuple[str, ...]] = {
    "product": ("linear", "gated_linear"),
    "convolution": ("conv", "conv_transpose"),
    "pool": ("max_pool", "avg_pool"),
    "norm": ("layer_norm", "rms_norm"),
    "softmaxes": ("softmax", "log_softmax"),
    "rows": ("layer_norm", "rms_norm", "softmax", "log_softmax"),
    "read": ("embedding", "gather", "index_select", "index"),
}
"""Ops that have code in common, in which C calls a position by the name of the group: one that is the same in all."""
SYNONYMS = {("embedding", "table"): "x", ("embedding", "ids"): "index", ("index", "indices"): "index"}
"""Inputs that an op of a group calls otherwise than the others."""


def _families() -> dict[str, list[Op]]:
    """The ops by family, families in the order of the package, ops in that of their files."""
    names = [module.__name__.rsplit(".", 1)[-1] for module in FAMILIES]
    return {name: [op for op in TABLE.values() if op.family == name] for name in names}


def positions(op: Op) -> dict[str, tuple[str, int]]:
    """For each attribute that C receives: ("INT" or "REAL", its position there), as `Op.native_attributes` orders."""
    found: dict[str, tuple[str, int]] = {}
    counts = {"INT": 0, "REAL": 0}
    for name, attribute in op.attributes.items():
        if attribute.kind != "shape":
            array = "REAL" if attribute.kind == "float" else "INT"
            found[name] = (array, counts[array])
            counts[array] += MAX_RANK if attribute.kind == "ints" else 1
    return found


def header() -> str:
    """The text of csrc/ops.h."""
    lines = [
        f"/* {_MARK}",
        " *",
        " * EB_IN_<OP>_<INPUT> is the position of an input in eb_node.operands; of a variadic one, of its first value.",
        " * EB_INT_<OP>_<ATTRIBUTE> and EB_REAL_<OP>_<ATTRIBUTE> are positions in eb_node.ints and eb_node.reals;",
        " * EB_<OP>_<ATTRIBUTE>_<CHOICE> is the value of an attribute with named choices; where several ops have it,",
        " * EB_<ATTRIBUTE>_<CHOICE>. A dtype is an eb_dtype, axes are a bit mask, a list of ints is EB_MAX_RANK of",
        " * them from its position on, a program is the last of ints: four a step, the step's code and its operands. A",
        " * group of ops has the positions that are the same in all of them. EB_COMPUTE_OF_<op> is the position of",
        " * `compute` in eb_node.ints, -1 for an op without it.",
        " */",
        "#ifndef ENGINE_OPS_H",
        "#define ENGINE_OPS_H",
    ]
    shared = shared_choices()
    tables = [(op.name, _constants(op, shared)) for ops in _families().values() for op in ops]
    tables += [(", ".join(GROUPS[group]), _common_positions(group)) for group in GROUPS]
    tables += [(f"attribute {name}", _choices(name, choices)) for name, choices in shared.items()]
    computes = [(f"EB_COMPUTE_OF_{op.name}", positions(op).get("compute", ("INT", -1))[1]) for op in TABLE.values()]
    for title, constants in (*tables, ("where compute is", computes)):
        if constants:
            lines += ["", f"enum {{ /* {title} */", *(f"    {name} = {value}," for name, value in constants), "};"]
    return "\n".join([*lines, "", "#endif", ""])


def encodings_header() -> str:
    """The text of csrc/encodings.h."""
    codes = {d.name: f"EB_{d.code}" for d in dtypes.DTYPES}
    rows = [
        f"    ROW({e.family}, {codes[e.stored]}, {e.bits}, {e.low}, {e.high}, EB_PER_{e.per.upper()}, {e.group}, "
        f"{codes.get(e.scale, '-1')}, EB_ZERO_{e.zero.upper()})"
        for e in encodings.FAMILIES.values()
    ]
    lines = [
        f"/* Generated from the tables of element types and encodings {_BY}",
        " *",
        " * EB_ELEMENT_SIZES: bytes of an element, in the order of eb_dtype. EB_ENCODINGS: what an eb_encoding holds.",
        " */",
        "#ifndef ENGINE_ENCODINGS_H",
        "#define ENGINE_ENCODINGS_H",
        "",
        f"#define EB_ELEMENT_SIZES {{{', '.join(str(d.size) for d in dtypes.DTYPES)}}}",
        "",
        "#define EB_ENCODINGS(ROW) \\",
        " \\\n".join(["    ROW(plain, -1, 0, 0, 0, EB_PER_ELEMENT, 0, -1, EB_ZERO_NONE)", *rows]),
    ]
    return "\n".join([*lines, "", "#endif", ""])


def shared_choices() -> dict[str, tuple[str, ...]]:
    """The choices of each attribute that several ops have, where each op has all of them or the first few."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for op in TABLE.values():
        for name, attribute in op.attributes.items():
            if attribute.choices:
                found.setdefault(name, []).append(attribute.choices)
    longest = {name: max(choices, key=len) for name, choices in found.items() if len(choices) > 1}
    return {name: most for name, most in longest.items() if all(most[: len(one)] == one for one in found[name])}


def _choices(prefix: str, choices: tuple[str, ...]) -> list[tuple[str, int]]:
    return [(f"EB_{prefix}_{choice}".upper(), value) for value, choice in enumerate(choices)]


def _positions(op: Op) -> dict[tuple[str, str], int]:
    """(array, name) -> position, of inputs and attributes."""
    inputs = {("IN", SYNONYMS.get((op.name, name), name)): op.position(name) for name in op.input_names}
    return inputs | {(array, name): position for name, (array, position) in positions(op).items()}


def _common_positions(group: str) -> list[tuple[str, int]]:
    first, *others = (_positions(TABLE[name]) for name in GROUPS[group])
    common = [item for item in first.items() if all(item in other.items() for other in others)]
    return [(f"EB_{array}_{group}_{name}".upper(), position) for (array, name), position in common]


def _constants(op: Op, shared: Mapping[str, tuple[str, ...]]) -> list[tuple[str, int]]:
    constants = [(f"EB_IN_{op.name}_{name}".upper(), op.position(name)) for name in op.input_names]
    constants += [
        (f"EB_{array}_{op.name}_{name}".upper(), position) for name, (array, position) in positions(op).items()
    ]
    for name, attribute in op.attributes.items():
        if name not in shared:
            constants += _choices(f"{op.name}_{name}", attribute.choices)
    return constants


def page() -> str:
    """The text of docs/ops.md."""
    lines = [
        "# Graph ops",
        "",
        f"<!-- {_MARK} -->",
        "",
        f"{len(TABLE)} ops. `name?` is an optional input, `name*` takes any number. Operands of one op have one",
        "element type unless its line says otherwise; shapes of pointwise ops broadcast as in NumPy. *View*: shares",
        "the input's memory where strides permit. *In place*: inputs whose memory the result may take over. *Encoded*:",
        "inputs that may be encoded constants. *No kernels yet*: only the interpreter runs the op. `compute` is the",
        "arithmetic of products, which `engine/ops/arithmetic.py` defines.",
        "",
        "*Rounds*: which values are rounded to the element type; nothing: the result needs no rounding. Between, an op",
        "computes in float64 by its definition, and kernels compute and sum at least in:",
        "",
        "| element type | " + " | ".join(ACCUMULATION) + " |",
        "|---" * (1 + len(ACCUMULATION)) + "|",
        "| computed in | " + " | ".join(ACCUMULATION.values()) + " |",
    ]
    docs = {module.__name__.rsplit(".", 1)[-1]: module.__doc__ or "" for module in FAMILIES}
    for family, ops in _families().items():
        lines += [
            "",
            f"## {family}",
            "",
            docs[family].strip(),
            "",
            "| op | inputs | attributes | memory | rounds | meaning |",
        ]
        lines += ["|---|---|---|---|---|---|", *(_row(op) for op in ops)]
    return "\n".join([*lines, ""])


def _row(op: Op) -> str:
    attributes = ", ".join(_attribute(name, attribute) for name, attribute in op.attributes.items())
    memory = ["view"] if op.view else []
    if op.inplace:
        # Positions past the last name are further operands of a variadic one.
        names = dict.fromkeys(op.inputs[min(p, len(op.inputs) - 1)].rstrip("?") for p in op.inplace)
        memory.append("in place: " + ", ".join(names))
    if op.encoded:
        memory.append("encoded: " + ", ".join(op.encoded))
    if not op.has_kernels:
        memory.append("no kernels yet")
    cells = (f"`{op.name}`", ", ".join(op.inputs), attributes, "; ".join(memory), str(op.rounding), op.doc)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _attribute(name: str, attribute: Attribute) -> str:
    kind = attribute.kind if attribute.kind == "program" else " or ".join(attribute.choices) or attribute.kind
    default = "" if attribute.default is REQUIRED else f" = {attribute.default}"
    return f"{name}: {kind}{default}"


def main() -> None:
    """Write the files."""
    (ROOT / HEADER).write_text(header())
    (ROOT / ENCODINGS).write_text(encodings_header())
    (ROOT / PAGE).write_text(page())


if __name__ == "__main__":
    main()
