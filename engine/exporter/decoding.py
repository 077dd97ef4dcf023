"""Example inputs and dynamic shapes for exporting a decoder's entry points."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from engine.errors import ConfigError

PARAMETERS = ("ids", "position", "lengths")


def check_parameters(module: Any) -> None:
    """ConfigError unless `module` is a module whose `forward` has the parameters of a decoder."""
    requested = ", ".join(PARAMETERS)
    if not isinstance(module, torch.nn.Module):
        is_class = isinstance(module, type)
        got = f"the class {module.__name__}; make an object of it" if is_class else type(module).__name__
        raise ConfigError(f"module: expected an nn.Module with forward({requested}), got {got}")
    names = tuple(inspect.signature(module.forward).parameters)
    if names != PARAMETERS:
        got = ", ".join(names)
        raise ConfigError(
            f"module: expected forward({requested}), got {type(module).__name__}.forward({got}); "
            "suites/models/nets/cached.py makes such a module of a model of transformers"
        )


def examples(module: Any, batch: int, max_length: int) -> dict[str, tuple[tuple[torch.Tensor, ...], Any]]:
    """Entry point -> (ids, position, lengths), int64, where the module is, and the dynamic shapes to export with."""
    device = next((one.device for one in (*module.parameters(), *module.buffers())), torch.device("cpu"))
    found: dict[str, tuple[tuple[torch.Tensor, ...], Any]] = {}
    for name, length in (("prefill", min(8, max_length)), ("decode", 1)):
        ids = torch.zeros(batch, length, dtype=torch.long, device=device)
        counts = torch.zeros_like(ids[:, 0]), torch.full_like(ids[:, 0], length)
        shapes = None
        if name == "prefill" and max_length > 2:  # a range of one length is no dynamic size to torch
            length_of_prompt = torch.export.Dim("sequence", min=2, max=max_length)
            shapes = {"ids": {1: length_of_prompt}, "position": None, "lengths": None}
        found[name] = (ids, *counts), shapes
    return found
