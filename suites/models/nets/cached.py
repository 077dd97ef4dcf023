"""Language models of transformers with a cache in buffers: what `engine.compile_decoder` takes.

The model's own forward runs; its attention is the registered function below, which writes keys and values to the cache.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface

NAME = "cached"
_current: ContextVar[CachedLM] = ContextVar("current")  # the model whose forward runs, for its attention layers


def heads_of(config: Any) -> tuple[int, int, int]:
    """Layers, heads of keys and values in each, and elements of a head, of a model of transformers."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return config.num_hidden_layers, heads, width


class CachedLM(nn.Module):
    """ids [B, S], position [B], lengths [B], all int64 -> logits [B, vocabulary] behind the last token of each text.

    Several tokens at once begin a text: they attend to each other alone. One token attends to what the cache holds.

    Args:
        network: a causal language model of transformers, whose configuration is changed to use this cache.
        batch: texts at once.
        max_length: tokens that the cache holds a text.
    """

    def __init__(self, network: Any, batch: int, max_length: int) -> None:
        super().__init__()
        config = network.config
        config._attn_implementation = NAME  # noqa: SLF001  # transformers has no other way to set it on a made model
        self.network = network
        self.max_length = max_length
        layers, heads, width = heads_of(config)
        shape, kind_of = (batch, heads, max_length, width), {"dtype": network.dtype, "device": network.device}
        for layer in range(layers):
            for kind in ("keys", "values"):
                self.register_buffer(f"{kind}_{layer}", torch.zeros(shape, **kind_of))

    def forward(self, ids: torch.Tensor, position: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The network's hidden states behind each text's last token, through its head."""
        batch, count = ids.shape
        self._places = position[:, None] + torch.arange(count, device=ids.device)
        token = _current.set(self)
        try:
            hidden = self.network.base_model(input_ids=ids, position_ids=self._places, use_cache=False)[0]
        finally:
            _current.reset(token)
            del self._places
        if count > 1:
            hidden = hidden[torch.arange(batch, device=ids.device), lengths - position - 1]
        logits: torch.Tensor = self.network.get_output_embeddings()(hidden.reshape(batch, -1))
        return logits

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float | None
    ) -> torch.Tensor:
        """[B, H, S, D] of queries and of what they look at -> [B, S, H, D]."""
        kept = [self._write(f"{kind}_{layer}", new) for kind, new in (("keys", key), ("values", value))]
        mask = None
        if query.shape[2] == 1:
            key, value = kept
            mask = (torch.arange(self.max_length, device=query.device) <= self._places[:, :, None])[:, None]
        result = nn.functional.scaled_dot_product_attention(
            query, key, value, mask, is_causal=mask is None, scale=scale, enable_gqa=query.shape[1] != key.shape[1]
        )
        return result.transpose(1, 2)

    def _write(self, name: str, new: torch.Tensor) -> torch.Tensor:
        """Put `new` [B, H, S, D] where its tokens belong; the whole cache."""
        cache = self.get_buffer(name)
        batch, heads, count, width = new.shape
        rows = torch.arange(batch * heads, device=new.device)[:, None]
        columns = self._places[:, None].expand(batch, heads, count).reshape(batch * heads, count)
        flat = cache.view(batch * heads, self.max_length, width)
        flat.index_put_((rows, columns), new.reshape(batch * heads, count, width))
        return cache


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    _mask: torch.Tensor | None,
    scaling: float | None = None,
    **_others: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers' attention layers call."""
    return _current.get().attend(module.layer_idx, query, key, value, scaling), None


AttentionInterface.register(NAME, _attend)
