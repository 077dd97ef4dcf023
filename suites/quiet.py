"""Silences lines that other packages write to standard error and that no user of the harness can act on."""

from __future__ import annotations

import logging


def silence_torchao() -> None:
    """Let the import of torchao log nothing but errors, in this process."""
    for name in ("torchao", "torch.utils._pytree"):  # kernels of other machines, and names that torch will drop
        logging.getLogger(name).setLevel(logging.ERROR)
