"""Times of the steps of one run: by events on a CUDA device, by the clock of this process under the interpreter.

The kernels are started one after the other, because nothing can be measured between the kernels of a CUDA graph.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from engine.targets.triton.capture import Start
from engine.targets.triton.torch_internals import hold_device

HOST_SECONDS = 50e-6
"""The device is held back for so long for each kernel of a first run. We think that a start from Python takes less."""
MOST_HELD_SECONDS = 0.2


class StepTimes(NamedTuple):
    """Times of one run in nanoseconds. `host_seconds` is what the host needed to enqueue it."""

    steps: tuple[int, ...]
    wall: int
    clock: str
    host_seconds: float


def time_steps(steps: Sequence[Sequence[Start]], place: str, host_seconds: float | None = None) -> StepTimes:
    """Run `steps` once, wait for the end, and return their times; RuntimeError if CUDA reports an error.

    `host_seconds` is `StepTimes.host_seconds` of an earlier run; None before the first one.
    """
    if place == "cpu":
        return _time_in_process(steps)
    expected = HOST_SECONDS * sum(map(len, steps)) if host_seconds is None else host_seconds
    return _time_on_device(steps, place, min(1.5 * expected, MOST_HELD_SECONDS))


def _time_in_process(steps: Sequence[Sequence[Start]]) -> StepTimes:
    readings = [time.perf_counter_ns()]
    for starts in steps:
        for start in starts:
            start()
        readings.append(time.perf_counter_ns())
    wall = readings[-1] - readings[0]
    return StepTimes(_differences(readings), wall, "perf_counter_ns", wall / 1e9)


def _time_on_device(steps: Sequence[Sequence[Start]], place: str, held_seconds: float) -> StepTimes:
    """Times by events between the steps.

    The device is held back until all starts are in its queue, because a start takes longer than a small kernel runs.
    """
    import torch

    with torch.cuda.device(place):
        events: list[Any] = [torch.cuda.Event(enable_timing=True) for _ in range(len(steps) + 1)]
        hold_device(held_seconds)
        began = time.perf_counter()
        events[0].record()
        for starts, ended in zip(steps, events[1:], strict=True):
            for start in starts:
                start()
            ended.record()
        host_seconds = time.perf_counter() - began
        events[-1].synchronize()
        readings = [round(1e6 * events[0].elapsed_time(event)) for event in events]  # from milliseconds
    return StepTimes(_differences(readings), readings[-1] - readings[0], "cuda events", host_seconds)


def _differences(readings: Sequence[int]) -> tuple[int, ...]:
    return tuple(after - before for before, after in itertools.pairwise(readings))
