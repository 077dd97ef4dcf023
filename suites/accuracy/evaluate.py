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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suites import backends, models
from suites.accuracy.estimates import Estimate
from suites.accuracy.tasks import PHASES, SIZES, Part, Scores, Task
from suites.backends.base import flatten, to_numpy
from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.precision import convert_inputs, convert_model
from suites.harness.errors import Refused, Unavailable
from suites.harness.record.reasons import tidy
from suites.harness.run import checks

if TYPE_CHECKING:
    import torch

    from suites.accuracy.datasets import Dataset

EXACT = ("eager", "fp32")
"""Backend and precision of the row that all others are compared with."""


@dataclass(frozen=True)
class Subject:
    """A backend in a precision, whose outputs are scored."""

    ref: BackendRef
    precision: str


@dataclass(frozen=True)
class Row:
    """The accuracy of one subject; `estimates`, by the columns of the task, are empty unless its status is ``ok``."""

    backend: str
    precision: str
    status: str
    reason: str | None
    weight_bytes: int | None
    estimates: Mapping[str, Estimate]


_Outcome = tuple[str, str | None, Scores, int | None]
"""Status, reason, scores of all chunks, and the bytes of the weights if the backend reports them."""


def evaluate(
    model: str, dataset: Dataset, subjects: Sequence[Subject], threads: int, progress: Callable[[str], None]
) -> Iterator[Row]:
    """Yield the row of each subject, the first one for eager in float32, with which all are compared.

    `progress` is called with a line before each subject.
    """
    import torch

    task, parts = dataset.task, tuple(dataset.parts)
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory(prefix="enginebench_accuracy_") as name:
        folder = Path(name)
        progress("eager, fp32: the outputs that all are compared with")
        status, reason, exact, size = _try(_score_exact, model, task, parts, folder)
        if status != "ok":
            reason = f"the reference model, with which all are compared: {reason}"
            for labels in (EXACT, *((one.ref.label, one.precision) for one in subjects)):
                yield Row(*labels, status, reason, None, {})
            return
        yield Row(*EXACT, "ok", None, size, task.summarise(exact, exact))
        for subject in subjects:
            progress(f"{subject.ref.label}, {subject.precision}")
            status, reason, scores, size = _run_apart(model, subject, threads, task, parts, folder)
            found = task.summarise(scores, exact) if status == "ok" else {}
            yield Row(subject.ref.label, subject.precision, status, reason, size, found)


def _try(score: Callable[..., tuple[Scores, int | None]], *arguments: Any) -> _Outcome:
    try:
        return "ok", None, *score(*arguments)
    except Refused as error:
        return error.status, tidy(str(error)), {}, None
    except Exception as error:  # noqa: BLE001  # whatever a model or a backend raises is the reason of its row
        return "failed", tidy(f"{type(error).__name__}: {error}"), {}, None


def _score_exact(model: str, task: Task, parts: Sequence[Part], folder: Path) -> tuple[Scores, int]:
    """Write the outputs of eager in float32. Returns their scores and the bytes of the weights."""
    import torch

    found: list[Scores] = []
    size = 0
    for part in parts:
        module, _ = models.get(model).build(**part.arguments)
        size = sum(tensor.nbytes for tensor in {*module.parameters(), *module.buffers()})
        for inputs in part.chunks:
            with torch.inference_mode():
                outputs = select_scored(flatten(module(*inputs)))
            arrays = {str(number): to_numpy(output) for number, output in outputs.items()}
            np.savez(folder / f"{len(found)}.npz", **arrays)  # type: ignore[arg-type]  # mypy takes the arrays for the keyword `allow_pickle`
            scored = list(outputs.values())
            found.append(task.score_outputs(len(found), inputs, scored, scored))
    return join(found), size


def select_scored(outputs: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
    """The outputs that are scored, by position and in float32: those of floats.

    Raises:
        Refused: there are none, or they are not finite.
    """
    found = {n: output.float() for n, output in enumerate(outputs) if output.is_floating_point() and output.numel()}
    if not found:
        raise Refused("it returns no floating-point numbers to compare")
    if not all(output.isfinite().all() for output in found.values()):
        raise Refused("it returns numbers that are not finite")
    return found


def strip_phase(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a model without `PHASES`."""
    return {key: value for key, value in options.items() if key not in PHASES}


def join(scores: Sequence[Scores]) -> Scores:
    """The scores of several chunks as those of one."""
    return {name: np.concatenate([one[name] for one in scores]) for name in scores[0]}


def read_exact(folder: Path, number: int) -> dict[int, torch.Tensor]:
    """The scored outputs of eager in float32 for a chunk, by position."""
    import torch

    with np.load(folder / f"{number}.npz") as arrays:
        return {int(name): torch.from_numpy(arrays[name]) for name in arrays.files}


def _run_apart(*arguments: Any) -> _Outcome:
    """`_score` in a process of its own, which an interrupt ends."""
    context = multiprocessing.get_context("spawn")
    ignore = (signal.SIGINT, signal.SIG_IGN)  # at Ctrl-C the process would print a traceback
    with ProcessPoolExecutor(1, context, signal.signal, ignore) as pool:
        try:
            return pool.submit(_try, _score, *arguments).result()
        except BrokenProcessPool:
            return "failed", "the process of the backend ended", {}, None
        except KeyboardInterrupt:
            for process in multiprocessing.active_children():  # the pool would wait for its result
                process.kill()
            raise


def _score(
    model: str, subject: Subject, threads: int, task: Task, parts: Sequence[Part], folder: Path
) -> tuple[Scores, int | None]:
    """Compare a backend with the outputs that `_score_exact` has written to `folder`."""
    import torch

    spec = models.get(model)
    reason = backends.unavailable(subject.ref) or backends.cannot_run(subject.ref, spec.form)
    if reason is not None:
        raise Unavailable(reason)
    made = backends.load(subject.ref)
    found: list[Scores] = []
    weight_bytes = None
    for part in parts:
        shape = {key: value for key, value in part.arguments.items() if key in SIZES}
        options = {key: value for key, value in part.arguments.items() if key not in SIZES}
        case = Case(model, shape, threads, subject.precision, options)
        reason = backends.unable(subject.ref, case, made) or checks.cannot_convert(spec, subject.precision)
        if reason is not None:
            raise Unavailable(reason)
        backend = made(threads, dict(subject.ref.options))
        backend.precision = subject.precision
        backend.calibration = partial(spec.calibration, **part.arguments)
        backend.load()
        module = convert_model(spec.build(**part.arguments)[0], subject.precision)
        chunks = [convert_inputs(one, subject.precision) for one in part.chunks]
        prepared = backend.prepare(module, chunks[0])
        for inputs in chunks:
            with torch.inference_mode():
                outputs = flatten(prepared.call(*inputs))
            exact = read_exact(folder, len(found))
            scored = select_scored([outputs[number] for number in exact])
            found.append(task.score_outputs(len(found), inputs, list(scored.values()), list(exact.values())))
        weight_bytes = prepared.facts.get("weight_bytes")
    return join(found), weight_bytes
