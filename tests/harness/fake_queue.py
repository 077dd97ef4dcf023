"""What a fake device, the backends that use it and the tests share in one process."""

from __future__ import annotations

PENDING: list = []
"""Work that was given to the device and is not done."""
LOG: list[tuple] = []
"""What the parent asked the device to do."""
CALL_S = 0.001
_state = {"now": 0.0, "bytes": 0}


def now():
    """Seconds of a clock that only the device's work moves."""
    return _state["now"]


def launch(work, nbytes):
    """Give the device something to do."""
    PENDING.append(work)
    _state["bytes"] += nbytes


def finish():
    """Do all of it."""
    while PENDING:
        PENDING.pop(0)()
        _state["now"] += CALL_S


def used_bytes():
    """Bytes that were launched since `reset_bytes`."""
    return _state["bytes"]


def reset_bytes():
    """Count anew."""
    _state["bytes"] = 0
