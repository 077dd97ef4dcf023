"""References are computed while the machine provides what a backend needs once."""

from __future__ import annotations

from threading import Event, Timer

import pytest

from suites.harness.declare.case import Case
from suites.harness.run.references import References
from suites.harness.run.session import WorkerFailed

CASES = [Case("mlp", {"batch": batch}) for batch in (1, 2)]


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


def test_the_reference_is_computed_once_while_the_block_runs(tmp_path):
    references = Counting(tmp_path)
    references.may_end.set()
    with references.prefetching(CASES[0]):
        assert references.began.wait(10)
    assert references.get(CASES[0]) == ["right"]
    assert references.sizes == [1]


def test_a_failure_is_raised_by_get_and_not_by_the_block(tmp_path):
    references = Counting(tmp_path)
    references.may_end.set()
    with references.prefetching(CASES[1]) as finish:
        finish()
    with pytest.raises(WorkerFailed, match="no reference"):
        references.get(CASES[1])


def test_finishing_waits_for_the_reference(tmp_path):
    references = Counting(tmp_path)
    timer = Timer(0.2, references.may_end.set)  # long after the block has begun
    with references.prefetching(CASES[0]) as finish:
        assert references.began.wait(10)
        timer.start()
        finish()
        assert references.may_end.is_set()


def test_nothing_is_computed_without_a_case(tmp_path):
    references = Counting(tmp_path)
    with references.prefetching(None) as finish:
        finish()
    assert references.sizes == []


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
        with references.prefetching(CASES[0]):
            assert began.wait(10)
            while references._worker is None:
                pass
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
