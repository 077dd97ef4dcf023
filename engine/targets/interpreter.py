"""The reference semantics: runs every instruction by the NumPy definition of its op. Slow, exact, readable."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.config import Config
from engine.encodings import Stored
from engine.errors import ExecutionError, ProgramError
from engine.graph import elements
from engine.memory import as_array, check_total
from engine.ops import TABLE, TensorType
from engine.program import Artifact
from engine.program.container import StoredTensor
from engine.targets.base import Context, Executable, Observer, Prepared, Summary, Target
from engine.targets.host import HOST


def run(artifact: Artifact, inputs: Sequence[np.ndarray], observe: Observer | None = None) -> list[np.ndarray]:
    """Run the artifact. The outputs are dense and share no memory with the inputs or with each other.

    Inputs have the exact types of the artifact and are never written to. A value is released after the last instruction
    that reads it. ExecutionError if an index is out of range, or an integer is divided by zero; ProgramError if the
    values that exist at the same time take more memory than there is.
    """
    unread = _last_uses(artifact)
    check_total(_peak_bytes(artifact, unread), "a call in the interpreter")
    values = dict(zip(artifact.inputs, inputs, strict=True))
    for position, instruction in enumerate(artifact.instructions):
        _execute(artifact, position, values, observe)
        for value in (*instruction.outputs, *(v for v in instruction.inputs if v is not None)):
            if unread.get(value) == position:
                values.pop(value, None)
    results = (_read(artifact, values, v) for v in artifact.outputs)
    plain = (one.elements() if isinstance(one, Stored) else one for one in results)
    return [np.array(one, order="C", copy=True) for one in plain]


def _last_uses(artifact: Artifact) -> dict[int, int]:
    """For each value except outputs, the position of the last instruction that reads or computes it."""
    uses: dict[int, int] = {}
    for position, instruction in enumerate(artifact.instructions):
        uses |= dict.fromkeys(instruction.outputs, position)
        uses |= {value: position for value in instruction.inputs if value is not None}
    for value in artifact.outputs:
        uses.pop(value, None)
    return uses


def _peak_bytes(artifact: Artifact, unread: dict[int, int]) -> int:
    """Maximum bytes of results that exist at the same time, including the copies that the call returns."""
    types = artifact.types
    live = peak = 0
    for position, instruction in enumerate(artifact.instructions):
        live += sum(types[value].nbytes for value in instruction.outputs)
        peak = max(peak, live)
        made = {v for v in (*instruction.inputs, *instruction.outputs) if v is not None} - {*artifact.inputs}
        done = (value for value in made if unread.get(value) == position and value not in artifact.constants)
        live -= sum(types[value].nbytes for value in done)
    return max(peak, live + sum(types[value].nbytes for value in artifact.outputs))


def _read(artifact: Artifact, values: dict[int, np.ndarray], value: int) -> np.ndarray | Stored:
    """An input, a result or a constant. Constants are not stored in `values`: some are computed at each access."""
    return values[value] if value in values else artifact.stored(value)


def _execute(artifact: Artifact, position: int, values: dict[int, np.ndarray], observe: Observer | None) -> None:
    """Add the results of one instruction to `values`. No local variable of `run` keeps them alive."""
    instruction = artifact.instructions[position]
    operands = [None if v is None else _read(artifact, values, v) for v in instruction.inputs]
    start = time.perf_counter()
    try:
        result = TABLE[instruction.op].evaluate(operands, instruction.attributes)
    except (IndexError, ZeroDivisionError) as e:
        what = str(e).removeprefix(f"{instruction.op}: ")
        raise ExecutionError(f"{instruction.op}{instruction.where}: {what}") from None
    except MemoryError as e:
        raise ProgramError(f"{instruction.op}{instruction.where}: {e}") from None
    seconds = time.perf_counter() - start
    results = list(result) if isinstance(result, tuple) else [result]
    values |= zip(instruction.outputs, results, strict=True)
    if observe is not None:
        inputs = [one.elements() if isinstance(one, Stored) else one for one in operands]
        observe(position, instruction, inputs, results, seconds)


class _Plain(Prepared):
    """Plain constants. Constants that are stored as functions are computed once; borrowed constants are copied."""

    def __init__(self, artifact: Artifact, *, borrowed: bool) -> None:
        for value in artifact.constants:
            form = artifact.constants.form(value)
            array = elements(form)
            if borrowed:
                array = np.asarray(array, order="C")
                owned = array.base is None or isinstance(form, StoredTensor)
                array = array if owned else array.copy()
            artifact.constants.keep(value, array)


class _CallContext(Context):
    def __init__(self, artifact: Artifact, states: Sequence[Any]) -> None:
        self._artifact, self._states = artifact, states

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """As `Context.run`; the run has ended when it returns."""
        results = run(self._artifact, [as_array(value) for value in (*inputs, *self._states)])
        for target, result in zip((*outputs, *self._states), results, strict=True):
            as_array(target)[...] = result


class InterpreterExecutable(Executable):
    """Runs an artifact without binding it."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact

    def context(self, states: Sequence[Any] = ()) -> Context:
        return _CallContext(self._artifact, states)

    def trace(self, inputs: Sequence[Any], states: Sequence[Any], observe: Observer) -> None:
        run(self._artifact, [as_array(value) for value in (*inputs, *states)], observe)

    def summary(self) -> Summary:
        """As `Executable.summary`: a launch is an instruction."""
        return Summary(launches=len(self._artifact.instructions))


class InterpreterTarget(Target):
    """Runs the NumPy definitions of the op table, instruction by instruction."""

    name = "interpreter"
    summary = "the NumPy definition of each op: slow, exact, readable"
    device = HOST

    def supports(self, op: str, inputs: Sequence[TensorType | None], attributes: Mapping[str, Any]) -> str | None:
        """As `Target.supports`: None, because it runs every op, encoding and arithmetic."""
        del op, inputs, attributes
        return None

    def prepare(self, artifact: Artifact, *, borrowed: bool) -> Prepared:
        return _Plain(artifact, borrowed=borrowed)

    def executable(self, artifact: Artifact, config: Config, prepared: Prepared, *, keep: bool = False) -> Executable:
        del config, prepared, keep
        return InterpreterExecutable(artifact)


INTERPRETER = InterpreterTarget()
