"""Two programs of one model compared value by value; origins in files; modules in tables and messages."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import engine
from engine.errors import ExecutionError, ProgramError
from engine.program import document_of
from engine.runtime.report import MODULE_WIDTH, shortened
from tests import messages
from tests.files import saved_with
from tests.golden import models as golden


class Block(nn.Module):
    """An image network whose rows another one reads: layouts change, and parallel products are merged."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.left, self.right = nn.Linear(8, 6), nn.Linear(8, 6)

    def forward(self, x):
        y = torch.relu(self.norm(self.conv(x))).flatten(2).transpose(1, 2)
        return (self.left(y) @ self.right(y).transpose(1, 2)).softmax(-1)[:, 1:]


class Network(nn.Module):
    """A block inside of a module, so that its paths have two parts."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Block())

    def forward(self, x):
        return self.body(x)


@functools.cache
def compiled(config=None):
    """One program for all tests: none of them changes it."""
    torch.manual_seed(0)
    height = {"x": {0: Dim("batch", min=2, max=8), 2: Dim("height", min=4, max=32)}}
    return engine.compile(Network().eval(), (torch.randn(3, 3, 9, 7),), config, dynamic_shapes=height)


def traced(program, x):
    """(origin, elements) of each value that a node makes and that has an origin."""
    trace = program.trace(x, keep=range(len(program.lowered.nodes)))
    for traced, node in zip(trace.nodes, program.lowered.nodes, strict=True):
        for value, made in zip(node.outputs, traced.outputs, strict=True):
            if value.origin is not None:
                yield value.origin, made.array


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("shape", [(3, 3, 9, 7), (2, 3, 32, 7)])
def test_two_programs_are_compared_value_by_value_through_all_passes(target, shape, tmp_path):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    plain = compiled(engine.Config(pipeline=(), target="interpreter"))
    exported = {origin.value: array for origin, array in traced(plain, x) if not origin.view} | {"x": x.numpy()}
    compiled().save(tmp_path / "p")
    program = engine.load(tmp_path / "p", config=engine.Config(target=target))
    views, seen = set(), 0
    for origin, array in traced(program, x):
        expected = origin.apply(exported[origin.value], {"batch": shape[0], "height": shape[2]})
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5, err_msg=str(origin))
        views |= {step.op for step in origin.view}
        seen += 1
    assert seen >= 8
    assert target == "interpreter" or "permute" in views, "on the cpu, the convolution has its channels last"


def test_a_file_holds_the_origins_but_they_are_not_in_the_digest(tmp_path):
    program = compiled()
    program.save(tmp_path / "p")
    loaded = engine.load(tmp_path / "p")
    assert document_of(loaded.graph)[0] == document_of(program.graph)[0]
    saved_with(program, tmp_path / "without", lambda header: header.pop("origins"))
    without = engine.load(tmp_path / "without")
    assert without.digest == loaded.digest == program.digest
    assert {value.origin for node in without.graph.nodes for value in node.outputs} == {None}
    assert "origins" not in document_of(without.graph)[0]
    assert {node.source.module for node in without.graph.nodes} == {""}


def test_no_folder_of_this_machine_is_in_a_file():
    origins = document_of(compiled().graph)[0]["origins"]
    assert {source.count("/") for source in origins["sources"] if source} == {1}
    assert "body.0.left" in origins["modules"]
    assert len(json.dumps(origins)) < 6000


def test_a_merged_product_is_in_the_module_that_contains_its_parts():
    program = compiled()
    merged = next(node for node in program.lowered.nodes if node.op.name == "linear")
    assert merged.output.origin is None
    assert merged.source.module == "body.0"


class Up(nn.Module):
    """A product whose activation another module applies."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 8))

    def forward(self, x):
        return x @ self.weight.t()  # the line of the product


class Clip(nn.Module):
    """An activation."""

    def forward(self, x):
        return torch.relu(x)


class Pair(nn.Module):
    """Two products of one value, which are merged, and one with an epilogue."""

    def __init__(self):
        super().__init__()
        self.up, self.clip = Up(), Clip()
        self.gates = nn.ModuleDict({"left": nn.Linear(16, 8), "right": nn.Linear(16, 8)})

    def forward(self, x):
        y = self.clip(self.up(x))
        return self.gates["left"](y).softmax(-1) + self.gates["right"](y)


def test_a_fused_launch_has_module_and_line_of_its_product(tmp_path):
    model = nn.Sequential(Pair()).eval()
    lines = enumerate(Path(__file__).read_text().splitlines(), 1)
    number = next(number for number, text in lines if text.endswith("# the line of the product"))
    line = f"engine/test_provenance.py:{number}"
    compiled = engine.compile(model, (torch.randn(4, 8),))
    compiled.save(tmp_path / "p")
    for program in (compiled, engine.load(tmp_path / "p")):
        fused, merged = (node for node in program.lowered.nodes if node.op.name == "linear")
        assert fused.attributes["activation"] == "relu"
        assert fused.source == (line, "0.up")
        assert merged.source.module == "0.gates", "the module that contains both products"
        x = torch.randn(4, 8)
        for found in (program.profile(x, runs=1, roofs=False), program.trace(x)):
            assert (line, "0.up") in {(node.source, node.module) for node in found.nodes if node.op == "linear"}
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)


def test_a_file_without_modules_of_instructions_has_those_of_its_values(tmp_path):
    """As earlier engines wrote it: a fused launch is then in the module of its last call."""
    program = engine.compile(nn.Sequential(Pair()).eval(), (torch.randn(4, 8),))
    saved_with(program, tmp_path / "p", lambda header: header["origins"].pop("instructions"))
    fused = next(node for node in engine.load(tmp_path / "p").graph.nodes if node.op.name == "linear")
    assert fused.source.module == "0.clip"


def test_the_entries_of_a_decoder_keep_their_origins(tmp_path):
    decoder = engine.compile_decoder(golden.set_weights(golden.Tied()), golden.MAX_LENGTH)
    decoder.save(tmp_path / "d")
    loaded = engine.load_decoder(tmp_path / "d")
    for name, theirs in loaded._graphs.items():
        mine = decoder._graphs[name]
        assert document_of(theirs)[0] == document_of(mine)[0]
        made = [value for node in theirs.nodes for value in node.outputs]
        assert sum(value.origin is not None for value in made) > 0.8 * len(made)


HOSTILE = {
    "no object": lambda o, h: h.update(origins=[]),
    "a key too few": lambda o, h: o.pop("views"),
    "a value that there is not": lambda o, h: o["values"][0].__setitem__(0, len(h["types"])),
    "a value that is no number": lambda o, h: o["values"][0].__setitem__(0, True),
    "a value twice": lambda o, h: o["values"].append(o["values"][0]),
    "a name that is no text": lambda o, h: o["values"][0].__setitem__(1, 7),
    "a module that there is not": lambda o, h: o["values"][0].__setitem__(2, -1),
    "a module that is no text": lambda o, h: o["modules"].__setitem__(0, []),
    "a source that there is not": lambda o, h: o["values"][0].__setitem__(3, 1 << 40),
    "a view that there is not": lambda o, h: o["values"][0].__setitem__(4, None),
    "a step that is no view": lambda o, h: o["views"].append([["relu", {}]]),
    "an unknown op": lambda o, h: o["views"].append([["evil", {}]]),
    "an attribute of another kind": lambda o, h: o["views"].append([["reshape", {"shape": "x"}]]),
    "a shape of many axes": lambda o, h: o["views"].append([["reshape", {"shape": [1] * 9}]]),
    "modules of fewer nodes": lambda o, h: o["instructions"].pop(),
    "an instruction in a module that there is not": lambda o, h: o["instructions"].__setitem__(0, 99),
    "a long chain": lambda o, h: o["views"].append([["reshape", {"shape": [1]}]] * 17),
    "a formula of another size": lambda o, h: o["views"].append([["reshape", {"shape": [{"size": [[["evil"], 1]]}]}]]),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_origins_are_refused_for_what_is_wrong_with_them(change, tmp_path):
    saved_with(compiled(), tmp_path / "p", lambda header: change(header["origins"], header))
    with messages.raises(ProgramError):
        engine.load(tmp_path / "p")


class Lookup(nn.Module):
    """An embedding inside of a module."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4, 3)

    def forward(self, ids):
        return self.table(ids)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_an_error_of_a_call_names_source_and_module(target):
    model = nn.Sequential(Lookup()).eval()
    program = engine.compile(model, (torch.tensor([1, 2]),), engine.Config(target=target))
    with messages.raises(ExecutionError):
        program(torch.tensor([1, 9]))


def test_a_graph_of_torch_compile_names_modules_without_the_variable_that_holds_the_model():
    model = nn.Sequential(nn.ModuleDict({"look": Lookup()})["look"]).eval()
    torch.compiler.reset()
    with torch.inference_mode():
        found = torch.compile(model, backend="engine")
        found(torch.tensor([1, 2]))
        with messages.raises(ExecutionError):
            found(torch.tensor([1, 9]))


def test_profile_and_trace_say_which_module_a_node_is_of():
    program, x = compiled(), torch.randn(3, 3, 9, 7)
    profile, trace = program.profile(x, runs=1, roofs=False), program.trace(x)
    assert {"body.0.left", "body.0.right"} <= {node.module for node in trace.nodes}
    assert {node.module for node in profile.nodes if node.op == "linear"} == {"body.0"}
    assert "module" in str(profile).split("\n")[0]
    assert "module" in str(trace).split("\n")[0]
    assert trace.to_dict()["nodes"][0]["module"] == trace.nodes[0].module


def test_a_long_path_is_shortened_from_the_left():
    path = "model.encoder.layer.11.attention.output.LayerNorm"
    assert shortened("a.b") == "a.b"
    assert shortened(path) == "…" + path[-(MODULE_WIDTH - 1) :]
    assert len(shortened(path)) == MODULE_WIDTH
