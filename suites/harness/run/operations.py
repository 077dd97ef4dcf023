"""Times single operations by the engine and by eager PyTorch, in turns in one process on one thread.

A case's results are compared before it is timed. In each of the rounds the engine, eager, and a copy of as many bytes
as the case reads and writes have a turn of at least `TURN_S`. Time is the thread's own, so that other processes do not
count. The roof of a case is that copy, which finds its data in the caches in which the case finds its own, or the
multiply-adds at the peak of one core. Only programs of the target cpu are timed.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import engine
import suites
from engine.runtime.report import Profile
from suites.harness.judge import stats
from suites.harness.measure import roofs
from suites.harness.record.launches import Blame, OperationRecord
from suites.harness.record.schema import Speed
from suites.operations import Operation

ROUNDS = 9
TURN_S = 2e-3
CLOSE = 1e-3
"""Of the largest element: how far results may differ. No test of precision: it finds what is computed wrongly."""
CLOSE_NARROW = 2e-2
"""The same of float16 and bfloat16, which eager rounds after every operator."""
LEAST_LAUNCH_S = 2e-5
"""A shorter launch says nothing about the class of its kernel."""
NEAR_ROOF = 0.5
"""A case below this share of its roof is slow, and what is to blame is named."""
COMPILED = 40
"""Cases, the slowest first, that torch.compile is asked for."""

_ROOT = Path(suites.__file__).resolve().parent.parent
"""Records name files of the checkout from here on."""
_NARROW = (torch.float16, torch.bfloat16)


class _Model(nn.Module):
    """A case as a model: fixed operands are buffers, the others arguments."""

    def __init__(self, operation: Operation) -> None:
        super().__init__()
        self._function = operation.function
        self._operands: list[str | None] = []
        self.inputs: list[Tensor] = []
        for number, (operand, is_fixed) in enumerate(operation.make_operands()):
            self._operands.append(f"operand{number}" if is_fixed else None)
            if is_fixed:
                self.register_buffer(f"operand{number}", operand)
            else:
                self.inputs.append(operand)

    def forward(self, *inputs: Tensor) -> Any:
        given = iter(inputs)
        return self._function(*(next(given) if name is None else getattr(self, name) for name in self._operands))


def measure(operation: Operation, config: engine.Config) -> OperationRecord:
    """The line of a case."""
    torch.set_num_threads(1)
    model = _Model(operation).eval()
    facts: dict[str, Any] = {
        "family": operation.family,
        "name": operation.name,
        "operands": list(operation.operands),
    }
    with torch.inference_mode():
        expected = model(*model.inputs)
    try:
        program = engine.compile(model, tuple(model.inputs), config)
        difference = _compare(program(*model.inputs), expected)
        problem = f"wrong: {difference}" if difference else ""
    except engine.EngineError as error:
        problem = f"refused: {' '.join(str(error).split())}".replace(f"{_ROOT}/", "")
    if problem:
        return OperationRecord(**facts, problem=problem)
    report, profile = program.report(), program.profile(*model.inputs, runs=5, roofs=False)
    operands = [*model.buffers(), *model.inputs, *_list_tensors(expected)]
    nbytes = min(report.bytes, sum(x.numel() * x.element_size() for x in operands))
    source = torch.zeros(max(1, nbytes // 2), dtype=torch.uint8)
    target = torch.zeros_like(source)
    calls = [lambda: program(*model.inputs), lambda: model(*model.inputs), lambda: target.copy_(source)]
    ours, eager, copy = _time_rounds(calls)
    has_narrow = any(x.dtype == torch.bfloat16 for x in operands)
    peak = roofs.measure().rate("bf16" if has_narrow else "fp32", 1) or roofs.measure().rate("fp32", 1) or math.inf
    seconds, move, compute = statistics.median(ours), statistics.median(copy), report.flops / peak
    speed, share = _judge(ours, eager), max(move, compute) / seconds
    shares = _list_shares(profile, move / max(1, nbytes), peak)
    return OperationRecord(
        **facts,
        seconds=seconds,
        eager_seconds=statistics.median(eager),
        speed=speed.value,
        speed_low=speed.low,
        speed_high=speed.high,
        flops=report.flops,
        bytes=nbytes,
        bound="compute" if compute > move else "memory",
        roof_share=share,
        blame=_blame(profile, seconds, shares) if share < NEAR_ROOF else None,
        launches=len(profile.nodes),
        kernel=max(profile.nodes, key=lambda node: node.seconds).kernel if profile.nodes else None,
        lapses=_list_lapses(profile, shares),
    )


def add_compiled(operations: Sequence[Operation], lines: Sequence[OperationRecord]) -> list[OperationRecord]:
    """The lines of the cases, those of the slowest with the speed of torch.compile."""
    timed = sorted((line.speed, number) for number, line in enumerate(lines) if line.speed is not None)
    slowest = {number for _, number in timed[:COMPILED]}
    return [
        line.model_copy(update={"compile_speed": _time_compiled(operation)}) if number in slowest else line
        for number, (operation, line) in enumerate(zip(operations, lines, strict=True))
    ]


def _time_compiled(operation: Operation) -> float:
    model = _Model(operation).eval()
    compiled = torch.compile(model)
    theirs, eager = _time_rounds([lambda: compiled(*model.inputs), lambda: model(*model.inputs)])
    return _judge(theirs, eager).value


def _time_rounds(calls: Sequence[Callable[[], Any]]) -> list[list[float]]:
    """Seconds of a call, by round, of each of `calls`."""
    repeats, rounds = [], [[] for _ in calls]  # type: list[int], list[list[float]]
    with torch.inference_mode():
        for call in calls:
            call()
            repeats.append(max(1, math.ceil(TURN_S / max(_time_turn(call, 1), 1e-7))))
        for _ in range(ROUNDS):
            for call, count, seconds in zip(calls, repeats, rounds, strict=True):
                seconds.append(_time_turn(call, count))
    return rounds


def _time_turn(call: Callable[[], Any], count: int) -> float:
    start = time.thread_time()
    for _ in range(count):
        call()
    return (time.thread_time() - start) / count


def _judge(ours: Sequence[float], theirs: Sequence[float]) -> Speed:
    return stats.within_process([math.log(b / a) for a, b in zip(ours, theirs, strict=True)])


def _list_shares(profile: Profile, seconds_a_byte: float, peak: float) -> list[float]:
    """Of the roof, that each launch reaches."""
    return [
        max(node.bytes * seconds_a_byte, node.executed_flops / peak) / max(node.seconds, 1e-9) for node in profile.nodes
    ]


def _list_lapses(profile: Profile, shares: Sequence[float]) -> tuple[str, ...]:
    """Launches below half of the class of their kernel: times vary, and machines differ."""
    promised = {kernel.name: kernel.share for kernel in engine.targets.get("cpu").kernels()}
    return tuple(
        f"{node.kernel}: {share:.1%} of {promised[node.kernel]}%"
        for node, share in zip(profile.nodes, shares, strict=True)
        if node.seconds >= LEAST_LAUNCH_S and 200 * share < promised[node.kernel]
    )


def _blame(profile: Profile, seconds: float, shares: Sequence[float]) -> Blame:
    """What keeps a slow case from its roof.

    The call, if launches take less than half of it. The decomposition, if the launches together are near the roof of
    what they move and compute, which is more than the case needs. Otherwise the kernel.
    """
    spent = sum(node.seconds for node in profile.nodes)
    if spent < seconds / 2:
        return "call"
    least = sum(share * node.seconds for node, share in zip(profile.nodes, shares, strict=True))
    return "decomposition" if least >= NEAR_ROOF * spent else "kernel"


def _list_tensors(results: Any) -> list[Tensor]:
    return [results] if isinstance(results, Tensor) else list(results)


def _compare(ours: Any, theirs: Any) -> str:
    """How results differ; empty if they do not. Integers beside other results are places, which ties may exchange."""
    pairs = list(zip(_list_tensors(ours), _list_tensors(theirs), strict=True))
    for a, b in pairs:
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype} {list(a.shape)}, expected {b.dtype} {list(b.shape)}"
        if not torch.equal(a.isfinite(), b.isfinite()):
            return "other elements are infinite or no numbers"
        if b.is_floating_point() and b.numel():
            finite = torch.where(b.isfinite(), b, 0).double()
            error = (torch.where(b.isfinite(), a, 0).double() - finite).abs().max() / finite.abs().max().clamp(
                min=1e-30
            )
            if not error <= (CLOSE_NARROW if b.dtype in _NARROW else CLOSE):
                return f"error {float(error):.1e} of the largest element"
        elif len(pairs) == 1 and not torch.equal(a, b):
            return f"{int((a != b).sum())} of {b.numel()} elements differ"
    return ""
