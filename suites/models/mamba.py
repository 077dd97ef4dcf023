"""`mamba`: transformers' MambaForCausalLM in the configuration of Mamba-130M; weights are random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suites.models._language import OPTIONS, random_ids
from suites.models._spec import Arguments, ModelSpec

if TYPE_CHECKING:
    from torch import nn

# Mamba-130M, the published configuration: 24 layers of 1536 channels with 16 states each, the head is the embedding.
SMALL: dict[str, Any] = {
    "vocab_size": 50280,
    "hidden_size": 768,
    "num_hidden_layers": 24,
    "state_size": 16,
    "expand": 2,
    "conv_kernel": 4,
    "time_step_rank": 48,
    "use_bias": False,
    "use_conv_bias": True,
    "hidden_act": "silu",
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
}
TINY = SMALL | {"vocab_size": 211, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 5, "time_step_rank": 3}


def _spec(name: str, summary: str, config: dict[str, Any], sequence: int) -> ModelSpec:
    def make(arguments: Arguments) -> nn.Module:
        from suites.models.nets.causal import draw_vectors
        from suites.models.nets.mamba import Mamba

        model = Mamba(config, last_only=arguments["logits"] == "last")
        draw_vectors(model)
        return model

    return ModelSpec(
        name=name,
        summary=summary,
        make=make,
        example=random_ids(config["vocab_size"]),
        shape_keys={"batch": 1, "sequence": sequence},
        options={"logits": OPTIONS["logits"]},
        needs=("torch", "transformers"),
    )


MODELS = (
    _spec("mamba", "MambaForCausalLM in the configuration of Mamba-130M; random weights", SMALL, 128),
    _spec("mamba-tiny", "MambaForCausalLM, two narrow layers, for tests; random weights", TINY, 12),
)
