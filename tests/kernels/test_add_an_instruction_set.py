"""docs/add-an-instruction-set.md, followed literally on a copy of csrc."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the page's example is of x86-64")

# Prints whether this machine has the row, then the sum of two vectors by the page's kernel, which it calls directly.
MAIN = """
#include <stdio.h>

#include "engine.h"
extern const eb_kernel f16_add__avx512fp16_vector;

int main(void) {
    enum { SIZE = 70000 };
    static uint16_t data[3][SIZE];
    if (eb_isa_requires("avx512fp16") & ~eb_machine_features()) return puts("absent") < 0;
    eb_tensor operands[3];
    void *bases[3];
    for (int i = 0; i < 3; i++) {
        operands[i] = (eb_tensor){.buffer = i, .dtype = EB_F16, .rank = 1, .shape = {SIZE}, .stride = {1}};
        bases[i] = data[i];
        for (int n = 0; n < SIZE && i < 2; n++) data[i][n] = (uint16_t)(0x3000 + (n * (i + 3)) % 0x0fff);
    }
    eb_node node = {.n_inputs = 2, .n_outputs = 1, .operands = operands};
    if (f16_add__avx512fp16_vector.plan(&node) != EB_OK) return 1;
    if (f16_add__avx512fp16_vector.run(&node, bases, 0, node.tiles, NULL) != EB_OK) return 1;
    fwrite(data, sizeof data, 1, stdout);
    return 0;
}
"""


@pytest.fixture(scope="module")
def page():
    """Code blocks of the page, in order."""
    text = (Path(__file__).parents[2] / "docs/add-an-instruction-set.md").read_text()
    return [block for _, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False, cwd=cwd)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
    return done


def configure(folder: Path) -> list[dict[str, str]]:
    """Configure the copy in `folder`; its compile commands. CMake has checked the table then."""
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert cmake
    options = ["-DENGINE_PYTHON=OFF", "-DENGINE_WERROR=ON", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    run(cmake, "-S", folder, "-B", folder / "build", *options)
    commands: list[dict[str, str]] = json.loads((folder / "build/compile_commands.json").read_text())
    return [one for one in commands if "engine_avx512fp16.dir" in one["command"]]


@pytest.fixture(scope="module")
def copy(tmp_path_factory, page):
    """A copy of csrc in which the page's first step and the first way of its second one are done."""
    root, folder = Path(__file__).parents[2], tmp_path_factory.mktemp("isa")
    shutil.copy(root / "CMakeLists.txt", folder)
    shutil.copytree(root / "csrc", folder / "csrc")
    rows, kernel, registry, _ = page
    with (folder / "csrc/isas.txt").open("a") as table:
        table.write(rows)
    (folder / "csrc/kernels/avx512fp16").mkdir()
    (folder / "csrc/kernels/avx512fp16/add.c").write_text(kernel)
    inc = folder / "csrc/kernels.inc"
    inc.write_text(
        inc.read_text().replace("EB_VECTOR_ISAS(EB_VECTOR_KERNELS)", f"{registry}EB_VECTOR_ISAS(EB_VECTOR_KERNELS)")
    )
    return folder


def test_the_row_is_probed_and_its_kernel_adds(copy, tmp_path):
    (command,) = configure(copy)
    assert command["file"].endswith("csrc/kernels/avx512fp16/add.c")
    words = shlex.split(command["command"])
    assert {"-mavx2", "-mavx512f", "-mavx512fp16", "-DEB_ISA=avx512fp16"} <= set(words)
    compiler = next(word for word in words if not word.startswith("-") and "ccache" not in word)
    run(*words, cwd=Path(command["directory"]))
    (tmp_path / "main.c").write_text(MAIN)
    flags = ["-std=gnu11", "-Wall", "-Werror", "-I", copy / "csrc", "-I", copy / "build/generated"]
    kernel = Path(command["directory"]) / words[words.index("-o") + 1]
    run(compiler, *flags, tmp_path / "main.c", copy / "csrc/isas.c", kernel, "-o", tmp_path / "main")
    said = run(tmp_path / "main").stdout
    has_row = "avx512_fp16" in Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    assert (said != b"absent\n") == has_row
    if has_row:
        a, b, y = np.frombuffer(said, np.float16).reshape(3, -1)
        np.testing.assert_array_equal(y, (a.astype(np.float64) + b.astype(np.float64)).astype(np.float16))


def test_the_registry_names_the_kernel(copy):
    configure(copy)
    flags = ["-E", "-P", "-I", copy / "csrc", "-I", copy / "build/generated"]
    text = run("cc", *flags, copy / "csrc/registry.c").stdout.decode()
    assert text.count("&f16_add__avx512fp16_vector,") == 1
    assert text.index("&f16_add__avx512fp16_vector,") < text.index("&any_add__avx512_vector,")


def test_vector_kernels_are_compiled_for_a_row_with_an_isa_header(copy, page):
    header = copy / "csrc/kernels/avx512fp16/isa.h"
    header.write_text(page[-1])
    try:
        commands = configure(copy)
        vector = {path.name for path in (copy / "csrc/kernels/vector").glob("*.c")}
        assert {Path(one["file"]).name for one in commands} == vector | {"add.c"}
        (cast,) = (one for one in commands if one["file"].endswith("vector/elementwise.c"))
        words = shlex.split(cast["command"])
        assert words[words.index("-include") + 1] == str(header)
        run(*words, cwd=Path(cast["directory"]))
        made = (copy / "build/generated/isa_table.h").read_text()
        listed = made.partition("EB_VECTOR_ISAS(ROW)")[2].partition("\n\n")[0]
        assert re.findall(r"ROW\((\w+)\)", listed) == ["avx512fp16", "avx512", "avx2", "generic"]
    finally:
        header.unlink()


def test_a_row_that_requires_an_unknown_feature_is_refused(copy):
    table = copy / "csrc/isas.txt"
    before = table.read_text()
    table.write_text(before + "isa sve extends neon requires svee flags -march=armv8-a+sve\n")
    try:
        with pytest.raises(AssertionError, match=r"sve\s+requires\s+svee"):
            configure(copy)
    finally:
        table.write_text(before)
