"""What is built: the same in every process, the function that it says, and nothing global changed."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from suites import models

PICTURES = (
    "resnet18-tiny",
    "resnet50-tiny",
    "resnet50-imagenet-tiny",
    "cifar10-cnn-tiny",
    "efficientnet-lite0-tiny",
    "resnext50-tiny",
    "regnet-y-tiny",
)
LANGUAGE = ("gpt2-tiny", "qwen3-tiny", "stories15m-tiny", "smollm2-tiny", "mamba-tiny")
LIGHT = ("mlp", "transformer", "transformer-tiny", "bert-tiny", "minilm-tiny", "minilm", *PICTURES, *LANGUAGE)
SOME = ("mlp", "transformer-tiny", "bert-tiny", "cifar10-cnn-tiny", "gpt2-tiny", "mamba-tiny")
light = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SOME else pytest.mark.long) for name in LIGHT]
)
language = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SOME else pytest.mark.long) for name in LANGUAGE]
)


def outputs(name, seed=0, **arguments):
    model, inputs = models.get(name).build(**arguments)
    with torch.inference_mode():
        made = model(*(inputs if seed == 0 else models.get(name).inputs(seed, **arguments)))
    return made if isinstance(made, tuple) else (made,)


@light
def test_building_twice_gives_the_same_weights_and_inputs(name):
    first, first_inputs = models.get(name).build()
    second, second_inputs = models.get(name).build()
    assert all(torch.equal(a, b) for a, b in zip(first_inputs, second_inputs, strict=True))
    other = second.state_dict()
    assert all(torch.equal(weight, other[key]) for key, weight in first.state_dict().items())


@light
def test_the_module_is_ready_for_inference(name):
    model, inputs = models.get(name).build()
    assert not any(module.training for module in model.modules())
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert all(x.device.type == "cpu" for x in inputs)
    assert all(torch.isfinite(out).all() for out in outputs(name))


@light
def test_another_seed_gives_other_inputs_of_the_same_shape(name):
    spec = models.get(name)
    zero, one, again = spec.inputs(0), spec.inputs(1), spec.inputs(1)
    assert [(x.shape, x.dtype) for x in zero] == [(x.shape, x.dtype) for x in one]
    assert not all(torch.equal(a, b) for a, b in zip(zero, one, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))


@light
def test_building_leaves_every_global_generator_alone(name):
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002 - the legacy state is the point
    models.get(name).build()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002  # the global generator is the point
    assert random.getstate() == before[2]


def test_building_leaves_the_environment_alone(monkeypatch):
    import os

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    before = dict(os.environ)
    models.get("bert-tiny").build()
    assert dict(os.environ) == before


@pytest.mark.parametrize(("name", "count"), [("resnext50", 25_028_904), ("regnet-y", 11_202_430)])
def test_networks_of_groups_have_the_published_number_of_parameters(name, count):
    with torch.device("meta"):
        model = models.get(name).make({})
    assert sum(p.numel() for p in model.parameters()) == count


@pytest.mark.parametrize("widths", ["small", "large", "8-16-24-8"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh"])
def test_mlp_has_the_widths_asked_for(widths, activation):
    from suites.models.mlp import WIDTHS

    asked = [int(width) for width in WIDTHS.get(widths, widths).split("-")]
    model, (x,) = models.get("mlp").build(batch=3, widths=widths, activation=activation)
    layers = [layer for layer in model.layers if isinstance(layer, torch.nn.Linear)]
    assert [layers[0].in_features, *(layer.out_features for layer in layers)] == asked
    assert x.shape == (3, asked[0])
    assert len(model.layers) == 2 * len(layers) - 1, "an activation after each layer but the last"


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("spelling", ["manual", "softmax"])
def test_every_spelling_of_attention_computes_the_same_function(spelling, causal):
    arguments = {"batch": 2, "sequence": 19, "width": 48, "heads": 3, "layers": 2, "causal": causal}
    (expected,) = outputs("transformer", attention="sdpa", **arguments)
    (found,) = outputs("transformer", attention=spelling, **arguments)
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-6)  # values near 1; seen: 1e-6


def test_attention_agrees_with_its_formula():
    from suites.models.nets import transformer

    q, k, v = (
        torch.randn(2, 3, 7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(i)) for i in range(3)
    )
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / 5**0.5
    for causal in (False, True):
        allowed = torch.ones(7, 7).tril().bool() if causal else torch.ones(7, 7).bool()
        weights = torch.where(allowed, scores.exp(), 0.0)
        expected = torch.einsum("bhij,bhjd->bhid", weights / weights.sum(-1, keepdim=True), v)
        for spell in transformer.SPELLINGS.values():
            torch.testing.assert_close(spell(q, k, v, causal), expected, rtol=0, atol=1e-12)


def test_a_causal_block_does_not_see_later_tokens():
    model, (x,) = models.get("transformer-tiny").build(causal=True)
    changed = x.clone()
    changed[:, 9:] += 1.0
    torch.testing.assert_close(model(changed)[:, :9], model(x)[:, :9], rtol=0, atol=1e-6)
    assert not torch.allclose(model(changed)[:, 9:], model(x)[:, 9:])


def test_padding_does_not_change_what_bert_says_about_the_tokens():
    model, (ids, _mask) = models.get("bert-tiny").build(batch=1, sequence=10)
    alone, pooled = model(ids, torch.ones_like(ids))
    padded = torch.cat([ids, torch.full((1, 6), 7)], dim=1)
    mask = torch.cat([torch.ones_like(ids), torch.zeros(1, 6, dtype=torch.int64)], dim=1)
    found, found_pooled = model(padded, mask)
    torch.testing.assert_close(found[:, :10], alone, rtol=0, atol=1e-5)
    torch.testing.assert_close(found_pooled, pooled, rtol=0, atol=1e-5)


def test_bert_spellings_agree():
    first = outputs("bert-tiny", batch=3, attention="sdpa")
    second = outputs("bert-tiny", batch=3, attention="eager")
    mask = models.get("bert-tiny").inputs(batch=3)[1].bool()
    torch.testing.assert_close(first[0][mask], second[0][mask], rtol=0, atol=1e-5)
    torch.testing.assert_close(first[1], second[1], rtol=0, atol=1e-5)


def test_rows_of_a_batch_of_tokens_have_different_lengths():
    ids, mask = models.get("bert-tiny").inputs(batch=6, sequence=40)
    lengths = mask.sum(dim=1)
    assert lengths[0] == 40
    assert lengths.min() >= 20
    assert len(set(lengths.tolist())) > 1
    assert (ids[mask == 0] == 0).all()


def test_bert_base_has_the_published_size():
    from transformers import BertConfig

    from suites.models.bert import BASE

    assert BertConfig().to_dict() | BASE == BertConfig().to_dict(), "the defaults of transformers are BERT-base"
    with torch.device("meta"):
        from suites.models.nets.bert import Bert

        count = sum(p.numel() for p in Bert(BASE, "sdpa").parameters())
    assert count == 109_482_240


@language
def test_a_language_model_sees_no_later_token_and_its_spellings_agree(name):
    (ids,) = models.get(name).inputs(batch=2, sequence=11)
    model, _ = models.get(name).build()
    changed = ids.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % 211
    whole = model(ids)
    torch.testing.assert_close(model(changed)[:, :6], whole[:, :6], rtol=0, atol=1e-5)
    assert not torch.allclose(model(changed)[:, 6:], whole[:, 6:])
    if "attention" in models.get(name).options:
        eager, _ = models.get(name).build(attention="eager")
        torch.testing.assert_close(eager(ids), whole, rtol=0, atol=1e-5)
    last, _ = models.get(name).build(logits="last")
    torch.testing.assert_close(last(ids), whole[:, -1], rtol=0, atol=1e-5)


@language
def test_no_norm_or_bias_of_a_language_model_is_neutral(name):
    model, _ = models.get(name).build()
    vectors = [p for p in model.parameters() if p.dim() == 1]
    assert vectors
    assert not any(bool((p == 0).all() or (p == 1).all()) for p in vectors)


@pytest.mark.parametrize(
    ("module", "published", "configuration", "family", "parameters"),
    [
        ("gpt2", "SMALL", "GPT2Config", "gpt2", 124_439_808),
        ("qwen3", "SMALL", "Qwen3Config", "qwen3", 596_049_920),
        ("mamba", "SMALL", "MambaConfig", "mamba", 129_135_360),
    ],
)
def test_language_models_have_the_published_size(module, published, configuration, family, parameters):
    import importlib

    import transformers

    from suites.models.nets.causal import CausalLM

    config = getattr(importlib.import_module(f"suites.models.{module}"), published)
    assert set(config) <= set(getattr(transformers, configuration)().to_dict()), "names that transformers knows"
    with torch.device("meta"):
        count = sum(p.numel() for p in CausalLM(family, config, "eager").parameters())
    assert count == parameters
