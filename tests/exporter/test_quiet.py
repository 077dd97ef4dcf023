"""What a capture hides from the user, and that other threads notice nothing of it."""

from __future__ import annotations

import logging
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

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


def test_log_records_of_other_threads_are_not_hidden(records):
    def function(x):
        logging.getLogger("torch.export").error("ours")
        in_another_thread(lambda: logging.getLogger("torch.export").error("theirs"))
        return x

    export(Function(function).eval(), (torch.ones(3),))
    assert set(records) == {"theirs"}
    logging.getLogger("torch.export").error("ours, afterwards")
    assert records[-1] == "ours, afterwards"


def test_captures_that_overlap_put_everything_back():
    first_began, second_began, first_ended = (threading.Event() for _ in range(3))
    before = list(warnings.filters), [logging.getLogger(n).filters[:] for n in quiet._CHATTY_LOGGERS]

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
    assert list(warnings.filters) == before[0]
    assert [logging.getLogger(n).filters[:] for n in quiet._CHATTY_LOGGERS] == before[1]


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
        export_with_torch(Recurrent().eval(), (torch.ones(3, 2, 4),))
    assert [str(one.message) for one in found] == []


def test_none_for_a_static_axis_logs_nothing(records):
    axes = ((torch.export.Dim("rows"), None, None),)
    export(nn.Flatten().eval(), (torch.ones(2, 3, 4),), axes)
    assert records == []


def test_torch_warns_of_a_tensor_that_the_model_keeps_in_an_attribute():
    class Keeping(Recurrent):
        def forward(self, x):
            self.last = x * 2
            return super().forward(x)[0]

    with pytest.warns(UserWarning, match=r"self\.last"):
        export_with_torch(Keeping().eval(), (torch.ones(3, 2, 4),))
