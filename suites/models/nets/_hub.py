"""Importing transformers without its model hub, and without what it logs. Knows no model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from suites.quiet import silence_torchao


@contextmanager
def offline() -> Iterator[None]:
    """Tell transformers and its hub client in the block that there is no hub, and silence torchao, which it imports.

    The environment, which is put back, belongs to the process. No other thread builds models meanwhile.
    """
    silence_torchao()
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before
