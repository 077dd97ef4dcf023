"""A disk that is full, for the process of the test."""

from __future__ import annotations

import resource
import signal
from contextlib import contextmanager


@contextmanager
def full_after(size):
    """As on a full disk: no file can be longer than `size` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
