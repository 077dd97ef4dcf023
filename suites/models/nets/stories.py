"""Reading the weights of a Llama from one flat file. Knows the file's order, and nothing of packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

# What the first integers of a file must be; the last of the seven is the number of positions.
HEADER = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "max_position_embeddings",
)


def by_halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of each head reordered: the file turns neighbours against each other, transformers the head's halves."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def by_neighbours(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """The inverse of `by_halves`; a vector, such as a bias, is one column."""
    rows = weight.shape[0]
    return weight.reshape(heads, 2, rows // heads // 2, -1).transpose(1, 2).reshape(weight.shape)


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
    """Give `model`, a LlamaForCausalLM of `config`, the weights of the file at `path`.

    Raises:
        ValueError: the file's header is that of another model, or the file is too short.
    """
    found = np.fromfile(path, np.int32, len(HEADER)).tolist()
    expected = [config[name] for name in HEADER]
    if found != expected:
        raise ValueError(f"{path}: expected {dict(zip(HEADER, expected, strict=True))}, got {found}")
    state, offset = {}, 4 * len(HEADER)
    for names, shape in _tensors(config):
        count = int(np.prod(shape))
        for name in names:
            values = np.fromfile(path, np.float32, count, offset=offset)
            if values.size < count:
                raise ValueError(f"{path}: ends within {name}")
            weight = torch.from_numpy(values).reshape(shape)
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                heads = config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
                weight = by_halves(weight, heads)
            state[name] = weight
            offset += 4 * count
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
