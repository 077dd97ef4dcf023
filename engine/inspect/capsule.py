"""A failure as one file, which is replayed anywhere; a case of the engine without torch.

The file is a ZIP archive: ``capsule.json``, the facts; ``repro.py``, the script; ``passing.py``, the nearest case that
does not fail; and where the engine is the subject the graph before any pass, inputs, and what results should be.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from engine import targets
from engine.config import is_path
from engine.errors import ProgramError
from engine.inspect.command import Command
from engine.inspect.trials import LIMIT_S, Outcome, name_signal

FORMAT = 1
FACTS, SCRIPT, PASSING, PROGRAM = "capsule.json", "repro.py", "passing.py", "program.engine"
INPUTS, EXPECTED = "inputs.npz", "expected.npz"
_MEMBERS = (FACTS, SCRIPT, PASSING, PROGRAM, INPUTS, EXPECTED)
_FACTS = ("place", "kind", "failure", "options", "command", "limit", "inputs", "results")
_PACKAGES = ("enginebench", "torch", "numpy", "onnxruntime", "openvino")


@dataclass(frozen=True)
class Replay:
    """How a capsule fared.

    Attributes:
        fails: True if its failure is there.
        text: what happened.
        differences: what is not as where it was made: versions, processor.
    """

    fails: bool
    text: str
    differences: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"Made elsewhere: {one}." for one in self.differences]
        return "\n".join([*lines, f"{'It fails' if self.fails else 'It does not fail'}: {self.text}."])


def describe_place() -> dict[str, Any]:
    """``versions`` of Python and of packages that take part; ``processor``, and ``isas`` that it has kernels for."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    found = re.search(r"^model name\s*: (.*)", _read("/proc/cpuinfo"), re.MULTILINE)
    processor = found[1] if found else platform.machine()
    return {"versions": versions, "processor": processor, "isas": list(targets.get("cpu").available("isa"))}


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def pack(path: Path, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write a capsule of the files in `folder`, with `facts` and those of this place."""
    whole = {"format": FORMAT, **facts, "place": describe_place()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(FACTS, json.dumps(whole, indent=1))
        for name in _MEMBERS:
            if name != FACTS and (folder / name).exists():
                archive.write(folder / name, name)


def read_facts(path: str | Path) -> dict[str, Any]:
    """What ``capsule.json`` says. ProgramError if the file is no capsule, or one of another format."""
    try:
        with zipfile.ZipFile(path) as archive:
            facts: dict[str, Any] = json.loads(archive.read(FACTS))
            if archive.testzip() is not None or not isinstance(facts, dict):
                raise ValueError("it is damaged")
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ProgramError(f"{path}: no capsule: {error}") from None
    if facts.get("format") != FORMAT:
        raise ProgramError(f"{path}: a capsule of format {facts.get('format')!r}; this engine reads format {FORMAT}")
    if lacking := [name for name in _FACTS if name not in facts]:
        raise ProgramError(f"{path}: no capsule: {FACTS} lacks {', '.join(lacking)}")
    return facts


def replay(path: str | Path, limit: float = LIMIT_S, *, allow_command: bool = False) -> Replay:
    """Run a capsule in a new process, and say whether it fails as it did where it was made.

    Args:
        path: of the capsule. Where the engine is the subject, the graph in it runs, without torch: that is data, unless
            a switch names a Python file. Otherwise its script runs, or a shell command on it.
        limit: seconds after which it hangs.
        allow_command: whether a script or a command may run.

    Raises:
        ProgramError: the file is no capsule, or what it has to run is not allowed.
        ComparisonError: the shell cannot run the command.
    """
    facts = read_facts(path)
    differences = tuple(_list_differences(facts["place"], describe_place()))
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(path) as archive:
        folder = Path(name)
        members = set(_MEMBERS) & set(archive.namelist())
        archive.extractall(folder, members)
        command = facts["command"]
        is_data = PROGRAM in members and command is None and not _names_files(facts["options"])
        if not is_data and not allow_command:
            line = command["line"] if command else f"python {SCRIPT}"
            raise ProgramError(f"{path}: replaying it runs code: {line}; see what {SCRIPT} in it does, then allow it")
        if command is not None:
            failed = Command(command["line"], command["pattern"], limit).fails_script(folder / SCRIPT)
            return Replay(failed is True, f"{command['line']} {'fails' if failed else 'does not fail'}", differences)
        arguments = ["-P", "-m", "engine.inspect.replaying", name] if is_data else [SCRIPT]
        outcome = run_python(arguments, folder, limit)
    return Replay(is_failure(outcome, facts["kind"], facts["failure"]), _describe(outcome), differences)


def _names_files(options: Any) -> bool:
    """True if a text somewhere in `options` is the path of Python code."""
    if isinstance(options, Mapping):
        options = [*options, *options.values()]
    if isinstance(options, list | tuple):
        return any(map(_names_files, options))
    return isinstance(options, str) and is_path(options)


def _list_differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    versions = [there["versions"], here["versions"]]
    named = [
        (name, [one.get(name, "missing") for one in versions]) for name in dict.fromkeys((*versions[0], *versions[1]))
    ]
    pairs = [*named, ("processor", [there["processor"], here["processor"]])]
    return [f"{name} {before}, here {now}" for name, (before, now) in pairs if before != now]


def run_python(arguments: list[str], folder: Path, limit: float) -> Outcome:
    """How a new process of Python ends, whose answer is ``output``: all that it printed."""
    try:
        ended = subprocess.run(
            [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return Outcome("hang", text=f"{limit:g} s")
    printed = {"output": ended.stdout + ended.stderr}
    if ended.returncode < 0:
        return Outcome("crash", printed, name_signal(-ended.returncode))
    *_, last = ["", *printed["output"].strip().splitlines()]
    return Outcome("error" if ended.returncode else "done", printed, last)


def is_failure(outcome: Outcome, kind: str, failure: str) -> bool:
    """True if a process that ran a case has this failure: the class of an exception counts, not its text."""
    if kind in ("wrong", "nan"):
        failure, kind = "AssertionError", "error"
    if kind == "crash":
        return outcome.kind == "crash" or (outcome.kind == "error" and "Traceback" not in outcome.answer["output"])
    if outcome.kind != kind or kind != "error":
        return outcome.kind == kind
    name = re.escape(failure.partition(":")[0])
    return re.search(rf"^([\w.]+\.)?{name}\b", outcome.answer["output"], re.MULTILINE) is not None


def _describe(outcome: Outcome) -> str:
    return outcome.text or "it ends as it should" if outcome.kind in ("done", "error") else str(outcome)
