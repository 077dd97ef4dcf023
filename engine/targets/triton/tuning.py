"""Measures which configuration of each kernel is the fastest on this device, for the sizes of a program.

Each question that the steps of a program ask is measured once, on the operands of the first step that asks it. All
values of the program are kept after a run, so a step can be started again with other configurations. The candidates
take turns; the one with the lowest median then meets the rule's configuration in as many rounds again, and is chosen
only if it wins these, because the fastest of many is partly the luckiest.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from engine.errors import ConfigError, ExecutionError, InternalError
from engine.graph import Graph
from engine.targets.base import Prepared
from engine.targets.bind import bind
from engine.targets.instruments import Call
from engine.targets.plan import Planned, Step
from engine.targets.triton import kernel_table
from engine.targets.triton.capture import Start, compile_all
from engine.targets.triton.clock import HOST_SECONDS
from engine.targets.triton.configurations import Finder, Question
from engine.targets.triton.constants import Constants
from engine.targets.triton.device import TritonDevice, is_interpreted
from engine.targets.triton.executable import TritonContext, TritonExecutable
from engine.targets.triton.launch import Launches
from engine.targets.triton.planner import TritonPlanner
from engine.targets.triton.torch_internals import hold_device
from engine.targets.tuned import Tuned, TuningOptions

LEAST_GAIN = 0.02
"""Part of its time that a configuration must save over the rule's."""
HELD_SECONDS = 4 * HOST_SECONDS
"""The device is held back for so long before a step is measured; a step has up to three launches."""
_FLUSH_TIMES = 4  # so many times the L2 cache is written before a measurement
_LEAST_FLUSH_BYTES = 64 << 20


class Clock(Protocol):
    """Measures what was enqueued on a device."""

    def measure(self, run: Callable[[], None]) -> float:
        """Seconds that the device takes for what `run` enqueues."""


class EventClock(Clock):
    """Events of the current stream of a CUDA device. Nothing that is measured is in the L2 cache beforehand.

    The device is held back while the host enqueues, so that it does not wait for the host between the events.
    """

    def __init__(self, place: str) -> None:
        import torch

        l2_bytes = torch.cuda.get_device_properties(place).L2_cache_size
        nbytes = max(_FLUSH_TIMES * l2_bytes, _LEAST_FLUSH_BYTES)
        self._flushed = torch.empty(nbytes, dtype=torch.uint8, device=place)

    def measure(self, run: Callable[[], None]) -> float:
        import torch

        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self._flushed.zero_()
        hold_device(HELD_SECONDS)
        begin.record()
        run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3


class _Recorder(Finder):
    """Answers with the rule's configuration and remembers the questions."""

    def __init__(self) -> None:
        self.asked: dict[Question, tuple[list[Any], Any]] = {}

    def find(self, question: Question, candidates: Sequence[Any], rule: Any) -> Any:
        self.asked.setdefault(question, (list(candidates), rule))
        return rule


class _Forced(Finder):
    """Answers one question with a given configuration, others by the rule."""

    def __init__(self, question: Question, choice: Any) -> None:
        self._question, self._choice = question, choice

    def find(self, question: Question, candidates: Sequence[Any], rule: Any) -> Any:
        del candidates
        return self._choice if question == self._question else rule


class Asked(NamedTuple):
    """A question of a program, and the first step that asks it. The rule's configuration is among `candidates`."""

    question: Question
    step: int
    candidates: list[Any]
    rule: Any


def tune(
    graph: Graph,
    prepared: Prepared,
    device: TritonDevice,
    facts: kernel_table.Gpu,
    call: Call,
    options: TuningOptions,
) -> list[Tuned]:
    """Measure every question that the steps of a program ask, on a run of `call`, which changes the states.

    No size in `graph` is a formula. ConfigError if kernels are interpreted, so that times would say nothing of a
    GPU; ExecutionError if the program fails.
    """
    clock = options.clock
    if clock is None and is_interpreted():
        raise ConfigError("tune: Triton's interpreter runs the kernels, and its times say nothing of a GPU")
    assert isinstance(prepared, Constants)  # noqa: S101  # made by `TritonTarget.new_prepared`
    planner = TritonPlanner(facts)
    executable = TritonExecutable(graph, bind(graph, planner, keep=True), prepared, device)
    context = _run_once(executable, *call)
    clock = EventClock(device.place) if clock is None else clock
    questions = list(_list_questions(executable, facts))
    rows = []
    for number, asked in enumerate(questions):
        if options.observe is not None:
            options.observe(asked.question.kernel, asked.question.sizes, number, len(questions))
        rows.append(_choose(asked, _list_runs(asked, context, executable, facts), options.rounds, clock))
    return rows


def _run_once(executable: TritonExecutable, inputs: Sequence[Any], states: Sequence[Any]) -> TritonContext:
    """A context after a run, whose memory has the value of every node."""
    graph, device = executable.graph, executable.device
    types = {
        kind: [value.type for value in values]
        for kind, values in (("input", graph.call_inputs), ("output", graph.call_outputs))
    }
    values = {kind: [device.allocate(t.nbytes).value(0, t) for t in listed] for kind, listed in types.items()}
    for value, given in zip(values["input"], inputs, strict=True):
        device.copy_in(value, given)
    context = executable.context(states)
    context.warm_up(values)
    context.run(values["input"], values["output"])
    context.synchronize()
    return context


def _list_questions(executable: TritonExecutable, facts: kernel_table.Gpu) -> Iterator[Asked]:
    """Each question that the kernels of the plan ask, once."""
    seen = set[Question]()
    for number, step in enumerate(executable.plan.steps):
        recorder = _Recorder()
        _plan(step, facts, recorder)
        for question, (candidates, rule) in recorder.asked.items():
            if question not in seen and len(candidates) > 1:
                seen.add(question)
                yield Asked(question, number, candidates, rule)


def _plan(step: Step, facts: kernel_table.Gpu, finder: Finder) -> Launches:
    """The launches of a step of the plan, whose operands have been copied already where kernels want that."""
    planner = TritonPlanner(facts._replace(configurations=finder))
    planned = planner.plan(step, copied=True)
    if not isinstance(planned, Planned):
        raise InternalError(f"{step.op}: no kernel accepts a step of the plan")
    launches: Launches = planned.handle
    return launches


Run = Callable[[], None]


def _list_runs(
    asked: Asked, context: TritonContext, executable: TritonExecutable, facts: kernel_table.Gpu
) -> dict[Any, Run]:
    """What starts the step in each configuration that the device can run."""
    runs: dict[Any, Run] = {}
    for choice in asked.candidates:
        launches = _plan(executable.plan.steps[asked.step], facts, _Forced(asked.question, choice))
        scratch = executable.device.allocate(launches.scratch_bytes).memory
        starts = context.starts(asked.step, launches, scratch)
        try:
            compile_all(starts)
        except ExecutionError:
            if choice == asked.rule:
                raise
            continue  # such as one that needs more shared memory than the device has
        runs[choice] = partial(_start_all, starts)
        runs[choice]()
    executable.device.wait()
    return runs


def _start_all(starts: Sequence[Start]) -> None:
    for start in starts:
        start()


def _choose(asked: Asked, runs: dict[Any, Run], rounds: int, clock: Clock) -> Tuned:
    """Measure the candidates in turns, then the fastest against the rule's."""
    times: dict[Any, list[float]] = {choice: [] for choice in runs}
    for number in range(rounds):
        for choice in _in_turn(list(runs), number):
            times[choice].append(clock.measure(runs[choice]))
    best = min(times, key=lambda choice: statistics.median(times[choice]))
    ratios = []
    for number in range(rounds if best != asked.rule else 0):
        pair = {choice: clock.measure(runs[choice]) for choice in _in_turn([best, asked.rule], number)}
        ratios.append(pair[best] / pair[asked.rule])
    if not _wins(ratios):
        best, ratios = asked.rule, [1.0]
    interval = statistics.median(ratios), min(ratios), max(ratios)
    return Tuned(*asked.question, asked.rule._asdict(), best._asdict(), *interval, rounds, len(runs))


def _in_turn(choices: list[Any], number: int) -> list[Any]:
    """The choices, each first in another round."""
    first = number % len(choices)
    return choices[first:] + choices[:first]


def _wins(ratios: Sequence[float]) -> bool:
    """True if the median saves enough and at most one round of nine says otherwise."""
    slower = sum(ratio >= 1 for ratio in ratios)
    return bool(ratios) and statistics.median(ratios) <= 1 - LEAST_GAIN and slower <= len(ratios) // 9
