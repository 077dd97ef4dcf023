"""`stories15m`: a Llama of 15 million parameters that was trained on short stories, with its published weights.

The weights are those of a package that `enginebench data fetch` brings: 7 integers, then all tensors as float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suites import data
from suites.models._language import declare
from suites.models._text_ids import STORIES15M

if TYPE_CHECKING:
    from torch import nn

NAME = "stories15m"
FILE = ("package", "dist", "llama2.data")
# What the file's first seven integers say, in the names of LlamaConfig.
CONFIG: dict[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 288,
    "intermediate_size": 768,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
    "tie_word_embeddings": True,
}
TINY = CONFIG | {
    "vocab_size": 211,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 64,
}


def _load(network: nn.Module) -> None:
    from suites.models.nets.stories import load

    load(network, data.path(NAME, *FILE), CONFIG)


MODELS = (
    declare(
        NAME,
        "a Llama of 15M parameters with real weights; ids of stories",
        "llama",
        CONFIG,
        128,
        load=_load,
        text=STORIES15M,
    ),
    declare(f"{NAME}-tiny", "LlamaForCausalLM, two narrow layers, for tests; random weights", "llama", TINY, 32),
)
