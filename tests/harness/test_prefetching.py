"""References are computed while the machine provides what a backend needs once."""

from __future__ import annotations

from threading import Event, Timer

import pytest

from suites.harness.declare.case import Case
from suites.harness.run.references import References
from suites.harness.run.session import WorkerFailed

CASES = [Case("mlp", {"batch": batch}) for batch in (1, 2, 3)]


class Counting(References):
    """Computes nothing, and notes the sizes that it was asked for."""

    def __init__(self, tmp_path):
        super().__init__(tmp_path, 1.0)
        self.sizes = []
        self.began, self.may_end = Event(), Event()

    def _computed(self, case):
        self.sizes.append(case.shape["batch"])
        self.began.set()
        assert self.may_end.wait(10)
        return WorkerFailed("failed", "no reference") if case.shape["batch"] == 2 else ["right"]


def test_all_references_are_computed_while_there_is_time(tmp_path):
    references = Counting(tmp_path)
    references.may_end.set()
    remaining = Event()

    def cases():
        yield from CASES
        remaining.set()

    with references.prefetching(cases()):
        assert remaining.wait(10)
    assert references.get(CASES[0]) == ["right"]
    with pytest.raises(WorkerFailed, match="no reference"):
        references.get(CASES[1])
    assert references.sizes == [1, 2, 3], "each is computed once"


def test_the_reference_in_progress_is_completed_and_no_further_one_begins(tmp_path):
    references = Counting(tmp_path)
    timer = Timer(0.2, references.may_end.set)  # long after the block has ended
    with references.prefetching(iter(CASES)) as finish:
        assert references.began.wait(10)
        timer.start()
        finish()
        assert references.may_end.is_set()
    assert references.sizes == [1]


def test_an_interrupt_does_not_wait_for_a_reference(tmp_path, monkeypatch):
    references = References(tmp_path, 60.0)

    class Stuck:
        """A worker that answers only when it is killed."""

        def __init__(self, *_arguments):
            self.killed = Event()

        def __enter__(self):
            began.set()
            return self

        def __exit__(self, *_arguments):
            pass

        def ask(self, *_arguments, **_keywords):
            assert self.killed.wait(10), "nobody killed it"
            raise WorkerFailed("failed", "killed")

        def kill(self):
            self.killed.set()

    began = Event()
    monkeypatch.setattr("suites.harness.run.references.Worker", Stuck)

    def interrupted():
        with references.prefetching(iter(CASES)):
            assert began.wait(10)
            while references._worker is None:
                pass
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
