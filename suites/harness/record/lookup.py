"""Which stored run a name means. Reads files through `store`; knows no command."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

from engine.suggest import unknown
from suites.harness.errors import UsageError
from suites.harness.record import store
from suites.harness.record.commits import CommitRecord
from suites.harness.record.launches import KernelRecord, NodeRecord
from suites.harness.record.schema import AblationRecord
from suites.harness.record.store import Run

LAST = "last"
HELP = f"by name, by the beginning of a name, by path, `{LAST}` or `{LAST}:SUITE`"
"""How a run may be named, for the help of commands."""
NEAREST = 5
"""Names that the message about an unknown one gives."""
LIKENESS = 0.5
"""How much of the unknown one a name must have, as difflib measures it, to be given in the message."""
MOST_MATCHES = 10
"""Names that the message about an ambiguous one gives."""
_MAKES_ONE = "`enginebench run SUITE` makes one"
_ABLATION = "ablate_"
HISTORY = "history"
"""Suite of the runs of ``enginebench history``."""


def find_run(
    results: Path, name: str, is_suitable: Callable[[Run], bool] = lambda _: True, required: str = "can be read"
) -> Run:
    """The run that `name` means.

    Args:
        results: the results folder.
        name: a path; a name, or the beginning of one that only one run has; ``last``, the newest run of this machine;
            ``last:SUITE``, the newest one of that suite; the beginning of a suite's name is enough if no other suite of
            the runs begins with it.
        is_suitable: which runs ``last`` may choose; a name or a path may mean any run. ``last``
            never means a file that cannot be read.
        required: what `is_suitable` asks for, for messages: the end of a sentence that begins with "no run".

    Raises:
        UsageError: no run or suite, or several ones, have the name.
    """
    if not name:
        raise UsageError(f"RUN '': expected a run {HELP}, got an empty text; `enginebench list runs` shows all")
    given = Path(name)
    if given.suffix == ".jsonl" and given.is_file():
        return store.read(given)
    if given.is_dir():
        raise UsageError(f"{name}: a folder; expected the name of a run, or the path of a .jsonl file")
    if given.exists():
        raise UsageError(f"{name}: no record; expected the name of a run, or the path of a .jsonl file")
    if given.parent != Path():
        raise UsageError(f"{name}: no such file")
    word, colon, suite = name.partition(":")
    if word == LAST:
        return _find_last(results, suite if colon else None, is_suitable, required)
    files = {path.stem: path for path in store.all_run_files(results)}
    stem = name.removesuffix(".jsonl")
    found = [stem] if stem in files else [one for one in files if name and one.startswith(name)]
    if len(found) == 1:
        return store.read(files[found[0]])
    if found:
        shown = sorted(found, reverse=True)[:MOST_MATCHES]
        more = f" and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
        names = f"{', '.join(shown)}{more}"
        raise UsageError(f"run {name!r} is the beginning of {len(found)} names: {names}. Give more of one")
    if not files:
        raise UsageError(f"unknown run {name!r}: there are no runs under {results}; {_MAKES_ONE}")
    if len(files) == 1:
        raise UsageError(f"unknown run {name!r}; the only run under {results} is {next(iter(files))}")
    near = difflib.get_close_matches(name, [LAST, *files], n=NEAREST, cutoff=LIKENESS)
    if name in {name_suite(path) for path in files.values()}:
        near = [f"{LAST}:{name}"]
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    raise UsageError(f"unknown run {name!r}{hint} `enginebench list runs` shows all {len(files)}")


def _find_last(results: Path, suite: str | None, is_suitable: Callable[[Run], bool], required: str) -> Run:
    files = [path for path in store.run_files(results) if store.read_start(path.stem) is not None]
    if not files:
        raise UsageError(f"no run of this machine under {results}; {_MAKES_ONE}")
    known = {name_suite(path) for path in files}
    if suite is not None:
        suite = _complete_suite(suite, known)
    for path in reversed(files):
        if suite in (None, name_suite(path)):
            run = store.read_if_possible(path)
            if run is not None and is_suitable(run):
                return run
    of_suite = f" of suite {suite}" if suite is not None else ""
    raise UsageError(f"no run{of_suite} of this machine under {results} {required}")


def _complete_suite(given: str, known: set[str]) -> str:
    """The suite of `known` that is called `given`, or else the only one that begins with it."""
    if given in known:
        return given
    matching = sorted(suite for suite in known if given and suite.startswith(given))
    if len(matching) > 1:
        raise UsageError(
            f"suite {given!r} is the beginning of {len(matching)} names: {', '.join(matching)}. Give more of one"
        )
    if not matching:
        raise UsageError(unknown("suite of a stored run", given, known))
    return matching[0]


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


def get_launch_kind(run: Run) -> type[KernelRecord | NodeRecord] | None:
    """Kind of the lines of a run that has no rows: kernels by themselves, or launches of a profile. None for others."""
    if run.summaries() or is_ablation(run) or is_history(run):
        return None
    return next((kind for kind in (KernelRecord, NodeRecord) if run.of(kind)), None)


def describe_kind(run: Run) -> str:
    """What a run without rows is, for messages."""
    if is_ablation(run):
        return "an ablation"
    if is_history(run):
        return "a history of commits"
    texts = {KernelRecord: "kernels by themselves", NodeRecord: "launches of a profile", None: "a run without rows"}
    return texts[get_launch_kind(run)]


def is_shown(run: Run) -> bool:
    """True if the run has rows, or lines of an ablation, a history, kernels or a profile."""
    return count_rows(run) > 0 or bool(run.of(AblationRecord))


def count_rows(run: Run) -> int:
    """How many rows a run has; of a history, kernels or a profile, how many lines of that kind it has instead.

    An ablation that reached no switch timed nothing. It has no rows, though it has lines of kind `ablation`.
    """
    counts = (len(run.of(kind)) for kind in (CommitRecord, KernelRecord, NodeRecord))
    return len(run.summaries()) or next((count for count in counts if count), 0)
