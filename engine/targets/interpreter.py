"""The reference semantics: every instruction by the NumPy definition of its op. Slow, exact, readable."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from engine.errors import ExecutionError, ProgramError
from engine.memory import check_total
from engine.ops import TABLE
from engine.program import Artifact, Instruction
from engine.switches import Switch, register

Observer = Callable[[int, Instruction, list["np.ndarray | None"], list[np.ndarray], float], None]


def run(artifact: Artifact, inputs: Sequence[np.ndarray], observe: Observer | None = None) -> list[np.ndarray]:
    """Outputs of the program, dense and sharing no memory with the inputs or with each other.

    Args:
        artifact: the program.
        inputs: one array an artifact input, of its exact type; never written to.
        observe: called after each instruction with (position, instruction, inputs, outputs, seconds).

    Raises:
        ExecutionError: an index is out of range, or an integer is divided by zero; names op and source.
        ProgramError: the values, all of which are kept, take more memory than there is.
    """
    check_total(sum(t.nbytes for t in artifact.types), "a call in the interpreter")
    values: dict[int, np.ndarray] = dict(artifact.constants) | dict(zip(artifact.inputs, inputs, strict=True))
    for position, instruction in enumerate(artifact.instructions):
        operands = [None if v is None else values[v] for v in instruction.inputs]
        start = time.perf_counter()
        try:
            result = TABLE[instruction.op].reference(*operands, **instruction.attributes)
        except (IndexError, ZeroDivisionError) as e:
            what = str(e).removeprefix(f"{instruction.op}: ")
            raise ExecutionError(f"{instruction.op}{instruction.where}: {what}") from None
        except MemoryError as e:
            raise ProgramError(f"{instruction.op}{instruction.where}: {e}") from None
        seconds = time.perf_counter() - start
        results = list(result) if isinstance(result, tuple) else [result]
        values |= zip(instruction.outputs, results, strict=True)
        if observe is not None:
            observe(position, instruction, operands, results, seconds)
    return [np.array(values[v], order="C", copy=True) for v in artifact.outputs]


register(Switch("executor", "interpreter", "off", "the NumPy definitions"))
