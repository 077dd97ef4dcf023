"""A language model that generates, as a module: what is to be computed, and what backends need to do it in steps.

Its forward knows no cache: the whole text goes through the model at once. So what a backend keeps between steps is
checked against a computation that keeps nothing. Knows no backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from suites.models.nets.cached import CachedLM, heads_of
from suites.models.nets.past import WithPast

PHASES = ("prefill", "decode")


class Generation(nn.Module):
    """One phase of generating text.

    - ``prefill``: prompt [B, P] -> one tensor of logits [B, vocabulary], behind the prompt.
    - ``decode``: prompt [B, P], following [B, N] -> N tensors of logits [B, vocabulary], behind each token of
      `following`. A backend takes the prompt in untimed and then steps through `following`, a token a text each.

    The text that follows is given, and not what the model finds likeliest: each step of each backend then answers the
    same question, and no near-tie between two tokens turns one text into another.

    Args:
        network: a causal language model of transformers.
        phase: one of `PHASES`.
        batch, prompt, steps: B, P and N.
    """

    def __init__(self, network: Any, phase: str, batch: int, prompt: int, steps: int) -> None:
        super().__init__()
        self.network = network
        self.phase = phase
        self.batch, self.prompt, self.steps = batch, prompt, steps

    @property
    def max_length(self) -> int:
        """Tokens that a cache must hold a text: every backend's holds as many."""
        return self.prompt + self.steps

    def forward(self, prompt: torch.Tensor, following: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        text = prompt if following is None else torch.cat([prompt, following], 1)
        count = 1 if following is None else following.shape[1]
        # Positions are computed from an input, as backends get them: otherwise the rows of a table of positions would
        # be a constant here, and would not be quantised, as the table is in backends.
        places = torch.ones_like(text).cumsum(1) - 1
        logits = self.network(input_ids=text, position_ids=places, use_cache=False, logits_to_keep=count).logits
        return tuple(logits.unbind(1))

    def cached(self) -> CachedLM:
        """The same network over a cache in buffers, which it shares its weights with."""
        return CachedLM(self.network, self.batch, self.max_length)

    def with_past(self) -> WithPast:
        """The same network with keys and values as inputs and outputs."""
        return WithPast(self.network).eval()

    def facts(self, weight_bits: int | None = None) -> Mapping[str, Any]:
        """What a call has to do, whoever does it. Elements of weights have `weight_bits`; None: as in the network.

        `tokens` says how many a call handles, by phase, over all texts; `steps` in how many goes. `flops` and `bytes`
        are counted from the definition: each weight that is multiplied is read once a step; two operations a weight
        and token, in the head only where logits are asked for; keys and values of all tokens so far are read once a
        token that attends to them (once a prompt when prefilling, which also writes them), with two multiply-adds a
        head and element.
        """
        layers, heads, width = heads_of(self.network.config)
        queries = self.network.config.num_attention_heads
        size = next(self.network.parameters()).element_size()
        stored = 8 * size if weight_bits is None else weight_bits
        body, head = self._weights()
        if self.phase == "prefill":
            tokens, logits, reads = self.batch * self.prompt, self.batch, 1
            attended = self.batch * self.prompt * (self.prompt + 1) // 2
            cached = 2 * tokens
        else:
            tokens = logits = self.batch * self.steps
            reads = self.steps
            attended = cached = self.batch * sum(self.prompt + step + 1 for step in range(self.steps))
        return {
            "tokens": {self.phase: tokens},
            "steps": reads,
            "flops": 2 * (tokens * body + logits * head) + 4 * layers * queries * width * attended,
            "bytes": reads * (body + head) * stored // 8 + size * 2 * layers * heads * width * cached,
        }

    def _weights(self) -> tuple[int, int]:
        """Elements of the layers, and of the head. Tables that tokens are looked up in are not read whole."""
        tables = {id(one.weight) for one in self.network.modules() if isinstance(one, nn.Embedding)}
        head = self.network.get_output_embeddings().weight
        layers = [one for one in self.network.parameters() if id(one) not in tables and one is not head]
        return sum(one.numel() for one in layers), head.numel()
