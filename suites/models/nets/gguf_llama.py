"""Reading the weights of a Llama from a GGUF file. Knows the file's names of tensors, and nothing of packages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from torch import nn

from suites.models.nets._hub import offline
from suites.models.nets.stories import by_halves

# What the file must say, in names of LlamaConfig.
FIELDS = {
    "vocab_size": "llama.vocab_size",
    "hidden_size": "llama.embedding_length",
    "intermediate_size": "llama.feed_forward_length",
    "num_hidden_layers": "llama.block_count",
    "num_attention_heads": "llama.attention.head_count",
    "num_key_value_heads": "llama.attention.head_count_kv",
    "max_position_embeddings": "llama.context_length",
    "rms_norm_eps": "llama.attention.layer_norm_rms_epsilon",
    "rope_theta": "llama.rope.freq_base",
}
# Tensors outside of layers, and of a layer.
WHOLE = {"token_embd": "embed_tokens", "output_norm": "norm"}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _name(stored: str) -> str:
    """The name that transformers has for a tensor, such as ``blk.3.attn_q.weight``; KeyError for one of no Llama."""
    match stored.split("."):
        case "blk", layer, part, "weight":
            return f"model.layers.{layer}.{LAYER[part]}.weight"
        case part, "weight":
            return f"model.{WHOLE[part]}.weight"
    raise KeyError(stored)


def load(model: nn.Module, path: Path, config: Mapping[str, Any]) -> None:
    """Give `model`, a LlamaForCausalLM of `config` with a tied head, the weights of the file at `path` as float32.

    Quantised tensors become what their bits mean: exactly the values that a runtime of such files computes with.

    Raises:
        ValueError: the file is of another model, or lacks tensors or has others.
    """
    reader = GGUFReader(path)
    expected = {**config, "rope_theta": config["rope_parameters"]["rope_theta"]}
    for name, field in FIELDS.items():
        found = reader.fields[field].contents() if field in reader.fields else None
        if found is None or not math.isclose(found, expected[name], rel_tol=1e-6):  # floats are stored as float32
            raise ValueError(f"{path}: expected {field} = {expected[name]}, got {found}")
    state = {}
    for tensor in reader.tensors:
        try:
            name = _name(tensor.name)
        except KeyError:
            raise ValueError(f"{path}: a Llama has no tensor {tensor.name}") from None
        weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        if tensor.name.endswith(("attn_q.weight", "attn_k.weight")):
            heads = config["num_attention_heads" if "attn_q" in tensor.name else "num_key_value_heads"]
            weight = by_halves(weight, heads)
        state[name] = weight
    lacking = {name for name, _ in model.named_parameters()} - state.keys()
    if lacking:
        raise ValueError(f"{path}: lacks {', '.join(sorted(lacking))}")
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)


def tokenize(file: Path, text: str) -> torch.Tensor:
    """The ids of a text, [N] int64, by the tokenizer that a GGUF file holds."""
    with offline():
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    return torch.tensor(tokenizer(text).input_ids)
