"""What this machine and this checkout are: facts for the record, a name for the folder. Never a host or user name."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from suites import paths
from suites.harness.record.system import describe_system, output, read

_PACKAGES = ("enginebench", "numpy", "torch", "onnx", "onnxscript", "onnxruntime", "openvino", "transformers", "triton")
# Features that a record lists, with or without kernels for them (csrc/isas.txt says for which). Part of the name of a
# machine's folder, so a change of this list gives every machine another folder.
_ISA = (
    "sse4_2", "avx", "f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16", "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve",
)  # fmt: skip


@cache
def facts() -> dict[str, Any]:
    """Hardware facts that name the machine: model, cores, caches, instruction sets."""
    info = _cpuinfo()
    flags = set(info.get("flags", info.get("Features", "")).split())
    return {
        "cpu": info.get("model name") or platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "caches": _caches(),
        "isa": [name for name in _ISA if name in flags],
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "cpu_id": [info.get(key) for key in ("vendor_id", "cpu family", "model", "stepping")],
    }


def sums_saturate() -> bool:
    """Whether the instructions of the processor for products of bytes add two in 16 bits: x86-64 without VNNI.

    Such a sum is at most 2 * 255 * 127, which 16 bits do not hold; the instruction then gives the nearest number that
    they do. With weights of 7 bits, 2 * 255 * 64 fits.
    """
    known = facts()
    return known["architecture"] in ("x86_64", "AMD64") and not {"avx512_vnni", "avx_vnni"} & set(known["isa"])


@cache
def slug() -> str:
    """``<cpu>-<cores>c-<hash>``: the folder of this machine's runs. The hash tells apart machines of one CPU name."""
    known = facts()
    stable = {**known, "memory_bytes": known["memory_bytes"] >> 30}
    digest = hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()[:6]
    words = re.sub(r"\((r|tm)\)|\bcpu\b|\bprocessor\b|@.*", " ", known["cpu"].lower())
    name = re.sub(r"[^a-z0-9]+", "-", words).strip("-")
    return f"{name}-{known['cores']}c-{digest}"


def environment() -> dict[str, Any]:
    """Everything that the first line of a run says about where it ran."""
    known = {key: value for key, value in facts().items() if key != "cpu_id"}
    return {
        "machine": slug(),
        **known,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": versions(),
        **revision(),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "available_bytes": available_bytes(),
        "load": load(),
        "steal_s": steal_seconds(),
        "surroundings": describe_system(),
    }


def versions() -> dict[str, str]:
    """Installed versions of the packages that take part."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def revision() -> dict[str, Any]:
    """Commit of this checkout, whether files differ from it, a hash of the difference; None outside of a checkout."""
    return revision_of(checkout())


def revision_of(root: Path | None) -> dict[str, Any]:
    """The same of the checkout at `root`: keys `commit`, `dirty` and `difference`."""
    if root is None:
        return {"commit": None, "dirty": None, "difference": None}
    git = ("git", "-C", str(root))
    commit = output(*git, "rev-parse", "--short=12", "HEAD")
    changed = output(*git, "status", "--porcelain", "--", ".", ":!results")
    difference = None
    if changed:
        text = changed + (output(*git, "diff", "HEAD", "--", ".", ":!results") or "")
        difference = hashlib.sha256(text.encode()).hexdigest()[:12]
    return {"commit": commit, "dirty": bool(changed), "difference": difference}


def checkout() -> Path | None:
    """Root of the checkout that this package lies in; None where it is installed elsewhere."""
    root = paths.IMPORTED_FROM.resolve()
    return root if (root / "pyproject.toml").is_file() and (root / ".git").exists() else None


def load() -> float:
    """One-minute load average."""
    return os.getloadavg()[0]


def available_bytes() -> int | None:
    """Memory that new processes can have without anything being put out of it; None where it is not told."""
    lines = (read("/proc/meminfo") or "").splitlines()
    found = next((line.split() for line in lines if line.startswith("MemAvailable:")), None)
    return None if found is None else int(found[1]) << 10


def steal_seconds() -> float | None:
    """Processor time that the hypervisor gave to others since boot, over all cores; None where it is not told."""
    first = (read("/proc/stat") or "").partition("\n")[0].split()
    return int(first[8]) / os.sysconf("SC_CLK_TCK") if len(first) > 8 else None


def _cpuinfo() -> dict[str, str]:
    text = (read("/proc/cpuinfo") or "").split("\n\n")[0]
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _caches() -> dict[str, str]:
    """Level and kind -> size of one instance, as the kernel says it: ``{"L1d": "32K", ...}``."""
    found = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (read(str(index / name)) for name in ("level", "type", "size"))
        if level and kind and size:
            found[f"L{level}{ {'Data': 'd', 'Instruction': 'i'}.get(kind, '') }"] = size
    return found
