"""`gpt2`: transformers' GPT2LMHeadModel in the configuration of GPT-2 (124M parameters); weights are random."""

from __future__ import annotations

from typing import Any

from suites.models._language import declare

# The smallest GPT-2: the published configuration, which is also what GPT2Config() has as defaults.
SMALL: dict[str, Any] = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
}
TINY = SMALL | {"vocab_size": 211, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 2}

MODELS = (
    declare("gpt2", "GPT2LMHeadModel in the configuration of GPT-2 (124M); random weights", "gpt2", SMALL, 128),
    declare("gpt2-tiny", "GPT2LMHeadModel, two narrow layers, for tests; random weights", "gpt2", TINY, 32),
)
