"""Compiles Triton kernels for a GPU that is not there.

Not in a process where Triton interprets kernels (`TRITON_INTERPRET=1`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.errors import TritonError

SHARED_BYTES = 232448
"""Shared memory that one program may have on sm_90: https://docs.nvidia.com/cuda/hopper-tuning-guide."""


class _NamedDriver(DriverBase):
    """Names the GPU to compile for, and can do nothing else."""

    def __init__(self, target: GPUTarget) -> None:
        self._target = target

    @classmethod
    def is_active(cls) -> bool:
        """Always."""
        return True

    def get_current_target(self) -> GPUTarget:
        """The GPU."""
        return self._target

    def get_current_device(self) -> int:
        """A number for Triton's caches."""
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        """No stream."""
        del device
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Memory of this process."""
        return torch.device("cpu")

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Only launchers ask for it."""
        raise NotImplementedError

    def get_benchmarker(self) -> Any:
        """There is nothing to time."""
        raise NotImplementedError


def set_target(capability: int = 90) -> None:
    """Compile for a CUDA device of this compute capability (90: Hopper)."""
    triton.runtime.driver.set_active(_NamedDriver(GPUTarget("cuda", capability, 32)))


class Facts(NamedTuple):
    """What the code of a compiled kernel takes and uses.

    Attributes:
        shared: bytes of shared memory.
        stack: bytes of local memory of a thread: spilled registers, and arrays of functions such as sine.
        registers: of a thread.
        wgmma: number of warpgroup matrix instructions.
        signed_truths: number of conversions of a truth value, which is 1 or 0 there, as if it was -1 or 0.
    """

    shared: int
    stack: int
    registers: int
    wgmma: int
    signed_truths: int


_SIGNED_TRUTH = re.compile(r"selp\.b32\s+(%r\d+), 1, 0, %p\d+;\s*cvt\.rn\.\w+\.s32\s+%\w+, \1;")
"""What triton 3.6 and 3.7 make of a choice between -1 and 0 that becomes bfloat16: -1 becomes 1."""


def inspect(compiled: Any) -> Facts:
    """The facts of a compiled kernel, read from its code."""
    tool = shutil.which("cuobjdump") or str(Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    stack, registers = (int(re.search(rf"{name}:(\d+)", text)[1]) for name in ("STACK", "REG"))
    ptx = compiled.asm["ptx"]
    counts = ptx.count("wgmma.mma_async"), len(_SIGNED_TRUTH.findall(ptx))
    return Facts(compiled.metadata.shared, stack, registers, *counts)


def find_complaints(compile_kernel: Callable[[], Any], *, has_products: bool = False, stack: int = 0) -> list[str]:
    """What is wrong with the code of a kernel for sm_90: a sentence for each check that it fails.

    Args:
        compile_kernel: returns the compiled kernel.
        has_products: it must multiply by warpgroup instructions.
        stack: bytes of local memory that a thread may use.
    """
    try:
        facts = inspect(compile_kernel())
    except (TritonError, RuntimeError) as error:
        return [f"it does not compile: {error}"]
    complaints = []
    if facts.shared > SHARED_BYTES:
        complaints.append(f"it takes {facts.shared} bytes of shared memory; a program has {SHARED_BYTES}")
    if facts.stack > stack:
        complaints.append(f"a thread keeps {facts.stack} bytes in local memory, where registers are spilled")
    if has_products and not facts.wgmma:
        complaints.append("it has no wgmma instruction, which multiplies by a warpgroup")
    if facts.signed_truths:
        complaints.append("it converts a truth value as a signed number, so that -1 becomes 1")
    return complaints
