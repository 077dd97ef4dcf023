"""Reference outputs in the parent: computed once for all cases that share them, by a worker that ends with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.processors import count_processors
from suites.harness.declare.case import Case
from suites.harness.declare.device import CPU
from suites.harness.declare.precision import choose_rule
from suites.harness.judge import verify
from suites.harness.judge.verify import Reference
from suites.harness.record import outputs
from suites.harness.run.session import Worker, WorkerFailed, scratch_folder
from suites.models import INPUT_SETS

_AMPLIFIES = "the model amplifies rounding, so all backends are compared with the model that is not quantised"


class References:
    """The right outputs of cases. Cases of one device that differ only in threads and switches share them.

    Args:
        folder: scratch of the run.
        timeout: seconds that one computation may take.
    """

    def __init__(self, folder: Path, timeout: float) -> None:
        self._folder = folder
        self._timeout = timeout
        self._known: dict[tuple[str, str], list[Reference] | WorkerFailed] = {}

    def get(self, case: Case) -> list[Reference]:
        """One reference an input set; WorkerFailed (also the second time) where it could not be computed."""
        with self.prefetching(case):
            pass
        known = self._known[_key(case)]
        if isinstance(known, WorkerFailed):
            raise known
        return known

    @contextmanager
    def prefetching(self, case: Case | None) -> Iterator[None]:
        """Compute the reference of `case` while the block runs; nothing for None or where it is known.

        If the block raises, the reference is lost. `get` raises WorkerFailed where the reference could not be computed;
        this does not.
        """
        if case is None or _key(case) in self._known:
            yield
            return
        scratch = scratch_folder(self._folder, f"reference_{len(self._known)}")
        # A case of a device has few threads, which only feed it. What is computed on processors may use all of them.
        worked = case if case.device == CPU else replace(case, threads=count_processors())
        with Worker(worked, None, scratch, scratch) as worker:
            wait = worker.send("reference", self._timeout, seeds=INPUT_SETS)
            yield
            self._known[_key(case)] = _receive(case, scratch, wait)


def _key(case: Case) -> tuple[str, str]:
    return case.computation, case.device


def _receive(case: Case, scratch: Path, wait: Callable[[], Mapping[str, Any]]) -> list[Reference] | WorkerFailed:
    """The references that a worker has written to `scratch` when `wait` returns."""
    try:
        sets = wait()["sets"]
    except WorkerFailed as failure:
        return WorkerFailed(failure.status, f"no reference: {failure.reason.removeprefix('reference: ')}")
    rule = choose_rule(case.precision, case.recipe)
    found = [_read(scratch, answer, rule) for answer in sets]
    if not verify.amplifies(found):
        return found
    return [replace(one, note="; ".join(filter(None, (one.note, _AMPLIFIES)))) for one in found]


def _read(scratch: Path, answer: Mapping[str, Any], rule: str) -> Reference:
    """What the worker of references wrote for one input set."""
    exact, dtypes = outputs.read(scratch / answer["reference"])
    plain, unfused = (
        None if answer[name] is None else outputs.read(scratch / answer[name])[0] for name in ("unquantised", "unfused")
    )
    state, size = tuple(answer["state"]), answer["weight_bytes"]
    return Reference(exact, dtypes, answer["eager_errors"], answer["note"], rule, plain, state, size, unfused)
