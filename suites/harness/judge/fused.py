"""torch's fused encoder layer: one call for a whole layer, in place of the code of the module.

Eager takes it in `nn.TransformerEncoder` and `nn.MultiheadAttention` if no gradients are recorded; torch.export does
not. In padded rows it gives zeros, and the code of the module gives numbers. Both are right, because nothing should
read padded rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

NOTE = (
    "eager uses torch's fused encoder layer, whose values differ from those of the module's code, for example in "
    "padded rows; both count as right"
)


def may_run(model: nn.Module) -> bool:
    """True if torch has a fused call for a module of `model`; each such module has an `nn.MultiheadAttention`."""
    return any(isinstance(module, nn.MultiheadAttention) for module in model.modules())


@contextmanager
def switched_off() -> Iterator[None]:
    """A block in which the modules run their own code."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
