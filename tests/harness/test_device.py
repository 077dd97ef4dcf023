"""Devices, by a fake one that is asynchronous: timing waits for it, the parent stops others by it, it may disappear."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from suites.harness.declare import spec
from suites.harness.declare.case import BackendRef, Case
from suites.harness.errors import Refused, UsageError
from suites.harness.measure import device, job
from suites.harness.measure.job import Job
from suites.harness.record import store
from suites.harness.record.invocation import Invocation
from suites.harness.record.schema import Samples, Summary
from suites.harness.run import plan, reporter, runner
from tests import messages
from tests.harness import fake_queue
from tests.harness.fake_device import GONE

HERE = Path(__file__).parent
DEVICE, BACKENDS = HERE / "fake_device.py", HERE / "fake_precisions.py"
EAGER_REFUSES = "eager does fp32, bf16, fp16 on cpu, cuda; the case asks for fp32 on fake_device.py:Asynchronous"


def case_on(name):
    return Case("mlp", {"batch": 2}, options={"widths": "16-16"}, device=f"{DEVICE}:{name}")


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """Makes a job on a fake device whose work moves the only clock that there is."""
    clock = SimpleNamespace(
        perf_counter=fake_queue.now, get_clock_info=lambda _: SimpleNamespace(resolution=1e-9), sleep=None
    )
    monkeypatch.setattr(job, "time", clock)

    def make(name, backend="Queued"):
        made = Job(case_on(name), BackendRef(f"{BACKENDS}:{backend}"), tmp_path)
        made.load()
        made.prepare()
        made.verify()
        return made

    return make


def test_a_sample_lasts_until_the_device_is_done(prepared):
    made = prepared("Asynchronous")
    assert made.warm()["steady"]
    assert made.sample(3)["seconds"] == pytest.approx([fake_queue.CALL_S] * 3)
    assert not fake_queue.PENDING


def test_without_waiting_a_sample_would_be_too_short(prepared):
    made = prepared("Impatient")
    assert made._time(0, 4) == 0.0
    assert len(fake_queue.PENDING) == 4, "the work is still to be done"
    fake_queue.finish()


def test_work_of_before_is_not_part_of_a_sample(prepared):
    made = prepared("Asynchronous")
    fake_queue.launch(lambda: None, 0)
    assert made._time(0, 1) == pytest.approx(fake_queue.CALL_S)


def test_peak_memory_is_the_devices(prepared):
    made = prepared("Asynchronous")
    assert made.warm()["peak_rss_bytes"] == fake_queue.used_bytes() > 0


def test_one_that_ignores_the_device_is_refused(prepared):
    with messages.raises(Refused):
        prepared("Asynchronous", "IgnoresDevice")


def test_results_that_lie_elsewhere_are_refused(prepared):
    with messages.raises(TypeError):
        prepared("Asynchronous", "Away")


def test_a_device_of_a_user_names_no_folder_in_the_id():
    assert case_on("Asynchronous").id == "mlp/b2/t1/fp32/widths=16-16/device=fake_device.py:Asynchronous"


def test_a_file_without_the_class_is_told():
    with messages.raises(UsageError):
        device.load(f"{DEVICE}:Gpu")
    with messages.raises(UsageError):
        device.load("cpuu")


SUITE = f"""
name = "devices"
backends = ["{BACKENDS}:Queued", "{BACKENDS}:IgnoresDevice", "eager"]
baseline = "{BACKENDS}:Queued"
device = ["{DEVICE}:Asynchronous", "cpu"]
rounds = 3
samples_per_round = 1
generation_budget_s = 60.0
[[models]]
name = "mlp"
options = {{ widths = "16-16" }}
"""


def rows_of(outcome):
    return {(line.device, line.backend.rpartition(":")[2]): line for line in outcome.summaries}


def test_the_parent_asks_the_device(tmp_path):
    fake_queue.LOG.clear()
    found = runner.run(plan.make(spec.parse(SUITE, "devices.toml")), tmp_path, reporter.Reporter())
    rows = rows_of(found)
    on_fake, on_cpu = "fake_device.py:Asynchronous", "cpu"
    assert {rows[place, "Queued"].status for place in (on_fake, on_cpu)} == {"ok"}
    assert rows[on_fake, "IgnoresDevice"].reason.startswith("prepared for fp32 on cpu")
    assert rows[on_cpu, "IgnoresDevice"].status == "ok"
    assert rows[on_fake, "eager"].reason == EAGER_REFUSES
    assert set(found.environment.devices) == {on_fake, on_cpu}
    samples = store.read(found.path).of(Samples)
    assert {line.device for line in samples} == {on_fake, on_cpu}
    assert all((line.device == on_fake) == line.case.endswith(f"/device={on_fake}") for line in samples)
    assert found.environment.devices[on_fake] == {"model": "a fake", "memory_bytes": 64}
    done = [entry[0] for entry in fake_queue.LOG]
    assert done.count("read") >= 6, "once a round"
    assert done.count("stop") >= done.count("go on") > 6
    for (before, *one), (after, *other) in zip(fake_queue.LOG, fake_queue.LOG[1:], strict=False):
        if (before, after) == ("go on", "go on"):
            assert one != other, "all wake only in company"


class Disappearing(reporter.Reporter):
    """Takes the device away in the second round, and interrupts the run in the case after it."""

    def __init__(self, flag, interrupts=True):
        super().__init__()
        self._flag = flag
        self._interrupts = interrupts
        self.begun_with = None

    def start(self, units, text, done=0):
        self.begun_with = (units, done)

    def doing(self, what):
        if "device=" in what and "round 2" in what:
            self._flag.touch()
        if "device=" not in what and "round 2" in what and self._interrupts:
            raise KeyboardInterrupt


@pytest.mark.long
def test_a_device_that_disappears_fails_its_rows_and_the_run_goes_on(tmp_path, monkeypatch):
    flag = tmp_path / "gone"
    monkeypatch.setenv(GONE, str(flag))
    suite = spec.parse(SUITE, "devices.toml").model_copy(update={"backends": [f"{BACKENDS}:Queued"]})
    made = plan.make(suite)
    with pytest.raises(runner.Interrupted) as caught:
        runner.run(made, tmp_path, Disappearing(flag))
    stored = {line.backend.rpartition(":")[2]: line for line in store.read(caught.value.path).of(Summary)}
    assert stored["Queued"].status == "failed"
    assert "lost the device" in stored["Queued"].reason
    listener = Disappearing(flag, interrupts=False)
    invocation = Invocation(earlier=[store.read(caught.value.path)])
    found = runner.run(made, tmp_path, listener, invocation=invocation)
    assert listener.begun_with == (made.units(), made.workers(*made.cases[0])), "the first case was finished before"
    assert found.path == caught.value.path
    rows = rows_of(found)
    assert rows["fake_device.py:Asynchronous", "Queued"].status == "failed"
    assert rows["cpu", "Queued"].status == "ok"
    alone = plan.make(suite.model_copy(update={"device": [f"{DEVICE}:Asynchronous"]}))
    again = runner.run(alone, tmp_path / "later", reporter.Reporter())
    assert rows_of(again)["fake_device.py:Asynchronous", "Queued"].reason == "the device has disappeared"
    assert rows_of(again)["fake_device.py:Asynchronous", "Queued"].status == "unavailable"
    assert again.environment.devices["fake_device.py:Asynchronous"] == {"unavailable": "the device has disappeared"}
