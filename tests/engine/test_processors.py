"""How many processors a process may use, from files like those of the kernel, and what ``threads="auto"`` means."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import engine
from engine import processors
from engine.targets.cpu import CPU, target

V2 = "31 23 0:28 {root} /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1 = "32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct"
OTHERS = [
    "23 1 8:1 / / rw,relatime - ext4 /dev/root rw",
    "24 23 0:22 / /proc rw - proc  rw",  # a source without a name
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset",
]


def system(root: Path, mounts: list[str], groups: list[str], limits: dict[str, str]) -> Path:
    """A directory with the files that are read: mountinfo, cgroup, and limits by their path below sys/fs/cgroup."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text("".join(f"{line}\n" for line in OTHERS + mounts))
    (root / "proc/self/cgroup").write_text("".join(f"{line}\n" for line in groups))
    for name, text in limits.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def v2(root: str = "/") -> str:
    return V2.format(root=root)


def v1_limits(group: str, quota: int, period: int) -> dict[str, str]:
    folder = f"cpu,cpuacct{group}"
    return {f"{folder}/cpu.cfs_quota_us": str(quota), f"{folder}/cpu.cfs_period_us": str(period)}


SYSTEMS = {
    "no control groups": ([], [], {}, None),
    "no limit": ([v2()], ["0::/a"], {"a/cpu.max": "max 100000"}, None),
    "the root has no such file": ([v2()], ["0::/"], {}, None),
    "version 2": ([v2()], ["0::/a"], {"a/cpu.max": "150000 100000"}, 1.5),
    "a limit of the group around": (
        [v2()],
        ["0::/a/b/c"],
        {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000", "a/b/c/cpu.max": "60000 20000"},
        2.0,
    ),
    "a limit of the group itself": ([v2()], ["0::/a/b"], {"a/cpu.max": "4000 1000", "a/b/cpu.max": "2500 1000"}, 2.5),
    "a limit of another group": ([v2()], ["0::/a"], {"b/cpu.max": "1000 1000", "a/b/cpu.max": "1000 1000"}, None),
    "a container that sees its own path": ([v2()], ["0::/"], {"cpu.max": "300000 100000"}, 3.0),
    "a container that sees the path of its host": (
        [v2("/pods/one")],
        ["0::/pods/one/inner"],
        {"cpu.max": "500 100", "inner/cpu.max": "700 100", "pods/one/inner/cpu.max": "100 100"},
        5.0,
    ),
    "a path outside of what is mounted": ([v2()], ["0::/../other"], {"cpu.max": "300 100"}, 3.0),
    "a path of another branch": ([v2("/pods/one")], ["0::/pods/two"], {"cpu.max": "300 100"}, 3.0),
    "version 1": ([V1.format(root="/")], ["4:cpu,cpuacct:/a", "0::/"], v1_limits("/a", 250000, 100000), 2.5),
    "version 1, no limit": ([V1.format(root="/")], ["4:cpu,cpuacct:/a"], v1_limits("/a", -1, 100000), None),
    "version 1, the group around": (
        [V1.format(root="/")],
        ["3:cpuset:/x", "4:cpu,cpuacct:/a/b"],
        {**v1_limits("/a", 1000, 1000), **v1_limits("/a/b", 3000, 1000), **v1_limits("/x", 10, 1000)},
        1.0,
    ),
    "version 1, in a container": (
        [V1.format(root="/docker/1")],
        ["4:cpu,cpuacct:/docker/1"],
        v1_limits("", 50, 100),
        0.5,
    ),
    "both": (
        [V1.format(root="/"), v2().replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ")],
        ["4:cpu,cpuacct:/a", "0::/b"],
        {**v1_limits("/a", 30, 10), "unified/b/cpu.max": "20 10", "unified/a/cpu.max": "10 10"},
        2.0,
    ),
    "a path with a colon and a blank": (
        [v2().replace("/sys/fs/cgroup ", r"/sys/fs/cgroup/my\040groups ")],
        ["0::/a:b"],
        {"my groups/a:b/cpu.max": "70 10"},
        7.0,
    ),
}


@pytest.mark.parametrize("files", SYSTEMS.values(), ids=SYSTEMS.keys())
def test_the_quota_is_the_smallest_on_the_path(files, tmp_path):
    *made, expected = files
    assert processors.read_quota(system(tmp_path, *made)) == expected


@pytest.mark.parametrize(
    ("allowed", "limit", "expected"),
    [(8, "max 1000", 8), (8, "2000 1000", 2), (8, "2999 1000", 2), (8, "400 1000", 1), (2, "9000 1000", 2)],
)
def test_fractions_of_a_quota_are_dropped_and_one_processor_is_left(allowed, limit, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(allowed)))
    root = system(tmp_path, [v2()], ["0::/a"], {"a/cpu.max": limit})
    assert processors.count_processors(root) == expected


def test_the_affinity_mask_counts():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {max(before)})
        assert processors.allowed_processors() == [max(before)]
        assert processors.count_processors() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_automatic_threads_are_the_processors_that_may_be_used(monkeypatch):
    """Those when memory was planned: scratch is planned for so many, and more threads would write past it."""
    model, x = nn.Sequential(nn.Linear(64, 64), nn.Softmax(-1)).eval(), torch.randn(300, 64)
    monkeypatch.setattr(target, "count_processors", lambda: 1)
    program = engine.compile(model, (x,), engine.Config(threads="auto"))
    monkeypatch.setattr(target, "count_processors", lambda: 3)
    assert len(program.profile(x, runs=1, roofs=False).threads) == 1
    later = engine.compile(model, (x,), engine.Config(threads="auto"))
    assert len(later.profile(x, runs=1, roofs=False).threads) == 3
    assert later.report().switches["threads"] == "auto"
    assert later.run_digest == engine.compile(model, (x,), engine.Config(threads=3)).run_digest != program.run_digest
    np.testing.assert_array_equal(later(x), program(x))


def test_automatic_threads_are_no_more_than_a_program_may_have(monkeypatch):
    monkeypatch.setattr(target, "count_processors", lambda: 5000)
    assert CPU.lanes(engine.Config(threads="auto")) == 1024
