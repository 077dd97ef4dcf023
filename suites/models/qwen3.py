"""`qwen3`: transformers' Qwen3ForCausalLM in the configuration of Qwen3-0.6B; weights are random."""

from __future__ import annotations

from typing import Any

from suites.models._language import declare

# Qwen3-0.6B, the published configuration: 16 query heads share 8 heads of keys, and the head is the embedding.
SMALL: dict[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
    "tie_word_embeddings": True,
}
TINY = SMALL | {
    "vocab_size": 211,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
}

MODELS = (
    declare("qwen3", "Qwen3ForCausalLM in the configuration of Qwen3-0.6B; random weights", "qwen3", SMALL, 32),
    declare("qwen3-tiny", "Qwen3ForCausalLM, two narrow layers, for tests; random weights", "qwen3", TINY, 32),
)
