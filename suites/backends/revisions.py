"""Engines of git revisions: for each commit a worktree with its extension and an environment, built once and kept.

The environment has this one's interpreter and packages, and the worktree in front of them, so commits differ in nothing
but the engine. Commits with equal sources in C share one extension.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from suites import paths
from suites.harness.errors import UsageError
from suites.harness.files import resolve_links
from suites.harness.record import machine, reasons
from suites.harness.record.system import describe_system, output

NATIVE = ("csrc", "CMakeLists.txt")
"""What an extension is built from, besides the compiler and the interpreter."""
_SAID = 12
"""Number of last lines of a failed build that become its reason."""


class CannotBuild(UsageError):
    """The engine of a commit cannot be built; the message is the reason."""


def kept_folder() -> Path:
    """Where worktrees and extensions are kept. They can be made again."""
    return resolve_links(paths.user_cache() / "revisions")


def find_commit(repository: Path, revision: str) -> str | None:
    """The full name of the commit that `revision` means in `repository`; None if it means none."""
    return _ask_git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")


def find_folder(repository: Path, commit: str) -> Path:
    """The folder in which `prepare` builds, or has built, the engine of a commit."""
    # Worktrees belong to one repository, so each has a folder of its own.
    common = _ask_git(repository, "rev-parse", "--path-format=absolute", "--git-common-dir") or str(repository)
    return kept_folder() / hashlib.sha256(common.encode()).hexdigest()[:12] / commit[:12]


def prepare(repository: Path, commit: str, say: Callable[[str], object] = lambda _: None) -> Path:
    """The folder of the engine of a commit: a worktree with an extension and ``.venv/bin/python``.

    `say` is called with a message before each slow step.

    Raises:
        CannotBuild: git, the compiler or the build fails, or the cache cannot be written.
    """
    folder = find_folder(repository, commit)
    try:
        with _locked(folder):
            _check_out(repository, commit, folder)
            library = _find_extension(folder, commit, say)
            shutil.copy(library, folder / "engine" / library.name)
            _link_environment(folder)
    except OSError as error:
        raise CannotBuild(str(error)) from error
    return folder


def name_extension(repository: Path, commit: str) -> str:
    """The name under which the extension of a commit is kept. It follows from sources, compiler and interpreter."""
    sources = [_ask_git(repository, "rev-parse", f"{commit}:{path}") for path in NATIVE]
    made_by = [sys.version, describe_system()["compiler"], machine.facts()]
    return hashlib.sha256(repr([sources, made_by]).encode()).hexdigest()[:16]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time prepares a commit; another one waits, and finds it prepared."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _check_out(repository: Path, commit: str, folder: Path) -> None:
    """Make `folder` a worktree of the commit, unless it is one without changes."""
    if folder.is_dir():
        is_clean = _ask_git(folder, "status", "--porcelain") == ""
        if is_clean and _ask_git(folder, "rev-parse", "HEAD") == commit:
            return
        shutil.rmtree(folder)
    _ask_git(repository, "worktree", "prune")
    _run(["git", "-C", str(repository), "worktree", "add", "--detach", "--force", str(folder), commit], "git worktree")


def _find_extension(folder: Path, commit: str, say: Callable[[str], object]) -> Path:
    """The file of the extension of the commit in `folder`, built if none is kept."""
    kept = kept_folder() / "extensions" / name_extension(folder, commit)
    found = next(iter(kept.glob("_native*")), None)
    if found is not None:
        return found
    say(f"{commit[:12]}: building its extension, which takes some minutes")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        _run([*pip, "--wheel-dir", name, str(folder)], "the build")
        (path,), made = Path(name).glob("*.whl"), Path(name) / "made"
        made.mkdir()
        with zipfile.ZipFile(path) as wheel:
            member = next(one for one in wheel.namelist() if one.startswith("engine/_native"))
            (made / Path(member).name).write_bytes(wheel.read(member))
        made.rename(kept)  # appears only when it is complete
    return kept / Path(member).name


def _link_environment(folder: Path) -> None:
    """Give the worktree an environment: this interpreter, the worktree, then the packages of this environment."""
    environment = folder / ".venv"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = environment / "lib" / version / "site-packages"
    packages.mkdir(parents=True, exist_ok=True)
    (environment / "bin").mkdir(exist_ok=True)
    interpreter, link = Path(sys.executable).resolve(), environment / "bin" / "python"
    link.unlink(missing_ok=True)
    link.symlink_to(interpreter)
    (environment / "pyvenv.cfg").write_text(f"home = {interpreter.parent}\n", encoding="utf-8")
    others = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (packages / "revision.pth").write_text("\n".join([str(folder), *others]) + "\n", encoding="utf-8")


def _run(command: list[str], what: str) -> None:
    """Run a command; CannotBuild with the end of what it printed if it fails."""
    # without what would bring in packages or a repository of this process
    left_out = ("PYTHONPATH", "PYTHONHOME", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    own = {name: value for name, value in os.environ.items() if name not in left_out}
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=own)
    if ended.returncode:
        said = [line.strip() for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
        cause = reasons.find_cause("\n".join(said))
        how = f"{what} ended with exit status {ended.returncode}:{f' {cause}' if cause else ''}"
        raise CannotBuild("\n".join([how, *said[-_SAID:]]))


def _ask_git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None if it fails or is not installed."""
    text = output("git", "-C", str(folder), *arguments)
    return None if text is None else text.strip()
