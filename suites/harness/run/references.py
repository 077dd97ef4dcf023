"""Reference outputs in the parent: computed once for all cases that share them, by a worker that ends with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

from suites.harness.declare.case import Case
from suites.harness.declare.precision import PRECISIONS
from suites.harness.judge.verify import Reference
from suites.harness.measure.job import INPUT_SETS
from suites.harness.record import outputs
from suites.harness.run.session import Worker, WorkerFailed, scratch_folder


class References:
    """The right outputs of cases. Cases that differ only in threads and switches share them.

    Args:
        folder: scratch of the run.
        timeout: seconds that one computation may take.
    """

    def __init__(self, folder: Path, timeout: float) -> None:
        self._folder = folder
        self._timeout = timeout
        self._known: dict[str, list[Reference] | WorkerFailed] = {}
        self._worker: Worker | None = None

    def get(self, case: Case) -> list[Reference]:
        """One reference an input set; WorkerFailed (also the second time) where it could not be computed."""
        key = case.computation
        if key not in self._known:
            self._known[key] = self._computed(case)
        found = self._known[key]
        if isinstance(found, WorkerFailed):
            raise found
        return found

    @contextmanager
    def prefetching(self, case: Case | None) -> Iterator[Callable[[], None]]:
        """Compute the reference of `case` while the block runs; nothing for None.

        Yields a function that waits for it. If the block raises, the reference is lost.
        """

        def prefetch() -> None:
            if case is not None:
                with suppress(WorkerFailed):  # `get` raises it again
                    self.get(case)

        thread = Thread(target=prefetch)
        thread.start()
        try:
            yield thread.join
        except BaseException:
            if self._worker is not None:
                self._worker.kill()
            raise
        finally:
            thread.join()

    def _computed(self, case: Case) -> list[Reference] | WorkerFailed:
        scratch = scratch_folder(self._folder, f"reference_{len(self._known)}")
        try:
            with Worker(case, None, scratch, scratch) as self._worker:
                sets = self._worker.ask("reference", self._timeout, seeds=INPUT_SETS)["sets"]
        except WorkerFailed as failure:
            return WorkerFailed(failure.status, f"no reference: {failure.reason}")
        return [_read(scratch, one, PRECISIONS[case.precision].rule) for one in sets]


def _read(scratch: Path, told: Mapping[str, Any], rule: str) -> Reference:
    """What the worker of references wrote for one input set."""
    exact, dtypes = outputs.read(scratch / told["file"])
    plain = None if told["unquantised"] is None else outputs.read(scratch / told["unquantised"])[0]
    state = tuple(told["state"])
    return Reference(exact, dtypes, told["eager_errors"], told["note"], rule, plain, state, told["weight_bytes"])
