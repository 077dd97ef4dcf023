"""A model of transformers over its `StaticCache`: what eager and torch.compile generate with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from suites.models.nets.generation import Generation

Step = Callable[..., Any]


def made(
    model: Generation, prefill: Callable[[Step], Step], decode: Callable[[Step], Step]
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
    steps = [wrap(network.forward) for wrap in (prefill, decode)]
    numbers = torch.arange(model.max_length, device=network.device)[None]
    places = numbers.split([model.prompt, *([1] * model.steps)], 1)
    taken = [0]

    def run(step: Step, ids: Tensor) -> Tensor:
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
        return run(steps[0], ids)

    return begin, lambda ids: run(steps[1], ids)
