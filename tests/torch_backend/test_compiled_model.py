"""What every compiled model offers: Program and FallbackProgram have the members of CompiledModel, and sum reports."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections import Counter
from dataclasses import fields
from functools import cached_property

import pytest
import torch
from torch import nn

import engine
from engine.runtime.program import Program
from engine.runtime.report import Counts, Report, build_report
from engine.torch_backend.fallback import FallbackProgram
from suites import models
from tests import messages

FALLBACK = engine.Config(fallback="torch")
SPECIAL = ("__call__", "__reduce__")


def members(cls):
    return {name for one in cls.__mro__ for name in vars(one) if name in SPECIAL or not name.startswith("_")}


class Mixed(nn.Module):
    """Torch runs `cummax`, the transform and `lgamma` of a weight, the engine the rest, in two segments."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("scale", torch.full((8,), 0.5))

    def forward(self, x):
        y = torch.relu(self.first(x))
        return self.second(torch.cummax(y, -1)[0]), torch.fft.rfft(y), torch.lgamma(self.scale)


@pytest.fixture(scope="module")
def compiled():
    """One model of each class, by class."""
    native = engine.compile(*models.get("bert-tiny").build())
    mixed = engine.compile(Mixed().eval(), (torch.ones(2, 8),), FALLBACK)
    return {type(one): one for one in (native, mixed)}


CLASSES = pytest.mark.parametrize("cls", [Program, FallbackProgram])


# --- members ---------------------------------------------------------------------------------------------------------


def test_compile_returns_the_two_classes(compiled):
    assert set(compiled) == {Program, FallbackProgram}
    assert all(isinstance(one, engine.CompiledModel) for one in compiled.values())


@CLASSES
@pytest.mark.parametrize("name", sorted(members(engine.CompiledModel)))
def test_a_member_has_the_signature_of_the_base_class(cls, name):
    declared, own = (inspect.getattr_static(one, name) for one in (engine.CompiledModel, cls))
    assert not getattr(own, "__isabstractmethod__", False)
    if isinstance(declared, property):
        assert isinstance(own, property | cached_property)
    else:
        one, other = (inspect.signature(function).parameters for function in (declared, own))
        assert list(one.items()) == list(other.items())


def test_what_torch_runs_adds_no_member_of_its_own():
    assert members(FallbackProgram) == members(engine.CompiledModel)


@CLASSES
def test_an_instance_knows_its_config(compiled, cls):
    assert isinstance(compiled[cls].config, engine.Config)


@CLASSES
@pytest.mark.parametrize("keep", [pickle.dumps, copy.copy, copy.deepcopy])
def test_it_is_not_pickled_and_says_what_to_do_instead(compiled, cls, keep):
    with messages.raises(TypeError):
        keep(compiled[cls])


@CLASSES
def test_a_model_without_buffers_has_an_empty_state(compiled, cls):
    assert dict(compiled[cls].new_state()) == {}


# --- reports ---------------------------------------------------------------------------------------------------------


def test_the_report_of_a_program_counts_its_nodes_and_steps(compiled):
    program = compiled[Program]
    report, graph = program.report(), program.lowered
    plan = program._example.executable.plan

    def types(values):
        return [None if v is None else v.type for v in values]

    flops = nbytes = 0
    for node in graph.nodes:
        if node.op.view is None:
            flops += node.op.flops(types(node.inputs), types(node.outputs), node.attributes)
            nbytes += node.op.nbytes(types(node.inputs), types(node.outputs), node.attributes)
    expected = {
        "nodes": len(graph.nodes),
        "launches": len(plan.steps),
        "fallback_nodes": 0,
        "copies": [step.node for step in plan.steps].count(None),
        "in_place": plan.in_place,
        "arena_bytes": plan.arena_bytes,
        "arena_lower_bound_bytes": plan.lower_bound,
        "weight_bytes": sum(value.elements.nbytes for value in graph.stored_constants()),
        "packed_bytes": program._prepared.packed_bytes,
        "flops": flops,
        "bytes": nbytes,
        "passes": graph.log,
        "kernels": tuple(Counter(step.kernel.name for step in plan.steps).most_common()),
        "segments": (),
    }
    assert {name: getattr(report, name) for name in expected} == expected
    assert flops > 0
    assert report.executed_flops == flops  # no convolution, so no Winograd


def test_the_report_of_segments_is_the_sum_of_its_parts(compiled):
    """Field by field, as written out here."""
    model = compiled[FallbackProgram]
    segments = model._example.segments
    report, parts = model.report(), [part.program.report() for part in segments.parts if part.program is not None]
    calls = [call for part in segments.parts if part.program is None for call in part.calls]
    held = sum(tensor.nbytes for tensor in segments.held.values())
    assert len(parts) == 2
    assert calls
    assert held
    for name in ("copies", "copied_bytes", "in_place", "arena_bytes", "arena_lower_bound_bytes", "packed_bytes",
                 "flops", "executed_flops", "bytes", "packing_seconds"):  # fmt: skip
        assert getattr(report, name) == sum(getattr(part, name) for part in parts), name
    assert report.nodes == sum(part.nodes for part in parts) + len(calls)
    assert report.launches == sum(part.launches for part in parts) + len(calls)
    assert report.fallback_nodes == len(calls)
    assert report.weight_bytes == sum(part.weight_bytes for part in parts) + held
    kernels = Counter(f"torch {call}" for call in calls)
    for part in parts:
        kernels.update(dict(part.kernels))
    assert report.kernels == tuple(kernels.most_common())
    assert [name for name, _ in report.passes] == [name for name, _ in parts[0].passes]
    for (_, changes), *each in zip(report.passes, *(part.passes for part in parts), strict=True):
        assert changes == sum(one for _, one in each)


def test_every_number_of_a_report_is_summed():
    """A count that is added to Report and not to Counts would be missing from a report of several parts."""
    tables = ("passes", "kernels", "slow_operations")
    one = {f.name: number + 1 for number, f in enumerate(fields(Counts)) if f.name not in tables}
    config = engine.Config(target="interpreter")  # which measures nothing for a report
    part = Counts(**one, passes=(("fuse", 1), ("fold", 2)), kernels=(("a", 2), ("b", 1)),
                  slow_operations=(("sum of int64", 1), ("copy", 1)))  # fmt: skip
    other = Counts(**one, passes=(("fuse", 3), ("fold", 0)), kernels=(("c", 2), ("b", 2)),
                   slow_operations=(("copy", 3),))  # fmt: skip
    whole = build_report(
        [Counts(), part, other],
        name="x",
        sizes=(),
        export_seconds=None,
        compile_seconds=7.0,
        config=config,
        digest="",
        run_digest="",
    )
    assert {name: getattr(whole, name) for name in one} == {name: 2 * number for name, number in one.items()}
    assert whole.passes == (("fuse", 4), ("fold", 2))
    assert whole.kernels == (("b", 3), ("a", 2), ("c", 2))
    assert whole.slow_operations == (("copy", 4), ("sum of int64", 1))
    counted = {f.name for f in fields(Report) if f.type in ("int", "float")} - {"compile_seconds"}
    assert counted == set(one)
    assert build_report([whole], name="x", sizes=(), export_seconds=None, compile_seconds=7.0,
                        config=config, digest="", run_digest="") == whole  # fmt: skip
