"""Runs backends on the data of a task, a process each, and scores what they return. Knows no command.

The float32 model runs in eager in this process, and its outputs are files that the other processes read: the logits of
a text of 256 tokens take up to 50 MB.
"""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suites import backends, models
from suites.accuracy.estimates import Estimate
from suites.accuracy.tasks import PHASES, SIZES, Part, Scores, Task
from suites.backends.base import flatten, to_numpy
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.precision import convert_inputs, convert_model
from suites.harness.errors import Refused
from suites.harness.record.reasons import tidy
from suites.harness.run import checks

if TYPE_CHECKING:
    import torch

    from suites.accuracy.datasets import Dataset

EXACT = ("eager", "fp32")
"""Backend and precision of the row that all others are compared with."""


@dataclass(frozen=True)
class Subject:
    """A backend in a precision, whose outputs are scored.

    Attributes:
        ref: the backend.
        precision: of the case.
        label: how tables name the precision: the precision, or the recipe.
    """

    ref: BackendRef
    precision: str
    label: str

    @property
    def backend(self) -> str:
        """The backend as tables name it; the column of the precision names a recipe."""
        options = {key: value for key, value in self.ref.options.items() if key != "recipe"}
        return BackendRef(self.ref.name, options, self.ref.copy).label


@dataclass(frozen=True)
class Row:
    """The accuracy of one subject.

    Attributes:
        backend: its label.
        precision: as `Subject.label`.
        status: ``ok``, ``failed``, ``unavailable`` or ``not applicable``.
        reason: why it is not ``ok``.
        weight_bytes: that the backend reports; None if it reports none.
        estimates: by the names of the columns of the task; empty unless ``ok``.
        types: element types of the weights of the model as it is built, with which all rows are compared; only in the
            row of `EXACT`.
    """

    backend: str
    precision: str
    status: str
    reason: str | None
    weight_bytes: int | None
    estimates: Mapping[str, Estimate]
    types: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON-able values."""
        plain = {name: getattr(self, name) for name in ("backend", "precision", "status", "reason", "weight_bytes")}
        return {**plain, "estimates": {name: one.to_dict() for name, one in self.estimates.items()}}


@dataclass(frozen=True)
class _Request:
    """What a process of a backend needs; it can be pickled."""

    model: str
    subject: Subject
    threads: int
    task: Task
    parts: tuple[Part, ...]
    folder: Path


class Failed(Exception):
    """A backend could not be scored.

    Attributes:
        status: of the row.
        reason: of the row.
    """

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(status, reason)  # both, so that the exception can be pickled
        self.status = status
        self.reason = reason


def evaluate(
    model: str, dataset: Dataset, subjects: Sequence[Subject], threads: int, progress: Callable[[str], None]
) -> Iterator[Row]:
    """Yield the row of each subject, the first one for eager in float32, with which all are compared.

    Args:
        model: a name that `suites.models` knows.
        dataset: its task and inputs.
        subjects: what to score.
        threads: of each backend.
        progress: called with a line before each subject.
    """
    import torch

    task, parts = dataset.task, tuple(dataset.parts)
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory(prefix="enginebench_accuracy_") as name:
        folder = Path(name)
        progress("eager, fp32: the outputs that all are compared with")
        try:
            exact, size, types = _score_exact(model, task, parts, folder)
        except Failed as error:
            reason = f"the reference model, with which all are compared, {error.reason}"
            yield from (Row(*labels, "failed", reason, None, {}) for labels in (EXACT, *map(_labels, subjects)))
            return
        yield Row(*EXACT, "ok", None, size, task.summarise(exact, exact), types)
        for subject in subjects:
            progress(f"{subject.backend}, {subject.label}")
            request = _Request(model, subject, threads, task, parts, folder)
            try:
                scores, weight_bytes = _run_apart(request)
            except Failed as error:
                yield Row(*_labels(subject), error.status, error.reason, None, {})
            else:
                yield Row(*_labels(subject), "ok", None, weight_bytes, task.summarise(scores, exact))


def _labels(subject: Subject) -> tuple[str, str]:
    """The backend and the precision of a row."""
    return subject.backend, subject.label


def _score_exact(model: str, task: Task, parts: Sequence[Part], folder: Path) -> tuple[Scores, int, tuple[str, ...]]:
    """Write the outputs of eager in float32. Returns their scores, the bytes of the weights and their element types.
    Raises Failed.
    """
    found: list[Scores] = []
    size, types = 0, tuple[str, ...]()
    for part in parts:
        module, _ = models.get(model).build(**part.arguments)
        size = sum(tensor.nbytes for tensor in {*module.parameters(), *module.buffers()})
        types = list_types(module)
        for inputs in part.chunks:
            outputs = _call_exact(module, inputs)
            arrays = {str(number): to_numpy(output) for number, output in outputs.items()}
            np.savez(_path(folder, len(found)), **arrays)  # type: ignore[arg-type]  # mypy takes the arrays for the keyword `allow_pickle`
            scored = list(outputs.values())
            found.append(task.score_outputs(len(found), inputs, scored, scored))
    return join(found), size, types


def list_types(module: torch.nn.Module) -> tuple[str, ...]:
    """The floating-point element types of the parameters of a model, such as ``("float32",)``."""
    found = dict.fromkeys(str(tensor.dtype) for tensor in module.parameters() if tensor.is_floating_point())
    return tuple(name.removeprefix("torch.") for name in found)


def select_scored(outputs: Sequence[torch.Tensor]) -> list[int]:
    """The positions of the outputs that are scored: those of floats that have elements, or the first, if none has."""
    chosen = [n for n, output in enumerate(outputs) if output.is_floating_point() and output.numel()]
    return chosen or [0]


def _call_exact(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
    """Call the float32 model and return its scored outputs by position. Raises Failed if `find_fault` finds a fault."""
    import torch

    try:
        with torch.inference_mode():
            outputs = flatten(module(*inputs))
    except Exception as error:  # noqa: BLE001  # whatever a user's model raises is the reason of the rows
        raise Failed("failed", f"raises {tidy(f'{type(error).__name__}: {error}')}") from None
    if fault := find_fault(outputs):
        raise Failed("failed", fault)
    return {number: outputs[number].float() for number in select_scored(outputs)}


def find_fault(outputs: Sequence[torch.Tensor]) -> str | None:
    """Why these outputs of a model cannot be a reference; None if they can."""
    if not outputs:
        return "returns no tensor"
    scored = [outputs[number] for number in select_scored(outputs)]
    if any(output.numel() == 0 for output in scored):
        return "has outputs without elements, so nothing can be verified; choose larger sizes"
    return None if all(output.isfinite().all() for output in scored) else "has outputs that are not finite"


def strip_phase(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a model without `PHASES`."""
    return {key: value for key, value in options.items() if key not in PHASES}


def join(scores: Sequence[Scores]) -> Scores:
    """The scores of several chunks as those of one."""
    return {name: np.concatenate([one[name] for one in scores]) for name in scores[0]}


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number}.npz"


def read_exact(folder: Path, number: int) -> dict[int, torch.Tensor]:
    """The scored outputs of eager in float32 for a chunk, by position."""
    import torch

    with np.load(_path(folder, number)) as arrays:
        return {int(name): torch.from_numpy(arrays[name]) for name in arrays.files}


def _run_apart(request: _Request) -> tuple[Scores, int | None]:
    """`_run` in a process of its own, which an interrupt ends. Raises Failed."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            with _blocked_interrupts():
                scores = pool.submit(_run, request)
            return scores.result()
        except BrokenProcessPool:
            raise Failed("failed", "the process of the backend ended") from None
        except KeyboardInterrupt:
            for process in multiprocessing.active_children():  # the pool would wait for its result
                process.kill()
            raise


@contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """A process that starts in this block does not see Ctrl-C, at which it would print a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(request: _Request) -> tuple[Scores, int | None]:
    """Scores of all chunks, and the bytes of the weights if the backend reports them. Raises Failed."""
    try:
        return _score(request)
    except Failed:
        raise
    except Refused as error:
        raise Failed(error.status, tidy(str(error))) from None
    except Exception as error:  # noqa: BLE001  # whatever a backend raises is the reason of its row
        raise Failed("failed", tidy(f"{type(error).__name__}: {error}")) from None


def _score(request: _Request) -> tuple[Scores, int | None]:
    import torch

    subject = request.subject
    spec = models.get(request.model)
    reason = backends.unavailable(subject.ref) or backends.cannot_run(subject.ref, spec.form)
    if reason is not None:
        raise Failed("unavailable", reason)
    made = backends.load(subject.ref)
    found: list[Scores] = []
    weight_bytes = None
    for part in request.parts:
        shape = {key: value for key, value in part.arguments.items() if key in SIZES}
        options = {key: value for key, value in part.arguments.items() if key not in SIZES}
        case = Case(request.model, shape, request.threads, subject.precision, options)
        reason = backends.unable(subject.ref, case, made) or checks.cannot_convert(spec, subject.precision)
        if reason is not None:
            raise Failed("unavailable", reason)
        backend = made(request.threads, dict(subject.ref.options))
        backend.precision = subject.precision
        backend.load()
        module = convert_model(spec.build(**part.arguments)[0], subject.precision)
        chunks = [convert_inputs(one, subject.precision) for one in part.chunks]
        prepared = backend.prepare(module, chunks[0])
        for inputs in chunks:
            with torch.inference_mode():
                outputs = flatten(prepared.call(*inputs))
            exact = read_exact(request.folder, len(found))
            if len(outputs) <= max(exact):
                raise Failed("failed", f"it returns {len(outputs)} tensor(s), fewer than the reference model")
            scored = [outputs[number].float() for number in exact]
            if not all(output.isfinite().all() for output in scored):
                raise Failed("failed", "its outputs are not finite, although those of the reference model are")
            found.append(request.task.score_outputs(len(found), inputs, scored, list(exact.values())))
        weight_bytes = prepared.facts.get("weight_bytes")
    return join(found), weight_bytes
