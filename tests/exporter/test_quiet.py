"""What a capture hides from the user, and that other threads notice nothing of it."""

from __future__ import annotations

import errno
import io
import logging
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import engine
from engine.exporter import export, export_with_torch, quiet
from tests.modules import Function


def in_another_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(10)


@pytest.fixture
def records():
    """The messages that reach a handler of torch's loggers of exports."""
    found = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())
    loggers = [logging.getLogger(name) for name in ("torch.export", "torch.export.dynamic_shapes")]
    for logger in loggers:
        logger.addHandler(handler)
    yield found
    for logger in loggers:
        logger.removeHandler(handler)


def test_what_other_threads_write_appears_at_once(capsys):
    seen = []

    def function(x):
        in_another_thread(lambda: sys.stderr.write("theirs\n"))
        seen.append(capsys.readouterr().err)
        sys.stderr.write("ours\n")
        return x

    export(Function(function).eval(), (torch.ones(3),))
    assert seen[0] == "theirs\n"
    assert capsys.readouterr().err.replace("theirs\n", "") == "ours\n" * len(seen)


def test_log_records_of_other_threads_are_not_hidden(records):
    def function(x):
        logging.getLogger("torch.export").error("ours")
        in_another_thread(lambda: logging.getLogger("torch.export").error("theirs"))
        return x

    export(Function(function).eval(), (torch.ones(3),))
    assert set(records) == {"theirs"}
    logging.getLogger("torch.export").error("ours, afterwards")
    assert records[-1] == "ours, afterwards"


def test_a_stream_that_was_kept_writes_through_afterwards(capsys):
    kept = []

    def function(x):
        kept.append(sys.stderr)
        return x

    export(Function(function).eval(), (torch.ones(3),))
    assert sys.stderr is not kept[0]
    kept[0].write("late\n")
    assert capsys.readouterr().err == "late\n"


def test_a_stream_that_another_thread_has_set_meanwhile_stays(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    other = io.StringIO()

    def function(x):
        sys.stderr = other
        return x

    export(Function(function).eval(), (torch.ones(3),))
    assert sys.stderr is other


def test_a_process_without_standard_error_captures(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    export(Function(torch.relu).eval(), (torch.ones(3),))
    assert sys.stderr is None


def test_captures_that_overlap_put_everything_back():
    first_began, second_began, first_ended = (threading.Event() for _ in range(3))
    before = sys.stderr, list(warnings.filters), [logging.getLogger(n).filters[:] for n in quiet._CHATTY_LOGGERS]

    def first():
        with quiet.quiet():
            first_began.set()
            second_began.wait(0.3)  # in vain: one at a time
        first_ended.set()

    def second():
        first_began.wait(10)
        with quiet.quiet():
            second_began.set()
            first_ended.wait(10)

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(first), pool.submit(second)]:
            future.result(20)
    assert (sys.stderr, list(warnings.filters)) == before[:2]
    assert [logging.getLogger(n).filters[:] for n in quiet._CHATTY_LOGGERS] == before[2]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.LSTM(4, 4), nn.GRU(4, 4, 2)])
        self.last = None

    def forward(self, x):
        for layer in self.layers:
            x, _ = layer(x)
        return x


def test_recurrent_layers_are_exported_without_a_warning():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        exported = export_with_torch(Recurrent().eval(), (torch.ones(3, 2, 4),))
    assert [str(one.message) for one in found] == []
    assert exported.assigned == ()


def test_a_tensor_that_the_model_keeps_in_an_attribute_is_named_and_torch_says_nothing():
    class Keeping(Recurrent):
        def forward(self, x):
            self.last = x * 2
            return super().forward(x)

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        exported = export_with_torch(Keeping().eval(), (torch.ones(3, 2, 4),))
    assert [str(one.message) for one in found] == []
    assert exported.assigned == ("last",)


def test_none_for_a_static_axis_logs_nothing(records):
    axes = ((torch.export.Dim("rows"), None, None),)
    export(nn.Flatten().eval(), (torch.ones(2, 3, 4),), axes)
    assert records == []


def test_a_standard_error_that_cannot_be_written_is_no_failure_of_the_capture(monkeypatch):
    class Full(io.StringIO):
        def write(self, _text):
            raise OSError(errno.ENOSPC, "No space left on device")

    class Writes(nn.Module):
        def forward(self, x):
            sys.stderr.write("captured\n")
            return x * 2

    monkeypatch.setattr(sys, "stderr", Full())
    x = torch.randn(2, 3)
    torch.testing.assert_close(engine.compile(Writes().eval(), (x,))(x), x * 2)
