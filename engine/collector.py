"""Pauses Python's cyclic garbage collector. Knows nothing of what is done meanwhile.

Compiling makes thousands of objects, all of which stay: to the collector that looks like garbage piling up on top of
what torch.export left, and it walks every object of the process, torch's 400,000 included, for a quarter of a second.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pauses:
    """Those of all threads: `count` have begun and not ended; the collector `was_enabled` before the first of them."""

    lock = threading.Lock()
    count = 0
    was_enabled = False


@contextmanager
def paused() -> Iterator[None]:
    """No collection by itself in here; afterwards, when no other thread is in here either, it is as it was before."""
    with _Pauses.lock:
        if not _Pauses.count:
            _Pauses.was_enabled = gc.isenabled()
            gc.disable()
        _Pauses.count += 1
    try:
        yield
    finally:
        with _Pauses.lock:
            _Pauses.count -= 1
            if not _Pauses.count and _Pauses.was_enabled:
                gc.enable()
