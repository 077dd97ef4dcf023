"""The stages of the whole check: runs those whose inputs have changed since they last passed, the tests always.

    python -m tests.stages [--all] [--long] [NAME...]

A stage that has passed leaves a stamp in the user's cache: a digest of its inputs, the date and the commit. Inputs are
the files that it reads (modules and headers are followed through imports and includes), this file and the Makefile, the
versions of its tools and of all packages, the features of the processor, and the environment variables that it reads. A
stage with the same digest is skipped; a stamp that cannot be read is none. `--all`, or CI_ALL=1 in the environment,
skips none; `--long` runs the stages and the tests of `make check-all`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path

from tests import sources

ROOT = Path(__file__).resolve().parent.parent
SLOTS = 2
"""Stages at a time, each with one job."""
VARIABLES = ("CC", "CFLAGS", "LDFLAGS", "ENGINE*", "HF_*", "OMP_*", "PYTEST_ADDOPTS", "PYTHON*", "TRITON_*", "XDG_*")
"""Patterns of the environment variables that stages and their tools read."""


@dataclass(frozen=True)
class Stage:
    """A part of the check.

    Attributes:
        name: what `--help` and the stamp call it.
        command: a shell command in the root of the checkout.
        long_command: the command of `--long`, if it is another one.
        modules: patterns of modules that it runs; what they import counts as well.
        files: patterns of other files that it reads; headers that files of C include count as well.
        tools: programs whose versions count.
        only: "long" if only `--long` runs it; "short" if the tests of `--long` contain it.
    """

    name: str
    command: str
    long_command: str = ""
    modules: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    only: str = ""


# The build includes some headers by an option of the compiler, so all of csrc count.
_C = ("CMakeLists.txt", "csrc/**/*.[ch]", "csrc/**/*.inc", "csrc/**/*.txt", "csrc/**/*.cmake", "csrc/**/*.py")
_KERNELS = (*_C, "tests/kernels/*.c", "tests/kernels/CMakeLists.txt")
_ON_TRITON = ("compiled", "compiled_configurations", "cases.*")

STAGES = (
    Stage(
        "sanitize",
        "make sanitize CC=gcc JOBS=1 SHARE=12",
        "make sanitize CC=gcc JOBS=1",
        files=_KERNELS,
        tools=("gcc",),
    ),
    Stage(
        "arm64",
        "make kernels-arm64 JOBS=1 SHARE=12",
        "make kernels-arm64 JOBS=1",
        files=_KERNELS,
        tools=("aarch64-linux-gnu-gcc", "qemu-aarch64"),
    ),
    Stage(
        "triton",
        "make test-triton JOBS=1",
        "make test-triton JOBS=1 TEST_OPTIONS='-m \"\"'",
        modules=("engine.targets.triton.kernels.*", *(f"tests.targets.on_triton.{name}" for name in _ON_TRITON)),
        files=("tests/conftest.py", "pyproject.toml"),
    ),
    Stage(
        "site",
        ".venv/bin/python -m pytest -m 'browser and not long' tests/site",
        modules=("suites.site.*", "tests.site.*"),
        files=("suites/site/**/*.*", "tests/site/*.js", "results/**/*.*", "tests/conftest.py", "pyproject.toml"),
        tools=("chromium",),
        only="short",
    ),
    Stage(
        "counts",
        ".venv/bin/enginebench compare --gate",
        modules=("engine.*", "suites.*"),
        files=(*_C, "suites/**/*.toml", "results/baselines.toml", "pyproject.toml"),
        tools=("gcc",),
    ),
    Stage(
        "kernels",
        ".venv/bin/python -m pytest -m long tests/kernels/test_kernels.py",
        modules=("tests.kernels.test_kernels",),
        files=(*_KERNELS, "docs/add-a-kernel.md", "tests/conftest.py", "pyproject.toml"),
        tools=("gcc",),
        only="short",
    ),
    Stage(
        "speeds",
        ".venv/bin/python -m tests.speeds",
        modules=("engine.*", "suites.*", "tests.speeds"),
        files=_C,
        tools=("gcc",),
        only="long",
    ),
    Stage("kernels-clang", "make kernels CC=clang JOBS=1", files=_KERNELS, tools=("clang",), only="long"),
)
"""All but the tests, which are never skipped. The longest first: two run at a time."""


def list_inputs(stage: Stage, root: Path = ROOT) -> list[Path]:
    """The files that STAGE depends on, relative to ROOT, sorted."""
    paths = sources.list_modules(root, "engine", "suites", "tests")
    names = [name for name in paths if any(fnmatch(name, pattern) for pattern in stage.modules)]
    named = {path.resolve() for pattern in stage.files for path in root.glob(pattern)}
    code = {path for path in named if path.suffix in (".c", ".inc")}
    headers = sources.follow_includes(code, [(root / "csrc").resolve()])
    modules = {paths[name].resolve() for name in sources.follow_imports(names, paths)}
    always = {(root / name).resolve() for name in ("Makefile", "tests/stages.py")}
    return sorted(path.relative_to(root.resolve()) for path in named | headers | modules | always)


def describe_surroundings(stage: Stage) -> Iterator[str]:
    """What else decides whether STAGE passes: a line each."""
    yield f"command {stage.command}"
    yield f"python {sys.version}"
    yield f"system {platform.platform()}"
    yield f"processor {' '.join(sorted(read_features()))}"
    for tool in stage.tools:
        path = shutil.which(tool)
        version = subprocess.check_output([path, "--version"], text=True) if path else "not installed"
        yield f"tool {tool} {version}"
    yield from sorted(f"package {one.name} {one.version}" for one in importlib.metadata.distributions())
    for name, value in sorted(os.environ.items()):
        if any(fnmatch(name, pattern) for pattern in VARIABLES):
            yield f"variable {name}={value}"


def read_features(path: Path = Path("/proc/cpuinfo")) -> set[str]:
    """Model and features of the first processor, as Linux lists them."""
    first = path.read_text().split("\n\n")[0] if path.exists() else platform.processor()
    lines = re.findall(r"^(?:model name|flags|Features)\s*:\s*(.*)$", first, re.MULTILINE)
    return {word for line in lines for word in line.split()}


def digest_inputs(stage: Stage, root: Path = ROOT) -> str:
    """A digest of all that STAGE depends on."""
    digest = hashlib.sha256()
    for line in describe_surroundings(stage):
        digest.update(f"{line}\n".encode())
    for path in list_inputs(stage, root):
        digest.update(f"{path} {hashlib.sha256((root / path).read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def find_stamp(stage: Stage) -> Path:
    """The file of the stamp, which need not exist."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "enginebench" / "stages" / f"{stage.name}.json"


def read_stamp(stage: Stage, digest: str) -> str | None:
    """Date and commit of the pass with this digest; None if there is none."""
    try:
        stamp = json.loads(find_stamp(stage).read_text())
        return f"{stamp['date']} at {stamp['commit']}" if stamp["digest"] == digest else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_stamp(stage: Stage, digest: str) -> None:
    """Note that STAGE has passed with this digest."""
    path = find_stamp(stage)
    path.parent.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps({"digest": digest, "date": now, "commit": name_commit()}) + "\n")
    temporary.replace(path)


def name_commit() -> str:
    """The commit that is checked out, with "-dirty" behind it if files differ."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "no commit"


def run_stage(stage: Stage) -> bool:
    """Whether STAGE passes; its output comes in one piece."""
    done = subprocess.run(
        stage.command, shell=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(f"== {stage.name}: {stage.command}\n{done.stdout}", flush=True)
    return done.returncode == 0


def run_tests(command: str) -> tuple[bool, str]:
    """Whether the tests pass, and the closing line of pytest; output comes as it is written."""
    print(f"== tests: {command}", flush=True)
    closing = ""
    with subprocess.Popen(
        command, shell=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as one:
        assert one.stdout is not None
        for line in one.stdout:
            print(line, end="", flush=True)
            closing = line if re.search(r"\d+ (passed|failed).* in ", line) else closing
    return one.returncode == 0, closing


def list_stages(names: Collection[str] = (), *, is_long: bool) -> list[Stage]:
    """The stages with these names, or those of `.ci/run`, or of `make check-all`; with their commands there."""
    left_out = "short" if is_long else "long"
    chosen = [stage for stage in STAGES if (stage.name in names if names else stage.only != left_out)]
    return [replace(stage, command=stage.long_command or stage.command) for stage in chosen] if is_long else chosen


def run_all(chosen: list[Stage], *, skips: bool) -> tuple[dict[str, float], list[str]]:
    """Run the stages, two at a time; returns the seconds of those that ran, and the names of those that failed."""
    seconds: dict[str, float] = {}
    failed: list[str] = []

    def run(stage: Stage) -> None:
        digest = digest_inputs(stage)
        if skips and (passed := read_stamp(stage, digest)):
            print(f"== {stage.name}: skipped, passed with the same inputs on {passed}", flush=True)
            return
        begun = time.monotonic()
        if run_stage(stage):
            write_stamp(stage, digest)
        else:
            failed.append(stage.name)
        seconds[stage.name] = time.monotonic() - begun

    with ThreadPoolExecutor(SLOTS) as pool:
        list(pool.map(run, chosen))
    return seconds, failed


def main() -> None:
    """Run the stages, then the tests; print the seconds of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.stages", description=__doc__, formatter_class=_Plain)
    names = [stage.name for stage in STAGES] + ["tests"]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(names)}")
    parser.add_argument("--all", action="store_true", help="skip no stage")
    parser.add_argument("--long", action="store_true", help="the stages and tests of make check-all")
    given = parser.parse_args()
    if unknown := set(given.names) - set(names):
        parser.error(f"no stage is named {', '.join(sorted(unknown))}; the stages are {', '.join(names)}")
    chosen = list_stages(given.names, is_long=given.long)
    seconds, failed = run_all(chosen, skips=not given.all and os.environ.get("CI_ALL", "") in ("", "0"))
    closing = ""
    if not failed and (not given.names or "tests" in given.names):
        begun = time.monotonic()
        passed, closing = run_tests("make test-long" if given.long else "make test")
        seconds["tests"] = time.monotonic() - begun
        failed += [] if passed else ["tests"]
    print("\nseconds by stage, two stages at a time, then the tests:")
    print("".join(f"{value:9.0f}  {name}\n" for name, value in sorted(seconds.items(), key=lambda item: -item[1])))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
    print(closing, end="")


_Plain = argparse.RawDescriptionHelpFormatter

if __name__ == "__main__":
    main()
