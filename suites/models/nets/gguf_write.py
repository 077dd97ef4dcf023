"""Writing a language model of transformers as a GGUF file, which llama.cpp reads. Knows nothing of packages and caches.

`gguf_llama` reads such files. The file holds no tokenizer: callers pass token ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from suites.models.nets.gguf_llama import name_tensor
from suites.models.nets.stories import reorder_heads

Encoding = Literal["f32", "bf16", "q8_0"]
FORMAT = 1
"""Version of the written file. Increment it when the same weights give another file: cached files are then ignored."""

BLOCK = 32
"""Elements of a row that share a scale in Q8_0."""


class CannotWrite(ValueError):
    """GGUF cannot represent the model, or writing it is not implemented."""


ARCHITECTURES = ("llama", "qwen3", "gpt2")
"""`model_type` of transformers, which is also the name of the architecture in the file."""


def digest(network: Any) -> str:
    """The beginning of a SHA-256 over the configuration, the weights and `FORMAT`."""
    found = hashlib.sha256(f"{FORMAT} {sorted(_fields(network.config).items())}".encode())
    for name, tensor in network.state_dict().items():
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()[:24]


def write(network: nn.Module, path: Path, encoding: Encoding) -> None:
    """Write `network`, a causal language model of transformers, to `path`.

    Matrices and tables have the encoding; vectors (norms, biases) are float32. Q8_0 has a float16 scale for each block
    of 32 elements of a row.

    Raises:
        CannotWrite: the model is of another type, or a tensor or a size does not fit.
    """
    config: Any = network.config
    check_config(config)
    writer = gguf.GGUFWriter(path, config.model_type)
    try:
        for name, value in _fields(config).items():
            if isinstance(value, str):
                writer.add_string(name, value)
            elif isinstance(value, float):
                writer.add_float32(name, value)
            else:
                writer.add_uint32(name, value)
        for name, tensor in _tensors(network):
            _add(writer, name, tensor, encoding)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def check_config(config: Any) -> None:
    """CannotWrite if models of this type cannot be written."""
    if config.model_type not in ARCHITECTURES:
        raise CannotWrite(f"expected a model of type {', '.join(ARCHITECTURES)}, got {config.model_type}")


def _fields(config: Any) -> dict[str, int | float | str]:
    """The metadata fields of the file."""
    name = config.model_type
    is_gpt2 = name == "gpt2"
    inner = (config.n_inner or 4 * config.n_embd) if is_gpt2 else config.intermediate_size
    found: dict[str, int | float | str] = {
        "vocab_size": config.vocab_size,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": inner,
        "attention.head_count": config.num_attention_heads,
    }
    if is_gpt2:
        found["attention.layer_norm_epsilon"] = float(config.layer_norm_epsilon)
    else:
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        found |= {
            "attention.head_count_kv": config.num_key_value_heads,
            "attention.key_length": width,
            "attention.value_length": width,
            "attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
            "rope.dimension_count": width,
            "rope.freq_base": float(config.rope_parameters["rope_theta"]),
        }
    return {f"{name}.{key}": value for key, value in found.items()} | {"tokenizer.ggml.model": "no_vocab"}


def _tensors(network: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Names in the file and tensors, each matrix as [out, in]; CannotWrite where a tensor has no name there."""
    config = network.config
    is_tied = network.get_output_embeddings().weight is network.get_input_embeddings().weight
    for name, tensor in network.state_dict().items():
        if name == "lm_head.weight" and is_tied:
            continue
        stored = name_tensor(name, config)
        if stored is None:
            raise CannotWrite(f"a file of the architecture {config.model_type} has no place for the tensor {name}")
        is_transposed = tensor.ndim == 2 and isinstance(network.get_submodule(name.rpartition(".")[0]), Conv1D)
        tensor = tensor.t() if is_transposed else tensor
        if config.model_type == "llama":
            tensor = reorder_heads(name, tensor, vars(config), to_halves=False)
        yield stored, tensor


def _add(writer: Any, name: str, tensor: torch.Tensor, encoding: Encoding) -> None:
    values: np.ndarray = tensor.detach().float().contiguous().numpy()
    kind = gguf.GGMLQuantizationType[(encoding if tensor.ndim > 1 else "f32").upper()]
    if encoding == "q8_0" and tensor.ndim > 1 and values.shape[-1] % BLOCK:
        raise CannotWrite(f"Q8_0 has blocks of {BLOCK} elements, and rows of {name} have {values.shape[-1]}")
    writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
