"""Hides torch's messages during a capture; the user gets one error instead. Knows nothing of models.

Loggers, warning filters and `sys.stderr` belong to the process. Log records and output of other threads pass through,
and all three are restored afterwards. The engine captures one model at a time: two captures at the same time would
restore each other's settings.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

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
# torch.export warns that a module assigns attributes while it runs, which a program does not do.
_ASSIGNED = r"The tensor attributes? (.+?) (?:was|were) assigned during export"
# Recurrent layers of torch assign their list of weights, which does not change.
_UNCHANGED = re.compile(r"self\.(\S*\.)?_flat_weights\[\d+\]")
_capture_lock = threading.RLock()  # reentrant: a model may compile another one while it is captured


@contextlib.contextmanager
def quiet() -> Iterator[list[str]]:
    """Hide log records, deprecation warnings and printed graphs of torch that this thread causes in the block.

    Other output of the thread to `sys.stderr`, such as that of the model, appears when the block ends.

    Yields:
        a list that gets the names of the attributes to which the model assigns tensors, such as ``layers.0.state``.
    """
    with _capture_lock, _hidden_records(), warnings.catch_warnings(), _held_stderr():
        # Python 3.11 has no warning filters for one thread: in the block the filter applies to all threads. It only
        # hides warnings that torch calls its own deprecated functions; torch.export itself often uses `catch_warnings`.
        for category in (FutureWarning, DeprecationWarning):
            warnings.filterwarnings("ignore", category=category, module=r"torch\.|copyreg")
        assigned: list[str] = []
        _collect_assigned(assigned)
        yield assigned


def _collect_assigned(assigned: list[str]) -> None:
    """Add names to `assigned` in place of torch's warning. The enclosing `catch_warnings` restores what this sets."""
    show = warnings.showwarning

    def collect(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        found = re.match(_ASSIGNED, str(message))
        if found is None:
            show(message, category, *place, **more)
            return
        names = (name for name in found[1].split(", ") if not _UNCHANGED.fullmatch(name))
        assigned.extend(name.removeprefix("self.") for name in names)

    warnings.filterwarnings("always", message=_ASSIGNED)
    warnings.showwarning = collect


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
    """Replaces `sys.stderr`: buffers the output of one thread and passes on the output of other threads."""

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
        """Write the buffered output, without the text `without`. Later output is passed on directly."""
        self._thread = None
        text = self._held.getvalue()
        text = text.replace(without, "") if without else text
        if text:
            with contextlib.suppress(OSError):  # a full output must not end the capture
                self._stream.write(text)


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
        if sys.stderr is holding:  # else another thread has replaced it, and will restore it
            sys.stderr = stream
        holding.release(graph + "\n" if graph else "")
