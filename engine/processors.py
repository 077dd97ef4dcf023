"""How many processors this process may use: its affinity mask, and the CPU quota of its control groups.

A process in a container usually sees every processor of the machine in its affinity mask, while a quota limits the time
that it gets on them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath


def allowed_processors() -> list[int]:
    """Numbers of the processors in this process's affinity mask, ascending."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def count_processors(root: Path = Path("/")) -> int:
    """Number of threads that can run at the same time all the time: affinity mask and CPU quota, at least 1.

    A fraction of a quota is dropped. With more threads than its quota, a process uses up the quota before the end of
    a period, and the kernel stops all of its threads for the rest of it, which is tens of milliseconds.

    Args:
        root: the directory that holds ``proc`` and ``sys``.
    """
    allowed, quota = len(allowed_processors()), read_quota(root)
    return allowed if quota is None else max(1, min(allowed, int(quota)))


@cache
def read_quota(root: Path = Path("/")) -> float | None:
    """CPU quota in processors: the smallest of this process's control groups and all groups that contain them.

    The files are read once: that takes a tenth of a binding, and quotas seldom change.

    Args:
        root: the directory that holds ``proc`` and ``sys``.

    Returns:
        None without a quota, and where the system has no control groups.
    """
    quotas = [_read_group(group) for group in _find_groups(root)]
    return min((quota for quota in quotas if quota is not None), default=None)


def _find_groups(root: Path) -> Iterator[Path]:
    """Directories of the control groups that may limit this process's CPU time, of version 1 and 2.

    Sources: cgroups(7), proc_pid_mountinfo(5).
    """
    memberships = [line.split(":", 2) for line in _read(root / "proc/self/cgroup").splitlines()]
    for line in _read(root / "proc/self/mountinfo").splitlines():
        mount, _, filesystem = line.partition(" - ")
        mounted, mount_point = (_unescape(field) for field in mount.split(" ")[3:5])
        kind, _source, options = filesystem.split(" ")[:3]  # a source may be empty
        is_cpu = kind == "cgroup" and "cpu" in options.split(",")
        if not is_cpu and kind != "cgroup2":
            continue
        for _number, controllers, path in memberships:
            if ("cpu" in controllers.split(",")) if is_cpu else not controllers:
                yield from _list_visible(root / mount_point.lstrip("/"), PurePosixPath(mounted), PurePosixPath(path))


def _list_visible(mount_point: Path, mounted: PurePosixPath, path: PurePosixPath) -> Iterator[Path]:
    """Directories of group `path` and of those that contain it, as far as they lie below `mounted`, which is at
    `mount_point`. A container may see no more than its own group there, under a path that it does not know.
    """
    inside = path.is_relative_to(mounted) and ".." not in path.parts
    group = mount_point / path.relative_to(mounted) if inside else mount_point
    yield group
    while group != mount_point:
        group = group.parent
        yield group


def _read_group(group: Path) -> float | None:
    """CPU quota of one control group alone, in processors; None without one."""
    limits = _read(group / "cpu.max").split() or [
        _read(group / "cpu.cfs_quota_us").strip(),
        _read(group / "cpu.cfs_period_us").strip(),
    ]
    if len(limits) != 2 or not all(limit.isdecimal() and int(limit) for limit in limits):  # "max", "-1", no such file
        return None
    return int(limits[0]) / int(limits[1])


def _read(path: Path) -> str:
    """Text of a file of the kernel; nothing where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _unescape(path: str) -> str:
    """A path of mountinfo, where blanks and backslashes are octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)
