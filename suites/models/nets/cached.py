"""Language models of transformers with a cache in buffers: what `engine.compile_decoder` takes.

The model's own forward runs; its attention is the registered function below, which writes keys and values to the cache.
What this attention does not have, such as a limit of the scores, is refused: without it the model would give other
tokens.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface

NAME = "cached"
USUAL = {
    "attention_chunk_size": None,
    "final_logit_softcapping": None,
}
"""Fields of configurations that change what the model computes outside of its layers' attention, and the values that
change nothing."""
FACTORS = {"lm_head_multiplier": 1, "logit_scale": 1, "logits_scaling": -1}
"""Fields of configurations by which a model multiplies its logits; -1: by which it divides them."""
NEUTRAL = frozenset({"cache_position", "output_attentions", "past_key_values", "position_ids", "use_cache"})
"""What layers hand to their attention and change nothing here."""
_current: ContextVar[CachedLM] = ContextVar("current")  # the model whose forward runs, for its attention layers


def heads_of(config: Any) -> tuple[int, int, int]:
    """Layers, heads of keys and values in each, and elements of a head, of a model of transformers."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return config.num_hidden_layers, heads, width


class CachedLM(nn.Module):
    """ids [B, S], position [B], lengths [B], all int64 -> logits [B, vocabulary] behind the last token of each text.

    Several tokens at once begin a text: they attend to each other alone. One token attends to what the cache holds.
    A layer with a sliding window attends only to the tokens in the window. Its cache still holds all tokens.

    Args:
        network: a causal language model of transformers, whose configuration is changed to use this cache.
        batch: texts at once.
        max_length: tokens that the cache holds a text.

    Raises:
        ValueError: the network limits its logits behind its head, or attends to chunks of the text. In `forward`: a
            layer has another attention than that of transformers' interface, or asks it for more than a window.
    """

    def __init__(self, network: Any, batch: int, max_length: int) -> None:
        super().__init__()
        config = network.config
        for name, usual in USUAL.items():
            found = getattr(config, name, None)
            if found is not None and found != usual:
                raise ValueError(f"{type(network).__name__} has {name}={found!r}, which CachedLM does not have")
        factors = ((getattr(config, name, None) or 1) ** power for name, power in FACTORS.items())
        self.factor = math.prod(factors)
        config._attn_implementation = NAME  # noqa: SLF001  # transformers has no other way to set it on a made model
        self.network = network
        self.max_length = max_length
        self.layers, heads, width = heads_of(config)
        shape, kind_of = (batch, heads, max_length, width), {"dtype": network.dtype, "device": network.device}
        for layer in range(self.layers):
            for kind in ("keys", "values"):
                self.register_buffer(f"{kind}_{layer}", torch.zeros(shape, **kind_of))

    def forward(self, ids: torch.Tensor, position: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        batch, count = ids.shape
        self._places = position[:, None] + torch.arange(count, device=ids.device)
        self._written: set[int] = set()
        token = _current.set(self)
        try:
            hidden = self.network.base_model(input_ids=ids, position_ids=self._places, use_cache=False)[0]
        finally:
            _current.reset(token)
            del self._places
        if len(self._written) < self.layers:
            some = f"{self.layers - len(self._written)} of {self.layers} layers"
            raise ValueError(
                f"{type(self.network).__name__}: {some} do not call the attention that is registered in "
                "transformers.AttentionInterface, so their keys and values are not kept"
            )
        if count > 1:
            hidden = hidden[torch.arange(batch, device=ids.device), lengths - position - 1]
        logits = self.network.get_output_embeddings()(hidden.reshape(batch, -1))
        return logits if self.factor == 1 else logits * self.factor

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float | None,
        window: int | None = None,
    ) -> torch.Tensor:
        """[B, H, S, D] of queries and of what they look at -> [B, S, H, D].

        A query attends to the last `window` tokens up to its own; None: to all of them.
        """
        kept = [self._write(f"{kind}_{layer}", new) for kind, new in (("keys", key), ("values", value))]
        self._written.add(layer)
        is_limited = window is not None and window < self.max_length
        mask = None
        if query.shape[2] == 1:
            key, value = kept
            mask = self._find_visible(
                torch.arange(self.max_length, device=query.device), window if is_limited else None
            )
        elif is_limited:
            mask = self._find_visible(torch.arange(query.shape[2], device=query.device), window)
        result = nn.functional.scaled_dot_product_attention(
            query, key, value, mask, is_causal=mask is None, scale=scale, enable_gqa=query.shape[1] != key.shape[1]
        )
        return result.transpose(1, 2)

    def _find_visible(self, keys: torch.Tensor, window: int | None) -> torch.Tensor:
        """Whether each token of the call attends to the key at each place: bool [B, 1, S, `keys`]."""
        places = self._places[:, :, None]
        visible = keys <= places
        if window is not None:
            visible = visible & (keys > places - window)
        return visible[:, None]

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
    sliding_window: int | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers' attention layers call."""
    asked = {name: value for name, value in others.items() if name not in NEUTRAL and value is not None}
    if dropout:
        asked["dropout"] = dropout
    if is_causal is False:
        asked["is_causal"] = is_causal
    if asked:
        raise ValueError(
            f"{type(module).__name__} asks for {', '.join(asked)}, which the attention of CachedLM does not have"
        )
    return _current.get().attend(module.layer_idx, query, key, value, scaling, sliding_window), None


AttentionInterface.register(NAME, _attend)
