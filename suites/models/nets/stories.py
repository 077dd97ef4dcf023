"""Reading the weights of a Llama from one flat file. Knows the file's order, and nothing of packages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

HEADER_INTEGERS = 7
"""Sizes of the model, which begin the file."""


def reorder_heads(name: str, weight: torch.Tensor, config: Mapping[str, Any], *, to_halves: bool) -> torch.Tensor:
    """A weight or bias whose name transformers has, with the rows of each head reordered if it is of queries or keys.

    Files turn neighbours against each other, transformers the head's halves: `to_halves` reads a file, else it is the
    inverse.
    """
    kinds = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
    kind = kinds.get(name.split(".")[-2])
    if kind is None:
        return weight
    pairs = (-1, 2) if to_halves else (2, -1)
    return weight.reshape(config[kind], *pairs, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)


def _tensors(config: Mapping[str, Any]) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """Names of the layers' tensors that follow each other in the file, and the shape of each; in the file's order."""
    width, inner, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    keys = width // config["num_attention_heads"] * config["num_key_value_heads"]
    yield ["model.embed_tokens.weight"], (config["vocab_size"], width)
    for name, shape in (
        ("input_layernorm", (width,)),
        ("self_attn.q_proj", (width, width)),
        ("self_attn.k_proj", (keys, width)),
        ("self_attn.v_proj", (keys, width)),
        ("self_attn.o_proj", (width, width)),
        ("post_attention_layernorm", (width,)),
        ("mlp.gate_proj", (inner, width)),
        ("mlp.down_proj", (width, inner)),
        ("mlp.up_proj", (inner, width)),
    ):
        yield [f"model.layers.{layer}.{name}.weight" for layer in range(layers)], shape
    yield ["model.norm.weight"], (width,)


def load(model: nn.Module, path: Path, config: Mapping[str, Any]) -> None:
    """Give `model`, a LlamaForCausalLM of `config`, the weights of the file at `path`."""
    content = np.fromfile(path, np.float32)
    state, offset = {}, HEADER_INTEGERS
    for names, shape in _tensors(config):
        for name in names:
            end = offset + math.prod(shape)
            state[name] = reorder_heads(
                name, torch.from_numpy(content[offset:end]).reshape(shape), config, to_halves=True
            )
            offset = end
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
