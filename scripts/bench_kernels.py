"""Times the C kernels: one row a kernel and shape, best of interleaved repeats, one thread.

    python scripts/bench_kernels.py [PART OF A KERNEL'S NAME]      e.g. linear, avx512, attention__avx2_flash

Builds the C test program (needs cmake and a C compiler) and runs its benchmark. Time is the thread's own on its core,
so that other processes do not count. The roof is the machine's multiply-adds with the kernel's instruction set,
measured beside each row; ops that are bound by memory are read by their GB/s.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build(folder: str) -> Path:
    """The test program, built in `folder`."""
    cmake = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
    if cmake is None:
        sys.exit("bench_kernels: cmake is not installed")
    subprocess.run(
        [cmake, "-S", str(ROOT), "-B", folder, "-DENGINE_PYTHON=OFF", "-DENGINE_TESTS=ON"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(
        [cmake, "--build", folder, "-j", "2", "--target", "test_kernels"], check=True, stdout=subprocess.DEVNULL
    )
    return Path(folder) / "tests" / "kernels" / "test_kernels"


def main() -> None:
    """Print the table, a row as soon as it is measured."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(build(folder)), "bench", *sys.argv[1:2]]
        print(f"{'kernel':34}{'shape':42}{'us':>10}{'GFLOP/s':>10}{'GB/s':>8}{'of roof':>9}")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout or ():
                kernel, shape, micros, gflops, gbytes, share = line.rstrip("\n").split("\t")
                numbers = f"{float(micros):10.1f}{float(gflops):10.1f}{float(gbytes):8.1f}{float(share):9.0%}"
                print(f"{kernel:34}{shape:42}{numbers}", flush=True)
        sys.exit(process.returncode)


if __name__ == "__main__":
    main()
