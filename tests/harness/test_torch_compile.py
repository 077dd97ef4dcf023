"""The backend torch_compile: inductor's settings are in force during the call that compiles, and at no other time."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from torch._inductor import config

from suites.backends.torch_compile import TorchCompile

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
"""Inductor's own use of names that torch deprecates."""


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, (True, None, True)), ({"freezing": "off", "simdlen": "256", "epilogue_fusion": "off"}, (False, 256, False))],
)
def test_settings_hold_for_the_first_call_alone(options, expected):
    before, seen = config.save_config_portable(), []
    TorchCompile(1, options)._first(
        lambda: seen.append((config.freezing, config.cpp.simdlen, config.epilogue_fusion)),
    )
    assert seen == [expected]
    assert config.save_config_portable() == before


def test_settings_are_put_back_where_the_first_call_raises():
    before = config.save_config_portable()
    with pytest.raises(KeyError):
        TorchCompile(1, {})._first({}.popitem)
    assert config.save_config_portable() == before


@pytest.mark.long  # Inductor compiles anew
def test_a_filter_on_the_command_line_does_not_reach_the_generated_code(monkeypatch, tmp_path):
    """Inductor writes what follows --only into its modules, where the quotes of a filter were a syntax error."""
    line = ["enginebench", "run", "--only", "model == 'gpt2'"]
    monkeypatch.setattr("sys.argv", line)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # so that the code is generated again
    x = torch.randn(3, 5)
    made = TorchCompile(1, {}).prepare(torch.nn.GELU(), (x,))
    torch.testing.assert_close(made.call(x), torch.nn.functional.gelu(x))
    assert sys.argv is line


class Broken(torch.nn.Module):
    """Two graphs with a call between them that Dynamo cannot capture, and a number that it guards on."""

    factor = 2

    def forward(self, x):
        y = torch.relu(x) * self.factor
        torch._dynamo.graph_break()
        return torch.nn.functional.softmax(y, -1)


@pytest.fixture(scope="module")
def broken():
    """The last test changes it."""
    module, x = Broken().eval(), torch.randn(4, 8)
    made = TorchCompile(1, {}).prepare(module, (x,))
    yield module, x, made
    torch.compiler.reset()


def test_details_name_each_graph_break_with_its_reason_and_the_line_of_the_user(broken):
    facts = broken[2].facts
    (found,) = facts["details"]["graph_breaks"]
    assert facts["graph_breaks"] == 1
    assert found["reason"] == "Call to `torch._dynamo.graph_break()`"
    assert (found["file"], found["code"]) == ("test_torch_compile.py", "torch._dynamo.graph_break()")
    assert found["line"] == Broken.forward.__code__.co_firstlineno + 2
    assert facts["details"]["graphs"] == facts["details"]["kernels"] == 2
    assert facts["details"]["recompiles"] == 0
    assert json.loads(json.dumps(facts["details"])) == facts["details"]


def test_phases_contain_each_other_and_are_no_longer_than_the_first_call(broken):
    made = broken[2]
    phases = made.facts["details"]["phases"]
    assert list(phases) == ["dynamo", "aot_autograd", "inductor", "code_generation", "cpp_compiler"]
    assert made.compile_s >= phases["dynamo"] >= phases["aot_autograd"] >= phases["inductor"] > 0
    assert phases["inductor"] >= max(phases["code_generation"], phases["cpp_compiler"])


def test_a_recompilation_in_a_later_call_is_counted_with_its_reason(broken):
    module, x, made = broken
    made.call(x)
    assert made.late_facts() == dict(made.facts), "nothing was compiled anew"
    module.factor = 3
    made.call(x)
    details = made.late_facts()["details"]
    assert details["recompiles"] == len(details["recompile_reasons"]) >= 1
    assert "factor" in details["recompile_reasons"][0]
    assert details["graphs"] > made.facts["details"]["graphs"]
    assert made.facts["details"]["recompiles"] == 0, "facts of the first call stay as they were"


@pytest.mark.long
def test_a_branch_on_a_value_is_a_graph_break():
    class Branching(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1

    found = TorchCompile(1, {}).prepare(Branching().eval(), (torch.ones(3),)).facts
    torch.compiler.reset()
    assert found["graph_breaks"] == 1
    assert found["details"]["graph_breaks"][0]["code"] == "return x + 1 if x.sum() > 0 else x - 1"
