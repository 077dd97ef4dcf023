"""Plants the faults of mutants.toml one by one and says which of them the tests see.

    python -m tests.mutants [NAME...] [--jobs 2]

A fault is one line: a text that occurs once in a file, and the text that replaces it. It is killed if one of its test
files fails, and survives otherwise. All these files pass before a fault is planted, or the command stops. A fault whose
text is gone is stale; with fewer than 30 others the command fails. Faults of C are expressions: one build of the
extension holds all of them, and the environment variable ENGINE_MUTANT selects one at run time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import queue
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
WORK = ROOT / "build" / "mutants"
FEWEST = 30
KERNELS = "kernels:"  # a test is the C test program with the cases of this pattern
TIMEOUT = 900.0  # seconds for all tests of a fault; a fault that hangs is killed

# The finder of an editable install maps the packages to the checkout; a copy has to be found before it.
SITE = 'import sys\nsys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]\n'


@dataclass(frozen=True)
class Mutant:
    """A fault, and the test files that should see it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    origin: str  # the commit that mended this fault once, or "drawn"

    @property
    def is_native(self) -> bool:
        """Whether the fault is in C."""
        return self.file.endswith((".c", ".h"))

    def is_stale(self, root: Path = ROOT) -> bool:
        """Whether the text to replace is not there, or not once."""
        path = root / self.file
        return not path.exists() or path.read_text().count(self.old) != 1


def read_mutants(path: Path = HERE / "mutants.toml") -> list[Mutant]:
    """All faults of the file, in its order."""
    rows = tomllib.loads(path.read_text())["mutant"]
    return [Mutant(**{**row, "tests": tuple(row["tests"])}) for row in rows]


def copy_checkout(folder: Path) -> None:
    """Put the files that git lists, as they are now, in FOLDER: a clone, because some tests ask git."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(folder)], check=True)
    listed = ["git", "ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, done.stdout.split("\0")):
        (folder / name).unlink(missing_ok=True)
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def build_native(mutants: Sequence[Any], work: Path = WORK) -> tuple[Path, Path]:
    """The extension and the C test program with all faults of C in them; the copy of the sources stays in `work`.

    A fault has `file`, `old` and `new`.
    """
    source, build = work / "native-source", work / "native"
    copy_checkout(source)
    for number, mutant in enumerate(mutants, start=1):
        path = source / mutant.file
        chosen = f"(eb_mutant() == {number} ? ({mutant.new}) : ({mutant.old}))"
        path.write_text(path.read_text().replace(mutant.old, chosen))
    for file in {mutant.file for mutant in mutants}:
        path = source / file
        path.write_text(f'#include "{HERE / "select.h"}"\n#line 1\n{path.read_text()}')
    cmake = str(Path(sys.executable).parent / "cmake")
    options = ["-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}", "-DENGINE_TESTS=ON"]
    configure = [cmake, "-S", source, "-B", build, *options]
    for command in (configure, [cmake, "--build", build, "--parallel", "2"]):
        subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, check=True)
    return build / "_native.abi3.so", build / "tests" / "kernels" / "test_kernels"


class Tree:
    """A copy of the checkout in which one fault at a time is planted."""

    def __init__(self, number: int, native: Path, program: Path) -> None:
        self.folder = WORK / f"tree-{number}"
        self.program = program
        copy_checkout(self.folder)
        shutil.copy(native, self.folder / "engine" / "_native.abi3.so")
        site = WORK / "site"
        site.mkdir(exist_ok=True)
        (site / "sitecustomize.py").write_text(SITE)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        path = os.pathsep.join(map(str, (site, self.folder)))
        self.environment = kept | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}

    def run(self, tests: tuple[str, ...], selected: int = 0) -> str | None:
        """The first test that fails, or None; SELECTED is the number of the fault of C."""
        environment = self.environment | {"ENGINE_MUTANT": str(selected)}
        for pattern in (test.removeprefix(KERNELS) for test in tests if test.startswith(KERNELS)):
            command = [str(self.program), "check", pattern]
            done = subprocess.run(command, env=environment, capture_output=True, timeout=TIMEOUT, check=False)
            if done.returncode:
                return KERNELS + pattern
        files = [test for test in tests if not test.startswith(KERNELS)]
        if not files:
            return None
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *files]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        if not done.returncode:
            return None
        said = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return said[0].split(" ", 1)[1].split(" - ")[0] if said else f"status {done.returncode} of pytest"

    def plant(self, mutant: Mutant, selected: int) -> str | None:
        """What kills MUTANT, or None where it survives."""
        path = self.folder / mutant.file
        text = path.read_text()
        try:
            if not mutant.is_native:
                write_source(path, text.replace(mutant.old, mutant.new))
            return self.run(mutant.tests, selected)
        except subprocess.TimeoutExpired:
            return f"the time limit of {TIMEOUT:.0f} s"
        finally:
            write_source(path, text)


def write_source(path: Path, text: str) -> None:
    """Write a module, and remove its compiled form: Python tells a change by size and whole seconds."""
    path.write_text(text)
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def check_unchanged(trees: queue.Queue[Tree], pool: ThreadPoolExecutor, mutants: list[Mutant]) -> None:
    """Raises SystemExit if a test fails before any fault is planted."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})

    def run(test: str) -> str | None:
        tree = trees.get()
        try:
            return tree.run((test,))
        finally:
            trees.put(tree)

    failed = [name for name in pool.map(run, tests) if name is not None]
    if failed:
        raise SystemExit("these fail without a fault: " + ", ".join(failed))


def main() -> None:
    """Plant the faults, print what kills each, and write build/mutants.json."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Which planted faults the tests see.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these faults")
    parser.add_argument("--jobs", type=int, default=2, help="faults at a time (default: 2)")
    given = parser.parse_args()
    mutants = read_mutants()
    if unknown := set(given.names) - {mutant.name for mutant in mutants}:
        parser.error(f"no fault is named {', '.join(sorted(unknown))}")
    stale = [mutant for mutant in mutants if mutant.is_stale()]
    live = [mutant for mutant in mutants if mutant not in stale]
    for mutant in stale:
        print(f"stale     {mutant.name}: its text is not in {mutant.file}")
    if len(live) < FEWEST:
        sys.exit(f"{len(live)} faults can be planted, expected at least {FEWEST}: move stale ones to the text of today")
    native = [mutant for mutant in live if mutant.is_native]
    chosen = [mutant for mutant in live if not given.names or mutant.name in given.names]
    begun = time.monotonic()
    if any(mutant.is_native for mutant in chosen):
        extension, program = build_native(native)
    else:
        extension, program = Path(importlib.util.find_spec("engine._native").origin), Path()
    trees: queue.Queue[Tree] = queue.Queue()
    for number in range(given.jobs):
        trees.put(Tree(number, extension, program))
    print(f"built in {time.monotonic() - begun:.0f} s", flush=True)

    def plant(mutant: Mutant) -> tuple[str | None, float]:
        tree, started = trees.get(), time.monotonic()
        try:
            return tree.plant(mutant, native.index(mutant) + 1 if mutant.is_native else 0), time.monotonic() - started
        finally:
            trees.put(tree)

    results = {}
    with ThreadPoolExecutor(given.jobs) as pool:
        check_unchanged(trees, pool, chosen)
        print(f"all tests pass without a fault: {time.monotonic() - begun:.0f} s", flush=True)
        for mutant, (killer, seconds) in zip(chosen, pool.map(plant, chosen), strict=True):
            results[mutant.name] = killer
            said = f"killed    {mutant.name}: {killer}" if killer else f"SURVIVED  {mutant.name}"
            print(f"{said}  [{seconds:.0f} s]", flush=True)
    killed = sum(killer is not None for killer in results.values())
    WORK.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    print(f"{killed} of {len(chosen)} killed, {len(stale)} stale, in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
