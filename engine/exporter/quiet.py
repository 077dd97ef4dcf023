"""Hides what torch writes during a capture and a user cannot act upon. Knows nothing of models."""

from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from collections.abc import Iterator

# These loggers repeat the text of the raised error. `dynamic_shapes` says that None for a static axis is deprecated.
# `non_strict_utils` names sizes that torch takes as fixed; the engine issues a warning of its own for them.
_CHATTY_LOGGERS = (
    "torch._subclasses.fake_tensor",
    "torch.fx.experimental.symbolic_shapes",
    "torch.export",
    "torch.export._trace",
    "torch.export.dynamic_shapes",
    "torch._export.non_strict_utils",
)
_UNCHANGED = r"The tensor attributes? (self\.(\S*\.)?_flat_weights\[\d+\](, )?)+ (was|were) assigned"
"""Recurrent layers of torch assign their list of weights, which does not change."""

# Logging and warnings belong to the process: two captures at the same time would restore each other's settings.
# Reentrant, because a model may compile another one while it is captured.
_capture_lock = threading.RLock()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide log records of this thread and deprecation warnings of torch in the block. One thread at a time is in it."""
    thread = threading.get_ident()

    def is_of_another_thread(_record: logging.LogRecord) -> bool:
        return threading.get_ident() != thread

    loggers = [logging.getLogger(name) for name in _CHATTY_LOGGERS]
    with _capture_lock, warnings.catch_warnings():
        for category in (FutureWarning, DeprecationWarning):  # of torch's calls of its own deprecated functions
            warnings.filterwarnings("ignore", category=category, module=r"torch\.|copyreg")
        warnings.filterwarnings("ignore", message=_UNCHANGED)
        for logger in loggers:
            logger.addFilter(is_of_another_thread)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(is_of_another_thread)
