"""Keeps torch's messages about a capture from the user, who gets one error instead. Knows nothing of models.

Loggers, warning filters and `sys.stderr` belong to the process. Log records and output of other threads pass through,
and all three are put back afterwards. The engine captures one model at a time: two captures that overlap would put back
each other's settings.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

# These say more than once what the raised error says.
_CHATTY_LOGGERS = (
    "torch._subclasses.fake_tensor",
    "torch.fx.experimental.symbolic_shapes",
    "torch.export",
    "torch.export._trace",
)
_capture_lock = threading.RLock()  # reentrant: a model may compile another one while it is captured


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide log records, deprecation warnings and printed graphs of torch that this thread causes in the block.

    What else the thread writes to `sys.stderr`, such as output of the model, appears when the block ends.
    """
    with _capture_lock, _hidden_records(), warnings.catch_warnings(), _held_stderr():
        # Python 3.11 has no filters for one thread: in the block the filter holds for all of them. It only hides that
        # torch calls deprecated functions of its own, and torch.export itself enters `catch_warnings` many times.
        for category in (FutureWarning, DeprecationWarning):
            warnings.filterwarnings("ignore", category=category, module=r"torch\.|copyreg")
        yield


@contextlib.contextmanager
def _hidden_records() -> Iterator[None]:
    thread = threading.get_ident()

    def is_of_another_thread(_record: logging.LogRecord) -> bool:
        return threading.get_ident() != thread

    loggers = [logging.getLogger(name) for name in _CHATTY_LOGGERS]
    for logger in loggers:
        logger.addFilter(is_of_another_thread)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_of_another_thread)


class _Stderr:
    """Takes the place of `sys.stderr`: holds back what one thread writes and passes on what others write."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._held = io.StringIO()
        self._thread: int | None = threading.get_ident()

    def write(self, text: str) -> int:
        target = self._held if threading.get_ident() == self._thread else self._stream
        written: int = target.write(text)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def release(self, without: str) -> None:
        """Write what was held back, without the text `without`. Whoever kept this object writes through from now on."""
        self._thread = None
        text = self._held.getvalue()
        self._stream.write(text.replace(without, "") if without else text)


@contextlib.contextmanager
def _held_stderr() -> Iterator[None]:
    """Drop the graph that torch prints when control flow depends on the values of tensors."""
    stream = sys.stderr
    if stream is None:  # a process without standard error
        yield
        return
    holding: Any = _Stderr(stream)
    sys.stderr = holding
    graph = ""
    try:
        yield
    except Exception as error:
        graph = str(getattr(error, "partial_fx_graph", ""))
        raise
    finally:
        if sys.stderr is holding:  # else another thread has replaced it meanwhile, and puts it back itself
            sys.stderr = stream
        holding.release(graph + "\n" if graph else "")
