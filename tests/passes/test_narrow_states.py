"""`Config.states`: numbers are rounded when they are written to a state, and computed with in float32."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine.errors import ConfigError
from suites import models
from suites.models import gpt2
from suites.models.nets.cached import CachedLM
from suites.models.nets.causal import CausalLM
from tests import messages

STATES = "bfloat16"
LONGEST = 40


class Kept(nn.Module):
    """Attention of one query to the keys and values that the calls have written so far."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, 2, 6, 8, dtype=dtype))

    def forward(self, query, key, value, place):
        wide = query.dtype
        for kept, new in ((self.keys, key), (self.values, value)):
            kept.index_copy_(2, place, new.to(kept.dtype))
        seen = (torch.arange(6) <= place)[None, None, None]
        return nn.functional.scaled_dot_product_attention(query, self.keys.to(wide), self.values.to(wide), seen)


class Gate(nn.Module):
    """A state that computations read and write."""

    def __init__(self):
        super().__init__()
        self.register_buffer("held", torch.full((4,), 1.001))

    def forward(self, x):
        self.held.copy_(self.held * 0.5 + x)
        return self.held * 3


def calls(count):
    generator = torch.Generator().manual_seed(2)
    for place in range(count):
        query, key, value = torch.randn(3, 1, 2, 1, 8, generator=generator)
        yield query, key, value, torch.tensor([place])


def compiled(model, inputs, **options):
    return engine.compile(model, inputs, engine.Config(states=STATES, verify=True, **options))


@functools.cache
def kept(dtype=torch.float32):
    """`Kept`, exported for all tests."""
    (first, *_) = calls(1)
    inputs = tuple(one.to(dtype) if one.is_floating_point() else one for one in first)
    return torch.export.export(Kept(dtype).eval(), inputs, strict=False), inputs


def nbytes(state):
    return sum(array.nbytes for array in state.values())


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_keys_and_values_are_stored_as_bfloat16_and_attention_reads_them_so(target):
    """Against the same module with buffers of bfloat16, by torch."""
    program = compiled(*kept(), target=target)
    assert [value.type for value in program.graph.state_inputs] == [("bfloat16", (1, 2, 6, 8), None)] * 2
    (attention,) = (node for node in program.graph.nodes if node.op.name == "attention")
    assert [value.dtype for value in attention.inputs[:3]] == ["float32", "bfloat16", "bfloat16"]
    reference, state = Kept(torch.bfloat16), program.new_state()
    for inputs in calls(6):
        torch.testing.assert_close(program(*inputs, state=state), reference(*inputs), rtol=1e-5, atol=1e-6)
    assert nbytes(state) == 2 * 2 * 6 * 8 * 2
    for name, array in state.items():
        np.testing.assert_array_equal(array.astype(np.float32), reference.get_buffer(name).float().numpy())


def test_a_vector_kernel_reads_bfloat16_keys_and_values():
    names = [name for name, _count in compiled(*kept()).report().kernels]
    assert [name.rpartition("_")[2] for name in names if "attention" in name] == ["decode"]
    assert not [name for name in names if "cast" in name and "reference" in name]


def test_computations_with_a_state_are_float32():
    """The state is rounded once a call; what the call returns is computed before that."""
    program, held = compiled(Gate().eval(), (torch.ones(4),)), torch.full((4,), 1.001).bfloat16().float()
    state = program.new_state()
    for x in torch.rand(3, 4, generator=torch.Generator().manual_seed(0)):
        held = held * 0.5 + x
        torch.testing.assert_close(program(x, state=state), held * 3, rtol=1e-6, atol=0)
        held = held.bfloat16().float()


def one_layer():
    """GPT-2 with a single layer."""
    torch.manual_seed(0)
    return CausalLM("gpt2", gpt2.TINY | {"n_layer": 1}, "sdpa").network


@pytest.mark.parametrize(
    "make",
    [
        one_layer,
        pytest.param(lambda: models.get("gpt2-tiny").build()[0].network, marks=pytest.mark.long),
        pytest.param(lambda: models.get("qwen3-tiny").build()[0].network, marks=pytest.mark.long),
    ],
    ids=["one layer", "gpt2", "qwen3"],
)
def test_a_decoder_is_near_the_one_with_float32_states_in_half_the_memory(make, tmp_path):
    module = CachedLM(make(), 1, LONGEST).eval()
    exact = engine.compile_decoder(module, LONGEST)
    narrow = engine.compile_decoder(module, LONGEST, config=engine.Config(states=STATES))
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    first = [decoder.prefill(ids) for decoder in (exact, narrow)]
    # The prompt attends to itself, not to the cache.
    torch.testing.assert_close(first[1], first[0], rtol=1e-5, atol=1e-5)
    for token in (9, 2, 6):
        expected, got = (decoder.decode(torch.tensor([[token]])) for decoder in (exact, narrow))
        error = (got - expected).norm() / expected.norm()
        assert 0 < error < 2**-8  # half a unit in the last place of bfloat16
    narrow.save(tmp_path / "narrow.engine")
    again = engine.load_decoder(tmp_path / "narrow.engine")
    torch.testing.assert_close(again.prefill(ids), first[1], rtol=0, atol=0)
    assert 2 * nbytes(narrow.new_state()) == nbytes(exact.new_state())


class Before(nn.Module):
    """The result is what the state held before the call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("held", torch.zeros(4))

    def forward(self, x):
        before = self.held.clone()
        self.held.copy_(x)
        return before


def test_what_a_state_held_is_returned_as_float32():
    program = compiled(Before().eval(), (torch.ones(4),))
    state, x = program.new_state(), torch.tensor([1.0, 0.3, -2.7, 1e-3])
    program(x, state=state)
    found = program(x, state=state)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, x.bfloat16().float(), rtol=0, atol=0)


def test_what_a_state_of_a_bfloat16_model_held_is_returned_as_bfloat16():
    class Squares(Before):
        def forward(self, x):
            return super().forward(x * x)

    x = torch.tensor([1.0, 0.3, -2.7, 1e-3]).bfloat16()
    program = engine.compile(Squares().bfloat16().eval(), (x,))
    state = program.new_state()
    program(x, state=state)
    found = program(x, state=state)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, (x.float() * x.float()).bfloat16())  # rounded once, where it is returned


def test_weights_may_have_a_precision_beside():
    for precision in ("fp32", "bf16", "int8_weight"):
        program = compiled(*kept(), precision=precision)
        assert program.graph.inputs[-1].dtype == STATES


def test_states_of_a_bfloat16_model_stay_bfloat16():
    types = {}
    for states in (None, STATES):
        program = engine.compile(*kept(torch.bfloat16), engine.Config(states=states))
        types[states] = {value.dtype for value in program.graph.state_inputs}
    assert types == {None: {"float32"}, STATES: {"bfloat16"}}


def test_what_is_not_known_or_comes_too_late_is_refused(tmp_path):
    with messages.raises(ConfigError):
        engine.Config(states="float8")
    compiled(*kept()).save(tmp_path / "p.engine")
    with messages.raises(ConfigError):
        engine.load(tmp_path / "p.engine", config=engine.Config(states=STATES))
