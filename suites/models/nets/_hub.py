"""Importing transformers without its model hub. Knows no model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def offline() -> Iterator[None]:
    """Tell transformers and its hub client in the block that there is no hub; the environment is put back.

    The environment belongs to the process. No other thread builds models meanwhile.
    """
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before
