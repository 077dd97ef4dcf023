"""Language models of transformers over the engine's cache, against their own `generate`; which of them are refused."""

from __future__ import annotations

import pytest
import torch
import transformers

import engine
from engine.errors import EngineError
from suites.models.nets.cached import CachedLM
from tests import messages

LONGEST = 32
SIZES = {
    "vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": LONGEST, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None,
}  # fmt: skip


def network(name, **fields):
    """A model with random weights, large enough that tokens differ from step to step."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}{'Text' * (name == 'Gemma3')}Config")(**SIZES | fields)
    made = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
    return made


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Mistral", {"sliding_window": 4, "num_hidden_layers": 1}),  # shorter than the prompt
        ("Mistral", {"sliding_window": None, "num_hidden_layers": 1}),
        pytest.param("Mistral", {"sliding_window": 4}, marks=pytest.mark.long),
        pytest.param("Mistral", {"sliding_window": 12}, marks=pytest.mark.long),  # reached while the text grows
        pytest.param("Mistral", {"sliding_window": None}, marks=pytest.mark.long),
        pytest.param(
            "Gemma3",
            {"head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
            marks=pytest.mark.long,
        ),
    ],
    ids=[
        "short window in one layer",
        "one layer",
        "short window",
        "window",
        "no window",
        "window in one of two layers",
    ],
)
def test_tokens_are_those_of_transformers(name, fields):
    made = network(name, num_key_value_heads=2, **fields)
    ids = torch.randint(2, 50, (2, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = made.generate(ids, max_new_tokens=20, do_sample=False, attention_mask=torch.ones_like(ids))
    decoder = engine.compile_decoder(CachedLM(made, 2, LONGEST).eval(), LONGEST, batch=2)
    assert torch.equal(decoder.generate(ids, max_new_tokens=20), expected)


@pytest.mark.parametrize(
    ("name", "fields", "told"),
    [
        ("Gemma2", {"final_logit_softcapping": None}, "Gemma2Attention asks for softcap, which"),
        pytest.param(
            "Bloom",
            {"n_layer": 2, "n_head": 4},
            "BloomForCausalLM: 2 of 2 layers do not call the attention",
            marks=pytest.mark.long,
        ),
        (
            "Llama",
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}},
            "depends on the values of tensors",
        ),
    ],
    ids=["limit of scores", "attention of its own", "angles that depend on the length"],
)
def test_what_the_cache_or_a_program_does_not_have_is_refused_with_the_reason_alone(name, fields, told):
    with pytest.raises(EngineError, match=told) as caught:
        engine.compile_decoder(CachedLM(network(name, **fields), 1, LONGEST).eval(), LONGEST)
    assert "other sizes" not in str(caught.value)


def test_logits_that_are_limited_behind_the_head_are_refused():
    with messages.raises(ValueError):
        CachedLM(network("Gemma2"), 1, LONGEST)


@pytest.mark.parametrize(("name", "fields"), [("Cohere", {"logit_scale": 0.25}), ("Granite", {"logits_scaling": 8.0})])
def test_logits_are_multiplied_as_the_model_multiplies_them(name, fields):
    made = network(name, num_hidden_layers=1, **fields)
    ids = torch.randint(2, 50, (2, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = made(ids).logits[:, -1]
        got = CachedLM(made, 2, LONGEST).eval()(ids, torch.zeros(2, dtype=torch.int64), torch.full((2,), 9))
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
