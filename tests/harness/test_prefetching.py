"""References are computed while the machine provides what a backend needs once."""

from __future__ import annotations

import pytest

from suites.harness.declare.case import Case
from suites.harness.judge.verify import Reference
from suites.harness.run import references as module
from suites.harness.run.references import References
from suites.harness.run.session import WorkerFailed
from tests import messages

CASES = [Case("mlp", {"batch": batch}) for batch in (1, 2)]


RIGHT = Reference([], [], None, None)


class Scripted:
    """In place of a worker: notes what happens to it; it fails for a batch of two."""

    events: list[str]

    def __init__(self, case, *_arguments):
        self.batch = case.shape["batch"]

    def __enter__(self):
        self.events.append(f"start {self.batch}")
        return self

    def __exit__(self, *_arguments):
        self.events.append(f"close {self.batch}")

    def send(self, command, _timeout, **_arguments):
        assert command == "reference"
        return self._wait

    def _wait(self):
        self.events.append(f"wait {self.batch}")
        if self.batch == 2:
            raise WorkerFailed("failed", "ran out of memory")
        return {"sets": ["right"]}


@pytest.fixture
def events(monkeypatch):
    Scripted.events = []
    monkeypatch.setattr(module, "Worker", Scripted)
    monkeypatch.setattr(module, "_read", lambda _scratch, _one, _rule: RIGHT)
    return Scripted.events


@pytest.fixture
def references(tmp_path):
    return References(tmp_path, 60.0)


def test_the_reference_is_computed_once_while_the_block_runs(events, references):
    with references.prefetching(CASES[0]):
        events.append("block")
    assert references.get(CASES[0]) == [RIGHT]
    assert events == ["start 1", "block", "wait 1", "close 1"]


def test_a_failure_is_raised_by_get_and_not_by_the_block(events, references):
    with references.prefetching(CASES[1]):
        pass
    for _ in range(2):
        with messages.raises(WorkerFailed):
            references.get(CASES[1])
    assert events == ["start 2", "wait 2", "close 2"]


def test_nothing_is_computed_without_a_case_or_where_it_is_known(events, references):
    with references.prefetching(None):
        pass
    assert events == []
    references.get(CASES[0])
    events.clear()
    with references.prefetching(CASES[0]):
        pass
    assert events == []


def test_an_interrupt_ends_the_worker_and_does_not_wait_for_it(events, references):
    def interrupted():
        with references.prefetching(CASES[0]):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert events == ["start 1", "close 1"]
    assert references.get(CASES[0]) == [RIGHT]  # computed anew
    assert events[2:] == ["start 1", "wait 1", "close 1"]


def test_a_real_worker_computes_while_the_caller_does_something_else(references):
    with references.prefetching(CASES[0]):
        pass
    found = references.get(CASES[0])
    assert found
    assert all(one.outputs[0].shape[0] == 1 for one in found)
