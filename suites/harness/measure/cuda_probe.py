"""What a CUDA device is, and what it can do at most, as JSON on standard output.

Started as ``python -m suites.harness.measure.cuda_probe facts`` (or ``roofs``) by `cuda.py`, whose process imports no
torch.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from suites.harness.record.roofs import Roof, Roofs
from suites.harness.record.system import output

COPIED_BYTES = 1 << 30
SIZE = 4096
"""Rows and columns of the matrices."""
TYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""Name of a roof -> element type of the matrices."""
WARM_TIMES, TIMES = 3, 10
AGREES_WITHIN = 0.10
"""A roof is believed if the best time is this close to the median."""


def main() -> None:
    """Write what argv[1] asks for, as the last line."""
    sys.stdout.write(json.dumps(answer(sys.argv[1])) + "\n")


def answer(what: str) -> Mapping[str, Any]:
    """As `cuda.ask`."""
    import torch

    if not torch.cuda.is_available():
        built = "" if torch.version.cuda else f"torch {torch.__version__} is built without CUDA"
        return {"unavailable": f"no CUDA device: {built or 'torch finds none that it can use'}"}
    return measure_roofs().to_dict() if what == "roofs" else find_facts()


def find_facts() -> dict[str, Any]:
    """What the current device is."""
    import torch

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "l2_bytes": properties.L2_cache_size,
        "driver": find_driver(),
        "cuda": torch.version.cuda,
    }


def find_driver(proc: Path = Path("/proc")) -> str | None:
    """Version of the kernel's driver; None where it is not told."""
    try:
        text = (proc / "driver" / "nvidia" / "version").read_text()
    except OSError:
        text = output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") or ""
    version = re.search(r"\b\d+\.\d+(\.\d+)?\b", text)
    return None if version is None else version.group()


def measure_roofs() -> Roofs:
    """Each roof of the current device. They have one thread: the number that the host needs to reach them."""
    began = time.perf_counter()
    return Roofs(tuple(_rows()), time.perf_counter() - began)


def _rows() -> Iterator[Roof]:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    for name, dtype in TYPES.items():
        left, right = (torch.randn(SIZE, SIZE, device="cuda").to(getattr(torch, dtype)) for _ in range(2))
        result = torch.empty_like(left)
        yield _roof(name, "FLOP/s", 2 * SIZE**3, partial(torch.mm, left, right, out=result))
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    nbytes = min(COPIED_BYTES, total // 8)
    source = torch.randint(0, 256, (nbytes,), dtype=torch.uint8, device="cuda")
    copy = torch.empty_like(source)
    yield _roof("memory", "B/s", 2 * nbytes, lambda: copy.copy_(source), nbytes)  # read and written


def _roof(name: str, unit: str, amount: int, run: Callable[[], Any], nbytes: int | None = None) -> Roof:
    for _ in range(WARM_TIMES):
        run()
    times = [_time(run) for _ in range(TIMES)]
    believed = statistics.median(times) <= (1 + AGREES_WITHIN) * min(times)
    return Roof(name, 1, amount / min(times), unit, nbytes, isa="cuda", believed=believed)


def _time(run: Callable[[], Any]) -> float:
    """Seconds between two events."""
    import torch

    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


if __name__ == "__main__":
    main()
