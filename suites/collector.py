"""Python's garbage collector, held off while it could only cost time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Collect no garbage in the block; afterwards the collector is on if it was on before.

    For blocks whose objects all stay, such as imports: each full collection there visits every object and frees none.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
