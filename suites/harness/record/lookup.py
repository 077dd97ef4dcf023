"""Which stored run a name means. Reads files through `store`; knows no command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.suggest import unknown_of_many
from suites.harness.errors import UsageError
from suites.harness.record import store
from suites.harness.record.commits import CommitRecord
from suites.harness.record.launches import KernelRecord, NodeRecord, OperationRecord
from suites.harness.record.schema import AblationRecord
from suites.harness.record.store import Run

LAST = "last"
HELP = f"by name, by a part of it that no other has, by path, `{LAST}` or `{LAST}:SUITE`"
"""How a run may be named, for the help of commands."""
MOST_MATCHES = 10
"""Names that the message about an ambiguous one gives, newest first."""
_ABLATION = "ablate_"
HISTORY = "history"
"""Suite of the runs of ``enginebench history``."""


def find_run(
    results: Path, name: str, is_suitable: Callable[[Run], bool] = lambda _: True, required: str = "can be read"
) -> Run:
    """The run that `name` means.

    Args:
        results: the results folder.
        name: a path of a ``.jsonl`` file; a name, or a part of one that no other run has; ``last``, the newest run of
            this machine; ``last:SUITE``, the newest one of that suite.
        is_suitable: which runs ``last`` may choose; a name or a path may mean any run. ``last`` never means a file that
            cannot be read, or that somebody renamed.
        required: what `is_suitable` asks for, for messages: the end of a sentence that begins with "no run".

    Raises:
        UsageError: no run, or several ones, have the name.
    """
    path = Path(name)
    if path.suffix == ".jsonl" and (path.is_file() or path.parent != Path()):
        return store.read(path)
    if path.parent != Path():
        raise UsageError(f"{name}: expected the name of a run, or a file NAME.jsonl")
    word, _, suite = name.partition(":")
    if word == LAST:
        for path in reversed(store.run_files(results)):
            if store.read_start(path.stem) is not None and suite in ("", name_suite(path)):
                run = store.read_if_possible(path)
                if run is not None and is_suitable(run):
                    return run
        of_suite = f" of suite {suite}" if suite else ""
        raise UsageError(f"no run{of_suite} of this machine under {results} {required}")
    files = {path.stem: path for path in store.all_run_files(results)}
    found = [name] if name in files else sorted(stem for stem in files if name in f"{stem}.jsonl")
    if len(found) > 1:
        newest = ", ".join(found[: -1 - MOST_MATCHES : -1])
        raise UsageError(f"run {name!r} is a part of {len(found)} names, such as {newest}. Give more of one")
    if not found:
        raise UsageError(unknown_of_many("run", name, [LAST, *files], "enginebench list runs"))
    return store.read(files[found[0]])


def name_suite(path: Path) -> str:
    """The suite in the name of a run file: ``bert`` of ``20261121T151300Z_9674469a4d12-dirty_bert.jsonl``."""
    return path.stem.split("_", 2)[-1]


def is_ablation(run: Run) -> bool:
    """True if the run belongs to an ablation, which may have been interrupted before its lines were written."""
    return run.environment.suite.startswith(_ABLATION) or bool(run.of(AblationRecord))


def is_history(run: Run) -> bool:
    """True if the run follows the engine over commits. An interrupted one has no lines of kind `commit`."""
    return run.environment.suite == HISTORY or bool(run.of(CommitRecord))


def is_measurement(run: Run) -> bool:
    """True if the run has rows and is neither an ablation nor a history."""
    return bool(run.summaries()) and not is_ablation(run) and not is_history(run)


Launch = type[KernelRecord] | type[NodeRecord] | type[OperationRecord]

_LAUNCHES: dict[Launch, str] = {
    KernelRecord: "kernels by themselves",
    NodeRecord: "launches of a profile",
    OperationRecord: "operations by themselves",
}
"""Kinds of lines of runs without cases, for messages."""


def get_launch_kind(run: Run) -> Launch | None:
    """Kind of the lines of a run that has no rows: kernels, launches or operations. None for other runs."""
    if run.summaries() or is_ablation(run) or is_history(run):
        return None
    return next((kind for kind in _LAUNCHES if run.of(kind)), None)


def describe_kind(run: Run) -> str:
    """What a run without rows is, for messages."""
    if is_ablation(run):
        return "an ablation"
    if is_history(run):
        return "a history of commits"
    kind = get_launch_kind(run)
    return "a run without rows" if kind is None else _LAUNCHES[kind]


def is_shown(run: Run) -> bool:
    """True if the run has rows, or lines of an ablation, a history, kernels or a profile."""
    return count_rows(run) > 0 or bool(run.of(AblationRecord))


def count_rows(run: Run) -> int:
    """How many rows a run has; of a history, kernels or a profile, how many lines of that kind it has instead.

    An ablation that reached no switch timed nothing. It has no rows, though it has lines of kind `ablation`.
    """
    counts = (len(run.of(kind)) for kind in (CommitRecord, *_LAUNCHES))
    return len(run.summaries()) or next((count for count in counts if count), 0)
