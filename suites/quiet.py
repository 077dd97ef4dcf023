"""Silences lines that other packages write to standard error and that no user of the harness can act on. Imports
nothing heavy.
"""

from __future__ import annotations

import logging

_OF_TORCHAO = ("torchao", "torch.utils._pytree")
"""Loggers that write when torchao is imported: of kernels that only other machines can load, and of names that torch
will drop.
"""


def silence_torchao() -> None:
    """Let the import of torchao log nothing but errors, in this process."""
    for name in _OF_TORCHAO:
        logging.getLogger(name).setLevel(logging.ERROR)
