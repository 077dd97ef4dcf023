"""A model of transformers over its `StaticCache`: what eager and torch.compile generate with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from suites.models.nets.generation import Generation

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def make_steps(
    model: Generation, prefill: Wrap | None = None, decode: Wrap | None = None
) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Both phases of `model` over one cache; `prefill` and `decode` wrap the network that runs in each."""
    import torch
    from transformers import StaticCache

    from suites.models.nets.cached import heads_of

    network = model.network
    cache = StaticCache(config=network.config, max_cache_len=model.max_length)
    _layers, heads, width = heads_of(network.config)
    cache.early_initialization(model.batch, heads, width, network.dtype, network.device)
    layers: list[Any] = cache.layers
    first, later = (network.forward if wrap is None else wrap(network.forward) for wrap in (prefill, decode))
    numbers = torch.arange(model.max_length, device=network.device)[None]
    places = numbers.split([model.prompt, *([1] * model.steps)], 1)
    taken = [0]

    def run(step: Callable[..., Any], ids: Tensor) -> Tensor:
        with torch.inference_mode():
            found = step(
                input_ids=ids, position_ids=places[taken[0]], past_key_values=cache, use_cache=True, logits_to_keep=1
            )
            taken[0] += 1
            logits: Tensor = found.logits[:, -1]
            return logits

    def begin(ids: Tensor) -> Tensor:
        taken[0] = 0
        # What the rows hold does not matter: the mask hides those behind the text. So they are not zeroed each time.
        with torch.inference_mode():
            for layer in layers:
                layer.cumulative_length.zero_()
        return run(first, ids)

    return begin, lambda ids: run(later, ids)
