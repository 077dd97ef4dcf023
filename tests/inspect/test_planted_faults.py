"""Faults that the tools do not know: `diff` names the node that is wrong, `first_bad` the one that makes NaN."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import pytest

import engine
from suites import models
from suites.harness.declare.precision import convert_inputs, convert_model
from tests.inspect.planted import __main__ as planted
from tests.inspect.planted.plant import ROOT, read_faults
from tests.mutants.__main__ import build_native

FAULTS = read_faults()
PYTHON, NATIVE = ([fault for fault in FAULTS if fault.is_native is native] for native in (False, True))


@pytest.mark.filterwarnings("ignore:Using padding='same'")  # of torch, which copies x there
@pytest.mark.parametrize("fault", PYTHON, ids=lambda fault: fault.name)
def test_the_node_of_a_fault_is_named(fault):
    op, said = planted.look(fault)
    assert op.startswith(fault.ops), said


@pytest.mark.long  # it builds the extension
def test_the_node_of_a_fault_of_c_is_named():
    extension, _ = build_native(NATIVE, ROOT / "build" / "planted")
    missed = {}
    for number, fault in enumerate(NATIVE, 1):
        command = [sys.executable, "-m", "tests.inspect.planted", fault.name, str(extension)]
        environment = os.environ | {"ENGINE_MUTANT": str(number)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        op, *said = done.stdout.splitlines() or ["", done.stderr[-500:]]
        if not op.startswith(fault.ops):
            missed[fault.name] = op, said
    assert len(missed) <= 0.05 * len(FAULTS), missed


TINY = [name for name in models.names() if name.endswith("-tiny")]
PRECISIONS = ("fp32", "bf16", "int8_weight", "int8_dynamic", "int4_weight")
CORRECT = [(name, PRECISIONS[number % 5], "") for number, name in enumerate(TINY)]
MORE = [(name, precision, isa) for name in TINY for precision in PRECISIONS for isa in ("avx2", "generic")]


def diff(name, precision, isa):
    """The tiny model in this precision and on this instruction set, beside eager64."""
    module, inputs = models.get(name).build()
    kept = {"isa": isa} if isa else {}
    if precision == "bf16":
        converted = convert_model(copy.deepcopy(module), precision), convert_inputs(inputs, precision)
        return engine.diff(module, tuple(inputs), candidate=engine.compile(*converted, engine.Config(**kept)))
    config = engine.Config(precision=None if precision == "fp32" else precision, **kept)
    return engine.diff(module, tuple(inputs), candidate=config)


@pytest.mark.parametrize(
    ("name", "precision", "isa"), [*CORRECT, *(pytest.param(*one, marks=pytest.mark.long) for one in MORE)]
)
def test_no_node_of_a_correct_program_is_accused(name, precision, isa):
    found = diff(name, precision, isa)
    assert found.first_wrong is None, str(found.first_wrong)
    assert found.is_repeatable
    assert any(one.own is not None for one in found.values)
