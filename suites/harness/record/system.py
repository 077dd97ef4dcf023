"""What a machine is set to and what was built with what, as far as it moves times. Names no user, host or folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_CPU = "/sys/devices/system/cpu"
_VARIABLES = re.compile(r"(OMP|KMP|GOMP|MKL|DNNL|ONEDNN|OPENBLAS|NUMEXPR|TORCHINDUCTOR|ORT|OV|MALLOC|LD_PRELOAD)(_|$)")
_HARMLESS = re.compile(r"[A-Za-z0-9_.,:+-]{0,40}")
"""Values that are recorded as they are; of others, which may name folders, only that they are set."""


def describe_system() -> dict[str, Any]:
    """Frequency policy, what lies between this system and the hardware, memory policy, build facts, variables."""
    from engine import processors  # here, since this module is also imported beside engines that lack it

    return {
        "frequency": _read_all(_FREQUENCY),
        "virtual": _virtual(),
        "memory_policy": _read_all(_MEMORY_POLICY),
        "usable_cpus": len(processors.allowed_processors()),
        "compiler": (output(os.environ.get("CC", "cc"), "--version") or "").partition("\n")[0] or None,
        "blas": _blas(),
        "variables": _variables(),
    }


_FREQUENCY = {
    "driver": f"{_CPU}/cpu0/cpufreq/scaling_driver",
    "governor": f"{_CPU}/cpu0/cpufreq/scaling_governor",
    "least_khz": f"{_CPU}/cpu0/cpufreq/scaling_min_freq",
    "most_khz": f"{_CPU}/cpu0/cpufreq/scaling_max_freq",
    "boost": f"{_CPU}/cpufreq/boost",
    "siblings": f"{_CPU}/smt/active",
}
"""What the kernel says of clocks; absent in most virtual machines, where the host decides."""
_MEMORY_POLICY = {"huge_pages": "/sys/kernel/mm/transparent_hugepage/enabled", "swappiness": "/proc/sys/vm/swappiness"}


def _read_all(files: Mapping[str, str]) -> dict[str, str]:
    """What the files say that are there; of several words the chosen one, which is in brackets."""
    found = {name: read(path) for name, path in files.items()}
    return {name: (re.findall(r"\[(\w+)\]", value) or [value])[0] for name, value in found.items() if value is not None}


def _virtual() -> dict[str, Any]:
    """Hints of a virtual machine and of a container, and the CPU quota of its control groups in processors."""
    from engine import processors

    flags = (read("/proc/cpuinfo") or "").partition("flags")[2].partition("\n")[0].split()
    return {
        "hypervisor": "hypervisor" in flags,
        "product": read("/sys/class/dmi/id/sys_vendor"),
        "container": Path("/.dockerenv").exists() or Path("/run/.containerenv").exists(),
        "cpu_limit": processors.read_quota(),
    }


def _variables() -> dict[str, str]:
    """Environment variables that libraries read their settings from."""
    found = {name: value for name, value in sorted(os.environ.items()) if _VARIABLES.match(name)}
    return {name: value if _HARMLESS.fullmatch(value) else "(set)" for name, value in found.items()}


@cache
def _blas() -> dict[str, str]:
    """The linear algebra under NumPy and under torch. Torch is asked in a process of its own: it is slow to import."""
    import numpy as np

    built: Any = np.show_config(mode="dicts")
    blas = built.get("Build Dependencies", {}).get("blas", {})
    found = {"numpy": f"{blas.get('name')} {blas.get('version')}"}
    code = "import torch; print(torch.__config__.show()); print('capability', torch.backends.cpu.get_cpu_capability())"
    text = output(sys.executable, "-P", "-c", code) or ""
    for name, pattern in (
        ("torch mkl", r"Math Kernel Library Version ([\w.-]+)"),
        ("torch onednn", r"MKL-DNN v([\w.]+)"),
        ("torch blas", r"BLAS_INFO=(\w+)"),
        ("torch capability", r"capability (\w+)"),
    ):
        match = re.search(pattern, text)
        if match:
            found[name] = match[1]
    return found


def output(*command: str) -> str | None:
    """What a command prints, without space around it; None where it is not there, fails, or takes a minute."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip(" \n")
    except (OSError, subprocess.SubprocessError):
        return None


def read(path: str) -> str | None:
    """What a file of the kernel says, without the space around it; None where there is no such file."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
