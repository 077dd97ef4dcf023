"""Which commits of a repository a history looks at. Builds nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from suites.backends import revisions
from suites.harness.errors import UsageError
from suites.harness.record import machine
from suites.harness.record.system import output

ENGINE = ("engine", "csrc", "CMakeLists.txt")
"""What an engine is made of. A commit that changes nothing of it has the engine of its parent."""


@dataclass(frozen=True)
class Commit:
    """A commit of the first-parent history.

    Attributes:
        name: full name.
        date: when it was committed.
        subject: first line of its message.
        skipped: commits between the one before it in the list and this one that change the engine.
    """

    name: str
    date: datetime
    subject: str
    skipped: int = 0


def find_repository(given: Path | None) -> Path:
    """The checkout whose commits are measured: `given`, the one that this package lies in, or the current folder."""
    return (given or machine.checkout() or Path.cwd()).resolve()


def has_changes(repository: Path) -> bool:
    """True if files of the engine in `repository` differ from its HEAD."""
    return bool(output("git", "-C", str(repository), "status", "--porcelain", "--", *ENGINE))


def list_commits(repository: Path, since: str, until: str = "HEAD", every: int = 1) -> list[Commit]:
    """The commits that change the engine, oldest first: `since`, then those after it up to `until`.

    Of a merged branch the merge counts, not its commits. With `every` = n, only each n-th commit is in the list, and
    always the last one.

    Raises:
        UsageError: no such commit; `since` is no ancestor of `until`, or nothing between them changes the engine.
    """
    first, last = (revisions.find_commit(repository, text) for text in (since, until))
    if first is None or last is None:
        unknown = f"--since {since!r}" if first is None else f"--until {until!r}"
        raise UsageError(f"{unknown}: no such commit of {repository}")
    later = _log(repository, f"{first}..{last}", "--", *ENGINE)
    if not later or output("git", "-C", str(repository), "merge-base", "--is-ancestor", first, last) is None:
        raise UsageError(f"no commit from {since} to its descendant {until} changes {', '.join(ENGINE)}")
    commits = [*_log(repository, "-1", first), *later]
    chosen = [index for index in range(len(commits)) if index % every == 0 or index == len(commits) - 1]
    skipped = [later - earlier - 1 for earlier, later in itertools.pairwise(chosen)]
    return [replace(commits[index], skipped=count) for index, count in zip(chosen, [0, *skipped], strict=True)]


def _log(repository: Path, *arguments: str) -> Sequence[Commit]:
    """Commits as git lists them, the oldest first."""
    form = "--format=%H%x1f%cI%x1f%s"
    text = output("git", "-C", str(repository), "log", "--first-parent", "--reverse", form, *arguments) or ""
    rows = [line.split("\x1f", 2) for line in text.splitlines() if line.strip()]
    return [Commit(name, datetime.fromisoformat(date), subject) for name, date, subject in rows]
