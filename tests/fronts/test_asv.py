"""asv's front: discovery imports nothing heavy, and a real `asv run` stores our samples and counts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from suites import fronts

TINY = """
name = "tiny"
backends = ["engine"]
baseline = "engine"
rounds = 3

[[models]]
name = "mlp"
"""


def test_asv_finds_the_benchmarks_and_imports_nothing_heavy(root, tmp_path):
    out = tmp_path / "benchmarks.json"
    code = (
        "import sys; from asv_runner.discovery import _discover;"
        f"_discover(['suites/asv_benchmarks', {str(out)!r}]);"
        "print(*(m for m in ('torch', 'onnxruntime', 'transformers') if m in sys.modules))"
    )
    environment = {k: v for k, v in os.environ.items() if k != fronts.SUITE_VARIABLE}
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, env=environment)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == []
    benchmarks = {one["name"]: one for one in json.loads(out.read_text())}
    assert set(benchmarks) == {
        "cases.Latency.track_latency",
        "cases.Engine.track_nodes",
        "cases.Engine.track_arena_bytes",
        "cases.Engine.track_compile",
    }
    assert {one["unit"] for one in benchmarks.values()} == {"seconds", "nodes", "bytes"}
    assert all(one["version"] == "1" for one in benchmarks.values())
    assert len(benchmarks["cases.Latency.track_latency"]["params"][1]) == 4


@pytest.fixture
def clone(root, tmp_path):
    """A clone in which asv may store results, with the benchmarks as they are in the working tree."""
    if not (root / ".git").exists():
        pytest.skip("asv measures commits: this is no checkout")
    path = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(root), str(path)], check=True, capture_output=True)
    shutil.copy(root / "asv.conf.json", path)
    shutil.copytree(root / "suites" / "asv_benchmarks", path / "suites" / "asv_benchmarks", dirs_exist_ok=True)
    return path


def asv(clone, *arguments):
    home = clone.parent / "home"  # asv writes ~/.asv-machine.json
    home.mkdir(exist_ok=True)
    suite = clone.parent / "tiny.toml"
    suite.write_text(TINY)
    environment = {**os.environ, "HOME": str(home), fronts.SUITE_VARIABLE: str(suite)}
    command = [sys.executable, "-m", "asv", *arguments]
    found = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False, env=environment)
    assert found.returncode == 0, found.stdout + found.stderr


def test_asv_run_stores_our_samples_and_counts(clone):
    asv(clone, "machine", "--yes")
    chosen = ("--bench", "track_latency", "--bench", "track_nodes")
    asv(clone, "run", "--environment", f"existing:{sys.executable}", "--set-commit-hash", "HEAD", *chosen)
    (path,) = (clone / "results" / "asv").glob("*/*existing*.json")
    stored = json.loads(path.read_text())
    rows = {name: dict(zip(stored["result_columns"], row, strict=False)) for name, row in stored["results"].items()}
    latency, nodes = rows["cases.Latency.track_latency"], rows["cases.Engine.track_nodes"]
    assert latency["params"] == [["'mlp/b1/t1/fp32'"], ["'engine'"]]
    assert all(isinstance(value, float) and value > 0 for value in latency["result"])
    assert latency["stats_repeat"] == [9]  # rounds of the suite, each of three samples
    assert nodes["result"] == [2]
