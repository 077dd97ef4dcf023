"""Backends that generate text with one planted fault each, named as ``path.py:Class``."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from transformers import DynamicCache

from suites.backends.base import Generator
from suites.backends.eager import Eager


class StaleCache(Eager):
    """Prefills well; then every step sees the prompt and itself, and not the steps before it."""

    def generator(self, model, inputs):
        kept = {}

        def run(ids, cache):
            place = torch.tensor([[kept["length"] - 1]]) if ids.shape[1] == 1 else None
            with torch.inference_mode():
                found = model.network(input_ids=ids, position_ids=place, past_key_values=cache, use_cache=True)
            return found.logits[:, -1]

        def prefill(ids):
            kept.update(cache=DynamicCache(config=model.network.config), length=ids.shape[1])
            return run(ids, kept["cache"])

        def decode(ids):
            kept["length"] += 1
            return run(ids, copy.deepcopy(kept["cache"]))

        return Generator(prefill, decode)


class OldPrompt(Eager):
    """Takes the first prompt in for every later one."""

    def generator(self, model, inputs):
        made, first = super().generator(model, inputs), []

        def prefill(ids):
            first[:] = first or [ids]
            return made.prefill(first[0])

        return replace(made, prefill=prefill)


class OneBuffer(Eager):
    """Gives the logits of every step in the same memory."""

    def generator(self, model, inputs):
        made, buffer = super().generator(model, inputs), []

        def shared(ids):
            logits = made.decode(ids)
            buffer[:] = buffer or [logits.clone()]
            return buffer[0].copy_(logits)

        return replace(made, decode=shared)
