"""Importing transformers without its model hub, and without what it logs. Knows no model."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

_NOISY = ("torchao", "torch.utils._pytree")
"""Loggers that write to standard error when transformers imports torchao: of kernels that only other machines can load,
and of names that torch will drop.
"""


@contextmanager
def offline() -> Iterator[None]:
    """Tell transformers and its hub client in the block that there is no hub, and let `_NOISY` be silent.

    The environment, which is put back, belongs to the process. No other thread builds models meanwhile.
    """
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.ERROR)
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before
