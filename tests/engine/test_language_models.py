"""Language models, tiny: what is left of them after the passes, and that it computes what they do."""

from __future__ import annotations

import copy

import pytest
import torch

import engine
from engine.targets.cpu import CPU, native
from suites import models
from suites.harness.judge.reference import Upcast
from tests import messages
from tests.exports import export_model

NAMES = ("gpt2-tiny", "qwen3-tiny", "stories15m-tiny", "smollm2-tiny")
# Sums in another order, exp and tanh by other polynomials: eager's own float32 error, several times over.
FACTOR = 4.0
OPS = ("linear", "gated_linear", "layer_norm", "rms_norm", "rope", "attention")
SHAPES = ((1, 1), (1, 2), (2, 17), (3, 64))
LONG = pytest.mark.long


def relative_errors(model, inputs, result: torch.Tensor) -> tuple[float, float]:
    """(engine's, eager's) error against the model in float64, where transformers' own casts to float32 are lifted."""
    wide = copy.deepcopy(model).double()
    with torch.inference_mode():
        eager = model(*inputs)
        with Upcast():
            truth = wide(*inputs)
    assert truth.dtype == torch.float64
    ours, theirs = (float((y.double() - truth).norm() / truth.norm()) for y in (result, eager))
    return ours, theirs


def launched(program) -> list[tuple[str, dict]]:
    """Op and attributes of what is no view."""
    return [(n.op.name, dict(n.attributes)) for n in program.lowered.nodes if n.op.view is None]


# GPT-2 and Qwen3 differ most: positions that are added or turned, norms with a mean or without, shared key heads.
EXACT = {("gpt2-tiny", "sdpa", "all"), ("qwen3-tiny", "eager", "all"), ("gpt2-tiny", "sdpa", "last")}


@pytest.mark.parametrize("shapes", [SHAPES[::2], pytest.param(SHAPES[1::2], marks=LONG)], ids=["some", "others"])
@pytest.mark.parametrize(
    ("name", "attention", "logits"),
    [
        pytest.param(name, *options, marks=() if (name, *options) in EXACT else LONG)
        for name in NAMES
        for options in (("sdpa", "all"), ("eager", "all"), ("sdpa", "last"))
    ],
)
def test_a_language_model_is_as_exact_as_eager_at_several_sizes(name, attention, logits, shapes):
    options = {"attention": attention, "logits": logits}
    for batch, sequence in shapes:
        model, inputs, exported = export_model(name, batch=batch, sequence=sequence, **options)
        program = engine.compile(exported, inputs)
        assert program.report().fallback_nodes == 0
        one = program(*inputs).clone()
        ours, eagers = relative_errors(model, inputs, one)
        assert ours <= FACTOR * eagers, (batch, sequence)
        other = models.get(name).inputs(5, batch=batch, sequence=sequence)
        torch.testing.assert_close(program(*other), model(*other), rtol=1e-4, atol=1e-5)
    assert torch.equal(engine.compile(exported, inputs, engine.Config(threads=2))(*inputs), one)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "qwen3-tiny" else LONG) for name in NAMES])
@pytest.mark.parametrize("isa", native.kernel_isas("f32"))
def test_every_instruction_set_is_as_exact_as_eager(name, isa):
    model, inputs, exported = export_model(name, batch=2, sequence=9)
    program = engine.compile(exported, inputs, engine.Config(isa=isa))
    steps = CPU.bind(program.lowered, program.config).steps
    assert {s.kernel.isa for s in steps if s.op in OPS} == {isa}
    ours, eagers = relative_errors(model, inputs, program(*inputs))
    assert ours <= FACTOR * eagers


CAUSAL = {("gpt2-tiny", "sdpa"), ("qwen3-tiny", "eager")}


@pytest.mark.parametrize(
    ("name", "attention"),
    [
        pytest.param(name, attention, marks=() if (name, attention) in CAUSAL else LONG)
        for name in NAMES
        for attention in ("sdpa", "eager")
    ],
)
def test_every_attention_is_causal_and_has_no_mask(name, attention):
    _model, inputs, exported = export_model(name, batch=2, sequence=12, attention=attention)
    program = engine.compile(exported, inputs)
    graph = program.lowered
    found = [n for n in graph.nodes if n.op.name == "attention"]
    assert len(found) == 2
    assert all(n.attributes["causal"] and n["mask"] is None for n in found)
    values = (*graph.inputs, *graph.stored_constants(), *(v for n in graph.nodes for v in n.outputs))
    assert not any(v.shape[-2:] == (12, 12) for v in values)


def test_a_layer_of_gpt2_takes_seven_launches():
    _model, inputs, exported = export_model("gpt2-tiny", batch=2, sequence=12, attention="sdpa")
    layer = ["layer_norm", "linear", "attention", "linear", "layer_norm", "linear", "linear"]
    found = launched(engine.compile(exported, inputs))
    assert [op for op, _ in found] == ["embedding", "add", *layer, *layer, "layer_norm", "linear"]
    activations = [attributes["activation"] for op, attributes in found if op == "linear"]
    assert activations == [*(["none", "none", "gelu_tanh", "none"] * 2), "none"]


@pytest.mark.parametrize(
    ("sequence", "attention"),
    [(1, "sdpa"), pytest.param(1, "eager", marks=LONG), pytest.param(12, "sdpa", marks=LONG), (12, "eager")],
)
def test_a_layer_of_qwen3_takes_eleven_launches_and_copies_nothing(attention, sequence):
    _model, inputs, exported = export_model("qwen3-tiny", batch=2, sequence=sequence, attention=attention)
    program = engine.compile(exported, inputs)
    heads = ["rms_norm", "rms_norm", "rope", "rope", "attention"]
    layer = ["rms_norm", "linear", *heads, "linear", "rms_norm", "gated_linear", "linear"]
    found = [op for op, _ in launched(program)]
    assert sorted(found) == sorted(["embedding", *layer, *layer, "rms_norm", "linear"])
    assert program.report().copies == 0
    attention = [n for n in program.lowered.nodes if n.op.name == "attention"]
    key_heads = [value.shape[1] for n in attention for value in n.inputs[:3]]
    assert key_heads == [4, 2, 2] * 2, "key heads are shared, not repeated"


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "gpt2-tiny" else LONG) for name in NAMES])
def test_an_id_out_of_the_vocabulary_is_an_error(name):
    model, (ids,) = models.get(name).build(sequence=5)
    program = engine.compile(model, (ids,))
    for bad in (211, -1):
        broken = ids.clone()
        broken[0, 3] = bad
        with messages.raises(engine.EngineError):
            program(broken)


class Padded(torch.nn.Module):
    """Ids and which of them are no padding -> logits. transformers writes the least float into such a mask."""

    def __init__(self, name: str, attention: str) -> None:
        super().__init__()
        self.network = models.get(name).build(attention=attention)[0].network

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.network(input_ids=ids, attention_mask=mask, use_cache=False).logits


@pytest.mark.parametrize("attention", ["eager", pytest.param("sdpa", marks=LONG)])
@pytest.mark.parametrize("name", ["gpt2-tiny", pytest.param("qwen3-tiny", marks=LONG)])
def test_padding_in_front_of_a_text_and_a_text_of_nothing_else(name, attention):
    model = Padded(name, attention).eval()
    ids, mask = torch.randint(0, 200, (3, 9)), torch.ones(3, 9, dtype=torch.int64)
    mask[0, :2] = 0  # causal too: the first rows see padding alone
    mask[2] = 0
    program = engine.compile(model, (ids, mask))
    with torch.no_grad():
        expected = model(ids, mask)
    assert not expected.isnan().any()
    torch.testing.assert_close(program(ids, mask), expected, rtol=1e-4, atol=1e-5)


@pytest.fixture
def llama():
    """A model of transformers as it comes, and ids for it."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=32, max_position_embeddings=64, **sizes)).eval()
    return model, torch.arange(8)[None]


@pytest.mark.parametrize("config", [engine.Config(), engine.Config(fallback="torch")], ids=["engine", "torch"])
def test_the_cache_of_transformers_is_refused_with_the_way_around_it(llama, config):
    from transformers import DynamicCache

    model, ids = llama
    for given in ({}, {"past_key_values": DynamicCache()}):
        with messages.raises(engine.EngineError):
            engine.compile(model, ((ids,), given), config)


def test_a_model_of_transformers_without_its_cache_is_compiled_as_it_comes(llama):
    model, ids = llama
    with torch.inference_mode():
        logits = model(ids).logits
    asked = engine.compile(model, ((ids,), {"use_cache": False}))(input_ids=ids, use_cache=False)
    model.config.use_cache = False
    program = engine.compile(model, (ids,))
    for result in (asked, program(ids), program(input_ids=ids)):
        assert type(result) is type(model(ids))
        assert result.past_key_values is None
        torch.testing.assert_close(result.logits, logits, rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_a_mixture_of_experts_of_transformers_is_refused_with_the_setting_that_compiles():
    from transformers import MixtralConfig, MixtralForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = MixtralConfig(
        vocab_size=32, max_position_embeddings=64, num_key_value_heads=1, num_local_experts=4, use_cache=False, **sizes
    )
    model, ids = MixtralForCausalLM(config).eval(), torch.arange(16).reshape(2, 8)
    with torch.inference_mode():
        expected = model(ids).logits
    with pytest.raises(engine.UnsupportedOp) as e:
        engine.compile(model, (ids,))
    first, second = e.value.hint.splitlines()
    assert first.startswith('model.set_experts_implementation("batched_mm") ')
    assert second.startswith('Config(fallback="torch") ')
    model.set_experts_implementation("batched_mm")
    torch.testing.assert_close(engine.compile(model, (ids,))(ids).logits, expected, rtol=1e-4, atol=1e-5)


def test_a_module_with_other_parameters_is_no_decoder(llama):
    with messages.raises(engine.ConfigError):
        engine.compile_decoder(llama[0], 64)
