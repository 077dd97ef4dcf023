"""Another way to run a model, for tests of minify: eager torch, with a fault that the options name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx


def run(module: fx.GraphModule, inputs: tuple[Tensor, ...], options: Mapping[str, Any]) -> Any:
    """Results of the module; with a fault at each ``cumsum`` that reads a row of 3 or more elements."""
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.cumsum.default and options["fault"] == "crash":
            os.kill(os.getpid(), 11)
        if node.target is torch.ops.aten.cumsum.default and options["fault"] == "error":
            raise KeyError(node.name)
    results = module(*inputs)
    return [one.flip(-1) if options["fault"] == "wrong" and one.shape[-1:] >= (3,) else one for one in results]
