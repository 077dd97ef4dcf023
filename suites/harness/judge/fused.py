"""torch's fused encoder layer: one call for a whole layer, in place of the code of the module.

Eager takes it in `nn.TransformerEncoder` and `nn.MultiheadAttention` if no gradients are recorded; torch.export does
not. Where a mask pads, it gives zeros, and the code of the module gives numbers. Both are right: nothing reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

NOTE = (
    "eager takes torch's fused encoder layer, which gives other values than the module's code, as where a mask pads; "
    "the outputs of that code count as right, too"
)


def may_run(model: nn.Module) -> bool:
    """True if `model` has a module for which torch has a fused call."""
    kinds = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
    return any(isinstance(module, kinds) for module in model.modules())


@contextmanager
def switched_off() -> Iterator[None]:
    """A block in which the modules run their own code."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
