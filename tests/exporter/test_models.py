"""Whole models: what torch and transformers ship, exported and evaluated by the references."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import BertConfig, BertModel

from engine.exporter import export
from engine.graph import verify
from tests.exporter.cases import f32, i64
from tests.exporter.evaluate import call


def _by_hand(q, k, v):
    scores = q @ k.transpose(-2, -1) * 8**-0.5
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    return weights / weights.sum(-1, keepdim=True) @ v


def _with_softmax(q, k, v):
    length = q.shape[-2]
    hidden = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
    return functional.softmax((q @ k.transpose(-2, -1) / 8**0.5).masked_fill(hidden, float("-inf")), dim=-1) @ v


def _whole(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Block(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)
        self.mlp = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(approximate="tanh"), nn.Linear(64, 32))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, 4, 8).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(self.attention(q, k, v).transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(x)


@pytest.mark.parametrize("attention", [_by_hand, _with_softmax, _whole])
def test_a_transformer_block_however_its_attention_is_written(attention):
    model, x = Block(attention).eval(), f32(2, 5, 32)
    exported = export(model, (x,))
    verify.graph(exported)
    torch.testing.assert_close(call(exported, x), model(x).detach())


@pytest.mark.parametrize("norm_first", [False, True])
def test_torchs_encoder_layer_with_masks(norm_first):
    model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first).eval()
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    inputs = (f32(2, 5, 32), nn.Transformer.generate_square_subsequent_mask(5))
    x, mask = inputs
    exported = export(model, (inputs, {"src_key_padding_mask": padding.float() * -1e9}))
    keywords = {"src_key_padding_mask": padding.float() * -1e9}
    torch.testing.assert_close(call(exported, x, mask, **keywords), model(x, mask, **keywords).detach())


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_bert_with_padding(attention):
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "vocab_size": 99,
    }
    model = BertModel(BertConfig(**sizes, attn_implementation=attention)).eval()
    ids, mask = i64(2, 7, low=0, high=99), torch.ones(2, 7, dtype=torch.long)
    mask[1, 4:] = 0
    exported = export(model, ((ids,), {"attention_mask": mask}))
    verify.graph(exported)
    found, expected = call(exported, ids, attention_mask=mask), model(ids, attention_mask=mask)
    torch.testing.assert_close(found.last_hidden_state, expected.last_hidden_state.detach())
    torch.testing.assert_close(found.pooler_output, expected.pooler_output.detach())
    whole = "attention" in {node.op.name for node in exported.nodes}
    assert whole == (attention == "sdpa")
