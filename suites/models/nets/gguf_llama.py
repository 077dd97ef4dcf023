"""Reading the weights of a Llama from a GGUF file. Knows the file's names of tensors, and nothing of packages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import torch
from gguf.quants import dequantize
from torch import nn

from suites.models.nets._hub import offline
from suites.models.nets.stories import reorder_heads

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


def name_tensor(name: str, config: Any) -> str | None:
    """The name in a GGUF file of a tensor of a transformers model; None if files of its architecture have no such."""
    kind = next(key for key, known in gguf.MODEL_ARCH_NAMES.items() if known == config.model_type)
    module, _, suffix = name.rpartition(".")
    found = gguf.get_tensor_name_map(kind, config.num_hidden_layers).get_name(module)
    return None if found is None else f"{found}.{suffix}"


def load(model: nn.Module, path: Path, config: Mapping[str, Any]) -> None:
    """Give `model`, a LlamaForCausalLM of `config` with a tied head, the weights of the file at `path` as float32.

    Quantised tensors become what their bits mean: exactly the values that a runtime of such files computes with.

    Raises:
        ValueError: the file is of another model, or lacks tensors or has others.
    """
    reader = gguf.GGUFReader(path)
    expected = {**config, "rope_theta": config["rope_parameters"]["rope_theta"]}
    for name, field in FIELDS.items():
        found = reader.fields[field].contents()
        if not math.isclose(found, expected[name], rel_tol=1e-6):  # floats are stored as float32
            raise ValueError(f"{path}: expected {field} = {expected[name]}, got {found}")
    names = {str(name_tensor(name, model.config)): name for name, _ in model.named_parameters()}
    stored = {one.name: one for one in reader.tensors}
    if other := names.keys() ^ stored.keys():
        raise ValueError(
            f"{path}: a Llama of this size has other tensors; those that differ: {', '.join(sorted(other))}"
        )
    state = {}
    for key, name in names.items():
        values = dequantize(stored[key].data, stored[key].tensor_type)
        state[name] = reorder_heads(name, torch.from_numpy(values.copy()), config, to_halves=True)
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)


def tokenize(file: Path, text: str) -> torch.Tensor:
    """The ids of a text, [N] int64, by the tokenizer that a GGUF file holds."""
    with offline():
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    return torch.tensor(tokenizer(text).input_ids)
