"""Builds the C library with its test program and runs it: every kernel against the reference kernels.

The library is built with the kernel of docs/add-a-kernel.md, whose steps are followed literally in a copy. Objects that
the extension's build has compiled in the same way are taken from there.
The program covers what only C can see (edges, layouts, packing, threads, a fork); NumPy's definitions of the ops are
compared with the reference kernels elsewhere. `make sanitize` runs it under the sanitizers, `make kernels-arm64` for
another processor.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine import dtypes, ops

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(900)  # whichever comes first builds all kernels: minutes
HEADER = ROOT / "csrc" / "engine.h"
CHANGED = ("kernels.inc", "signatures.inc")  # headers that the page adds rows to
REFERENCES = ("EB_REFERENCE", "EB_WEIGHT_REFERENCE")  # of ops that read elements alone, and encoded weights too


def follow_page(folder: Path) -> None:
    """Copy to `folder` what CMake builds, with the kernel that the page adds."""
    shutil.copy(ROOT / "CMakeLists.txt", folder)
    for part in ("csrc", "tests/kernels"):
        shutil.copytree(ROOT / part, folder / part)
    page = (ROOT / "docs/add-a-kernel.md").read_text()
    signature, kernel, row, cases = re.findall(r"^```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    with (folder / "csrc/signatures.inc").open("a") as signatures:
        signatures.write(signature)
    (folder / "csrc/kernels/generic/linear_rows.c").write_text(kernel)
    insert(folder / "csrc/kernels.inc", "/* Plain C for every op", row + "\n")
    insert(folder / "tests/kernels/linear.c", "    time_layers(v);\n}", cases)


def insert(path: Path, before: str, text: str) -> None:
    old = path.read_text()
    assert old.count(before) == 1, f"{path}: {before}"
    path.write_text(old.replace(before, text + before))


def build(folder: Path) -> Path:
    """The test program of the sources in `folder`, with warnings as errors."""
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    configure = [
        cmake,
        "-S",
        folder,
        "-B",
        folder / "build",
        "-DENGINE_PYTHON=OFF",
        "-DENGINE_TESTS=ON",
        "-DENGINE_WERROR=ON",
    ]
    for command in (configure, [cmake, "--build", folder / "build", "-j", "2", "--target", "test_kernels"]):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        if command is configure:
            copy_objects(folder)
    return folder / "build" / "tests" / "kernels" / "test_kernels"


def copy_objects(folder: Path) -> None:
    """Copy objects of the extension's build into the configured build in `folder`, which then compiles only the others.

    An object is copied if it is newer than all sources and its command is the same except for the names of folders. So
    none is copied if warnings were not errors in the extension's build, as they are in that of `make test`.
    """
    sources = [ROOT / "CMakeLists.txt", *filter(Path.is_file, (ROOT / "csrc").rglob("*"))]
    newest = max(path.stat().st_mtime for path in sources)
    code = [path for path in sources if path.suffix in (".c", ".h")]
    changed = {path.name for path in code if any(f'#include "{name}"' in path.read_text() for name in CHANGED)}
    assert changed == {"registry.c"}
    wanted = read_commands(folder, folder / "build")
    for build in (ROOT / "build").glob("cp*-abi3-*"):
        for made, command in read_commands(ROOT, build).items():
            is_new = (build / made).exists() and (build / made).stat().st_mtime > newest
            if is_new and command == wanted.get(made) and made.name != "registry.c.o":
                shutil.copy(build / made, folder / "build" / made)


def read_commands(root: Path, build: Path) -> dict[Path, list[str]]:
    """Objects of the library in the folder `build` -> sorted words of their compile commands, without folders."""
    path, found = build / "compile_commands.json", {}
    for one in json.loads(path.read_text()) if path.exists() else ():
        compiler, *words = shlex.split(one["command"].replace(str(build), "BUILD").replace(str(root), "ROOT"))
        if Path(one["directory"]) == build:
            found[Path(words[words.index("-o") + 1])] = [os.path.realpath(compiler), *sorted(words)]
    return found


def count_cases(program: Path, *arguments: str) -> int:
    """How many cases a run checks that finds no failure."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = re.fullmatch(r"(\d+) cases, (\d+) runs of kernels, 0 failures", done.stdout.strip().splitlines()[-1])
    assert summary
    return int(summary[1])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernels")
    follow_page(folder)
    return build(folder)


def test_every_kernel_agrees_with_the_reference_on_a_share_of_the_cases(program):
    """The first cases of each kernel, and one in 32 of the others."""
    assert count_cases(program, "share=32") > 100


@pytest.mark.long
def test_every_kernel_agrees_with_the_reference(program):
    assert count_cases(program) > 1000


def test_the_benchmark_measures_a_case_and_a_round_for_each_line(program):
    """Its side of the talk with suites/harness/measure/kernels.py: a case, a round with its roofs at each line."""
    command = [program, "bench", "generic", "f32_rms_norm"]
    done = subprocess.run(command, input="go\ngo\n\ngo\n\n", capture_output=True, text=True, check=True)
    said = [line.split("\t") for line in done.stdout.splitlines()]
    kinds = ["case", "round", "round", "case", "round"]
    assert [line[0] for line in said] == [*kinds, "case", "case"]  # shapes after the end of the input: no rounds
    assert said[0][1:] == ["rms_norm", "128 x 768", "786432", "396288", "393216", "1", "f32:2,64,768;f32:768;-"]
    for round_ in (line for line in said if line[0] == "round"):
        assert round_[4] == "f32_rms_norm__generic_vector"
        assert all(float(number) > 0 for number in (*round_[1:4], round_[5]))


def test_the_kernel_of_the_page_is_in_the_registry_and_lists_its_cases(program):
    """A run of the program fails if the kernel took none of them."""
    done = subprocess.run([program, "list", "f32_qt8w_linear"], capture_output=True, text=True, check=True)
    assert "linear int8_tensor M=3 N=17 K=20 transposed=1 compute=0 bias=1" in done.stdout
    assert b"f32_qt8w_linear__generic_rows" in program.read_bytes()


def test_a_case_is_one_line_with_its_roles_and_its_own_name(program):
    """The name begins with the op, and no other case has it."""
    done = subprocess.run([program, "list", "f32_rms_norm"], capture_output=True, text=True, check=True)
    roles, names = zip(*(line.split("\t") for line in done.stdout.splitlines()), strict=True)
    assert {name.split()[0] for name in names} == {"rms_norm"}
    assert len(set(names)) == len(names)
    assert set(roles) == {"checked", "timed", "checked,timed"}


def test_dtype_codes_are_those_of_the_header():
    listed = re.search(r"typedef enum \{([^}]*)\} eb_dtype", HEADER.read_text())
    assert listed
    assert [name.strip() for name in listed[1].split(",")] == [f"EB_{d.code}" for d in dtypes.DTYPES]


def test_the_registry_names_ops_of_the_table_and_has_a_reference_for_each():
    text = (ROOT / "csrc" / "kernels.inc").read_text()
    named = set(re.findall(r"EB_KERNEL\(\w+, (\w+), \w+, \w+, \d+\)", text)) - {"op"}
    plain, encoded = (set(re.findall(rf"^{name}\((\w+)\)", text, re.MULTILINE)) for name in REFERENCES)
    references = plain | encoded
    without = {name for name, op in ops.TABLE.items() if op.view is not None or not op.has_kernels}
    assert named | references <= set(ops.TABLE)
    assert references == set(ops.TABLE) - without
    assert encoded == {name for name, op in ops.TABLE.items() if op.encoded and op.view is None}


def test_kernels_take_attributes_by_the_names_of_the_generated_header():
    declared = set(re.findall(r"^\s+(EB_\w+) = \d+,", (ROOT / "csrc" / "ops.h").read_text(), re.MULTILINE))
    prefixes = tuple(f"EB_{kind}{name.upper()}_" for name in ops.TABLE for kind in ("INT_", "REAL_"))
    for path in sorted((ROOT / "csrc").rglob("*.[ch]")):
        used = {name for name in re.findall(r"\bEB_(?:INT|REAL)_\w+", path.read_text()) if name.startswith(prefixes)}
        assert used <= declared or path.name == "ops.h", f"{path}: {sorted(used - declared)}"


def test_a_macro_of_the_kernels_has_one_meaning():
    """A name is defined in one file only; variants for compilers and instruction sets stand side by side in it."""
    defined: dict[str, set[str]] = {}
    for folder in ("vector", "generic"):
        for path in sorted((ROOT / "csrc/kernels" / folder).glob("*.[ch]")):
            if path.name != "isa.h":  # one for each instruction set
                for name in re.findall(r"^\s*#\s*define\s+(\w+)", path.read_text(), re.MULTILINE):
                    defined.setdefault(name, set()).add(path.name)
    assert {name: files for name, files in defined.items() if len(files) > 1} == {}
