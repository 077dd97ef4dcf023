"""Writing a language model of transformers as a GGUF file, which llama.cpp reads. Knows nothing of packages and caches.

`gguf_llama` reads such files. The file holds no tokenizer: callers pass token ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np
import torch
from torch import nn

from suites.models.nets.gguf_llama import LAYER, WHOLE
from suites.models.nets.stories import by_neighbours

Encoding = Literal["f32", "bf16", "q8_0"]
FORMAT = 1
"""Version of the written file. Increment it when the same weights give another file: cached files are then ignored."""

_TYPES = {
    "f32": gguf.GGMLQuantizationType.F32,
    "bf16": gguf.GGMLQuantizationType.BF16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
}
BLOCK = 32
"""Elements of a row that share a scale in Q8_0."""


class CannotWrite(ValueError):
    """GGUF cannot represent the model, or writing it is not implemented."""


@dataclass(frozen=True)
class _Architecture:
    """How transformers' models of one type are written.

    Attributes:
        whole, layer: modules outside of the layers, and of a layer: name in the file -> name in transformers.
        settings: name in the configuration -> the value that the file's architecture implies.
        transposed: True where matrices are stored as [in, out].
        turns_neighbours: True where rotation pairs neighbours of a head, and transformers pairs its halves.
        prefix: of the names of modules in transformers: of the whole model, of a layer.
    """

    whole: dict[str, str]
    layer: dict[str, str]
    settings: dict[str, Any]
    transposed: bool = False
    turns_neighbours: bool = False
    prefix: tuple[str, str] = ("model", "model.layers")


ARCHITECTURES: dict[str, _Architecture] = {
    "llama": _Architecture(WHOLE, LAYER, {"hidden_act": "silu"}, turns_neighbours=True),
    "qwen3": _Architecture(
        WHOLE,
        LAYER | {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"},
        {"hidden_act": "silu", "use_sliding_window": False},
    ),
    "gpt2": _Architecture(
        {"token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f"},
        {
            "attn_norm": "ln_1",
            "attn_qkv": "attn.c_attn",
            "attn_output": "attn.c_proj",
            "ffn_norm": "ln_2",
            "ffn_up": "mlp.c_fc",
            "ffn_down": "mlp.c_proj",
        },
        {"activation_function": "gelu_new", "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True},
        transposed=True,
        prefix=("transformer", "transformer.h"),
    ),
}
"""`model_type` of transformers, which is also the name of the architecture in the file -> how it is written."""


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
        CannotWrite: the model is of another type, or its configuration, a tensor or a size does not fit.
    """
    config: Any = network.config
    how = find_architecture(config)
    writer = gguf.GGUFWriter(path, config.model_type)
    try:
        for name, value in _fields(config).items():
            if isinstance(value, str):
                writer.add_string(name, value)
            elif isinstance(value, float):
                writer.add_float32(name, value)
            else:
                writer.add_uint32(name, value)
        for name, tensor in _tensors(network, how):
            _add(writer, name, tensor, encoding)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def find_architecture(config: Any) -> _Architecture:
    """How models of this configuration are written; CannotWrite where they cannot be."""
    how = ARCHITECTURES.get(getattr(config, "model_type", ""))
    if how is None:
        raise CannotWrite(f"expected a model of type {', '.join(ARCHITECTURES)}, got {config.model_type}")
    for name, expected in how.settings.items():
        if getattr(config, name) != expected:
            raise CannotWrite(f"expected {name} = {expected}, got {getattr(config, name)}")
    rope = getattr(config, "rope_parameters", None)
    if rope is not None and (rope["rope_type"] != "default" or rope.get("partial_rotary_factor", 1.0) != 1.0):
        raise CannotWrite(f"expected a rotation of type default of whole heads, got {rope}")
    return how


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


def _tensors(network: Any, how: _Architecture) -> Iterator[tuple[str, torch.Tensor]]:
    """Names in the file and tensors, each matrix as [out, in]; CannotWrite where a tensor has no name there."""
    config, state = network.config, network.state_dict()
    top, layers = how.prefix
    modules = {f"{top}.{theirs}": stored for stored, theirs in how.whole.items()}
    for layer in range(config.num_hidden_layers):
        modules |= {f"{layers}.{layer}.{theirs}": f"blk.{layer}.{stored}" for stored, theirs in how.layer.items()}
    head, table = network.get_output_embeddings().weight, network.get_input_embeddings().weight
    if head is not table:
        modules["lm_head"] = "output"
    reorder = _reorder(config) if how.turns_neighbours else (lambda _name, tensor: tensor)
    for name, tensor in state.items():
        module, _, kind = name.rpartition(".")
        if module == "lm_head" and head is table:
            continue
        if module not in modules:
            raise CannotWrite(f"a file of the architecture {config.model_type} has no place for the tensor {name}")
        is_matrix = tensor.ndim == 2 and module.startswith(f"{layers}.")
        tensor = tensor.t() if how.transposed and is_matrix else tensor
        yield f"{modules[module]}.{kind}", reorder(name, tensor)


def _reorder(config: Any) -> Callable[[str, torch.Tensor], torch.Tensor]:
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}

    def reorder(name: str, tensor: torch.Tensor) -> torch.Tensor:
        count = heads.get(name.split(".")[-2])
        return tensor if count is None else by_neighbours(tensor, count)

    return reorder


def _add(writer: Any, name: str, tensor: torch.Tensor, encoding: Encoding) -> None:
    values: np.ndarray = tensor.detach().float().contiguous().numpy()
    kind = _TYPES[encoding if tensor.ndim > 1 else "f32"]
    if encoding == "q8_0" and tensor.ndim > 1 and values.shape[-1] % BLOCK:
        raise CannotWrite(f"Q8_0 has blocks of {BLOCK} elements, and rows of {name} have {values.shape[-1]}")
    writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
