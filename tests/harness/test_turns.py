"""How many samples a turn has, and which backends are prepared first."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from suites.harness.declare.case import BackendRef, Case
from suites.harness.declare.spec import of_model
from suites.harness.run import casework
from suites.harness.run.reporter import Reporter


@pytest.mark.parametrize(
    ("sample_s", "count"),
    [([0.001], 3), ([0.001, 0.09], 3), ([0.001, 0.14], 2), ([0.16, 0.001], 1), ([4.0], 1), ([], 3), ([0.0], 3)],
)
def test_the_slowest_backend_decides_how_many_samples_fit(sample_s, count):
    assert casework._count_samples(3, sample_s) == count


def test_a_suite_that_wants_one_sample_gets_one():
    assert casework._count_samples(1, [0.001]) == 1


def group(tmp_path, *labels):
    case = Case("mlp", {"batch": 1})
    refs = [BackendRef.parse(label) for label in labels]
    work = casework.CaseWork(case, refs, of_model("mlp", {}, backends=labels), tmp_path, tmp_path, None, None)
    return work, [[casework.Entry(ref, work._empty_samples(ref, 0))] for ref in refs]


def test_the_backend_that_compiles_cplusplus_is_prepared_first_and_later_the_slowest_one(tmp_path):
    work, groups = group(tmp_path, "eager", "torch_compile", "engine")

    def order():
        return [one[0].ref.label for one in sorted(groups, key=work._expect_seconds, reverse=True)]

    assert order() == ["torch_compile", "eager", "engine"]
    work._preparation_s = {"eager": 1.0, "torch_compile": 2.0, "engine": 3.0}
    assert order() == ["engine", "torch_compile", "eager"]


class FakeDevice:
    """Notes which workers are stopped."""

    def __init__(self):
        self.stopped = set()

    def stop(self, group):
        self.stopped.add(group)

    def resume(self, group):
        self.stopped.discard(group)


class FakeWorker:
    """Answers every command, and notes who was stopped meanwhile."""

    def __init__(self, pid, device, scratch):
        self.pid, self.scratch, self._device = pid, scratch, device
        self.stopped_during = {}

    def ask(self, command, _timeout, **_arguments):
        self.stopped_during[command] = set(self._device.stopped)
        return {"files": [], "suspects": []}

    def close(self):
        pass


@pytest.mark.parametrize(("has_one_lane", "stopped"), [(True, {2}), (False, set())])
def test_backends_that_need_all_processors_are_verified_while_the_others_are_stopped(
    tmp_path, monkeypatch, has_one_lane, stopped
):
    work, groups = group(tmp_path, "eager", "engine")
    entries = [entry for one in groups for entry in one]
    device = FakeDevice()
    work._device, work._lanes, work._reporter = device, [[]] if has_one_lane else [[], []], Reporter()
    for pid, entry in enumerate(entries, 1):
        entry.worker, entry.references = FakeWorker(pid, device, tmp_path), [SimpleNamespace(state=())]
    monkeypatch.setattr(work, "_judge", lambda *_arguments: None)
    monkeypatch.setattr(work, "_check", lambda *_arguments: None)
    work._prepare(entries[0], entries[0].worker, 0, entries)
    seen = entries[0].worker.stopped_during
    assert (seen["prepare"], seen["verify"], seen["soak"]) == (set(), stopped, stopped)
    assert not device.stopped
