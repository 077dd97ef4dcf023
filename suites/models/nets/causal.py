"""Language models of transformers behind plain positional tensors: ids in, logits out, no cache.

Never asks a model hub: models are made from a configuration, and weights, where there are any, come from a local file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from suites.models.nets._hub import offline

# Family -> names of its configuration and of its model with a head, in transformers.
FAMILIES = {
    "gpt2": ("GPT2Config", "GPT2LMHeadModel"),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM"),
    "llama": ("LlamaConfig", "LlamaForCausalLM"),
    "mamba": ("MambaConfig", "MambaForCausalLM"),
}


def draw_vectors(model: nn.Module) -> None:
    """Other than neutral biases and weights of norms, as a trained model has them: nothing is 0 or 1 by chance."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)


class CausalLM(nn.Module):
    """ids [B, S] int64 -> logits [B, S, vocabulary], or [B, vocabulary] of the last position where `last_only`."""

    def __init__(self, family: str, config: Mapping[str, Any], attention: str, *, last_only: bool = False) -> None:
        super().__init__()
        configuration, network = FAMILIES[family]
        with offline():
            import transformers

            # No token of the vocabulary ends a text here, and a small vocabulary may not have the usual ones.
            options = {"bos_token_id": None, "eos_token_id": None, "use_cache": False, **config}
            made = getattr(transformers, configuration)(**options, attn_implementation=attention)
            self.network: nn.Module = getattr(transformers, network)(made)
        self.last_only = last_only

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The network; where only the last position counts, its head is asked for no other, as in generating."""
        logits = self.network(input_ids=ids, use_cache=False, logits_to_keep=int(self.last_only)).logits
        return logits[:, -1] if self.last_only else logits
