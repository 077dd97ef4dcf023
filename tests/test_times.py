"""The times of a run: processes are added up, and the slowest comes first."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from tests import times


def test_a_run_writes_the_seconds_of_every_kind(tmp_path, monkeypatch):
    monkeypatch.setattr(times, "PATH", tmp_path / "build" / "times.json")
    clock = times.Clock(SimpleNamespace())
    for phase in (1.0, 2.0):
        clock.pytest_runtest_logreport(SimpleNamespace(nodeid="tests/a/test_x.py::test_it", duration=phase))
    clock.pytest_runtest_logreport(SimpleNamespace(nodeid="tests/test_y.py::test_it", duration=9.0))
    of_a_process = {"imports": {"tests/a/test_x.py": 0.5}, "fixtures": {"root": 0.25}}
    for _ in range(2):
        clock.pytest_testnodedown(SimpleNamespace(workeroutput={"times": of_a_process}))
    clock.pytest_unconfigure()
    record = json.loads(times.PATH.read_text())
    assert list(record["tests"].items()) == [("tests/test_y.py::test_it", 9.0), ("tests/a/test_x.py::test_it", 3.0)]
    assert record["files"] == {"tests/test_y.py": 9.0, "tests/a/test_x.py": 4.0}
    assert record["subjects"] == {"tests/test_y.py": 9.0, "tests/a": 4.0}
    assert record["fixtures"] == {"root": 0.5}
    assert record["imports"] == {"tests/a/test_x.py": 1.0}


def test_a_fixture_is_timed_without_the_fixtures_that_it_asks_for(tmp_path):
    (tmp_path / "conftest.py").write_text(
        "from tests import times\n"
        f"times.PATH = times.Path({str(tmp_path / 'times.json')!r})\n"
        "def pytest_configure(config): config.pluginmanager.register(times.Clock(config))\n"
    )
    (tmp_path / "test_one.py").write_text(
        "import time, pytest\n"
        "@pytest.fixture\n"
        "def slow(): time.sleep(0.3)\n"
        "@pytest.fixture\n"
        "def quick(slow): pass\n"
        "def test_it(quick): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "1", "test_one.py"]
    environment = {"PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    fixtures = json.loads((tmp_path / "times.json").read_text())["fixtures"]
    assert fixtures["test_one.py::slow"] >= 0.3  # it sleeps as long
    assert fixtures["test_one.py::quick"] < fixtures["test_one.py::slow"]
