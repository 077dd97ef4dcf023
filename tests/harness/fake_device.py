"""Devices that suites name by file: asynchronous, with a clock of their own, and able to disappear."""

from __future__ import annotations

import os
from pathlib import Path

from suites.harness.measure.contention import Used
from suites.harness.measure.device import Device
from tests.harness import fake_queue

GONE = "ENGINEBENCH_TEST_DEVICE_GONE"
"""Environment variable with the path of a file that exists when the device has disappeared."""


class Quiet:
    def read(self):
        fake_queue.LOG.append(("read",))
        return Used(1.0)


class Asynchronous(Device):
    """Calls return at once; the work is done when somebody waits for it."""

    def unavailable(self):
        return "the device has disappeared" if self._gone() else None

    def facts(self):
        return {"model": "a fake", "memory_bytes": 64}

    def stop(self, group):
        fake_queue.LOG.append(("stop", group))
        super().stop(group)

    def resume(self, group):
        fake_queue.LOG.append(("go on", group))
        super().resume(group)

    def watch(self, own):
        return Quiet()

    def place_model(self, model):
        return model

    def place(self, tensors):
        self._check()
        return tuple(tensor.clone() for tensor in tensors)

    def has(self, tensor):
        return not hasattr(tensor, "on_the_host")

    def fetch(self, tensors):
        fake_queue.finish()
        return list(tensors)

    def synchronise(self):
        self._check()
        fake_queue.finish()

    def reset_peak(self):
        fake_queue.reset_bytes()

    def peak_bytes(self):
        return fake_queue.used_bytes()

    def _gone(self):
        return bool(os.environ.get(GONE)) and Path(os.environ[GONE]).exists()

    def _check(self):
        if self._gone():
            raise RuntimeError("lost the device")


class Impatient(Asynchronous):
    """Nobody waits for it inside of a sample."""

    def synchronise(self):
        pass
