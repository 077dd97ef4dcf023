"""Which stored run a name means. Reads files through `store`; knows no command."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

from engine.suggest import unknown
from suites.harness.errors import UsageError
from suites.harness.record import store
from suites.harness.record.schema import AblationRecord
from suites.harness.record.store import Run

LAST = "last"
HELP = f"by name, by the beginning of a name, by path, `{LAST}` or `{LAST}:SUITE`"
"""How a run may be named, for the help of commands."""
NEAREST = 5
"""Names that the message about an unknown one gives."""
MOST_MATCHES = 10
"""Names that the message about an ambiguous one gives."""
_ABLATION = "ablate_"


def find_run(
    results: Path, name: str, is_suitable: Callable[[Run], bool] = lambda _: True, wanted: str = "a run"
) -> Run:
    """The run that `name` means.

    Args:
        results: the results folder.
        name: a path; a name, or the beginning of one that only one run has; ``last``, the newest run of this machine;
            ``last:SUITE``, the newest one of that suite.
        is_suitable: which runs ``last`` may choose; a name or a path may mean any run. ``last``
            never means a file that cannot be read.
        wanted: what `is_suitable` asks for, for messages.

    Raises:
        UsageError: no run, or several ones, have the name.
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
        return _find_last(results, suite if colon else None, is_suitable, wanted)
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
        raise UsageError(f"unknown run {name!r}: there are no runs under {results}")
    if len(files) == 1:
        raise UsageError(f"unknown run {name!r}; the only run under {results} is {next(iter(files))}")
    near = difflib.get_close_matches(name, files, n=NEAREST, cutoff=0.0)
    raise UsageError(
        f"unknown run {name!r}; did you mean {' or '.join(near)}? `enginebench list runs` shows all {len(files)}"
    )


def _find_last(results: Path, suite: str | None, is_suitable: Callable[[Run], bool], wanted: str) -> Run:
    files = [path for path in store.run_files(results) if store.read_start(path.stem) is not None]
    if not files:
        raise UsageError(f"no run of this machine under {results}")
    known = {name_suite(path) for path in files}
    if suite is not None and suite not in known:
        raise UsageError(unknown("suite of a stored run", suite, known))
    for path in reversed(files):
        if suite in (None, name_suite(path)):
            run = store.read_if_possible(path)
            if run is not None and is_suitable(run):
                return run
    of_suite = f" of suite {suite}" if suite is not None else ""
    raise UsageError(f"no run{of_suite} of this machine under {results} is {wanted}")


def name_suite(path: Path) -> str:
    """The suite in the name of a run file: ``bert`` of ``20261121T151300Z_9674469a4d12-dirty_bert.jsonl``."""
    return path.stem.split("_", 2)[-1]


def is_ablation(run: Run) -> bool:
    """True if the run belongs to an ablation, which may have been interrupted before its lines were written."""
    return run.environment.suite.startswith(_ABLATION) or bool(run.of(AblationRecord))


def is_measurement(run: Run) -> bool:
    """True if the run has rows and is no ablation."""
    return bool(run.summaries()) and not is_ablation(run)


def is_shown(run: Run) -> bool:
    """True if the run has rows, or lines of an ablation."""
    return bool(run.summaries() or run.of(AblationRecord))
