"""Starts the kernels of a program: one after the other, or as one CUDA graph.

A graph is captured once for each context, because starting a kernel from Python takes longer than a small kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from engine.errors import ExecutionError
from engine.targets.triton.device import is_interpreted


class Start(NamedTuple):
    """One start of a kernel, with addresses; `name` is that of the step, for messages."""

    function: Any
    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    options: Mapping[str, int]
    name: str

    def __call__(self) -> None:
        """Enqueue it on the current stream."""
        self.function[self.grid](**self.arguments, **self.options)

    def compile(self) -> None:
        """Compile the kernel and load it, which must not happen while a graph is captured."""
        compiled = self.function.warmup(**self.arguments, grid=self.grid, **self.options)
        compiled._init_handles()  # noqa: SLF001  # Triton loads a kernel at its first start otherwise


def compile_all(starts: Sequence[Start]) -> None:
    """Compile and load the kernels, unless they are interpreted; ExecutionError if the device cannot take one."""
    if is_interpreted():
        return
    for start in starts:
        try:
            start.compile()
        except Exception as error:  # Triton raises errors of many classes
            raise ExecutionError(f"{start.name}: its kernel cannot be compiled: {error}") from error


def run_in_order(starts: Sequence[Start]) -> Callable[[], None]:
    """What starts the kernels one after the other."""

    def run() -> None:
        for start in starts:
            start()

    return run


def capture(starts: Sequence[Start], place: str) -> Callable[[], None]:
    """What launches the kernels as one CUDA graph on the current stream; RuntimeError if CUDA reports an error then.

    ExecutionError if a kernel cannot be compiled for the device, or the graph cannot be captured.
    """
    import torch

    with torch.cuda.device(place):
        compile_all(starts)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                run_in_order(starts)()
        except RuntimeError as error:
            raise ExecutionError(f"the CUDA graph cannot be captured: {error}") from error

    replay: Callable[[], None] = graph.replay
    return replay
