"""What is generated from the tables of ops and encodings is fresh, and says what C receives."""

from __future__ import annotations

import re

import pytest

from engine.ops import FAMILIES, MAX_RANK, TABLE
from engine.targets.cpu.passes.fuse_pointwise import MAX_INPUTS, MAX_STEPS
from tests.ops.cases import CASES
from tools.generate import (
    ENCODINGS,
    GROUPS,
    HEADER,
    PAGE,
    ROOT,
    SYNONYMS,
    encodings_header,
    header,
    page,
    shared_choices,
)

GENERATED = {HEADER: header(), ENCODINGS: encodings_header(), PAGE: page()}


@pytest.mark.parametrize(("path", "text"), GENERATED.items(), ids=GENERATED)
def test_generated_file_is_fresh(path, text):
    assert (ROOT / path).read_text() == text, "run python -m tools.generate"
    assert "python -m tools.generate" in "".join(text.splitlines()[:3])


def _constants() -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"(EB_\w+) = (-?\d+),", header())}


def test_every_constant_is_named_once():
    assert len(re.findall(r"EB_\w+ = ", header())) == len(_constants())


@pytest.mark.parametrize("op", TABLE.values(), ids=lambda op: op.name)
def test_positions_in_the_header_are_those_of_native_attributes(op):
    """Change one attribute at a time: what changes in C's arrays is at the position that the header names."""
    constants = _constants()
    base = next(c for c in CASES if c.op == op.name).complete()
    ints, reals = op.native_attributes(base)
    others = {
        "int": lambda v: v + 1,
        "bool": lambda v: not v,
        "float": lambda v: v + 1.0,
        "axis": lambda v: v + 1,
        "axes": lambda v: (*v, 7),
        "ints": lambda v: (v[0] + 1, *v[1:]),
        "dtype": lambda v: "int8" if v != "int8" else "int16",
        "program": lambda v: (("gelu", *v[0][1:]), *v[1:]),
    }
    for name, attribute in op.attributes.items():
        if attribute.kind == "shape":
            assert f"EB_INT_{op.name}_{name}".upper() not in constants
            continue
        values = attribute.choices if attribute.kind == "choice" else (others[attribute.kind](base[name]),)
        array = "REAL" if attribute.kind == "float" else "INT"
        position = constants[f"EB_{array}_{op.name}_{name}".upper()]
        for value in values:
            changed_ints, changed_reals = op.native_attributes({**base, name: value})
            before, after = (reals, changed_reals) if array == "REAL" else (ints, changed_ints)
            assert [i for i, (x, y) in enumerate(zip(before, after, strict=True)) if x != y] in ([], [position])
            if attribute.kind == "choice":
                owner = "" if name in shared_choices() else f"{op.name}_"
                assert after[position] == constants[f"EB_{owner}{name}_{value}".upper()]


@pytest.mark.parametrize("op", TABLE.values(), ids=lambda op: op.name)
def test_every_input_is_in_the_header_at_its_position(op):
    """Counted here by hand: the position of a name is how many names are declared before it."""
    prefix = f"EB_IN_{op.name}_".upper()
    (block,) = re.findall(rf"enum {{ /\* {op.name} \*/(.*?)}};", header(), re.DOTALL) or [""]
    found = [(name, int(value)) for name, value in re.findall(r"(EB_IN_\w+) = (\d+),", block)]
    expected = [prefix + re.sub(r"\W", "", name).upper() for name in op.inputs]
    assert found == [(name, position) for position, name in enumerate(expected)]


@pytest.mark.parametrize("group", GROUPS)
def test_a_name_of_a_group_is_the_position_in_each_of_its_ops(group):
    constants = _constants()
    prefix = re.compile(rf"EB_(IN|INT|REAL)_{group}_(\w+)", re.IGNORECASE)
    found = [prefix.fullmatch(name) for name in constants]
    assert any(found)
    for array, name in (match.groups() for match in found if match):
        for op in GROUPS[group]:
            own = next((theirs for (of, theirs), ours in SYNONYMS.items() if (of, ours) == (op, name.lower())), name)
            assert constants[f"EB_{array}_{op}_{own}".upper()] == constants[f"EB_{array}_{group}_{name}".upper()]


def test_the_rank_limit_is_that_of_c():
    (limit,) = re.findall(r"EB_MAX_RANK = (\d+)", (ROOT / "csrc/engine.h").read_text())
    assert int(limit) == MAX_RANK


def test_a_list_of_ints_reaches_c_as_one_number_for_each_possible_axis():
    pad = TABLE["pad"]
    ints, _reals = pad.native_attributes(pad.complete({"low": (1, 2, 3), "high": (4, 5, 6)}))
    assert ints[:-1] == [1, 2, 3, 0, 0, 0, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0]
    assert len(ints[:-1]) == 2 * MAX_RANK


def test_a_program_reaches_c_as_four_ints_a_step_and_its_limits_are_those_of_c():
    constants = _constants()
    program = (("relu", 0), ("where", 1, 2, 0))
    ints, _reals = TABLE["pointwise"].native_attributes({"program": program})
    relu, where = constants["EB_POINTWISE_PROGRAM_RELU"], constants["EB_POINTWISE_PROGRAM_WHERE"]
    assert ints == [relu, 0, -1, -1, where, 1, 2, 0]
    (operands,) = re.findall(r"EB_LOOP_OPERANDS = (\d+)", (ROOT / "csrc/iterate.h").read_text())
    assert int(operands) == 1 + MAX_INPUTS
    for path in ("csrc/ref/pointwise.c", "csrc/kernels/vector/program.h"):
        assert f"PROGRAM_STEPS = {MAX_STEPS}," in (ROOT / path).read_text()


def test_every_op_has_a_line_of_documentation_and_lives_in_the_file_of_its_family():
    files = {module.__name__.rsplit(".", 1)[-1] for module in FAMILIES}
    for op in TABLE.values():
        assert op.doc, op.name
        assert op.family in files, op.name
        assert f"| `{op.name}` |" in page()
