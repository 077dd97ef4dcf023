"""Reading the weights of a Llama from a GGUF file. Knows the file's names of tensors, and nothing of packages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import torch
from gguf.quants import dequantize
from torch import nn

from suites.models.nets._hub import offline
from suites.models.nets.stories import reorder_heads


def name_tensor(name: str, config: Any) -> str | None:
    """The name in a GGUF file of a tensor of a transformers model; None if files of its architecture have no such."""
    kind = next(key for key, known in gguf.MODEL_ARCH_NAMES.items() if known == config.model_type)
    module, _, suffix = name.rpartition(".")
    found = gguf.get_tensor_name_map(kind, config.num_hidden_layers).get_name(module)
    return None if found is None else f"{found}.{suffix}"


def load(model: nn.Module, path: Path, config: Mapping[str, Any]) -> None:
    """Give `model`, a LlamaForCausalLM of `config` with a tied head, the weights of the file at `path` as float32.

    Quantised tensors become what their bits mean: exactly the values that a runtime of such files computes with.
    """
    names = {name_tensor(name, model.config): name for name, _ in model.named_parameters()}
    state = {}
    for stored in gguf.GGUFReader(path).tensors:
        name, values = names[stored.name], dequantize(stored.data, stored.tensor_type)
        state[name] = reorder_heads(name, torch.from_numpy(values.copy()), config, to_halves=True)
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)


def tokenize(file: Path, text: str) -> torch.Tensor:
    """The ids of a text, [N] int64, by the tokenizer that a GGUF file holds."""
    with offline():
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    return torch.tensor(tokenizer(text).input_ids)
